package tensor

import "fmt"

// Value is a tensor and, when it moves, its derivative along one direction. A
// Value without derivative has the derivative zero, exactly and for free.
//
// The two are hidden from layers. A layer that takes the tensor where the
// Value was meant loses a derivative and is left with a wrong Hessian that is
// symmetric all the same, so that only differences find it. Detach, and the
// masks of Keep, are the ways to do it on purpose.
//
// The derivative of a parameter may have one more, leading, axis than the
// tensor, of the length of the batch: then every example has its own
// direction. See also RankOne.
type Value struct{ x, d *Tensor }

// Const is a Value that does not move.
func Const(x *Tensor) Value { return Value{x: x} }

// Dual is a Value that moves along d; a nil d does not move.
func Dual(x, d *Tensor) Value { return Value{x, d} }

// Detach is v without its derivative.
func (v Value) Detach() Value { return Value{x: v.x} }

// Parts are v's tensor and its derivative, nil for zero. It is for the ends of
// a pass, where results are read; layers do not call it, and a test sees to
// that.
func Parts(v Value) (x, d *Tensor) { return v.x, v.d }

// IsNone says whether v is the zero Value, which holds no tensor.
func (v Value) IsNone() bool { return v.x == nil }

// Shape is the shape of v's tensor.
func (v Value) Shape() []int { return v.x.shape }

// View is v under another shape. It is not an operation and costs nothing.
func (v Value) View(shape ...int) Value {
	w := Value{x: v.x.View(shape...)}
	if v.d != nil {
		w.d = v.d.View(shape...)
	}
	return w
}

// Sink is where the gradient of a parameter goes. The fields are slots of flat
// vectors; nil is not wanted, and then not computed.
type Sink struct {
	X, D       *Tensor // the gradient, and its derivative
	AccX, AccD bool    // add to what is there instead of overwriting
}

func (s Sink) check(op string, n int) {
	for _, t := range []*Tensor{s.X, s.D} {
		if t != nil && t.Len() != n {
			panic(fmt.Sprintf("tensor: %s: the sink %v is not the size of the result, %d", op, t.shape, n))
		}
	}
}
