package accounting

import (
	"math"
	"strings"
	"testing"
)

var oddFloats = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.Copysign(0, -1), 5e-324, 1e-300, 1e-3,
	.5, 1, math.Nextafter(1, 2), 2, 1e9, 1e300}

// check runs every accountant on one mechanism. An error must name a parameter;
// otherwise all numbers must be ordered, and no NaN.
func check(t *testing.T, q, s float64, steps int, delta float64) {
	t.Helper()
	names := []string{"sample rate", "noise", "steps", "delta"}
	named := func(what string, err error) {
		for _, name := range names {
			if strings.Contains(err.Error(), name) {
				return
			}
		}
		t.Errorf("%s of q %g, noise %g, %d steps, delta %g: error names no parameter: %v", what, q, s, steps, delta, err)
	}
	fine := func(what string, values ...float64) {
		for i, v := range values {
			if math.IsNaN(v) || i > 0 && v < values[i-1] {
				t.Errorf("%s of q %g, noise %g, %d steps, delta %g: %v", what, q, s, steps, delta, values)
			}
		}
	}
	e := DPSGD(q, s, steps)
	if v, err := tight(e, delta); err != nil {
		named("PRV", err)
	} else {
		fine("PRV", 0, v.Lower, v.Estimate, v.Upper)
		if free := q == 0 || steps == 0 || math.IsInf(s, 1); free && v.Upper != 0 {
			t.Errorf("q %g, noise %g, %d steps cost %g", q, s, steps, v.Upper)
		}
		if s == 0 && q > delta && steps > 0 && !math.IsInf(v.Lower, 1) {
			t.Errorf("q %g, %d steps without noise cost %g", q, steps, v.Lower)
		}
	}
	if v, err := Opacus(e, delta); err != nil {
		named("Opacus", err)
	} else {
		fine("Opacus", v.Lower, v.Estimate, v.Upper)
	}
	if eps, _, err := RDPEpsilon(e, delta); err != nil {
		named("RDP", err)
	} else {
		fine("RDP", 0, eps)
	}
	if g, err := GDPEpsilon(e, delta); err != nil {
		named("GDP", err)
	} else {
		fine("GDP", 0, g.Epsilon)
	}
	if remove, add, err := SingleRelease(PoissonSampledGaussian{SampleRate: q, NoiseMultiplier: s}, delta); err != nil {
		named("single", err)
	} else {
		fine("remove", 0, remove)
		fine("add", 0, add)
	}
}

func TestOddNumbers(t *testing.T) {
	for _, v := range oddFloats {
		check(t, v, 1, 3, 1e-5)
		check(t, .1, v, 3, 1e-5)
		check(t, .1, v, 1, .3)
		check(t, 1, v, 2, 1e-5)
		check(t, .1, 1, 3, v)
	}
	for _, steps := range []int{math.MinInt, -1, 0, 1, maxCount + 1, 1 << 40, math.MaxInt} {
		check(t, .1, 1, steps, 1e-5)
	}
	// Too fine a grid is refused, by name.
	_, err := tight(DPSGD(.9, .05, maxCount), 1e-12)
	if err == nil || !strings.Contains(err.Error(), "noise 0.05, 100000000 steps") || !strings.Contains(err.Error(), "grid") {
		t.Errorf("error %v does not say whose grid is too fine", err)
	}
	for _, v := range oddFloats {
		e := SelfComposed{Laplace{Scale: v}, 2}
		if got, err := tight(e, 1e-5); err != nil {
			if !strings.Contains(err.Error(), "scale") {
				t.Errorf("Laplace of scale %g: %v", v, err)
			}
		} else if !(got.Lower <= got.Upper && got.Upper <= 2/math.Abs(v)+MaxWidth) {
			t.Errorf("Laplace of scale %g costs %+v", v, got)
		}
		c := &Curve{mu: 1}
		if d, err := c.Delta(v); err == nil && !(d.Upper >= 0 && d.Upper <= 1) {
			t.Errorf("δ at ε = %g: %v", v, d)
		}
		if f, err := c.TradeOff(v); err == nil && !(f >= 0 && f <= 1) {
			t.Errorf("trade-off at %g: %v", v, f)
		}
	}
}

// TestLimits: as noise vanishes, what is left is the chance to be sampled; as it
// grows, nothing.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		q, s  float64
		steps int
		delta float64
		want  float64
	}{
		{.01, 0, 1, .02, 0}, {.01, 0, 1, .005, math.Inf(1)}, {.01, 0, 3, .02, math.Inf(1)}, {.01, 0, 3, .03, 0},
		{.1, 1e5, 10, 1e-5, 0}, {1, 0, 1, .5, math.Inf(1)}, {0, 0, 5, 1e-5, 0}, {.1, 0, 0, 1e-5, 0},
	} {
		v, err := tight(DPSGD(c.q, c.s, c.steps), c.delta)
		if err != nil {
			t.Fatal(err)
		}
		if v.Upper != c.want || v.Lower != c.want {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	// Rate 1 is the limit of rates near 1.
	near, err := tight(DPSGD(1-1e-9, 2, 4), 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	if err := differ(near.Estimate, gaussianEpsilon(1, 1e-5), 1e-6); err != nil {
		t.Error(err)
	}
}

func FuzzAccountants(f *testing.F) {
	f.Add(.01, 1.0, 100, 1e-5)
	f.Add(1.0, .3, 2, 1e-11)
	f.Add(1e-9, 50.0, 100000, 1e-7)
	f.Add(.5, .03, 1, 1e-5)
	f.Fuzz(func(t *testing.T, q, s float64, steps int, delta float64) { check(t, q, s, steps%100000, delta) })
}
