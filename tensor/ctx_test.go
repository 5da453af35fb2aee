package tensor

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

// program is a few operations that depend on a parameter and a direction.
func program(c *Ctx, x, w Value, wantFirst bool) (y, first Value) {
	h := c.Tanh(c.MatMul(x, w, false, false))
	first = c.Optional(wantFirst, func() Value { return c.Mul(h, h) })
	return c.AddScaled(h, 2, c.Mul(h, c.Tanh(h))), first
}

// TestReplay: replayed passes have the bits of fresh ones, redo no primal work
// beyond what was left out, and notice every change of the program.
func TestReplay(t *testing.T) {
	b := newBench(t)
	x, w := Const(b.random(3, 4)), b.random(4, 4)
	dir := []*Tensor{b.random(4, 4), b.random(4, 4)}
	for _, recorded := range []bool{false, true} {
		c := NewCtx(b.dev)
		c.Poison()
		c.Record(7)
		program(c, x, Const(w), recorded)
		usedX, _ := c.Used()
		for _, want := range []bool{false, true, false} {
			for _, d := range dir {
				c.ResetD()
				c.Replay(7)
				y, first := program(c, x, Dual(w, d), want)
				fresh, freshFirst := program(NewCtx(b.dev), x, Dual(w, d), want)
				if !sameBits(b.read(y.x), b.read(fresh.x)) || !sameBits(b.read(y.d), b.read(fresh.d)) {
					t.Error("replay changed bits")
				}
				if first.IsNone() == want {
					t.Errorf("optional section: wanted %v", want)
				}
				if want && !sameBits(b.read(first.d), b.read(freshFirst.d)) {
					t.Error("replay changed an optional section")
				}
			}
		}
		if now, _ := c.Used(); recorded && now != usedX {
			t.Errorf("replay made %d numbers of primal results", now-usedX)
		}
	}

	c := NewCtx(b.dev)
	mustPanic(t, "Replay without Record", func() { c.Replay(0) })
	c.Record(7)
	c.Tanh(x)
	mustPanic(t, "generation 8 of the parameters, recorded at 7", func() { c.Replay(8) })
	c.Replay(7)
	mustPanic(t, "Times where Tanh was recorded", func() { c.Times(2, x) }) // equal shapes
	c.Replay(7)
	mustPanic(t, "[3 2] where [3 4] was recorded", func() { c.Tanh(Const(b.random(3, 2))) })
	c.Replay(7)
	c.Tanh(x)
	mustPanic(t, "after the end", func() { c.Tanh(x) })
	c.Replay(7)
	mustPanic(t, "optional section where Tanh", func() { c.Optional(true, func() Value { return x }) })
}

// TestSide: work on the side is neither recorded nor replayed.
func TestSide(t *testing.T) {
	b := newBench(t)
	x := Const(b.random(3, 4))
	c := NewCtx(b.dev)
	run := func(k float64) Value {
		y := c.Tanh(x)
		side := c.SideD().Times(k, y)
		return c.AddScaled(y, 0, side.Detach())
	}
	c.Record(0)
	run(1)
	c.Replay(0)
	c.Tanh(x)
	got := c.SideD().Times(5, x)
	if want := NewCtx(b.dev).Times(5, x); !sameBits(b.read(got.x), b.read(want.x)) {
		t.Error("a side result was replayed")
	}
	_, d := c.Used()
	if d == 0 {
		t.Error("a side result does not live in D")
	}
}

func sameBits(a, b []float64) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// TestArena: no allocation once warm, whatever smaller batches come; poisoned
// memory is NaN; a plain gradient makes no derivatives.
func TestArena(t *testing.T) {
	b := newBench(t)
	c := NewCtx(b.dev)
	c.Poison()
	w := b.random(100, 50)
	xs := []*Tensor{b.random(300, 100), b.random(17, 100), b.random(299, 100)}
	step := func(x *Tensor) *Tensor {
		c.Reset()
		h := c.Tanh(c.MatMul(Const(x), Const(w), false, false))
		return c.Mul(h, h).x
	}
	first := step(xs[0])
	warm := b.dev.Stats().Allocs
	for range 5 {
		for _, x := range xs {
			step(x)
		}
	}
	if n := b.dev.Stats().Allocs - warm; n != 0 {
		t.Errorf("%d device allocations after warm-up", n)
	}
	if _, d := c.Used(); d != 0 {
		t.Errorf("%d numbers of derivatives where nothing moves", d)
	}
	c.Reset()
	for _, v := range b.read(first) {
		if !math.IsNaN(v) {
			t.Fatal("dead memory is not poisoned")
		}
	}
	live := b.dev.Stats().LiveBytes
	c.Free()
	if b.dev.Stats().LiveBytes >= live {
		t.Error("Free gave nothing back")
	}
	step(xs[0]) // an emptied arena works again
}

// poor is a device that runs out of memory.
type poor struct {
	kernels.Device
	left int
}

var errPoor = errors.New("out of memory")

func (p *poor) Alloc(kind kernels.Kind, n int) (kernels.Mem, error) {
	if n > p.left {
		return kernels.Mem{}, errPoor
	}
	p.left -= n
	return p.Device.Alloc(kind, n)
}

// TestOutOfMemory: a device without memory is an error from Err, wherever in
// the program it happens, and nothing runs on memory that is not there.
func TestOutOfMemory(t *testing.T) {
	b := newBench(t)
	x, w, d := b.random(200, 100), b.random(100, 100), b.random(100, 100)
	g := b.random(100, 100)
	for _, left := range []int{0, 19_999, 20_000, 40_000, 90_000, 150_000} {
		c := NewCtx(&poor{b.dev, left})
		h := c.Affine(Const(x), Dual(w, d), Const(b.random(100)), true)
		h = c.Tanh(c.MatMul(h, Dual(w, RankOne(b.random(200), b.random(200), w, x, h.x)), false, false))
		p := c.Softmax(h)
		c.MatMulTo(Sink{X: g, D: g}, h, p, true, false)
		err := c.Err()
		if !errors.Is(err, errPoor) {
			t.Errorf("with room for %d elements: %v", left, err)
		}
	}
	for _, v := range b.read(g) {
		if math.IsNaN(v) {
			t.Fatal("the sink was written from memory that was not there")
		}
	}
}

func TestWrongShapesPanic(t *testing.T) {
	b := newBench(t)
	c := NewCtx(b.dev)
	m, n, v := Const(b.random(2, 3)), Const(b.random(2, 3)), Const(b.random(3))
	labels := b.ints([]int32{0, 1, 2}, 3)
	p := PerExample([]int{2, 3})
	for want, f := range map[string]func(){
		"MatMul: [2 3] by [2 3]":          func() { c.MatMul(m, n, false, false) },
		"MatMulTo: [2 3] by [3]":          func() { c.MatMulTo(Sink{}, m, v, false, false) },
		"Affine: bias [3] for weights":    func() { c.Affine(m, Const(b.random(3, 4)), v, false) },
		"Mul: shapes [2 3] and [3]":       func() { c.Mul(m, v) },
		"AddScaled: shapes [2 3] and [3]": func() { c.AddScaled(m, 1, v) },
		"Keep: shapes [2 3] and [3]":      func() { c.Keep(m, v) },
		"ScaleBy: [2 3] with [3]":         func() { c.ScaleBy(m, v, p) },
		"Shift: [2 3] with [3]":           func() { c.Shift(m, 1, v, p) },
		"Sum: [3] and [3]":                func() { c.Sum(v, p) },
		"SumMul: [2 3] and [3]":           func() { c.SumMul(m, v, p) },
		"Spread: [3] to [2 3]":            func() { c.Spread(v, p, 2, 3) },
		"Softmax: [3] is not a matrix":    func() { c.Softmax(v) },
		"CrossEntropy: [2 3] with labels": func() { c.CrossEntropy(m, m, labels) },
		"SubOneHot: [2 3] with labels":    func() { c.SubOneHot(m, labels) },
		"CropFlip: images [2 3]":          func() { c.CropFlip(m, labels) },
		"SqNormOuterTo: [3] is not":       func() { c.SqNormOuterTo(Sink{}, m, v, true) },
		"the sink [2] is not the size":    func() { c.SumTo(Sink{X: b.random(2)}, m, PerChannel(m.Shape())) },
		"View: [2 3] does not fit":        func() { m.View(4) },
		"Slice [0:3]":                     func() { m.x.Slice(0, 3) },
		"do not fill shape [7]":           func() { Of(m.x.Mem(), 7) },
	} {
		mustPanic(t, want, f)
	}
}
