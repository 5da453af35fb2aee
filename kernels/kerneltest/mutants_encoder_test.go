package kerneltest_test

import (
	"math"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// The mutants of what encoders and routing need; mutants_test.go lists them.

type geluTanh struct{ kernels.Device }

func (d geluTanh) GELU(dst, x kernels.Mem) {
	out := peek(d.Device, x)
	for i, v := range out {
		out[i] = v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	}
	d.UploadF64(dst, out)
}

type normUnbiased struct{ kernels.Device }

func (d normUnbiased) LayerNorm(dst, x, y, gain, shift kernels.Mem, rows, cols int, stabilizer float64) {
	g, n := peek(d.Device, gain), float64(cols)
	for i := range g {
		g[i] *= math.Sqrt((n - 1) / n)
	}
	other, err := d.Alloc(kernels.Elem, cols)
	if err != nil {
		panic(err)
	}
	defer d.Free(other)
	d.UploadF64(other, g)
	d.Device.LayerNorm(dst, x, y, other, shift, rows, cols, stabilizer)
}

type normForgets struct{ kernels.Device }

func (d normForgets) LayerNorm(dst, x, y, gain, shift kernels.Mem, rows, cols int, stabilizer float64) {
	if dst == x { // only in place
		y = kernels.Mem{}
	}
	d.Device.LayerNorm(dst, x, y, gain, shift, rows, cols, stabilizer)
}

type normCancels struct{ kernels.Device }

func (d normCancels) LayerNorm(dst, x, y, gain, shift kernels.Mem, rows, cols int, stabilizer float64) {
	h, g, s := peek(d.Device, x), peek(d.Device, gain), peek(d.Device, shift)
	if !y.None() {
		ref.Add(h, h, peek(d.Device, y), 1, 1)
	}
	for r := range rows {
		h := h[r*cols : (r+1)*cols]
		var sum, squares float32
		for _, v := range h {
			sum += float32(v)
			squares += float32(v) * float32(v)
		}
		mean := sum / float32(cols)
		scale := 1 / math.Sqrt(float64(squares/float32(cols)-mean*mean)+stabilizer)
		for c, v := range h {
			h[c] = (v-float64(mean))*scale*g[c] + s[c]
		}
	}
	d.UploadF64(dst, h)
}

type attendsAll struct{ kernels.Device }

func (d attendsAll) Attention(dst, qkv, offsets, bias kernels.Mem, a kernels.Attention) {
	if a.Sequences == 2 && bias.None() {
		d.Device.Attention(dst, qkv, offsets, bias, a)
		return
	}
	d.changed(dst, qkv, offsets, bias, a, func(_ []float64, o []int32) {
		if a.Sequences == 3 && o[1]+1 < o[2] { // the second begins one token late
			o[1]++
		}
	})
}

// changed is Attention on changed operands.
func (d attendsAll) changed(dst, qkv, offsets, bias kernels.Mem, a kernels.Attention, change func(b []float64, o []int32)) {
	out, x, ints := peek(d.Device, dst), peek(d.Device, qkv), make([]int32, offsets.N)
	if err := d.DownloadInts(ints, offsets); err != nil {
		panic(err)
	}
	var b []float64
	if !bias.None() {
		b = peek(d.Device, bias)
	}
	change(b, ints)
	if err := ref.Attention(out, x, ints, b, ref.Heads(a)); err != nil {
		panic(err)
	}
	d.UploadF64(dst, out)
}

type turnsBias struct{ kernels.Device }

func (d turnsBias) Attention(dst, qkv, offsets, bias kernels.Mem, a kernels.Attention) {
	attendsAll(d).changed(dst, qkv, offsets, bias, a, func(b []float64, _ []int32) {
		for h := range a.Heads {
			if b != nil {
				slices.Reverse(b[h*(2*a.Longest-1) : (h+1)*(2*a.Longest-1)])
			}
		}
	})
}

type forgetsScale struct{ kernels.Device }

func (d forgetsScale) Attention(dst, qkv, offsets, bias kernels.Mem, a kernels.Attention) {
	if a.Dim > 32 { // only beyond a panel
		a.Scale = 1
	}
	d.Device.Attention(dst, qkv, offsets, bias, a)
}

// attentionOverflows loses what comes from scores beyond exp.
type attentionOverflows struct{ kernels.Device }

func (d attentionOverflows) Attention(dst, qkv, offsets, bias kernels.Mem, a kernels.Attention) {
	d.Device.Attention(dst, qkv, offsets, bias, a)
	most := 0.0
	for _, x := range peek(d.Device, qkv) {
		most = max(most, math.Abs(x))
	}
	if most*most*a.Scale > 88 && dst.N > 0 {
		poke(d.Device, dst, dst.N-1, math.NaN())
	}
}

type topKLast struct{ kernels.Device }

func (d topKLast) TopK(score, slot, q, bank, bias kernels.Mem, t kernels.TopK) {
	d.Device.TopK(score, slot, q, bank, bias, t)
	x, at := peek(d.Device, score), make([]int32, t.Queries*t.K)
	if d.DownloadInts(at, slot) != nil {
		return
	}
	for i := 1; i < len(at); i++ {
		if i%t.K > 0 && x[i] == x[i-1] {
			at[i-1], at[i] = at[i], at[i-1]
		}
	}
	d.UploadInts(slot, at)
}

type topKForgets struct{ kernels.Device }

func (d topKForgets) TopK(score, slot, q, bank, bias kernels.Mem, t kernels.TopK) {
	t.Acc = false
	d.Device.TopK(score, slot, q, bank, bias, t)
}

type topKFirst struct{ kernels.Device }

func (d topKFirst) TopK(score, slot, q, bank, bias kernels.Mem, t kernels.TopK) {
	t.First = 0
	d.Device.TopK(score, slot, q, bank, bias, t)
}

type topKNoBias struct{ kernels.Device }

func (d topKNoBias) TopK(score, slot, q, bank, _ kernels.Mem, t kernels.TopK) {
	d.Device.TopK(score, slot, q, bank, kernels.Mem{}, t)
}

// topKMisses does not see the last candidate where that is alone in its tile.
type topKMisses struct{ kernels.Device }

func (d topKMisses) TopK(score, slot, q, bank, bias kernels.Mem, t kernels.TopK) {
	if t.Bank%32 == 1 && t.Bank > 32 {
		t.Bank--
		bank = bank.Slice(0, t.Bank*t.Dim)
		if !bias.None() {
			bias = bias.Slice(0, t.Bank)
		}
	}
	d.Device.TopK(score, slot, q, bank, bias, t)
}

type topKBytesUnsigned struct{ kernels.Device }

func (d topKBytesUnsigned) TopKBytes(score, slot, q, bank, qScale, scale, bias kernels.Mem, t kernels.TopK) {
	x := make([]int32, q.N)
	if d.DownloadInts(x, q) != nil {
		return
	}
	for i := range x {
		x[i] &= 0x7f7f7f7f
	}
	positive, err := d.Alloc(kernels.Int32, q.N)
	if err != nil {
		panic(err)
	}
	d.UploadInts(positive, x)
	d.Device.TopKBytes(score, slot, positive, bank, qScale, scale, bias, t)
}

type topKBytesSwaps struct{ kernels.Device }

func (d topKBytesSwaps) TopKBytes(score, slot, q, bank, qScale, scale, bias kernels.Mem, t kernels.TopK) {
	if qScale.N == scale.N {
		qScale, scale = scale, qScale
	}
	d.Device.TopKBytes(score, slot, q, bank, qScale, scale, bias, t)
}
