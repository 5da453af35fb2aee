package tensor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// opCase is an operation on operands of some shapes; every operand may move.
type opCase struct {
	name   string
	shapes [][]int
	run    func(c *Ctx, v []Value) Value
}

func opCases(labels, move *Tensor) []opCase {
	chan3 := kernels.Per{Batch: 1, Rows: 4, Cols: 3, Axis: kernels.PerCol}
	row4 := kernels.Per{Batch: 1, Rows: 4, Cols: 3, Axis: kernels.PerRow}
	both := kernels.Per{Batch: 2, Rows: 2, Cols: 3, Axis: kernels.PerCol}
	m := []int{4, 3}
	cases := []opCase{
		{"Mul", [][]int{m, m}, func(c *Ctx, v []Value) Value { return c.Mul(v[0], v[1]) }},
		{"Mul itself", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Mul(v[0], v[0]) }},
		{"AddScaled", [][]int{m, m}, func(c *Ctx, v []Value) Value { return c.AddScaled(v[0], -1.5, v[1]) }},
		{"Times", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Times(0.3, v[0]) }},
		{"Keep", [][]int{m, m}, func(c *Ctx, v []Value) Value { return c.Keep(v[0], v[1]) }},
		{"ReLU", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Keep(v[0], v[0]) }},
		{"Tanh", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Tanh(v[0]) }},
		{"Softmax", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Softmax(v[0]) }},
		{"SubOneHot", [][]int{m}, func(c *Ctx, v []Value) Value { return c.SubOneHot(c.Softmax(v[0]), labels) }},
		{"CrossEntropy", [][]int{m}, func(c *Ctx, v []Value) Value {
			return c.CrossEntropy(v[0], c.Softmax(v[0]), labels)
		}},
		{"CropFlip", [][]int{{2, 3, 2, 1}}, func(c *Ctx, v []Value) Value { return c.CropFlip(v[0], move) }},
		{"CropFlipAdjoint", [][]int{{2, 3, 2, 1}}, func(c *Ctx, v []Value) Value { return c.CropFlipAdjoint(v[0], move) }},
		{"View", [][]int{m}, func(c *Ctx, v []Value) Value { return c.Tanh(v[0].View(2, 6)) }},
	}
	for _, relu := range []bool{false, true} {
		cases = append(cases, opCase{fmt.Sprint("Affine relu ", relu), [][]int{{2, 4}, {4, 3}, {3}},
			func(c *Ctx, v []Value) Value { return c.Affine(v[0], v[1], v[2], relu) }})
	}
	for i := range 4 {
		ta, tb := i&1 > 0, i&2 > 0
		a, b := []int{2, 4}, []int{4, 3}
		if ta {
			a = []int{4, 2}
		}
		if tb {
			b = []int{3, 4}
		}
		cases = append(cases, opCase{fmt.Sprint("MatMul ", ta, tb), [][]int{a, b},
			func(c *Ctx, v []Value) Value { return c.MatMul(v[0], v[1], ta, tb) }})
	}
	for _, p := range []struct {
		name  string
		per   kernels.Per
		small int
	}{{"channel", chan3, 3}, {"row", row4, 4}, {"example and channel", both, 6}} {
		small := []int{p.small}
		cases = append(cases,
			opCase{"ScaleBy per " + p.name, [][]int{m, small}, func(c *Ctx, v []Value) Value { return c.ScaleBy(v[0], v[1], p.per) }},
			opCase{"Shift per " + p.name, [][]int{m, small}, func(c *Ctx, v []Value) Value { return c.Shift(v[0], -0.7, v[1], p.per) }},
			opCase{"Spread per " + p.name, [][]int{small}, func(c *Ctx, v []Value) Value { return c.Spread(v[0], p.per, m...) }},
			opCase{"Sum per " + p.name, [][]int{m}, func(c *Ctx, v []Value) Value { return c.Sum(v[0], p.per) }},
			opCase{"SumMul per " + p.name, [][]int{m, m}, func(c *Ctx, v []Value) Value { return c.SumMul(v[0], v[1], p.per) }})
	}
	return cases
}

// TestProductRules differences every operation, for every choice of operands
// that move.
func TestProductRules(t *testing.T) {
	b := newBench(t)
	labels, move := b.ints([]int32{2, 0, 1, 1}, 4), b.ints([]int32{1, -1, 0, 0, 1, 1}, 2, 3)
	for _, oc := range opCases(labels, move) {
		for moving := range 1 << len(oc.shapes) {
			if err := b.difference(oc, moving); err != nil {
				t.Errorf("%s, operands %b: %v", oc.name, moving, err)
			}
		}
	}
	m := []int{4, 3}
	for _, planted := range []opCase{
		{"a forgotten term", [][]int{m, m}, func(c *Ctx, v []Value) Value { return c.Mul(v[0].Detach(), v[1]) }},
		{"a wrong factor", [][]int{m, m}, func(c *Ctx, v []Value) Value {
			y := c.Mul(v[0], v[1])
			if y.d != nil {
				y.d = c.Times(1.0005, Const(y.d)).x
			}
			return y
		}},
		{"a derivative from nowhere", [][]int{m, m}, func(c *Ctx, v []Value) Value { return Dual(c.Mul(v[0], v[1]).x, v[0].x) }},
	} {
		caught := false
		for moving := range 4 {
			caught = caught || b.difference(planted, moving) != nil
		}
		if !caught {
			t.Errorf("planted fault passed: %s", planted.name)
		}
	}
}

// difference compares the derivative of an operation, with the operands in the
// set moving, to central differences.
func (b *bench) difference(oc opCase, moving int) error {
	n := len(oc.shapes)
	x, d := make([]*Tensor, n), make([]*Tensor, n)
	for i, shape := range oc.shapes {
		x[i], d[i] = b.random(shape...), b.random(shape...)
	}
	operands := func(f func(i int) Value) []Value {
		v := make([]Value, n)
		for i := range v {
			v[i] = Const(x[i])
			if moving>>i&1 > 0 {
				v[i] = f(i)
			}
		}
		return v
	}
	c, dual := NewCtx(b.dev), operands(func(i int) Value { return Dual(x[i], d[i]) })
	y, got := Parts(oc.run(c, dual))
	want, err := gradcheck.Central(func(step float64) (gradcheck.Probe, error) {
		y, d := Parts(oc.run(NewCtx(b.dev), operands(func(i int) Value { return Const(b.plus(x[i], step, d[i])) })))
		if d != nil {
			return gradcheck.Probe{}, errors.New("a derivative where nothing moves")
		}
		return gradcheck.Probe{Y: b.read(y)}, nil
	})
	if err != nil {
		return err
	}
	var still *Tensor
	c.Still(func() { _, still = Parts(oc.run(c, dual)) })
	if still != nil {
		return errors.New("a derivative while Still")
	}
	if got == nil {
		for _, w := range want {
			if w != 0 {
				return errors.New("no derivative, but it moves")
			}
		}
		return nil
	}
	if y.Len() != got.Len() {
		return fmt.Errorf("derivative %v of %v", got.Shape(), y.Shape())
	}
	return gradcheck.Compare("derivative", b.read(got), want, gradcheck.Tolerance)
}

// TestSinks: results in sinks are those of the operations, overwritten or
// added, and zero where nothing moves.
func TestSinks(t *testing.T) {
	b := newBench(t)
	x, dx := b.random(4, 3), b.random(4, 3)
	y, dy := b.random(4, 2), b.random(4, 2)
	col := PerChannel([]int{4, 2})
	type sinkCase struct {
		name string
		n    int
		to   func(c *Ctx, s Sink, x, y Value)
		op   func(c *Ctx, x, y Value) Value
	}
	for _, sc := range []sinkCase{
		{"MatMulTo", 6, func(c *Ctx, s Sink, x, y Value) { c.MatMulTo(s, x, y, true, false) },
			func(c *Ctx, x, y Value) Value { return c.MatMul(x, y, true, false) }},
		{"SumTo", 2, func(c *Ctx, s Sink, x, y Value) { c.SumTo(s, y, col) },
			func(c *Ctx, x, y Value) Value { return c.Sum(y, col) }},
		{"SumMulTo", 2, func(c *Ctx, s Sink, x, y Value) { c.SumMulTo(s, y, y, col) },
			func(c *Ctx, x, y Value) Value { return c.SumMul(y, y, col) }},
	} {
		for _, moving := range []bool{false, true} {
			vx, vy := Const(x), Const(y)
			if moving {
				vx, vy = Dual(x, dx), Dual(y, dy)
			}
			c := NewCtx(b.dev)
			wantX, wantD := Parts(sc.op(c, vx, vy))
			d := make([]float64, sc.n)
			if wantD != nil {
				d = b.read(wantD)
			}
			for _, acc := range []float64{0, 1} {
				base := b.random(sc.n)
				s := Sink{X: b.clone(base), D: b.clone(base), AccX: acc > 0, AccD: acc > 0}
				sc.to(c, s, vx, vy)
				add := func(v []float64) []float64 {
					sum := b.read(base)
					for i := range sum {
						sum[i] = acc*sum[i] + v[i]
					}
					return sum
				}
				b.near(sc.name+" X", b.read(s.X), add(b.read(wantX)))
				b.near(sc.name+" D", b.read(s.D), add(d))
				before := c.Flops()
				sc.to(c, Sink{}, vx, vy)
				if c.Flops() != before {
					t.Errorf("%s: work for a sink that wants nothing", sc.name)
				}
			}
		}
	}
}

// TestRankOne compares a direction per example with the matrices it stands for.
func TestRankOne(t *testing.T) {
	b := newBench(t)
	const batch, in, out = 3, 4, 2
	x, w, bias := b.random(batch, in), b.random(in, out), b.random(out)
	a, k, v := b.random(batch), b.random(batch), b.random(in, out)
	left, right := b.random(batch, in), b.random(batch, out)
	rows := b.random(batch, out) // the bias's direction, per example
	for _, vOrNil := range []*Tensor{v, nil} {
		dir := RankOne(a, k, vOrNil, left, right)
		dense := func(z int) *Tensor {
			an, kn, ln, rn := b.read(a)[z], b.read(k)[z], b.read(left), b.read(right)
			m := make([]float64, in*out)
			for i := range in {
				for j := range out {
					if vOrNil != nil {
						m[i*out+j] = an * b.read(v)[i*out+j]
					}
					m[i*out+j] += kn * ln[z*in+i] * rn[z*out+j]
				}
			}
			return b.floats(m, in, out)
		}
		c := NewCtx(b.dev)
		_, got := Parts(c.Affine(Dual(x, b.clone(left)), Dual(w, dir), Dual(bias, rows), true))
		_, back := Parts(c.MatMul(Const(right), Dual(w, dir), false, true))
		for z := range batch {
			one := NewCtx(b.dev)
			_, want := Parts(one.Affine(Dual(x.Slice(z, z+1), left.Slice(z, z+1)), Dual(w, dense(z)),
				Dual(bias, rows.Slice(z, z+1).View(out)), true))
			b.near("forward", b.read(got.Slice(z, z+1)), b.read(want))
			_, want = Parts(one.MatMul(Const(right.Slice(z, z+1)), Dual(w, dense(z)), false, true))
			b.near("backward", b.read(back.Slice(z, z+1)), b.read(want))
		}
	}
	mustPanic(t, "rank one", func() { RankOne(a, k, v, left, right).Mem() })
}

// bench makes and reads tensors of a device.
type bench struct {
	t   *testing.T
	dev kernels.Device
	r   *rand.Rand
}

func newBench(t *testing.T) *bench {
	dev := kernels.Reference()
	t.Cleanup(func() { dev.Close() })
	return &bench{t, dev, rand.New(rand.NewPCG(1, 2))}
}

func (b *bench) floats(numbers []float64, shape ...int) *Tensor {
	b.t.Helper()
	x, err := FromFloats(b.dev, numbers, shape...)
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

func (b *bench) ints(numbers []int32, shape ...int) *Tensor {
	b.t.Helper()
	x, err := FromInts(b.dev, numbers, shape...)
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

func (b *bench) random(shape ...int) *Tensor {
	numbers := make([]float64, size(shape))
	for i := range numbers {
		numbers[i] = b.r.NormFloat64()
	}
	return b.floats(numbers, shape...)
}

func (b *bench) clone(x *Tensor) *Tensor { return b.floats(b.read(x), x.Shape()...) }

func (b *bench) plus(x *Tensor, k float64, d *Tensor) *Tensor {
	sum, dn := b.read(x), b.read(d)
	for i := range sum {
		sum[i] += k * dn[i]
	}
	return b.floats(sum, x.Shape()...)
}

func (b *bench) read(x *Tensor) []float64 {
	b.t.Helper()
	numbers, err := x.Floats(b.dev)
	if err != nil {
		b.t.Fatal(err)
	}
	return numbers
}

// near allows a few roundings of float64.
func (b *bench) near(what string, got, want []float64) {
	b.t.Helper()
	if err := gradcheck.Compare(what, got, want, 1e-14); err != nil {
		zero := true
		for i := range want {
			zero = zero && want[i] == 0 && got[i] == 0
		}
		if !zero {
			b.t.Error(err)
		}
	}
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if msg := fmt.Sprint(recover()); !contains(msg, want) {
			t.Errorf("panic %q does not say %q", msg, want)
		}
	}()
	f()
}
