package ibis

import (
	"context"
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// Exact is influence with the damped Gauss-Newton matrix of the mean loss over
// d,
//
//	H = (1/n) Σ Jᵀ (∂²loss/∂logits²) J + damping 1,
//
// inverted by conjugate gradients. Damping is absolute here: it is the weight
// decay for which m is a minimum, if there is one. For a model that is linear
// in its parameters the Gauss-Newton matrix is the Hessian.
//
// Every influence costs many passes over d: it is the oracle for small nets.
func Exact(m *models.Model, d *train.Data, damping float64) (Influence, error) {
	if err := checkDamping(damping); err != nil {
		return nil, err
	}
	e := &exact{m: m, data: d, damping: damping, pass: models.NewPass(m.Device()), tol: 1e-10}
	if m.Device().ElemBits() == 32 {
		e.tol = 1e-5 // rounding keeps the residual above some 1e-6 of the gradient
	}
	e.pass.Eval = true
	for _, v := range []**tensor.Tensor{&e.gradient, &e.solution, &e.residual, &e.step, &e.product} {
		var err error
		if *v, err = tensor.Alloc(m.Device(), m.Len()); err != nil {
			e.Free()
			return nil, fmt.Errorf("ibis: %w", err)
		}
	}
	var err error
	if e.number, err = tensor.Alloc(m.Device(), 1); err != nil {
		e.Free()
		return nil, fmt.Errorf("ibis: %w", err)
	}
	return e, nil
}

type exact struct {
	m       *models.Model
	data    *train.Data
	damping float64
	tol     float64 // of the residual's norm, relative to the gradient's
	pass    *models.Pass

	gradient, solution, residual, step, product *tensor.Tensor // flat, as Theta
	number                                      *tensor.Tensor // [1]
}

// Free implements Influence.
func (e *exact) Free() {
	for _, t := range []*tensor.Tensor{e.gradient, e.solution, e.residual, e.step, e.product, e.number} {
		t.Free(e.m.Device())
	}
	e.pass.Free()
}

// Self implements Influence: gᵀ H⁻¹ g for each example's gradient g.
func (e *exact) Self(ctx context.Context, d *train.Data, progress Progress) ([]float64, error) {
	self := make([]float64, d.Len())
	for i := range self {
		err := e.solve(ctx, d, i)
		if err == nil {
			self[i], err = e.dot(e.gradient, e.solution)
		}
		if err != nil {
			return nil, fmt.Errorf("ibis: example %d: %w", i, err)
		}
		progress.tell(i+1, d.Len())
	}
	return self, nil
}

// Among implements Influence.
func (e *exact) Among(_ context.Context, d *train.Data, index []int) (Columns, error) {
	if len(index) == 0 {
		return nil, errNoCandidates
	}
	r, err := newReader(e.m.Device(), d, index)
	if err != nil {
		return nil, err
	}
	return &exactColumns{e, r}, nil
}

type exactColumns struct {
	e *exact
	r *reader
}

// Batch implements Columns.
func (*exactColumns) Batch() int { return 1 }

// Free implements Columns.
func (k *exactColumns) Free() { k.r.free() }

// Columns implements Columns. ∇loss(i)ᵀ H⁻¹ ∇loss(j) is the derivative of the
// loss of i along H⁻¹ ∇loss(j): one forward pass.
func (k *exactColumns) Columns(ctx context.Context, js []int) ([][]float64, error) {
	out := make([][]float64, len(js))
	for c, j := range js {
		if err := k.e.solve(ctx, k.r.data, k.r.index[j]); err != nil {
			return nil, fmt.Errorf("ibis: example %d: %w", k.r.index[j], err)
		}
		p := k.e.pass
		p.Dir, p.Grad, p.HVP = k.e.m.Split(k.e.solution), nil, nil
		err := k.r.each(ctx, func(x tensor.Value, labels *tensor.Tensor, _, _ int) error {
			p.Reset()
			losses, _ := p.Loss(k.e.m, x, labels, tensor.Value{})
			_, along := tensor.Parts(losses)
			part, err := floats(p.Ctx, tensor.Const(along))
			out[c] = append(out[c], part...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// solve puts the gradient g of example i of d in e.gradient and H⁻¹ g in
// e.solution, by conjugate gradients.
func (e *exact) solve(ctx context.Context, d *train.Data, i int) error {
	if err := e.differentiate(ctx, d, i); err != nil {
		return err
	}
	dev := e.m.Device()
	dev.Fill(e.solution.Mem(), 0)
	dev.Copy(e.residual.Mem(), e.gradient.Mem())
	dev.Copy(e.step.Mem(), e.gradient.Mem())
	sq, err := e.dot(e.residual, e.residual)
	start := sq
	for n := 0; err == nil && sq > e.tol*e.tol*start; n++ {
		if n > 10*e.m.Len()+100 {
			return fmt.Errorf("conjugate gradients stay at a relative residual of %.2g after %d steps, expected %.2g", math.Sqrt(sq/start), n, e.tol)
		}
		if err = e.multiply(ctx); err != nil {
			return err
		}
		var curvature float64
		if curvature, err = e.dot(e.step, e.product); err != nil {
			return err
		}
		if !(curvature > 0) {
			return fmt.Errorf("conjugate gradients met the curvature %v, expected a positive number", curvature)
		}
		alpha := sq / curvature
		dev.Add(e.solution.Mem(), e.solution.Mem(), e.step.Mem(), 1, alpha)
		dev.Add(e.residual.Mem(), e.residual.Mem(), e.product.Mem(), 1, -alpha)
		before := sq
		sq, err = e.dot(e.residual, e.residual)
		dev.Add(e.step.Mem(), e.residual.Mem(), e.step.Mem(), 1, sq/before)
	}
	if err == nil && math.IsNaN(sq) {
		err = fmt.Errorf("the gradient is not finite")
	}
	return err
}

// differentiate puts the gradient of example i of d in e.gradient.
func (e *exact) differentiate(ctx context.Context, d *train.Data, i int) error {
	r, err := newReader(e.m.Device(), d, []int{i})
	if err != nil {
		return err
	}
	defer r.free()
	p := e.pass
	p.Dir, p.Grad, p.HVP, p.Accumulate = nil, e.gradient, nil, false
	return r.each(ctx, func(x tensor.Value, labels *tensor.Tensor, _, _ int) error {
		p.Reset()
		_, back := p.Loss(e.m, x, labels, tensor.Value{})
		back(false)
		return p.Err()
	})
}

// multiply puts H times e.step in e.product.
func (e *exact) multiply(ctx context.Context) error {
	r, err := newReader(e.m.Device(), e.data, nil)
	if err != nil {
		return err
	}
	defer r.free()
	p := e.pass
	p.Dir, p.Grad, p.HVP = e.m.Split(e.step), nil, e.product
	err = r.each(ctx, func(x tensor.Value, _ *tensor.Tensor, from, _ int) error {
		p.Reset()
		p.Accumulate = from > 0
		p.GaussNewton(e.m, x, tensor.Value{})
		return p.Err()
	})
	p.Accumulate = false
	e.m.Device().Add(e.product.Mem(), e.product.Mem(), e.step.Mem(), 1/float64(e.data.Len()), e.damping)
	return err
}

func (e *exact) dot(x, y *tensor.Tensor) (float64, error) {
	var host [1]float64
	e.m.Device().Dot(e.number.Mem(), x.Mem(), y.Mem(), false)
	err := e.m.Device().DownloadF64(host[:], e.number.Mem())
	return host[0], err
}
