package gradcheck

import (
	"errors"
	"math"
	"testing"
)

// square is Σx² at x + t v, and a gradient that is slope·x.
func square(x, v []float64, slope float64) (f func(t float64) (Probe, error), grad []float64) {
	for _, a := range x {
		grad = append(grad, slope*a)
	}
	return func(t float64) (Probe, error) {
		s := 0.0
		for i, a := range x {
			s += (a + t*v[i]) * (a + t*v[i])
		}
		return Probe{Y: []float64{s}}, nil
	}, grad
}

// TestCheckCanFail plants gradients that are wrong by as little as one part in
// 2000; the right slope is 2.
func TestCheckCanFail(t *testing.T) {
	x, v := []float64{1, -2, 3}, []float64{0.3, 0.5, 0.7}
	f, grad := square(x, v, 2)
	if err := Check("right", f, grad, v); err != nil {
		t.Error(err)
	}
	for _, slope := range []float64{2.001, 1.999, -2, 0, math.NaN(), math.Inf(1)} {
		f, grad := square(x, v, slope)
		if Check("wrong", f, grad, v) == nil {
			t.Errorf("slope %v passed", slope)
		}
	}
	if Compare("nothing", nil, nil, 1) == nil {
		t.Error("comparing nothing passed")
	}
	if Compare("NaN", []float64{math.NaN()}, []float64{math.NaN()}, 1) == nil {
		t.Error("NaN passed")
	}
}

func TestFlipIsMeaningless(t *testing.T) {
	relu := func(t float64) (Probe, error) {
		x := 1e-9 + t // the kink is within a step
		return Probe{Y: []float64{max(x, 0)}, Signs: []bool{x > 0}}, nil
	}
	err := Check("relu at its kink", relu, []float64{1}, []float64{1})
	if !errors.Is(err, ErrMeaningless) {
		t.Errorf("a flip gave %v", err)
	}
}
