package pe

import (
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// Tails are the exact rates of calling releases members whose statistic is at or
// above a threshold: of one release (Law), or of several (RoundsLaw).
type Tails interface {
	// Rates are the best known rates without the canary and with it, which takes
	// part by its coin.
	Rates(tau float64) (fpr, tpr float64)
	// Bounds are those rates between what they are at least and at most.
	Bounds(tau float64) (fpr, tpr accounting.Interval)
	// Range is where thresholds make a difference.
	Range() (low, high float64)
}

// Attack is what tests against one threshold reach in exact arithmetic.
type Attack struct {
	Lower     float64 `json:"lower"` // ε; the search and the law's error are between the three
	Estimate  float64 `json:"estimate"`
	Upper     float64 `json:"upper"`    // +Inf if rates are too small to be told from 0
	Reverse   float64 `json:"reverse"`  // estimate by ln((TNR-δ)/FNR) alone
	AnyTest   float64 `json:"any_test"` // estimate for tests that may look at more than one threshold
	Threshold float64 `json:"threshold"`
	FPR       float64 `json:"fpr"` // at the threshold, where Estimate is reached
	TPR       float64 `json:"tpr"`
}

const (
	// attackGap is how far the upper end of an attack's ε may be above the best
	// threshold found, beside the error of the law.
	attackGap = 1e-5
	// attackCells ends the search if nothing else does.
	attackCells = 20_000
)

// Exact is the exact ε of the attack at δ: the largest over thresholds τ of
// ln((TPR-δ)/FPR) and of ln((TNR-δ)/FNR). No number of trials can prove more, and
// the mechanism's ε is no less.
//
// Between two thresholds a < b no rate is above that at a or below that at b, so
// that ln((TPR(a)-δ)/FPR(b)) bounds the first logarithm there, and likewise the
// second. Intervals whose bound exceeds the best point are halved, until it is the
// law's error that keeps them open.
func Exact(l Tails, delta float64) Attack {
	low, high := l.Range()
	const cells = 256
	points := []attackPoint{newAttackPoint(l, low)}
	for i := range cells {
		points = append(points, newAttackPoint(l, low+(high-low)*float64(i+1)/cells))
	}
	// Ratios are compared, e^ε: there are thousands, of which two become logarithms.
	best := Attack{}
	estimate, reverse, lower := 1.0, 1.0, 1.0
	const gap = 1 + attackGap
	look := func(p attackPoint) {
		f, r := p.ratios(delta)
		reverse = math.Max(reverse, r)
		if e := math.Max(f, r); e > estimate || estimate == 1 {
			estimate, best.Threshold = e, p.tau
			best.FPR, best.TPR = p.fpr.Estimate, p.tpr.Estimate
		}
		lower = math.Max(lower, p.atLeast(delta))
	}
	for _, p := range points {
		look(p)
	}
	type cell struct {
		a, b  attackPoint
		bound float64
	}
	split := func(a, b attackPoint) cell { return cell{a, b, a.atMost(b, delta)} }
	var open []cell
	// Beyond the range nothing happens that its ends do not bound.
	all, nothing := attackPoint{fpr: around(1, 0), tpr: around(1, 0)}, attackPoint{}
	upper := math.Max(all.atMost(points[0], delta), points[cells].atMost(nothing, delta))
	for i := range cells {
		open = append(open, split(points[i], points[i+1]))
	}
	for looked := cells; ; {
		open = slices.DeleteFunc(open, func(c cell) bool {
			if !(c.bound > estimate*gap) {
				return true
			}
			if least := math.Max(c.a.atMost(c.a, delta), c.b.atMost(c.b, delta)); c.bound <= least*gap {
				upper = math.Max(upper, c.bound)
				return true
			}
			return false
		})
		if len(open) == 0 || looked > attackCells {
			break
		}
		var next []cell
		for _, c := range open {
			m := newAttackPoint(l, c.a.tau+(c.b.tau-c.a.tau)/2)
			look(m)
			looked++
			next = append(next, split(c.a, m), split(m, c.b))
		}
		open = next
	}
	upper = math.Max(upper, estimate*gap)
	for _, c := range open {
		upper = math.Max(upper, c.bound)
	}
	best.Lower, best.Estimate, best.Upper, best.Reverse = math.Log(lower), math.Log(estimate), math.Log(upper), math.Log(reverse)
	best.AnyTest = math.Max(best.Estimate, anyTest(l, delta))
	return best
}

// anyTest is the ε at which the hockey-stick divergence of the statistic's two laws
// is δ, in the direction where it is larger. The laws are those of 4096 cells, which
// can only hide something. Where the likelihood ratio grows with the statistic it is
// that of thresholds; where single users stand out of the noise it can be more.
func anyTest(l Tails, delta float64) float64 {
	const cells = 4096
	low, high := l.Range()
	p0, p1 := make([]float64, cells), make([]float64, cells)
	lastF, lastT := 1.0, 1.0
	for i := range cells {
		f, t := 0.0, 0.0
		if i < cells-1 {
			f, t = l.Rates(low + (high-low)*float64(i+1)/cells)
		}
		p0[i], p1[i] = math.Max(0, lastF-f), math.Max(0, lastT-t)
		lastF, lastT = f, t
	}
	exceeds := func(eps float64) bool {
		forward, reverse, k := 0.0, 0.0, math.Exp(eps)
		for i, p := range p0 {
			forward += math.Max(0, p1[i]-k*p)
			reverse += math.Max(0, p-k*p1[i])
		}
		return math.Max(forward, reverse) > delta
	}
	if !exceeds(0) {
		return 0
	}
	a, b := 0.0, 1.0
	for ; exceeds(b) && b < 64; b *= 2 {
		a = b
	}
	for range 40 {
		if m := (a + b) / 2; exceeds(m) {
			a = m
		} else {
			b = m
		}
	}
	return a
}

// attackPoint is the rates at one threshold.
type attackPoint struct {
	tau      float64
	fpr, tpr accounting.Interval
}

func newAttackPoint(l Tails, tau float64) attackPoint {
	fpr, tpr := l.Bounds(tau)
	return attackPoint{tau, fpr, tpr}
}

// ratios are (TPR-δ)/FPR and (TNR-δ)/FNR by the best known rates.
func (p attackPoint) ratios(delta float64) (forward, reverse float64) {
	forward, reverse = 1, 1
	if p.fpr.Lower > 0 { // else it is of errors
		forward = ratio(p.tpr.Estimate-delta, p.fpr.Estimate)
	}
	if p.tpr.Upper < 1 {
		reverse = ratio(1-p.fpr.Estimate-delta, 1-p.tpr.Estimate)
	}
	return forward, reverse
}

// atLeast is the larger ratio with the errors in disfavour of the attack.
func (p attackPoint) atLeast(delta float64) float64 {
	return math.Max(ratio(p.tpr.Lower-delta, p.fpr.Upper), ratio(1-p.fpr.Upper-delta, 1-p.tpr.Lower))
}

// atMost bounds both ratios from p's threshold to that of q, which is above, with
// the errors in favour of the attack.
func (p attackPoint) atMost(q attackPoint, delta float64) float64 {
	return math.Max(ratio(p.tpr.Upper-delta, q.fpr.Lower), ratio(1-q.fpr.Lower-delta, 1-p.tpr.Upper))
}

// ratio is a/b, or 1 where that is less.
func ratio(a, b float64) float64 {
	if !(a > 0 && a > b) {
		return 1
	}
	return a / b
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
