package stats

import (
	"math"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// MahloujifarDPSGD is the f-DP test with the curves of DP-SGD itself: of a
// sample rate and number of steps that are known, and noise that is not. The
// curves are lower bounds of the accountant's trade-off function, so that a
// curve is not rejected for its grid.
type MahloujifarDPSGD struct {
	SampleRate float64
	Steps      int
	Delta      float64
}

// Name implements Estimator.
func (MahloujifarDPSGD) Name() string { return "mahloujifar-dpsgd" }

// Scope implements Estimator.
func (MahloujifarDPSGD) Scope() Scope { return Family("dpsgd") }

// Assumption implements Estimator.
func (MahloujifarDPSGD) Assumption() string {
	return "the mechanism is DP-SGD of this sample rate and these steps"
}

// AtDelta implements Estimator.
func (e MahloujifarDPSGD) AtDelta() float64 { return e.Delta }

func (e MahloujifarDPSGD) check(g Guesses, eps float64) error {
	if err := checkGuesses(g, e.Delta, eps); err != nil {
		return err
	}
	return checkFamilyDelta(e.Delta)
}

func (e MahloujifarDPSGD) account(sigma float64) (*accounting.Curve, error) {
	return accounting.NewCurve(accounting.DPSGD(e.SampleRate, sigma, e.Steps), e.Delta)
}

// below is x -> f(1-x) of a curve. An accountant's curve is that of both
// directions together, hence symmetric.
func below(c *accounting.Curve, failed *error) func(x float64) float64 {
	return func(x float64) float64 {
		f, err := c.TradeOff(math.Min(1, math.Max(0, 1-x)))
		if err != nil && *failed == nil {
			*failed = err
		}
		return f
	}
}

// PValue implements Estimator. The noise is that which gives ε = eps.
func (e MahloujifarDPSGD) PValue(g Guesses, eps float64) (float64, error) {
	if err := e.check(g, eps); err != nil {
		return 0, err
	}
	if eps == 0 {
		return MahloujifarGDP{e.Delta}.PValue(g, 0)
	}
	sigma, err := accounting.Noise{SampleRate: e.SampleRate, Steps: e.Steps, Delta: e.Delta}.Calibrate(eps)
	if err != nil {
		return 0, err
	}
	c, err := e.account(sigma)
	if err != nil {
		return 0, err
	}
	p := leastLevel(g, below(c, &err))
	return p, err
}

// Lower implements Estimator. Of the noise multipliers that g rejects it finds
// the smallest, to 1e-5 of it, and returns its ε's lower end.
func (e MahloujifarDPSGD) Lower(g Guesses, alpha float64) (float64, error) {
	if err := e.check(g, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	// Where no noise is too much, nothing is learnt.
	if !rejectsTradeOff(g, alpha, gaussianCurve(0)) {
		return 0, nil
	}
	eps := 0.0
	rejected := func(sigma float64) (bool, error) {
		c, err := e.account(sigma)
		if err != nil {
			return false, err
		}
		hit := rejectsTradeOff(g, alpha, below(c, &err))
		if err != nil || !hit {
			return false, err
		}
		at, err := c.Epsilon(e.Delta)
		eps = math.Max(eps, at.Lower)
		return true, err
	}
	// Noise enough to be rejected, and too little to be.
	high := 1.0
	for {
		ok, err := rejected(high)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if high *= 2; high > 1e4 {
			return 0, nil
		}
	}
	low := high / 2
	for {
		ok, err := rejected(low)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if high, low = low, low/2; low < 0.2 {
			return eps, nil // less noise is not accounted
		}
	}
	for high-low > 1e-5*high {
		mid := (low + high) / 2
		ok, err := rejected(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			high = mid
		} else {
			low = mid
		}
	}
	return eps, nil
}
