package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// eachTable calls do with numbers of rows and columns around vectors and pieces
// of work; none without columns.
func eachTable(do func(rows, cols int)) {
	for _, rows := range []int{0, 1, 2, 5, 17} {
		for _, cols := range []int{1, 2, 3, 7, 8, 9, 10, 11, 15, 16, 17, 31, 32, 33, 64, 65, 100, 1000} {
			do(rows, cols)
		}
	}
	do(1639, 10) // more rows than make one piece
	do(3300, 10)
	do(16385, 1)
	do(3, 16385)
}

// certain are logits with one winner per row, by so much that the others have
// probability 0 in float32 and float64.
func (f *fixture) certain(rows, cols int) []float64 {
	z := make([]float64, rows*cols)
	for r := range rows {
		winner := f.rng.IntN(cols)
		for c := range cols {
			z[r*cols+c] = -1024 * float64(1+f.rng.IntN(8))
		}
		z[r*cols+winner] = 1024 * float64(f.rng.IntN(8))
	}
	return z
}

// logits have rows of different spread, up to what overflows an unstabilised
// exp.
func (f *fixture) logits(rows, cols int) []float64 {
	z := f.normals(rows * cols)
	for r := range rows {
		scale := []float64{1, 4, 30, 200}[f.rng.IntN(4)]
		for c := range cols {
			z[r*cols+c] = rounded(z[r*cols+c] * scale)
		}
	}
	return z
}

func row(x []float64, r, cols int) []float64 { return x[r*cols : (r+1)*cols] }

func softmaxCase(f *fixture) {
	eachTable(func(rows, cols int) {
		f.softmax(rows, cols, f.certain(rows, cols), false)
		f.softmax(rows, cols, f.logits(rows, cols), true)
	})
	f.softmax(3, 0, nil, false)
	inf, nan := math.Inf(1), math.NaN()
	f.softmax(6, 3, []float64{
		1e30, -1e30, 0, // far beyond exp
		-1e30, -1e30, -1e30,
		nan, 0, 1, // the whole row is NaN, and no other
		0, 1, nan,
		0, -inf, 1,
		3e38, 3e38, -3e38,
	}, true)
	wide := f.normals(2 * 33)
	wide[20] = nan // in the middle of a vector
	f.softmax(2, 33, wide, true)
	f.softmax(1, 3, []float64{0, inf, 1}, false)
}

func (f *fixture) softmax(rows, cols int, logits []float64, rounds bool) {
	c := f.call("%d×%d rounds=%v", rows, cols, rounds)
	z, dst := c.in("z", logits), c.dst(rows*cols, false, nil)
	ref.Softmax(dst.want, logits, rows, cols)
	if rounds {
		tols := make([]func(c int) float64, rows)
		for r := range tols {
			tols[r] = softmaxTol(f.unit, row(logits, r, cols), row(dst.want, r, cols))
		}
		dst.tol = func(i int) float64 { return tols[i/cols](i%cols)*dst.want[i] + smallest }
	}
	c.run(func(dev kernels.Device) { dev.Softmax(dst.Mem, z.Mem, rows, cols) })
}

func softmaxTangentCase(f *fixture) {
	eachTable(func(rows, cols int) {
		// The formula is exact on integers too, probabilities or not.
		f.softmaxTangent(rows, cols, f.integers(rows*cols), f.integers(rows*cols), false)
		p := make([]float64, rows*cols)
		ref.Softmax(p, f.logits(rows, cols), rows, cols)
		round(p)
		f.softmaxTangent(rows, cols, p, f.normals(rows*cols), true)
	})
	f.softmaxTangent(3, 0, nil, nil, false)
	p := fill(2*33, 0.25)
	p[20] = math.NaN()
	f.softmaxTangent(2, 33, p, f.integers(2*33), true)
}

func (f *fixture) softmaxTangent(rows, cols int, p, dz []float64, rounds bool) {
	c := f.call("%d×%d rounds=%v", rows, cols, rounds)
	mp, mdz, dst := c.in("p", p), c.in("dz", dz), c.dst(rows*cols, false, nil)
	ref.SoftmaxTangent(dst.want, p, dz, rows, cols)
	if rounds {
		mean := make([]float64, rows) // Σ |p dz|, which bounds the mean of dz
		ref.SumMul(mean, absolute(p), absolute(dz), ref.Per{Batch: 1, Rows: rows, Cols: cols}, false)
		dst.tol = func(i int) float64 {
			m := mean[i/cols]
			return math.Abs(p[i])*sumTol(f.unit, cols, m) + roundTol(f.unit, 2, math.Abs(p[i])*(math.Abs(dz[i])+m))
		}
	}
	c.run(func(dev kernels.Device) { dev.SoftmaxTangent(dst.Mem, mp.Mem, mdz.Mem, rows, cols) })
}

func crossEntropyCase(f *fixture) {
	eachTable(func(rows, cols int) {
		f.crossEntropy(rows, cols, f.certain(rows, cols), false)
		f.crossEntropy(rows, cols, f.logits(rows, cols), true)
	})
	f.crossEntropy(0, 0, nil, false)
	nan := math.NaN()
	f.crossEntropy(5, 3, []float64{1e30, -1e30, 0, -1e30, -1e30, -1e30, nan, 0, 1, 0, 1, nan, 0, math.Inf(-1), 1}, true)
	wide := f.normals(2 * 33)
	wide[20] = nan
	f.crossEntropy(2, 33, wide, true)
}

func (f *fixture) crossEntropy(rows, cols int, logits []float64, rounds bool) {
	c := f.call("%d×%d rounds=%v", rows, cols, rounds)
	labels := f.below(rows, cols)
	z, y, dst := c.in("z", logits), c.ints("labels", labels), c.dst(rows, false, nil)
	if err := ref.CrossEntropy(dst.want, logits, labels, rows, cols); err != nil {
		f.fail("%s: %v", c.label, err)
	}
	if rounds {
		p := make([]float64, rows*cols)
		ref.Softmax(p, logits, rows, cols)
		dst.tol = func(r int) float64 {
			return crossEntropyTol(f.unit, row(logits, r, cols), row(p, r, cols), int(labels[r]))
		}
	}
	c.run(func(dev kernels.Device) { dev.CrossEntropy(dst.Mem, z.Mem, y.Mem, rows, cols) })
}

func crossEntropyTangentCase(f *fixture) {
	eachTable(func(rows, cols int) {
		f.crossEntropyTangent(rows, cols, f.integers(rows*cols), f.integers(rows*cols), false)
		p := make([]float64, rows*cols)
		ref.Softmax(p, f.logits(rows, cols), rows, cols)
		round(p)
		f.crossEntropyTangent(rows, cols, p, f.normals(rows*cols), true)
	})
	p := fill(2*33, 0.25)
	p[20] = math.NaN()
	f.crossEntropyTangent(2, 33, p, f.integers(2*33), true)
}

func (f *fixture) crossEntropyTangent(rows, cols int, p, dz []float64, rounds bool) {
	c := f.call("%d×%d rounds=%v", rows, cols, rounds)
	labels := f.below(rows, cols)
	mp, mdz, y, dst := c.in("p", p), c.in("dz", dz), c.ints("labels", labels), c.dst(rows, false, nil)
	if err := ref.CrossEntropyTangent(dst.want, p, dz, labels, rows, cols); err != nil {
		f.fail("%s: %v", c.label, err)
	}
	if rounds {
		dst.tol = func(r int) float64 {
			abs := math.Abs(dz[r*cols+int(labels[r])])
			for c := range cols {
				abs += math.Abs(p[r*cols+c] * dz[r*cols+c])
			}
			return sumTol(f.unit, cols+1, abs)
		}
	}
	c.run(func(dev kernels.Device) { dev.CrossEntropyTangent(dst.Mem, mp.Mem, mdz.Mem, y.Mem, rows, cols) })
}

func subOneHotCase(f *fixture) {
	eachTable(func(rows, cols int) {
		f.subOneHot(rows, cols, f.integers(rows*cols), false)
		f.subOneHot(rows, cols, f.integers(rows*cols), true)
		p := make([]float64, rows*cols)
		ref.Softmax(p, f.logits(rows, cols), rows, cols)
		round(p)
		f.subOneHot(rows, cols, p, true)
	})
}

// subOneHot: the difference is exact or rounded once.
func (f *fixture) subOneHot(rows, cols int, p []float64, inPlace bool) {
	c := f.call("%d×%d in place=%v", rows, cols, inPlace)
	labels := f.below(rows, cols)
	y := c.ints("labels", labels)
	var dst *array
	var mp kernels.Mem
	if inPlace {
		dst = c.inout("p", p)
		mp = dst.Mem
	} else {
		mp = c.in("p", p).Mem
		dst = c.dst(rows*cols, false, nil)
	}
	if err := ref.SubOneHot(dst.want, p, labels, rows, cols); err != nil {
		f.fail("%s: %v", c.label, err)
	}
	dst.tol = func(i int) float64 {
		if dst.want[i] == math.Trunc(dst.want[i]) {
			return 0
		}
		return roundTol(f.unit, 1, math.Abs(dst.want[i]))
	}
	c.run(func(dev kernels.Device) { dev.SubOneHot(dst.Mem, mp, y.Mem, rows, cols) })
}

func argmaxCase(f *fixture) {
	eachTable(func(rows, cols int) {
		f.argmax(rows, cols, f.normals(rows*cols))
		f.argmax(rows, cols, f.integers(rows*cols)) // with ties
		f.argmax(rows, cols, fill(rows*cols, -3))
	})
	f.argmax(0, 0, nil)
	inf := math.Inf(1)
	f.argmax(4, 3, []float64{-inf, -inf, -inf, 0, inf, inf, -1, math.Copysign(0, -1), 0, -inf, -3e38, -inf})
	f.argmaxNaN()
}

func (f *fixture) argmax(rows, cols int, values []float64) {
	c := f.call("%d×%d", rows, cols)
	z, dst := c.in("z", values), c.dstOf(kernels.Int32, rows)
	best := make([]int32, rows)
	ref.Argmax(best, values, rows, cols)
	for r := range best {
		dst.want[r] = float64(best[r])
	}
	c.run(func(dev kernels.Device) { dev.Argmax(dst.Mem, z.Mem, rows, cols) })
}

// argmaxNaN: with a NaN any column will do, but it must be one.
func (f *fixture) argmaxNaN() {
	for _, cols := range []int{1, 3, 33} {
		c := f.call("%d columns with a NaN", cols)
		values := fill(2*cols, math.NaN())
		values[cols] = 1
		z, dst := c.in("z", values), c.dstOf(kernels.Int32, 2)
		middle := float64(cols-1) / 2
		dst.want = []float64{middle, middle}
		dst.tol = func(int) float64 { return middle }
		c.run(func(dev kernels.Device) { dev.Argmax(dst.Mem, z.Mem, 2, cols) })
	}
}
