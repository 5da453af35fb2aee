package accounting

import (
	"fmt"
	"math"
	"sync"
)

// Limits of a composition's grid.
const (
	minPoints = 1 << 15
	// maxPoints keeps a composition below 1 GB, some 150 bytes a point with what
	// the garbage collector leaves, and within seconds.
	maxPoints = 1 << 22
	// serialFrom is the length above which the two directions are not composed at
	// once, since each takes some 64 bytes a point.
	serialFrom = 1 << 21
	// maxLoss keeps e^loss of one release far from overflow.
	maxLoss = 600
	// The estimate's grid is this much coarser than that of the bounds.
	nearStep    = 2
	nearSamples = 1 << 14
	// maxScale ends the undoing of a tilt where losses are far below those that it
	// is for, and only slack is left.
	maxScale = 1e200
)

// half is one direction of a composition: what of the loss lies above zero,
// from above and from below.
type half struct {
	dt           float64
	upper, lower tails
	// guess is no bound but closer to the truth than both; its step is nearStep·dt.
	guess tails
	// infinite is the mass of upper at loss +∞.
	infinite float64
	// slack bounds what else may be wrong: mass outside the window of the
	// transform, and rounding; before the tilt is undone.
	slack float64
	tilt  tilt
	// points is how many the window needs, at most maxPoints.
	points int
}

// above and below are bounds of the hockey-stick divergence at eps.
func (h *half) above(eps float64) float64 {
	return math.Min(1, h.upper.delta(eps, h.dt)+h.infinite+h.wrong(eps))
}

func (h *half) below(eps float64) float64 {
	return math.Max(0, h.lower.delta(eps, h.dt)-h.wrong(eps))
}

// wrong is slack with the tilt undone, whose two factors may both be beyond float64.
func (h *half) wrong(eps float64) float64 {
	return h.slack * math.Exp(h.tilt.logMoment-h.tilt.lambda*eps)
}

func (h *half) near(eps float64) float64 { return h.guess.delta(eps, h.dt*nearStep) }

// tails are the masses at losses of i·dt and more: p under P, q under Q times
// e^(i·dt), which is no more than p however great the losses are.
type tails struct{ p, q []float64 }

// delta is the hockey-stick divergence E[(1 - e^(eps - loss))+].
func (t tails) delta(eps, dt float64) float64 {
	i := math.Floor(eps/dt) + 1 // losses above eps
	if !(i < float64(len(t.p))) {
		return 0
	}
	return math.Max(0, t.p[int(i)]-math.Exp(eps-i*dt)*t.q[int(i)])
}

// tilt weighs a release's loss t by e^(lambda t)/M, M the mean of that. A
// transform of tilted losses finds small tails with few relative errors, where
// without it rounding is absolute. The weight of a whole composition at loss t,
// to undo it, is e^(logMoment - lambda t).
type tilt struct{ lambda, logMoment float64 }

func (w tilt) apply(p pmf, dt, logMoment float64) {
	for j := range p.p {
		p.p[j] *= math.Exp(w.lambda*float64(p.first+j)*dt - logMoment)
	}
}

// part is a phase on the grid: the four grid distributions of one release.
type part struct {
	count  int
	bounds [2][2]pmf // [remove, add][above, below]; empty if only a guess is wanted
	guess  [2]pmf    // [remove, add]
}

// grid is how finely a composition is found.
type grid struct {
	dt   float64
	tail float64 // mass that may be left out at either end of a release and of all
	// tilt, if not 0, is the probability for whose tail losses are tilted.
	tilt float64
	// rough: only the guess is wanted.
	rough bool
}

// compose composes phases in both directions, remove and add.
func compose(phases []phase, relation Relation, g grid) ([2]*half, error) {
	parts, total, err := discretise(phases, relation, g)
	if err != nil {
		return [2]*half{}, err
	}
	halves := [2]*half{{dt: g.dt}, {dt: g.dt}}
	if g.tilt > 0 {
		for d, h := range halves {
			h.tilt = tiltParts(parts, d, g)
		}
	}
	// The two directions share one length of transform.
	var windows [2]window
	n := nearStep
	for d, h := range halves {
		if g.rough {
			windows[d] = guessWindow(parts, d, g.dt, g.tail)
		} else {
			windows[d] = findWindow(parts, d, g.dt, g.tail)
		}
		h.points = windows[d].points
		if h.points > maxPoints {
			return halves, &tooFine{phases[0].event, total, float64(h.points)}
		}
		for n < h.points {
			n *= 2
		}
	}
	if !g.rough {
		// Errors measured on Gaussians, whose tails are known, are below a third of
		// this for 1 to 200,000 releases: each frequency is off by some 2^-53, and
		// its power by as much for each release.
		rounding := math.Ldexp(float64(total)+16, -51)
		f := newFFT(n)
		var wait sync.WaitGroup
		for d, h := range halves {
			wait.Go(func() {
				f.composeHalf(h, parts, d, windows[d].first)
				h.slack = windows[d].outside + rounding
			})
			if n > serialFrom {
				wait.Wait()
			}
		}
		wait.Wait()
	}
	// The estimate has both directions in one transform.
	f := newFFT(n / nearStep)
	both := f.compose(parts, func(pt part) (a, b pmf) { return pt.guess[0], pt.guess[1] })
	for d, h := range halves {
		first := int(math.Floor(float64(windows[d].first) / nearStep))
		h.guess = f.tails(both, d == 1, first, g.dt*nearStep, h.tilt)
	}
	return halves, nil
}

// tooFine says that a grid needs more points than maxPoints.
type tooFine struct {
	event  Event
	steps  int
	points float64
}

func (e *tooFine) Error() string {
	return fmt.Sprintf("accounting: %s, %d steps in all: a grid of %.3g points is needed, %d are allowed: too little noise or too many steps",
		e.event.Name(), e.steps, e.points, maxPoints)
}

// discretise puts each phase on the grid, and counts the releases.
func discretise(phases []phase, relation Relation, g grid) (parts []part, total int, err error) {
	for _, ph := range phases {
		l, err := lawOf(ph.event, relation)
		if err != nil {
			return nil, 0, err
		}
		one := g.tail / float64(ph.count)
		low, high := l.span(one)
		if !(high <= maxLoss && low >= -maxLoss) {
			return nil, 0, fmt.Errorf("accounting: %s: losses up to %.3g, and numbers end at %d: too little noise to account",
				ph.event.Name(), math.Max(high, -low), maxLoss)
		}
		if n := (high - low) / g.dt; !(n <= maxPoints) {
			return nil, 0, &tooFine{ph.event, ph.count, n}
		}
		pt := part{count: ph.count}
		var wait sync.WaitGroup
		if !g.rough {
			wait.Go(func() { pt.bounds[0][0], pt.bounds[1][0] = above(l, g.dt, one) })
			wait.Go(func() { pt.bounds[0][1], pt.bounds[1][1] = below(l, g.dt, one) })
		}
		pt.guess[0], pt.guess[1] = near(l, g.dt*nearStep, nearSamples)
		wait.Wait()
		parts = append(parts, pt)
		total += ph.count
	}
	return parts, total, nil
}

// tiltParts tilts direction d's distributions so that a loss with a tail of
// g.tilt becomes common.
func tiltParts(parts []part, d int, g grid) tilt {
	sum := boundSum(parts, d, 0)
	rough, every := coarse(sum)
	w := tilt{lambda: bestLambda(rough, g.dt*float64(every), 1, math.Log(g.tilt))}
	for i, c := range sum {
		one := logMoment([]counted{{c.pmf, 1}}, g.dt, w.lambda)
		w.logMoment += float64(c.count) * one
		w.apply(parts[i].bounds[d][0], g.dt, one)
		w.apply(parts[i].bounds[d][1], g.dt, one)
		w.apply(parts[i].guess[d], g.dt*nearStep, one)
	}
	return w
}

// composeHalf composes the bounds of direction d.
func (f *fft) composeHalf(h *half, parts []part, d, first int) {
	bounds := f.compose(parts, func(pt part) (a, b pmf) { return pt.bounds[d][0], pt.bounds[d][1] })
	survive := 0.0 // ln of the chance that no loss is infinite
	for _, pt := range parts {
		survive += float64(pt.count) * math.Log1p(-pt.bounds[d][0].infinite)
	}
	h.infinite = -math.Expm1(survive)
	h.upper = f.tails(bounds, false, first, h.dt, h.tilt)
	h.lower = f.tails(bounds, true, first, h.dt, h.tilt)
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
func (f *fft) tails(sum []complex128, imaginary bool, first int, dt float64, w tilt) tails {
	start, end := max(0, first), max(0, first+f.n)
	t := tails{make([]float64, end+1), make([]float64, end+1)}
	shrink := math.Exp(-dt)
	scale, growScale := 0.0, math.Exp(w.lambda*dt) // scale undoes the tilt; it is found afresh now and then
	for i := end - 1; i >= 0; i-- {
		scale *= growScale
		if i&127 == 127 || i == end-1 || scale > maxScale {
			scale = math.Min(maxScale, math.Exp(w.logMoment-w.lambda*float64(i)*dt)) / float64(f.n)
		}
		p := 0.0
		if i >= start {
			if z := sum[i&(f.n-1)]; imaginary {
				p = imag(z) * scale
			} else {
				p = real(z) * scale
			}
		}
		t.p[i], t.q[i] = t.p[i+1]+p, p+t.q[i+1]*shrink
	}
	return t
}

// multiplyPowers multiplies the two real sequences' spectra in product by the
// count-th powers of those in z. A transform of a + ib holds at frequencies k
// and -k what is needed to tell the two apart.
func multiplyPowers(product, z []complex128, count int) {
	inChunks(len(z), func(from, to int) {
		for i := from; i < to; i++ {
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
	})
}

func apart(z, mirrored complex128) (a, b complex128) {
	re, im, mre, mim := real(z), imag(z), real(mirrored), imag(mirrored)
	return complex((re+mre)/2, (im-mim)/2), complex((im+mim)/2, (mre-re)/2)
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
