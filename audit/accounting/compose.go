package accounting

import (
	"fmt"
	"math"
	"sync"
)

// Limits of a composition's grid.
const (
	minPoints = 1 << 16
	maxPoints = 1 << 24
	// maxLoss keeps e^loss far from overflow.
	maxLoss = 600
	// The estimate's grid is this much coarser than that of the bounds.
	nearStep    = 4
	nearSamples = 1 << 15
)

// half is one direction of a composition: what of the loss lies above zero,
// from above and from below.
type half struct {
	dt           float64
	upper, lower tails
	// guess is no bound but closer to the truth than both; its step is nearStep·dt.
	guess tails
	// infinite is mass of upper at loss +∞; slack bounds what may be missing:
	// mass outside the window of the transform, and rounding.
	infinite, slack float64
}

// tails are the masses, under P and under Q, at losses of i·dt and more.
type tails struct{ p, q []float64 }

// above and below are bounds of the hockey-stick divergence at eps.
func (h *half) above(eps float64) float64 {
	return math.Min(1, h.upper.delta(eps, h.dt)+h.infinite+h.slack)
}

func (h *half) below(eps float64) float64 {
	return math.Max(0, h.lower.delta(eps, h.dt)-h.slack)
}

// delta is the hockey-stick divergence E[(1 - e^(eps - loss))+].
func (t tails) delta(eps, dt float64) float64 {
	i := int(math.Floor(eps/dt)) + 1 // losses above eps
	if i >= len(t.p) {
		return 0
	}
	return math.Max(0, t.p[i]-math.Exp(eps)*t.q[i])
}

// epsilon is the smallest eps, from 0 up, with delta(eps) <= target; +Inf if
// target is negative.
func (t tails) epsilon(target, dt float64) float64 {
	switch {
	case !(target >= 0):
		return math.Inf(1)
	case t.delta(0, dt) <= target:
		return 0
	}
	// delta falls: find the first node low with delta <= target.
	low, high := 0, len(t.p)
	for low < high {
		if mid := (low + high) / 2; t.p[mid]-math.Exp(float64(mid)*dt)*t.q[mid] <= target {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == len(t.p) {
		return float64(low) * dt
	}
	// From the node before on, delta is p - e^eps q.
	eps := math.Log((t.p[low] - target) / t.q[low])
	if !(eps <= float64(low)*dt) {
		eps = float64(low) * dt
	}
	return math.Max(eps, float64(low-1)*dt)
}

// part is a phase on the grid: the four grid distributions of one release.
type part struct {
	count  int
	bounds [2][2]pmf // [remove, add][above, below]; empty if only a guess is wanted
	guess  [2]pmf    // [remove, add]
}

// compose composes phases on the grid of multiples of dt. Mass of at most tail
// is left out on either side of a release and of the composition. If bounds is
// false, only the guess is composed.
func compose(phases []phase, relation Relation, dt, tail float64, bounds bool) ([2]*half, error) {
	var parts []part
	total := 0
	for _, ph := range phases {
		l, err := lawOf(ph.event, relation)
		if err != nil {
			return [2]*half{}, err
		}
		one := tail / float64(ph.count)
		low, high := l.span(one)
		if !(high <= maxLoss && low >= -maxLoss) {
			return [2]*half{}, fmt.Errorf("accounting: %s: losses up to %.3g, and numbers end at %d: too little noise to account",
				ph.event.Name(), math.Max(high, -low), maxLoss)
		}
		if n := (high - low) / dt; !(n <= maxPoints) {
			return [2]*half{}, fmt.Errorf("accounting: %s: a grid of %.3g points is needed, %d are allowed",
				ph.event.Name(), n, maxPoints)
		}
		pt := part{count: ph.count}
		var wait sync.WaitGroup
		if bounds {
			wait.Go(func() { pt.bounds[0][0], pt.bounds[1][0] = above(l, dt, one) })
			wait.Go(func() { pt.bounds[0][1], pt.bounds[1][1] = below(l, dt, one) })
		}
		pt.guess[0], pt.guess[1] = near(l, dt*nearStep, nearSamples)
		wait.Wait()
		parts = append(parts, pt)
		total += ph.count
	}
	// Two directions share one transform length.
	var windows [2]window
	n := nearStep
	for d := range windows {
		if bounds {
			windows[d] = findWindow(parts, d, dt, tail)
		} else {
			windows[d] = guessWindow(parts, d, dt, tail)
		}
		for n < windows[d].points {
			n *= 2
		}
	}
	if n > maxPoints {
		return [2]*half{}, fmt.Errorf("accounting: a grid of %d points is needed, %d are allowed", n, maxPoints)
	}
	// Each frequency is off by some 2^-53, which the power of T multiplies by T;
	// summed over a tail that is at most about T/5 of it. Ten times that is kept.
	rounding := math.Ldexp(float64(total)+64, -52)
	var halves [2]*half
	if bounds {
		f := newFFT(n)
		var wait sync.WaitGroup
		for d := range halves {
			wait.Go(func() {
				halves[d] = f.composeHalf(parts, d, windows[d].first, dt)
				halves[d].slack = windows[d].outside + rounding
			})
		}
		wait.Wait()
	} else {
		halves = [2]*half{{dt: dt}, {dt: dt}}
	}
	// The estimate has both directions in one transform.
	f := newFFT(n / nearStep)
	both := f.compose(parts, func(pt part) (a, b pmf) { return pt.guess[0], pt.guess[1] })
	for d := range halves {
		first := int(math.Floor(float64(windows[d].first) / nearStep))
		halves[d].guess = f.tails(both, d == 1, first, dt*nearStep)
	}
	return halves, nil
}

// composeHalf composes the bounds of direction d.
func (f *fft) composeHalf(parts []part, d, first int, dt float64) *half {
	bounds := f.compose(parts, func(pt part) (a, b pmf) { return pt.bounds[d][0], pt.bounds[d][1] })
	survive := 0.0 // ln of the chance that no loss is infinite
	for _, pt := range parts {
		survive += float64(pt.count) * math.Log1p(-pt.bounds[d][0].infinite)
	}
	return &half{
		dt:       dt,
		upper:    f.tails(bounds, false, first, dt),
		lower:    f.tails(bounds, true, first, dt),
		infinite: -math.Expm1(survive),
	}
}

// compose gives the distributions of two sums of losses, one in the real and one
// in the imaginary part, index by index modulo the length.
func (f *fft) compose(parts []part, pick func(part) (a, b pmf)) []complex128 {
	product := make([]complex128, f.n)
	for i := range product {
		product[i] = complex(1, 1)
	}
	z := make([]complex128, f.n)
	for _, pt := range parts {
		clear(z)
		a, b := pick(pt)
		for j, v := range a.p {
			z[(a.first+j)&(f.n-1)] += complex(v, 0)
		}
		for j, v := range b.p {
			z[(b.first+j)&(f.n-1)] += complex(0, v)
		}
		f.forward(z)
		multiplyPowers(product, z, pt.count)
	}
	f.inverse(product)
	return product
}

// tails sums one part of a composition from the window's end down to loss 0.
func (f *fft) tails(sum []complex128, imaginary bool, first int, dt float64) tails {
	start, end := max(0, first), max(0, first+f.n)
	t := tails{make([]float64, end+1), make([]float64, end+1)}
	scale := 1 / float64(f.n)
	for i := end - 1; i >= 0; i-- {
		p := 0.0
		if i >= start {
			if z := sum[i&(f.n-1)]; imaginary {
				p = imag(z) * scale
			} else {
				p = real(z) * scale
			}
		}
		t.p[i], t.q[i] = t.p[i+1]+p, t.q[i+1]+p*math.Exp(-float64(i)*dt)
	}
	return t
}

// multiplyPowers multiplies the two real sequences' spectra in product by the
// count-th powers of those in z. A transform of a + ib holds at frequencies k
// and -k what is needed to tell the two apart.
func multiplyPowers(product, z []complex128, count int) {
	for i := range z {
		m := mirror(i)
		if m < i {
			continue
		}
		a, b := apart(z[i], z[m])
		pa, pb := apart(product[i], product[m])
		pa *= power(a, count)
		pb *= power(b, count)
		product[i] = pa + mulI(pb)
		product[m] = complex(real(pa), -imag(pa)) + mulI(complex(real(pb), -imag(pb)))
	}
}

func apart(z, mirrored complex128) (a, b complex128) {
	c := complex(real(mirrored), -imag(mirrored))
	a, b = (z+c)/2, (z-c)/2
	return a, complex(imag(b), -real(b)) // b / i
}

// power is z^n for |z| <= 1 by repeated squaring; what falls below 1e-60 on the
// way, where it can no longer be seen beside rounding, is 0.
func power(z complex128, n int) complex128 {
	result := complex(1, 0)
	for {
		if n&1 == 1 {
			result *= z
		}
		n >>= 1
		if n == 0 {
			return result
		}
		z *= z
		if re, im := real(z), imag(z); re*re+im*im < 1e-120 {
			return 0
		}
	}
}
