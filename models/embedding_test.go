package models_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/layertest"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// embedRig is a fixture on which Σ loss[z] + Σ q φ² / 2 is a function of the
// parameters and of x.
type embedRig struct {
	t   *testing.T
	dev kernels.Device
	f   *layertest.Fixture
	q   []float64 // [B, D]
}

// embedResult is that function and its derivatives.
type embedResult struct {
	y         float64
	grad, dx  []float64 // by the parameters, by x
	hv, mixed []float64 // their derivatives along dir
	signs     []bool
}

// at runs one pass; skip drops the embedding's part of the gradient.
func (r embedRig) at(theta, x, dir []float64, skip bool) (res embedResult) {
	r.t.Helper()
	must := func(t *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			r.t.Fatal(err)
		}
		return t
	}
	floats := func(t *tensor.Tensor) []float64 {
		v, err := t.Floats(r.dev)
		if err != nil {
			r.t.Fatal(err)
		}
		return v
	}
	m := r.f.Model
	r.dev.UploadF64(m.Theta.Mem(), theta)
	m.Moved()
	p := models.NewPass(r.dev)
	defer p.Free()
	p.Grad, p.HVP = must(tensor.Alloc(r.dev, m.Len())), must(tensor.Alloc(r.dev, m.Len()))
	p.Dir = m.Split(must(tensor.FromFloats(r.dev, dir, m.Len())))
	p.Observe = func(_ models.Layer, v ...models.Value) {
		z, _ := tensor.Parts(v[0])
		for _, z := range floats(z) {
			res.signs = append(res.signs, z > 0)
		}
	}
	labels := must(tensor.FromInts(r.dev, r.f.Labels, r.f.Batch))
	pixels := must(tensor.FromFloats(r.dev, x, append([]int{r.f.Batch}, r.f.In...)...))
	e, err := p.LossAndEmbedding(m, tensor.Const(pixels), labels, models.Value{})
	if err != nil {
		r.t.Fatal(err)
	}
	shape := e.Embedding.Shape()
	q := must(tensor.FromFloats(r.dev, r.q[:shape[0]*shape[1]], shape...))
	slope := p.Mul(tensor.Const(q), e.Embedding)
	losses, _ := tensor.Parts(e.Losses)
	squares, _ := tensor.Parts(p.Mul(slope, e.Embedding))
	for _, l := range floats(losses) {
		res.y += l
	}
	for _, s := range floats(squares) {
		res.y += s / 2
	}
	if skip {
		slope = models.Value{}
	}
	dx, mixed := tensor.Parts(e.Back(slope, true))
	res.grad, res.hv, res.dx, res.mixed = floats(p.Grad), floats(p.HVP), floats(dx), floats(mixed)
	return res
}

// check compares derivatives with differences along the parameters and x.
func (r embedRig) check(skip bool) error {
	f := r.f
	v, u := f.Random(len(f.Theta)), f.Random(len(f.X))
	at := r.at(f.Theta, f.X, v, skip)
	all, err := gradcheck.Central(func(h float64) (gradcheck.Probe, error) {
		res := r.at(plus(f.Theta, h, v), f.X, v, skip)
		return gradcheck.Probe{Y: slices.Concat([]float64{res.y}, res.grad, res.dx), Signs: res.signs}, nil
	})
	if err != nil {
		return err
	}
	grads, n := all[1:], len(f.Theta)
	return errors.Join(
		gradcheck.Compare("along v", []float64{gradcheck.Dot(at.grad, v)}, all[:1], gradcheck.Tolerance),
		gradcheck.Compare("Hv", at.hv, grads[:n], gradcheck.Tolerance),
		gradcheck.Compare("mixed", at.mixed, grads[n:], gradcheck.Tolerance),
		gradcheck.Check("along x", func(h float64) (gradcheck.Probe, error) {
			res := r.at(f.Theta, plus(f.X, h, u), v, skip)
			return gradcheck.Probe{Y: []float64{res.y}, Signs: res.signs}, nil
		}, at.dx, u))
}

// TestEmbedding differences a function of losses and embedding, and its
// gradients. The fault it must catch is a backward pass without the
// embedding's part.
func TestEmbedding(t *testing.T) {
	for _, prob := range problems()[:5] {
		dev := kernels.Reference()
		defer dev.Close()
		f, err := layertest.New(prob, dev)
		if err != nil {
			t.Fatal(err)
		}
		r := embedRig{t, dev, f, f.Random(prob.Batch * 12)}
		if err := r.check(false); err != nil {
			t.Errorf("%s: %v", prob.Name, err)
		}
		if r.check(true) == nil {
			t.Errorf("%s: a gradient without the embedding's part passed", prob.Name)
		}
	}
}

// plus is x + h v.
func plus(x []float64, h float64, v []float64) []float64 {
	y := slices.Clone(x)
	for i := range y {
		y[i] += h * v[i]
	}
	return y
}

// TestEmbeddingRefuses: nets without an embedding are errors that say so.
func TestEmbeddingRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for want, net := range map[string]models.Layer{
		"Sequential": models.NewLinear("a", 3, 2),
		"vector":     models.Sequential{lift{}, models.Sequential{models.Flatten{}, models.NewLinear("a", 3, 2)}},
	} {
		m, err := models.New(dev, net)
		if err != nil {
			t.Fatal(err)
		}
		x, err := tensor.Alloc(dev, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		labels, err := tensor.FromInts(dev, []int32{0}, 1)
		if err != nil {
			t.Fatal(err)
		}
		p := models.NewPass(dev)
		if _, err := p.LossAndEmbedding(m, tensor.Const(x), labels, models.Value{}); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%T: %v, want an error with %q", net, err, want)
		}
		p.Free()
	}
}

// lift turns [B, n] into [B, n, 1].
type lift struct{}

func (lift) Params() []*models.Param { return nil }

func (lift) Forward(_ *models.Pass, x models.Value) (models.Value, models.Back) {
	shape := x.Shape()
	return x.View(shape[0], shape[1], 1), func(dy models.Value, _ bool) models.Value { return dy.View(shape...) }
}
