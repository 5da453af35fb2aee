package tensor

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
)

// Ctx queues operations on Values. Results live in two arenas: tensors in X,
// which ends with the batch (Reset), derivatives in D, which ends with the
// direction (ResetD). Operands of the wrong shape panic, naming the operation
// and the shapes. One goroutine uses a Ctx at a time.
type Ctx struct {
	dev   kernels.Device
	x, d  *Arena
	flops *int64
	still bool

	mode       mode
	log        []entry // results in program order
	pos        int     // next entry to replay
	generation uint64  // of the parameters, when recorded
}

type mode uint8

const (
	plain mode = iota
	recording
	replaying
)

// entry is one result of a recorded program, or the head of an optional
// section.
type entry struct {
	op  string
	x   *Tensor
	ran bool // a section: whether it ran
	n   int  // a section: how many entries it left
}

const section = "optional section"

// NewCtx is a context with empty arenas.
func NewCtx(dev kernels.Device) *Ctx {
	return &Ctx{dev: dev, x: NewArena(dev), d: NewArena(dev), flops: new(int64)}
}

// Device is where the context computes.
func (c *Ctx) Device() kernels.Device { return c.dev }

// Reset takes all results back: a new batch begins.
func (c *Ctx) Reset() {
	c.x.Reset()
	c.d.Reset()
	c.log, c.pos, c.mode = nil, 0, plain
}

// ResetD takes the derivatives back: a new direction begins.
func (c *Ctx) ResetD() { c.d.Reset() }

// Poison makes Reset and ResetD fill dead memory with NaN; for tests.
func (c *Ctx) Poison() {
	c.x.Poison()
	c.d.Poison()
}

// Free gives the arenas' memory back.
func (c *Ctx) Free() {
	c.Reset()
	c.x.Free()
	c.d.Free()
}

// Used is how many elements the two arenas have handed out.
func (c *Ctx) Used() (x, d int) { return c.x.used, c.d.used }

// Flops counts the floating-point operations queued in contractions, two for
// each product.
func (c *Ctx) Flops() int64 { return *c.flops }

// Err waits for the device and returns the first failure: its own, or memory
// that could not be had, after which operations were left out.
func (c *Ctx) Err() error {
	if err := c.allocErr(); err != nil {
		return err
	}
	return c.dev.Sync()
}

func (c *Ctx) allocErr() error {
	if c.x.err != nil {
		return c.x.err
	}
	return c.d.err
}

// ok says whether operations still run.
func (c *Ctx) ok() bool { return c.x.err == nil && c.d.err == nil }

// Record remembers the tensors of what follows, in program order, so that
// Replay can reuse them. It pins their memory until Reset. generation names
// the state of the parameters.
func (c *Ctx) Record(generation uint64) {
	c.log, c.pos, c.mode, c.generation = nil, 0, recording, generation
}

// Replay makes the next run of the recorded program, on the same data, take
// its tensors from the record and compute derivatives only. It panics where
// the parameters have changed since, and operations panic where the program
// differs.
func (c *Ctx) Replay(generation uint64) {
	if c.mode == plain || len(c.log) == 0 {
		panic("tensor: Replay without Record")
	}
	if generation != c.generation {
		panic(fmt.Sprintf("tensor: Replay of generation %d of the parameters, recorded at %d", generation, c.generation))
	}
	c.pos, c.mode = 0, replaying
}

// Optional is section's result if it is wanted, and the zero Value if not.
// Another run of a recorded program may decide otherwise.
func (c *Ctx) Optional(want bool, sec func() Value) (v Value) {
	switch c.mode {
	case recording:
		at := len(c.log)
		c.log = append(c.log, entry{op: section, ran: want})
		if want {
			v = sec()
		}
		c.log[at].n = len(c.log) - at - 1
		return v
	case replaying:
		e := c.next(section)
		switch {
		case want && !e.ran: // nothing to reuse
			c.mode = plain
			v = sec()
			c.mode = replaying
		case want:
			v = sec()
		default:
			c.pos += e.n
		}
		return v
	}
	if want {
		v = sec()
	}
	return v
}

// SideX is a context for work that belongs to the batch but not to the
// recorded program, such as clip factors. All its results live in X.
func (c *Ctx) SideX() *Ctx { return &Ctx{dev: c.dev, x: c.x, d: c.x, flops: c.flops} }

// SideD is the same for work that ends with the direction. All its results
// live in D.
func (c *Ctx) SideD() *Ctx { return &Ctx{dev: c.dev, x: c.d, d: c.d, flops: c.flops} }

// Still runs work with every derivative taken for zero, as in the way back of
// a Gauss-Newton product.
func (c *Ctx) Still(work func()) {
	was := c.still
	c.still = true
	work()
	c.still = was
}

// NewX is a tensor in X with undefined contents.
func (c *Ctx) NewX(shape ...int) *Tensor { return c.x.New(shape...) }

func (c *Ctx) next(op string) entry {
	if c.pos >= len(c.log) {
		panic(fmt.Sprintf("tensor: replay: %s follows after the end of the recorded program", op))
	}
	e := c.log[c.pos]
	if e.op != op {
		panic(fmt.Sprintf("tensor: replay: %s where %s was recorded", op, e.op))
	}
	c.pos++
	return e
}

// op is the one place where results are made: primal computes the tensor
// unless it is replayed, tangent the derivative if there is one.
func (c *Ctx) op(name string, shape []int, moves bool, primal, tangent func(dst kernels.Mem)) Value {
	v := Value{x: c.primal(name, shape, primal)}
	if moves && !c.still {
		v.d = c.d.New(shape...)
		if c.ok() {
			tangent(v.d.mem)
		}
	}
	return v
}

func (c *Ctx) primal(name string, shape []int, run func(dst kernels.Mem)) *Tensor {
	if c.mode == replaying {
		x := c.next(name).x
		if !slices.Equal(x.shape, shape) {
			panic(fmt.Sprintf("tensor: replay: %s makes %v where %v was recorded", name, shape, x.shape))
		}
		return x
	}
	x := c.x.New(shape...)
	if c.ok() {
		run(x.mem)
	}
	if c.mode == recording {
		c.log = append(c.log, entry{op: name, x: x})
	}
	return x
}

// linear applies a linear map to a's tensor and to its derivative.
func (c *Ctx) linear(name string, shape []int, a Value, f func(dst, a kernels.Mem)) Value {
	return c.op(name, shape, a.d != nil,
		func(dst kernels.Mem) { f(dst, a.x.Mem()) },
		func(dst kernels.Mem) { f(dst, a.d.Mem()) })
}

// bilinear applies a product, and the product rule.
func (c *Ctx) bilinear(name string, shape []int, a, b Value, f product) Value {
	return c.op(name, shape, a.d != nil || b.d != nil,
		func(dst kernels.Mem) { f(dst, a.x, b.x, false) },
		func(dst kernels.Mem) { c.productRule(dst, false, a, b, f) })
}

// product writes a product of a and b to dst, or adds it.
type product func(dst kernels.Mem, a, b *Tensor, acc bool)

// productRule writes D(ab) = Da b + a Db to dst, or adds it.
func (c *Ctx) productRule(dst kernels.Mem, acc bool, a, b Value, f product) {
	if a.d != nil && !c.still {
		f(dst, a.d, b.x, acc)
		acc = true
	}
	if b.d != nil && !c.still {
		f(dst, a.x, b.d, acc)
		acc = true
	}
	if !acc {
		c.dev.Fill(dst, 0)
	}
}

// bilinearTo is bilinear with its result in a sink.
func (c *Ctx) bilinearTo(s Sink, a, b Value, f product) {
	if !c.ok() {
		return
	}
	if s.X != nil {
		f(s.X.mem, a.x, b.x, s.AccX)
	}
	if s.D != nil {
		c.productRule(s.D.mem, s.AccD, a, b, f)
	}
}
