package kerneltest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/kerneltest"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// A mutant is a right device with one fault.
type mutant struct {
	name  string
	op    string // whose case must fail
	plant func(dev kernels.Device) kernels.Device
}

// TestMutants plants faults that the suite must catch, on a float32 device,
// where tolerances are wide. TestCPU shows that it finds none without them.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is for the race detector, which learns nothing from mutants")
	}
	dev := openCPU(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			var r recorder
			kerneltest.Check(&r, m.plant(dev), m.op, nil)
			if len(r.failures) == 0 {
				t.Fatal("not caught")
			}
			if !strings.Contains(r.failures[0], m.op) {
				t.Errorf("the failure does not name %s: %s", m.op, r.failures[0])
			}
		})
	}
}

func openCPU(t *testing.T) kernels.Device {
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// recorder keeps the failures of the suite.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// peek and poke reach behind the device's back.
func peek(dev kernels.Device, m kernels.Mem) []float64 {
	x := make([]float64, m.N)
	if err := dev.DownloadF64(x, m); err != nil {
		panic(err)
	}
	return x
}

func poke(dev kernels.Device, m kernels.Mem, i int, x float64) {
	dev.UploadF64(kernels.Mem{Buf: m.Buf, Off: m.Off + i, N: 1}, []float64{x})
}

var mutants = []mutant{
	{"gemm drops the last term", "Gemm", func(d kernels.Device) kernels.Device { return dropsLastTerm{d} }},
	{"gemm takes a square a for its transpose", "Gemm", func(d kernels.Device) kernels.Device { return wrongTranspose{d} }},
	{"gemm takes b for its transpose", "Gemm", func(d kernels.Device) kernels.Device { return wrongTransposeB{d} }},
	{"gemm ignores acc", "Gemm", func(d kernels.Device) kernels.Device { return gemmIgnoresAcc{d} }},
	{"gemm forgets ReLU", "Gemm", func(d kernels.Device) kernels.Device { return gemmForgetsReLU{d} }},
	{"gemm forgets the bias", "Gemm", func(d kernels.Device) kernels.Device { return gemmForgetsBias{d} }},
	{"gemm's ReLU hides NaN", "Gemm", func(d kernels.Device) kernels.Device { return gemmHidesNaN{d} }},
	{"gemm adds parts in another order", "Gemm", func(d kernels.Device) kernels.Device { return gemmAddsLast{d} }},
	{"gemm rounds to half precision", "Gemm", func(d kernels.Device) kernels.Device { return gemmRounds{d} }},
	{"fill writes one past its end", "Fill", func(d kernels.Device) kernels.Device { return writesPast{d} }},
	{"copy writes one before its start", "Copy", func(d kernels.Device) kernels.Device { return writesBefore{d} }},
	{"add changes an operand", "Add", func(d kernels.Device) kernels.Device { return changesOperand{d} }},
	{"mul ignores acc", "Mul", func(d kernels.Device) kernels.Device { return mulIgnoresAcc{d} }},
	{"keep hides NaN", "Keep", func(d kernels.Device) kernels.Device { return keepHidesNaN{d} }},
	{"tanh leaves the tail of a vector", "Tanh", func(d kernels.Device) kernels.Device { return tanhLeavesTail{d} }},
	{"tanh is off by 2⁻²⁰", "Tanh", func(d kernels.Device) kernels.Device { return tanhOff{d} }},
	{"gelu by tanh", "GELU", func(d kernels.Device) kernels.Device { return geluTanh{d} }},
	{"layer norm divides by n-1", "LayerNorm", func(d kernels.Device) kernels.Device { return normUnbiased{d} }},
	{"layer norm forgets the residual", "LayerNorm", func(d kernels.Device) kernels.Device { return normForgets{d} }},
	{"layer norm by the mean of squares", "LayerNorm", func(d kernels.Device) kernels.Device { return normCancels{d} }},
	{"attention across sequences", "Attention", func(d kernels.Device) kernels.Device { return attendsAll{d} }},
	{"attention turns the bias round", "Attention", func(d kernels.Device) kernels.Device { return turnsBias{d} }},
	{"attention forgets the scale", "Attention", func(d kernels.Device) kernels.Device { return forgetsScale{d} }},
	{"attention without the maximum", "Attention", func(d kernels.Device) kernels.Device { return attentionOverflows{d} }},
	{"spread takes rows for columns", "Spread", func(d kernels.Device) kernels.Device { return spreadSwaps{d} }},
	{"sum misses the last batch", "Sum", func(d kernels.Device) kernels.Device { return sumMisses{d} }},
	{"softmax puts out one NaN", "Softmax", func(d kernels.Device) kernels.Device { return softmaxNaN{d} }},
	{"softmax without the maximum", "Softmax", func(d kernels.Device) kernels.Device { return softmaxOverflows{d} }},
	{"loss64 ties", "Loss64", func(d kernels.Device) kernels.Device { return lossTies{d} }},
	{"argmax takes the last of ties", "Argmax", func(d kernels.Device) kernels.Device { return argmaxLast{d} }},
	{"top k takes the last of ties", "TopK", func(d kernels.Device) kernels.Device { return topKLast{d} }},
	{"top k forgets what was there", "TopK", func(d kernels.Device) kernels.Device { return topKForgets{d} }},
	{"top k numbers the bank from 0", "TopK", func(d kernels.Device) kernels.Device { return topKFirst{d} }},
	{"top k forgets the bias", "TopK", func(d kernels.Device) kernels.Device { return topKNoBias{d} }},
	{"top k misses the last candidate", "TopK", func(d kernels.Device) kernels.Device { return topKMisses{d} }},
	{"bytes without their sign", "TopKBytes", func(d kernels.Device) kernels.Device { return topKBytesUnsigned{d} }},
	{"scales of queries for those of candidates", "TopKBytes", func(d kernels.Device) kernels.Device { return topKBytesSwaps{d} }},
	{"gather is off by one", "Gather", func(d kernels.Device) kernels.Device { return gatherOff{d} }},
	{"crop flips before it shifts", "CropFlip", func(d kernels.Device) kernels.Device { return cropOrder{d} }},
	{"the adjoint is the forward", "CropFlipAdjoint", func(d kernels.Device) kernels.Device { return adjointIsForward{d} }},
	{"clip lets NaN through", "ClipFactor", func(d kernels.Device) kernels.Device { return clipHidesNaN{d} }},
	{"noise of another step", "SGD", func(d kernels.Device) kernels.Device { return noiseOfNextStep{d} }},
	{"the upper half of the step is lost", "Normal", func(d kernels.Device) kernels.Device { return shortStep{d} }},
	{"no operation does anything", "Dot", func(d kernels.Device) kernels.Device { return idle{d} }},
}

type dropsLastTerm struct{ kernels.Device }

func (d dropsLastTerm) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	x, y, out := peek(d.Device, a), peek(d.Device, b), peek(d.Device, dst)
	for j := range g.N * min(g.K, 1) {
		last := (g.K-1)*g.N + j
		if g.TransB {
			last = j*g.K + g.K - 1
		}
		y[last] = 0
	}
	var add []float64
	if !bias.None() {
		add = peek(d.Device, bias)
	}
	ref.Gemm(out, x, y, add, ref.Product(g))
	d.UploadF64(dst, out)
}

type wrongTranspose struct{ kernels.Device }

func (d wrongTranspose) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	if g.M == g.K {
		g.TransA = false
	}
	d.Device.Gemm(dst, a, b, bias, g)
}

type wrongTransposeB struct{ kernels.Device }

func (d wrongTransposeB) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	if g.K > 400 { // only in the branch for deep products
		g.TransB = false
	}
	d.Device.Gemm(dst, a, b, bias, g)
}

type gemmIgnoresAcc struct{ kernels.Device }

func (d gemmIgnoresAcc) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	if g.Acc && g.N > 512 { // only in the second block of columns
		g.Acc = false
	}
	d.Device.Gemm(dst, a, b, bias, g)
}

type gemmForgetsReLU struct{ kernels.Device }

func (d gemmForgetsReLU) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	g.ReLU = g.ReLU && g.TransA
	d.Device.Gemm(dst, a, b, bias, g)
}

type gemmForgetsBias struct{ kernels.Device }

func (d gemmForgetsBias) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	if g.Acc {
		bias = kernels.Mem{}
	}
	d.Device.Gemm(dst, a, b, bias, g)
}

type gemmHidesNaN struct{ kernels.Device }

func (d gemmHidesNaN) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	d.Device.Gemm(dst, a, b, bias, g)
	if g.ReLU {
		for i, x := range peek(d.Device, dst) {
			if math.IsNaN(x) {
				poke(d.Device, dst, i, 0)
			}
		}
	}
}

type gemmAddsLast struct{ kernels.Device }

func (d gemmAddsLast) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	if !g.Acc || g.ReLU || !bias.None() {
		d.Device.Gemm(dst, a, b, bias, g)
		return
	}
	before := peek(d.Device, dst)
	g.Acc = false
	d.Device.Gemm(dst, a, b, bias, g)
	after := peek(d.Device, dst)
	ref.Add(after, after, before, 1, 1)
	d.UploadF64(dst, after)
}

type gemmRounds struct{ kernels.Device }

func (d gemmRounds) Gemm(dst, a, b, bias kernels.Mem, g kernels.Gemm) {
	d.Device.Gemm(dst, a, b, bias, g)
	out := peek(d.Device, dst)
	for i := range out {
		fraction, exp := math.Frexp(out[i])
		out[i] = math.Ldexp(math.RoundToEven(fraction*(1<<18)), exp-18) // integers of the exact cases survive
	}
	d.UploadF64(dst, out)
}

type writesPast struct{ kernels.Device }

func (d writesPast) Fill(dst kernels.Mem, value float64) {
	d.Device.Fill(dst, value)
	poke(d.Device, dst, dst.N, value)
}

type writesBefore struct{ kernels.Device }

func (d writesBefore) Copy(dst, x kernels.Mem) {
	d.Device.Copy(dst, x)
	poke(d.Device, dst, -1, 0)
}

type changesOperand struct{ kernels.Device }

func (d changesOperand) Add(dst, x, y kernels.Mem, alpha, beta float64) {
	d.Device.Add(dst, x, y, alpha, beta)
	if x.N == 1025 && x != dst {
		poke(d.Device, x, 0, (1+0x1p-23)*peek(d.Device, x)[0]) // one or two ulp
	}
}

type mulIgnoresAcc struct{ kernels.Device }

func (d mulIgnoresAcc) Mul(dst, x, y kernels.Mem, _ bool) { d.Device.Mul(dst, x, y, false) }

type keepHidesNaN struct{ kernels.Device }

func (d keepHidesNaN) Keep(dst, x, mask kernels.Mem) {
	m := peek(d.Device, mask)
	d.Device.Keep(dst, x, mask)
	for i := range m {
		if math.IsNaN(m[i]) {
			poke(d.Device, dst, i, 0)
		}
	}
}

type tanhLeavesTail struct{ kernels.Device }

func (d tanhLeavesTail) Tanh(dst, x kernels.Mem) {
	whole := x.N &^ 15
	d.Device.Tanh(dst.Slice(0, whole), x.Slice(0, whole))
}

type tanhOff struct{ kernels.Device }

func (d tanhOff) Tanh(dst, x kernels.Mem) {
	d.Device.Tanh(dst, x)
	out := peek(d.Device, dst)
	for i := range out {
		out[i] *= 1 + 0x1p-20
	}
	d.UploadF64(dst, out)
}

type spreadSwaps struct{ kernels.Device }

func (d spreadSwaps) Spread(dst, s kernels.Mem, p kernels.Per) {
	if p.Rows == p.Cols {
		p.Axis = kernels.PerRow
	}
	d.Device.Spread(dst, s, p)
}

type sumMisses struct{ kernels.Device }

func (d sumMisses) Sum(dst, x kernels.Mem, p kernels.Per, acc bool) {
	d.Device.Sum(dst, x, p, acc)
	if p.Batch > 1 && dst.N > 0 {
		poke(d.Device, dst, dst.N-1, 0)
	}
}

type softmaxNaN struct{ kernels.Device }

func (d softmaxNaN) Softmax(prob, z kernels.Mem, rows, cols int) {
	d.Device.Softmax(prob, z, rows, cols)
	if prob.N > 0 {
		poke(d.Device, prob, prob.N-1, math.NaN())
	}
}

type softmaxOverflows struct{ kernels.Device }

func (d softmaxOverflows) Softmax(prob, z kernels.Mem, rows, cols int) {
	x := peek(d.Device, z)
	for r := range rows {
		sum := 0.0
		for c := range cols {
			x[r*cols+c] = float64(float32(math.Exp(x[r*cols+c])))
			sum += x[r*cols+c]
		}
		for c := range cols {
			x[r*cols+c] /= sum
		}
	}
	d.UploadF64(prob, x)
}

type lossTies struct{ kernels.Device }

func (d lossTies) Loss64(loss, z, labels kernels.Mem, rows, cols int) {
	d.Device.Loss64(loss, z, labels, rows, cols)
	out := peek(d.Device, loss)
	for r := range out {
		out[r] = math.Log(1 + math.Expm1(out[r])) // log Σ exp(z - z[y]), which is 0 below 2⁻⁵³
	}
	d.UploadF64(loss, out)
}

type argmaxLast struct{ kernels.Device }

func (d argmaxLast) Argmax(dst, z kernels.Mem, rows, cols int) {
	x, best := peek(d.Device, z), make([]int32, rows)
	for r := range rows {
		for c := range cols {
			if x[r*cols+c] >= x[r*cols+int(best[r])] {
				best[r] = int32(c)
			}
		}
	}
	d.UploadInts(dst, best)
}

type gatherOff struct{ kernels.Device }

func (d gatherOff) Gather(dst, src, index kernels.Mem, rows, cols int) {
	next := changedInts(d.Device, index, func(at []int32) {
		for i := range at {
			at[i] = (at[i] + 1) % int32(src.N/cols)
		}
	})
	d.Device.Gather(dst, src, next, rows, cols)
}

// changedInts is a changed copy of integers.
func changedInts(dev kernels.Device, m kernels.Mem, change func([]int32)) kernels.Mem {
	x := make([]int32, m.N)
	if err := dev.DownloadInts(x, m); err != nil {
		panic(err)
	}
	change(x)
	changed, err := dev.Alloc(kernels.Int32, m.N)
	if err != nil {
		panic(err)
	}
	dev.UploadInts(changed, x)
	return changed
}

type cropOrder struct{ kernels.Device }

// As if the flip came last: the shift of flipped images turns over.
func (d cropOrder) CropFlip(dst, src, move kernels.Mem, im kernels.Image) {
	turned := changedInts(d.Device, move, func(steps []int32) {
		for b := range im.B {
			if steps[3*b+2] != 0 {
				steps[3*b+1] *= -1
			}
		}
	})
	d.Device.CropFlip(dst, src, turned, im)
}

type adjointIsForward struct{ kernels.Device }

func (d adjointIsForward) CropFlipAdjoint(dst, src, move kernels.Mem, im kernels.Image) {
	d.Device.CropFlip(dst, src, move, im)
}

type clipHidesNaN struct{ kernels.Device }

func (d clipHidesNaN) ClipFactor(dst, sq kernels.Mem, clip float64) {
	d.Device.ClipFactor(dst, sq, clip)
	out := peek(d.Device, dst)
	for i := range out {
		if math.IsNaN(out[i]) {
			out[i] = 1
		}
	}
	d.UploadF64(dst, out)
}

type noiseOfNextStep struct{ kernels.Device }

func (d noiseOfNextStep) SGD(p, m, e, g kernels.Mem, s kernels.SGD) {
	s.Step++
	d.Device.SGD(p, m, e, g, s)
}

type shortStep struct{ kernels.Device }

func (d shortStep) Normal(dst kernels.Mem, seed, step uint64) {
	d.Device.Normal(dst, seed, step&math.MaxUint32)
}

type idle struct{ kernels.Device }

func (d idle) Dot(dst, x, y kernels.Mem, acc bool) {}

// TestBitsDiffer: the last bit of one sum shows.
func TestBitsDiffer(t *testing.T) {
	dev := openCPU(t)
	bits := func(dev kernels.Device, op string) *kerneltest.Bits {
		var b kerneltest.Bits
		kerneltest.Check(&recorder{}, dev, op, &b)
		return &b
	}
	for _, c := range []struct {
		one, other *kerneltest.Bits
		same       bool
	}{
		{bits(dev, "Dot"), bits(dev, "Dot"), true},
		{bits(dev, "Dot"), bits(lastBit{dev}, "Dot"), false},
		{bits(dev, "Dot"), bits(dev, "Tanh"), false},
		{&kerneltest.Bits{}, &kerneltest.Bits{}, false}, // nothing compared
	} {
		var r recorder
		c.one.Same(&r, c.other)
		if same := len(r.failures) == 0; same != c.same {
			t.Errorf("same bits: %v, want %v; %v", same, c.same, r.failures)
		}
	}
}

// lastBit is within tolerance, but not the same.
type lastBit struct{ kernels.Device }

func (d lastBit) Dot(dst, x, y kernels.Mem, acc bool) {
	d.Device.Dot(dst, x, y, acc)
	poke(d.Device, dst, 0, (1+0x1p-23)*peek(d.Device, dst)[0])
}

// The faults of memory and of failures.

type keepsHostMemory struct {
	kernels.Device
	later map[kernels.Mem][]float32
}

func (d keepsHostMemory) UploadF32(dst kernels.Mem, src []float32) { d.later[dst] = src }

func (d keepsHostMemory) DownloadF32(dst []float32, src kernels.Mem) error {
	if late, ok := d.later[src]; ok {
		d.Device.UploadF32(src, late)
	}
	return d.Device.DownloadF32(dst, src)
}

type miscounts struct{ kernels.Device }

func (d miscounts) Stats() kernels.Stats {
	s := d.Device.Stats()
	s.Allocs /= 2
	return s
}

type takesAnySize struct{ kernels.Device }

func (d takesAnySize) Copy(dst, x kernels.Mem) {
	n := min(dst.N, x.N)
	d.Device.Copy(dst.Slice(0, n), x.Slice(0, n))
}

func TestMemoryMutants(t *testing.T) {
	for name, plant := range map[string]func(kernels.Device) kernels.Device{
		"reads host memory late": func(d kernels.Device) kernels.Device {
			return keepsHostMemory{d, map[kernels.Mem][]float32{}}
		},
		"miscounts":      func(d kernels.Device) kernels.Device { return miscounts{d} },
		"takes any size": func(d kernels.Device) kernels.Device { return takesAnySize{d} },
	} {
		dev := kernels.Reference()
		var r recorder
		kerneltest.Memory(&r, plant(dev))
		if len(r.failures) == 0 {
			t.Errorf("%s: not caught", name)
		}
		dev.Close()
	}
}

// forgives reports no failure, as a device that does not look at its indices.
type forgives struct{ kernels.Device }

func (d forgives) Gather(dst, src, index kernels.Mem, rows, cols int) {}

func TestFailuresMutant(t *testing.T) {
	var r recorder
	kerneltest.Failures(&r, func() (kernels.Device, error) { return forgives{kernels.Reference()}, nil })
	if len(r.failures) == 0 {
		t.Error("an ignored index is not caught")
	}
	for _, f := range r.failures {
		if !strings.Contains(f, "Gather") {
			t.Errorf("a failure of something else: %s", f)
		}
	}
}
