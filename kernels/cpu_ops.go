//go:build cgo

package kernels

// #cgo noescape av_gemm
// #cgo nocallback av_gemm
// #cgo noescape av_fill
// #cgo nocallback av_fill
// #cgo noescape av_copy
// #cgo nocallback av_copy
// #cgo noescape av_add
// #cgo nocallback av_add
// #cgo noescape av_mul
// #cgo nocallback av_mul
// #cgo noescape av_keep
// #cgo nocallback av_keep
// #cgo noescape av_tanh
// #cgo nocallback av_tanh
// #cgo noescape av_gelu
// #cgo nocallback av_gelu
// #cgo noescape av_layer_norm
// #cgo nocallback av_layer_norm
// #cgo noescape av_attention
// #cgo nocallback av_attention
// #cgo noescape av_clip_factor
// #cgo nocallback av_clip_factor
// #cgo noescape av_scale_by
// #cgo nocallback av_scale_by
// #cgo noescape av_shift
// #cgo nocallback av_shift
// #cgo noescape av_spread
// #cgo nocallback av_spread
// #cgo noescape av_sum_mul
// #cgo nocallback av_sum_mul
// #cgo noescape av_sq_norm_outer
// #cgo nocallback av_sq_norm_outer
// #cgo noescape av_softmax
// #cgo nocallback av_softmax
// #cgo noescape av_softmax_tangent
// #cgo nocallback av_softmax_tangent
// #cgo noescape av_cross_entropy
// #cgo nocallback av_cross_entropy
// #cgo noescape av_cross_entropy_tangent
// #cgo nocallback av_cross_entropy_tangent
// #cgo noescape av_sub_one_hot
// #cgo nocallback av_sub_one_hot
// #cgo noescape av_loss64
// #cgo nocallback av_loss64
// #cgo noescape av_argmax
// #cgo nocallback av_argmax
// #cgo noescape av_top_k
// #cgo nocallback av_top_k
// #cgo noescape av_top_k_bytes
// #cgo nocallback av_top_k_bytes
// #cgo noescape av_gather
// #cgo nocallback av_gather
// #cgo noescape av_crop_flip
// #cgo nocallback av_crop_flip
// #cgo noescape av_sgd
// #cgo nocallback av_sgd
// #cgo noescape av_normal
// #cgo nocallback av_normal
// #include "abi.h"
import "C"

import "github.com/aviary-audit/aviary/kernels/ref"

// The operations of the CPU device: check, take the lock, call C. Pointers into
// Go memory are pinned by the call alone; nothing is kept.

func f32(m Mem) *C.float   { return at[C.float](m) }
func i32(m Mem) *C.int32_t { return at[C.int32_t](m) }
func f64(m Mem) *C.double  { return at[C.double](m) }
func size(n int) C.int64_t { return C.int64_t(n) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func cPer(p Per) C.av_per {
	return C.av_per{batch: size(p.Batch), rows: size(p.Rows), cols: size(p.Cols), per_col: flag(p.Axis == PerCol)}
}

func (d *cpu) Gemm(dst, a, b, bias Mem, g Gemm) {
	checkGemm(dst, a, b, bias, g)
	run := d.launch("Gemm", dst, a, b, bias)
	defer d.mu.Unlock()
	if run {
		s := C.av_gemm_shape{m: size(g.M), n: size(g.N), k: size(g.K), trans_a: flag(g.TransA), trans_b: flag(g.TransB),
			acc: flag(g.Acc), relu: flag(g.ReLU)}
		C.av_gemm(d.c, f32(dst), f32(a), f32(b), f32(bias), &s)
	}
}

func (d *cpu) Fill(dst Mem, value float64) {
	checkFill(dst)
	run := d.launch("Fill", dst)
	defer d.mu.Unlock()
	if run {
		C.av_fill(d.c, f32(dst), size(dst.N), C.float(value))
	}
}

func (d *cpu) Copy(dst, x Mem) {
	checkCopy(dst, x)
	run := d.launch("Copy", dst, x)
	defer d.mu.Unlock()
	if run {
		C.av_copy(d.c, f32(dst), f32(x), size(dst.N))
	}
}

func (d *cpu) Add(dst, x, y Mem, alpha, beta float64) {
	checkAdd(dst, x, y)
	run := d.launch("Add", dst, x, y)
	defer d.mu.Unlock()
	if run {
		C.av_add(d.c, f32(dst), f32(x), f32(y), size(dst.N), C.float(alpha), C.float(beta))
	}
}

func (d *cpu) Mul(dst, x, y Mem, acc bool) {
	checkMul(dst, x, y)
	run := d.launch("Mul", dst, x, y)
	defer d.mu.Unlock()
	if run {
		C.av_mul(d.c, f32(dst), f32(x), f32(y), size(dst.N), flag(acc))
	}
}

func (d *cpu) Keep(dst, x, mask Mem) {
	checkKeep(dst, x, mask)
	run := d.launch("Keep", dst, x, mask)
	defer d.mu.Unlock()
	if run {
		C.av_keep(d.c, f32(dst), f32(x), f32(mask), size(dst.N))
	}
}

func (d *cpu) Tanh(dst, x Mem) {
	checkTanh(dst, x)
	run := d.launch("Tanh", dst, x)
	defer d.mu.Unlock()
	if run {
		C.av_tanh(d.c, f32(dst), f32(x), size(dst.N))
	}
}

func (d *cpu) GELU(dst, x Mem) {
	checkGELU(dst, x)
	run := d.launch("GELU", dst, x)
	defer d.mu.Unlock()
	if run {
		C.av_gelu(d.c, f32(dst), f32(x), size(dst.N))
	}
}

func (d *cpu) ScaleBy(dst, x, s Mem, p Per, acc bool) {
	checkScaleBy(dst, x, s, p, acc)
	run := d.launch("ScaleBy", dst, x, s)
	defer d.mu.Unlock()
	if run {
		per := cPer(p)
		C.av_scale_by(d.c, f32(dst), f32(x), f32(s), &per, flag(acc))
	}
}

func (d *cpu) Shift(dst, x, s Mem, alpha float64, p Per) {
	checkShift(dst, x, s, p)
	run := d.launch("Shift", dst, x, s)
	defer d.mu.Unlock()
	if run {
		per := cPer(p)
		C.av_shift(d.c, f32(dst), f32(x), f32(s), C.float(alpha), &per)
	}
}

func (d *cpu) Spread(dst, s Mem, p Per) {
	checkSpread(dst, s, p)
	run := d.launch("Spread", dst, s)
	defer d.mu.Unlock()
	if run {
		per := cPer(p)
		C.av_spread(d.c, f32(dst), f32(s), &per)
	}
}

func (d *cpu) Sum(dst, x Mem, p Per, acc bool) {
	checkSum(dst, x, p)
	run := d.launch("Sum", dst, x)
	defer d.mu.Unlock()
	if run {
		per := cPer(p)
		C.av_sum_mul(d.c, f32(dst), f32(x), nil, &per, flag(acc))
	}
}

func (d *cpu) SumMul(dst, x, y Mem, p Per, acc bool) {
	checkSumMul(dst, x, y, p)
	run := d.launch("SumMul", dst, x, y)
	defer d.mu.Unlock()
	if run {
		per := cPer(p)
		C.av_sum_mul(d.c, f32(dst), f32(x), f32(y), &per, flag(acc))
	}
}

func (d *cpu) Dot(dst, x, y Mem, acc bool) {
	checkDot(dst, x, y)
	run := d.launch("Dot", dst, x, y)
	defer d.mu.Unlock()
	if run {
		per := cPer(Per{Batch: 1, Rows: 1, Cols: x.N, Axis: PerRow})
		C.av_sum_mul(d.c, f32(dst), f32(x), f32(y), &per, flag(acc))
	}
}

func (d *cpu) Softmax(prob, z Mem, rows, cols int) {
	checkSoftmax(prob, z, rows, cols)
	run := d.launch("Softmax", prob, z)
	defer d.mu.Unlock()
	if run {
		C.av_softmax(d.c, f32(prob), f32(z), size(rows), size(cols))
	}
}

func (d *cpu) SoftmaxTangent(dst, p, dz Mem, rows, cols int) {
	checkSoftmaxTangent(dst, p, dz, rows, cols)
	run := d.launch("SoftmaxTangent", dst, p, dz)
	defer d.mu.Unlock()
	if run {
		C.av_softmax_tangent(d.c, f32(dst), f32(p), f32(dz), size(rows), size(cols))
	}
}

func (d *cpu) CrossEntropy(loss, z, labels Mem, rows, cols int) {
	checkCrossEntropy(loss, z, labels, rows, cols)
	run := d.launch("CrossEntropy", loss, z, labels)
	defer d.mu.Unlock()
	if run {
		d.checkLabel("CrossEntropy", C.av_cross_entropy(d.c, f32(loss), f32(z), i32(labels), size(rows), size(cols)), labels, cols)
	}
}

func (d *cpu) CrossEntropyTangent(dst, p, dz, labels Mem, rows, cols int) {
	checkCrossEntropyTangent(dst, p, dz, labels, rows, cols)
	run := d.launch("CrossEntropyTangent", dst, p, dz, labels)
	defer d.mu.Unlock()
	if run {
		d.checkLabel("CrossEntropyTangent", C.av_cross_entropy_tangent(d.c, f32(dst), f32(p), f32(dz), i32(labels), size(rows), size(cols)), labels, cols)
	}
}

func (d *cpu) SubOneHot(dst, p, labels Mem, rows, cols int) {
	checkSubOneHot(dst, p, labels, rows, cols)
	run := d.launch("SubOneHot", dst, p, labels)
	defer d.mu.Unlock()
	if run {
		d.checkLabel("SubOneHot", C.av_sub_one_hot(d.c, f32(dst), f32(p), i32(labels), size(rows), size(cols)), labels, cols)
	}
}

func (d *cpu) Loss64(loss, z, labels Mem, rows, cols int) {
	checkLoss64(loss, z, labels, rows, cols)
	run := d.launch("Loss64", loss, z, labels)
	defer d.mu.Unlock()
	if run {
		d.checkLabel("Loss64", C.av_loss64(d.c, f64(loss), f32(z), i32(labels), size(rows), size(cols)), labels, cols)
	}
}

// checkLabel makes a label that is no column (of row bad, unless that is -1) the
// device's failure.
func (d *cpu) checkLabel(op string, bad C.int64_t, labels Mem, cols int) {
	if bad >= 0 {
		d.fail(op, "label[%d] is %d, expected 0 to %d", bad, slice[int32](labels)[bad], cols-1)
	}
}

func (d *cpu) Argmax(dst, z Mem, rows, cols int) {
	checkArgmax(dst, z, rows, cols)
	run := d.launch("Argmax", dst, z)
	defer d.mu.Unlock()
	if run {
		C.av_argmax(d.c, i32(dst), f32(z), size(rows), size(cols))
	}
}

func (d *cpu) LayerNorm(dst, x, y, gain, shift Mem, rows, cols int, stabilizer float64) {
	checkLayerNorm(dst, x, y, gain, shift, rows, cols, stabilizer)
	run := d.launch("LayerNorm", dst, x, y, gain, shift)
	defer d.mu.Unlock()
	if run {
		C.av_layer_norm(d.c, f32(dst), f32(x), f32(y), f32(gain), f32(shift), size(rows), size(cols), C.float(stabilizer))
	}
}

func (d *cpu) Attention(dst, qkv, offsets, bias Mem, a Attention) {
	checkAttention(dst, qkv, offsets, bias, a)
	run := d.launch("Attention", dst, qkv, offsets, bias)
	defer d.mu.Unlock()
	if !run {
		return
	}
	s := C.av_attention_shape{tokens: size(a.Tokens), sequences: size(a.Sequences), heads: size(a.Heads), dim: size(a.Dim),
		longest: size(a.Longest), scale: C.float(a.Scale)}
	switch bad := C.av_attention(d.c, f32(dst), f32(qkv), i32(offsets), f32(bias), &s); {
	case bad == C.AV_NO_MEMORY:
		d.fail("Attention", "the system gave no memory for the scores of sequences of up to %d tokens", a.Longest)
	case bad >= 0:
		d.fail("Attention", "%v", ref.BadOffset(slice[int32](offsets), int(bad), ref.Heads(a)))
	}
}

func (d *cpu) TopK(score, slot, q, bank, bias Mem, t TopK) {
	checkTopK(score, slot, q, bank, bias, t)
	run := d.launch("TopK", score, slot, q, bank, bias)
	defer d.mu.Unlock()
	if run {
		s := t.c()
		C.av_top_k(d.c, f32(score), i32(slot), f32(q), f32(bank), f32(bias), &s)
	}
}

func (d *cpu) TopKBytes(score, slot, q, bank, qScale, scale, bias Mem, t TopK) {
	checkTopKBytes(score, slot, q, bank, qScale, scale, bias, t)
	run := d.launch("TopKBytes", score, slot, q, bank, qScale, scale, bias)
	defer d.mu.Unlock()
	if run {
		s := t.c()
		C.av_top_k_bytes(d.c, f32(score), i32(slot), i32(q), i32(bank), f32(qScale), f32(scale), f32(bias), &s)
	}
}

func (t TopK) c() C.av_top_k_shape {
	return C.av_top_k_shape{queries: size(t.Queries), bank: size(t.Bank), dim: size(t.Dim), k: size(t.K), first: size(t.First), acc: flag(t.Acc)}
}

func (d *cpu) Gather(dst, src, index Mem, rows, cols int) {
	checkGather(dst, src, index, rows, cols)
	run := d.launch("Gather", dst, src, index)
	defer d.mu.Unlock()
	if run {
		if cols == 0 {
			return
		}
		n := src.N / cols
		if bad := C.av_gather(d.c, f32(dst), f32(src), i32(index), size(rows), size(cols), size(n)); bad >= 0 {
			d.fail("Gather", "index[%d] is %d, expected a row of the source's %d", bad, slice[int32](index)[bad], n)
		}
	}
}

func (d *cpu) CropFlip(dst, src, move Mem, im Image) {
	checkCropFlip("CropFlip", dst, src, move, im)
	run := d.launch("CropFlip", dst, src, move)
	defer d.mu.Unlock()
	if run {
		shape := C.av_image{b: size(im.B), h: size(im.H), w: size(im.W), c: size(im.C)}
		C.av_crop_flip(d.c, f32(dst), f32(src), i32(move), &shape, 0)
	}
}

func (d *cpu) CropFlipAdjoint(dst, src, move Mem, im Image) {
	checkCropFlip("CropFlipAdjoint", dst, src, move, im)
	run := d.launch("CropFlipAdjoint", dst, src, move)
	defer d.mu.Unlock()
	if run {
		shape := C.av_image{b: size(im.B), h: size(im.H), w: size(im.W), c: size(im.C)}
		C.av_crop_flip(d.c, f32(dst), f32(src), i32(move), &shape, 1)
	}
}

func (d *cpu) SqNormOuter(dst, x, dy Mem, rows, xcols, dycols int, bias, acc bool) {
	checkSqNormOuter(dst, x, dy, rows, xcols, dycols)
	run := d.launch("SqNormOuter", dst, x, dy)
	defer d.mu.Unlock()
	if run {
		C.av_sq_norm_outer(d.c, f32(dst), f32(x), f32(dy), size(rows), size(xcols), size(dycols), flag(bias), flag(acc))
	}
}

func (d *cpu) ClipFactor(dst, sq Mem, clip float64) {
	checkClipFactor(dst, sq, clip)
	run := d.launch("ClipFactor", dst, sq)
	defer d.mu.Unlock()
	if run {
		C.av_clip_factor(d.c, f32(dst), f32(sq), size(dst.N), C.float(clip))
	}
}

func (d *cpu) SGD(p, m, e, g Mem, s SGD) {
	checkSGD(p, m, e, g)
	run := d.launch("SGD", p, m, e, g)
	defer d.mu.Unlock()
	if run {
		step := C.av_sgd_step{lr: C.float(s.LR), momentum: C.float(s.Momentum), decay: C.float(s.Decay), scale: C.float(s.Scale),
			one_minus_ema: C.float(1 - s.EMA), noise: C.float(s.Noise), seed: C.uint64_t(s.Seed), step: C.uint64_t(s.Step)}
		C.av_sgd(d.c, f32(p), f32(m), f32(e), f32(g), size(p.N), &step)
	}
}

func (d *cpu) Normal(dst Mem, seed, step uint64) {
	checkNormal(dst)
	run := d.launch("Normal", dst)
	defer d.mu.Unlock()
	if run {
		C.av_normal(d.c, f32(dst), size(dst.N), C.uint64_t(seed), C.uint64_t(step))
	}
}
