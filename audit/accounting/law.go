package accounting

import (
	"fmt"
	"math"
	"sync"
)

// A law is the distribution of the privacy loss ln(dP/dQ) of one release, P with
// the record and Q without (the "remove" direction; "add" is its mirror image).
type law interface {
	// cells cuts the loss at edge(0), edge(1), … and writes the masses between:
	// p[0] and q[0] at or below the first edge, p[i] and q[i] in
	// (edge(i-1), edge(i)], the last above the last edge. All are differences of
	// tails, so that far cells keep their relative precision.
	cells(edge func(i int) float64, p, q []float64)
	// span gives bounds outside which P and Q have at most the mass tail each,
	// on either side.
	span(tail float64) (low, high float64)
	// sample stands for the law by about n weighted losses: the sums of weights
	// under P and Q and of smooth functions are right to some 1e-12.
	sample(n int, put func(loss, p, q float64))
}

// lawOf is the law of an atomic event under add/remove, or under replace where
// that is the same with half the noise.
func lawOf(e Event, relation Relation) (law, error) {
	half := 1.0
	if relation == Replace {
		half = 0.5
	}
	switch e := e.(type) {
	case Gaussian:
		return sampledGaussian{1, half * e.NoiseMultiplier}, nil
	case PoissonSampledGaussian:
		if relation == Replace && e.SampleRate < 1 {
			return nil, fmt.Errorf("accounting: %s has no known privacy loss under replace", e.Name())
		}
		return sampledGaussian{e.SampleRate, half * e.NoiseMultiplier}, nil
	case Laplace:
		return laplace{half * e.Scale}, nil
	}
	return nil, fmt.Errorf("accounting: event: no accountant knows a %T", e)
}

// sampledGaussian is P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2),
// which dominates the Poisson-sampled Gaussian (Zhu, Dong and Wang 2022,
// "Optimal accounting of differential privacy", theorem 11; q = 1 is the
// Gaussian itself). Gopi, Lee and Wutschitz 2021, appendix B.
type sampledGaussian struct{ q, s float64 }

// loss of the outcome x, and its inverse below.
func (g sampledGaussian) loss(x float64) float64 {
	y := (x - 0.5) / (g.s * g.s)
	if g.q == 1 {
		return y
	}
	if y > 1 {
		return logAdd(math.Log1p(-g.q), math.Log(g.q)+y)
	}
	return math.Log1p(g.q * math.Expm1(y))
}

func (g sampledGaussian) outcome(loss float64) float64 {
	if g.q == 1 {
		return g.s*g.s*loss + 0.5
	}
	// e^y = (e^loss - (1-q)) / q
	var y float64
	if loss > 1 {
		y = loss - math.Log(g.q) + math.Log1p(-(1-g.q)*math.Exp(-loss))
	} else {
		r := math.Expm1(loss) / g.q
		if r <= -1 {
			return math.Inf(-1)
		}
		y = math.Log1p(r)
	}
	return g.s*g.s*y + 0.5
}

func (g sampledGaussian) cells(edge func(int) float64, p, q []float64) {
	// at is what of both Gaussians lies on the smaller side of edge i.
	at := func(i int) (out, in tail) {
		switch {
		case i < 0:
			return tail{}, tail{}
		case i >= len(p)-1:
			return tail{0, true}, tail{0, true}
		}
		x := g.outcome(edge(i))
		return tailOf(x / g.s), tailOf((x - 1) / g.s)
	}
	inChunks(len(p), func(from, to int) {
		out, in := at(from - 1)
		for i := from; i < to; i++ {
			nextOut, nextIn := at(i)
			a, b := out.to(nextOut), in.to(nextIn)
			p[i], q[i] = (1-g.q)*a+g.q*b, a
			out, in = nextOut, nextIn
		}
	})
}

// inChunks calls do for parts of 0 to n at once.
func inChunks(n int, do func(from, to int)) {
	const size = 1 << 14
	var wait sync.WaitGroup
	for from := 0; from < n; from += size {
		wait.Go(func() { do(from, min(n, from+size)) })
	}
	wait.Wait()
}

func (g sampledGaussian) span(tail float64) (low, high float64) {
	z := upperQuantile(tail) * g.s
	return g.loss(-z), g.loss(1 + z)
}

// sample is the trapezoidal rule, which converges faster than any power of the
// step for functions like these.
func (g sampledGaussian) sample(n int, put func(loss, p, q float64)) {
	const reach = 9 // standard deviations; 1e-19 lies beyond
	low, high := -reach*g.s, 1+reach*g.s
	h := (high - low) / float64(n)
	for i := range n {
		x := low + (float64(i)+0.5)*h
		scale := h / (g.s * math.Sqrt(2*math.Pi))
		out := scale * math.Exp(-x*x/(2*g.s*g.s))
		in := scale * math.Exp(-(x-1)*(x-1)/(2*g.s*g.s))
		put(g.loss(x), (1-g.q)*out+g.q*in, out)
	}
}

// tail is the smaller one of a standard normal's two tails at a point.
type tail struct {
	p     float64
	upper bool // p is P[> x], else P[<= x]
}

func tailOf(x float64) tail {
	switch {
	case math.IsInf(x, -1):
		return tail{0, false}
	case x > 0:
		return tail{upperTail(x), true}
	}
	return tail{upperTail(-x), false}
}

// to is the mass from t's point to that of u, which is no smaller.
func (t tail) to(u tail) float64 {
	switch {
	case t.upper:
		return t.p - u.p
	case u.upper:
		return 1 - t.p - u.p
	}
	return u.p - t.p
}

// laplace is Laplace noise of scale b around 0 against around 1: the loss is
// cut off at -1/b and 1/b, where half the mass of P is.
type laplace struct{ b float64 }

func (l laplace) cells(edge func(int) float64, p, q []float64) {
	top := 1 / l.b
	below, above := 0.0, 1.0 // P of a loss at or below the last edge, Q of one above it
	for i := range p {
		nextBelow, nextAbove := 1.0, 0.0
		if i < len(p)-1 {
			switch t := edge(i); {
			case t < -top:
				nextBelow, nextAbove = 0, 1
			case t < top:
				nextBelow, nextAbove = math.Exp((t-top)/2)/2, math.Exp(-(t+top)/2)/2
			}
		}
		p[i], q[i] = nextBelow-below, above-nextAbove
		below, above = nextBelow, nextAbove
	}
}

func (l laplace) span(float64) (low, high float64) { return -1 / l.b, 1 / l.b }

// sample has both mass points, and Gauss's two points in each of n/2 cells of
// the outcomes between.
func (l laplace) sample(n int, put func(loss, p, q float64)) {
	top := 1 / l.b
	far := math.Exp(-top) / 2
	put(top, 0.5, far)
	put(-top, far, 0.5)
	h := 2 / float64(n)
	for i := range n / 2 {
		for _, at := range [2]float64{0.5 - 0.5/math.Sqrt(3), 0.5 + 0.5/math.Sqrt(3)} {
			x := (float64(i) + at) * h
			scale := h / 2 / (2 * l.b)
			put((1-2*x)/l.b, scale*math.Exp(-x/l.b), scale*math.Exp((x-1)/l.b))
		}
	}
}
