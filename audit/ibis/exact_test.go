package ibis

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

// logistic is softmax regression with an L2 term, on its own: Newton's method
// on the host finds the minimum of (1/n) Σ loss + (l2/2) |θ|².
type logistic struct {
	x       [][]float64 // with a constant 1
	y       []int
	classes int
	l2      float64
}

// params is the number of parameters; θ is [in+1, K], row by row.
func (l *logistic) params() int { return len(l.x[0]) * l.classes }

// minimise starts at theta and leaves example without out; -1 for none. The
// mean is still over all n.
func (l *logistic) minimise(t *testing.T, theta []float64, without int) []float64 {
	t.Helper()
	theta = append([]float64(nil), theta...)
	for range 50 {
		g, h := l.derivatives(theta, without)
		var step mat.VecDense
		if err := step.SolveVec(h, mat.NewVecDense(len(g), g)); err != nil {
			t.Fatal(err)
		}
		for i := range theta {
			theta[i] -= step.AtVec(i)
		}
		if mat.Norm(&step, 2) < 1e-12 {
			return theta
		}
	}
	t.Fatal("Newton's method did not converge")
	return nil
}

func (l *logistic) derivatives(theta []float64, without int) (g []float64, h *mat.SymDense) {
	n := float64(len(l.x))
	g, h = make([]float64, len(theta)), mat.NewSymDense(len(theta), nil)
	for j, v := range theta {
		g[j] = l.l2 * v
		h.SetSym(j, j, l.l2)
	}
	for i := range l.x {
		if i == without {
			continue
		}
		for j, v := range l.gradient(theta, i) {
			g[j] += v / n
		}
		p := l.prob(theta, i)
		for a, xa := range l.x[i] { // (x xᵀ) ⊗ (diag p - p pᵀ)
			for b, xb := range l.x[i] {
				for k := range l.classes {
					for m := range l.classes {
						if r, c := a*l.classes+k, b*l.classes+m; r <= c {
							v := -p[k] * p[m]
							if k == m {
								v += p[k]
							}
							h.SetSym(r, c, h.At(r, c)+xa*xb*v/n)
						}
					}
				}
			}
		}
	}
	return g, h
}

func (l *logistic) prob(theta []float64, i int) []float64 {
	p, total := make([]float64, l.classes), 0.0
	for k := range p {
		for a, x := range l.x[i] {
			p[k] += x * theta[a*l.classes+k]
		}
		p[k] = math.Exp(p[k])
		total += p[k]
	}
	for k := range p {
		p[k] /= total
	}
	return p
}

func (l *logistic) gradient(theta []float64, i int) []float64 {
	g, p := make([]float64, len(theta)), l.prob(theta, i)
	p[l.y[i]]--
	for a, x := range l.x[i] {
		for k, d := range p {
			g[a*l.classes+k] = x * d
		}
	}
	return g
}

// convexRig is softmax regression at its minimum.
func convexRig(t *testing.T, n int) (*rig, *logistic, []float64) {
	t.Helper()
	c := newCloud(n, 3, 1.5, 4)
	r := newRig(t, kernels.Reference(), c, models.MLP(4, 3))
	l := &logistic{y: c.y, classes: 3, l2: 0.02}
	for _, x := range c.x {
		wide := make([]float64, 0, len(x)+1)
		for _, v := range x {
			wide = append(wide, float64(v))
		}
		l.x = append(l.x, append(wide, 1))
	}
	theta := l.minimise(t, make([]float64, l.params()), -1)
	r.m.Device().UploadF64(r.m.Theta.Mem(), theta) // weights and then the bias, as here
	r.m.Moved()
	return r, l, theta
}

// exactInfluences is by conjugate gradients.
func exactInfluences(t *testing.T, r *rig, damping float64) (self, matrix []float64) {
	t.Helper()
	ctx := context.Background()
	f := must[Influence](t)(Exact(r.m, r.d, damping))
	defer f.Free()
	return must[[]float64](t)(f.Self(ctx, r.d, nil)), must[[]float64](t)(Matrix(ctx, f, r.d))
}

func TestExactIsTheInverseHessian(t *testing.T) {
	r, l, theta := convexRig(t, 60)
	self, matrix := exactInfluences(t, r, l.l2)
	_, h := l.derivatives(theta, -1)
	n := len(l.x)
	g := mat.NewDense(n, l.params(), nil)
	for i := range n {
		g.SetRow(i, l.gradient(theta, i))
	}
	var half, want mat.Dense
	if err := half.Solve(h, g.T()); err != nil {
		t.Fatal(err)
	}
	want.Mul(g, &half)
	// A relative residual of 1e-10, times the condition of H, below 1e3.
	if err := furthest(matrix, want.RawMatrix().Data); !(err <= 1e-7) {
		t.Errorf("influences are off by %.2g", err)
	}
	diag, _ := diagonal(want.RawMatrix().Data)
	if err := furthest(self, diag); !(err <= 1e-7) {
		t.Errorf("self-influences are off by %.2g", err)
	}
	if _, wrong := exactInfluences(t, r, 2*l.l2); furthest(matrix, wrong) <= 1e-3 {
		t.Error("planted fault: twice the damping was not seen")
	}
}

// More examples than a block has.
func TestExactTakesAllExamples(t *testing.T) {
	ctx := context.Background()
	r, l, theta := convexRig(t, blockLen+52)
	_, h := l.derivatives(theta, -1)
	f := must[Influence](t)(Exact(r.m, r.d, l.l2))
	defer f.Free()
	index := []int{blockLen + 51, 3}
	cols := must[Columns](t)(f.Among(ctx, r.d, index))
	defer cols.Free()
	got := must[[][]float64](t)(cols.Columns(ctx, []int{0}))[0]
	var v mat.VecDense
	if err := v.SolveVec(h, vec(l.gradient(theta, index[0]))); err != nil {
		t.Fatal(err)
	}
	want := []float64{mat.Dot(vec(l.gradient(theta, index[0])), &v), mat.Dot(vec(l.gradient(theta, index[1])), &v)}
	if err := furthest(got, want); !(err <= 1e-7) { // as above
		t.Errorf("influences are off by %.2g: %v, expected %v", err, got, want)
	}
}

// On a convex model influence must rank what leaving an example out does.
func TestExactAgreesWithLeavingOut(t *testing.T) {
	r, l, theta := convexRig(t, 90)
	self, matrix := exactInfluences(t, r, l.l2)
	n := len(l.x)
	change := make([]float64, n*n) // row i, column j: fall of i's score, without j
	for j := range n {
		without := l.minimise(t, theta, j)
		for i, y := range l.y {
			change[i*n+j] = math.Log(l.prob(theta, i)[y]) - math.Log(l.prob(without, i)[y])
		}
	}
	changeSelf, changeCross := diagonal(change)
	_, cross := diagonal(matrix)
	if s := spearman(self, changeSelf); !(s >= 0.99) {
		t.Errorf("self-influence and leaving out: rank correlation %.4f, expected 0.99", s)
	}
	if s := spearman(cross, changeCross); !(s >= 0.98) {
		t.Errorf("cross-influence and leaving out: rank correlation %.4f, expected 0.98", s)
	}
	// Planted faults: the gradients' own inner products, without an inverse.
	var plain []float64
	for i := range n {
		for j := range n {
			plain = append(plain, mat.Dot(vec(l.gradient(theta, i)), vec(l.gradient(theta, j))))
		}
	}
	plainSelf, plainCross := diagonal(plain)
	if s, c := spearman(plainSelf, changeSelf), spearman(plainCross, changeCross); s >= 0.99 || c >= 0.98 {
		t.Errorf("planted fault: without H the rank correlations are %.4f and %.4f", s, c)
	}

	// K-FAC with the same damping, λ = damping tA tS.
	ctx := context.Background()
	all := must[[]moments](t)(Fisher{Expected: true}.estimate(ctx, r.m, r.d, nil))
	k := all[0]
	tA, tS := mat.Trace(k.input)/float64(k.in), mat.Trace(k.grad)/float64(k.out)
	for _, c := range []struct {
		name string
		make curvatureOf
	}{{"KFAC", KFAC}, {"EKFAC", EKFAC}} {
		approxSelf, approx := r.influences(t, c.make, l.l2/(tA*tS), Fisher{Expected: true})
		_, approxCross := diagonal(approx)
		if s := spearman(approxSelf, self); !(s >= 0.95) {
			t.Errorf("%s and exact self-influence: rank correlation %.4f, expected 0.95", c.name, s)
		}
		if s := spearman(approxCross, cross); !(s >= 0.7) {
			t.Errorf("%s and exact cross-influence: rank correlation %.4f, expected 0.7", c.name, s)
		}
	}
}

func vec(v []float64) *mat.VecDense { return mat.NewVecDense(len(v), v) }

// A net that is not convex, in float32: the matrix is still positive definite,
// and influences are symmetric and positive on the diagonal.
func TestExactOnTheCPU(t *testing.T) {
	r := newRig(t, openCPU(t, 1), newCloud(30, 3, 1.5, 3), models.MLP(3, 4, 3))
	ref := newRig(t, kernels.Reference(), r.cloud, models.MLP(3, 4, 3))
	self, matrix := exactInfluences(t, r, 0.1)
	wantSelf, want := exactInfluences(t, ref, 0.1)
	// A relative residual of 1e-5, times the condition of H, below 1e2.
	if err := furthest(matrix, want); !(err <= 1e-3) {
		t.Errorf("influences are off by %.2g", err)
	}
	if err := furthest(self, wantSelf); !(err <= 1e-3) {
		t.Errorf("self-influences are off by %.2g", err)
	}
}
