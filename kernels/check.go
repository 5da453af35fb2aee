package kernels

import (
	"fmt"
	"math"
)

// The checks that every device makes before it queues an operation. A wrong
// size, kind or overlap is the caller's bug: it panics, naming the operation,
// the operand, what it has and what was expected. What only the data can show
// (a row number or label out of range) is a device failure instead.

func refuse(op, format string, args ...any) {
	panic("kernels: " + op + ": " + fmt.Sprintf(format, args...))
}

// want demands that operand m has the kind and the number of elements.
func want(op, name string, m Mem, kind Kind, n int) {
	if m.Buf == nil {
		refuse(op, "%s is missing, expected %d %v elements", name, n, kind)
	}
	if m.Buf.Kind() != kind {
		refuse(op, "%s holds %v, expected %v", name, m.Buf.Kind(), kind)
	}
	if m.N != n {
		refuse(op, "%s has %d elements, expected %d", name, m.N, n)
	}
	if m.Off < 0 || m.N < 0 || m.Off+m.N > m.Buf.Len() {
		refuse(op, "%s is [%d:%d] of a buffer of %d elements", name, m.Off, m.Off+m.N, m.Buf.Len())
	}
}

// apart demands that the output shares no element with x.
func apart(op string, dst Mem, name string, x Mem) {
	if overlap(dst, x) {
		refuse(op, "dst [%d:%d] overlaps %s [%d:%d]", dst.Off, dst.Off+dst.N, name, x.Off, x.Off+x.N)
	}
}

// sameOrApart allows the output to be exactly x.
func sameOrApart(op string, dst Mem, name string, x Mem) {
	if dst != x {
		apart(op, dst, name, x)
	}
}

func overlap(a, b Mem) bool {
	return a.Buf != nil && a.Buf == b.Buf && a.N > 0 && b.N > 0 &&
		a.Off < b.Off+b.N && b.Off < a.Off+a.N
}

func sizes(op string, n ...int) {
	for _, v := range n {
		if v < 0 {
			refuse(op, "negative size in %v", n)
		}
	}
}

func checkGemm(dst, a, b, bias Mem, g Gemm) {
	const op = "Gemm"
	sizes(op, g.M, g.N, g.K)
	want(op, "dst", dst, Elem, g.M*g.N)
	want(op, "a", a, Elem, g.M*g.K)
	want(op, "b", b, Elem, g.K*g.N)
	apart(op, dst, "a", a)
	apart(op, dst, "b", b)
	if !bias.None() {
		want(op, "bias", bias, Elem, g.N)
		apart(op, dst, "bias", bias)
	}
}

func checkFill(dst Mem) { want("Fill", "dst", dst, Elem, dst.N) }

func checkCopy(dst, x Mem) {
	const op = "Copy"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	apart(op, dst, "x", x)
}

func checkAdd(dst, x, y Mem) {
	const op = "Add"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	sameOrApart(op, dst, "x", x)
	if !y.None() {
		want(op, "y", y, Elem, dst.N)
		sameOrApart(op, dst, "y", y)
	}
}

func checkMul(dst, x, y Mem) {
	const op = "Mul"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	want(op, "y", y, Elem, dst.N)
	apart(op, dst, "x", x)
	apart(op, dst, "y", y)
}

func checkKeep(dst, x, mask Mem) {
	const op = "Keep"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	want(op, "mask", mask, Elem, dst.N)
	sameOrApart(op, dst, "x", x)
	if dst != x { // Keep(z, z, z) is ReLU in place
		apart(op, dst, "mask", mask)
	} else {
		sameOrApart(op, dst, "mask", mask)
	}
}

func checkTanh(dst, x Mem) {
	const op = "Tanh"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	apart(op, dst, "x", x)
}

func checkGELU(dst, x Mem) {
	const op = "GELU"
	want(op, "dst", dst, Elem, dst.N)
	want(op, "x", x, Elem, dst.N)
	sameOrApart(op, dst, "x", x)
}

func checkPer(op string, p Per) {
	sizes(op, p.Batch, p.Rows, p.Cols)
	if p.Axis != PerRow && p.Axis != PerCol {
		refuse(op, "unknown axis %d", p.Axis)
	}
}

func checkScaleBy(dst, x, s Mem, p Per, acc bool) {
	const op = "ScaleBy"
	checkPer(op, p)
	want(op, "dst", dst, Elem, p.Len())
	want(op, "x", x, Elem, p.Len())
	want(op, "s", s, Elem, p.Small())
	if acc {
		apart(op, dst, "x", x)
	} else {
		sameOrApart(op, dst, "x", x)
	}
	apart(op, dst, "s", s)
}

func checkShift(dst, x, s Mem, p Per) {
	const op = "Shift"
	checkPer(op, p)
	want(op, "dst", dst, Elem, p.Len())
	want(op, "x", x, Elem, p.Len())
	want(op, "s", s, Elem, p.Small())
	sameOrApart(op, dst, "x", x)
	apart(op, dst, "s", s)
}

func checkSpread(dst, s Mem, p Per) {
	const op = "Spread"
	checkPer(op, p)
	want(op, "dst", dst, Elem, p.Len())
	want(op, "s", s, Elem, p.Small())
	apart(op, dst, "s", s)
}

func checkSum(dst, x Mem, p Per) {
	const op = "Sum"
	checkPer(op, p)
	want(op, "dst", dst, Elem, p.Small())
	want(op, "x", x, Elem, p.Len())
	apart(op, dst, "x", x)
}

func checkSumMul(dst, x, y Mem, p Per) {
	const op = "SumMul"
	checkPer(op, p)
	want(op, "dst", dst, Elem, p.Small())
	want(op, "x", x, Elem, p.Len())
	want(op, "y", y, Elem, p.Len())
	apart(op, dst, "x", x)
	apart(op, dst, "y", y)
}

func checkDot(dst, x, y Mem) {
	const op = "Dot"
	want(op, "dst", dst, Elem, 1)
	want(op, "x", x, Elem, x.N)
	want(op, "y", y, Elem, x.N)
	apart(op, dst, "x", x)
	apart(op, dst, "y", y)
}

func checkSoftmax(prob, z Mem, rows, cols int) {
	const op = "Softmax"
	sizes(op, rows, cols)
	want(op, "prob", prob, Elem, rows*cols)
	want(op, "z", z, Elem, rows*cols)
	apart(op, prob, "z", z)
}

func checkSoftmaxTangent(dst, p, dz Mem, rows, cols int) {
	const op = "SoftmaxTangent"
	sizes(op, rows, cols)
	want(op, "dst", dst, Elem, rows*cols)
	want(op, "p", p, Elem, rows*cols)
	want(op, "dz", dz, Elem, rows*cols)
	apart(op, dst, "p", p)
	apart(op, dst, "dz", dz)
}

func checkCrossEntropy(loss, z, labels Mem, rows, cols int) {
	const op = "CrossEntropy"
	sizes(op, rows, cols)
	want(op, "loss", loss, Elem, rows)
	want(op, "z", z, Elem, rows*cols)
	want(op, "labels", labels, Int32, rows)
	apart(op, loss, "z", z)
}

func checkCrossEntropyTangent(dst, p, dz, labels Mem, rows, cols int) {
	const op = "CrossEntropyTangent"
	sizes(op, rows, cols)
	want(op, "dst", dst, Elem, rows)
	want(op, "p", p, Elem, rows*cols)
	want(op, "dz", dz, Elem, rows*cols)
	want(op, "labels", labels, Int32, rows)
	apart(op, dst, "p", p)
	apart(op, dst, "dz", dz)
}

func checkSubOneHot(dst, p, labels Mem, rows, cols int) {
	const op = "SubOneHot"
	sizes(op, rows, cols)
	want(op, "dst", dst, Elem, rows*cols)
	want(op, "p", p, Elem, rows*cols)
	want(op, "labels", labels, Int32, rows)
	sameOrApart(op, dst, "p", p)
}

func checkLoss64(loss, z, labels Mem, rows, cols int) {
	const op = "Loss64"
	sizes(op, rows, cols)
	want(op, "loss", loss, Float64, rows)
	want(op, "z", z, Elem, rows*cols)
	want(op, "labels", labels, Int32, rows)
}

func checkArgmax(dst, z Mem, rows, cols int) {
	const op = "Argmax"
	sizes(op, rows, cols)
	if rows > 0 && cols == 0 {
		refuse(op, "%d rows of no columns have no largest element", rows)
	}
	want(op, "dst", dst, Int32, rows)
	want(op, "z", z, Elem, rows*cols)
}

func checkLayerNorm(dst, x, y, gain, shift Mem, rows, cols int, stabilizer float64) {
	const op = "LayerNorm"
	sizes(op, rows, cols)
	if !(stabilizer > 0) {
		refuse(op, "stabilizer is %v, expected a positive number", stabilizer)
	}
	want(op, "dst", dst, Elem, rows*cols)
	want(op, "x", x, Elem, rows*cols)
	want(op, "gain", gain, Elem, cols)
	want(op, "shift", shift, Elem, cols)
	sameOrApart(op, dst, "x", x)
	if !y.None() {
		want(op, "y", y, Elem, rows*cols)
		sameOrApart(op, dst, "y", y)
	}
	apart(op, dst, "gain", gain)
	apart(op, dst, "shift", shift)
}

func checkAttention(dst, qkv, offsets, bias Mem, a Attention) {
	const op = "Attention"
	sizes(op, a.Tokens, a.Sequences, a.Heads, a.Dim)
	if a.Longest < 1 {
		refuse(op, "sequences of at most %d tokens, expected at least 1", a.Longest)
	}
	want(op, "dst", dst, Elem, a.Tokens*a.Heads*a.Dim)
	want(op, "qkv", qkv, Elem, 3*a.Tokens*a.Heads*a.Dim)
	want(op, "offsets", offsets, Int32, a.Sequences+1)
	apart(op, dst, "qkv", qkv)
	if !bias.None() {
		want(op, "bias", bias, Elem, a.Heads*(2*a.Longest-1))
		apart(op, dst, "bias", bias)
	}
}

func checkTopK(score, slot, q, bank, bias Mem, t TopK) {
	const op = "TopK"
	checkSearch(op, score, slot, bias, t)
	want(op, "q", q, Elem, t.Queries*t.Dim)
	want(op, "bank", bank, Elem, t.Bank*t.Dim)
	apart(op, score, "q", q)
	apart(op, score, "bank", bank)
}

func checkTopKBytes(score, slot, q, bank, qScale, scale, bias Mem, t TopK) {
	const op = "TopKBytes"
	checkSearch(op, score, slot, bias, t)
	if t.Dim%4 != 0 {
		refuse(op, "%d dimensions, expected a multiple of 4", t.Dim)
	}
	want(op, "q", q, Int32, t.Queries*t.Dim/4)
	want(op, "bank", bank, Int32, t.Bank*t.Dim/4)
	want(op, "qScale", qScale, Elem, t.Queries)
	want(op, "scale", scale, Elem, t.Bank)
	apart(op, slot, "q", q)
	apart(op, slot, "bank", bank)
	apart(op, score, "qScale", qScale)
	apart(op, score, "scale", scale)
}

func checkSearch(op string, score, slot, bias Mem, t TopK) {
	sizes(op, t.Queries, t.Bank, t.Dim)
	if t.K < 1 || t.K > MaxTopK {
		refuse(op, "k is %d, expected 1 to %d", t.K, MaxTopK)
	}
	if t.Dim > MaxTopKDim {
		refuse(op, "%d dimensions, expected at most %d", t.Dim, MaxTopKDim)
	}
	if t.First < 0 || t.First > math.MaxInt32-t.Bank {
		refuse(op, "slots from %d on for a bank of %d, expected Int32", t.First, t.Bank)
	}
	want(op, "score", score, Elem, t.Queries*t.K)
	want(op, "slot", slot, Int32, t.Queries*t.K)
	if !bias.None() {
		want(op, "bias", bias, Elem, t.Bank)
		apart(op, score, "bias", bias)
	}
}

func checkGather(dst, src, index Mem, rows, cols int) {
	const op = "Gather"
	sizes(op, rows, cols)
	want(op, "dst", dst, Elem, rows*cols)
	want(op, "src", src, Elem, src.N)
	want(op, "index", index, Int32, rows)
	if cols > 0 && src.N%cols != 0 {
		refuse(op, "src has %d elements, expected a multiple of the %d columns", src.N, cols)
	}
	apart(op, dst, "src", src)
}

func checkCropFlip(op string, dst, src, move Mem, im Image) {
	sizes(op, im.B, im.H, im.W, im.C)
	want(op, "dst", dst, Elem, im.Len())
	want(op, "src", src, Elem, im.Len())
	want(op, "move", move, Int32, 3*im.B)
	apart(op, dst, "src", src)
}

func checkSqNormOuter(dst, x, dy Mem, rows, xcols, dycols int) {
	const op = "SqNormOuter"
	sizes(op, rows, xcols, dycols)
	want(op, "dst", dst, Elem, rows)
	want(op, "x", x, Elem, rows*xcols)
	want(op, "dy", dy, Elem, rows*dycols)
	apart(op, dst, "x", x)
	apart(op, dst, "dy", dy)
}

func checkClipFactor(dst, sq Mem, clip float64) {
	const op = "ClipFactor"
	if !(clip >= 0) {
		refuse(op, "clip is %v, expected a norm", clip)
	}
	want(op, "dst", dst, Elem, dst.N)
	want(op, "sq", sq, Elem, dst.N)
	apart(op, dst, "sq", sq)
}

func checkSGD(p, m, e, g Mem) {
	const op = "SGD"
	want(op, "p", p, Elem, p.N)
	want(op, "g", g, Elem, p.N)
	apart(op, p, "g", g)
	if !m.None() {
		want(op, "m", m, Elem, p.N)
		apart(op, m, "p", p)
		apart(op, m, "g", g)
	}
	if !e.None() {
		want(op, "e", e, Elem, p.N)
		apart(op, e, "p", p)
		apart(op, e, "g", g)
		apart(op, e, "m", m)
	}
}

func checkNormal(dst Mem) { want("Normal", "dst", dst, Elem, dst.N) }

// checkUpload and checkDownload hold a transfer of n host numbers, integers or
// not, to the size and kind of the memory on the device.
func checkUpload(dst Mem, n int, ints bool) { checkTransfer("Upload", "dst", dst, n, ints) }

func checkDownload(n int, src Mem, ints bool) { checkTransfer("Download", "src", src, n, ints) }

func checkTransfer(op, name string, m Mem, n int, ints bool) {
	if m.Buf == nil {
		refuse(op, "%s is missing, expected %d elements", name, n)
	}
	kind := m.Buf.Kind()
	if (kind == Int32) != ints {
		refuse(op, "%s holds %v, and integers only go to and from int32", name, kind)
	}
	want(op, name, m, kind, n)
}
