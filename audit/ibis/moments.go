package ibis

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// moments are a layer's second moments over the training data: of its input,
// with a constant 1 for the bias, E[ā āᵀ], and of its gradient, E[δ δᵀ]. They
// are the factors of its K-FAC block.
type moments struct {
	w     *models.Param // its weights
	in    int           // with the constant
	out   int
	input *mat.SymDense
	grad  *mat.SymDense
}

// estimate takes a model's moments over its training data.
func (f Fisher) estimate(ctx context.Context, m *models.Model, d *train.Data, progress Progress) ([]moments, error) {
	var sums []*momentSums
	defer func() {
		for _, s := range sums {
			s.free(m)
		}
	}()
	err := f.walk(ctx, m, d, progress, func(c *tensor.Ctx, layers []models.Factors, again bool) error {
		for i, l := range layers {
			if i == len(sums) {
				s, err := newMomentSums(m, l)
				if err != nil {
					return err
				}
				sums = append(sums, s)
			}
			sums[i].add(c, l, again)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]moments, len(sums))
	for i, s := range sums {
		if all[i], err = s.mean(m, d.Len()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// momentSums are the sums of a layer on the device.
type momentSums struct {
	w, b        *models.Param
	xx, x, dydy *tensor.Tensor // [in, in], [in], [out, out], without the constant
}

func newMomentSums(m *models.Model, l models.Factors) (*momentSums, error) {
	in, out := l.W.Shape[0], l.W.Shape[1]
	s := &momentSums{w: l.W, b: l.B}
	for _, t := range []struct {
		at    **tensor.Tensor
		shape []int
	}{{&s.xx, []int{in, in}}, {&s.x, []int{in}}, {&s.dydy, []int{out, out}}} {
		mem, err := tensor.Alloc(m.Device(), t.shape...)
		if err != nil {
			s.free(m)
			return nil, fmt.Errorf("ibis: factors of %q: %w", l.W.Name, err)
		}
		m.Device().Fill(mem.Mem(), 0)
		*t.at = mem
	}
	return s, nil
}

func (s *momentSums) add(c *tensor.Ctx, l models.Factors, again bool) {
	if !again { // the input is the same for every label
		c.MatMulTo(tensor.Sink{X: s.xx, AccX: true}, l.X, l.X, true, false)
		c.SumTo(tensor.Sink{X: s.x, AccX: true}, l.X, tensor.PerChannel(l.X.Shape()))
	}
	c.MatMulTo(tensor.Sink{X: s.dydy, AccX: true}, l.DY, l.DY, true, false)
}

// mean is the moments over n examples.
func (s *momentSums) mean(m *models.Model, n int) (moments, error) {
	in := s.w.Shape[0]
	k := moments{w: s.w, in: in, out: s.w.Shape[1]}
	var host [3][]float64
	for i, t := range []*tensor.Tensor{s.xx, s.x, s.dydy} {
		var err error
		if host[i], err = t.Floats(m.Device()); err != nil {
			return moments{}, err
		}
	}
	xx, x, dydy := host[0], host[1], host[2]
	if s.b != nil {
		k.in++
	}
	k.input = symmetric(k.in, func(i, j int) float64 { // i ≤ j
		switch {
		case j < in:
			return xx[i*in+j] / float64(n)
		case i < in:
			return x[i] / float64(n)
		}
		return 1
	})
	k.grad = symmetric(k.out, func(i, j int) float64 { return dydy[i*k.out+j] / float64(n) })
	if err := positive(k.w.Name, "input", k.input); err != nil {
		return moments{}, err
	}
	return k, positive(k.w.Name, "gradient", k.grad)
}

func (s *momentSums) free(m *models.Model) {
	for _, t := range []*tensor.Tensor{s.xx, s.x, s.dydy} {
		t.Free(m.Device())
	}
}

func symmetric(n int, at func(i, j int) float64) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, at(i, j))
		}
	}
	return s
}

// positive refuses a factor that is zero, or not finite.
func positive(name, side string, factor *mat.SymDense) error {
	if t := mat.Trace(factor); !(t > 0) || math.IsInf(t, 0) {
		return fmt.Errorf("ibis: the mean squared %s of the layer of %q is %v, expected a positive number", side, name, t)
	}
	return nil
}
