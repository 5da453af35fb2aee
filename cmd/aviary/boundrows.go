package main

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// boundAnswer is the answer of bound.
type boundAnswer struct {
	Bounds   []boundRow  `json:"bounds"`
	Games    []boundGame `json:"games,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
}

func (a *boundAnswer) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// boundRow is one lower bound on ε. Of several games it is the largest bound,
// beside the mean and standard deviation of the games' own at the full level.
type boundRow struct {
	Estimator    string  `json:"estimator"`
	Scope        string  `json:"scope"`
	Sound        bool    `json:"sound"`
	Confidence   float64 `json:"confidence"`
	Epsilon      number  `json:"epsilon"`
	Delta        float64 `json:"delta"`
	Assumption   string  `json:"assumption"`
	Multiplicity string  `json:"multiplicity"`
	Rule         string  `json:"rule,omitempty"`

	Canaries   *int `json:"canaries,omitempty"`
	Guesses    *int `json:"guesses,omitempty"`
	Correct    *int `json:"correct,omitempty"`
	Members    *int `json:"members,omitempty"`
	TP         *int `json:"tp,omitempty"`
	NonMembers *int `json:"non_members,omitempty"`
	FP         *int `json:"fp,omitempty"`

	Mean *number `json:"mean,omitempty"`
	SD   *number `json:"sd,omitempty"`
}

func newRow(b stats.Bound) boundRow {
	return boundRow{
		Estimator: b.Estimator, Scope: string(b.Scope), Sound: b.Scope.Sound(), Confidence: b.Confidence,
		Epsilon: number(b.Epsilon), Delta: b.Delta, Assumption: b.Assumption, Multiplicity: b.Multiplicity,
	}
}

func (r boundRow) ofGuesses(g stats.Guesses) boundRow {
	r.Canaries, r.Guesses, r.Correct = &g.Canaries, &g.Guessed, &g.Correct
	return r
}

func (r boundRow) ofCounts(c stats.Counts) boundRow {
	r.Members, r.TP, r.NonMembers, r.FP = &c.Members, &c.TP, &c.NonMembers, &c.FP
	return r
}

// ofRule names the rule that chose the guesses or the threshold. What paper
// chose is no bound, whatever the estimator says of itself.
func (r boundRow) ofRule(name string) boundRow {
	r.Rule = name
	if name == paperRule {
		r.Sound, r.Scope = false, string(stats.Estimated)
	}
	return r
}

// boundGame is one game of a score file: a set and audit of one run, or a set,
// or a canary of it, of two worlds.
type boundGame struct {
	Set    int  `json:"set"`
	Audit  *int `json:"audit,omitempty"`
	Canary *int `json:"canary,omitempty"`

	Canaries  int         `json:"canaries,omitempty"` // of one run
	Runs      int         `json:"runs,omitempty"`     // of two worlds
	Members   int         `json:"members"`
	AUC       float64     `json:"auc"`
	AUCRange  *[2]float64 `json:"auc_interval,omitempty"` // 95 %, DeLong
	TPR       float64     `json:"tpr_at_fpr_0.05"`
	Advantage float64     `json:"advantage"`
	Tied      int         `json:"tied"`
	Bounds    []boundRow  `json:"bounds"`

	scores audit.Scores
}

func (g *boundGame) name() string {
	switch {
	case g.Audit != nil:
		return fmt.Sprintf("set %d, audit %d", g.Set, *g.Audit)
	case g.Canary != nil:
		return fmt.Sprintf("set %d, canary %d", g.Set, *g.Canary)
	}
	return fmt.Sprintf("set %d", g.Set)
}

// headlines are the estimators whose row the conclusion quotes. The choice is
// made here, before any data: the largest of the rows would not hold at the
// confidence of each.
// One with an earlier name goes before.
var headlines = []string{"steinke", "joint", "cp-2"}

// headline is the row that the conclusion quotes; nil if none is sound.
func headline(rows []boundRow) *boundRow {
	for _, name := range headlines {
		for i, r := range rows {
			if r.Sound && r.Estimator == name {
				return &rows[i]
			}
		}
	}
	return nil
}

// bestSound is the largest sound row; nil if there is none.
func bestSound(rows []boundRow) *boundRow {
	var best *boundRow
	for i, r := range rows {
		if r.Sound && (best == nil || r.Epsilon > best.Epsilon) {
			best = &rows[i]
		}
	}
	return best
}

// wrongWay is the p-value below which scores are said to point the wrong way.
const wrongWay = 1e-3

// normalTail is the probability of less than z for a standard normal.
func normalTail(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// belowHalf is the normal approximation to the probability of at most correct
// right guesses of n by tossing coins.
func belowHalf(correct, n int) float64 {
	return normalTail((2*float64(correct) - float64(n)) / math.Sqrt(float64(n)))
}

// rateBelow is the normal approximation to the probability of a difference of
// the two rates as low as seen, were they equal.
func rateBelow(c stats.Counts) float64 {
	n1, n0 := float64(c.Members), float64(c.NonMembers)
	p := (float64(c.TP) + float64(c.FP)) / (n1 + n0)
	sd := math.Sqrt(p * (1 - p) * (1/n1 + 1/n0))
	if sd == 0 {
		return 1
	}
	return normalTail((float64(c.TP)/n1 - float64(c.FP)/n0) / sd)
}

// aucZ is how many standard deviations an AUC is above one half, by the
// variance of the Mann-Whitney statistic for equal distributions without ties
// (Mann and Whitney 1947), which ties only make smaller.
func aucZ(auc float64, members, others int) float64 {
	n1, n0 := float64(members), float64(others)
	return (auc - 0.5) / math.Sqrt((n1+n0+1)/(12*n1*n0))
}
