package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// rocChart draws TPR against FPR, both logarithmic, since an attacker cares
// for few false alarms: one thin curve per audit, their mean bold, and the
// range between the audits shaded.
func rocChart(methods []methodScores) *chart {
	most := 0 // non-members in the largest audit: no FPR below 1/most can be told from 0
	for _, m := range methods {
		for _, roc := range m.roc {
			most = max(most, roc[len(roc)-1].FP)
		}
	}
	lo := math.Min(0.02, 1/float64(most))
	rates := axis{Log: true, Min: lo, Max: 1, Ticks: logTicks(lo, 1)}
	c := &chart{Title: "ROC curves", Width: 536, Height: 510, X: rates, Y: rates}
	c.LegendRight, c.LegendLow = true, true // where no better attack than chance goes
	c.X.Label = "false positive rate: left-out canaries called members"
	c.Y.Label = "true positive rate: members found"
	c.Desc = "True positive rate against false positive rate on logarithmic axes. "

	c.Marks = append(c.Marks,
		mark{Ink: inkMuted, Weight: thin, Dashed: true, Points: []point{{lo, lo}, {1, 1}}},
		mark{Ink: inkText, Weight: thin, Dashed: true, Points: []point{{0.05, lo}, {0.05, 1}}})
	c.Notes = []note{{At: point{0.05, math.Pow(lo, 0.03)}, Text: "5\u00a0% FPR"}}

	grid := append(logGrid(lo, 1, 240), 0.05)
	slices.Sort(grid)
	for i, m := range methods {
		mean, low, high := envelope(m.roc, grid)
		if len(m.roc) > 1 {
			around := slices.Clone(high)
			slices.Reverse(low)
			c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: fill, Points: append(around, low...)})
			for _, roc := range m.roc {
				c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: hair, Points: steps(roc)})
			}
			c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: bold, Dashed: i%2 == 1, Points: mean})
		} else {
			c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: bold, Dashed: i%2 == 1, Points: steps(m.roc[0])})
		}
		text := m.Name
		if len(m.roc) > 1 {
			text += fmt.Sprintf(", mean of %d audits", len(m.roc))
		}
		c.Legend = append(c.Legend, key{Ink: ink(i), Dashed: i%2 == 1, Text: text})
		c.Desc += fmt.Sprintf("%s: at 5 %% false positives %s of the members are found. ", capitalise(m.Name), percent(m.TPR.Mean))
	}
	c.Legend = append(c.Legend, key{Ink: inkMuted, Dashed: true, Text: "chance"})
	c.Desc += "A table with the same numbers follows."
	return c
}

// steps draws a ROC as the staircase that it is.
func steps(roc []stats.Point) []point {
	points := make([]point, 0, 2*len(roc))
	for i, p := range roc {
		if i > 0 && p.FPR != roc[i-1].FPR && p.TPR != roc[i-1].TPR {
			points = append(points, point{p.FPR, roc[i-1].TPR})
		}
		points = append(points, point{p.FPR, p.TPR})
	}
	return points
}

// histogram shows the scores of members and non-members of all audits of one
// method, each as a share of its own group.
func histogram(m methodScores, number int) *chart {
	c := &chart{Title: "Scores of " + m.Name + " canaries", Width: 520, Height: 300}
	scale := scoreScale(m.in, m.out)
	in, out := scale.apply(m.in), scale.apply(m.out)
	tame(in, out)
	lo := min(slices.Min(in), slices.Min(out))
	hi := max(slices.Max(in), slices.Max(out))
	if lo == hi { // all scores are the same
		lo, hi = lo-1, hi+1
	}
	const bins = 40
	a, b := share(in, lo, hi, bins), share(out, lo, hi, bins)
	top := 1.3 * max(slices.Max(a), slices.Max(b))
	c.X = axis{Label: scale.label, Min: lo, Max: hi, Ticks: niceTicks(lo, hi, 6, plainNumber)}
	c.Y = axis{Label: "share of the group", Max: top, Ticks: niceTicks(0, top, 4, percent)}
	outline := outlineOf(a, lo, hi)
	c.Marks = []mark{
		{Ink: ink(number), Weight: fill, Points: outline},
		{Ink: ink(number), Weight: thin, Points: outline},
		{Ink: inkText, Weight: thin, Dashed: true, Points: outlineOf(b, lo, hi)},
	}
	c.Legend = []key{{Ink: ink(number), Text: "included"}, {Ink: inkText, Dashed: true, Text: "left out"}}
	c.Desc = fmt.Sprintf("Histogram of %d scores of included and %d of left-out canaries. Medians: %s and %s. The further apart, the more the model gives away.",
		len(in), len(out), plainNumber(median(in)), plainNumber(median(out)))
	return c
}

// scale is how scores are laid out on an axis.
type scale struct {
	label string
	logit bool
}

// scoreScale: a score that can be minus a cross-entropy, -ln p, is shown as
// the logit ln(p/(1-p)) of the label's probability p. That is a monotone
// function of the score, spreads out both ends, and is often nearly normal
// (Carlini et al. 2022, arXiv 2112.03570, section VI).
func scoreScale(groups ...[]float64) scale {
	for _, g := range groups {
		for _, v := range g {
			if !(v < 0) || math.IsInf(v, 0) {
				return scale{label: "score (minus the loss)"}
			}
		}
	}
	return scale{label: "logit of the label's probability (right: well learned)", logit: true}
}

func (s scale) apply(scores []float64) []float64 {
	out := slices.Clone(scores)
	for i, v := range out {
		if s.logit { // loss = -v = -ln p: p/(1-p) = 1/(exp(loss)-1)
			if v > -700 {
				v = -math.Log(math.Expm1(-v))
			} // else exp(loss) would overflow, and ln p/(1-p) = ln p = v
		}
		out[i] = v
	}
	return out
}

// tame moves infinite scores to the nearest finite one, so that they are drawn
// in the outermost bar.
func tame(groups ...[]float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, g := range groups {
		for _, v := range g {
			if finite(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo > hi {
		lo, hi = -1, 1
	}
	for _, g := range groups {
		for i, v := range g {
			g[i] = max(lo, min(v, hi))
		}
	}
}

// share is a histogram of v over [lo, hi], as fractions.
func share(v []float64, lo, hi float64, bins int) []float64 {
	h := make([]float64, bins)
	for _, x := range v {
		i := int(float64(bins) * (x - lo) / (hi - lo))
		h[max(0, min(i, bins-1))] += 1 / float64(len(v))
	}
	return h
}

// outlineOf goes around the bars of a histogram.
func outlineOf(h []float64, lo, hi float64) []point {
	width := (hi - lo) / float64(len(h))
	points := []point{{lo, 0}}
	for i, v := range h {
		points = append(points, point{lo + float64(i)*width, v}, point{lo + float64(i+1)*width, v})
	}
	return append(points, point{hi, 0})
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// trainingCharts shows the training loss and, if measured, the test accuracy
// over epochs; nil where no run has a curve.
func trainingCharts(r *audit.Report) []*chart {
	loss := curveChart(r, "Training loss", "training loss",
		func(p audit.Point) *float64 { return &p.TrainLoss }, plainNumber)
	accuracy := curveChart(r, "Accuracy on unseen examples", "test accuracy",
		func(p audit.Point) *float64 { return p.TestAccuracy }, percent)
	if loss != nil {
		loss.LegendRight = true // the curve falls
	}
	if accuracy != nil {
		accuracy.LegendRight, accuracy.LegendLow = true, true // it rises
	}
	return slices.DeleteFunc([]*chart{loss, accuracy}, func(c *chart) bool { return c == nil })
}

func curveChart(r *audit.Report, title, label string, value func(audit.Point) *float64, format func(float64) string) *chart {
	c := &chart{Title: title, Width: 520, Height: 300, X: axis{Label: "epoch"}, Y: axis{Label: label}}
	c.Desc = title + " over the epochs of training. "
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, m := range r.Methods {
		last, runs := 0.0, 0
		w, dashed := thin, i%2 == 1
		if len(m.Runs) > 3 {
			w, dashed = hair, false
		}
		for _, run := range m.Runs {
			var points []point
			for _, p := range run.Curve {
				if v := value(p); v != nil && finite(*v) {
					points = append(points, point{p.Epoch, *v})
					lo, hi = min(lo, *v), max(hi, *v)
					c.X.Max = max(c.X.Max, p.Epoch)
				}
			}
			if len(points) == 0 {
				continue
			}
			last, runs = last+points[len(points)-1].Y, runs+1
			c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: w, Dashed: dashed, Points: points})
		}
		if runs == 0 {
			continue
		}
		c.Legend = append(c.Legend, key{Ink: ink(i), Dashed: dashed, Text: fmt.Sprintf("%s, %s", m.Name, count(runs, "audit"))})
		c.Desc += fmt.Sprintf("%s: %s at the end, on average. ", capitalise(m.Name), format(last/float64(runs)))
	}
	if len(c.Marks) == 0 || c.X.Max == 0 {
		return nil
	}
	pad := 0.06 * (hi - lo)
	if pad == 0 {
		pad = math.Max(0.01, 0.06*math.Abs(hi))
	}
	c.Y.Min, c.Y.Max = lo-pad, hi+pad
	c.Y.Ticks = niceTicks(c.Y.Min, c.Y.Max, 5, format)
	c.X.Ticks = niceTicks(0, c.X.Max, 8, plainNumber)
	return c
}
