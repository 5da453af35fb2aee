package accounting

import (
	"fmt"
	"math"
)

// RDPOrders are the orders that Opacus tries by default: 1.1 to 10.9 by tenths,
// then 12 to 63.
func RDPOrders() []float64 {
	var orders []float64
	for i := 1; i < 100; i++ {
		orders = append(orders, 1+float64(i)/10)
	}
	for i := 12; i < 64; i++ {
		orders = append(orders, float64(i))
	}
	return orders
}

// RDP is the Rényi divergence of the given order (above 1) that e costs: an upper
// bound that composes by addition. Integer orders of the Poisson-sampled
// Gaussian are finite sums, fractional ones an integral (Mironov, Talwar and
// Zhang 2019, section 3.3); the Gaussian and Laplace are Mironov 2017, table 2.
// A sampled event under Replace is refused.
func RDP(e Event, order float64) (float64, error) {
	f, err := flatten(e)
	if err != nil {
		return 0, err
	}
	if err := f.refuseSampledReplace("RDP"); err != nil {
		return 0, err
	}
	if !(order > 1) || math.IsInf(order, 1) {
		return 0, fmt.Errorf("accounting: RDP order: %g is not a finite number above 1", order)
	}
	if f.noiseless {
		return math.Inf(1), nil
	}
	return f.rdp(order), nil
}

// RDPEpsilon is the best ε over RDPOrders, and its order. The conversion is the
// improved one of Balle, Barthe, Gaboardi, Hsu and Sato 2020, theorem 21.
func RDPEpsilon(e Event, delta float64) (eps, order float64, err error) {
	f, err := flatten(e)
	if err != nil {
		return 0, 0, err
	}
	if err := checkDelta(delta); err != nil {
		return 0, 0, err
	}
	if err := f.refuseSampledReplace("RDP"); err != nil {
		return 0, 0, err
	}
	if f.noiseless {
		return math.Inf(1), 0, nil
	}
	if len(f.phases) == 0 {
		return 0, RDPOrders()[len(RDPOrders())-1], nil
	}
	eps, order = rdpToEpsilon(f.rdps(), delta)
	return math.Max(0, eps), order, nil
}

func (f flat) refuseSampledReplace(accountant string) error {
	if f.relation == Replace && f.sampled() {
		return fmt.Errorf("accounting: relation replace: %s has no rule for Poisson-sampled events; PRV has a generic bound", accountant)
	}
	return nil
}

func (f flat) rdp(order float64) float64 {
	sum := 0.0
	for _, p := range f.phases {
		sum += float64(p.count) * rdpOf(p.event, f.relation, order)
	}
	return sum
}

// rdps has the divergence at each of RDPOrders.
func (f flat) rdps() []float64 {
	orders := RDPOrders()
	for i, order := range orders {
		orders[i] = f.rdp(order)
	}
	return orders
}

// rdpToEpsilon converts divergences at RDPOrders.
func rdpToEpsilon(rdp []float64, delta float64) (eps, order float64) {
	eps = math.Inf(1)
	for i, a := range RDPOrders() {
		at := rdp[i] - (math.Log(delta)+math.Log(a))/(a-1) + math.Log1p(-1/a)
		if at < eps {
			eps, order = at, a
		}
	}
	return eps, order
}

func rdpOf(e Event, relation Relation, order float64) float64 {
	l, err := lawOf(e, relation)
	if err != nil {
		panic(err) // flatten and refuseSampledReplace let none pass
	}
	switch l := l.(type) {
	case sampledGaussian:
		if l.q == 1 {
			return order / (2 * l.s * l.s)
		}
		if order == math.Floor(order) {
			return l.logMomentInteger(int(order)) / (order - 1)
		}
		return l.logMomentFraction(order) / (order - 1)
	case laplace:
		return logAdd(math.Log(order/(2*order-1))+(order-1)/l.b,
			math.Log((order-1)/(2*order-1))-order/l.b) / (order - 1)
	}
	panic("accounting: unknown law")
}

// logMomentInteger is ln E_Q[(dP/dQ)^a] by the binomial theorem.
func (g sampledGaussian) logMomentInteger(a int) float64 {
	sum, choose := math.Inf(-1), 0.0
	for k := 0; k <= a; k++ {
		if k > 0 {
			choose += math.Log(float64(a-k+1) / float64(k))
		}
		kf := float64(k)
		sum = logAdd(sum, choose+kf*math.Log(g.q)+(float64(a)-kf)*math.Log1p(-g.q)+kf*(kf-1)/(2*g.s*g.s))
	}
	return sum
}

// logMomentFraction is the same for any a by the trapezoidal rule. The integrand
// is analytic but for points πσ² off the real line, and Gaussian in width σ, so
// steps of σ/4 and σ²/3 leave errors below 1e-15. With little noise, it is two
// peaks that do not touch.
func (g sampledGaussian) logMomentFraction(a float64) float64 {
	if g.s < 0.04 { // between the peaks the integrand is below e^-60 of either
		return logAdd(a*math.Log1p(-g.q), a*math.Log(g.q)+a*(a-1)/2/g.s/g.s)
	}
	h := math.Min(g.s/4, g.s*g.s/3)
	low, high := -10*g.s, a+10*g.s
	n := int(math.Ceil((high - low) / h))
	sum := math.Inf(-1)
	for i := range n + 1 {
		x := low + float64(i)*h
		sum = logAdd(sum, a*g.loss(x)-x/g.s*x/g.s/2)
	}
	return sum + math.Log(h/(g.s*math.Sqrt(2*math.Pi)))
}
