package onerun

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// DefaultDelta is the δ at which reports bound ε unless their header names one.
const DefaultDelta = 1e-5

// Bounder bounds ε from the scores of one audit after another, in every way
// that reports show: with the numbers of guesses of stats.DefaultGuesses, known
// before any score is, by Steinke's bound, the f-DP test of (ε, δ) and that of
// Gaussian mechanisms; and by the maximum that papers seem to report, which is
// no bound. It remembers what counts gave, since audits often share them. It is
// not safe for concurrent use.
type Bounder struct{ ways []way }

// way is one kind of bound.
type way struct {
	rule      func(canaries int) stats.GuessRule
	estimator stats.Estimator[stats.Guesses]
}

// NewBounder bounds ε at δ, which is above 0 and below 1; 0 is DefaultDelta.
func NewBounder(delta float64) (*Bounder, error) {
	delta = orDefault(delta)
	if !(delta > 0 && delta < 1) {
		return nil, fmt.Errorf("delta: %v, expected a number above 0 and below 1", delta)
	}
	fixed := func(canaries int) stats.GuessRule { return stats.DefaultGuesses(canaries) }
	paper := func(int) stats.GuessRule { return stats.PaperMaximum{} }
	gdp := stats.Remember[stats.Guesses](stats.MahloujifarGDP{Delta: delta})
	return &Bounder{[]way{
		{fixed, stats.Remember[stats.Guesses](stats.Steinke{Delta: delta})},
		{fixed, stats.Remember[stats.Guesses](stats.MahloujifarEpsDelta{Delta: delta})},
		{fixed, gdp},
		{paper, gdp},
	}}, nil
}

func orDefault(delta float64) float64 {
	if delta == 0 {
		return DefaultDelta
	}
	return delta
}

// AuditBound is a bound from one audit.
type AuditBound struct {
	stats.Bound
	Rule string // the name of the stats.GuessRule
}

// Bound bounds ε from the scores of one audit, at confidence stats.Level each.
// It does not say yes to scores of which fair coins would not give the
// memberships.
func (b *Bounder) Bound(s audit.Scores) ([]AuditBound, error) {
	all := make([]AuditBound, len(b.ways))
	for i, w := range b.ways {
		rule := w.rule(len(s.Value))
		bound, _, err := rule.Bound(s, w.estimator, 1-stats.Level)
		if err != nil {
			return nil, fmt.Errorf("bounding ε by %s: %w", w.estimator.Name(), err)
		}
		all[i] = AuditBound{bound, rule.Name()}
	}
	return all, nil
}

// SummarizeBounds sums up what Bound gave for each audit of a method; sets[i]
// is the canary set of audit i. Intervals are cut at 0, below which no bound is.
func SummarizeBounds(audits [][]AuditBound, sets []int) ([]audit.Bound, error) {
	if len(audits) == 0 {
		return nil, fmt.Errorf("no audits to sum up the bounds of")
	}
	summary := make([]audit.Bound, len(audits[0]))
	for i, first := range audits[0] {
		eps := make([]float64, len(audits))
		for j, bounds := range audits {
			eps[j] = bounds[i].Epsilon
		}
		s, err := stats.Summarize(eps, sets)
		if err != nil {
			return nil, err
		}
		cut(&s, 0, math.Inf(1))
		summary[i] = audit.Bound{
			Estimator: first.Estimator, Scope: string(first.Scope), Sound: first.Scope.Sound(), Rule: first.Rule,
			Delta: first.Delta, Confidence: stats.Level, Epsilon: s,
		}
	}
	return summary, nil
}

// cut intersects a summary's interval with the range in which the figure lies.
// The mean is in both, so that something is left.
func cut(s *audit.Summary, low, high float64) {
	if s.Low != nil {
		*s.Low, *s.High = math.Max(*s.Low, low), math.Min(*s.High, high)
	}
}
