package pe

import "math"

// Attack is what tests of ℓ against one threshold reach in exact arithmetic.
type Attack struct {
	Lower, Estimate, Upper float64 // ε; the law's Error is between them
	Threshold              float64 // where Estimate is reached
	FPR, TPR               float64 // there
}

// leastRate keeps ratios of rates away from the error of the law.
const leastRate = 1e-10

// Epsilon is the exact ε of the attack at δ: the largest over thresholds τ of
// ln((TPR-δ)/FPR) and of ln((TNR-δ)/FNR). No number of trials can prove more, and
// the mechanism's ε is no less. Rates below 1e-10 are not looked at.
func (l *Law) Epsilon(delta float64) Attack {
	best := Attack{}
	at := func(tau float64) float64 {
		fpr, tpr := l.Rates(tau)
		return math.Max(logRatio(tpr-delta, fpr), logRatio(1-fpr-delta, 1-tpr))
	}
	low, high := l.Range()
	best.Threshold, best.Estimate = maximise(at, low, high, 2000)
	best.FPR, best.TPR = l.Rates(best.Threshold)
	best.Lower, best.Upper = best.Estimate, best.Estimate
	if best.Estimate > 0 {
		best.Lower = math.Max(0, l.ratio(best.FPR, best.TPR, delta, -l.Error))
		best.Upper = l.upper(delta, best)
	}
	return best
}

// ratio is the larger logarithm with all probabilities off by as much, in
// disfavour of the attack if off is negative.
func (l *Law) ratio(fpr, tpr, delta, off float64) float64 {
	return math.Max(logRatio(tpr+off-delta, fpr-off), logRatio(1-fpr+off-delta, 1-tpr-off))
}

// logRatio is ln(a/b), or 0 where that is less, or b too small to say.
func logRatio(a, b float64) float64 {
	if !(a > b && b > leastRate) {
		return 0
	}
	return math.Log(a / b)
}

// upper allows for the law's error, and for a maximum between the points that
// were compared: the search ends with steps of 1e-9 standard deviations, over
// which ln of a rate moves by less than 1e-7.
func (l *Law) upper(delta float64, at Attack) float64 {
	return l.ratio(at.FPR, at.TPR, delta, l.Error) + 1e-7
}

// maximise finds the largest f on [low, high]: of n points the best, and then by
// golden sections around it. f has one top, or several that n points tell apart.
func maximise(f func(float64) float64, low, high float64, n int) (x, best float64) {
	step := (high - low) / float64(n)
	x, best = low, math.Inf(-1)
	for i := range n + 1 {
		at := low + float64(i)*step
		if v := f(at); v > best {
			x, best = at, v
		}
	}
	const golden = 0.6180339887498949
	a, b := x-step, x+step
	c, d := b-golden*(b-a), a+golden*(b-a)
	fc, fd := f(c), f(d)
	for b-a > 1e-9*(high-low) {
		if fc >= fd {
			b, d, fd = d, c, fc
			c = b - golden*(b-a)
			fc = f(c)
		} else {
			a, c, fc = c, d, fd
			d = a + golden*(b-a)
			fd = f(d)
		}
	}
	if m := (a + b) / 2; f(m) > best {
		x, best = m, f(m)
	}
	return x, best
}
