package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

func lowerOf[D any](t *testing.T, e Estimator[D], d D, alpha float64) float64 {
	t.Helper()
	eps, err := e.Lower(d, alpha)
	if err != nil {
		t.Fatalf("%s of %+v: %v", e.Name(), d, err)
	}
	return eps
}

// TestMahloujifarEpsDelta: near Steinke's bound, the better one by m.
func TestMahloujifarEpsDelta(t *testing.T) {
	for _, o := range oneRunOracle {
		g := Guesses{o.m, o.r, o.v}
		got := lowerOf(t, MahloujifarEpsDelta{1e-5}, g, .05)
		if !(math.Abs(got-o.steinke) <= .02*o.steinke+.03) {
			t.Errorf("%v: %v, Steinke %v", g, got, o.steinke)
		}
	}
}

// TestMahloujifarDPSGD: values of an accountant of another make, printed to four
// decimals; ours are lower ends of intervals of width accounting.MaxWidth, for a
// noise found to 1e-5 of it.
func TestMahloujifarDPSGD(t *testing.T) {
	e := MahloujifarDPSGD{.04, 1250, 1e-5}
	for _, o := range []struct {
		g    Guesses
		want float64
	}{{Guesses{1000, 200, 150}, 1.3043}, {Guesses{1000, 100, 80}, 1.4102}, {Guesses{1000, 1000, 600}, .5854}, {Guesses{1000, 100, 95}, 3.3730}} {
		got := lowerOf(t, e, o.g, .05)
		if !(math.Abs(got-o.want) <= 5e-5+accounting.MaxWidth+2e-5*o.want) {
			t.Errorf("%v: %v, want %v", o.g, got, o.want)
		}
	}
	g := Guesses{1000, 200, 150}
	low, last := lowerOf(t, e, g, .05), 0.0
	for _, eps := range []float64{.5, low, 2, 4} {
		p, err := e.PValue(g, eps)
		if err != nil || !(p > last) || (eps == low && !(p >= .05 && p <= .0502)) {
			t.Errorf("p at %v: %v, %v, after %v", eps, p, err, last)
		}
		last = p
	}
}

// TestOneRunMonotone: p-values grow with ε, and are α at the bound.
func TestOneRunMonotone(t *testing.T) {
	for _, e := range []Estimator[Guesses]{Steinke{1e-5}, Steinke{}, MahloujifarEpsDelta{1e-5}, MahloujifarGDP{1e-5}, XiangIID{1e-5}} {
		for _, g := range []Guesses{{1000, 200, 150}, {1000, 1000, 600}, {100, 20, 19}, {50, 50, 50}} {
			last := 0.0
			for eps := 0.0; eps < 6; eps += .1 {
				p, err := e.PValue(g, eps)
				if err != nil || !(p >= last-1e-12 && p <= 1) {
					t.Errorf("%s of %v at %v: p %v, %v after %v", e.Name(), g, eps, p, err, last)
				}
				last = p
			}
			low := lowerOf(t, e, g, .05)
			if p, err := e.PValue(g, low); err != nil || !(math.Abs(p-.05) <= 1e-4) {
				t.Errorf("%s of %v: p at the bound %v is %v, %v", e.Name(), g, low, p, err)
			}
		}
	}
}

// sharedChannel is one game of the mechanism that shows what independence of
// canaries hides: |y| of a Gaussian channel once for all, and each bit by
// randomised response with ε = mu |y|. Given the other bits, each canary's view
// is exactly mu-GDP.
func sharedChannel(r *rand.Rand, m int, mu float64) int {
	y := math.Abs(r.NormFloat64() + mu/2)
	return binomialDraw(r, m, 1/(1+math.Exp(-mu*y)))
}

func binomialDraw(r *rand.Rand, n int, p float64) int {
	k := 0
	for range n {
		if r.Float64() < p {
			k++
		}
	}
	return k
}

// falseClaims is the share of one-run games, all canaries guessed, whose p-value
// at eps is at most alpha.
func falseClaims(t *testing.T, e Estimator[Guesses], games int, eps, alpha float64, m int, play func() int) float64 {
	t.Helper()
	return shareClaimed(t, games, func() Guesses { return Guesses{m, m, play()} }, atLevel(e, eps, alpha))
}

// atLevel claims where the p-value at eps is at most alpha.
func atLevel[D any](e Estimator[D], eps, alpha float64) func(d D) (bool, error) {
	return func(d D) (bool, error) {
		p, err := e.PValue(d, eps)
		return p <= alpha, err
	}
}

// shareClaimed is the share of audits that claim too much; each outcome is asked
// about once.
func shareClaimed[D comparable](t *testing.T, audits int, draw func() D, claims func(d D) (bool, error)) float64 {
	t.Helper()
	n, known := 0, map[D]bool{}
	for range audits {
		d := draw()
		claim, ok := known[d]
		if !ok {
			var err error
			if claim, err = claims(d); err != nil {
				t.Fatal(err)
			}
			known[d] = claim
		}
		if claim {
			n++
		}
	}
	return float64(n) / float64(audits)
}

// TestOneRunValidity: model-free bounds hold on every mechanism, family bounds
// on theirs, and the suite sees the estimators that do not.
func TestOneRunValidity(t *testing.T) {
	const games, m, alpha, delta = 10000, 1000, .05, 1e-5
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/games)
	r := rand.New(rand.NewPCG(1, 2))
	response := func(eps float64) func() int {
		return func() int { return binomialDraw(r, m, 1/(1+math.Exp(-eps))) }
	}
	gaussian := func(mu float64) func() int {
		return func() int { return binomialDraw(r, m, normalBelow(mu/2)) }
	}
	shared := func(mu float64) func() int { return func() int { return sharedChannel(r, m, mu) } }
	epsOf := func(mu float64) float64 {
		eps, err := gaussianEps(mu, delta)
		if err != nil {
			t.Fatal(err)
		}
		return eps
	}
	for _, o := range []struct {
		name  string
		e     Estimator[Guesses]
		eps   float64
		play  func() int
		holds bool
	}{
		{"response", Steinke{}, 1, response(1), true},
		{"response", Steinke{delta}, 1, response(1), true},
		{"response", MahloujifarEpsDelta{delta}, 1, response(1), true},
		{"null", Steinke{}, 0, response(0), true},
		{"null", MahloujifarEpsDelta{}, 0, response(0), true},
		{"gaussian", Steinke{delta}, epsOf(1), gaussian(1), true},
		{"gaussian", MahloujifarEpsDelta{delta}, epsOf(1), gaussian(1), true},
		{"gaussian", MahloujifarGDP{delta}, epsOf(1), gaussian(1), true},
		{"shared", Steinke{delta}, epsOf(.5), shared(.5), true},
		{"shared", MahloujifarEpsDelta{delta}, epsOf(.5), shared(.5), true},
		{"shared", MahloujifarGDP{delta}, epsOf(.5), shared(.5), true},
		// What must be seen.
		{"shared", XiangIID{delta}, epsOf(.5), shared(.5), false},
		{"response", MahloujifarGDP{delta}, 1, response(1), false},
	} {
		share := falseClaims(t, o.e, games, o.eps, alpha, m, o.play)
		if o.holds && !(share <= limit) || !o.holds && !(share > limit) {
			t.Errorf("%s on %s: %v false claims, limit %v", o.e.Name(), o.name, share, limit)
		}
	}
}

// TestGDPIsNoModelFreeBound: on randomised response its ε is nearly always
// above the truth.
func TestGDPIsNoModelFreeBound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	share := falseClaims(t, MahloujifarGDP{1e-5}, 1000, 1, .05, 1000, func() int { return binomialDraw(r, 1000, 1/(1+math.Exp(-1))) })
	if !(share > .9) {
		t.Errorf("above the truth in %v of the games", share)
	}
}

// TestValidityNeedsDelta: a mechanism that gives 20 coins of 1,000 away and is
// silent on the others is (0, .02)-DP.
func TestValidityNeedsDelta(t *testing.T) {
	const games, m, known = 10000, 1000, 20
	r := rand.New(rand.NewPCG(5, 6))
	play := func() Guesses {
		k := binomialDraw(r, m, float64(known)/m)
		return Guesses{m, known, min(k, known) + binomialDraw(r, known-min(k, known), .5)}
	}
	claims := func(e Estimator[Guesses]) float64 {
		n := 0
		for range games {
			p, err := e.PValue(play(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if p <= .05 {
				n++
			}
		}
		return float64(n) / games
	}
	limit := .05 + 5*math.Sqrt(.05*.95/games)
	for _, e := range []Estimator[Guesses]{Steinke{.02}, MahloujifarEpsDelta{.02}} {
		if share := claims(e); !(share <= limit) {
			t.Errorf("%s: %v false claims", e.Name(), share)
		}
	}
	if share := claims(Steinke{}); !(share > .5) {
		t.Errorf("δ forgotten: only %v false claims", share)
	}
}

// offByOne is Steinke's pure bound with P[B > v] for P[B >= v].
type offByOne struct{ Steinke }

func (offByOne) PValue(g Guesses, eps float64) (float64, error) {
	return binomialUpper(g.Correct+1, g.Guessed, 1/(1+math.Exp(-eps))), nil
}

// TestOffByOneIsSeen: in a game of 21 coins the level shows it. The true p-value
// of at least 15 right is .0392, that of more than 14 the same; of at least 14
// .0946, which the fault takes for .0392.
func TestOffByOneIsSeen(t *testing.T) {
	const games, m = 10000, 21
	limit := .05 + 5*math.Sqrt(.05*.95/games)
	r := rand.New(rand.NewPCG(9, 10))
	play := func() int { return binomialDraw(r, m, .5) }
	if share := falseClaims(t, offByOne{}, games, 0, .05, m, play); !(share > limit) {
		t.Errorf("off by one: %v false claims, limit %v", share, limit)
	}
	if share := falseClaims(t, Steinke{}, games, 0, .05, m, play); !(share <= limit) {
		t.Errorf("as it is: %v false claims, limit %v", share, limit)
	}
}

func TestOneRunRefuses(t *testing.T) {
	good := Guesses{100, 20, 15}
	for _, o := range []struct {
		e     Estimator[Guesses]
		g     Guesses
		eps   float64
		alpha float64
		want  string
	}{
		{Steinke{math.NaN()}, good, 1, .05, "delta: NaN"},
		{Steinke{1}, good, 1, .05, "delta: 1"},
		{Steinke{-1}, good, 1, .05, "delta: -1"},
		{MahloujifarEpsDelta{math.Inf(1)}, good, 1, .05, "delta: +Inf"},
		{MahloujifarGDP{0}, good, 1, .05, "delta: 0, expected above 0"},
		{MahloujifarDPSGD{.1, 10, 0}, good, 1, .05, "delta: 0, expected above 0"},
		{MahloujifarDPSGD{2, 10, 1e-5}, good, 1, .05, "sample rate"},
		{XiangIID{0}, good, 1, .05, "delta: 0, expected above 0"},
		{Steinke{}, Guesses{0, 1, 1}, 1, .05, "canaries: 0"},
		{Steinke{}, Guesses{10, 11, 1}, 1, .05, "guesses: 11"},
		{Steinke{}, Guesses{10, 5, 6}, 1, .05, "correct: 6"},
		{Steinke{}, Guesses{10, 5, -1}, 1, .05, "correct: -1"},
	} {
		_, err := o.e.PValue(o.g, o.eps)
		_, err2 := o.e.Lower(o.g, o.alpha)
		for _, err := range []error{err, err2} {
			if err == nil || !strings.Contains(err.Error(), o.want) {
				t.Errorf("%s of %+v: %v does not say %q", o.e.Name(), o.g, err, o.want)
			}
		}
	}
	for _, e := range []Estimator[Guesses]{Steinke{1e-5}, MahloujifarEpsDelta{1e-5}, MahloujifarGDP{1e-5}, XiangIID{1e-5}} {
		for _, eps := range []float64{math.NaN(), -1, math.Inf(1)} {
			if p, err := e.PValue(good, eps); err == nil || !strings.Contains(err.Error(), "eps") {
				t.Errorf("%s at %v: %v, %v", e.Name(), eps, p, err)
			}
		}
		for _, alpha := range []float64{math.NaN(), 0, 1, -1} {
			if v, err := e.Lower(good, alpha); err == nil || !strings.Contains(err.Error(), "alpha") {
				t.Errorf("%s at level %v: %v, %v", e.Name(), alpha, v, err)
			}
		}
	}
}
