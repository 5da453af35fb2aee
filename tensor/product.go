package tensor

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
)

var none kernels.Mem

// MatMul is op(a) op(b), where op transposes if ta or tb is set. Both are
// matrices.
func (c *Ctx) MatMul(a, b Value, ta, tb bool) Value {
	g := gemmOf("MatMul", a.x, b.x, ta, tb)
	return c.bilinear("MatMul", []int{g.M, g.N}, a, b, c.gemm(g))
}

// MatMulTo is MatMul into a sink.
func (c *Ctx) MatMulTo(s Sink, a, b Value, ta, tb bool) {
	g := gemmOf("MatMulTo", a.x, b.x, ta, tb)
	s.check("MatMulTo", g.M*g.N)
	c.bilinearTo(s, a, b, c.gemm(g))
}

// Affine is x w + b, and its positive part if relu is set: x [B, in], w
// [in, out], b [out]. The derivative of the positive part at zero is zero.
// w may move by a direction of rank one per example, b by one row per example.
func (c *Ctx) Affine(x, w, b Value, relu bool) Value {
	g := gemmOf("Affine", x.x, w.x, false, false)
	if b.x.Len() != g.N {
		panic(fmt.Sprintf("tensor: Affine: bias %v for weights %v", b.x.shape, w.x.shape))
	}
	shape := []int{g.M, g.N}
	name := "Affine"
	if relu {
		name = "Affine+ReLU"
	}
	y := c.primal(name, shape, func(dst kernels.Mem) {
		g := g
		g.ReLU = relu
		*c.flops += flops(g)
		c.dev.Gemm(dst, x.x.Mem(), w.x.Mem(), b.x.Mem(), g)
	})
	if c.still || x.d == nil && w.d == nil && b.d == nil {
		return Value{x: y}
	}
	d := c.d.New(shape...)
	if c.ok() {
		c.affineTangent(d.mem, x, w, b, g)
		if relu {
			c.dev.Keep(d.mem, d.mem, y.mem)
		}
	}
	return Value{y, d}
}

// affineTangent: dst = Dx w + x Dw + Db.
func (c *Ctx) affineTangent(dst kernels.Mem, x, w, b Value, g kernels.Gemm) {
	bias := none
	fused := b.d != nil && b.d.Len() == g.N && (x.d != nil || w.d != nil && w.d.rows == nil)
	if fused {
		bias = b.d.Mem()
	}
	acc := false
	if x.d != nil {
		g := g
		*c.flops += flops(g)
		c.dev.Gemm(dst, x.d.Mem(), w.x.Mem(), bias, g)
		acc, bias = true, none
	}
	if w.d != nil && w.d.rows != nil {
		c.gemm(g)(dst, x.x, w.d, acc)
		acc = true
	} else if w.d != nil {
		g := g
		g.Acc = acc
		*c.flops += flops(g)
		c.dev.Gemm(dst, x.x.Mem(), w.d.Mem(), bias, g)
		acc = true
	}
	if b.d == nil || fused {
		return
	}
	perCol := kernels.Per{Batch: 1, Rows: g.M, Cols: g.N, Axis: kernels.PerCol}
	each := b.d.Len() == g.M*g.N && b.d.Len() != g.N
	switch {
	case !each && b.d.Len() != g.N:
		panic(fmt.Sprintf("tensor: Affine: direction %v for bias %v", b.d.shape, b.x.shape))
	case each && acc:
		c.dev.Add(dst, dst, b.d.Mem(), 1, 1)
	case each:
		c.dev.Copy(dst, b.d.Mem())
	case acc:
		c.dev.Shift(dst, dst, b.d.Mem(), 1, perCol)
	default:
		c.dev.Spread(dst, b.d.Mem(), perCol)
	}
}

func gemmOf(op string, a, b *Tensor, ta, tb bool) kernels.Gemm {
	bad := len(a.shape) != 2 || len(b.shape) != 2
	if !bad {
		g := kernels.Gemm{M: a.shape[0], K: a.shape[1], N: b.shape[1], TransA: ta, TransB: tb}
		kb := b.shape[0]
		if ta {
			g.M, g.K = g.K, g.M
		}
		if tb {
			kb, g.N = g.N, kb
		}
		if g.K == kb {
			return g
		}
	}
	panic(fmt.Sprintf("tensor: %s: %v by %v (transposed: %v, %v)", op, a.shape, b.shape, ta, tb))
}

func flops(g kernels.Gemm) int64 { return 2 * int64(g.M) * int64(g.N) * int64(g.K) }

// gemm is the product that g describes.
func (c *Ctx) gemm(g kernels.Gemm) product {
	return func(dst kernels.Mem, a, b *Tensor, acc bool) {
		g := g
		g.Acc = acc
		if b.rows != nil {
			c.gemmRankOne(dst, a, b.rows, g)
			return
		}
		*c.flops += flops(g)
		c.dev.Gemm(dst, a.Mem(), b.Mem(), none, g)
	}
}

// gemmRankOne multiplies each row of a by its own matrix, or its transpose:
// dst[z] (+)= a[z] (a v)[z] + b[z] ⟨a[z], left[z]⟩ right[z].
func (c *Ctx) gemmRankOne(dst kernels.Mem, a *Tensor, r *rankOne, g kernels.Gemm) {
	left, right := r.left, r.right
	if g.TransB {
		left, right = right, left
	}
	if g.TransA || g.M != left.shape[0] {
		panic(fmt.Sprintf("tensor: product of %v (transposed: %v) with a direction for %d examples",
			a.shape, g.TransA, left.shape[0]))
	}
	perRow := kernels.Per{Batch: 1, Rows: g.M, Cols: g.N, Axis: kernels.PerRow}
	acc := g.Acc
	dot, coef := c.d.New(g.M), c.d.New(g.M)
	av := c.d.New(g.M, g.N)
	if !c.ok() {
		return
	}
	if r.v != nil {
		g.Acc = false
		*c.flops += flops(g)
		c.dev.Gemm(av.mem, a.Mem(), r.v.Mem(), none, g)
		c.dev.ScaleBy(dst, av.mem, r.a.Mem(), perRow, acc)
		acc = true
	}
	c.dev.SumMul(dot.mem, a.Mem(), left.Mem(), kernels.Per{Batch: 1, Rows: g.M, Cols: g.K, Axis: kernels.PerRow}, false)
	c.dev.Mul(coef.mem, dot.mem, r.b.Mem(), false)
	c.dev.ScaleBy(dst, right.Mem(), coef.mem, perRow, acc)
}

// Mul is the product of the elements of a and b, of one shape.
func (c *Ctx) Mul(a, b Value) Value {
	sameShape("Mul", a.x, b.x)
	return c.bilinear("Mul", a.x.shape, a, b, func(dst kernels.Mem, a, b *Tensor, acc bool) {
		c.dev.Mul(dst, a.Mem(), b.Mem(), acc)
	})
}

// ScaleBy multiplies the elements of x by those of the smaller s with which
// they go, as p says.
func (c *Ctx) ScaleBy(x, s Value, p kernels.Per) Value {
	checkPer("ScaleBy", x.x, s.x, p)
	return c.bilinear("ScaleBy", x.x.shape, x, s, func(dst kernels.Mem, x, s *Tensor, acc bool) {
		c.dev.ScaleBy(dst, x.Mem(), s.Mem(), p, acc)
	})
}

// SumMul sums the products of the elements of x and y that share one of the
// result, which has p.Small elements.
func (c *Ctx) SumMul(x, y Value, p kernels.Per) Value {
	checkSum("SumMul", x.x, y.x, p)
	return c.bilinear("SumMul", smallShape(p), x, y, c.sumMul(p))
}

// SumMulTo is SumMul into a sink.
func (c *Ctx) SumMulTo(s Sink, x, y Value, p kernels.Per) {
	checkSum("SumMulTo", x.x, y.x, p)
	s.check("SumMulTo", p.Small())
	c.bilinearTo(s, x, y, c.sumMul(p))
}

func (c *Ctx) sumMul(p kernels.Per) product {
	return func(dst kernels.Mem, x, y *Tensor, acc bool) {
		c.dev.SumMul(dst, x.Mem(), y.Mem(), p, acc)
	}
}

func sameShape(op string, a, b *Tensor) {
	if !slices.Equal(a.shape, b.shape) {
		panic(fmt.Sprintf("tensor: %s: shapes %v and %v differ", op, a.shape, b.shape))
	}
}
