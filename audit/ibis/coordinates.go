package ibis

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// basis turns the Kronecker factors of a layer's examples into coordinates in
// which the layer's curvature is simple: u = Aᵀ ā and w = Sᵀ δ.
type basis struct {
	a    *tensor.Tensor // [in, in']: A without the row of the constant
	bias *tensor.Tensor // [in']: that row; nil where there is no bias
	s    *tensor.Tensor // [out, out]
}

// coordinates are those of a number of examples: u [B, in'] and w [B, out].
type coordinates struct{ u, w *tensor.Tensor }

// projector is a basis for each layer, in the order of the backward pass.
type projector struct {
	m      *models.Model
	layers []basis
}

// add appends the basis of the next layer: A [in', in'] and S [out, out].
func (p *projector) add(k moments, a, s mat.Matrix) error {
	in, dev := k.w.Shape[0], p.m.Device()
	var b basis
	var err error
	if b.a, err = upload(dev, a, 0, in); err == nil && k.in > in {
		b.bias, err = upload(dev, a, in, k.in)
	}
	if err == nil {
		b.s, err = upload(dev, s, 0, k.out)
	}
	p.layers = append(p.layers, b) // to be freed, too
	if err != nil {
		return fmt.Errorf("ibis: basis of %q: %w", k.w.Name, err)
	}
	return nil
}

// upload is the rows [from, to) of m on the device.
func upload(dev kernels.Device, m mat.Matrix, from, to int) (*tensor.Tensor, error) {
	_, cols := m.Dims()
	numbers := make([]float64, 0, (to-from)*cols)
	for i := from; i < to; i++ {
		for j := range cols {
			numbers = append(numbers, m.At(i, j))
		}
	}
	return tensor.FromFloats(dev, numbers, to-from, cols)
}

// project computes coordinates in c's arena.
func (b *basis) project(c *tensor.Ctx, l models.Factors) coordinates {
	var u tensor.Value
	if b.bias == nil {
		u = c.MatMul(l.X, tensor.Const(b.a), false, false)
	} else {
		u = c.Affine(l.X, tensor.Const(b.a), tensor.Const(b.bias.View(b.bias.Len())), false)
	}
	w := c.MatMul(l.DY, tensor.Const(b.s), false, false)
	var k coordinates
	k.u, _ = tensor.Parts(u)
	k.w, _ = tensor.Parts(w)
	return k
}

// each calls f with the coordinates of the examples index of d, or of all if it
// is nil, block by block: one for each layer, in c's arena. Gradients are those
// of the examples' own labels.
func (p *projector) each(ctx context.Context, d *train.Data, index []int,
	f func(c *tensor.Ctx, layers []coordinates, from, to int) error) error {
	r, err := newReader(p.m.Device(), d, index)
	if err != nil {
		return err
	}
	defer r.free()
	pass := models.NewPass(p.m.Device())
	pass.Eval, pass.KeepTaps = true, true
	defer pass.Free()
	layers := make([]coordinates, len(p.layers))
	return r.each(ctx, func(x tensor.Value, y *tensor.Tensor, from, to int) error {
		pass.Reset()
		_, back := pass.Loss(p.m, x, y, tensor.Value{})
		back(false)
		factors, err := kronecker(p.m, pass.Taps)
		if err != nil {
			return err
		}
		for i, l := range factors {
			layers[i] = p.layers[i].project(pass.Ctx, l)
		}
		if err := f(pass.Ctx, layers, from, to); err != nil {
			return err
		}
		return pass.Err()
	})
}

// self calls each for all of d and collects the numbers that f leaves, one for
// each example.
func (p *projector) self(ctx context.Context, d *train.Data, progress Progress,
	f func(c *tensor.Ctx, layers []coordinates) tensor.Value) ([]float64, error) {
	out := make([]float64, 0, d.Len())
	err := p.each(ctx, d, nil, func(c *tensor.Ctx, layers []coordinates, _, to int) error {
		part, err := floats(c, f(c, layers))
		out = append(out, part...)
		progress.tell(to, d.Len())
		return err
	})
	return out, err
}

// collect puts the coordinates of the examples index of d in tensors of their
// own. The caller frees them, after an error as well.
func (p *projector) collect(ctx context.Context, d *train.Data, index []int) ([]coordinates, error) {
	dev := p.m.Device()
	if len(index) == 0 {
		return nil, errNoCandidates
	}
	all := make([]coordinates, len(p.layers))
	for i, b := range p.layers {
		var err error
		if all[i].u, err = tensor.Alloc(dev, len(index), b.a.Dim(1)); err != nil {
			return all, fmt.Errorf("ibis: coordinates of %d examples: %w", len(index), err)
		}
		if all[i].w, err = tensor.Alloc(dev, len(index), b.s.Dim(1)); err != nil {
			return all, fmt.Errorf("ibis: coordinates of %d examples: %w", len(index), err)
		}
	}
	err := p.each(ctx, d, index, func(c *tensor.Ctx, layers []coordinates, from, to int) error {
		for i, l := range layers {
			dev.Copy(all[i].u.Slice(from, to).Mem(), l.u.Mem())
			dev.Copy(all[i].w.Slice(from, to).Mem(), l.w.Mem())
		}
		return nil
	})
	return all, err
}

func freeAll(dev kernels.Device, all []coordinates) {
	for _, k := range all {
		k.u.Free(dev)
		k.w.Free(dev)
	}
}

func (p *projector) free() {
	for _, b := range p.layers {
		for _, t := range []*tensor.Tensor{b.a, b.bias, b.s} {
			t.Free(p.m.Device())
		}
	}
}
