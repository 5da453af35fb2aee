package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit/stats"
)

// guessPlan is the answer of bound plan for one run.
type guessPlan struct {
	Canaries  int         `json:"canaries"`
	Mu        float64     `json:"mu"`
	Estimator string      `json:"estimator"`
	Delta     float64     `json:"delta"`
	Alpha     float64     `json:"alpha"`
	Plan      []guessPair `json:"plan"`
	Best      guessPair   `json:"best"`
}

// guessPair is a number of guesses and the bound to expect of them.
type guessPair struct {
	Plus    int    `json:"plus"`
	Minus   int    `json:"minus"`
	Correct int    `json:"correct"` // expected
	Epsilon number `json:"epsilon"`
}

func newGuessPair(e stats.ExpectedGuesses) guessPair {
	return guessPair{Plus: e.Rule.Plus, Minus: e.Rule.Minus, Correct: e.Guesses.Correct, Epsilon: number(e.Epsilon)}
}

// planGuesses says which bound each number of guesses is expected to give.
func (s *boundPlanSettings) planGuesses(cmd *cobra.Command, flags *pflag.FlagSet) error {
	if err := only(flags, "canaries", "trials", "share"); err != nil {
		return err
	}
	if err := checkInts([]intSetting{{"canaries", s.canaries, 2, mostPlanned}}); err != nil {
		return err
	}
	signal, err := s.signal(flags)
	if err != nil {
		return err
	}
	if err := s.choose(oneRunPlans); err != nil {
		return err
	}
	plan, err := stats.PlanGuesses(cmd.Context(), s.oneRunEstimator(), s.canaries, signal, s.alpha, stats.UsualGuesses(s.canaries))
	if err != nil {
		return planError(err)
	}
	p := guessPlan{Canaries: s.canaries, Mu: float64(signal), Estimator: s.estimator, Delta: s.delta, Alpha: s.alpha, Best: newGuessPair(plan.Best)}
	for _, row := range plan.Rows {
		p.Plan = append(p.Plan, newGuessPair(row))
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), p)
	}
	return p.table(cmd.OutOrStdout(), signal)
}

// mostPlanned is as many canaries as a plan is made for in a moment.
const mostPlanned = 1_000_000

func (s *boundPlanSettings) oneRunEstimator() stats.Estimator[stats.Guesses] {
	for _, e := range (&boundSettings{delta: s.delta}).oneRunEstimators() {
		if e.Name() == s.estimator {
			return e
		}
	}
	panic("aviary: no estimator " + s.estimator) // choose has looked
}

func (p *guessPlan) table(w io.Writer, signal stats.Signal) error {
	fmt.Fprintf(w, "%d canaries, AUC %.4f, TPR at 5 %% FPR %.4f (mu %.4f); %s at δ = %s, confidence %s\n\n", p.Canaries,
		signal.AUC(), signal.TPR(0.05), p.Mu, p.Estimator, formatFloat(p.Delta), confidence(1-p.Alpha))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "k+\tk-\tright, expected\tε, expected\t")
	for _, pair := range p.Plan {
		mark := ""
		if pair == p.Best {
			mark = "best"
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\n", pair.Plus, pair.Minus, pair.Correct, lower(pair.Epsilon), mark)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\naviary bound --scores FILE --plus %d --minus %d\n", p.Best.Plus, p.Best.Minus)
	return err
}
