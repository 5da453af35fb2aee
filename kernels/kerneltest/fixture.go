package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/kernels"
)

// A fixture runs the calls of a case.
type fixture struct {
	t    TB
	dev  kernels.Device
	op   string
	rng  *rand.Rand
	unit float64 // unit roundoff of the device's elements
	bits *Bits

	guards   int // how many buffers had a guard so far
	compared int // elements of outputs
	failures int
}

// giveUp is the panic that ends a case: after many failures, or when the device
// has no memory.
var giveUp = new(int)

const manyFailures = 5

func (f *fixture) fail(format string, args ...any) {
	f.t.Helper()
	f.t.Errorf("%s: %s: %s", f.dev.Name(), f.op, fmt.Sprintf(format, args...))
	if f.failures++; f.failures == manyFailures {
		panic(giveUp)
	}
}

// A call is one call of an operation with its operands.
type call struct {
	f      *fixture
	label  string
	arrays []*array
}

// An array is an operand: a view of a larger buffer.
type array struct {
	kernels.Mem
	name   string
	whole  kernels.Mem
	before []float64 // what the view holds
	guard  float64

	// want is what it must hold after the call, within tol. A nil tol demands
	// the very number. Operands to read want what they held.
	want   []float64
	tol    func(i int) float64
	output bool
}

func (f *fixture) call(format string, args ...any) *call {
	return &call{f: f, label: fmt.Sprintf(format, args...)}
}

// in is an operand that the call may only read.
func (c *call) in(name string, values []float64) *array {
	return c.array(name, kernels.Elem, values)
}

// ints is in for integers.
func (c *call) ints(name string, values []int32) *array {
	wide := make([]float64, len(values))
	for i, x := range values {
		wide[i] = float64(x)
	}
	return c.array(name, kernels.Int32, wide)
}

// inout is an operand that the call changes. Its want starts as the values, for
// the reference to work on.
func (c *call) inout(name string, values []float64) *array {
	a := c.array(name, kernels.Elem, values)
	a.output = true
	return a
}

// dst is a destination: of values to add to with acc, else of n NaNs, which
// show if they are read.
func (c *call) dst(n int, acc bool, values func(n int) []float64) *array {
	if acc {
		return c.inout("dst", values(n))
	}
	return c.inout("dst", fill(n, math.NaN()))
}

// dstOf is a destination to overwrite that is not of elements.
func (c *call) dstOf(kind kernels.Kind, n int) *array {
	junk := math.NaN()
	if kind == kernels.Int32 {
		junk = -99
	}
	a := c.array("dst", kind, fill(n, junk))
	a.output = true
	return a
}

const rightGuard = 37 // elements; more than two vectors of 16

// array places values in a buffer of their own. Elements are first rounded to
// float32, in place, so that the device and the reference see the same numbers.
func (c *call) array(name string, kind kernels.Kind, values []float64) *array {
	f := c.f
	if kind == kernels.Elem {
		round(values)
	}
	f.guards++
	left := 1 + 2*(f.guards%8) // odd, so that no view is aligned
	n := len(values)
	whole, err := f.dev.Alloc(kind, left+n+rightGuard)
	if err != nil {
		f.fail("%s: %v", c.label, err)
		panic(giveUp)
	}
	a := &array{
		Mem: whole.Slice(left, n), name: name, whole: whole,
		before: values, want: append([]float64(nil), values...),
		guard: -float64(7000 + f.guards%1000),
	}
	upload(f.dev, whole, a.fenced(values))
	c.arrays = append(c.arrays, a)
	return a
}

// fenced is values between the guards.
func (a *array) fenced(values []float64) []float64 {
	all := fill(a.whole.N, a.guard)
	copy(all[a.Off:], values)
	return all
}

func upload(dev kernels.Device, m kernels.Mem, values []float64) {
	if m.Buf.Kind() != kernels.Int32 {
		dev.UploadF64(m, values)
		return
	}
	ints := make([]int32, len(values))
	for i, x := range values {
		ints[i] = int32(x)
	}
	dev.UploadInts(m, ints)
}

func download(dev kernels.Device, m kernels.Mem) ([]float64, error) {
	values := make([]float64, m.N)
	if m.Buf.Kind() != kernels.Int32 {
		return values, dev.DownloadF64(values, m)
	}
	ints := make([]int32, m.N)
	err := dev.DownloadInts(ints, m)
	for i, x := range ints {
		values[i] = float64(x)
	}
	return values, err
}

// run makes the call and compares everything with what was wanted.
func (c *call) run(op func(dev kernels.Device)) {
	f := c.f
	f.t.Helper()
	op(f.dev)
	for _, a := range c.arrays {
		got, err := download(f.dev, a.whole)
		if err != nil {
			f.fail("%s: %v", c.label, err)
			panic(giveUp)
		}
		f.bits.add(f.op, c.label, a, got)
		c.compare(a, got)
	}
	for _, a := range c.arrays {
		f.dev.Free(a.whole)
	}
}

func (c *call) compare(a *array, got []float64) {
	c.f.t.Helper()
	want := a.fenced(a.want)
	wrong, first := 0, ""
	for i, x := range got {
		at := i - a.Off
		inside := at >= 0 && at < a.N
		var tol float64
		if inside && a.output {
			c.f.compared++
			if a.tol != nil {
				tol = a.tol(at)
			}
		}
		if near(x, want[i], tol) {
			continue
		}
		if wrong++; wrong > 1 {
			continue
		}
		switch {
		case !inside:
			first = fmt.Sprintf("%s[%d], outside its %d elements, was changed from %v to %v", a.name, at, a.N, want[i], x)
		case !a.output:
			first = fmt.Sprintf("%s[%d], which may only be read, was changed from %v to %v", a.name, at, want[i], x)
		default:
			first = fmt.Sprintf("%s[%d] is %v, want %v ± %.3g", a.name, at, x, want[i], tol)
		}
	}
	if wrong > 0 {
		c.f.fail("%s: %s (%d of %d differ)", c.label, first, wrong, len(got))
	}
}

// near says whether x is want within tol; a NaN only matches a NaN, and with
// no tolerance an infinity only itself.
func near(x, want, tol float64) bool {
	if math.IsNaN(want) {
		return math.IsNaN(x)
	}
	return x == want || math.Abs(x-want) <= tol && !math.IsInf(want, 0)
}

// Values for operands.

func fill(n int, x float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = x
	}
	return s
}

// integers are numbers in [-8, 8] without 0: with 0 a dropped term might not
// show. Sums of up to 2¹⁸ products of two stay below 2²⁴.
func (f *fixture) integers(n int) []float64 {
	s := make([]float64, n)
	var bits uint64 // of 16 numbers
	for i := range s {
		if i%16 == 0 {
			bits = f.rng.Uint64()
		}
		s[i] = float64(1 + bits&7)
		if bits&8 != 0 {
			s[i] = -s[i]
		}
		bits >>= 4
	}
	return s
}

// normals are standard normals.
func (f *fixture) normals(n int) []float64 { return f.scaled(n, 1) }

func (f *fixture) scaled(n int, scale float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = rounded(scale * f.rng.NormFloat64())
	}
	return s
}

// below are integers in [0, limit).
func (f *fixture) below(n, limit int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(f.rng.IntN(limit))
	}
	return s
}

// rounded is x as every device can hold it.
func rounded(x float64) float64 { return float64(float32(x)) }

func round(x []float64) {
	for i := range x {
		x[i] = rounded(x[i])
	}
}

// sameBits makes two arrays in two ways, and compares them with each other.
func (c *call) sameBits(one, other *array, makeOne, makeOther func()) {
	f := c.f
	f.t.Helper()
	makeOne()
	makeOther()
	got, err := download(f.dev, one.Mem)
	if err != nil {
		f.fail("%s: %v", c.label, err)
		panic(giveUp)
	}
	want, err := download(f.dev, other.Mem)
	if err != nil {
		f.fail("%s: %v", c.label, err)
		panic(giveUp)
	}
	// What both must be is the other's; run then looks at guards and operands.
	one.want, other.want = want, want
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			f.fail("%s: element %d is %v in one way and %v in the other", c.label, i, got[i], want[i])
			break
		}
	}
	c.run(func(kernels.Device) {})
}
