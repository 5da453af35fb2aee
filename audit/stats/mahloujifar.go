package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// rejectsTradeOff is the test of Mahloujifar, Melis and Chaudhuri 2025 (their
// algorithm 3): whether g contradicts, at level tau, that what a canary's coin
// does to the output has at least the symmetric trade-off curve f. below is
// x -> f(1-x), the inverse of the blow-up 1-f. With v correct of r guesses,
// from
//
//	R = tau v/m,  H = tau (r-v)/m
//
// and for i = v-1 down to 0,
//
//	H' = max(H, below(R)),  R += i/(r-i) (H' - H),  H = H',
//
// the curve is rejected if R + H > r/m. No independence between canaries is
// assumed, but for their coins.
func rejectsTradeOff(g Guesses, tau float64, below func(x float64) float64) bool {
	m, r, v := float64(g.Canaries), float64(g.Guessed), float64(g.Correct)
	right, wrong := tau*v/m, tau*(r-v)/m
	for i := g.Correct - 1; i >= 0; i-- {
		if right+wrong > r/m {
			return true
		}
		next := max(wrong, below(right))
		if next == wrong {
			break // then right stays too
		}
		right = min(1, right+float64(i)/(r-float64(i))*(next-wrong))
		wrong = next
	}
	return right+wrong > r/m
}

// leastLevel is the least level at which the curve is rejected: a p-value. It
// is 1 if no level rejects, and at least 1e-15.
func leastLevel(g Guesses, below func(x float64) float64) float64 {
	if !rejectsTradeOff(g, 1, below) {
		return 1
	}
	low, high := math.Log(1e-15), 0.0
	for range 60 {
		mid := (low + high) / 2
		if rejectsTradeOff(g, math.Exp(mid), below) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Exp(high)
}

// MahloujifarEpsDelta is the f-DP test with the curve of (ε, δ)-DP itself,
//
//	f(a) = max(0, 1-δ-e^ε a, e^-ε (1-δ-a))
//
// (Wasserman and Zhou 2010; Dong, Roth and Su 2022, proposition 2.5): a bound
// that supposes no family of mechanisms.
type MahloujifarEpsDelta struct{ Delta float64 }

// Name implements Estimator.
func (MahloujifarEpsDelta) Name() string { return "mahloujifar-eps-delta" }

// Scope implements Estimator.
func (MahloujifarEpsDelta) Scope() Scope { return ModelFree }

// Assumption implements Estimator.
func (MahloujifarEpsDelta) Assumption() string { return "independent fair coins" }

// AtDelta implements Estimator.
func (e MahloujifarEpsDelta) AtDelta() float64 { return e.Delta }

// curve is x -> f(1-x).
func (e MahloujifarEpsDelta) curve(eps float64) func(x float64) float64 {
	up, down := math.Exp(eps), math.Exp(-eps)
	return func(x float64) float64 {
		return max(0, 1-e.Delta-up*(1-x), down*(x-e.Delta))
	}
}

// PValue implements Estimator.
func (e MahloujifarEpsDelta) PValue(g Guesses, eps float64) (float64, error) {
	if err := checkGuesses(g, e.Delta, eps); err != nil {
		return 0, err
	}
	return leastLevel(g, e.curve(eps)), nil
}

// Lower implements Estimator.
func (e MahloujifarEpsDelta) Lower(g Guesses, alpha float64) (float64, error) {
	if err := checkGuesses(g, e.Delta, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	return largestRejected(maxEps, boundTol, func(eps float64) (bool, error) {
		return rejectsTradeOff(g, alpha, e.curve(eps)), nil
	})
}

// MahloujifarGDP is the f-DP test with the curves of Gaussian mechanisms. It
// says which μ are too small to explain the guesses if the mechanism is one of
// them, and is read at δ. For other mechanisms, such as randomised response, it
// exceeds the truth.
type MahloujifarGDP struct{ Delta float64 }

// Name implements Estimator.
func (MahloujifarGDP) Name() string { return "mahloujifar-gdp" }

// Scope implements Estimator.
func (MahloujifarGDP) Scope() Scope { return Family("gdp") }

// Assumption implements Estimator.
func (MahloujifarGDP) Assumption() string { return "the mechanism is Gaussian DP" }

// AtDelta implements Estimator.
func (e MahloujifarGDP) AtDelta() float64 { return e.Delta }

// gaussianCurve is x -> f(1-x) of μ-GDP (Dong, Roth and Su 2022, eq. 6).
func gaussianCurve(mu float64) func(x float64) float64 {
	return func(x float64) float64 {
		if x <= 0 || x >= 1 {
			return math.Min(1, math.Max(0, x))
		}
		return normalBelow(mathext.NormalQuantile(x) - mu)
	}
}

// check refuses impossible arguments, and δ = 0, where every Gaussian's ε is
// infinite.
func (e MahloujifarGDP) check(g Guesses, eps float64) error {
	if err := checkGuesses(g, e.Delta, eps); err != nil {
		return err
	}
	return checkFamilyDelta(e.Delta)
}

// checkFamilyDelta refuses δ = 0.
func checkFamilyDelta(delta float64) error {
	if !(delta > 0) {
		return fmt.Errorf("stats: delta: %v, expected above 0: with Gaussian noise ε is infinite at δ = 0", delta)
	}
	return nil
}

// maxMu is where searches for μ end.
const maxMu = 30

// PValue implements Estimator.
func (e MahloujifarGDP) PValue(g Guesses, eps float64) (float64, error) {
	if err := e.check(g, eps); err != nil {
		return 0, err
	}
	mu, err := gaussianMu(eps, e.Delta)
	if err != nil {
		return 0, err
	}
	return leastLevel(g, gaussianCurve(mu)), nil
}

// Lower implements Estimator.
func (e MahloujifarGDP) Lower(g Guesses, alpha float64) (float64, error) {
	if err := e.check(g, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	mu, err := largestRejected(maxMu, boundTol, func(mu float64) (bool, error) {
		return rejectsTradeOff(g, alpha, gaussianCurve(mu)), nil
	})
	if err != nil {
		return 0, err
	}
	return gaussianEps(mu, e.Delta)
}

// gaussianEps is the ε at δ of a mechanism that is μ-GDP.
func gaussianEps(mu, delta float64) (float64, error) {
	if mu <= 0 {
		return 0, nil
	}
	price, err := accounting.GDPEpsilon(accounting.Gaussian{NoiseMultiplier: 1 / mu}, delta)
	return price.Epsilon, err
}

// gaussianMu is the largest μ, up to maxMu, whose ε at δ is at most eps.
func gaussianMu(eps, delta float64) (float64, error) {
	low, high := 0.0, float64(maxMu)
	for range 60 {
		mid := (low + high) / 2
		at, err := gaussianEps(mid, delta)
		if err != nil {
			return 0, err
		}
		if at <= eps {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}
