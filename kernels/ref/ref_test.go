package ref_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels/ref"
)

// The functions are definitions, so they are tested by what must follow from
// them: other ways to write the formula, derivatives, adjoints, and small
// examples by hand.

func normals(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// Every element of Gemm is one chain of sums over ascending k, to the last bit.
func TestGemmIsOneChain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for variant := range 32 {
		p := ref.Product{M: 5, N: 7, K: 9, TransA: variant&1 != 0, TransB: variant&2 != 0,
			Acc: variant&4 != 0, ReLU: variant&8 != 0}
		a, b, dst := normals(rng, p.M*p.K), normals(rng, p.K*p.N), normals(rng, p.M*p.N)
		var bias []float64
		if variant&16 != 0 {
			bias = normals(rng, p.N)
		}
		want := slices.Clone(dst)
		for i := range p.M {
			for j := range p.N {
				var s float64
				if p.Acc {
					s = dst[i*p.N+j]
				}
				for k := range p.K {
					x, y := a[i*p.K+k], b[k*p.N+j]
					if p.TransA {
						x = a[k*p.M+i]
					}
					if p.TransB {
						y = b[j*p.K+k]
					}
					s += x * y
				}
				if bias != nil {
					s += bias[j]
				}
				if p.ReLU && s < 0 {
					s = 0
				}
				want[i*p.N+j] = s
			}
		}
		ref.Gemm(dst, a, b, bias, p)
		if !slices.Equal(dst, want) {
			t.Errorf("%+v: got %v, want %v", p, dst, want)
		}
	}
}

func TestPer(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} // [2,2,3]
	for _, c := range []struct {
		per          ref.Per
		sums, spread []float64 // of x; of 1, 2, 3, …
	}{
		{ref.Per{Batch: 2, Rows: 2, Cols: 3}, []float64{6, 15, 24, 33},
			[]float64{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}},
		{ref.Per{Batch: 2, Rows: 2, Cols: 3, ByCol: true}, []float64{5, 7, 9, 17, 19, 21},
			[]float64{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
	} {
		small, large := make([]float64, c.per.Small()), make([]float64, c.per.Len())
		ref.Sum(small, x, c.per, false)
		if !slices.Equal(small, c.sums) {
			t.Errorf("%+v: sums %v, want %v", c.per, small, c.sums)
		}
		ref.Spread(large, x[:c.per.Small()], c.per)
		if !slices.Equal(large, c.spread) {
			t.Errorf("%+v: spread %v, want %v", c.per, large, c.spread)
		}
	}
}

// difference is the largest difference between dst and the central difference
// of f along d. With h = 1e-6 that errs by some h² and 1e-16/h, on numbers of
// order 1: 1e-8 bounds it.
func difference(dst, at, d []float64, f func(x []float64) []float64) float64 {
	const h = 1e-6
	plus, minus := slices.Clone(at), slices.Clone(at)
	for i := range at {
		plus[i] += h * d[i]
		minus[i] -= h * d[i]
	}
	up, down := f(plus), f(minus)
	var worst float64
	for i := range dst {
		worst = math.Max(worst, math.Abs(dst[i]-(up[i]-down[i])/(2*h))) // NaN stays
	}
	return worst
}

func TestTangents(t *testing.T) {
	const rows, cols, tol = 4, 6, 1e-8
	rng := rand.New(rand.NewPCG(2, 2))
	z, dz := normals(rng, rows*cols), normals(rng, rows*cols)
	labels := []int32{0, 5, 2, 2}
	softmax := func(z []float64) []float64 {
		p := make([]float64, len(z))
		ref.Softmax(p, z, rows, cols)
		return p
	}
	losses := func(z []float64) []float64 {
		loss := make([]float64, rows)
		if err := ref.CrossEntropy(loss, z, labels, rows, cols); err != nil {
			t.Fatal(err)
		}
		return loss
	}
	p := softmax(z)

	dp := make([]float64, rows*cols)
	ref.SoftmaxTangent(dp, p, dz, rows, cols)
	if err := difference(dp, z, dz, softmax); !(err <= tol) {
		t.Errorf("SoftmaxTangent is off by %v", err)
	}
	// A planted fault: the tangent without the mean.
	ref.Mul(dp, p, dz, false)
	if err := difference(dp, z, dz, softmax); err <= tol {
		t.Error("a wrong tangent passed")
	}

	dl := make([]float64, rows)
	if err := ref.CrossEntropyTangent(dl, p, dz, labels, rows, cols); err != nil {
		t.Fatal(err)
	}
	if err := difference(dl, z, dz, losses); !(err <= tol) {
		t.Errorf("CrossEntropyTangent is off by %v", err)
	}

	// SubOneHot is the gradient: its product with dz is the tangent.
	if err := ref.SubOneHot(p, p, labels, rows, cols); err != nil {
		t.Fatal(err)
	}
	ref.SumMul(dl, p, dz, ref.Per{Batch: 1, Rows: rows, Cols: cols}, false)
	if err := difference(dl, z, dz, losses); !(err <= tol) {
		t.Errorf("SubOneHot is off by %v", err)
	}

	// The loss without ties is the same loss.
	loss64 := make([]float64, rows)
	if err := ref.Loss64(loss64, z, labels, rows, cols); err != nil {
		t.Fatal(err)
	}
	for r, want := range losses(z) {
		if !(math.Abs(loss64[r]-want) <= 1e-14) {
			t.Errorf("Loss64 of row %d is %v, CrossEntropy %v", r, loss64[r], want)
		}
	}
}

func TestLabelsAndIndicesAreChecked(t *testing.T) {
	x := make([]float64, 6)
	for _, bad := range []int32{-1, 3} {
		labels := []int32{2, bad}
		for name, err := range map[string]error{
			"CrossEntropy":        ref.CrossEntropy(x, x, labels, 2, 3),
			"CrossEntropyTangent": ref.CrossEntropyTangent(x, x, x, labels, 2, 3),
			"SubOneHot":           ref.SubOneHot(x, x, labels, 2, 3),
			"Loss64":              ref.Loss64(x, x, labels, 2, 3),
			"Gather":              ref.Gather(make([]float64, 4), x, labels, 2, 2),
		} {
			if err == nil {
				t.Errorf("%s took %d", name, bad)
			}
		}
	}
}

func TestCropFlip(t *testing.T) {
	im := ref.Image{B: 2, H: 2, W: 3, C: 1}
	src := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	// One row down and one column to the right; then mirrored.
	move := []int32{1, 1, 0, 0, 0, 1}
	want := []float64{5, 6, 0, 0, 0, 0, 9, 8, 7, 12, 11, 10}
	got := make([]float64, len(src))
	ref.CropFlip(got, src, move, im)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// <y, A x> = <Aᵀ y, x>, for all moves; and A itself is no such transpose.
func TestCropFlipAdjoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	im := ref.Image{B: 3, H: 4, W: 5, C: 2}
	n := im.B * im.H * im.W * im.C
	wrong := 0
	for range 50 {
		move := make([]int32, 3*im.B)
		for b := range im.B {
			move[3*b], move[3*b+1], move[3*b+2] = rng.Int32N(9)-4, rng.Int32N(11)-5, rng.Int32N(2)
		}
		x, y := normals(rng, n), normals(rng, n)
		ax, aty, ay := make([]float64, n), make([]float64, n), make([]float64, n)
		ref.CropFlip(ax, x, move, im)
		ref.CropFlipAdjoint(aty, y, move, im)
		ref.CropFlip(ay, y, move, im)
		var left, right, fault [1]float64
		ref.Dot(left[:], y, ax, false)
		ref.Dot(right[:], aty, x, false)
		ref.Dot(fault[:], ay, x, false)
		if !(math.Abs(left[0]-right[0]) <= 1e-12) {
			t.Errorf("moves %v: %v and %v", move, left[0], right[0])
		}
		if math.Abs(left[0]-fault[0]) > 1e-12 {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("the forward map passed for its adjoint")
	}
}

// The norm is that of the materialised gradient.
func TestSqNormOuter(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const rows, xcols, dycols = 3, 4, 5
	x, dy, got := normals(rng, rows*xcols), normals(rng, rows*dycols), normals(rng, rows)
	want := slices.Clone(got)
	for r := range rows {
		for _, d := range dy[r*dycols : (r+1)*dycols] {
			for _, v := range append(slices.Clone(x[r*xcols:(r+1)*xcols]), 1) {
				want[r] += (d * v) * (d * v)
			}
		}
	}
	ref.SqNormOuter(got, x, dy, rows, xcols, dycols, true, true)
	for r := range got {
		if !(math.Abs(got[r]-want[r]) <= 1e-13*want[r]) {
			t.Errorf("row %d: got %v, want %v", r, got[r], want[r])
		}
	}
}

func TestClipFactor(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	got := make([]float64, 6)
	ref.ClipFactor(got, []float64{0, 1, 16, 25, inf, nan}, 4)
	for i, want := range []float64{1, 1, 1, 0.8, 0, nan} {
		if got[i] != want && !(math.IsNaN(want) && math.IsNaN(got[i])) {
			t.Errorf("factor %d is %v, want %v", i, got[i], want)
		}
	}
}

// A step by hand, with noise taken apart.
func TestSGD(t *testing.T) {
	s := ref.Update{LR: 0.5, Momentum: 0.25, Decay: 2, Scale: 3, EMA: 0.75, Seed: 9, Step: 4}
	p, m, e := []float64{1}, []float64{8}, []float64{7}
	ref.SGD(p, m, e, []float64{10}, s)
	// g' = 30 + 2 = 32, m = 2 + 32 = 34, p = 1 - 17 = -16, e = 7 + (-16 - 7)/4
	if p[0] != -16 || m[0] != 34 || e[0] != 1.25 {
		t.Errorf("p, m, e = %v, %v, %v", p[0], m[0], e[0])
	}
	q := []float64{1, 1, 1}
	ref.SGD(q, nil, nil, make([]float64, 3), ref.Update{LR: 1, Noise: 2, Seed: 9, Step: 4})
	for i := range q {
		if want := 1 - 2*ref.NormalAt(uint64(i), 9, 4); q[i] != want {
			t.Errorf("p[%d] = %v, want %v", i, q[i], want)
		}
	}
}
