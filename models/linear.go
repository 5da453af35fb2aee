package models

import "github.com/aviary-audit/aviary/tensor"

// Linear is x W + b, or its positive part: x [B, in], W [in, out], b [out].
type Linear struct {
	W, B *Param
	ReLU bool // the ReLU is fused into the product
}

// NewLinear makes a layer whose parameters are called name.w and name.b.
func NewLinear(name string, in, out int) *Linear {
	return &Linear{
		W: &Param{Name: name + ".w", Shape: []int{in, out}, Init: Init{FanIn: in, FanOut: out}},
		B: &Param{Name: name + ".b", Shape: []int{out}},
	}
}

// Params implements Layer.
func (l *Linear) Params() []*Param { return []*Param{l.W, l.B} }

// Forward implements Layer.
func (l *Linear) Forward(p *Pass, x Value) (Value, Back) {
	w := p.Param(l.W)
	y := p.Affine(x, w, p.Param(l.B), l.ReLU)
	if l.ReLU {
		p.observe(l, y)
	}
	return y, func(dy Value, needX bool) Value {
		if l.ReLU {
			dy = p.Keep(dy, y) // y > 0 where the product was
		}
		p.Tap(l, linearTap{l, x, dy})
		return p.Optional(needX, func() Value { return p.MatMul(dy, w, false, true) })
	}
}

type linearTap struct {
	l     *Linear
	x, dy Value
}

// Grads implements Tap: xᵀ diag(w) dy, and the sum of w dy.
func (t linearTap) Grads(p *Pass, w Value) {
	dy := p.Weighted(t.dy, w)
	p.MatMulTo(p.Sink(t.l.W), t.x, dy, true, false)
	p.SumTo(p.Sink(t.l.B), dy, tensor.PerChannel(dy.Shape()))
}

// SqNorm implements PerExample: |dy|² (|x|² + 1).
func (t linearTap) SqNorm(c *tensor.Ctx, s tensor.Sink) { c.SqNormOuterTo(s, t.x, t.dy, true) }

// Directions implements PerExample. That of the weights has rank one: an
// example's gradient is x dyᵀ.
func (t linearTap) Directions(c *tensor.Ctx, a, b *Tensor, v map[*Param]*Tensor, set func(*Param, *Tensor)) {
	set(t.l.W, c.OuterDirection(a, b, v[t.l.W], t.x, t.dy))
	set(t.l.B, c.EachDirection(a, b, v[t.l.B], t.dy))
}

// Kronecker implements Kronecker.
func (t linearTap) Kronecker() Factors { return Factors{W: t.l.W, B: t.l.B, X: t.x, DY: t.dy} }
