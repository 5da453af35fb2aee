package tensor

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
)

// PerExample: one number for each example of [B, ...].
func PerExample(shape []int) kernels.Per {
	return kernels.Per{Batch: 1, Rows: shape[0], Cols: size(shape[1:]), Axis: kernels.PerRow}
}

// PerChannel: one number for each channel of [..., C].
func PerChannel(shape []int) kernels.Per {
	last := len(shape) - 1
	return kernels.Per{Batch: 1, Rows: size(shape[:last]), Cols: shape[last], Axis: kernels.PerCol}
}

// smallShape is the shape of a result with one element per p.
func smallShape(p kernels.Per) []int {
	if p.Axis == kernels.PerCol && p.Batch > 1 {
		return []int{p.Batch, p.Cols}
	}
	return []int{p.Small()}
}

func checkPer(op string, x, s *Tensor, p kernels.Per) {
	if x.Len() != p.Len() || s.Len() != p.Small() {
		panic(fmt.Sprintf("tensor: %s: %v with %v, where %d and %d elements are due",
			op, x.shape, s.shape, p.Len(), p.Small()))
	}
}

func checkSum(op string, x, y *Tensor, p kernels.Per) {
	if x.Len() != p.Len() || y.Len() != p.Len() {
		panic(fmt.Sprintf("tensor: %s: %v and %v, where %d elements are due", op, x.shape, y.shape, p.Len()))
	}
}

// Sum adds the elements of x that share one of the result, which has p.Small
// elements.
func (c *Ctx) Sum(x Value, p kernels.Per) Value {
	checkSum("Sum", x.x, x.x, p)
	return c.linear("Sum", smallShape(p), x, func(dst, x kernels.Mem) { c.dev.Sum(dst, x, p, false) })
}

// SumTo is Sum into a sink.
func (c *Ctx) SumTo(s Sink, x Value, p kernels.Per) {
	checkSum("SumTo", x.x, x.x, p)
	s.check("SumTo", p.Small())
	if !c.ok() {
		return
	}
	if s.X != nil {
		c.dev.Sum(s.X.mem, x.x.Mem(), p, s.AccX)
	}
	switch {
	case s.D == nil:
	case x.d != nil && !c.still:
		c.dev.Sum(s.D.mem, x.d.Mem(), p, s.AccD)
	case !s.AccD:
		c.dev.Fill(s.D.mem, 0)
	}
}

// Spread copies the elements of the smaller s to all that go with them. It is
// the transpose of Sum.
func (c *Ctx) Spread(s Value, p kernels.Per, shape ...int) Value {
	if size(shape) != p.Len() || s.x.Len() != p.Small() {
		panic(fmt.Sprintf("tensor: Spread: %v to %v, where %d and %d elements are due",
			s.x.shape, shape, p.Small(), p.Len()))
	}
	return c.linear("Spread", shape, s, func(dst, s kernels.Mem) { c.dev.Spread(dst, s, p) })
}

// Shift is x + k s, with the smaller s spread as p says.
func (c *Ctx) Shift(x Value, k float64, s Value, p kernels.Per) Value {
	checkPer("Shift", x.x, s.x, p)
	return c.op("Shift", x.x.shape, x.d != nil || s.d != nil,
		func(dst kernels.Mem) { c.dev.Shift(dst, x.x.Mem(), s.x.Mem(), k, p) },
		func(dst kernels.Mem) {
			switch {
			case s.d == nil:
				c.dev.Copy(dst, x.d.Mem())
			case x.d == nil:
				c.dev.Spread(dst, s.d.Mem(), p)
				c.dev.Add(dst, dst, none, k, 0)
			default:
				c.dev.Shift(dst, x.d.Mem(), s.d.Mem(), k, p)
			}
		})
}

// AddScaled is a + k b, of one shape.
func (c *Ctx) AddScaled(a Value, k float64, b Value) Value {
	sameShape("AddScaled", a.x, b.x)
	return c.op("AddScaled", a.x.shape, a.d != nil || b.d != nil,
		func(dst kernels.Mem) { c.dev.Add(dst, a.x.Mem(), b.x.Mem(), 1, k) },
		func(dst kernels.Mem) {
			switch {
			case b.d == nil:
				c.dev.Copy(dst, a.d.Mem())
			case a.d == nil:
				c.dev.Add(dst, b.d.Mem(), none, k, 0)
			default:
				c.dev.Add(dst, a.d.Mem(), b.d.Mem(), 1, k)
			}
		})
}

// Times is k a.
func (c *Ctx) Times(k float64, a Value) Value {
	return c.linear("Times", a.x.shape, a, func(dst, a kernels.Mem) { c.dev.Add(dst, a, none, k, 0) })
}

// Keep is a where mask > 0, and zero elsewhere, of one shape. The mask counts
// as constant, its derivative is not looked at. The positive part of z is
// Keep(z, z), and its gradient Keep(dy, z).
func (c *Ctx) Keep(a, mask Value) Value {
	sameShape("Keep", a.x, mask.x)
	return c.linear("Keep", a.x.shape, a, func(dst, a kernels.Mem) { c.dev.Keep(dst, a, mask.x.Mem()) })
}

// CropFlip moves and mirrors the images x [B,H,W,C] as the Int32 tensor move
// [B,3] says; see kernels.Ops.
func (c *Ctx) CropFlip(x Value, move *Tensor) Value {
	im := imageOf("CropFlip", x.x, move)
	return c.linear("CropFlip", x.x.shape, x, func(dst, x kernels.Mem) { c.dev.CropFlip(dst, x, move.Mem(), im) })
}

// CropFlipAdjoint is the transpose of CropFlip.
func (c *Ctx) CropFlipAdjoint(x Value, move *Tensor) Value {
	im := imageOf("CropFlipAdjoint", x.x, move)
	return c.linear("CropFlipAdjoint", x.x.shape, x, func(dst, x kernels.Mem) {
		c.dev.CropFlipAdjoint(dst, x, move.Mem(), im)
	})
}

func imageOf(op string, x, move *Tensor) kernels.Image {
	if len(x.shape) != 4 || move.Len() != 3*x.shape[0] {
		panic(fmt.Sprintf("tensor: %s: images %v with moves %v", op, x.shape, move.shape))
	}
	return kernels.Image{B: x.shape[0], H: x.shape[1], W: x.shape[2], C: x.shape[3]}
}
