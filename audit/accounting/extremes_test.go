package accounting

import (
	"math"
	"strings"
	"testing"
)

// TestExtremes composes Gaussians, whose ε is known, as if they were sampled,
// where the grid for MaxWidth would be too large, and where e^ε is beyond
// float64: the bounds still enclose ε, and say so if they are wide.
func TestExtremes(t *testing.T) {
	wide := 0
	for _, c := range []struct {
		s     float64
		steps int
		delta float64
	}{
		{1e4, maxCount, 1e-9}, {2e3, maxCount, 1e-5},
		{.1, 12, 1e-5}, {.1, 50, 1e-5}, {.1, 1000, 1e-12},
	} {
		f, err := flatten(DPSGD(1, c.s, c.steps))
		if err != nil {
			t.Fatal(err)
		}
		curve, err := newGridCurve(f, c.delta)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		v, err := curve.Epsilon(c.delta)
		if err != nil {
			t.Fatal(err)
		}
		if !(curve.points() <= maxPoints) {
			t.Errorf("%+v: %g points", c, curve.points())
		}
		said := strings.Contains(curve.Method(), "apart")
		if width := v.Upper - v.Lower; said != (width > MaxWidth) || !(width <= widest) {
			t.Errorf("%+v: width %g by %s", c, width, curve.Method())
		}
		if said {
			wide++
		}
		exact := gaussianEpsilon(math.Sqrt(float64(c.steps))/c.s, c.delta)
		// Planted: an interval moved by its own width must be noticed.
		holds := func(shift float64) bool {
			tol := 1e-9 * math.Max(1, exact)
			return v.Lower+shift <= exact+tol && exact <= v.Upper+shift+tol
		}
		if width := v.Upper - v.Lower; !holds(0) || holds(1.01*width+1e-8*exact) || holds(-1.01*width-1e-8*exact) {
			t.Errorf("%+v: %+v for %.12g", c, v, exact)
		}
		if d, err := curve.Delta(exact); err != nil || !(d.Lower <= c.delta*(1+1e-9) && c.delta <= d.Upper*(1+1e-9)) {
			t.Errorf("%+v: δ %+v, %v", c, d, err)
		}
		if b, err := curve.TradeOff(0); err != nil || !(b >= 1-c.delta && b <= 1) {
			t.Errorf("%+v: trade-off at 0 is %g, %v", c, b, err)
		}
	}
	if wide < 2 {
		t.Errorf("%d wide intervals", wide)
	}
}

// TestLargestCalibration: the search for noise fits its grids, too.
func TestLargestCalibration(t *testing.T) {
	n := Noise{SampleRate: 1 - 1e-9, Steps: maxCount, Delta: 1e-5}
	f, err := flatten(DPSGD(n.SampleRate, 1.1e4, n.Steps))
	if err != nil {
		t.Fatal(err)
	}
	eps, err := n.estimate(1.1e4)
	if err != nil {
		t.Fatal(err)
	}
	mu, _ := flat{phases: []phase{{Gaussian{NoiseMultiplier: 1.1e4}, f.phases[0].count}}}.gaussians()
	// Rounding moves δ by up to maxCount/2^51 = 4e-8, and ε by less than δ'/δ/4.
	if err := differ(eps, gaussianEpsilon(mu, n.Delta), 1e-3); err != nil {
		t.Error(err)
	}
}

// TestNextToNothing: releases that hardly any δ can tell have an ε of 0, or below
// 1e-9.
func TestNextToNothing(t *testing.T) {
	for _, q := range []float64{1e-13, 1e-15, 1e-16, 1e-17, 1e-18, 1e-300} {
		for _, steps := range []int{1, 10, 100, 10000} {
			v, err := tight(DPSGD(q, 1, steps), 1e-12)
			if err != nil || !(v.Lower <= 1e-9 && v.Upper >= 0 && v.Upper-v.Lower <= MaxWidth) || math.IsNaN(v.Estimate) {
				t.Errorf("rate %v, %d steps: %+v, %v", q, steps, v, err)
			}
		}
	}
}
