package accounting

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// Exact divergences, found without any grid of losses.

// exactDelta is the hockey-stick divergence of steps releases in one direction.
func (g sampledGaussian) exactDelta(steps int, eps float64, add bool) float64 {
	switch steps {
	case 1:
		return g.singleDelta(eps, add)
	case 2: // the second release against what the first has left
		// Where the first's loss is eps, the second's curve is steep.
		sign := 1.0
		if add {
			sign = -1
		}
		return integrate(-10*g.s, 1+10*g.s, g.outcome(sign*eps), func(x float64) float64 {
			out, in := normal(x/g.s)/g.s, normal((x-1)/g.s)/g.s
			if add {
				return out * g.singleDelta(eps+g.loss(x), add)
			}
			return ((1-g.q)*out + g.q*in) * g.singleDelta(eps-g.loss(x), add)
		})
	}
	return g.fourierDelta(steps, eps, add)
}

func normal(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// integrate integrates f by Gauss-Legendre in panels that shrink towards steep.
func integrate(low, high, steep float64, f func(float64) float64) float64 {
	edges := []float64{low, high}
	for i := range 64 {
		edges = append(edges, low+(high-low)*float64(i)/64)
	}
	if low < steep && steep < high {
		edges = append(edges, steep)
		for w := (high - low) / 8; w > 1e-9; w /= 2 {
			edges = append(edges, math.Max(low, steep-w), math.Min(high, steep+w))
		}
	}
	slices.Sort(edges)
	sum := 0.0
	for i, e := range edges[1:] {
		if e > edges[i] {
			sum += quad.Fixed(f, edges[i], e, 16, quad.Legendre{}, 0)
		}
	}
	return sum
}

// singleDelta also takes a negative eps.
func (g sampledGaussian) singleDelta(eps float64, add bool) float64 {
	if eps < 0 { // E_k(P,Q) = 1 - k + k E_1/k(Q,P)
		return -math.Expm1(eps) + math.Exp(eps)*g.singleDelta(-eps, !add)
	}
	if add {
		return g.addDelta(eps)
	}
	return g.removeDelta(eps)
}

// fourierDelta inverts the moment generating function M of the loss:
// δ(ε) = 1/2πi ∫ M(s)^T e^(-sε) / (s(s+1)) ds along Re s = b, any b > 0.
func (g sampledGaussian) fourierDelta(steps int, eps float64, add bool) float64 {
	type point struct{ loss, weight float64 }
	var points []point
	variance := 0.0
	g.sample(800, func(loss, p, q float64) {
		if add {
			loss, p = -loss, q
		}
		points = append(points, point{loss, p})
		variance += p * loss * loss
	})
	term := func(s complex128) complex128 {
		var m complex128
		for _, pt := range points {
			m += complex(pt.weight, 0) * cmplx.Exp(s*complex(pt.loss, 0))
		}
		return cmplx.Exp(complex(float64(steps), 0)*cmplx.Log(m)-s*complex(eps, 0)) / (s * (s + 1))
	}
	// The best line passes near the least value on the real axis.
	b := 0.01
	for real(term(complex(b*1.2, 0))) < real(term(complex(b, 0))) {
		b *= 1.2
	}
	// The trapezoidal rule; its error falls as e^(-2πb/h), and with the spread
	// of the loss.
	h := math.Min(b/6, 0.12/math.Sqrt(float64(steps)*variance))
	sum := real(term(complex(b, 0))) / 2
	for w := h; ; w += h {
		v := term(complex(b, w))
		sum += real(v)
		if cmplx.Abs(v) < 1e-14*sum {
			return sum * h / math.Pi
		}
	}
}

// sandwich reports whether the bounds on ε enclose the exact one, to 1e-9 in ε:
// the exact divergence at Lower is no less than delta, that at Upper no more.
func sandwich(v Interval, delta float64, exact func(eps float64) float64) error {
	if v.Lower > 1e-9 && !(exact(v.Lower-1e-9) >= delta) {
		return fmt.Errorf("lower %.12g: divergence %.12g < %g", v.Lower, exact(v.Lower), delta)
	}
	if !(exact(v.Upper+1e-9) <= delta) {
		return fmt.Errorf("upper %.12g: divergence %.12g > %g", v.Upper, exact(v.Upper), delta)
	}
	if !(v.Lower <= v.Estimate && v.Estimate <= v.Upper && v.Upper-v.Lower <= MaxWidth) {
		return fmt.Errorf("interval %+v", v)
	}
	return nil
}

// draws gives random DP-SGD settings: single releases, pairs, Gaussians that are
// composed as if they were sampled, and long runs.
func draws(n int, do func(q, s float64, steps int, delta float64)) {
	r := rand.New(rand.NewPCG(20, 26))
	for i := range n {
		q := math.Exp(math.Log(1e-3) * r.Float64())
		s := math.Exp(math.Log(0.4) + math.Log(20)*r.Float64())
		delta := math.Pow(10, -3-5*r.Float64())
		steps := 1
		switch i % 4 {
		case 1:
			steps = 2
		case 2:
			q, steps = 1, 1+r.IntN(50)
			s *= math.Sqrt(float64(steps))
		case 3:
			q, s = math.Max(q, 0.01), math.Max(s, 0.8)
			steps = int(40/q) + r.IntN(400)
		}
		do(q, s, steps, delta)
	}
}

func TestSandwich(t *testing.T) {
	planted := 0
	draws(200, func(q, s float64, steps int, delta float64) {
		e := DPSGD(q, s, steps)
		f, err := flatten(e)
		if err != nil {
			t.Fatal(err)
		}
		g := sampledGaussian{q, s}
		exact := func(eps float64) float64 {
			if q == 1 {
				return gaussianDelta(math.Sqrt(float64(steps))/s, eps)
			}
			return math.Max(g.exactDelta(steps, eps, false), g.exactDelta(steps, eps, true))
		}
		c, err := newGridCurve(f, delta) // Gaussians too
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		v, err := c.Epsilon(delta)
		if err != nil {
			t.Fatal(err)
		}
		if err := sandwich(v, delta, exact); err != nil {
			t.Errorf("%s, delta %g: %v", e.Name(), delta, err)
		}
		// An interval in the wrong place must be noticed; some draws will do. So
		// must an accountant that is 1 % too low, where that is more than the width.
		wrong := []Interval{
			{v.Lower - 2*MaxWidth, v.Estimate - 2*MaxWidth, v.Upper - 2*MaxWidth},
			{v.Lower + 2*MaxWidth, v.Estimate + 2*MaxWidth, v.Upper + 2*MaxWidth},
		}
		if v.Lower > 200*MaxWidth {
			wrong = append(wrong, Interval{0.99 * v.Lower, 0.99 * v.Estimate, 0.99 * v.Upper})
		}
		if v.Lower < 4*MaxWidth || planted >= 40 {
			return
		}
		for _, w := range wrong {
			planted++
			if sandwich(w, delta, exact) == nil {
				t.Errorf("%s, delta %g: %+v for %+v is not noticed", e.Name(), delta, w, v)
			}
		}
	})
	if planted < 40 {
		t.Errorf("%d wrong intervals were tried", planted)
	}
}

// TestGridBounds compares the curves of one release on coarse grids with exact
// ones, in both directions.
func TestGridBounds(t *testing.T) {
	type curve func(eps float64, add bool) float64
	laws := map[string]struct {
		law   law
		exact curve
	}{
		"sampled": {sampledGaussian{.1, 1}, sampledGaussian{.1, 1}.singleDelta},
		"steep":   {sampledGaussian{.003, .5}, sampledGaussian{.003, .5}.singleDelta},
		"often":   {sampledGaussian{.7, 2}, sampledGaussian{.7, 2}.singleDelta},
		"Laplace": {laplace{.7}, laplaceDelta(.7)},
		"sharp":   {laplace{.2}, laplaceDelta(.2)},
	}
	at := func(p pmf, dt, eps float64) float64 {
		sum := p.infinite
		for j, v := range p.p {
			if v < 0 {
				t.Fatalf("mass %g", v)
			}
			if loss := float64(p.first+j) * dt; loss > eps {
				sum -= v * math.Expm1(eps-loss)
			}
		}
		return sum
	}
	for name, c := range laws {
		for _, dt := range []float64{.3, .05, .003} {
			var over, under [2]pmf
			over[0], over[1] = above(c.law, dt, 1e-14)
			under[0], under[1] = below(c.law, dt, 1e-14)
			for d := range 2 {
				gap, previous := 0.0, 0.0
				for eps := -3.0; eps < 8; eps += 0.0137 {
					exact := c.exact(eps, d == 1)
					high, low := at(over[d], dt, eps), at(under[d], dt, eps)
					if !(low-1e-13 <= exact && exact <= high+1e-13) {
						t.Fatalf("%s, step %g, direction %d: %g at %g is not between %g and %g", name, dt, d, exact, eps, low, high)
					}
					gap, previous = math.Max(gap, high-low), exact
				}
				// Chord and tangent are dk²/8 h'' from the curve each at most,
				// and a kink or an edge inside a cell costs a step.
				if !(gap <= dt) || math.IsNaN(previous) {
					t.Errorf("%s, step %g, direction %d: gap %g", name, dt, d, gap)
				}
			}
		}
	}
}

// laplaceDelta is 1 - e^((ε - 1/b)/2) for 0 <= ε <= 1/b, both directions alike.
func laplaceDelta(b float64) func(eps float64, add bool) float64 {
	var delta func(eps float64, add bool) float64
	delta = func(eps float64, add bool) float64 {
		if eps < 0 {
			return -math.Expm1(eps) + math.Exp(eps)*delta(-eps, add)
		}
		return math.Max(0, -math.Expm1((eps-1/b)/2))
	}
	return delta
}

func TestLaplace(t *testing.T) {
	const b, delta = 2.0, 1e-3
	one := laplaceDelta(b)
	v, err := tight(Laplace{Scale: b}, delta)
	if err != nil {
		t.Fatal(err)
	}
	if err := sandwich(v, delta, func(eps float64) float64 { return one(eps, false) }); err != nil {
		t.Error(err)
	}
	two := func(eps float64) float64 {
		// Mass points, and the outcomes between; no loss of the second is above
		// 1/b, where the curve has a kink.
		sum := one(eps-1/b, false)/2 + math.Exp(-1/b)/2*one(eps+1/b, false)
		kink := (1 - b*(eps-1/b)) / 2
		return sum + integrate(0, 1, kink, func(x float64) float64 {
			return math.Exp(-x/b) / (2 * b) * one(eps-(1-2*x)/b, false)
		})
	}
	if v, err = tight(SelfComposed{Laplace{Scale: b}, 2}, delta); err != nil {
		t.Fatal(err)
	}
	if err := sandwich(v, delta, two); err != nil {
		t.Error(err)
	}
	// Many more: below the pure bound, above that of fewer, and within RDP.
	previous := v.Upper
	for _, n := range []int{10, 100} {
		v, err := tight(SelfComposed{Laplace{Scale: b}, n}, delta)
		if err != nil {
			t.Fatal(err)
		}
		rdp, _, err := RDPEpsilon(SelfComposed{Laplace{Scale: b}, n}, delta)
		if err != nil {
			t.Fatal(err)
		}
		if !(v.Lower > previous && v.Upper <= float64(n)/b && v.Upper <= rdp && v.Upper-v.Lower <= MaxWidth) {
			t.Errorf("%d releases: %+v, RDP %g", n, v, rdp)
		}
		previous = v.Upper
	}
}
