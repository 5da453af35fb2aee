package main

import (
	"bytes"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // so that a plot can be written as SVG
)

// epsilonSVG draws two accountants' ε against the number of steps.
func epsilonSVG(title string, steps, tight, rdp []float64) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "steps", "ε"
	p.Legend.Left, p.Legend.Top = true, true
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	for i, ys := range [][]float64{tight, rdp} {
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
