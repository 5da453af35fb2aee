package ibis

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// KFAC is influence with one Kronecker product for each layer's curvature
// (Martens and Grosse 2015): with ā the layer's input and a constant 1, δ the
// loss's gradient at its output,
//
//	I(i, j) = Σ over layers of (āᵢᵀ Â⁻¹ āⱼ) (δᵢᵀ Ŝ⁻¹ δⱼ),
//
// where A = E[ā āᵀ] and S = E[δ δᵀ] over the training data d, with labels as f
// says. Damping is factored (their section 6.3): with tA and tS the mean
// eigenvalues of A and S, and λ = damping tA tS,
//
//	Â = A + π √λ 1,   Ŝ = S + √λ/π 1,   π = √(tA/tS).
//
// All parameters of m must belong to layers whose taps are models.Kronecker.
func KFAC(ctx context.Context, m *models.Model, d *train.Data, damping float64, f Fisher, progress Progress) (Influence, error) {
	if err := checkDamping(damping); err != nil {
		return nil, err
	}
	all, err := f.estimate(ctx, m, d, progress)
	if err != nil {
		return nil, err
	}
	k := &kfac{projector{m: m}}
	for _, layer := range all {
		addA, addS := factoredDamping(layer, damping)
		a, err := whitener(layer.input, addA)
		if err == nil {
			var s mat.Matrix
			if s, err = whitener(layer.grad, addS); err == nil {
				err = k.add(layer, a, s)
			}
		}
		if err != nil {
			k.Free()
			return nil, fmt.Errorf("ibis: factors of %q: %w", layer.w.Name, err)
		}
	}
	return k, nil
}

// factoredDamping is what goes on the diagonals of A and S.
func factoredDamping(k moments, damping float64) (a, s float64) {
	tA := mat.Trace(k.input) / float64(k.in)
	tS := mat.Trace(k.grad) / float64(k.out)
	lambda, pi := damping*tA*tS, math.Sqrt(tA/tS)
	return pi * math.Sqrt(lambda), math.Sqrt(lambda) / pi
}

// whitener is R with R Rᵀ = (M + add 1)⁻¹: L⁻ᵀ, if M + add 1 = L Lᵀ.
func whitener(m *mat.SymDense, add float64) (mat.Matrix, error) {
	n := m.SymmetricDim()
	damped := mat.NewSymDense(n, nil)
	damped.CopySym(m)
	for i := range n {
		damped.SetSym(i, i, m.At(i, i)+add)
	}
	var c mat.Cholesky
	if !c.Factorize(damped) {
		return nil, fmt.Errorf("a factor of %d rows is not positive definite with %v on its diagonal; more damping is needed", n, add)
	}
	var l, inverse mat.TriDense
	c.LTo(&l)
	if err := inverse.InverseTri(&l); err != nil {
		return nil, fmt.Errorf("a factor of %d rows with %v on its diagonal: %w", n, add, err)
	}
	return inverse.T(), nil
}

// kfac is KFAC in whitened coordinates, in which both inverses are the
// identity.
type kfac struct{ projector }

func (k *kfac) Free() { k.free() }

// Self implements Influence: Σ |u|² |w|².
func (k *kfac) Self(ctx context.Context, d *train.Data, progress Progress) ([]float64, error) {
	return k.self(ctx, d, progress, func(c *tensor.Ctx, layers []coordinates) tensor.Value {
		sum := c.NewX(layers[0].u.Dim(0))
		for i, l := range layers {
			c.SqNormOuterTo(tensor.Sink{X: sum, AccX: i > 0}, tensor.Const(l.u), tensor.Const(l.w), false)
		}
		return tensor.Const(sum)
	})
}

// Among implements Influence.
func (k *kfac) Among(ctx context.Context, d *train.Data, index []int) (Columns, error) {
	dev := k.m.Device()
	all, err := k.collect(ctx, d, index)
	c := &kfacColumns{dev: dev, p: len(index), layers: all}
	if err == nil {
		c.js, err = tensor.AllocInts(dev, kfacBatch)
	}
	if err != nil {
		c.Free()
		return nil, err
	}
	c.ctx = tensor.NewCtx(dev)
	return c, nil
}

// kfacBatch is a number of columns at which a product is about as fast as it
// gets.
const kfacBatch = 64

// kfacColumns are the coordinates of p candidates.
type kfacColumns struct {
	dev    kernels.Device
	p      int
	layers []coordinates
	js     *tensor.Tensor
	ctx    *tensor.Ctx
}

// Batch implements Columns.
func (*kfacColumns) Batch() int { return kfacBatch }

// Columns implements Columns: Σ (U[js] Uᵀ) ∘ (W[js] Wᵀ), products of Gram
// matrices' rows.
func (k *kfacColumns) Columns(ctx context.Context, js []int) ([][]float64, error) {
	out := make([][]float64, 0, len(js))
	for from := 0; from < len(js); from += kfacBatch {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("ibis: %w", err)
		}
		part, err := k.batch(js[from:min(from+kfacBatch, len(js))])
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

func (k *kfacColumns) batch(js []int) ([][]float64, error) {
	rows, n := k.js.Slice(0, len(js)), len(js)
	host := make([]int32, n)
	for c, j := range js {
		host[c] = int32(j)
	}
	k.dev.UploadInts(rows.Mem(), host)
	k.ctx.Reset()
	sum := k.ctx.NewX(n, k.p)
	var grams [2]*tensor.Tensor // of the inputs and the gradients
	for i := range grams {
		grams[i] = k.ctx.NewX(n, k.p)
	}
	for i, l := range k.layers {
		for side, all := range []*tensor.Tensor{l.u, l.w} {
			some := k.ctx.NewX(n, all.Dim(1))
			if err := k.ctx.Err(); err != nil {
				return nil, fmt.Errorf("ibis: %w", err)
			}
			k.dev.Gather(some.Mem(), all.Mem(), rows.Mem(), n, all.Dim(1))
			k.ctx.MatMulTo(tensor.Sink{X: grams[side]}, tensor.Const(some), tensor.Const(all), false, true)
		}
		k.dev.Mul(sum.Mem(), grams[0].Mem(), grams[1].Mem(), i > 0)
	}
	numbers, err := floats(k.ctx, tensor.Const(sum))
	if err != nil {
		return nil, err
	}
	return split(numbers, k.p), nil
}

// split is numbers in runs of n.
func split(numbers []float64, n int) [][]float64 {
	var runs [][]float64
	for from := 0; from < len(numbers); from += n {
		runs = append(runs, numbers[from:from+n:from+n])
	}
	return runs
}

// Free implements Columns.
func (k *kfacColumns) Free() {
	freeAll(k.dev, k.layers)
	k.js.Free(k.dev)
	if k.ctx != nil {
		k.ctx.Free()
	}
}
