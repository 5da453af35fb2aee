package models

import "github.com/aviary-audit/aviary/tensor"

// Value is a tensor and, when it moves, its derivative along one direction.
type Value = tensor.Value

// Tensor is an array on a device.
type Tensor = tensor.Tensor

// Param is a named parameter. Passes only read it, so that several may run at
// once.
type Param struct {
	Name  string
	Shape []int
	Init  Init

	x   *Tensor // its view of the model's flat vector, once bound
	off int     // where that begins
}

// Len is the number of elements.
func (q *Param) Len() int {
	n := 1
	for _, d := range q.Shape {
		n *= d
	}
	return n
}

// Layer computes an output and remembers, in the closure that it returns, what
// its backward pass needs. It has no state but its parameters, and it is built
// without a device. The first axis of x and y is the batch.
type Layer interface {
	Forward(p *Pass, x Value) (y Value, back Back)
	Params() []*Param
}

// Back turns the loss's gradient at a layer's output into that at its input,
// or the zero Value unless needX is set. A layer with parameters hands a Tap
// to the Pass on the way.
type Back func(dy Value, needX bool) Value

// Tap is what the gradients of a layer's parameters can be made of, in most
// cases its input and output gradient.
type Tap interface {
	// Grads puts the parameter gradients in the sinks of p, with each example's
	// part weighted by w [B]; the zero Value stands for ones.
	Grads(p *Pass, w Value)
}

// PerExample is a Tap of a layer that does not mix examples.
type PerExample interface {
	Tap
	// SqNorm puts each example's squared gradient norm [B] in s.X.
	SqNorm(c *tensor.Ctx, s tensor.Sink)
	// Directions calls set for each parameter q with the direction
	// a[z] v + b[z] g[z], where g[z] is example z's own gradient: a tensor with a
	// leading batch axis, or tensor.RankOne. A parameter that v lacks does not
	// move by v.
	Directions(c *tensor.Ctx, a, b *Tensor, v map[*Param]*Tensor, set func(q *Param, d *Tensor))
}

// Kronecker is a Tap of a layer in which every example's gradient is an outer
// product, as Kronecker-factored curvature needs it.
type Kronecker interface {
	Tap
	Kronecker() Factors
}

// Factors are the two sides of the gradients of a layer's examples: that of
// example z by the weights is X[z] DY[z]ᵀ, and by the bias it is DY[z].
type Factors struct {
	W, B *Param // weights [in, out] and bias [out]; B is nil where there is none
	X    Value  // input [B, in]
	DY   Value  // gradient at the output, before any fused ReLU, [B, out]
}
