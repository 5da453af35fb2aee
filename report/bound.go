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
