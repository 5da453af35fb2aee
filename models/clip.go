package models

import (
	"fmt"

	"github.com/aviary-audit/aviary/tensor"
)

// Clipping is what clipping to a norm did to each example.
type Clipping struct {
	Norm   float64 // C
	SqNorm *Tensor // [B], before clipping
	Factor *Tensor // [B], min(1, C/norm)
}

// Clipped puts the sum of clipped per-example gradients, Σ g[z] min(1, C/|g[z]|),
// in Grad, from one forward and one backward pass (book-keeping: the norms come
// from the taps, then each tap makes its weighted gradient). It returns the
// losses [B]. A net that mixes examples, or uses a parameter twice, is an error.
//
// Dir and HVP are not looked at. After a pass in Mode Record, ClippedProduct
// reuses its tensors.
func (p *Pass) Clipped(m *Model, x Value, labels *Tensor, clip float64) (losses Value, k Clipping, err error) {
	dir, hvp, keep := p.Dir, p.HVP, p.KeepTaps
	p.Dir, p.HVP, p.KeepTaps = nil, nil, true
	defer func() { p.Dir, p.HVP, p.KeepTaps = dir, hvp, keep }()
	losses, back := p.Loss(m, x, labels, Value{})
	back(false)
	k.Norm = clip
	if k.SqNorm, err = p.SqNorms(); err != nil {
		return Value{}, Clipping{}, err
	}
	side := *p // shares the record of what has a gradient
	side.Ctx = p.SideX()
	k.Factor = side.ClipFactor(k.SqNorm, clip)
	for _, t := range p.Taps {
		t.Grads(&side, tensor.Const(k.Factor))
	}
	p.zeroUntouched(m)
	return losses, k, nil
}

// SqNorms is each example's squared gradient norm [B], from the taps that the
// last backward pass kept.
func (p *Pass) SqNorms() (*Tensor, error) {
	if p.tied != nil {
		return nil, p.tied
	}
	taps, err := perExample(p.Taps)
	if err != nil {
		return nil, err
	}
	c := p.SideX()
	sum := c.NewX(p.batch)
	for i, t := range taps {
		t.SqNorm(c, tensor.Sink{X: sum, AccX: i > 0})
	}
	return sum, nil
}

// ClippedProduct is the product of the transposed Jacobian of the clipped sum
// and v. The part for the parameters goes to HVP, the part for x is the
// derivative of the result, if needX is set. Each example moves in its own direction, a v - b g
// with its clip factor a and b = a ⟨g,v⟩/|g|² (0 if it is not clipped), which
// makes this one ordinary pass (docs/designs/001-layers.md).
//
// p has just run Clipped on the same model and data, which returned k. v must
// not live in p's arena of derivatives, which is reset.
func (p *Pass) ClippedProduct(m *Model, x Value, labels *Tensor, k Clipping, v map[*Param]*Tensor, needX bool) (Value, error) {
	taps, err := perExample(p.Taps)
	if err != nil {
		return Value{}, err
	}
	p.ResetD()
	run := func(dir map[*Param]*Tensor, hvp *Tensor) (Value, func(bool) Value) {
		again := Pass{Ctx: p.Ctx, Dir: dir, HVP: hvp, Accumulate: p.Accumulate, Eval: p.Eval}
		if p.Mode == Record {
			again.Mode = Replay
		}
		return again.Loss(m, x, labels, Value{})
	}
	losses, _ := run(v, nil) // forward only: each loss moves by ⟨g, v⟩
	side := p.SideD()
	b := alongGradient(side, k, losses)
	dir := make(map[*Param]*Tensor, len(m.Params))
	for _, t := range taps {
		t.Directions(side, k.Factor, b, v, func(q *Param, d *Tensor) { dir[q] = d })
	}
	_, back := run(dir, p.HVP)
	return back(needX), nil
}

// perExample is the taps, if all of them tell examples apart.
func perExample(taps []Tap) ([]PerExample, error) {
	if len(taps) == 0 {
		return nil, fmt.Errorf("models: no backward pass has kept its taps")
	}
	each := make([]PerExample, len(taps))
	for i, t := range taps {
		e, ok := t.(PerExample)
		if !ok {
			return nil, fmt.Errorf("models: %T mixes the examples of a batch; they have no gradients of their own", t)
		}
		each[i] = e
	}
	return each, nil
}

// alongGradient is -b: since a = C/|g| where an example is clipped,
// b = a ⟨g,v⟩/|g|² = a³ ⟨g,v⟩/C².
func alongGradient(c *tensor.Ctx, k Clipping, losses Value) *Tensor {
	_, along := tensor.Parts(losses)
	a := tensor.Const(k.Factor)
	n := k.Factor.Len()
	if along == nil { // v is zero
		zero, _ := tensor.Parts(c.Fill(0, n))
		return zero
	}
	clipped := c.AddScaled(c.Fill(1, n), -1, a)
	b := c.Mul(c.Mul(a, a), c.Mul(a, tensor.Const(along)))
	minus, _ := tensor.Parts(c.Times(-1/(k.Norm*k.Norm), c.Keep(b, clipped)))
	return minus
}
