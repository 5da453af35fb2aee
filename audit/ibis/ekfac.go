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

// EKFAC is influence with eigenvalue-corrected K-FAC (George et al. 2018): in
// the eigenvectors of A and S (see KFAC), in which a gradient has the elements
// ãₖ δ̃ₗ, each layer's curvature is the diagonal E[ãₖ² δ̃ₗ²], with labels as f
// says, plus damping times its mean:
//
//	I(i, j) = Σ over layers, k, l of ãᵢₖ δ̃ᵢₗ ãⱼₖ δ̃ⱼₗ / (E[ãₖ² δ̃ₗ²] + λ).
//
// It takes two passes over the data and reports their examples as progress.
// Self-influence costs little more than K-FAC's. A column of influences costs
// 2 p × the number of weights, since its gradient is laid out, one at a time;
// those of the candidates never are.
func EKFAC(ctx context.Context, m *models.Model, d *train.Data, damping float64, f Fisher, progress Progress) (Influence, error) {
	if err := checkDamping(damping); err != nil {
		return nil, err
	}
	n := d.Len()
	all, err := f.estimate(ctx, m, d, progress.part(0, 2*n))
	if err != nil {
		return nil, err
	}
	e := &ekfac{projector: projector{m: m}}
	for _, layer := range all {
		a, err := eigenvectors(layer.input)
		if err == nil {
			var s mat.Matrix
			if s, err = eigenvectors(layer.grad); err == nil {
				err = e.add(layer, a, s)
			}
		}
		if err != nil {
			e.Free()
			return nil, fmt.Errorf("ibis: factors of %q: %w", layer.w.Name, err)
		}
	}
	if err := e.correct(ctx, all, d, damping, f, progress.part(n, 2*n)); err != nil {
		e.Free()
		return nil, err
	}
	return e, nil
}

// eigenvectors are the columns of the result.
func eigenvectors(m *mat.SymDense) (mat.Matrix, error) {
	var e mat.EigenSym
	if !e.Factorize(m, true) {
		return nil, fmt.Errorf("the eigenvalues of a factor of %d rows did not converge", m.SymmetricDim())
	}
	var v mat.Dense
	e.VectorsTo(&v)
	return &v, nil
}

// ekfac is EKFAC in the eigenvectors' coordinates.
type ekfac struct {
	projector
	inverse []*tensor.Tensor // of the damped diagonal, [in', out] for each layer
}

// correct computes the diagonals, from gradients at the labels that the factors
// were made with.
func (e *ekfac) correct(ctx context.Context, all []moments, d *train.Data, damping float64, f Fisher, progress Progress) error {
	dev := e.m.Device()
	for _, k := range all {
		t, err := tensor.Alloc(dev, k.in, k.out)
		if err != nil {
			return fmt.Errorf("ibis: eigenvalues of %q: %w", k.w.Name, err)
		}
		dev.Fill(t.Mem(), 0)
		e.inverse = append(e.inverse, t)
	}
	err := f.walk(ctx, e.m, d, progress, func(c *tensor.Ctx, layers []models.Factors, _ bool) error {
		for i, l := range layers {
			k := e.layers[i].project(c, l)
			c.MatMulTo(tensor.Sink{X: e.inverse[i], AccX: true}, square(c, k.u), square(c, k.w), true, false)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, k := range all {
		values, err := e.inverse[i].Floats(dev)
		if err != nil {
			return err
		}
		mean := 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		if !(mean > 0) {
			return fmt.Errorf("ibis: the mean squared gradient of the layer of %q is %v, expected a positive number", k.w.Name, mean)
		}
		for j, v := range values {
			values[j] = float64(d.Len()) / (v + damping*mean)
		}
		dev.UploadF64(e.inverse[i].Mem(), values)
	}
	return nil
}

func square(c *tensor.Ctx, x *tensor.Tensor) tensor.Value {
	return c.Mul(tensor.Const(x), tensor.Const(x))
}

func (e *ekfac) Free() {
	e.free()
	for _, t := range e.inverse {
		t.Free(e.m.Device())
	}
}

// Self implements Influence: Σ (u∘u)ᵀ D (w∘w), with D the inverse diagonal.
func (e *ekfac) Self(ctx context.Context, d *train.Data, progress Progress) ([]float64, error) {
	return e.self(ctx, d, progress, func(c *tensor.Ctx, layers []coordinates) tensor.Value {
		sum := c.NewX(layers[0].u.Dim(0))
		for i, l := range layers {
			weighted := c.MatMul(square(c, l.u), tensor.Const(e.inverse[i]), false, false)
			c.SumMulTo(tensor.Sink{X: sum, AccX: i > 0}, weighted, square(c, l.w), tensor.PerExample(l.w.Shape()))
		}
		return tensor.Const(sum)
	})
}

// Among implements Influence.
func (e *ekfac) Among(ctx context.Context, d *train.Data, index []int) (Columns, error) {
	all, err := e.collect(ctx, d, index)
	if err != nil {
		freeAll(e.m.Device(), all)
		return nil, err
	}
	return &ekfacColumns{dev: e.m.Device(), p: len(index), layers: all, inverse: e.inverse, ctx: tensor.NewCtx(e.m.Device())}, nil
}

// ekfacColumns are the coordinates of p candidates.
type ekfacColumns struct {
	dev     kernels.Device
	p       int
	layers  []coordinates
	inverse []*tensor.Tensor // the ekfac's
	ctx     *tensor.Ctx
}

// Batch implements Columns. Every column is a large product of its own.
func (*ekfacColumns) Batch() int { return 1 }

// Columns implements Columns: with G = D ∘ (uⱼ wⱼᵀ), the preconditioned
// gradient of j, I(i, j) = Σ uᵢᵀ G wᵢ.
func (k *ekfacColumns) Columns(ctx context.Context, js []int) ([][]float64, error) {
	out := make([][]float64, 0, len(js))
	for _, j := range js {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("ibis: %w", err)
		}
		k.ctx.Reset()
		sum := k.ctx.NewX(k.p)
		for i, l := range k.layers {
			u, w := tensor.Const(l.u.Slice(j, j+1)), tensor.Const(l.w.Slice(j, j+1))
			g := k.ctx.Mul(k.ctx.MatMul(u, w, true, false), tensor.Const(k.inverse[i]))
			k.ctx.SumMulTo(tensor.Sink{X: sum, AccX: i > 0}, k.ctx.MatMul(tensor.Const(l.u), g, false, false),
				tensor.Const(l.w), tensor.PerExample(l.w.Shape()))
		}
		column, err := floats(k.ctx, tensor.Const(sum))
		if err != nil {
			return nil, err
		}
		out = append(out, column)
	}
	return out, nil
}

// Free implements Columns.
func (k *ekfacColumns) Free() {
	freeAll(k.dev, k.layers)
	k.ctx.Free()
}
