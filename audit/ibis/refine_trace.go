package ibis

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// The figures of a TracePoint, as the device sums them.
const (
	figureLoss = iota
	figureLossStar
	figureR
	figureV
	figureGX
	numFigures
)

// figure sums v on the device; the zero Value is 0.
func (r *refiner) figure(which int, v models.Value) {
	to := r.figures.Mem().Slice(which, 1)
	if v.IsNone() {
		r.dev.Fill(to, 0)
		return
	}
	x, _ := tensor.Parts(v)
	r.dev.Sum(to, x.Mem(), whole(x.Shape()...), false)
}

// observe reads the figures of an outer step: one wait for the device.
func (r *refiner) observe() error {
	r.figure(figureV, models.Value{})
	if r.v != nil {
		r.dev.Dot(r.figures.Mem().Slice(figureV, 1), r.v.Mem(), r.v.Mem(), false)
	}
	r.dev.Dot(r.figures.Mem().Slice(figureGX, 1), r.gx.Mem(), r.gx.Mem(), false)
	f, err := r.figures.Floats(r.dev)
	if err != nil {
		return err
	}
	b := float64(r.b)
	p := TracePoint{
		Step: r.step, Loss: f[figureLoss] / b, LossStar: f[figureLossStar] / b,
		R: f[figureR] * float64(r.m) / b, V: math.Sqrt(f[figureV]), GX: math.Sqrt(f[figureGX]),
	}
	for _, c := range []struct {
		what string
		x    float64
	}{
		{"the canaries' mean loss", p.Loss}, {"their mean loss at θ*", p.LossStar}, {"the regulariser", p.R},
		{"|v|", p.V}, {"the norm of the pixels' gradient", p.GX},
	} {
		if err := r.finite(c.what, c.x); err != nil {
			return err
		}
	}
	r.points = append(r.points, p)
	return nil
}

// checkEnd looks at what the last steps left.
func (r *refiner) checkEnd() error {
	for _, c := range []struct {
		what string
		t    *tensor.Tensor
	}{{"|θ|", r.theta.Theta}, {"|v|", r.v}, {"the norm of the pixels", r.canaries.X}} {
		if c.t == nil {
			continue
		}
		r.dev.Dot(r.figures.Mem().Slice(0, 1), c.t.Mem(), c.t.Mem(), false)
		f, err := r.figures.Floats(r.dev)
		if err != nil {
			return err
		}
		if err := r.finite(c.what, math.Sqrt(f[0])); err != nil {
			return err
		}
	}
	return r.pass.Err()
}

func (r *refiner) finite(what string, x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%s is %v: %w (eta is %v, rho is %v)", what, x, train.ErrDiverged, r.cfg.Eta, r.cfg.Rho)
	}
	return nil
}
