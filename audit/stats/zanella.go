package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

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

// posterior is p0 as a quadrature over its quantiles, and p1's law.
type posterior struct {
	rate, weight []float64
	members      beta
}

func newPosterior(c Counts) posterior {
	const nodes = 400
	u := make([]float64, nodes)
	p := posterior{weight: make([]float64, nodes), members: newBeta(.5+float64(c.TP), .5+float64(c.Members-c.TP))}
	quad.Legendre{}.FixedLocations(u, p.weight, 0, 1)
	others := newBeta(.5+float64(c.FP), .5+float64(c.NonMembers-c.FP))
	for _, v := range u {
		x, _ := others.quantile(v)
		p.rate = append(p.rate, x)
	}
	return p
}

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
	return largestRejected(maxEps, func(eps float64) (bool, error) { return p.below(eps, e.Delta) < alpha, nil })
}
