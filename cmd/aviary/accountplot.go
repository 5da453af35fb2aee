package main

import (
	"bytes"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // so that a plot can be written as SVG

	"github.com/aviary-audit/aviary/audit/accounting"
)

// checkDraw refuses what has no curve over the steps, and paths that cannot be
// written.
func (s *accountSettings) checkDraw() error {
	if len(s.phases) > 0 {
		return usageError("", "--svg draws one phase, not --phase")
	}
	if s.steps < 1 {
		return usageError("", "--svg with --steps %d, expected 1 or more", s.steps)
	}
	return checkPlot("svg", s.svg)
}

// draw plots ε against the number of steps: as prv has it, and as rdp does where
// it has a rule.
func (s *accountSettings) draw(relation accounting.Relation) ([]byte, error) {
	var steps, tight, rdp []float64
	const points = 24
	last := 0
	for i := range points {
		n := int(math.Round(math.Pow(float64(s.steps), float64(i+1)/points)))
		if n == last {
			continue
		}
		last = n
		e := phaseOf(s.sampleRate, s.noise, n, relation)
		curve, err := accounting.NewCurve(e, s.delta)
		if err != nil {
			return nil, err
		}
		v, err := curve.Epsilon(s.delta)
		if err != nil {
			return nil, err
		}
		switch {
		case s.noise == 0:
			return nil, usageError("", "--svg: epsilon is infinite without noise")
		case math.IsInf(v.Upper, 1):
			return nil, usageError("give fewer --steps, or more noise", "--svg: no bound on epsilon at %d steps", n)
		}
		steps, tight = append(steps, float64(n)), append(tight, v.Upper)
		if r, _, err := accounting.RDPEpsilon(e, s.delta); err == nil {
			rdp = append(rdp, r)
		}
	}
	if len(rdp) < len(steps) {
		rdp = nil
	}
	return epsilonSVG(fmt.Sprintf("ε at δ = %g, rate %g, noise %g, %s", s.delta, s.sampleRate, s.noise, s.relation), steps, tight, rdp)
}

// epsilonSVG draws two accountants' ε against the number of steps; rdp may be
// missing.
func epsilonSVG(title string, steps, tight, rdp []float64) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "steps", "ε"
	p.Legend.Left, p.Legend.Top = true, true
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	for i, ys := range [][]float64{tight, rdp} {
		if ys == nil {
			continue
		}
		points := make(plotter.XYs, len(steps))
		for j, x := range steps {
			points[j].X, points[j].Y = x, ys[j]
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Width = vg.Points(1.5)
		if i == 1 {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		p.Legend.Add([]string{"prv", "rdp"}[i], line)
	}
	w, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
