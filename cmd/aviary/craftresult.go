package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/report"
)

// craftResult is what craft prints.
type craftResult struct {
	File     string             `json:"file"`
	Page     string             `json:"page,omitempty"` // with pictures
	Method   string             `json:"method"`
	Canaries int                `json:"num_canaries"`
	Seed     uint64             `json:"seed"`
	Sets     []craftedSet       `json:"sets"`
	Seconds  map[string]float64 `json:"timing"` // by stage, of all sets, and "total"
}

// craftedSet is one set. Without refinement it has no figures.
type craftedSet struct {
	Set     int                `json:"set"`
	Seconds map[string]float64 `json:"timing"`
	// MeanSquaredCosine is between different canaries' embeddings at θ*, before
	// and after refinement: what the regulariser lowers.
	MeanSquaredCosine *[2]float64 `json:"mean_squared_cosine,omitempty"`
	// MeanChange is the mean over pixels of how far they moved.
	MeanChange *float64 `json:"mean_pixel_change,omitempty"`
}

func (r *craftResult) add(set int, c *ibis.Crafted) {
	s := craftedSet{Set: set, Seconds: c.Seconds}
	for stage, v := range c.Seconds {
		r.Seconds[stage] += v
		r.Seconds["total"] += v
	}
	if c.Trace != nil {
		s.MeanSquaredCosine = &[2]float64{meanSquare(c.CosineBefore, c.Canaries.Len()), meanSquare(c.CosineAfter, c.Canaries.Len())}
		change := 0.0
		for i, x := range c.Canaries.X {
			d := float64(x) - float64(c.Before.X[i])
			change += max(d, -d)
		}
		change /= float64(len(c.Canaries.X))
		s.MeanChange = &change
	}
	r.Sets = append(r.Sets, s)
}

// meanSquare is the mean square of the elements off the diagonal.
func meanSquare(c []float64, m int) float64 {
	sum := 0.0
	for i, v := range c {
		if i/m != i%m {
			sum += v * v
		}
	}
	return sum / float64(m*(m-1))
}

func (r *craftResult) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "set\tseconds\tmean cos² of embeddings\tmean |change of a pixel|\n")
	for _, s := range r.Sets {
		total := 0.0
		for _, v := range s.Seconds {
			total += v
		}
		cosine, change := "", ""
		if s.MeanSquaredCosine != nil {
			cosine = fmt.Sprintf("%.4f → %.4f", s.MeanSquaredCosine[0], s.MeanSquaredCosine[1])
			change = fmt.Sprintf("%.4f", *s.MeanChange)
		}
		fmt.Fprintf(t, "%d\t%.1f\t%s\t%s\n", s.Set, total, cosine, change)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if total := r.Seconds["total"]; total > 0 {
		fmt.Fprintf(w, "\ntime: ")
		comma := ""
		for _, stage := range ibis.Stages() {
			if v, ok := r.Seconds[stage]; ok {
				fmt.Fprintf(w, "%s%s %.1f s", comma, stage, v)
				comma = ", "
			}
		}
		fmt.Fprintln(w)
	}
	sets := "sets"
	if len(r.Sets) == 1 {
		sets = "set"
	}
	_, err := fmt.Fprintf(w, "\n%d %s of %d %s canaries: %s\n", len(r.Sets), sets, r.Canaries, r.Method, r.File)
	if r.Page != "" {
		_, err = fmt.Fprintf(w, "pictures: %s\n", r.Page)
	}
	return err
}

// craftedPage is a set as its page shows it. Matrices are for the set that is
// drawn.
func craftedPage(set int, c *ibis.Crafted, drawn bool) report.CraftSet {
	p := report.CraftSet{
		Set: set, Index: c.Before.Removed, Before: c.Before.X, After: c.Canaries.X,
		LabelsBefore: c.Before.Y, Labels: c.Canaries.Y,
	}
	if !drawn {
		return p
	}
	p.CosineBefore, p.CosineAfter, p.InfluenceAfter = c.CosineBefore, c.CosineAfter, c.InfluenceAfter
	if c.Chosen != nil {
		p.InfluenceBefore = c.Chosen.Influence
	}
	if c.Trace != nil {
		for _, t := range c.Trace.Points {
			p.Trace = append(p.Trace, report.CraftPoint{Step: t.Step, Loss: t.Loss, LossStar: t.LossStar, R: t.R})
		}
	}
	return p
}
