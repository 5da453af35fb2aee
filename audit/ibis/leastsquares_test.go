package ibis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// regression is least squares, ½|Xθ - y|², and a canary more or less.
type regression struct {
	x *mat.Dense // [n, d]
	y *mat.VecDense
}

// point is an example (x, y).
type point struct {
	x *mat.VecDense
	y float64
}

func randomRegression(r *rand.Rand, n, d int) regression {
	q := regression{mat.NewDense(n, d, nil), mat.NewVecDense(n, nil)}
	for i := range n {
		q.x.SetRow(i, normals(r, d))
		q.y.SetVec(i, r.NormFloat64())
	}
	return q
}

func randomPoint(r *rand.Rand, d int) point {
	return point{mat.NewVecDense(d, normals(r, d)), r.NormFloat64()}
}

func normals(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// fit is θ*, by QR: no K is inverted here.
func (q regression) fit() *mat.VecDense {
	var qr mat.QR
	qr.Factorize(q.x)
	var theta mat.VecDense
	if err := qr.SolveVecTo(&theta, false, q.y); err != nil {
		panic(err) // random points span the space
	}
	return &theta
}

// with is the problem with one more example.
func (q regression) with(c point) regression {
	n, d := q.x.Dims()
	more := regression{mat.NewDense(n+1, d, nil), mat.NewVecDense(n+1, nil)}
	more.x.Slice(0, n, 0, d).(*mat.Dense).Copy(q.x)
	more.x.SetRow(n, c.x.RawVector().Data)
	more.y.SliceVec(0, n).(*mat.VecDense).CopyVec(q.y)
	more.y.SetVec(n, c.y)
	return more
}

// residual is θᵀx - y, and loss half its square.
func residual(theta *mat.VecDense, c point) float64 { return mat.Dot(theta, c.x) - c.y }

func loss(theta *mat.VecDense, c point) float64 { return residual(theta, c) * residual(theta, c) / 2 }

// inner is aᵀ K⁻¹ b, with K = XᵀX.
func (q regression) inner(a, b *mat.VecDense) float64 {
	var k mat.SymDense
	k.SymOuterK(1, q.x.T())
	var chol mat.Cholesky
	if !chol.Factorize(&k) {
		panic("K is not positive definite")
	}
	var kb mat.VecDense
	if err := chol.SolveVecTo(&kb, b); err != nil {
		panic(err)
	}
	return mat.Dot(a, &kb)
}

// proposition41 is how much training on canary a changes the loss of canary b
// (IBIS, arXiv 2605.27292, Proposition 4.1): γ c with c = aᵀK⁻¹b,
//
//	γ = ℓ(θ*, a) c/h² - r_a r_b/h,   h = 1 + aᵀK⁻¹a,
//
// where r are residuals at θ*.
func (q regression) proposition41(a, b point) float64 {
	theta := q.fit()
	c, h := q.inner(a.x, b.x), 1+q.inner(a.x, a.x)
	return (loss(theta, a)*c/(h*h) - residual(theta, a)*residual(theta, b)/h) * c
}

// retrained is the same by training twice.
func (q regression) retrained(a, b point) float64 {
	return loss(q.with(a).fit(), b) - loss(q.fit(), b)
}

// orthogonal is a without its part that b sees: then aᵀK⁻¹b = 0.
func (q regression) orthogonal(a, b point) point {
	x := mat.VecDenseCopyOf(a.x)
	x.AddScaledVec(x, -q.inner(a.x, b.x)/q.inner(b.x, b.x), b.x)
	return point{x, a.y}
}

// Two canaries of least squares: training on one changes the loss of the other,
// as the closed form says, until they are K⁻¹-orthogonal. This is what the
// regulariser of Refine does to embeddings.
func Example_leastSquares() {
	r := rand.New(rand.NewPCG(41, 1))
	q := randomRegression(r, 20, 3)
	a, b := randomPoint(r, 3), randomPoint(r, 3)
	fmt.Printf("aᵀK⁻¹b = %.4f\n", q.inner(a.x, b.x))
	fmt.Printf("training on a changes the loss of b by %.4f, by the closed form %.4f\n", q.retrained(a, b), q.proposition41(a, b))

	a = q.orthogonal(a, b)
	fmt.Printf("after |aᵀK⁻¹b| < 1e-14 (%v), |change| < 1e-14 (%v)\n",
		math.Abs(q.inner(a.x, b.x)) < 1e-14, math.Abs(q.retrained(a, b)) < 1e-14)
	// Output:
	// aᵀK⁻¹b = -0.0304
	// training on a changes the loss of b by 0.0144, by the closed form 0.0144
	// after |aᵀK⁻¹b| < 1e-14 (true), |change| < 1e-14 (true)
}

// TestProposition41 compares the closed form with training twice. The faults are
// the terms that are easily lost.
func TestProposition41(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 2))
	worst, caught := 0.0, map[string]float64{}
	for range 200 {
		d := 1 + r.IntN(6)
		q := randomRegression(r, d+2+r.IntN(20), d)
		a, b := randomPoint(r, d), randomPoint(r, d)
		want := q.retrained(a, b)
		scale := loss(q.fit(), a) + loss(q.fit(), b) + loss(q.with(a).fit(), b)
		worst = max(worst, math.Abs(q.proposition41(a, b)-want)/scale)
		theta := q.fit()
		c, h := q.inner(a.x, b.x), 1+q.inner(a.x, a.x)
		for name, wrong := range map[string]float64{
			"first order only":  -residual(theta, a) * residual(theta, b) * c / h,
			"h not squared":     (loss(theta, a)*c/h - residual(theta, a)*residual(theta, b)/h) * c,
			"sign":              (loss(theta, a)*c/(h*h) + residual(theta, a)*residual(theta, b)/h) * c,
			"leverage left out": (loss(theta, a)*c - residual(theta, a)*residual(theta, b)) * c,
		} {
			caught[name] = max(caught[name], math.Abs(wrong-want)/scale)
		}
		if o := q.orthogonal(a, b); !(math.Abs(q.retrained(o, b)) <= 1e-11*scale) {
			t.Errorf("K⁻¹-orthogonal canaries in %d dimensions interfere by %v", d, q.retrained(o, b))
		}
	}
	// Residuals of order one, and K whose condition number is below 1e4.
	const tol = 1e-11
	if !(worst <= tol) {
		t.Errorf("the closed form is off by %.1e of the losses", worst)
	}
	for name, e := range caught {
		if !(e > 1e-3) {
			t.Errorf("planted fault %q is off by %.1e only", name, e)
		}
	}
}
