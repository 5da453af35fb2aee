package stats

import "math"

// ZanellaBeguelin is the credible bound of Zanella-Béguelin et al. 2023: with
// Jeffreys' prior the rates are posteriorly Beta(½+count, ½+rest), and the
// p-value is the posterior probability that p1 <= e^ε p0 + δ. It speaks of
// belief under that prior, not of how often it is wrong.
type ZanellaBeguelin struct{ Delta float64 }

// Name implements Estimator.
func (ZanellaBeguelin) Name() string { return "zanella-beguelin" }

// Scope implements Estimator.
func (ZanellaBeguelin) Scope() Scope { return Estimated }

// Assumption implements Estimator.
func (ZanellaBeguelin) Assumption() string { return "Jeffreys' prior: credible, not confident" }

// AtDelta implements Estimator.
func (e ZanellaBeguelin) AtDelta() float64 { return e.Delta }

// posterior is p0 by the trapezoidal rule in its log odds, and p1's law. The
// density there is smooth and falls off at least exponentially, so that the rule
// is nearly exact. Above the mode it goes on to the end of float64: where the
// p-value is small, it comes from there.
type posterior struct {
	rate, weight []float64
	members      beta
}

func newPosterior(c Counts) posterior {
	p := posterior{members: newBeta(.5+float64(c.TP), .5+float64(c.Members-c.TP))}
	others := newBeta(.5+float64(c.FP), .5+float64(c.NonMembers-c.FP))
	sharpness := math.Max(others.sharpness(), p.members.sharpness())
	step := .02 / math.Max(1, sharpness) // fine, for the kink at p1 = 1 where no member is missed
	mode := math.Log(others.a / others.b)
	total := 0.0
	add := func(t, floor float64) bool {
		x, y := 1/(1+math.Exp(-t)), 1/(1+math.Exp(t))
		logW := others.logWeight(x, y, others.slope(x, y)) - others.scale
		if !(logW > floor) {
			return false
		}
		w := math.Exp(logW)
		total += w
		p.rate, p.weight = append(p.rate, x), append(p.weight, w)
		return true
	}
	// Below the mode p1 is the less likely to be below, so that less is lost.
	for i := 0; add(mode-float64(i)*step, -45); i++ {
	}
	for i := 1; add(mode+float64(i)*step, -700) && p.rate[len(p.rate)-1] < 1; i++ {
	}
	for i := range p.weight {
		p.weight[i] /= total
	}
	return p
}

// sharpness is the inverse of the law's width in log odds.
func (l beta) sharpness() float64 { return math.Sqrt(l.a / (l.a + l.b) * l.b) }

// below is the posterior probability of p1 <= e^eps p0 + delta.
func (p posterior) below(eps, delta float64) float64 {
	sum := 0.0
	for i, p0 := range p.rate {
		x := math.Exp(eps)*p0 + delta
		if x >= 1 {
			sum += p.weight[i]
		} else if x > 0 {
			sum += p.weight[i] * p.members.below(x, 1-x)
		}
	}
	return math.Min(1, sum)
}

// PValue implements Estimator.
func (e ZanellaBeguelin) PValue(c Counts, eps float64) (float64, error) {
	if err := checkCounts(c, e.Delta, eps); err != nil {
		return 0, err
	}
	return newPosterior(c).below(eps, e.Delta), nil
}

// Lower implements Estimator.
func (e ZanellaBeguelin) Lower(c Counts, alpha float64) (float64, error) {
	if err := checkCounts(c, e.Delta, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	p := newPosterior(c)
	return largestRejected(maxEps, boundTol, func(eps float64) (bool, error) { return p.below(eps, e.Delta) < alpha, nil })
}
