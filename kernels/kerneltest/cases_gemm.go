package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// tileEdges are 0, 1 and ±1 around the register tiles of the CPU (14×32, 6×16)
// and its vectors of 8 and 16.
var tileEdges = []int{0, 1, 5, 6, 7, 9, 13, 14, 15, 16, 17, 31, 32, 33}

// depths are ±1 around places where a device may cut k into blocks.
var depths = []int{0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 192, 193,
	255, 256, 257, 319, 320, 321, 383, 384, 385, 399, 400, 401, 511, 512, 513, 785}

func gemmCase(f *fixture) {
	variant := 0 // counts through transposes, acc, bias and ReLU
	next := func(m, n, k int) kernels.Gemm {
		variant++
		return kernels.Gemm{M: m, N: n, K: k, TransA: variant&1 != 0, TransB: variant&2 != 0,
			Acc: variant&4 != 0, ReLU: variant&8 != 0}
	}
	// Every combination, on sizes that all differ and on a square.
	for _, size := range [][3]int{{7, 18, 5}, {15, 33, 20}, {17, 17, 17}} {
		for range 16 {
			g := next(size[0], size[1], size[2])
			f.gemm(g, false, f.integers, nil)
			f.gemm(g, true, f.integers, nil)
		}
	}
	for _, m := range tileEdges {
		for _, n := range tileEdges {
			f.gemm(next(m, n, 1+(m+n)%5), variant%3 == 0, f.integers, nil)
			f.gemm(next(m, n, 18), variant%3 == 0, f.integers, nil)
		}
		variant++ // else one size would always meet the same variants
	}
	for _, k := range depths {
		for range 4 {
			f.gemm(next(14, 33, k), variant%3 == 0, f.integers, nil)
		}
		f.gemm(next(15, 10, k), false, f.integers, nil)
		variant++
	}
	// Several blocks in each direction, and the narrow shapes of a classifier.
	for _, size := range [][3]int{{127, 257, 70}, {257, 129, 33}, {513, 63, 40}, {65, 513, 19},
		{200, 10, 300}, {300, 10, 200}, {10, 300, 200}, {1, 600, 400}, {600, 1, 400}, {29, 1030, 3}, {1030, 29, 3}} {
		for range 4 {
			f.gemm(next(size[0], size[1], size[2]), variant%3 == 0, f.integers, nil)
		}
		variant += 4
	}
	for _, size := range [][3]int{{1, 1, 1}, {13, 31, 100}, {30, 70, 400}, {65, 33, 785}, {256, 10, 512}} {
		for range 8 {
			f.gemm(next(size[0], size[1], size[2]), variant%3 == 0, f.normals, gemmTol)
		}
		variant += 3
	}
	f.gemmNaN()
	f.gemmInParts()
}

// gemm checks one product.
func (f *fixture) gemm(g kernels.Gemm, bias bool, values func(int) []float64, tol gemmTolerance) {
	f.t.Helper()
	c := f.call("%+v bias=%v", g, bias)
	a, b := c.in("a", values(g.M*g.K)), c.in("b", values(g.K*g.N))
	dst := c.dst(g.M*g.N, g.Acc, values)
	add, mem := []float64(nil), kernels.Mem{}
	if bias {
		add = values(g.N)
		mem = c.in("bias", add).Mem
	}
	if tol != nil {
		dst.tol = tol(f.unit, g, dst.before, a.before, b.before, add)
	}
	ref.Gemm(dst.want, a.before, b.before, add, ref.Product(g))
	c.run(func(dev kernels.Device) { dev.Gemm(dst.Mem, a.Mem, b.Mem, mem, g) })
}

type gemmTolerance func(unit float64, g kernels.Gemm, dst, a, b, bias []float64) func(i int) float64

// gemmTol is sumTol of the K products, with the destination and the bias.
func gemmTol(unit float64, g kernels.Gemm, dst, a, b, bias []float64) func(i int) float64 {
	sum := make([]float64, g.M*g.N) // of absolute values
	if g.Acc {
		copy(sum, absolute(dst))
	}
	p := ref.Product(g)
	p.Acc, p.ReLU = true, false
	var add []float64
	if bias != nil {
		add = absolute(bias)
	}
	ref.Gemm(sum, absolute(a), absolute(b), add, p)
	return func(i int) float64 { return sumTol(unit, g.K+2, sum[i]) }
}

func absolute(x []float64) []float64 {
	s := make([]float64, len(x))
	for i := range x {
		s[i] = math.Abs(x[i])
	}
	return s
}

// gemmNaN: a NaN or an infinity reaches the row or column it belongs to and no
// other, also through ReLU.
func (f *fixture) gemmNaN() {
	for _, relu := range []bool{false, true} {
		g := kernels.Gemm{M: 15, N: 33, K: 9, ReLU: relu}
		broken := func(n int) []float64 {
			x := f.integers(n)
			x[n/3] = math.NaN()
			x[n/2] = math.Inf(1)
			return x
		}
		f.gemm(g, true, broken, nil)
		g.Acc = true
		f.gemm(g, false, broken, nil)
	}
}

// gemmInParts: a batch cut into microbatches that accumulate gives the same
// bits as the batch, with random numbers that do round.
func (f *fixture) gemmInParts() {
	for _, size := range [][3]int{{14, 33, 70}, {31, 10, 600}, {70, 40, 300}} {
		m, n, batch := size[0], size[1], size[2]
		for _, part := range []int{1, 7, 64, 256, batch - 1} {
			c := f.call("[%d,%d] = sum over a batch of %d in parts of %d", m, n, batch, part)
			a, b := c.in("a", f.normals(batch*m)), c.in("b", f.normals(batch*n))
			dst := c.inout("dst", f.normals(m*n))
			whole := c.inout("whole", dst.before)
			product := func(dst kernels.Mem, from, k int) {
				f.dev.Gemm(dst, a.Slice(from*m, k*m), b.Slice(from*n, k*n), kernels.Mem{},
					kernels.Gemm{M: m, N: n, K: k, TransA: true, Acc: true})
			}
			c.sameBits(dst, whole,
				func() {
					for from := 0; from < batch; from += part {
						product(dst.Mem, from, min(part, batch-from))
					}
				},
				func() { product(whole.Mem, 0, batch) })
		}
	}
}
