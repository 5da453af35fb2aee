package accounting

import (
	"fmt"
	"math"
)

// GDP is the price of an event as that of one Gaussian of some μ.
type GDP struct {
	Mu, Epsilon float64
	// Approximate: μ is the central limit of many sampled releases, which may
	// promise less ε than the truth. Otherwise it is exact.
	Approximate bool
}

// GDPEpsilon gives the Gaussian equivalent. Gaussians are exact; for the
// Poisson-sampled Gaussian it is the central limit μ = q √(T (e^(1/σ²) - 1)) of
// Bu, Dong, Long and Su 2020, theorem 5: an approximation and no bound. Laplace
// and sampled events under Replace are refused.
func GDPEpsilon(e Event, delta float64) (GDP, error) {
	f, err := flatten(e)
	if err != nil {
		return GDP{}, err
	}
	if err := checkDelta(delta); err != nil {
		return GDP{}, err
	}
	if err := f.refuseSampledReplace("GDP"); err != nil {
		return GDP{}, err
	}
	if f.noiseless {
		return GDP{Mu: math.Inf(1), Epsilon: math.Inf(1)}, nil
	}
	var g GDP
	for _, p := range f.phases {
		l, err := lawOf(p.event, f.relation)
		if err != nil {
			return GDP{}, err
		}
		n, ok := l.(sampledGaussian)
		if !ok {
			return GDP{}, fmt.Errorf("accounting: event: GDP does not know a %T", p.event)
		}
		mu := 1 / n.s
		if n.q < 1 {
			g.Approximate = true
			mu = n.q * math.Sqrt(math.Expm1(1/(n.s*n.s)))
		}
		g.Mu = math.Hypot(g.Mu, mu*math.Sqrt(float64(p.count)))
	}
	g.Epsilon = gaussianEpsilon(g.Mu, delta)
	return g, nil
}
