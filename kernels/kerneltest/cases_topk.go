package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

func topKCase(f *fixture) {
	eachTable(func(rows, cols int) {
		for _, k := range []int{1, 5, 64} {
			if rows > 100 && k > 5 {
				continue
			}
			f.topK(rows, cols, k, 3, false, f.normals(rows*cols))
			f.topK(rows, cols, k, 1000, true, f.integers(rows*cols)) // with ties, also to what is there
		}
	})
	f.topK(0, 0, 3, 0, false, nil)
	f.topK(2, 0, 3, 0, false, nil)
	f.topK(2, 0, 3, 9, true, nil)
	f.topK(3, 300, kernels.MaxTopK, 0, true, f.integers(900))
	// Ascending, so that every element goes to the front; and all alike.
	rising := make([]float64, 200)
	for i := range rising {
		rising[i] = float64(i)
	}
	f.topK(1, 200, 7, 0, false, rising)
	f.topK(2, 100, 7, 0, false, fill(200, -3))
	nan, inf := math.NaN(), math.Inf(1)
	f.topK(4, 5, 3, 0, false, []float64{nan, -inf, nan, nan, nan, inf, nan, 1, inf, -1, nan, nan, nan, nan, nan, -inf, -inf, -inf, -inf, 0})
	broken := f.normals(3 * 200)
	for i := range broken {
		if i%3 == 0 {
			broken[i] = nan
		}
	}
	f.topK(3, 200, 10, 0, true, broken)
}

// topK has lists of k to add to with acc: integers, of slots from 0 on, the last
// of each row not there.
func (f *fixture) topK(rows, cols, k, first int, acc bool, values []float64) {
	c := f.call("%d×%d, k %d, slots from %d, acc %v", rows, cols, k, first, acc)
	z := c.in("z", values)
	score := c.dst(rows*k, acc, f.integers)
	slot := c.dstOf(kernels.Int32, rows*k)
	slots := make([]int32, rows*k)
	if acc {
		scores := f.integers(rows * k)
		ref.TopK(score.want, slots, scores, rows, k, k, 0, false)
		for r := range rows {
			last := (r+1)*k - 1
			score.want[last], slots[last] = math.Inf(-1), -1
		}
		f.dev.UploadF64(score.Mem, score.want)
		f.dev.UploadInts(slot.Mem, slots)
	}
	ref.TopK(score.want, slots, z.before, rows, cols, k, first, acc)
	for i, s := range slots {
		slot.want[i] = float64(s)
	}
	c.run(func(dev kernels.Device) { dev.TopK(score.Mem, slot.Mem, z.Mem, rows, cols, k, first, acc) })
}
