package kernels

import "github.com/aviary-audit/aviary/kernels/ref"

var _ Device = (*reference)(nil)

// done is the end of an operation that cannot fail.
func done(f func()) func() error {
	return func() error { f(); return nil }
}

func per(p Per) ref.Per {
	return ref.Per{Batch: p.Batch, Rows: p.Rows, Cols: p.Cols, ByCol: p.Axis == PerCol}
}

func (d *reference) Gemm(dst, a, b, bias Mem, g Gemm) {
	checkGemm(dst, a, b, bias, g)
	d.launch("Gemm", []Mem{dst, a, b, bias}, done(func() {
		ref.Gemm(floats(dst), floats(a), floats(b), floats(bias), ref.Product(g))
	}))
}

func (d *reference) Fill(dst Mem, value float64) {
	checkFill(dst)
	d.launch("Fill", []Mem{dst}, done(func() { ref.Fill(floats(dst), value) }))
}

func (d *reference) Copy(dst, x Mem) {
	checkCopy(dst, x)
	d.launch("Copy", []Mem{dst, x}, done(func() { ref.Copy(floats(dst), floats(x)) }))
}

func (d *reference) Add(dst, x, y Mem, alpha, beta float64) {
	checkAdd(dst, x, y)
	d.launch("Add", []Mem{dst, x, y}, done(func() {
		ref.Add(floats(dst), floats(x), floats(y), alpha, beta)
	}))
}

func (d *reference) Mul(dst, x, y Mem, acc bool) {
	checkMul(dst, x, y)
	d.launch("Mul", []Mem{dst, x, y}, done(func() {
		ref.Mul(floats(dst), floats(x), floats(y), acc)
	}))
}

func (d *reference) Keep(dst, x, mask Mem) {
	checkKeep(dst, x, mask)
	d.launch("Keep", []Mem{dst, x, mask}, done(func() {
		ref.Keep(floats(dst), floats(x), floats(mask))
	}))
}

func (d *reference) Tanh(dst, x Mem) {
	checkTanh(dst, x)
	d.launch("Tanh", []Mem{dst, x}, done(func() { ref.Tanh(floats(dst), floats(x)) }))
}

func (d *reference) GELU(dst, x Mem) {
	checkGELU(dst, x)
	d.launch("GELU", []Mem{dst, x}, done(func() { ref.GELU(floats(dst), floats(x)) }))
}

func (d *reference) ScaleBy(dst, x, s Mem, p Per, acc bool) {
	checkScaleBy(dst, x, s, p, acc)
	d.launch("ScaleBy", []Mem{dst, x, s}, done(func() {
		ref.ScaleBy(floats(dst), floats(x), floats(s), per(p), acc)
	}))
}

func (d *reference) Shift(dst, x, s Mem, alpha float64, p Per) {
	checkShift(dst, x, s, p)
	d.launch("Shift", []Mem{dst, x, s}, done(func() {
		ref.Shift(floats(dst), floats(x), floats(s), alpha, per(p))
	}))
}

func (d *reference) Spread(dst, s Mem, p Per) {
	checkSpread(dst, s, p)
	d.launch("Spread", []Mem{dst, s}, done(func() {
		ref.Spread(floats(dst), floats(s), per(p))
	}))
}

func (d *reference) Sum(dst, x Mem, p Per, acc bool) {
	checkSum(dst, x, p)
	d.launch("Sum", []Mem{dst, x}, done(func() {
		ref.Sum(floats(dst), floats(x), per(p), acc)
	}))
}

func (d *reference) SumMul(dst, x, y Mem, p Per, acc bool) {
	checkSumMul(dst, x, y, p)
	d.launch("SumMul", []Mem{dst, x, y}, done(func() {
		ref.SumMul(floats(dst), floats(x), floats(y), per(p), acc)
	}))
}

func (d *reference) Dot(dst, x, y Mem, acc bool) {
	checkDot(dst, x, y)
	d.launch("Dot", []Mem{dst, x, y}, done(func() {
		ref.Dot(floats(dst), floats(x), floats(y), acc)
	}))
}

func (d *reference) Softmax(prob, z Mem, rows, cols int) {
	checkSoftmax(prob, z, rows, cols)
	d.launch("Softmax", []Mem{prob, z}, done(func() {
		ref.Softmax(floats(prob), floats(z), rows, cols)
	}))
}

func (d *reference) SoftmaxTangent(dst, p, dz Mem, rows, cols int) {
	checkSoftmaxTangent(dst, p, dz, rows, cols)
	d.launch("SoftmaxTangent", []Mem{dst, p, dz}, done(func() {
		ref.SoftmaxTangent(floats(dst), floats(p), floats(dz), rows, cols)
	}))
}

func (d *reference) CrossEntropy(loss, z, labels Mem, rows, cols int) {
	checkCrossEntropy(loss, z, labels, rows, cols)
	d.launch("CrossEntropy", []Mem{loss, z, labels}, func() error {
		return ref.CrossEntropy(floats(loss), floats(z), ints(labels), rows, cols)
	})
}

func (d *reference) CrossEntropyTangent(dst, p, dz, labels Mem, rows, cols int) {
	checkCrossEntropyTangent(dst, p, dz, labels, rows, cols)
	d.launch("CrossEntropyTangent", []Mem{dst, p, dz, labels}, func() error {
		return ref.CrossEntropyTangent(floats(dst), floats(p), floats(dz), ints(labels), rows, cols)
	})
}

func (d *reference) SubOneHot(dst, p, labels Mem, rows, cols int) {
	checkSubOneHot(dst, p, labels, rows, cols)
	d.launch("SubOneHot", []Mem{dst, p, labels}, func() error {
		return ref.SubOneHot(floats(dst), floats(p), ints(labels), rows, cols)
	})
}

func (d *reference) Loss64(loss, z, labels Mem, rows, cols int) {
	checkLoss64(loss, z, labels, rows, cols)
	d.launch("Loss64", []Mem{loss, z, labels}, func() error {
		return ref.Loss64(floats(loss), floats(z), ints(labels), rows, cols)
	})
}

func (d *reference) Argmax(dst, z Mem, rows, cols int) {
	checkArgmax(dst, z, rows, cols)
	d.launch("Argmax", []Mem{dst, z}, done(func() {
		ref.Argmax(ints(dst), floats(z), rows, cols)
	}))
}

func (d *reference) LayerNorm(dst, x, y, gain, shift Mem, rows, cols int, stabilizer float64) {
	checkLayerNorm(dst, x, y, gain, shift, rows, cols, stabilizer)
	d.launch("LayerNorm", []Mem{dst, x, y, gain, shift}, done(func() {
		ref.LayerNorm(floats(dst), floats(x), floats(y), floats(gain), floats(shift), rows, cols, stabilizer)
	}))
}

func (d *reference) Attention(dst, qkv, offsets, bias Mem, a Attention) {
	checkAttention(dst, qkv, offsets, bias, a)
	d.launch("Attention", []Mem{dst, qkv, offsets, bias}, func() error {
		return ref.Attention(floats(dst), floats(qkv), ints(offsets), floats(bias), ref.Heads(a))
	})
}

func (d *reference) TopK(score, slot, q, bank, bias Mem, t TopK) {
	checkTopK(score, slot, q, bank, bias, t)
	d.launch("TopK", []Mem{score, slot, q, bank, bias}, done(func() {
		ref.TopK(floats(score), ints(slot), floats(q), floats(bank), floats(bias), ref.Nearest(t))
	}))
}

func (d *reference) TopKBytes(score, slot, q, bank, qScale, scale, bias Mem, t TopK) {
	checkTopKBytes(score, slot, q, bank, qScale, scale, bias, t)
	d.launch("TopKBytes", []Mem{score, slot, q, bank, qScale, scale, bias}, done(func() {
		ref.TopKBytes(floats(score), ints(slot), ints(q), ints(bank), floats(qScale), floats(scale), floats(bias), ref.Nearest(t))
	}))
}

func (d *reference) Gather(dst, src, index Mem, rows, cols int) {
	checkGather(dst, src, index, rows, cols)
	d.launch("Gather", []Mem{dst, src, index}, func() error {
		return ref.Gather(floats(dst), floats(src), ints(index), rows, cols)
	})
}

func (d *reference) CropFlip(dst, src, move Mem, im Image) {
	checkCropFlip("CropFlip", dst, src, move, im)
	d.launch("CropFlip", []Mem{dst, src, move}, done(func() {
		ref.CropFlip(floats(dst), floats(src), ints(move), ref.Image(im))
	}))
}

func (d *reference) CropFlipAdjoint(dst, src, move Mem, im Image) {
	checkCropFlip("CropFlipAdjoint", dst, src, move, im)
	d.launch("CropFlipAdjoint", []Mem{dst, src, move}, done(func() {
		ref.CropFlipAdjoint(floats(dst), floats(src), ints(move), ref.Image(im))
	}))
}

func (d *reference) SqNormOuter(dst, x, dy Mem, rows, xcols, dycols int, bias, acc bool) {
	checkSqNormOuter(dst, x, dy, rows, xcols, dycols)
	d.launch("SqNormOuter", []Mem{dst, x, dy}, done(func() {
		ref.SqNormOuter(floats(dst), floats(x), floats(dy), rows, xcols, dycols, bias, acc)
	}))
}

func (d *reference) ClipFactor(dst, sq Mem, clip float64) {
	checkClipFactor(dst, sq, clip)
	d.launch("ClipFactor", []Mem{dst, sq}, done(func() {
		ref.ClipFactor(floats(dst), floats(sq), clip)
	}))
}

func (d *reference) SGD(p, m, e, g Mem, s SGD) {
	checkSGD(p, m, e, g)
	d.launch("SGD", []Mem{p, m, e, g}, done(func() {
		ref.SGD(floats(p), floats(m), floats(e), floats(g), ref.Update(s))
	}))
}

func (d *reference) Normal(dst Mem, seed, step uint64) {
	checkNormal(dst)
	d.launch("Normal", []Mem{dst}, done(func() { ref.Normal(floats(dst), seed, step) }))
}
