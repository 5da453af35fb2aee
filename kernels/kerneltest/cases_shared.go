package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// eachPer calls do with arrays of every kind of shape along both axes, with
// sizes around the vectors in each direction.
func eachPer(do func(p kernels.Per)) {
	for _, rows := range []int{0, 1, 2, 7, 8, 9, 15, 17, 33} {
		for _, cols := range []int{0, 1, 3, 8, 15, 16, 17, 31, 32, 33, 65} {
			bothAxes((rows+cols)%4, rows, cols, do)
		}
	}
}

// eachLongPer does the same with arrays that threads share, or whose sums are
// long.
func eachLongPer(do func(p kernels.Per)) {
	for _, s := range [][3]int{{1, 67, 785}, {1, 3, 17001}, {1, 17001, 3}, {1, 1, 33001}, {1, 33001, 1},
		{17001, 1, 2}, {40, 49, 10}, {3, 530, 17}, {1, 35, 255}, {1, 35, 256}, {1, 35, 257}} {
		bothAxes(s[0], s[1], s[2], do)
	}
}

func bothAxes(batch, rows, cols int, do func(p kernels.Per)) {
	for _, axis := range []kernels.Axis{kernels.PerRow, kernels.PerCol} {
		do(kernels.Per{Batch: batch, Rows: rows, Cols: cols, Axis: axis})
	}
}

func refPer(p kernels.Per) ref.Per {
	return ref.Per{Batch: p.Batch, Rows: p.Rows, Cols: p.Cols, ByCol: p.Axis == kernels.PerCol}
}

// shared is, for each element of the larger array, the one of s that it shares.
func shared(s []float64, p kernels.Per) []float64 {
	x := make([]float64, p.Len())
	ref.Spread(x, s, refPer(p))
	return x
}

func scaleByCase(f *fixture) {
	for _, acc := range []bool{false, true} {
		eachPer(func(p kernels.Per) { f.scaleBy(p, acc, false, f.integers, 0) })
		eachPer(func(p kernels.Per) { f.scaleBy(p, acc, !acc, f.normals, 2) })
		eachLongPer(func(p kernels.Per) { f.scaleBy(p, acc, false, f.integers, 0) })
	}
	f.scaleBy(kernels.Per{Batch: 1, Rows: 9, Cols: 17}, false, false, f.broken, 0)
	f.scaleBy(kernels.Per{Batch: 1, Rows: 9, Cols: 17, Axis: kernels.PerCol}, true, false, f.broken, 0)
}

func (f *fixture) scaleBy(p kernels.Per, acc, inPlace bool, values func(int) []float64, roundings int) {
	c := f.call("%+v acc=%v in place=%v", p, acc, inPlace)
	x, s := values(p.Len()), c.in("s", values(p.Small()))
	var dst *array
	var mx kernels.Mem
	if inPlace {
		dst = c.inout("x", x)
		mx = dst.Mem
	} else {
		mx = c.in("x", x).Mem
		dst = c.dst(p.Len(), acc, values)
	}
	if roundings > 0 {
		each := shared(s.before, p)
		dst.tol = func(i int) float64 {
			abs := math.Abs(x[i] * each[i])
			if acc {
				abs += math.Abs(dst.before[i])
			}
			return roundTol(f.unit, roundings, abs)
		}
	}
	ref.ScaleBy(dst.want, x, s.before, refPer(p), acc)
	c.run(func(dev kernels.Device) { dev.ScaleBy(dst.Mem, mx, s.Mem, p, acc) })
}

func shiftCase(f *fixture) {
	eachPer(func(p kernels.Per) {
		f.shift(p, -2, false, f.integers, 0)
		f.shift(p, rounded(0.3), true, f.normals, 2)
	})
	eachLongPer(func(p kernels.Per) { f.shift(p, -2, false, f.integers, 0) })
}

func (f *fixture) shift(p kernels.Per, alpha float64, inPlace bool, values func(int) []float64, roundings int) {
	c := f.call("%+v alpha=%v in place=%v", p, alpha, inPlace)
	x, s := values(p.Len()), c.in("s", values(p.Small()))
	var dst *array
	var mx kernels.Mem
	if inPlace {
		dst = c.inout("x", x)
		mx = dst.Mem
	} else {
		mx = c.in("x", x).Mem
		dst = c.dst(p.Len(), false, nil)
	}
	if roundings > 0 {
		each := shared(s.before, p)
		dst.tol = func(i int) float64 {
			return roundTol(f.unit, roundings, math.Abs(x[i])+math.Abs(alpha*each[i]))
		}
	}
	ref.Shift(dst.want, x, s.before, alpha, refPer(p))
	c.run(func(dev kernels.Device) { dev.Shift(dst.Mem, mx, s.Mem, alpha, p) })
}

func spreadCase(f *fixture) {
	spread := func(p kernels.Per) {
		c := f.call("%+v", p)
		s, dst := c.in("s", f.normals(p.Small())), c.dst(p.Len(), false, nil)
		ref.Spread(dst.want, s.before, refPer(p))
		c.run(func(dev kernels.Device) { dev.Spread(dst.Mem, s.Mem, p) })
	}
	eachPer(spread)
	eachLongPer(spread)
}

func sumCase(f *fixture) {
	for _, acc := range []bool{false, true} {
		eachPer(func(p kernels.Per) { f.sum(p, acc, f.integers, false) })
		eachPer(func(p kernels.Per) { f.sum(p, acc, f.normals, true) })
	}
	eachLongPer(func(p kernels.Per) { f.sum(p, false, f.integers, false) })
	eachLongPer(func(p kernels.Per) { f.sum(p, true, f.normals, true) })
	f.sum(kernels.Per{Batch: 1, Rows: 9, Cols: 17}, false, f.broken, false)
	f.sum(kernels.Per{Batch: 1, Rows: 9, Cols: 17, Axis: kernels.PerCol}, true, f.broken, false)
	f.sumInParts(false)
}

func (f *fixture) sum(p kernels.Per, acc bool, values func(int) []float64, rounds bool) {
	c := f.call("%+v acc=%v", p, acc)
	x, dst := c.in("x", values(p.Len())), c.dst(p.Small(), acc, values)
	if rounds {
		dst.tol = f.perTol(p, acc, dst.before, absolute(x.before))
	}
	ref.Sum(dst.want, x.before, refPer(p), acc)
	c.run(func(dev kernels.Device) { dev.Sum(dst.Mem, x.Mem, p, acc) })
}

// perTol is sumTol of the terms that share an element, whose absolute values
// are given, and of what dst held.
func (f *fixture) perTol(p kernels.Per, acc bool, dst, terms []float64) func(j int) float64 {
	abs := make([]float64, p.Small())
	if acc {
		copy(abs, absolute(dst))
	}
	ref.Sum(abs, terms, refPer(p), true)
	n := p.Rows
	if p.Axis == kernels.PerRow {
		n = p.Cols
	}
	return func(j int) float64 { return sumTol(f.unit, n+1, abs[j]) }
}

func sumMulCase(f *fixture) {
	for _, acc := range []bool{false, true} {
		eachPer(func(p kernels.Per) { f.sumMul(p, acc, f.integers, false) })
		eachPer(func(p kernels.Per) { f.sumMul(p, acc, f.normals, true) })
	}
	eachLongPer(func(p kernels.Per) { f.sumMul(p, false, f.integers, false) })
	eachLongPer(func(p kernels.Per) { f.sumMul(p, true, f.normals, true) })
	f.sumMul(kernels.Per{Batch: 1, Rows: 9, Cols: 17}, false, f.broken, false)
	f.sumMul(kernels.Per{Batch: 1, Rows: 9, Cols: 17, Axis: kernels.PerCol}, true, f.broken, false)
	f.sumInParts(true)
}

func (f *fixture) sumMul(p kernels.Per, acc bool, values func(int) []float64, rounds bool) {
	c := f.call("%+v acc=%v", p, acc)
	x, y := c.in("x", values(p.Len())), c.in("y", values(p.Len()))
	dst := c.dst(p.Small(), acc, values)
	if rounds {
		terms := make([]float64, p.Len())
		for i := range terms {
			terms[i] = math.Abs(x.before[i] * y.before[i])
		}
		dst.tol = f.perTol(p, acc, dst.before, terms)
	}
	ref.SumMul(dst.want, x.before, y.before, refPer(p), acc)
	c.run(func(dev kernels.Device) { dev.SumMul(dst.Mem, x.Mem, y.Mem, p, acc) })
}

// sumInParts: sums over the examples of a batch have the same bits whether it
// comes at once or in microbatches.
func (f *fixture) sumInParts(mul bool) {
	for _, size := range [][2]int{{70, 10}, {300, 33}, {257, 512}} {
		batch, cols := size[0], size[1]
		for _, part := range []int{1, 7, 64, batch - 1} {
			c := f.call("[%d] = sum over a batch of %d in parts of %d", cols, batch, part)
			x, y := c.in("x", f.normals(batch*cols)), c.in("y", f.normals(batch*cols))
			dst := c.inout("dst", f.normals(cols))
			whole := c.inout("whole", dst.before)
			sum := func(dst kernels.Mem, from, rows int) {
				p := kernels.Per{Batch: 1, Rows: rows, Cols: cols, Axis: kernels.PerCol}
				x, y := x.Slice(from*cols, rows*cols), y.Slice(from*cols, rows*cols)
				if mul {
					f.dev.SumMul(dst, x, y, p, true)
				} else {
					f.dev.Sum(dst, x, p, true)
				}
			}
			c.sameBits(dst, whole,
				func() {
					for from := 0; from < batch; from += part {
						sum(dst.Mem, from, min(part, batch-from))
					}
				},
				func() { sum(whole.Mem, 0, batch) })
		}
	}
}

func dotCase(f *fixture) {
	for _, n := range lengths {
		for _, acc := range []bool{false, true} {
			f.dot(n, acc, f.integers, false)
			f.dot(n, acc, f.normals, true)
		}
	}
	f.dot(33, false, f.broken, false)
}

func (f *fixture) dot(n int, acc bool, values func(int) []float64, rounds bool) {
	c := f.call("n=%d acc=%v", n, acc)
	x, y := c.in("x", values(n)), c.in("y", values(n))
	dst := c.dst(1, acc, func(int) []float64 { return []float64{3} })
	if rounds {
		var abs [1]float64
		ref.Dot(abs[:], absolute(x.before), absolute(y.before), false)
		dst.tol = func(int) float64 { return sumTol(f.unit, n+1, abs[0]+3) }
	}
	ref.Dot(dst.want, x.before, y.before, acc)
	c.run(func(dev kernels.Device) { dev.Dot(dst.Mem, x.Mem, y.Mem, acc) })
}
