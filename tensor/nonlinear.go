package tensor

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
)

// Tanh is the hyperbolic tangent y of each element; Dy = (1 - y²) Da.
func (c *Ctx) Tanh(a Value) Value {
	y := Const(c.primal("Tanh", a.x.shape, func(dst kernels.Mem) { c.dev.Tanh(dst, a.x.Mem()) }))
	if a.d == nil || c.still {
		return y
	}
	y.d = c.d.New(a.x.shape...)
	square := c.d.New(a.x.shape...)
	if c.ok() {
		c.dev.Mul(square.mem, y.x.mem, y.x.mem, false)
		c.dev.Mul(y.d.mem, square.mem, a.d.Mem(), false)
		c.dev.Add(y.d.mem, a.d.Mem(), y.d.mem, 1, -1)
	}
	return y
}

// Softmax is over the last axis of z [B, K].
func (c *Ctx) Softmax(z Value) Value {
	rows, cols := matrix("Softmax", z.x)
	p := Const(c.primal("Softmax", z.x.shape, func(dst kernels.Mem) { c.dev.Softmax(dst, z.x.Mem(), rows, cols) }))
	if z.d == nil || c.still {
		return p
	}
	p.d = c.d.New(z.x.shape...)
	if c.ok() {
		c.dev.SoftmaxTangent(p.d.mem, p.x.mem, z.d.Mem(), rows, cols)
	}
	return p
}

// CrossEntropy is the loss of each example, [B], given its logits z [B, K],
// p = Softmax(z) and Int32 labels [B].
func (c *Ctx) CrossEntropy(z, p Value, labels *Tensor) Value {
	rows, cols := checkLabels("CrossEntropy", z.x, labels)
	sameShape("CrossEntropy", z.x, p.x)
	return c.op("CrossEntropy", []int{rows}, z.d != nil,
		func(dst kernels.Mem) { c.dev.CrossEntropy(dst, z.x.Mem(), labels.Mem(), rows, cols) },
		func(dst kernels.Mem) {
			c.dev.CrossEntropyTangent(dst, p.x.Mem(), z.d.Mem(), labels.Mem(), rows, cols)
		})
}

// SubOneHot is p less one at each row's label: the gradient of CrossEntropy by
// its logits.
func (c *Ctx) SubOneHot(p Value, labels *Tensor) Value {
	rows, cols := checkLabels("SubOneHot", p.x, labels)
	x := c.primal("SubOneHot", p.x.shape, func(dst kernels.Mem) {
		c.dev.SubOneHot(dst, p.x.Mem(), labels.Mem(), rows, cols)
	})
	if c.still {
		return Value{x: x}
	}
	return Value{x, p.d} // the labels do not move
}

// SqNormOuterTo is |dy[z]|² (|x[z]|² + 1) for each example z, or without the 1
// where there is no bias: the squared norm of a linear layer's gradient. It is
// not differentiated; s.D must be nil.
func (c *Ctx) SqNormOuterTo(s Sink, x, dy Value, bias bool) {
	rows, xcols := matrix("SqNormOuterTo", x.x)
	dyrows, dycols := matrix("SqNormOuterTo", dy.x)
	if rows != dyrows || s.D != nil {
		panic(fmt.Sprintf("tensor: SqNormOuterTo: x %v, dy %v, derivative wanted: %v", x.x.shape, dy.x.shape, s.D != nil))
	}
	s.check("SqNormOuterTo", rows)
	if s.X != nil && c.ok() {
		c.dev.SqNormOuter(s.X.mem, x.x.Mem(), dy.x.Mem(), rows, xcols, dycols, bias, s.AccX)
	}
}

// ClipFactor is min(1, clip/√sq) for each squared norm, without derivative.
func (c *Ctx) ClipFactor(sq *Tensor, clip float64) *Tensor {
	return c.primal("ClipFactor", sq.shape, func(dst kernels.Mem) { c.dev.ClipFactor(dst, sq.Mem(), clip) })
}

// Fill is a tensor of one number.
func (c *Ctx) Fill(value float64, shape ...int) Value {
	return Const(c.primal("Fill", shape, func(dst kernels.Mem) { c.dev.Fill(dst, value) }))
}

func matrix(op string, t *Tensor) (rows, cols int) {
	if len(t.shape) != 2 {
		panic(fmt.Sprintf("tensor: %s: %v is not a matrix", op, t.shape))
	}
	return t.shape[0], t.shape[1]
}

func checkLabels(op string, z, labels *Tensor) (rows, cols int) {
	rows, cols = matrix(op, z)
	if labels.Len() != rows || labels.Mem().Buf != nil && labels.mem.Buf.Kind() != kernels.Int32 {
		panic(fmt.Sprintf("tensor: %s: %v with labels %v (one int32 per row is due)", op, z.shape, labels.shape))
	}
	return rows, cols
}
