package report

import (
	"fmt"
	"math"
	"strconv"
)

// point is a place in data coordinates.
type point struct{ X, Y float64 }

// chart is a plot, independent of how it is drawn: svg.go and png.go do that.
type chart struct {
	Title, Desc   string // what a reader who cannot see it is told
	Width, Height float64
	X, Y          axis
	Marks         []mark
	Notes         []note
	Legend        []key
	LegendRight   bool // rather than left
	LegendLow     bool // rather than at the top
}

// axis maps data to [0,1].
type axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Ticks    []tick
}

// tick is a grid line; minor ones have no label.
type tick struct {
	At    float64
	Label string
}

// ink says in which colour: a method's number, or one of the neutrals.
type ink int

const (
	inkText  ink = -1
	inkMuted ink = -2
)

// weight says how strongly a line is drawn.
type weight int

const (
	hair weight = iota // one audit among many
	thin
	bold // the mean
	fill // an area
)

// mark is a line, or an area for weight fill (its points go around).
type mark struct {
	Ink    ink
	Weight weight
	Dashed bool
	Points []point
}

// note is text inside the plot, to the right of a point.
type note struct {
	At   point
	Text string
}

// key is one entry of a legend.
type key struct {
	Ink    ink
	Dashed bool
	Text   string
}

// Space around the plot area, in the units of Width and Height.
const (
	marginLeft   = 64
	marginRight  = 24
	marginTop    = 12
	marginBottom = 50
)

// at maps v to 0 (axis minimum) to 1 (maximum); what lies outside sticks to
// the border.
func (a axis) at(v float64) float64 {
	if a.Log {
		return clamp(math.Log(math.Max(v, a.Min)/a.Min) / math.Log(a.Max/a.Min))
	}
	return clamp((v - a.Min) / (a.Max - a.Min))
}

func clamp(t float64) float64 { return math.Max(0, math.Min(1, t)) }

// x and y map data to the chart's units; y points down, as in SVG.
func (c *chart) x(v float64) float64 {
	return marginLeft + c.X.at(v)*(c.Width-marginLeft-marginRight)
}

func (c *chart) y(v float64) float64 {
	return c.Height - marginBottom - c.Y.at(v)*(c.Height-marginTop-marginBottom)
}

// logTicks labels the decades, and 2 and 5 between them where there are few.
func logTicks(lo, hi float64) []tick {
	dense := math.Log10(hi/lo) < 3.01
	var ticks []tick
	for e := math.Floor(math.Log10(lo) + 1e-9); ; e++ {
		for d := 1.0; d < 10; d++ {
			v := d * math.Pow(10, e)
			if v > hi*(1+1e-9) {
				return ticks
			}
			if v < lo*(1-1e-9) {
				continue
			}
			t := tick{At: v}
			if d == 1 || dense && (d == 2 || d == 5) {
				t.Label = percent(v)
			}
			ticks = append(ticks, t)
		}
	}
}

// niceTicks are about n round numbers from lo to hi.
func niceTicks(lo, hi float64, n int, label func(float64) string) []tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var ticks []tick
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+1e-9*step; k++ {
		ticks = append(ticks, tick{At: k * step, Label: label(k * step)})
	}
	return ticks
}

func percent(v float64) string {
	return plainNumber(100*v) + "\u00a0%"
}

func plainNumber(v float64) string {
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if v == 0 {
		return "0" // not "-0"
	}
	if s[0] == '-' {
		return "−" + s[1:]
	}
	return s
}

// path is the "d" of an SVG path. Points closer than a third of a unit to the
// last one drawn are left out: they cannot be seen, and curves have thousands.
func (c *chart) path(points []point, closed bool) string {
	const invisible = 0.3
	d := make([]byte, 0, 12*len(points))
	lastX, lastY := math.Inf(-1), math.Inf(-1)
	for i, p := range points {
		x, y := c.x(p.X), c.y(p.Y)
		if i > 0 && i < len(points)-1 && math.Abs(x-lastX) < invisible && math.Abs(y-lastY) < invisible {
			continue
		}
		command := "L"
		if i == 0 {
			command = "M"
		}
		d = fmt.Appendf(d, "%s%.1f %.1f", command, x, y)
		lastX, lastY = x, y
	}
	if closed {
		d = append(d, 'Z')
	}
	return string(d)
}
