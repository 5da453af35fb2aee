package kerneltest

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
)

// TB is the part of testing.TB that the suite uses, so that a test of the suite
// can count its failures.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// A Case tests one operation.
type Case func(f *fixture)

// Cases has one entry per method of kernels.Ops.
var Cases = map[string]Case{
	"Gemm":                gemmCase,
	"Fill":                fillCase,
	"Copy":                copyCase,
	"Add":                 addCase,
	"Mul":                 mulCase,
	"Keep":                keepCase,
	"Tanh":                tanhCase,
	"ScaleBy":             scaleByCase,
	"Shift":               shiftCase,
	"Spread":              spreadCase,
	"Sum":                 sumCase,
	"SumMul":              sumMulCase,
	"Dot":                 dotCase,
	"Softmax":             softmaxCase,
	"SoftmaxTangent":      softmaxTangentCase,
	"CrossEntropy":        crossEntropyCase,
	"CrossEntropyTangent": crossEntropyTangentCase,
	"SubOneHot":           subOneHotCase,
	"Loss64":              loss64Case,
	"GELU":                geluCase,
	"LayerNorm":           layerNormCase,
	"Attention":           attentionCase,
	"Argmax":              argmaxCase,
	"TopK":                topKCase,
	"TopKBytes":           topKBytesCase,
	"Gather":              gatherCase,
	"CropFlip":            cropFlipCase,
	"CropFlipAdjoint":     cropFlipAdjointCase,
	"SqNormOuter":         sqNormOuterCase,
	"ClipFactor":          clipFactorCase,
	"SGD":                 sgdCase,
	"Normal":              normalCase,
}

// Names are the operations, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Cases)) }

// Run holds a device to the reference: every operation, and its memory. It
// returns the bits of all that was computed, to compare with another device. A
// device must also pass Failures, which needs fresh ones.
func Run(t *testing.T, dev kernels.Device) *Bits {
	bits := &Bits{name: dev.Name()}
	for _, op := range Names() {
		t.Run(op, func(t *testing.T) { Check(t, dev, op, bits) })
	}
	t.Run("memory", func(t *testing.T) { Memory(t, dev) })
	t.Run("goroutines", func(t *testing.T) { Goroutines(t, dev) })
	return bits
}

// Check runs the case of one operation, and adds to bits unless that is nil.
func Check(t TB, dev kernels.Device, op string, bits *Bits) {
	t.Helper()
	seed := fnv.New64()
	seed.Write([]byte(op))
	f := &fixture{t: t, dev: dev, op: op, bits: bits, rng: rand.New(rand.NewPCG(seed.Sum64(), 1))}
	f.unit = 0x1p-24
	if dev.ElemBits() == 64 {
		f.unit = 0x1p-53
	}
	defer func() {
		if r := recover(); r != nil && r != giveUp {
			panic(r)
		}
	}()
	Cases[op](f)
	if f.compared == 0 {
		t.Errorf("%s: the case compared nothing", op)
	}
}
