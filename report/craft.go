package report

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"path/filepath"

	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// The files that WriteCraft makes. The sheet is made for images only.
const (
	CraftHTML  = "craft.html"
	CraftSheet = "gallery.png"
)

// Craft is how canaries were crafted.
type Craft struct {
	Method, Data, Model, Recipe, Version string
	Seed                                 uint64
	Shape                                []int // of one example
	Sets                                 []CraftSet
	Stages                               []CraftStage // over all sets, in their order
}

// CraftStage is how long one stage took.
type CraftStage struct {
	Name    string
	Seconds float64
}

// CraftSet is one set of m canaries. What was not measured is nil.
type CraftSet struct {
	Set                  int
	Index                []int     // [m]: the training examples that they were
	Before, After        []float32 // [m, Shape...]: pixels of those, and of the canaries
	LabelsBefore, Labels []int32   // [m]
	// Matrices [m, m], row by row: the influence of column j's membership on row
	// i's score, and cosines between embeddings at θ*, of the examples and of the
	// canaries.
	InfluenceBefore, InfluenceAfter []float64
	CosineBefore, CosineAfter       []float64
	Trace                           []CraftPoint
}

// CraftPoint is a moment of the refinement: the canaries' mean losses at θ and
// at θ*, and the regulariser.
type CraftPoint struct {
	Step              int
	Loss, LossStar, R float64
}

// WriteCraft makes craft.html and, for images, gallery.png in dir. Both can be
// made of every set; the page shows the first.
func WriteCraft(dir string, c *Craft) error {
	if err := c.check(); err != nil {
		return err
	}
	page, err := craftPage(c)
	if err != nil {
		return err
	}
	if c.isImage() {
		sheet, err := contactSheet(c.Shape, c.Sets[0])
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, CraftSheet), 0o644, sheet); err != nil {
			return err
		}
	}
	return atomicfile.WriteBytes(filepath.Join(dir, CraftHTML), 0o644, page)
}

// check refuses what cannot be shown.
func (c *Craft) check() error {
	if len(c.Sets) == 0 {
		return fmt.Errorf("report: no crafted sets, expected at least one")
	}
	size := 1
	for _, n := range c.Shape {
		size *= n
	}
	for _, s := range c.Sets {
		m := len(s.Index)
		wrong := func(field string, got, want int) error {
			return fmt.Errorf("report: crafted set %d: %s has %d values, expected %d", s.Set, field, got, want)
		}
		switch {
		case m == 0:
			return wrong("index", 0, 1)
		case len(s.Before) != m*size:
			return wrong("pixels before", len(s.Before), m*size)
		case len(s.After) != m*size:
			return wrong("pixels after", len(s.After), m*size)
		case len(s.LabelsBefore) != m:
			return wrong("labels before", len(s.LabelsBefore), m)
		case len(s.Labels) != m:
			return wrong("labels", len(s.Labels), m)
		}
		for i, v := range s.After {
			if !finite(float64(v)) || !finite(float64(s.Before[i])) {
				return fmt.Errorf("report: crafted set %d: canary %d has the pixel %v, before %v, expected numbers", s.Set, i/size, v, s.Before[i])
			}
		}
		for _, f := range []struct {
			name string
			v    []float64
		}{
			{"influence before", s.InfluenceBefore}, {"influence after", s.InfluenceAfter},
			{"cosines before", s.CosineBefore}, {"cosines after", s.CosineAfter},
		} {
			if f.v != nil && len(f.v) != m*m {
				return wrong(f.name, len(f.v), m*m)
			}
			for i, v := range f.v {
				if !finite(v) {
					return fmt.Errorf("report: crafted set %d: %s, row %d, column %d: %v, expected a number", s.Set, f.name, i/m, i%m, v)
				}
			}
		}
		for _, p := range s.Trace {
			if !finite(p.Loss) || !finite(p.LossStar) || !finite(p.R) {
				return fmt.Errorf("report: crafted set %d: step %d of the refinement: loss %v, at θ* %v, regulariser %v, expected numbers", s.Set, p.Step, p.Loss, p.LossStar, p.R)
			}
		}
	}
	return nil
}

// isImage says whether examples are grey or colour images.
func (c *Craft) isImage() bool {
	return len(c.Shape) == 3 && (c.Shape[2] == 1 || c.Shape[2] == 3)
}

// craftView is what the craft template shows.
type craftView struct {
	*Craft
	CSS      template.CSS
	Canaries int
	Cosines  string // "0.165 → 0.005", "" where there are none
	Change   string // mean |change of a pixel|, "" where there is none
	Outside  int    // pixels of the canaries beyond [0, 1]
	Seconds  float64
	Gallery  []galleryItem
	Maps     []heatPair
	Curves   []template.HTML
}

// galleryItem is a canary and what it was.
type galleryItem struct {
	Before, After       template.URL // PNG
	Label, LabelBefore  int32
	Canary, Example     int
	Refined, Relabelled bool
}

// heatPair is a matrix before and after.
type heatPair struct {
	Title, About  string
	Before, After *heatMap
}

// galleryMax is how many canaries the page and the sheet show.
const galleryMax = 100

func craftPage(c *Craft) ([]byte, error) {
	s := c.Sets[0]
	v := craftView{Craft: c, CSS: variables() + template.CSS(chartCSS+pageCSS), Canaries: len(s.Index)}
	for _, stage := range c.Stages {
		v.Seconds += stage.Seconds
	}
	if s.CosineBefore != nil && s.CosineAfter != nil && len(s.Index) > 1 {
		v.Cosines = fixed(meanSquareApart(s.CosineBefore, len(s.Index))) + " → " + fixed(meanSquareApart(s.CosineAfter, len(s.Index)))
	}
	change := 0.0
	for i, x := range s.After {
		change += math.Abs(float64(x)-float64(s.Before[i])) / float64(len(s.After))
		if x < 0 || x > 1 {
			v.Outside++
		}
	}
	if change > 0 {
		v.Change = fixed(change)
	}
	if c.isImage() {
		size := len(s.After) / len(s.Index)
		for i := range min(galleryMax, len(s.Index)) {
			before, after := s.Before[i*size:(i+1)*size], s.After[i*size:(i+1)*size]
			item := galleryItem{
				Canary: i, Example: s.Index[i], Label: s.Labels[i], LabelBefore: s.LabelsBefore[i],
				Relabelled: s.Labels[i] != s.LabelsBefore[i],
			}
			var err error
			if item.Before, err = imageURL(c.Shape, before); err != nil {
				return nil, err
			}
			if item.After, err = imageURL(c.Shape, after); err != nil {
				return nil, err
			}
			item.Refined = item.Before != item.After
			v.Gallery = append(v.Gallery, item)
		}
	}
	order, m := byLabel(s.Labels), len(s.Index)
	for _, f := range []struct {
		title, about  string
		before, after []float64
	}{
		{"Cosines between embeddings at θ*", "What the regulariser lowers: canaries whose embeddings are at right angles hardly move each other’s scores.", s.CosineBefore, s.CosineAfter},
		{"Influence", "How the membership of the canary in the column moves the score of that in the row, at the model that chose: I(i, j) / √(I(i, i) I(j, j)). The diagonal is what an audit sees, the rest is interference.", relative(s.InfluenceBefore, m), relative(s.InfluenceAfter, m)},
	} {
		if f.before == nil && f.after == nil {
			continue
		}
		scale := heatScale(f.before, f.after)
		pair := heatPair{Title: f.title, About: f.about}
		var err error
		if pair.Before, err = newHeatMap(f.before, order, scale); err != nil {
			return nil, err
		}
		if pair.After, err = newHeatMap(f.after, order, scale); err != nil {
			return nil, err
		}
		v.Maps = append(v.Maps, pair)
	}
	for i, chart := range craftCharts(s.Trace) {
		svg, err := inlineSVG(chart, fmt.Sprintf("craft-%d", i))
		if err != nil {
			return nil, err
		}
		v.Curves = append(v.Curves, svg)
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "craft", v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// relative divides the elements of an [m, m] matrix by the roots of the
// diagonal's, where those are positive; nil for none.
func relative(v []float64, m int) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, len(v))
	for i := range v {
		if d := v[i/m*m+i/m] * v[i%m*m+i%m]; d > 0 {
			out[i] = v[i] / math.Sqrt(d)
		}
	}
	return out
}

// meanSquareApart is the mean square off the diagonal of an [m, m] matrix.
func meanSquareApart(c []float64, m int) float64 {
	sum := 0.0
	for i, v := range c {
		if i/m != i%m {
			sum += v * v
		}
	}
	return sum / float64(m*(m-1))
}

// craftCharts draw the refinement: losses, and the regulariser.
func craftCharts(trace []CraftPoint) []*chart {
	if len(trace) < 2 {
		return nil
	}
	type curve struct {
		name string
		of   func(CraftPoint) float64
	}
	draw := func(title, label string, curves ...curve) *chart {
		c := &chart{Title: title, Width: 520, Height: 300, X: axis{Label: "step"}, Y: axis{Label: label}, LegendRight: true}
		c.Desc = title + " over the steps of the refinement. "
		hi := 0.0
		for i, k := range curves {
			var points []point
			for _, p := range trace {
				points = append(points, point{float64(p.Step), k.of(p)})
				hi = max(hi, k.of(p))
			}
			c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: bold, Dashed: i%2 == 1, Points: points})
			c.Legend = append(c.Legend, key{Ink: ink(i), Dashed: i%2 == 1, Text: k.name})
			c.Desc += fmt.Sprintf("%s: %s at first, %s at last. ", capitalise(k.name), plainNumber(points[0].Y), plainNumber(points[len(points)-1].Y))
		}
		if hi == 0 {
			hi = 1
		}
		c.Y.Max = 1.06 * hi
		c.X.Max = float64(trace[len(trace)-1].Step)
		c.Y.Ticks = niceTicks(0, c.Y.Max, 5, plainNumber)
		c.X.Ticks = niceTicks(0, c.X.Max, 8, plainNumber)
		return c
	}
	return []*chart{
		draw("Mean loss of the canaries", "loss",
			curve{"trained without them (θ*)", func(p CraftPoint) float64 { return p.LossStar }},
			curve{"trained with them (θ)", func(p CraftPoint) float64 { return p.Loss }}),
		draw("Regulariser", "R", curve{"sum of squared cosines, times λ", func(p CraftPoint) float64 { return p.R }}),
	}
}
