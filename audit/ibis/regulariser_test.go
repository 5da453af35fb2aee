package ibis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// pairwise is the regulariser by its definition, over all ordered pairs.
func pairwise(phi []float64, m int, lambda float64) float64 {
	d := len(phi) / m
	row := func(i int) []float64 { return phi[i*d : (i+1)*d] }
	sum := 0.0
	for i := range m {
		for j := range m {
			if i == j {
				continue
			}
			ab, aa, bb := gradcheck.Dot(row(i), row(j)), gradcheck.Dot(row(i), row(i)), gradcheck.Dot(row(j), row(j))
			if ab != 0 { // a zero embedding has no direction
				sum += ab * ab / (aa * bb)
			}
		}
	}
	return lambda * sum
}

// regulariser runs interference on m embeddings.
func regulariser(t *testing.T, dev kernels.Device, phi []float64, m int, lambda float64) (r float64, grad []float64) {
	t.Helper()
	x, err := tensor.FromFloats(dev, phi, m, len(phi)/m)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Free(dev)
	c := tensor.NewCtx(dev)
	defer c.Free()
	rv, g := interference(c, tensor.Const(x), lambda)
	return mustFloats(t, dev, partOf(rv))[0], mustFloats(t, dev, partOf(g))
}

// TestInterference: the value is that of the O(m²) definition, the gradient
// that of differences, element by element. A zero embedding counts for nothing.
func TestInterference(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	const m, d, lambda = 6, 5, 0.7
	rnd := rand.New(rand.NewPCG(3, 4))
	phi := make([]float64, m*d)
	for i := range phi {
		phi[i] = rnd.NormFloat64()
	}
	clear(phi[2*d : 3*d])
	r, grad := regulariser(t, dev, phi, m, lambda)
	if want := pairwise(phi, m, lambda); !(math.Abs(r-want) <= 1e-12*want) {
		t.Errorf("R is %v, by its definition %v", r, want)
	}

	// Richardson's rule from h and 2h: the error is of order h⁴ = 1e-12, and that
	// of rounding 1e-16/h = 1e-13.
	const h = 1e-3
	want := make([]float64, m*d)
	for i := range want {
		if i/d == 2 {
			continue // not differentiable there; the gradient is 0 by definition
		}
		slope := func(h float64) float64 {
			x := phi[i]
			defer func() { phi[i] = x }()
			phi[i] = x + h
			up := pairwise(phi, m, lambda)
			phi[i] = x - h
			return (up - pairwise(phi, m, lambda)) / (2 * h)
		}
		want[i] = (4*slope(h) - slope(2*h)) / 3
	}
	if err := gradcheck.Compare("gradient of R", grad, want, 1e-8); err != nil {
		t.Error(err)
	}

	// Faults: a gradient along the embedding, which a change of length would
	// give, and pairs counted once instead of in both orders.
	along, half := make([]float64, m*d), make([]float64, m*d)
	for i := range grad {
		along[i], half[i] = grad[i]+1e-6*phi[i], grad[i]/2
	}
	for name, wrong := range map[string][]float64{"along the embedding": along, "unordered pairs": half} {
		if gradcheck.Compare(name, wrong, want, 1e-8) == nil {
			t.Errorf("planted fault %q passed", name)
		}
	}
}

// TestInterferenceOrthogonal: orthogonal embeddings have R = 0 and no gradient,
// parallel ones R = λ m(m-1) and none either.
func TestInterferenceOrthogonal(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for _, c := range []struct {
		name string
		phi  []float64
		want float64
	}{
		{"orthogonal", []float64{3, 0, 0, 0, 0.5, 0, 0, 0, 7}, 0},
		{"parallel", []float64{1, 2, 2, 2, 4, 4, 0.5, 1, 1}, 2 * 3 * 2},
	} {
		r, grad := regulariser(t, dev, c.phi, 3, 2)
		if !(math.Abs(r-c.want) <= 1e-13*12) { // some roundings of m(m-1) λ
			t.Errorf("%s: R is %v, want %v", c.name, r, c.want)
		}
		for i, g := range grad {
			if !(math.Abs(g) <= 1e-13*12) {
				t.Errorf("%s: gradient %d is %v, want 0", c.name, i, g)
			}
		}
	}
}
