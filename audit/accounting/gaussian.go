package accounting

import "math"

// gaussianDelta is δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) of N(0,1) against
// N(μ,1): Balle and Wang 2018, theorem 8; μ = 1/noise, or √steps/noise.
func gaussianDelta(mu, eps float64) float64 {
	switch {
	case mu == 0 || math.IsInf(eps, 1):
		return 0
	case math.IsInf(mu, 1):
		return 1
	}
	d := upperTail(eps/mu-mu/2) - math.Exp(eps+logUpperTail(eps/mu+mu/2))
	return math.Min(1, math.Max(0, d))
}

// gaussianEpsilon solves gaussianDelta(mu, ε) = delta.
func gaussianEpsilon(mu, delta float64) float64 {
	if math.IsInf(mu, 1) {
		return math.Inf(1)
	}
	return solve(delta, func(eps float64) float64 { return gaussianDelta(mu, eps) })
}

// solve is the smallest ε from 0 up with curve(ε) <= delta, for a curve that
// falls to 0, to the last bits.
func solve(delta float64, curve func(eps float64) float64) float64 {
	if curve(0) <= delta {
		return 0
	}
	low, high := 0.0, 1.0
	for curve(high) > delta {
		low, high = high, 2*high
		if math.IsInf(high, 1) {
			return high
		}
	}
	for {
		mid := low + (high-low)/2
		if mid <= low || mid >= high {
			return high
		}
		if curve(mid) > delta {
			low = mid
		} else {
			high = mid
		}
	}
}

// gaussianTradeOff is Φ(Φ^-1(1-α) - μ): Dong, Roth and Su 2022, definition 2.
func gaussianTradeOff(mu, fpr float64) float64 {
	switch {
	case fpr <= 0:
		return 1
	case fpr >= 1 || math.IsInf(mu, 1):
		return 0
	}
	return upperTail(mu - upperQuantile(fpr))
}

// SingleRelease is the exact price of one Poisson-sampled Gaussian release, in
// both directions: the ε at which a record's removal, and its addition, has
// hockey-stick divergence delta. Closed form of the curves, by the Neyman-Pearson
// test that rejects where the outcome x has loss above ε:
//
//	remove: (1-q) Φ̄(x/σ) + q Φ̄((x-1)/σ) - e^ε Φ̄(x/σ),  x = σ² ln((e^ε - (1-q))/q) + 1/2
//	add:    Φ(y/σ) - e^ε ((1-q) Φ(y/σ) + q Φ((y-1)/σ)),  y = σ² ln((e^-ε - (1-q))/q) + 1/2
func SingleRelease(e PoissonSampledGaussian, delta float64) (remove, add float64, err error) {
	f, err := flatten(e)
	if err != nil {
		return 0, 0, err
	}
	if err := checkDelta(delta); err != nil {
		return 0, 0, err
	}
	l, err := lawOf(e, e.Relation)
	if err != nil {
		return 0, 0, err
	}
	g := l.(sampledGaussian)
	switch {
	case len(f.phases) == 0:
		return 0, 0, nil
	case f.noiseless:
		if delta >= g.q {
			return 0, 0, nil
		}
		return math.Inf(1), -math.Log1p(-g.q) + math.Log1p(-delta), nil
	}
	return solve(delta, g.removeDelta), solve(delta, g.addDelta), nil
}

func (g sampledGaussian) removeDelta(eps float64) float64 {
	x := g.outcome(eps)
	if math.IsInf(x, 1) {
		return 0
	}
	// (e^ε - (1-q)) Φ̄(x/σ), in logarithms: e^ε may be large where Φ̄ is small
	out := math.Exp(eps + math.Log1p(-(1-g.q)*math.Exp(-eps)) + logUpperTail(x/g.s))
	return math.Max(0, g.q*upperTail((x-1)/g.s)-out)
}

func (g sampledGaussian) addDelta(eps float64) float64 {
	y := g.outcome(-eps)
	if math.IsInf(y, -1) {
		return 0
	}
	scale := math.Exp(eps)
	return math.Max(0, -math.Expm1(eps+math.Log1p(-g.q))*upperTail(-y/g.s)-scale*g.q*upperTail((1-y)/g.s))
}
