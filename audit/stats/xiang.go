package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// XiangIID is the estimate of Xiang, Wang, Xiao, Tian and Wang 2025: as if every
// canary went through a Gaussian channel of its own. Of m canaries the r with
// the surest guesses are looked at; their errors are then binomial, given where
// the cut fell. It is no bound: mechanisms exist that satisfy f-DP and share
// noise between canaries, for which it exceeds the truth a third of the time
// and more.
type XiangIID struct{ Delta float64 }

// Name implements Estimator.
func (XiangIID) Name() string { return "xiang-iid" }

// Scope implements Estimator.
func (XiangIID) Scope() Scope { return Estimated }

// Assumption implements Estimator.
func (XiangIID) Assumption() string { return "each canary is an independent Gaussian channel" }

// AtDelta implements Estimator.
func (e XiangIID) AtDelta() float64 { return e.Delta }

// PValue implements Estimator.
func (e XiangIID) PValue(g Guesses, eps float64) (float64, error) {
	if err := checkGuesses(g, e.Delta, eps); err != nil {
		return 0, err
	}
	if err := checkFamilyDelta(e.Delta); err != nil {
		return 0, err
	}
	mu, err := gaussianMu(eps, e.Delta)
	if err != nil {
		return 0, err
	}
	return newXiangLaw(g).fewErrors(mu), nil
}

// Lower implements Estimator.
func (e XiangIID) Lower(g Guesses, alpha float64) (float64, error) {
	if err := checkGuesses(g, e.Delta, 0); err != nil {
		return 0, err
	}
	if err := checkFamilyDelta(e.Delta); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	law := newXiangLaw(g)
	mu, err := largestRejected(maxMu, boundTol, func(mu float64) (bool, error) { return law.fewErrors(mu) < alpha, nil })
	if err != nil {
		return 0, err
	}
	return gaussianEps(mu, e.Delta)
}

// xiangLaw is the law of the number of errors among the r surest guesses: given
// that the m-r-th smallest of |score| has rank W ~ Beta(m-r, r+1), they are
// binomial with the mean error above it.
type xiangLaw struct {
	g              Guesses
	shares, weight []float64 // of 1-W, a quadrature
}

func newXiangLaw(g Guesses) xiangLaw {
	l := xiangLaw{g: g}
	if g.Guessed == g.Canaries {
		return l // no cut
	}
	const nodes = 64
	u := make([]float64, nodes)
	l.weight = make([]float64, nodes)
	quad.Legendre{}.FixedLocations(u, l.weight, 0, 1)
	w := newBeta(float64(g.Canaries-g.Guessed), float64(g.Guessed+1))
	for _, p := range u {
		_, share := w.quantile(p)
		l.shares = append(l.shares, share)
	}
	return l
}

// fewErrors is the probability of at most as many errors as were made.
func (l xiangLaw) fewErrors(mu float64) float64 {
	errors := l.g.Guessed - l.g.Correct
	if l.shares == nil {
		return binomialLower(errors, l.g.Guessed, normalBelow(-mu/2))
	}
	p := 0.0
	for i, share := range l.shares {
		p += l.weight[i] * binomialLower(errors, l.g.Guessed, errorAbove(share, mu))
	}
	return p
}

// errorAbove is the share of wrong guesses among scores N(±mu/2, 1) whose
// absolute value is among the given share of largest.
func errorAbove(share, mu float64) float64 {
	// The cut a solves Φ̄(a-mu/2) + Φ̄(a+mu/2) = share, which falls with a: Newton's
	// steps, or halves where they leave the bracket.
	low, high := 0.0, 40+mu
	a := mu/2 + 1
	for range 60 {
		wrong, right := normalBelow(-mu/2-a), normalBelow(mu/2-a)
		over := wrong + right - share
		if over > 0 {
			low = a
		} else {
			high = a
		}
		step := over / (normalDensity(a-mu/2) + normalDensity(a+mu/2))
		next := a + step
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if math.Abs(next-a) <= 1e-13*(1+a) {
			break
		}
		a = next
	}
	wrong, right := normalBelow(-mu/2-a), normalBelow(mu/2-a)
	if sum := wrong + right; sum > 0 {
		return wrong / sum
	}
	return math.Exp(-a * mu)
}

func normalDensity(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
