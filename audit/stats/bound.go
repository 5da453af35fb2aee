package stats

import (
	"fmt"
	"math"
)

// Scope says for which mechanisms a lower bound holds.
type Scope string

const (
	// ModelFree bounds hold for every mechanism in the estimator's setting.
	ModelFree Scope = "model-free"
	// Estimated values rest on an assumption that nobody can check, on a prior,
	// or on a choice made after looking: they are no bounds.
	Estimated Scope = "estimate"
)

// Family is the scope of bounds that hold for mechanisms of one family alone:
// they say that no member of the family with a smaller ε explains the counts.
func Family(name string) Scope { return Scope("family:" + name) }

// Sound reports whether the bound may be quoted without naming a model.
func (s Scope) Sound() bool { return s == ModelFree }

// Estimator finds how large ε must be to explain data: Guesses of a one-run
// game, or Counts of two worlds. Each is a test of the hypothesis "ε or less"
// for every ε, turned into a bound by asking which ε are rejected.
type Estimator[D any] interface {
	// Name is the estimator's name in reports, e.g. "steinke".
	Name() string
	Scope() Scope
	// Assumption says in words what must hold for the value to be a bound.
	Assumption() string
	// AtDelta is the δ of the (ε, δ) that is bounded.
	AtDelta() float64
	// PValue is the probability, at most, with which a mechanism of ε = eps
	// gives data as telling as d. It grows with eps.
	PValue(d D, eps float64) (float64, error)
	// Lower is the largest ε that d rejects at level alpha, 0 if there is none.
	Lower(d D, alpha float64) (float64, error)
}

// Bound is a lower bound on ε with all that must be said of it.
type Bound struct {
	Estimator    string
	Scope        Scope
	Assumption   string
	Multiplicity string  // how many looks the confidence pays for, and why
	Confidence   float64 // 1 - alpha
	Delta        float64
	Epsilon      float64
}

// Conclude bounds ε from d with confidence 1-alpha; multiplicity says in words
// how d was chosen.
func Conclude[D any](e Estimator[D], d D, alpha float64, multiplicity string) (Bound, error) {
	eps, err := e.Lower(d, alpha)
	if err != nil {
		return Bound{}, err
	}
	return Bound{
		Estimator: e.Name(), Scope: e.Scope(), Assumption: e.Assumption(),
		Multiplicity: multiplicity, Confidence: 1 - alpha, Delta: e.AtDelta(), Epsilon: eps,
	}, nil
}

// checkAlpha refuses levels that are none.
func checkAlpha(alpha float64) error {
	if !(alpha > 0 && alpha < 1) {
		return fmt.Errorf("stats: alpha: %v is not a level between 0 and 1", alpha)
	}
	return nil
}

// checkDelta refuses δ outside [0, 1).
func checkDelta(delta float64) error {
	if !(delta >= 0 && delta < 1) {
		return fmt.Errorf("stats: delta: %v is not from 0 up to but without 1", delta)
	}
	return nil
}

// checkEps refuses what is no ε.
func checkEps(eps float64) error {
	if !(eps >= 0) || math.IsInf(eps, 1) {
		return fmt.Errorf("stats: eps: %v is not a finite number from 0 up", eps)
	}
	return nil
}

// boundTol is the relative tolerance of bounds that cost little.
const boundTol = 1e-10

// largestRejected is the largest x at which rejected holds, to a relative
// tolerance of tol, given that it holds below some x and not above; 0 if it
// does not hold at 0. The result is on the rejected side, and limit is returned
// if that is rejected too.
func largestRejected(limit, tol float64, rejected func(x float64) (bool, error)) (float64, error) {
	ok, err := rejected(0)
	if err != nil || !ok {
		return 0, err
	}
	low, high := 0.0, 1.0
	for {
		high = math.Min(high, limit)
		if ok, err = rejected(high); err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if low = high; low >= limit {
			return limit, nil
		}
		high *= 2
	}
	for range 64 {
		if high-low <= tol*high {
			break
		}
		mid := low + (high-low)/2
		if ok, err = rejected(mid); err != nil {
			return 0, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}
