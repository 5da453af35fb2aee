package tensor

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
)

// OuterDirection is the direction a[z] v + b[z] x[z] dy[z]ᵀ of a weight matrix
// [in, out] for each example z, as RankOne: x [B, in], dy [B, out], v [in, out]
// or nil for zero.
func (c *Ctx) OuterDirection(a, b, v *Tensor, x, dy Value) *Tensor {
	matrix("OuterDirection", x.x)
	matrix("OuterDirection", dy.x)
	return RankOne(a, b, v, x.x, dy.x)
}

// EachDirection is a[z] v + b[z] g[z] for each example z: a and b [B], g [B, n],
// and v of n elements, or nil for zero. The result is [B, n].
func (c *Ctx) EachDirection(a, b, v *Tensor, g Value) *Tensor {
	rows, cols := matrix("EachDirection", g.x)
	if a.Len() != rows || b.Len() != rows || v != nil && v.Len() != cols {
		panic(fmt.Sprintf("tensor: EachDirection: a %v, b %v for gradients %v", a.shape, b.shape, g.x.shape))
	}
	d := c.d.New(rows, cols)
	if !c.ok() {
		return d
	}
	if v != nil {
		c.dev.Gemm(d.mem, a.Mem(), v.Mem(), none, kernels.Gemm{M: rows, N: cols, K: 1})
	}
	c.dev.ScaleBy(d.mem, g.x.Mem(), b.Mem(), PerExample(d.shape), v != nil)
	return d
}
