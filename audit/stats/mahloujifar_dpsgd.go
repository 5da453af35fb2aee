package stats

import (
	"math"
	"sort"

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

func (e MahloujifarDPSGD) curve(sigma float64) (tradeOff, error) {
	c, err := e.account(sigma)
	if err != nil {
		return tradeOff{}, err
	}
	return newTradeOff(c)
}

// tradeOff is DP-SGD's curve, as the (ε, δ) that it has on a grid of ε: its
// trade-off function is at least that of each pair (Dong, Roth and Su 2022,
// proposition 2.5), and the largest of them is nearly it.
type tradeOff struct{ up, down, delta []float64 } // e^ε, e^-ε, δ

// newTradeOff tabulates c until δ is of no importance beside any level.
func newTradeOff(c *accounting.Curve) (f tradeOff, err error) {
	const step, least, most = .01, 1e-13, maxEps
	for i := 0; ; i++ {
		eps := step * float64(i)
		d, err := c.Delta(eps)
		if err != nil {
			return tradeOff{}, err
		}
		f.up, f.down, f.delta = append(f.up, math.Exp(eps)), append(f.down, math.Exp(-eps)), append(f.delta, d.Upper)
		if d.Upper <= least || eps >= most {
			return f, nil
		}
	}
}

// below is x -> f(1-x). The curve is that of both directions together, hence
// symmetric. Each of the two kinds of line rises and then falls along the grid;
// one that is not the highest is a bound too.
func (f tradeOff) below(x float64) float64 {
	steep := func(i int) float64 { return 1 - f.delta[i] - f.up[i]*(1-x) }
	flat := func(i int) float64 { return f.down[i] * (x - f.delta[i]) }
	best := 0.0
	for _, line := range []func(int) float64{steep, flat} {
		top := sort.Search(len(f.up)-1, func(i int) bool { return line(i+1) <= line(i) })
		best = math.Max(best, line(top))
	}
	return best
}

// PValue implements Estimator. The noise is that which gives ε = eps, or a
// little more, so that the accountant's width does not make p smaller.
func (e MahloujifarDPSGD) PValue(g Guesses, eps float64) (float64, error) {
	if err := e.check(g, eps); err != nil {
		return 0, err
	}
	sigma, err := accounting.Noise{SampleRate: e.SampleRate, Steps: e.Steps, Delta: e.Delta}.Calibrate(eps + 2*accounting.MaxWidth)
	if err != nil {
		return 0, err
	}
	f, err := e.curve(sigma)
	if err != nil {
		return 0, err
	}
	return leastLevel(g, f.below), nil
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
		f, err := newTradeOff(c)
		if err != nil || !rejectsTradeOff(g, alpha, f.below) {
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
