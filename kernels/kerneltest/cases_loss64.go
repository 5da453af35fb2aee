package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// lossOracle are losses of logits in float32, computed with 700 decimal digits.
var lossOracle = []struct {
	logits []float64
	label  int32
	loss   float64
}{
	{[]float64{0, 0}, 0, 0.6931471805599453},
	{[]float64{40, 0}, 0, 4.248354255291589e-18},
	{[]float64{100, 0, 0}, 0, 7.440151952041672e-44},
	{[]float64{0, 100}, 0, 100.0},
	{[]float64{700, 0}, 0, 9.85967654375977e-305},
	{[]float64{30, 0}, 0, 9.357622968839737e-14},
	{[]float64{29.75, 0, 0, 0}, 0, 3.604627719530886e-13},
	{[]float64{-3.5, 1.25, 0.75, 2}, 3, 0.5669931487601783},
	{[]float64{10000.0, 9990, 9980}, 0, 4.540096027691298e-05},
	{[]float64{0.1, 0.2, 0.3}, 1, 1.1019428510640155},
	{[]float64{88, 87, 86}, 0, 0.4076059644443803},
	{[]float64{20, -20, 19, 3}, 0, 0.31326171778359224},
	{[]float64{-1000, -1010, -1020}, 0, 4.540096027691298e-05},
	{[]float64{60, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 7.880859686426868e-26},
	{[]float64{16, 0}, 0, 1.1253516838717681e-07},
	{[]float64{37, 0}, 0, 8.533047625744066e-17},
	{[]float64{-700, 0}, 0, 700.0},
	{[]float64{0.0015, -0.0025, 0}, 2, 1.0982803162476857},
	{[]float64{33.3, 1.1, 2.2}, 0, 4.1517396189616266e-14},
}

func loss64Case(f *fixture) {
	for _, o := range lossOracle {
		z := append([]float64(nil), o.logits...)
		round(z)
		f.loss64(1, len(z), z, []int32{o.label}, []float64{o.loss})
	}
	eachTable(func(rows, cols int) {
		z, y := f.logits(rows, cols), f.below(rows, cols)
		want := make([]float64, rows)
		if err := ref.Loss64(want, z, y, rows, cols); err != nil {
			f.fail("%v", err)
		}
		f.loss64(rows, cols, z, y, want)
	})
	f.loss64(0, 0, nil, nil, nil)
	nan := math.NaN()
	f.loss64(4, 3, []float64{1e30, -1e30, 0, nan, 0, 1, 0, 1, nan, 0, math.Inf(-1), 1}, []int32{1, 1, 2, 0},
		[]float64{2 * rounded(1e30), nan, nan, math.Log1p(math.E)})
	f.lossTies()
}

func (f *fixture) loss64(rows, cols int, logits []float64, labels []int32, want []float64) {
	c := f.call("%d×%d", rows, cols)
	if rows == 1 && cols < 12 {
		c = f.call("logits %v label %d", logits, labels[0])
	}
	z, y, dst := c.in("z", logits), c.ints("labels", labels), c.dstOf(kernels.Float64, rows)
	dst.want = want
	dst.tol = func(r int) float64 {
		return want[r]*loss64Tol(row(logits, r, cols), int(labels[r])) + math.SmallestNonzeroFloat64
	}
	c.run(func(dev kernels.Device) { dev.Loss64(dst.Mem, z.Mem, y.Mem, rows, cols) })
}

// lossTies: more confidence is a smaller loss, also where the float32
// cross-entropy is 0 for all.
func (f *fixture) lossTies() {
	const rows, cols = 700, 10
	c := f.call("one step of confidence per row")
	logits := make([]float64, rows*cols)
	for r := range rows {
		logits[r*cols+3] = float64(r)
	}
	z, y := c.in("z", logits), c.ints("labels", repeat(rows, 3))
	dst := c.dstOf(kernels.Float64, rows)
	f.dev.Loss64(dst.Mem, z.Mem, y.Mem, rows, cols)
	got, err := download(f.dev, dst.Mem)
	if err != nil {
		f.fail("%s: %v", c.label, err)
		panic(giveUp)
	}
	for r := 1; r < rows; r++ {
		if !(0 < got[r] && got[r] < got[r-1]) {
			f.fail("%s: a margin of %d has loss %v, and of %d %v", c.label, r-1, got[r-1], r, got[r])
			break
		}
	}
	dst.want = got
	c.run(func(kernels.Device) {})
}

func repeat(n int, x int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = x
	}
	return s
}
