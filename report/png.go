package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// chartPNG draws c on a canvas of gonum/plot, for documents that take no SVG,
// in the same places as chart.svg.tmpl: one unit is a point, at 160 dots per inch.
func chartPNG(c *chart) ([]byte, error) {
	size := vgimg.UseWH(vg.Points(c.Width), vg.Points(c.Height))
	canvas := vgimg.NewWith(size, vgimg.UseDPI(160), vgimg.UseBackgroundColor(color.White))
	p := pen{chart: c, canvas: draw.New(canvas)}
	p.drawAll()
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("report: png: %w", err)
	}
	return b.Bytes(), nil
}

// pen draws at the chart's coordinates, whose y points down.
type pen struct {
	*chart
	canvas draw.Canvas
}

func (p pen) drawAll() {
	left, right, top, bottom := float64(marginLeft), p.Width-marginRight, float64(marginTop), p.Height-marginBottom
	grid, soft, strong := neutral("grid"), neutral("soft"), neutral("text")
	for _, t := range p.X.Ticks {
		x := p.x(t.At)
		p.line(gridStyle(t, grid), [2]float64{x, top}, [2]float64{x, bottom})
		p.text(t.Label, x, bottom+18, soft, text.XCenter, 0)
	}
	for _, t := range p.Y.Ticks {
		y := p.y(t.At)
		p.line(gridStyle(t, grid), [2]float64{left, y}, [2]float64{right, y})
		p.text(t.Label, left-7, y+4, soft, text.XRight, 0)
	}
	for _, m := range p.Marks {
		p.mark(m)
	}
	frame := draw.LineStyle{Color: colourOf(soft, 1), Width: vg.Points(1.2)}
	p.line(frame, [2]float64{left, top}, [2]float64{left, bottom}, [2]float64{right, bottom})
	p.text(p.X.Label, (left+right)/2, p.Height-10, strong, text.XCenter, 0)
	p.text(p.Y.Label, 13, (top+bottom)/2, strong, text.XCenter, math.Pi/2)
	for _, n := range p.Notes {
		p.text(n.Text, p.x(n.At.X)+5, p.y(n.At.Y), soft, text.XLeft, 0)
	}
	v := p.view("")
	for i, k := range p.Legend {
		x, y := v.LegendX, v.Keys[i].Y
		p.line(mark{Ink: k.Ink, Dashed: k.Dashed, Weight: bold}.lineStyle(), [2]float64{x + 10, y - 4}, [2]float64{x + 38, y - 4})
		p.text(k.Text, x+46, y, strong, text.XLeft, 0)
	}
}

func gridStyle(t tick, hex string) draw.LineStyle {
	if t.Label == "" {
		return draw.LineStyle{Color: colourOf(hex, 0.45), Width: vg.Points(1)}
	}
	return draw.LineStyle{Color: colourOf(hex, 1), Width: vg.Points(1)}
}

func (p pen) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Points(x), Y: vg.Points(p.Height - y)}
}

func (p pen) line(s draw.LineStyle, points ...[2]float64) {
	at := make([]vg.Point, len(points))
	for i, q := range points {
		at[i] = p.at(q[0], q[1])
	}
	p.canvas.StrokeLines(s, at)
}

func (p pen) mark(m mark) {
	at := make([]vg.Point, len(m.Points))
	for i, q := range m.Points {
		at[i] = p.at(p.x(q.X), p.y(q.Y))
	}
	if m.Weight == fill {
		p.canvas.FillPolygon(m.colour(0.13), at)
		return
	}
	p.canvas.StrokeLines(m.lineStyle(), at)
}

// text writes s with its base line at y; angle is counter-clockwise.
func (p pen) text(s string, x, y float64, hex string, align text.XAlignment, angle float64) {
	p.canvas.FillText(draw.TextStyle{
		Color:    colourOf(hex, 1),
		Font:     font.Font{Typeface: "Liberation", Variant: "Sans", Size: 13},
		Rotation: angle,
		XAlign:   align,
		Handler:  plot.DefaultTextHandler,
	}, p.at(x, y), s)
}

func (m mark) lineStyle() draw.LineStyle {
	s := draw.LineStyle{Color: m.colour(1)}
	switch m.Weight {
	case hair:
		s.Color, s.Width = m.colour(0.35), vg.Points(1)
		return s
	case thin:
		s.Width = vg.Points(1.8)
	default:
		s.Width = vg.Points(3)
	}
	if m.Dashed {
		s.Dashes = []vg.Length{vg.Points(7), vg.Points(4)}
		if m.Ink == inkText {
			s.Width, s.Dashes = vg.Points(1.3), []vg.Length{vg.Points(3), vg.Points(3)}
		}
	}
	return s
}

func (m mark) colour(opacity float64) color.Color {
	switch m.Ink {
	case inkText:
		return colourOf(neutral("text"), opacity)
	case inkMuted:
		return colourOf(neutral("soft"), opacity)
	}
	return colourOf(palette[int(m.Ink)%len(palette)].light, opacity)
}
