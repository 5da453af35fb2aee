package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

func topKCase(f *fixture) {
	variant := 0
	next := func(queries, bank, dim, k int) {
		variant++
		t := kernels.TopK{Queries: queries, Bank: bank, Dim: dim, K: k, First: 3 * (variant % 5), Acc: variant&1 != 0}
		f.topK(t, variant&2 != 0, f.integers, false)
	}
	for _, queries := range tileEdges {
		for _, bank := range tileEdges {
			next(queries, bank, 1+(queries+bank)%4, 1+queries%7)
		}
		variant++
	}
	for _, dim := range depths {
		next(15, 33, dim, 5)
		next(3, 70, dim, 64)
	}
	for _, s := range [][4]int{{230, 65, 3, 5}, {29, 1030, 3, 9}, {113, 300, 9, 13}, {3, 300, 2, kernels.MaxTopK},
		{8, 5000, 200, 3}, {2, 90, 9000, 4}, {300, 40, 1, 1}} {
		next(s[0], s[1], s[2], s[3])
		next(s[0], s[1], s[2], s[3])
	}
	// Sums that round, and slots wherever no other score is as near.
	for _, s := range [][4]int{{15, 100, 7, 5}, {40, 500, 384, 13}, {20, 70, 785, 64}} {
		f.topK(kernels.TopK{Queries: s[0], Bank: s[1], Dim: s[2], K: s[3]}, true, f.normals, true)
	}
	f.topKExtreme()
	f.topKInParts()
}

// topK checks one search.
func (f *fixture) topK(t kernels.TopK, bias bool, values func(int) []float64, rounds bool) {
	f.t.Helper()
	c := f.call("%+v bias=%v", t, bias)
	q, bank := c.in("q", values(t.Queries*t.Dim)), c.in("bank", values(t.Bank*t.Dim))
	add, mem := []float64(nil), kernels.Mem{}
	if bias {
		add = values(t.Bank)
		mem = c.in("bias", add).Mem
	}
	score, slot, slots := f.lists(c, t)
	ref.TopK(score.want, slots, q.before, bank.before, add, ref.Nearest(t))
	slot.wantInts(slots)
	if rounds {
		score.tol, slot.tol = topKTol(f.unit, t, q.before, bank.before, add)
	}
	c.run(func(dev kernels.Device) { dev.TopK(score.Mem, slot.Mem, q.Mem, bank.Mem, mem, t) })
}

// topKTol is gemmTol of the query's longest sum for scores; a slot is only sure
// if the scores before and after it are further away than both errors.
func topKTol(unit float64, t kernels.TopK, q, bank, bias []float64) (score, slot func(i int) float64) {
	g := kernels.Gemm{M: t.Queries, N: t.Bank, K: t.Dim, TransB: true}
	each := gemmTol(unit, g, nil, q, bank, bias)
	off := make([]float64, t.Queries)
	for i := range t.Queries * t.Bank {
		off[i/t.Bank] = max(off[i/t.Bank], each(i))
	}
	wide := ref.Nearest(t)
	wide.K++
	s, at := make([]float64, t.Queries*wide.K), make([]int32, t.Queries*wide.K)
	ref.TopK(s, at, q, bank, bias, wide)
	score = func(i int) float64 { return off[i/t.K] }
	slot = func(i int) float64 {
		r, j := i/t.K, i%t.K
		list := s[r*wide.K : (r+1)*wide.K]
		if j > 0 && list[j-1]-list[j] <= 2*off[r] || list[j]-list[j+1] <= 2*off[r] {
			return math.Inf(1)
		}
		return 0
	}
	return score, slot
}

// topKExtreme: scores that are no numbers or all alike, lists that every
// candidate enters at the front, and banks too small or empty.
func (f *fixture) topKExtreme() {
	nan, inf := math.NaN(), math.Inf(1)
	rising := make([]float64, 200)
	for i := range rising {
		rising[i] = float64(i)
	}
	for _, bank := range [][]float64{rising, fill(100, -3), {nan, -inf, nan, nan, inf}, {nan, inf, 1, inf, -1, nan},
		fill(40, nan), {-inf, -inf, 0}, {5}, nil} {
		for _, acc := range []bool{false, true} {
			of := func(n int) []float64 {
				if n == len(bank) {
					return append([]float64(nil), bank...)
				}
				return fill(n, 1)
			}
			t := kernels.TopK{Queries: 2, Bank: len(bank), Dim: 1, K: 7, Acc: acc, First: 40}
			if len(bank) != 2 {
				f.topK(t, false, of, false)
			}
		}
	}
	f.topK(kernels.TopK{Queries: 0, Bank: 5, Dim: 3, K: 2}, true, f.integers, false)
	f.topK(kernels.TopK{Queries: 3, Bank: 50, Dim: 0, K: 4}, true, f.integers, false)
	f.topK(kernels.TopK{Queries: 17, Bank: 40, Dim: 9, K: 5}, true, f.broken, false)
}

// topKInParts: a bank in parts gives the same bits as the bank, with random
// numbers that do round.
func (f *fixture) topKInParts() {
	const queries, size, dim, k = 33, 500, 70, 9
	for _, part := range []int{1, 32, 70, 499} {
		c := f.call("%d queries, a bank of %d in parts of %d", queries, size, part)
		q, bank, bias := c.in("q", f.normals(queries*dim)), c.in("bank", f.normals(size*dim)), c.in("bias", f.normals(size))
		score, whole := c.dst(queries*k, false, nil), c.dst(queries*k, false, nil)
		slot, wholeSlot := c.dstOf(kernels.Int32, queries*k), c.dstOf(kernels.Int32, queries*k)
		search := func(score, slot *array, from, n int) {
			f.dev.TopK(score.Mem, slot.Mem, q.Mem, bank.Slice(from*dim, n*dim), bias.Slice(from, n),
				kernels.TopK{Queries: queries, Bank: n, Dim: dim, K: k, First: from, Acc: from > 0})
		}
		search(whole, wholeSlot, 0, size)
		slots, err := download(f.dev, wholeSlot.Mem)
		if err != nil {
			f.fail("%s: %v", c.label, err)
			panic(giveUp)
		}
		slot.want, wholeSlot.want = slots, slots
		c.sameBits(score, whole, func() {
			for from := 0; from < size; from += part {
				search(score, slot, from, min(part, size-from))
			}
		}, func() {})
	}
}

func topKBytesCase(f *fixture) {
	variant := 0
	next := func(queries, bank, dim, k int) {
		variant++
		t := kernels.TopK{Queries: queries, Bank: bank, Dim: dim, K: k, First: 3 * (variant % 5), Acc: variant&1 != 0}
		f.topKBytes(t, variant&2 != 0, 3, f.integers, f.integers)
	}
	for _, queries := range tileEdges {
		for _, bank := range tileEdges {
			next(queries, bank, 4+(queries+bank)%4*4, 1+queries%7)
		}
		variant++
	}
	for _, dim := range depths {
		next(15, 33, dim/4*4, 5)
	}
	// Sums stay below 2²⁴ with the largest bytes, and with scales and biases.
	for _, s := range [][4]int{{230, 65, 8, 5}, {29, 1030, 4, 9}, {113, 300, 16, 13}, {3, 300, 4, kernels.MaxTopK}, {8, 5000, 200, 3}} {
		next(s[0], s[1], s[2], s[3])
		next(s[0], s[1], s[2], s[3])
	}
	ones := func(n int) []float64 { return fill(n, 1) }
	for _, size := range []int{127, 128} { // ±128: every byte is -128
		for _, dim := range []int{4, 384, 1020} {
			f.topKBytes(kernels.TopK{Queries: 15, Bank: 40, Dim: dim, K: 5}, true, size, ones, f.integers)
		}
	}
	broken := func(n int) []float64 {
		x := f.integers(n)
		if n > 2 {
			x[1], x[2] = math.NaN(), math.Inf(1)
		}
		return x
	}
	f.topKBytes(kernels.TopK{Queries: 15, Bank: 70, Dim: 8, K: 5}, true, 3, broken, broken)
	f.topKBytes(kernels.TopK{Queries: 0, Bank: 5, Dim: 4, K: 2}, true, 3, f.integers, f.integers)
	f.topKBytes(kernels.TopK{Queries: 3, Bank: 0, Dim: 4, K: 2}, true, 3, f.integers, f.integers)
	f.topKBytes(kernels.TopK{Queries: 3, Bank: 50, Dim: 0, K: 4}, true, 3, f.integers, f.integers)
	f.topKBytesRounds()
}

// bytes are random up to size in absolute value, four in a number.
func (f *fixture) bytes(n, size int) []int32 {
	x := make([]int32, n)
	for i := range x {
		for shift := 0; shift < 32; shift += 8 {
			b := f.rng.IntN(2*size+1) - size
			if size == 128 {
				b = -128
			}
			x[i] |= int32(uint8(b)) << shift
		}
	}
	return x
}

func (f *fixture) topKBytes(t kernels.TopK, bias bool, size int, scales, biases func(int) []float64) {
	f.t.Helper()
	c := f.call("%+v bias=%v bytes to %d", t, bias, size)
	q, bank := f.bytes(t.Queries*t.Dim/4, size), f.bytes(t.Bank*t.Dim/4, size)
	mq, mb := c.ints("q", q), c.ints("bank", bank)
	qScale, scale := c.in("qScale", scales(t.Queries)), c.in("scale", scales(t.Bank))
	add, mem := []float64(nil), kernels.Mem{}
	if bias {
		add = biases(t.Bank)
		mem = c.in("bias", add).Mem
	}
	score, slot, slots := f.lists(c, t)
	ref.TopKBytes(score.want, slots, q, bank, qScale.before, scale.before, add, ref.Nearest(t))
	slot.wantInts(slots)
	c.run(func(dev kernels.Device) {
		dev.TopKBytes(score.Mem, slot.Mem, mq.Mem, mb.Mem, qScale.Mem, scale.Mem, mem, t)
	})
}

// topKBytesRounds: four roundings of each score, of numbers no longer than the
// product or the bias.
func (f *fixture) topKBytesRounds() {
	t := kernels.TopK{Queries: 30, Bank: 64, Dim: 2048, K: 64}
	c := f.call("%+v, scores that round", t)
	q, bank := f.bytes(t.Queries*t.Dim/4, 127), f.bytes(t.Bank*t.Dim/4, 127)
	mq, mb := c.ints("q", q), c.ints("bank", bank)
	qScale, scale, bias := c.in("qScale", f.normals(t.Queries)), c.in("scale", f.normals(t.Bank)), c.in("bias", f.normals(t.Bank))
	score, slot, slots := f.lists(c, t)
	ref.TopKBytes(score.want, slots, q, bank, qScale.before, scale.before, bias.before, ref.Nearest(t))
	slot.wantInts(slots)
	off := func(i int) float64 {
		return roundTol(f.unit, 4, math.Abs(score.want[i])+2*math.Abs(bias.before[slots[i]]))
	}
	score.tol = off
	slot.tol = func(i int) float64 {
		for _, j := range []int{i - 1, i + 1} {
			if j >= 0 && j < len(slots) && j/t.K == i/t.K && math.Abs(score.want[i]-score.want[j]) <= off(i)+off(j) {
				return math.Inf(1)
			}
		}
		return 0
	}
	c.run(func(dev kernels.Device) {
		dev.TopKBytes(score.Mem, slot.Mem, mq.Mem, mb.Mem, qScale.Mem, scale.Mem, bias.Mem, t)
	})
}

// lists are those of a search, filled beforehand if it adds to them: with
// integers, the last place of each empty.
func (f *fixture) lists(c *call, t kernels.TopK) (score, slot *array, slots []int32) {
	score, slot = c.dst(t.Queries*t.K, false, nil), c.dstOf(kernels.Int32, t.Queries*t.K)
	slots = make([]int32, t.Queries*t.K)
	if t.Acc {
		earlier := ref.Nearest{Queries: t.Queries, Bank: t.K - 1, Dim: 1, K: t.K}
		ref.TopK(score.want, slots, fill(t.Queries, 1), f.integers(t.K-1), nil, earlier)
		f.dev.UploadF64(score.Mem, score.want)
		f.dev.UploadInts(slot.Mem, slots)
	}
	return score, slot, slots
}

func (a *array) wantInts(x []int32) {
	for i, v := range x {
		a.want[i] = float64(v)
	}
}
