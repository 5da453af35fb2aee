package ibis

import (
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// normStabilizer keeps a zero embedding from being divided by its norm. It is a
// power of two, so that it leaves no rounding behind.
const normStabilizer = 1.0 / (1 << 20)

// interference is R = λ Σ_{i≠j} ⟨u_i, u_j⟩² over ordered pairs, with the
// directions u_i = φ_i/|φ_i| of the embeddings phi [m, D], and its gradient by
// phi. A zero embedding has no direction: u_i = 0, and the gradient 0.
//
// With G = UᵀU [D, D] and s_i = |u_i|² there is no need for the [m, m] cosines:
//
//	R = λ (|G|² - Σ s_i²),   g_i = ∂R/∂u_i = 4λ (G u_i - s_i u_i),
//	∂R/∂φ_i = (g_i - ⟨g_i, u_i⟩ u_i) / |φ_i|.
func interference(c *tensor.Ctx, phi models.Value, lambda float64) (r, dphi models.Value) {
	per := tensor.PerExample(phi.Shape())
	inverse := inverseNorms(c, phi)
	u := c.ScaleBy(phi, inverse, per)
	g := c.MatMul(u, u, true, false)
	s := c.SumMul(u, u, per)
	r = c.Times(lambda, c.AddScaled(sumSquares(c, g), -1, sumSquares(c, s)))

	du := c.AddScaled(c.MatMul(u, g, false, false), -1, c.ScaleBy(u, s, per))
	across := c.AddScaled(du, -1, c.ScaleBy(u, c.SumMul(du, u, per), per))
	return r, c.Times(4*lambda, c.ScaleBy(across, inverse, per))
}

// inverseNorms is 1/|φ|, [m], finite for a zero embedding.
func inverseNorms(c *tensor.Ctx, phi models.Value) models.Value {
	sq, _ := tensor.Parts(c.SumMul(phi, phi, tensor.PerExample(phi.Shape())))
	return c.Times(1/normStabilizer, tensor.Const(c.ClipFactor(sq, normStabilizer)))
}

// sumSquares is Σ v², [1].
func sumSquares(c *tensor.Ctx, v models.Value) models.Value {
	return c.SumMul(v, v, whole(v.Shape()...))
}

// whole says that all elements of a shape go into one sum.
func whole(shape ...int) kernels.Per {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return kernels.Per{Batch: 1, Rows: 1, Cols: n, Axis: kernels.PerRow}
}
