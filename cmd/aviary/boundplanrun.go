package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/stat/distuv"

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

// planGuesses says which bound each number of guesses gives at the counts that
// are expected of normal scores, members a distance mu above the others.
func (s *boundPlanSettings) planGuesses(cmd *cobra.Command, flags *pflag.FlagSet) error {
	if err := only(flags, "canaries", "trials", "share"); err != nil {
		return err
	}
	if err := checkInts([]intSetting{{"canaries", s.canaries, 2, mostPlanned}}); err != nil {
		return err
	}
	mu, err := s.signal(flags)
	if err != nil {
		return err
	}
	if err := s.choose(oneRunPlans); err != nil {
		return err
	}
	e := s.oneRunEstimator()
	p := guessPlan{Canaries: s.canaries, Mu: mu, Estimator: s.estimator, Delta: s.delta, Alpha: s.alpha}
	for _, pair := range guessPairs(s.canaries) {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		right := expectedRight(s.canaries, pair.Plus, mu) + expectedRight(s.canaries, pair.Minus, mu)
		pair.Correct = int(math.Round(right))
		eps, err := e.Lower(stats.Guesses{Canaries: s.canaries, Guessed: pair.Plus + pair.Minus, Correct: pair.Correct}, s.alpha)
		if err != nil {
			return statsError(err)
		}
		pair.Epsilon = number(eps)
		p.Plan = append(p.Plan, pair)
		if pair.Epsilon > p.Best.Epsilon || p.Best.Plus == 0 {
			p.Best = pair
		}
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), p)
	}
	return p.table(cmd.OutOrStdout())
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

// guessPairs are the numbers of guesses that a plan compares: on both sides
// alike, and for the highest scores alone.
func guessPairs(m int) []guessPair {
	var pairs []guessPair
	last := 0
	for _, share := range []float64{.005, .01, .02, .03, .04, .05, .07, .1, .15, .2, .25, .3, .4, .5} {
		k := int(math.Round(share * float64(m)))
		if k <= last || 2*k > m {
			continue
		}
		last = k
		pairs = append(pairs, guessPair{Plus: k}, guessPair{Plus: k, Minus: k})
	}
	return pairs
}

// expectedRight is how many members are expected among the k highest of m
// scores, half of them members, in the limit of large m: with t such that
// m/2 (Φ̄(t) + Φ̄(t-μ)) = k, it is m/2 Φ̄(t-μ). By symmetry that is also the
// number of non-members among the k lowest.
func expectedRight(m, k int, mu float64) float64 {
	if k == 0 {
		return 0
	}
	half := float64(m) / 2
	low, high := -40., 40+mu
	for range 200 {
		t := (low + high) / 2
		if half*(normalTail(-t)+normalTail(mu-t)) > float64(k) {
			low = t
		} else {
			high = t
		}
	}
	return half * normalTail(mu-low)
}

func (p *guessPlan) table(w io.Writer) error {
	fmt.Fprintf(w, "%d canaries, AUC %.4f, TPR at 5 %% FPR %.4f (mu %.4f); %s at δ = %s, confidence %s\n\n", p.Canaries,
		normalTail(p.Mu/math.Sqrt2), normalTail(p.Mu+distuv.UnitNormal.Quantile(0.05)), p.Mu, p.Estimator, formatFloat(p.Delta), confidence(1-p.Alpha))
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
