package models_test

import (
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/layertest"
	"github.com/aviary-audit/aviary/tensor"
)

// costRig is a model with data, directions and places for results.
type costRig struct {
	t      *testing.T
	dev    kernels.Device
	m      *models.Model
	x      models.Value
	labels *tensor.Tensor
	u, v   *tensor.Tensor
	g, hv  *tensor.Tensor
}

func newCostRig(t *testing.T, p layertest.Problem, dev kernels.Device) costRig {
	t.Helper()
	f, err := layertest.New(p, dev)
	if err != nil {
		t.Fatal(err)
	}
	must := func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	n := f.Model.Len()
	dir := func() *tensor.Tensor { return must(tensor.FromFloats(dev, f.Random(n), n)) }
	return costRig{
		t: t, dev: dev, m: f.Model,
		x:      tensor.Const(must(tensor.FromFloats(dev, f.X, append([]int{p.Batch}, p.In...)...))),
		labels: must(tensor.FromInts(dev, f.Labels, p.Batch)),
		u:      dir(), v: dir(), g: dir(), hv: dir(),
	}
}

// loss runs a pass and returns its cost.
func (r costRig) loss(p *models.Pass, needX bool) (dx models.Value, cost int64) {
	before := p.Flops()
	_, back := p.Loss(r.m, r.x, r.labels, models.Value{})
	dx = back(needX)
	return dx, p.Flops() - before
}

// TestCosts: every pass costs what counting its products gives, to the
// flop. F are the contractions of a forward pass, F0 those of the first layer,
// whose input does not move and needs no gradient.
func TestCosts(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	p := problems()[0]
	r := newCostRig(t, p, dev)
	const batch = 4
	f := int64(2 * batch * (7*9 + 9*8 + 8*3))
	f0 := int64(2 * batch * 7 * 9)
	last := int64(2 * batch * 8 * 3)

	pass := func(grad, hvp bool, dir *tensor.Tensor) *models.Pass {
		p := models.NewPass(dev)
		p.Poison()
		if grad {
			p.Grad = r.g
		}
		if hvp {
			p.HVP = r.hv
		}
		if dir != nil {
			p.Dir = r.m.Split(dir)
		}
		return p
	}
	cost := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d flops, want %d", what, got, want)
		}
	}
	one := func(what string, p *models.Pass, needX bool, want int64) models.Value {
		t.Helper()
		dx, got := r.loss(p, needX)
		cost(what, got, want)
		return dx
	}
	q := pass(false, false, nil)
	q.Logits(r.m, r.x)
	cost("forward", q.Flops(), f)
	q = pass(true, false, nil)
	one("gradient", q, false, 3*f-f0)
	if _, d := q.Used(); d != 0 {
		t.Errorf("a gradient made %d numbers of derivatives", d)
	}
	one("gradient and Hv", pass(true, true, r.v), false, 9*f-5*f0)
	one("Hv", pass(false, true, r.v), false, 8*f-5*f0)
	one("gradient and mixed", pass(true, false, r.v), true, 7*f-f0)
	one("mixed", pass(false, false, r.v), true, 6*f-f0)
	one("nothing wanted", pass(false, false, nil), false, 2*f-f0)

	head := pass(true, true, nil)
	head.Dir = map[*models.Param]*tensor.Tensor{}
	for q, d := range r.m.Split(r.v) {
		if q.Name == "fc3.w" || q.Name == "fc3.b" {
			head.Dir[q] = d
		}
	}
	one("Hv in the last layer", head, false, (3*f-f0)+(2*f-f0+2*last))

	rec := pass(true, false, nil)
	rec.Mode = models.Record
	one("recorded gradient", rec, false, 3*f-f0)
	rec.Mode, rec.Grad = models.Replay, nil
	for _, dir := range []*tensor.Tensor{r.u, r.v} {
		rec.ResetD()
		rec.Dir, rec.HVP = r.m.Split(dir), r.hv
		one("cached Hv", rec, false, 6*f-4*f0)
	}
	rec.ResetD()
	rec.HVP = nil
	one("cached mixed", rec, true, 4*f)

	gn := pass(false, true, r.v)
	gn.GaussNewton(r.m, r.x, models.Value{})
	cost("Gauss-Newton", gn.Flops(), (3*f-f0)+(2*f-f0))

	c := pass(true, false, nil)
	c.Mode = models.Record
	c.Dir = r.m.Split(r.u) // not looked at
	_, k, err := c.Clipped(r.m, r.x, r.labels, 1)
	if err != nil {
		t.Fatal(err)
	}
	cost("clipped gradient", c.Flops(), 3*f-f0)
	c.HVP = r.hv
	if _, err := c.ClippedProduct(r.m, r.x, r.labels, k, r.m.Split(r.v), true); err != nil {
		t.Fatal(err)
	}
	// After it: a forward pass along v, and an Hv pass with needX, both cached.
	cost("J'v of the clipped gradient", c.Flops()-(3*f-f0), (2*f-f0)+(6*f-f0))
}

// TestSteadyState: once warm, steps of training allocate nothing on the
// device, plain, clipped, or with a direction, in batches of changing size.
func TestSteadyState(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	r := newCostRig(t, problems()[0], dev)
	plain, clipped, moving := models.NewPass(dev), models.NewPass(dev), models.NewPass(dev)
	plain.Grad, clipped.Grad, moving.Grad, moving.HVP = r.g, r.g, r.g, r.hv
	moving.Dir = r.m.Split(r.v)
	x, _ := tensor.Parts(r.x)
	step := func(n int) {
		for _, p := range []*models.Pass{plain, clipped, moving} {
			p.Reset()
			part, labels := tensor.Const(x.Slice(0, n)), r.labels.Slice(0, n)
			if p == clipped {
				if _, _, err := p.Clipped(r.m, part, labels, 1); err != nil {
					t.Fatal(err)
				}
				continue
			}
			_, back := p.Loss(r.m, part, labels, models.Value{})
			back(true)
		}
	}
	step(4)
	warm := dev.Stats().Allocs
	for range 10 {
		for _, n := range []int{4, 1, 3} {
			step(n)
		}
	}
	if n := dev.Stats().Allocs - warm; n != 0 {
		t.Errorf("%d allocations on the device after the first step", n)
	}
}

// TestUnusedParameter: a parameter that the loss does not depend on gets the
// gradient zero, not what was in the vector before.
func TestUnusedParameter(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	p := problems()[2]
	p.Net = func() models.Layer { return idle{models.MLP(6, 4), models.NewLinear("idle", 2, 2)} }
	f, err := layertest.New(p, dev)
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.Do(layertest.Run{Dir: f.Random(f.Model.Len())})
	if err != nil {
		t.Fatal(err)
	}
	for i := 6*4 + 4; i < f.Model.Len(); i++ {
		if res.Grad[i] != 0 || res.HVP[i] != 0 {
			t.Fatalf("element %d: gradient %v, Hv %v", i, res.Grad[i], res.HVP[i])
		}
	}
}

// idle has a layer that it does not run.
type idle struct {
	models.Sequential
	unused *models.Linear
}

func (l idle) Params() []*models.Param { return append(l.Sequential.Params(), l.unused.Params()...) }
