package layertest

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// clippedResult is what clipping gives.
type clippedResult struct {
	sum, losses     []float64
	sq, factor      []float64
	product, pixels []float64 // J'v, if v was given
	signs           []bool
}

// clipped runs Clipped, and ClippedProduct if v is not nil.
func (f *Fixture) clipped(r Run, norm float64, v []float64, record bool) (res clippedResult, err error) {
	s := &scratch{dev: f.dev}
	defer s.free(&err)
	x, labels, _ := f.at(s, r)
	p := f.pass(&res.signs)
	defer p.Free()
	p.Grad = s.alloc(f.Model.Len())
	if record {
		p.Mode = models.Record
	}
	losses, k, err := p.Clipped(f.Model, x, labels, norm)
	if err != nil {
		return res, err
	}
	res.losses, _ = s.parts(losses)
	if v != nil {
		p.HVP = s.alloc(f.Model.Len())
		dx, err := p.ClippedProduct(f.Model, x, labels, k, f.split(s, v), true)
		if err != nil {
			return res, err
		}
		res.product = s.read(p.HVP)
		_, res.pixels = s.parts(dx)
	}
	res.sum, res.sq, res.factor = s.read(p.Grad), s.read(k.SqNorm), s.read(k.Factor)
	return res, p.Err()
}

// midNorm is a clip norm between the norms of the examples' gradients.
func (f *Fixture) midNorm() float64 {
	lo, hi := math.Inf(1), 0.0
	for i := range f.Batch {
		one, err := f.Do(Run{From: i, To: i + 1})
		if err != nil {
			return math.NaN()
		}
		n := math.Sqrt(gradcheck.Dot(one.Grad, one.Grad))
		lo, hi = min(lo, n), max(hi, n)
	}
	return (lo + hi) / 2
}

// PerExample compares norms, factors and the clipped sum with batches of one.
// A net that is Mixed must refuse.
func (f *Fixture) PerExample() error {
	norm := f.midNorm()
	got, err := f.clipped(Run{}, norm, nil, false)
	if f.Mixed {
		if err == nil {
			return fmt.Errorf("per-example gradients were not refused")
		}
		return nil
	}
	if err != nil {
		return err
	}
	clipped := 0
	sum, factors, sq := make([]float64, len(f.Theta)), make([]float64, f.Batch), make([]float64, f.Batch)
	for i := range f.Batch {
		one, err := f.Do(Run{From: i, To: i + 1})
		if err != nil {
			return err
		}
		sq[i] = gradcheck.Dot(one.Grad, one.Grad)
		factors[i] = min(1, norm/math.Sqrt(sq[i]))
		if factors[i] < 1 {
			clipped++
		}
		sum = plus(sum, factors[i], one.Grad)
	}
	if clipped == 0 || clipped == f.Batch {
		return fmt.Errorf("%d of %d examples are clipped; both kinds are needed", clipped, f.Batch)
	}
	if err := gradcheck.Compare("squared norms", got.sq, sq, Exact); err != nil {
		return err
	}
	if err := gradcheck.Compare("clip factors", got.factor, factors, Exact); err != nil {
		return err
	}
	return gradcheck.Compare("clipped sum", got.sum, sum, Exact)
}

// ClippedProduct compares J'v of the clipped sum with batches of one, where it
// is H P v, and with differences of v·(clipped sum), along parameters and x.
func (f *Fixture) ClippedProduct() error {
	if f.Mixed {
		return nil
	}
	norm, v := f.midNorm(), f.Random(len(f.Theta))
	got, err := f.clipped(Run{}, norm, v, true)
	if err != nil {
		return err
	}
	again, err := f.clipped(Run{}, norm, v, false) // without a recorded primal
	if err != nil {
		return err
	}
	if !slices.Equal(got.product, again.product) || !slices.Equal(got.pixels, again.pixels) {
		return fmt.Errorf("recording changes bits")
	}

	product, pixels := make([]float64, len(f.Theta)), []float64(nil)
	for i := range f.Batch {
		one, err := f.Do(Run{From: i, To: i + 1})
		if err != nil {
			return err
		}
		sq := gradcheck.Dot(one.Grad, one.Grad)
		a := min(1, norm/math.Sqrt(sq))
		pv := plus(make([]float64, len(v)), a, v)
		if a < 1 {
			pv = plus(pv, -a*gradcheck.Dot(one.Grad, v)/sq, one.Grad)
		}
		moved, err := f.Do(Run{From: i, To: i + 1, Dir: pv})
		if err != nil {
			return err
		}
		product = plus(product, 1, moved.HVP)
		pixels = append(pixels, moved.Mixed...)
	}
	if err := gradcheck.Compare("J'v by batches of one", got.product, product, Exact); err != nil {
		return err
	}
	if err := gradcheck.Compare("J'v for x by batches of one", got.pixels, pixels, Exact); err != nil {
		return err
	}

	along := func(r Run) (gradcheck.Probe, error) {
		res, err := f.clipped(r, norm, nil, false)
		if err != nil {
			return gradcheck.Probe{}, err
		}
		// Which examples are clipped is a kink, too.
		signs := res.signs
		for _, a := range res.factor {
			signs = append(signs, a < 1)
		}
		return gradcheck.Probe{Y: []float64{gradcheck.Dot(res.sum, v)}, Signs: signs}, nil
	}
	u, s := f.Random(len(f.Theta)), f.Random(len(f.X))
	err = gradcheck.Check("u·J'v", func(t float64) (gradcheck.Probe, error) {
		return along(Run{Theta: plus(f.Theta, t, u)})
	}, got.product, u)
	if err != nil {
		return err
	}
	return gradcheck.Check("s·J'v for x", func(t float64) (gradcheck.Probe, error) {
		return along(Run{X: plus(f.X, t, s)})
	}, got.pixels, s)
}

// Microbatches: a batch in pieces, accumulated, gives the bits of the whole.
func (f *Fixture) Microbatches() (err error) {
	s := &scratch{dev: f.dev}
	defer s.free(&err)
	v := f.Random(len(f.Theta))
	whole, err := f.Do(Run{Dir: v})
	if err != nil {
		return err
	}
	p := f.pass(nil)
	defer p.Free()
	p.Grad, p.HVP, p.Dir = s.alloc(f.Model.Len()), s.alloc(f.Model.Len()), f.split(s, v)
	for from := 0; from < f.Batch; from++ {
		x, labels, w := f.at(s, Run{From: from, To: from + 1})
		p.Accumulate = from > 0
		_, back := p.Loss(f.Model, x, labels, w)
		back(false)
	}
	// The terms of Hv come in another order, so only the gradient has its bits.
	if got := s.read(p.Grad); !f.Mixed && !slices.Equal(got, whole.Grad) {
		return fmt.Errorf("the gradient does not have the bits of the whole batch")
	}
	if f.Mixed {
		return nil // examples that mix are another loss; tied terms come in another order
	}
	return gradcheck.Compare("Hv in pieces", s.read(p.HVP), whole.HVP, Exact)
}
