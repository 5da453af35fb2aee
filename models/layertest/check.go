package layertest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// Exact is the relative tolerance between two float64 computations of the same
// number by different orders of operations: 5e4 roundings, well below what any
// wrong term leaves and above what a condition number of a small net costs.
const Exact = 1e-11

// Checks are all that a net must pass, by name.
var Checks = []struct {
	Name string
	Run  func(*Fixture) error
}{
	{"gradient", (*Fixture).Gradient},
	{"hvp and mixed", (*Fixture).HVP},
	{"symmetry and linearity", (*Fixture).Symmetry},
	{"example weights", (*Fixture).Weights},
	{"gauss-newton", (*Fixture).GaussNewton},
	{"replay", (*Fixture).Replay},
	{"per-example gradients", (*Fixture).PerExample},
	{"clipped product", (*Fixture).ClippedProduct},
	{"microbatches", (*Fixture).Microbatches},
}

// Check runs all Checks on the reference device, and again on one that runs
// behind its caller, with the same bits.
func Check(t *testing.T, p Problem) {
	t.Helper()
	dev := kernels.Reference()
	defer dev.Close()
	for _, c := range Checks {
		f, err := New(p, dev)
		if err == nil {
			err = c.Run(f)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", p.Name, c.Name, err)
		}
	}
	if err := async(p, dev); err != nil {
		t.Errorf("%s: asynchronous device: %v", p.Name, err)
	}
}

// Gradient differences the loss along the parameters and along x.
func (f *Fixture) Gradient() error {
	at, err := f.Do(Run{})
	if err != nil {
		return err
	}
	if at.UsedD != 0 {
		return fmt.Errorf("a plain gradient made %d numbers of derivatives", at.UsedD)
	}
	loss := func(r Run) (gradcheck.Probe, error) {
		res, err := f.Do(r)
		return gradcheck.Probe{Y: []float64{res.Loss(nil)}, Signs: res.Signs}, err
	}
	v, u := f.Random(len(f.Theta)), f.Random(len(f.X))
	err = gradcheck.Check("parameters", func(t float64) (gradcheck.Probe, error) {
		return loss(Run{Theta: plus(f.Theta, t, v)})
	}, at.Grad, v)
	if err != nil {
		return err
	}
	return gradcheck.Check("input", func(t float64) (gradcheck.Probe, error) {
		return loss(Run{X: plus(f.X, t, u)})
	}, at.DX, u)
}

// HVP differences the gradients along the parameters: Hv and the mixed
// derivative of one pass, and how the losses move.
func (f *Fixture) HVP() error {
	v := f.Random(len(f.Theta))
	at, err := f.Do(Run{Dir: v})
	if err != nil {
		return err
	}
	slopes := func(of func(Result) []float64) ([]float64, error) {
		return gradcheck.Central(func(t float64) (gradcheck.Probe, error) {
			res, err := f.Do(Run{Theta: plus(f.Theta, t, v)})
			return gradcheck.Probe{Y: of(res), Signs: res.Signs}, err
		})
	}
	for _, c := range []struct {
		name string
		got  []float64
		of   func(Result) []float64
	}{
		{"losses along v", at.LossesD, func(r Result) []float64 { return r.Losses }},
		{"mixed derivative", at.Mixed, func(r Result) []float64 { return r.DX }},
		{"Hv", at.HVP, func(r Result) []float64 { return r.Grad }},
	} {
		want, err := slopes(c.of)
		if err != nil {
			return err
		}
		if c.name == "Hv" { // each parameter by itself, or a small one hides
			off := 0
			for _, q := range f.Model.Params {
				to := off + q.Len()
				if err := gradcheck.Compare("Hv "+q.Name, c.got[off:to], want[off:to], gradcheck.Tolerance); err != nil {
					return err
				}
				off = to
			}
			continue
		}
		if err := gradcheck.Compare(c.name, c.got, want, gradcheck.Tolerance); err != nil {
			return err
		}
	}
	return nil
}

// Symmetry: u·Hv = v·Hu, H is linear, and the mixed derivative is the same
// both ways round.
func (f *Fixture) Symmetry() error {
	u, v, s := f.Random(len(f.Theta)), f.Random(len(f.Theta)), f.Random(len(f.X))
	hu, err := f.Do(Run{Dir: u})
	if err != nil {
		return err
	}
	hv, err := f.Do(Run{Dir: v})
	if err != nil {
		return err
	}
	hw, err := f.Do(Run{Dir: plus(u, 2, v)})
	if err != nil {
		return err
	}
	moved, err := f.Do(Run{XDir: s})
	if err != nil {
		return err
	}
	if err := scalar("u·Hv and v·Hu", gradcheck.Dot(u, hv.HVP), gradcheck.Dot(v, hu.HVP)); err != nil {
		return err
	}
	if err := gradcheck.Compare("H(u+2v)", hw.HVP, plus(hu.HVP, 2, hv.HVP), Exact); err != nil {
		return err
	}
	return scalar("mixed, both ways", gradcheck.Dot(s, hv.Mixed), gradcheck.Dot(v, moved.HVP))
}

// Weights: gradients are linear in the example weights, so their derivative
// along w's direction is the gradient with the direction as weights.
func (f *Fixture) Weights() error {
	w, dw := f.Random(f.Batch), f.Random(f.Batch)
	moved, err := f.Do(Run{W: w, WDir: dw})
	if err != nil {
		return err
	}
	other, err := f.Do(Run{W: dw})
	if err != nil {
		return err
	}
	if err := gradcheck.Compare("gradient along w", moved.HVP, other.Grad, Exact); err != nil {
		return err
	}
	return gradcheck.Compare("input gradient along w", moved.Mixed, other.DX, Exact)
}

// GaussNewton: u·Gv = (Ju)·(H Jv) with the Hessian H of the loss by the logits.
func (f *Fixture) GaussNewton() (err error) {
	s := &scratch{dev: f.dev}
	defer s.free(&err)
	product := func(v []float64) (gv, jv, hjv []float64) {
		x, _, _ := f.at(s, Run{})
		p := f.pass(nil)
		defer p.Free()
		p.Dir, p.HVP = f.split(s, v), s.alloc(f.Model.Len())
		z := p.Logits(f.Model, x)
		_, jv = s.parts(z)
		_, hjv = s.parts(p.Softmax(z))
		p.GaussNewton(f.Model, x, models.Value{})
		return s.read(p.HVP), jv, hjv
	}
	u, v := f.Random(len(f.Theta)), f.Random(len(f.Theta))
	gv, _, hjv := product(v)
	_, ju, _ := product(u)
	return scalar("u·Gv", gradcheck.Dot(u, gv), gradcheck.Dot(ju, hjv))
}

// Replay: a recorded pass replayed along two directions has the bits of fresh
// passes.
func (f *Fixture) Replay() (err error) {
	s := &scratch{dev: f.dev}
	defer s.free(&err)
	var dirs [2][]float64
	var want [2]Result
	for i := range dirs {
		dirs[i] = f.Random(len(f.Theta))
		if want[i], err = f.Do(Run{Dir: dirs[i]}); err != nil {
			return err
		}
	}
	x, labels, w := f.at(s, Run{})
	p := f.pass(nil)
	defer p.Free()
	p.Mode, p.Grad = models.Record, s.alloc(f.Model.Len())
	_, back := p.Loss(f.Model, x, labels, w)
	back(false)
	grad := s.read(p.Grad)
	p.Mode, p.Grad, p.HVP = models.Replay, nil, s.alloc(f.Model.Len())
	for i, v := range dirs {
		p.ResetD()
		p.Dir = f.split(s, v)
		losses, back := p.Loss(f.Model, x, labels, w)
		dx := back(true)
		if err := p.Err(); err != nil {
			return err
		}
		got := Result{Grad: grad, HVP: s.read(p.HVP)}
		got.Losses, got.LossesD = s.parts(losses)
		got.DX, got.Mixed = s.parts(dx)
		if err := sameBits(got, want[i]); err != nil {
			return err
		}
	}
	return nil
}

func async(p Problem, ref kernels.Device) error {
	queued := kernels.ReferenceAsync()
	defer queued.Close()
	var res [2]Result
	for i, dev := range []kernels.Device{ref, queued} {
		f, err := New(p, dev)
		if err != nil {
			return err
		}
		if res[i], err = f.Do(Run{Dir: f.Random(len(f.Theta))}); err != nil {
			return err
		}
		if p.Mixed {
			continue
		}
		v := f.Random(len(f.Theta))
		k, err := f.clipped(Run{}, f.midNorm(), v, true)
		if err != nil {
			return err
		}
		res[i].Grad, res[i].HVP, res[i].Mixed = k.sum, k.product, k.pixels
	}
	return sameBits(res[0], res[1])
}

func sameBits(got, want Result) error {
	for _, c := range []struct {
		name string
		a, b []float64
	}{
		{"losses", got.Losses, want.Losses}, {"losses along v", got.LossesD, want.LossesD},
		{"gradient", got.Grad, want.Grad}, {"Hv", got.HVP, want.HVP},
		{"input gradient", got.DX, want.DX}, {"mixed derivative", got.Mixed, want.Mixed},
	} {
		same := slices.EqualFunc(c.a, c.b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
		if !same || len(c.b) == 0 {
			return fmt.Errorf("%s: not the same bits", c.name)
		}
	}
	return nil
}

func scalar(what string, got, want float64) error {
	return gradcheck.Compare(what, []float64{got}, []float64{want}, Exact)
}

// plus is a + k b.
func plus(a []float64, k float64, b []float64) []float64 {
	sum := slices.Clone(a)
	for i := range sum {
		sum[i] += k * b[i]
	}
	return sum
}
