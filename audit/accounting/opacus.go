package accounting

import (
	"fmt"
	"math"
)

// opacusError is the ε that Opacus allows its grid, and adds to what it prints.
const opacusError = 0.01

// opacusPoints limits the mesh, which Opacus prescribes. It takes less memory a
// point than the bounds do.
const opacusPoints = 1 << 24

// Opacus is what Opacus' PRV accountant (v1.5) computes for e: an interval of
// which it prints Upper. It is about 0.01 above the exact ε, and looks at the
// remove direction only. The steps are those of Gopi, Lee and Wutschitz 2021,
// with one change that moves the result by less than 1e-7: the grid's length is
// rounded up to a power of two.
//
// Events other than the (Poisson-sampled) Gaussian under AddRemove are refused.
func Opacus(e Event, delta float64) (Interval, error) {
	f, err := flatten(e)
	if err != nil {
		return Interval{}, err
	}
	if err := checkDelta(delta); err != nil {
		return Interval{}, err
	}
	if f.relation == Replace {
		return Interval{}, fmt.Errorf("accounting: relation replace: Opacus knows add/remove only")
	}
	for _, p := range f.phases {
		if _, ok := p.event.(Laplace); ok {
			return Interval{}, fmt.Errorf("accounting: event: Opacus does not know a %T", p.event)
		}
	}
	switch {
	case f.noiseless:
		return Interval{math.Inf(1), math.Inf(1), math.Inf(1)}, nil
	case len(f.phases) == 0:
		return Interval{}, nil
	}
	return f.opacus(delta)
}

func (f flat) opacus(delta float64) (Interval, error) {
	deltaError := delta / 1000
	half, dt := f.opacusMesh(deltaError)
	if !(half/dt < opacusPoints/2) || half > maxLoss {
		return Interval{}, fmt.Errorf("accounting: %s: a mesh of %.3g points up to a loss of %.3g is needed; %d and %d are allowed: too little noise",
			f.phases[0].event.Name(), 2*half/dt, half, opacusPoints, maxLoss)
	}
	n := 2
	for float64(n) < 2*math.Ceil(half/dt)+1 {
		n *= 2
	}
	first := 1 - n/2 // of the nodes, multiples of dt
	shift := 0.0
	transform := newRealFFT(n)
	var product spectrum
	x := make([]float64, n)
	for i, ph := range f.phases {
		l, err := lawOf(ph.event, AddRemove)
		if err != nil {
			return Interval{}, err
		}
		// Cells where the loss hardly ever falls stay empty.
		low, high := l.span(1e-24)
		from := min(max(int(math.Floor(low/dt))-first, 0), n)
		to := min(max(int(math.Ceil(high/dt))-first+2, from), n)
		p, q := make([]float64, to-from+2), make([]float64, to-from+2)
		l.cells(func(i int) float64 { return (float64(first+from+i) - 0.5) * dt }, p, q)
		p = p[1 : len(p)-1]
		// Truncate to the mesh, and keep the mean.
		total, mean, exact := 0.0, 0.0, 0.0
		for i, v := range p {
			total += v
			mean += v * float64(first+from+i) * dt
		}
		l.sample(1<<13, func(loss, p, _ float64) { exact += p * loss })
		shift += float64(ph.count) * (exact - mean/total)
		clear(x)
		for i, v := range p {
			x[(first+from+i)&(n-1)] = v / total
		}
		one := transform.forward(x)
		one.power(ph.count)
		if i == 0 {
			product = one
		} else {
			product.multiply(one)
		}
	}
	transform.inverse(product, x)
	losses := opacusLosses{x, first, dt, shift}
	eps := losses.epsilons([3]float64{delta - deltaError, delta, delta + deltaError})
	return Interval{Lower: eps[2] - opacusError, Estimate: eps[1], Upper: eps[0] + opacusError}, nil
}

// opacusMesh is how far the mesh reaches on either side of 0, and its step.
func (f flat) opacusMesh(deltaError float64) (half, dt float64) {
	orders := RDPOrders()
	sum := make([]float64, len(orders))
	releases := 0
	for _, p := range f.phases {
		releases += p.count
	}
	for _, p := range f.phases {
		one := flat{phases: []phase{{p.event, 1}}}.rdps()
		eps, _ := rdpToEpsilon(one, deltaError/(8*float64(releases)))
		half = math.Max(half, eps)
		for i, v := range one {
			sum[i] += float64(p.count) * v
		}
	}
	eps, _ := rdpToEpsilon(sum, deltaError/4)
	half = math.Max(math.Max(half, eps), opacusError) + 3
	return half, opacusError / math.Sqrt(float64(releases)/2*math.Log(12/deltaError))
}

// opacusLosses is a composed distribution: sum[i mod n]/n is the mass at the
// loss i·dt + shift.
type opacusLosses struct {
	sum       []float64
	first     int
	dt, shift float64
}

// epsilons goes down from the mesh's end to the first node where the divergence
// exceeds each delta, which grow, and solves between the last two. They may be
// negative.
func (o opacusLosses) epsilons(deltas [3]float64) (eps [3]float64) {
	n := len(o.sum)
	last := float64(o.first+n-1)*o.dt + o.shift
	p, q := 0.0, 0.0
	weight, grow := 0.0, math.Exp(o.dt) // weight is e^-loss, found afresh now and then
	at := 0
	solve := func(p, q float64) {
		eps[at] = last
		if p > deltas[at] && q > 0 {
			eps[at] = math.Log((p - deltas[at]) / q)
		}
		at++
	}
	for i := o.first + n - 1; i >= o.first; i-- {
		if weight *= grow; i&127 == 127 || weight == 0 {
			weight = math.Exp(-float64(i)*o.dt - o.shift)
		}
		mass := o.sum[i&(n-1)] / float64(n)
		before, beforeQ := p, q
		p += mass
		q += mass * weight
		for p-q/weight > deltas[at] {
			if solve(before, beforeQ); at == len(deltas) {
				return eps
			}
		}
	}
	for at < len(deltas) {
		solve(p, q)
	}
	return eps
}
