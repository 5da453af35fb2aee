package report

import (
	"errors"
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// PrivacyLine is an (ε, δ) to draw into a ROC plot: the most that an attack on
// a mechanism of this ε and δ can reach.
type PrivacyLine struct {
	Epsilon, Delta float64
	Estimator      string // that found ε as a lower bound
}

// ScoresROC draws the ROC curves of one or more games as a file of SVG, and
// the line of a bound on ε, unless its ε is negative or infinite.
func ScoresROC(games []audit.Scores, line PrivacyLine) ([]byte, error) {
	c, err := scoresROC(games, line)
	if err != nil {
		return nil, err
	}
	return standaloneSVG(c)
}

func scoresROC(games []audit.Scores, line PrivacyLine) (*chart, error) {
	if len(games) == 0 {
		return nil, errors.New("report: no games to draw")
	}
	m := methodScores{}
	auc := 0.0
	for _, s := range games {
		roc, err := stats.ROC(s)
		if err != nil {
			return nil, err
		}
		a, err := stats.AUC(s)
		if err != nil {
			return nil, err
		}
		m.roc = append(m.roc, roc)
		auc += a / float64(len(games))
	}
	c := rocChart([]methodScores{m})
	c.X.Label, c.Y.Label = "false positive rate: non-members called members", "true positive rate: members found"
	c.Desc = "True positive rate against false positive rate on logarithmic axes. "
	if len(games) == 1 {
		c.Legend[0].Text = "scores"
		c.Desc += fmt.Sprintf("The area under the curve is %.3f. ", auc)
	} else {
		c.Legend[0].Text = fmt.Sprintf("scores, mean of %d games", len(games))
		c.Desc += fmt.Sprintf("The area under the curve is %.3f in the mean of %d games. ", auc, len(games))
	}
	if line.Epsilon >= 0 && finite(line.Epsilon) {
		c.Marks = append(c.Marks, mark{Ink: 1, Weight: thin, Points: line.points(c.X)})
		text := fmt.Sprintf("most at ε = %s, δ = %s", roundedDown(line.Epsilon), plainNumber(line.Delta))
		c.Legend = append(c.Legend, key{Ink: 1, Text: text})
		c.Desc += fmt.Sprintf("A line shows the most that any attack reaches where ε is %s, which %s finds to be a lower bound. Where the curve is above it, it may be so by chance.",
			roundedDown(line.Epsilon), line.Estimator)
	}
	return c, nil
}

// points is the boundary of the region of (FPR, TPR) that (ε, δ) allows,
//
//	TPR <= min(e^ε FPR + δ, 1 - e^-ε (1 - δ - FPR), 1)
//
// (Kairouz, Oh and Viswanath 2015, section 2), over the rates of an axis.
func (l PrivacyLine) points(rates axis) []point {
	var points []point
	for _, fpr := range logGrid(rates.Min, rates.Max, 240) {
		tpr := math.Min(math.Exp(l.Epsilon)*fpr+l.Delta, 1-math.Exp(-l.Epsilon)*(1-l.Delta-fpr))
		points = append(points, point{fpr, math.Min(tpr, 1)})
	}
	return points
}

// roundedDown writes a lower bound with four decimals.
func roundedDown(v float64) string { return fmt.Sprintf("%.4f", math.Floor(v*1e4)/1e4) }

// calibrationBins is how many points a calibration plot has: few, so that
// their intervals are short.
const calibrationBins = 10

// Calibration draws, as a file of SVG, what share of the candidates of one or
// more games are members against their score, in bins of equal count with 95 %
// intervals. Scores that tell nothing give a level line at the share of members.
func Calibration(games []audit.Scores) ([]byte, error) {
	c, err := calibrationChart(games)
	if err != nil {
		return nil, err
	}
	return standaloneSVG(c)
}

func calibrationChart(games []audit.Scores) (*chart, error) {
	var all audit.Scores
	for _, s := range games {
		all.Value, all.Member = append(all.Value, s.Value...), append(all.Member, s.Member...)
	}
	bins, err := stats.Calibrate(all, calibrationBins, 1-stats.Level)
	if err != nil {
		return nil, err
	}
	lo, hi := bins[0].MeanScore, bins[len(bins)-1].MeanScore
	pad := 0.04 * (hi - lo)
	if !(pad > 0) {
		pad = 0.5 // all scores are the same
	}
	lo, hi = lo-pad, hi+pad
	c := &chart{Title: "Members by score", Width: 520, Height: 340}
	c.X = axis{Label: "score (mean of the bin)", Min: lo, Max: hi, Ticks: niceTicks(lo, hi, 6, plainNumber)}
	c.Y = axis{Label: "share of members", Max: 1, Ticks: niceTicks(0, 1, 5, percent)}
	var line []point
	members := 0
	for _, b := range bins {
		members += b.Members
		line = append(line, point{b.MeanScore, b.Share.Value})
		c.Marks = append(c.Marks, mark{Ink: 0, Weight: thin, Points: []point{{b.MeanScore, b.Share.Low}, {b.MeanScore, b.Share.High}}})
	}
	base := float64(members) / float64(len(all.Value))
	if len(line) == 1 { // a line needs two points
		line = []point{{lo, line[0].Y}, {hi, line[0].Y}}
	}
	c.Marks = append(c.Marks, mark{Ink: 0, Weight: bold, Points: line},
		mark{Ink: inkMuted, Weight: thin, Dashed: true, Points: []point{{lo, base}, {hi, base}}})
	c.Legend = []key{
		{Ink: 0, Text: "share of members, 95 % interval"},
		{Ink: inkMuted, Dashed: true, Text: "all candidates"},
	}
	first, last := bins[0].Share, bins[len(bins)-1].Share
	c.Desc = fmt.Sprintf("Share of members in %s of equal count, by score. Lowest scores: %s (%s to %s). Highest: %s (%s to %s). Of all %d candidates: %s.",
		count(len(bins), "bin"), percent(first.Value), percent(first.Low), percent(first.High),
		percent(last.Value), percent(last.Low), percent(last.High), len(all.Value), percent(base))
	return c, nil
}
