package ibis

import (
	"math"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// productRig is the inner problem's field as a refinement computes it: Σ over
// the canaries of their (clipped) gradients, as training sees them.
type productRig struct {
	t     *testing.T
	r     *refiner
	signs []bool // of ReLUs, and of clipping
	theta []float64
	x     []float64
}

// at is that sum, and its products with v, for other parameters and pixels.
func (q *productRig) at(theta, x []float64) (grad, hvp, mixed []float64, err error) {
	r, dev := q.r, q.r.dev
	dev.UploadF64(r.theta.Theta.Mem(), theta)
	r.theta.Moved()
	dev.UploadF64(r.x.Mem(), x)
	q.signs = nil
	if _, err := r.product(r.mover.apply(r.x), r.labels, r.grad, r.hvp, false); err != nil {
		return nil, nil, nil, err
	}
	grad, hvp = mustFloats(q.t, dev, r.grad), mustFloats(q.t, dev, r.hvp)
	forward := slices.Clone(q.signs)
	m, err := r.product(r.mover.apply(r.x), r.labels, nil, nil, true)
	if err != nil {
		return nil, nil, nil, err
	}
	mixed = mustFloats(q.t, dev, r.mover.back(m))
	q.signs = forward
	return grad, hvp, mixed, r.pass.Err()
}

// TestProduct compares Hv and the mixed derivative with differences of
// gradients: v·(dG along u) = u·(Jᵀv), and the same along pixels. No ReLU flips,
// and no example crosses the threshold. A Jacobian that is not transposed, and
// pixels that do not go back through the transform, are planted faults.
func TestProduct(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for name, cfg := range variants() {
		if cfg.WithoutDetect || cfg.WithoutImplicit {
			continue
		}
		cfg.CanaryBatch = 0
		l := newLoop(t, dev)
		r, err := newRefiner(l.star, l.theta, l.rest, l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		q := &productRig{t: t, r: r, theta: mustFloats(t, dev, l.theta.Theta), x: mustFloats(t, dev, l.canaries.X)}
		r.pass.Observe = func(_ models.Layer, v ...models.Value) {
			for _, z := range mustFloats(t, dev, partOf(v[0])) {
				q.signs = append(q.signs, z > 0)
			}
		}
		if r.mover != nil { // one that changes something for every image
			r.mover.draw(0, movesOfCanaries, r.m)
			dev.UploadInts(r.mover.moves.Slice(0, r.m).Mem(), []int32{0, 1, 1, 1, 0, 0, 0, -1, 1, 0, 0, 1, -1, 1, 0})
		}
		if cfg.ClipNorm > 0 {
			r.cfg.ClipNorm = midNorm(t, r)
		}
		v, u, s := wave(len(q.theta), 1), wave(len(q.theta), 2), wave(len(q.x), 3)
		dev.UploadF64(r.v.Mem(), v)
		_, hvp, mixed, err := q.at(q.theta, q.x)
		if err != nil {
			t.Fatal(err)
		}
		along := func(theta, x []float64) func(h float64) (gradcheck.Probe, error) {
			return func(h float64) (gradcheck.Probe, error) {
				grad, _, _, err := q.at(added(q.theta, h, theta), added(q.x, h, x))
				return gradcheck.Probe{Y: []float64{gradcheck.Dot(grad, v)}, Signs: q.signs}, err
			}
		}
		if err := gradcheck.Check("Hv", along(u, nil), hvp, u); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := gradcheck.Check("mixed", along(nil, s), mixed, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r.mover != nil {
			m, err := r.product(r.mover.apply(r.x), r.labels, nil, nil, true)
			if err != nil {
				t.Fatal(err)
			}
			unmoved := mustFloats(t, dev, m)
			if gradcheck.Check("planted", along(nil, s), unmoved, s) == nil {
				t.Errorf("%s: pixels that do not go back through the transform passed", name)
			}
		}
		if cfg.ClipNorm > 0 {
			// J v instead of Jᵀ v: differences of the field along v.
			slope, err := gradcheck.Central(func(h float64) (gradcheck.Probe, error) {
				grad, _, _, err := q.at(added(q.theta, h, v), q.x)
				return gradcheck.Probe{Y: grad, Signs: q.signs}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			if gradcheck.Check("planted", along(u, nil), slope, u) == nil {
				t.Errorf("%s: a Jacobian that is not transposed passed", name)
			}
		}
		r.free()
		l.free()
	}
}

// midNorm is between the norms of the canaries' gradients, so that some are
// clipped and some are not.
func midNorm(t *testing.T, r *refiner) float64 {
	t.Helper()
	p := r.begin(nil, nil, nil)
	_, k, err := p.Clipped(r.theta, tensor.Const(r.mover.apply(r.x)), r.labels, 1)
	if err != nil {
		t.Fatal(err)
	}
	sq := mustFloats(t, r.dev, k.SqNorm)
	lo, hi := math.Sqrt(slices.Min(sq)), math.Sqrt(slices.Max(sq))
	if !(hi-lo > 0.1) {
		t.Fatalf("the norms are between %v and %v; both kinds of examples are needed", lo, hi)
	}
	return (lo + hi) / 2
}

// wave is n numbers of order one.
func wave(n int, seed float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		x := float64(i+1) * (0.123 + 0.7548776662*seed)
		v[i] = x - float64(int(x)) - 0.5
	}
	return v
}

// added is x + h d; a nil d does not move.
func added(x []float64, h float64, d []float64) []float64 {
	y := slices.Clone(x)
	for i := range d {
		y[i] += h * d[i]
	}
	return y
}
