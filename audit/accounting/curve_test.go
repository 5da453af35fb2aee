package accounting

import (
	"math"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	// A Gaussian costs as one of half the noise.
	v, err := tight(Gaussian{NoiseMultiplier: 1, Relation: Replace}, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	if err := differ(v.Upper, 9.9972561464, 1e-9); err != nil {
		t.Error(err)
	}
	a, err := tight(SelfComposed{Laplace{Scale: 4, Relation: Replace}, 5}, 1e-4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tight(SelfComposed{Laplace{Scale: 2}, 5}, 1e-4)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("Laplace of scale 4 under replace: %+v, of scale 2 under add/remove: %+v", a, b)
	}
	// A sampled Gaussian: (2ε, (1+e^ε)δ), where δ(ε) is known in closed form.
	const delta = 1e-5
	c, err := NewCurve(PoissonSampledGaussian{SampleRate: .1, NoiseMultiplier: 1, Relation: Replace}, delta)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Epsilon(delta)
	if err != nil {
		t.Fatal(err)
	}
	want := 2 * solve(delta, func(eps float64) float64 {
		return (1 + math.Exp(eps)) * sampledGaussian{.1, 1}.removeDelta(eps)
	})
	if err := differ(got.Upper, want, 1e-6); err != nil {
		t.Error(err)
	}
	if !(got.Lower < 1.6845439 && got.Lower > 1.68454) || !strings.Contains(c.Method(), "generic") {
		t.Errorf("%+v by %q", got, c.Method())
	}
	d, err := c.Delta(got.Upper)
	if err != nil {
		t.Fatal(err)
	}
	if err := differ(d.Upper, delta, 1e-8*delta); err != nil {
		t.Errorf("delta at epsilon: %v", err)
	}
	for name, f := range map[string]func() error{
		"RDP":    func() error { _, _, err := RDPEpsilon(sampledReplace, delta); return err },
		"RDP(a)": func() error { _, err := RDP(sampledReplace, 2); return err },
		"GDP":    func() error { _, err := GDPEpsilon(sampledReplace, delta); return err },
		"Opacus": func() error { _, err := Opacus(sampledReplace, delta); return err },
		"single": func() error { _, _, err := SingleRelease(sampledReplace, delta); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "replace") {
			t.Errorf("%s of a sampled event under replace: %v", name, err)
		}
	}
}

var sampledReplace = PoissonSampledGaussian{SampleRate: .1, NoiseMultiplier: 1, Relation: Replace}

// stranger is an event that no accountant knows.
type stranger struct{}

func (stranger) Name() string { return "stranger" }

func TestUnknownEvents(t *testing.T) {
	for want, e := range map[string]Event{
		"accounting.stranger": Composed{Gaussian{NoiseMultiplier: 1}, SelfComposed{stranger{}, 3}},
		"<nil>":               SelfComposed{nil, 2},
		"one relation":        Composed{Gaussian{NoiseMultiplier: 1}, Laplace{Scale: 1, Relation: Replace}},
		"Relation(7)":         Laplace{Scale: 1, Relation: 7},
	} {
		for name, f := range accountants {
			if err := f(e, 1e-5); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v does not say %q", name, err, want)
			}
		}
	}
	for name, f := range map[string]func() error{
		"Opacus": func() error { _, err := Opacus(Laplace{Scale: 1}, 1e-5); return err },
		"GDP":    func() error { _, err := GDPEpsilon(Laplace{Scale: 1}, 1e-5); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "accounting.Laplace") {
			t.Errorf("%s of Laplace: %v", name, err)
		}
	}
}

var accountants = map[string]func(e Event, delta float64) error{
	"PRV":    func(e Event, delta float64) error { _, err := NewCurve(e, delta); return err },
	"RDP":    func(e Event, delta float64) error { _, _, err := RDPEpsilon(e, delta); return err },
	"GDP":    func(e Event, delta float64) error { _, err := GDPEpsilon(e, delta); return err },
	"Opacus": func(e Event, delta float64) error { _, err := Opacus(e, delta); return err },
}

// TestTradeOff compares with the Neyman-Pearson test of one release, and with
// the Gaussian composed on a grid.
func TestTradeOff(t *testing.T) {
	g := sampledGaussian{.1, 1}
	c, err := NewCurve(DPSGD(g.q, g.s, 1), 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	last, slope := 1.0, math.Inf(-1)
	for i := 1; i < 100; i++ {
		fpr := float64(i) / 100
		got, err := c.TradeOff(fpr)
		if err != nil {
			t.Fatal(err)
		}
		// Reject outcomes above x; or, to find that a record is missing, below y.
		// Between their points of slope -1 runs a line.
		x := upperQuantile(fpr)
		remove := (1-g.q)*(1-fpr) + g.q*upperTail(1-x)
		low, high := -9.0, 9.0
		for range 100 { // the y with P[< y] = fpr under the mixture
			if y := (low + high) / 2; (1-g.q)*upperTail(-y)+g.q*upperTail(1-y) < fpr {
				low = y
			} else {
				high = y
			}
		}
		want := math.Min(remove, upperTail(low))
		if fpr > upperTail(.5) && fpr < (1-g.q)*upperTail(-.5)+g.q*upperTail(.5) {
			want = 1 - g.singleDelta(0, false) - fpr
		}
		if !(got <= want+1e-12 && got >= want-1e-6) {
			t.Errorf("fpr %g: %.9f, want %.9f", fpr, got, want)
		}
		if !(got < last && got-last >= slope-1e-9) {
			t.Errorf("fpr %g: %g after %g is not convex and falling", fpr, got, last)
		}
		slope, last = got-last, got
	}
	f, err := flatten(SelfComposed{Gaussian{NoiseMultiplier: 4}, 16})
	if err != nil {
		t.Fatal(err)
	}
	grid, err := newGridCurve(f, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := NewCurve(SelfComposed{Gaussian{NoiseMultiplier: 4}, 16}, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	for _, fpr := range []float64{0, 1e-6, .001, .1, .5, .9, 1} {
		a, err := grid.TradeOff(fpr)
		if err != nil {
			t.Fatal(err)
		}
		b, err := exact.TradeOff(fpr)
		if err != nil {
			t.Fatal(err)
		}
		if !(a <= b+1e-12 && a >= b-1e-5) {
			t.Errorf("fpr %g: %.9f on a grid, %.9f exactly", fpr, a, b)
		}
	}
}

// TestDelta compares δ(ε) with Opacus' estimates, whose grid of 0.01 moves ε by
// some 3e-6 and δ by as much for each unit of -d ln δ/dε, here up to 10.
func TestDelta(t *testing.T) {
	for e, want := range map[Event][4]float64{
		DPSGD(.1, 1, 1):      {2.0325749345e-3, 2.0712418653e-4, 2.2848628589e-5, 2.3552263601e-6},
		DPSGD(.1, 1.1088, 6): {1.1055311529e-2, 1.0995652449e-3, 1.0478475066e-4, 9.5180836432e-6},
	} {
		c, err := NewCurve(e, 1e-6)
		if err != nil {
			t.Fatal(err)
		}
		for i, eps := range []float64{.5, 1, 1.5, 2} {
			d, err := c.Delta(eps)
			if err != nil {
				t.Fatal(err)
			}
			if err := differ(d.Estimate, want[i], 4e-5*want[i]); err != nil {
				t.Errorf("%s, eps %g: %v", e.Name(), eps, err)
			}
			back, err := c.Epsilon(d.Upper)
			if err != nil {
				t.Fatal(err)
			}
			if err := differ(back.Upper, eps, 1e-9); err != nil {
				t.Errorf("%s, eps %g and back: %v", e.Name(), eps, err)
			}
		}
	}
}

// TestPhases: order and grouping do not matter; parts cost less than the whole.
func TestPhases(t *testing.T) {
	a, b := DPSGD(.02, 1.2, 300), DPSGD(.05, 2, 200)
	both, err := tight(Composed{a, Gaussian{NoiseMultiplier: 20}, b}, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	again, err := tight(Composed{b, SelfComposed{Composed{DPSGD(.02, 1.2, 100)}, 3}, Gaussian{NoiseMultiplier: 20}}, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	if err := differ(both.Estimate, again.Estimate, 1e-7); err != nil {
		t.Error(err)
	}
	for _, e := range []Event{a, b} {
		one, err := tight(e, 1e-6)
		if err != nil {
			t.Fatal(err)
		}
		if !(one.Upper < both.Lower) {
			t.Errorf("%s: %+v, with more: %+v", e.Name(), one, both)
		}
	}
}

func TestDistributions(t *testing.T) {
	// q = .1, noise 1: P of a loss at most t.
	for loss, want := range map[float64]float64{-.1: .005171428828582, -.05: .401782496206941, 0: .653169969019211,
		.1: .858319052874621, .5: .988104594637363, 1: .998878606566563, 2: .999986662361085} {
		p, q := make([]float64, 2), make([]float64, 2)
		sampledGaussian{.1, 1}.cells(func(int) float64 { return loss }, p, q)
		if err := differ(p[0], want, 1e-14); err != nil {
			t.Errorf("loss %g: %v", loss, err)
		}
	}
	for g, want := range map[sampledGaussian]float64{{.1, 1}: 7.25773048643e-03, {.04, .6}: 6.82723472177e-03, {.01, 1}: 8.38122076508e-05} {
		mean := 0.0
		g.sample(4000, func(loss, p, _ float64) { mean += p * loss })
		if err := differ(mean, want, 1e-13); err != nil {
			t.Errorf("%+v: mean %v", g, err)
		}
	}
}

func TestHockeyStick(t *testing.T) {
	p, q := []float64{.5, .3, .2, 0}, []float64{.1, .3, .5, .1}
	for eps, want := range map[float64]float64{0: .4, math.Log(2): .3, math.Log(5): 0, math.Inf(1): 0, math.Inf(-1): 1} {
		got, err := HockeyStick(p, q, eps)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(got, want, 1e-15); err != nil {
			t.Errorf("eps %g: %v", eps, err)
		}
	}
	for _, bad := range []struct {
		p, q []float64
		eps  float64
	}{{p, q[:2], 0}, {p, q, math.NaN()}, {[]float64{math.NaN()}, []float64{1}, 0}, {[]float64{1}, []float64{-1}, 0}} {
		if _, err := HockeyStick(bad.p, bad.q, bad.eps); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
