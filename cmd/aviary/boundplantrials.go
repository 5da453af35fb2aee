package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sort"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/stats"
)

// trialPlan is the answer of bound plan for two worlds. Scores are projections
// on the record's effect, in standard deviations of the noise.
type trialPlan struct {
	SampleRate float64 `json:"sample_rate"`
	Noise      float64 `json:"noise_multiplier"`
	Estimator  string  `json:"estimator"`
	Delta      float64 `json:"delta"`
	Alpha      float64 `json:"alpha"`
	Exact      float64 `json:"epsilon"` // of the mechanism, both directions
	Trials     int     `json:"trials"`  // in each world
	Ceiling    float64 `json:"ceiling"` // the bound at the expected counts
	Share      float64 `json:"share"`   // of epsilon
	Threshold  float64 `json:"threshold"`
	TPR        float64 `json:"tpr"`
	FPR        float64 `json:"fpr"`
}

// planTrials says the most that trials can show, or how many show a share.
func (s *boundPlanSettings) planTrials(cmd *cobra.Command, flags *pflag.FlagSet) error {
	if err := only(flags, "sample-rate", "auc", "tpr", "mu"); err != nil {
		return err
	}
	if err := missing(flags, "sample-rate", "noise-multiplier"); err != nil {
		return err
	}
	switch {
	case !(s.sampleRate > 0 && s.sampleRate <= 1):
		return usageError("", "--sample-rate is %v, expected a probability above 0", s.sampleRate)
	case !(s.noise > 0) || math.IsInf(s.noise, 0):
		return usageError("", "--noise-multiplier is %v, expected a finite number above 0", s.noise)
	case flags.Changed("share") && flags.Changed("trials"):
		return usageError("", "--share does not go with --trials, which it finds")
	case flags.Changed("share") && !(s.share > 0 && s.share < 1):
		return usageError("", "--share is %v, expected a number above 0 and below 1", s.share)
	}
	if err := checkInts([]intSetting{{"trials", s.trials, 1, mostPlannedTrials}}); err != nil {
		return err
	}
	if err := s.choose(twoWorldPlans); err != nil {
		return err
	}
	p := &trialPlan{SampleRate: s.sampleRate, Noise: s.noise, Estimator: s.estimator, Delta: s.delta, Alpha: s.alpha}
	var err error
	if p.Exact, err = exactEpsilon(s.sampleRate, s.noise, s.delta); err != nil {
		return accountingError(err)
	}
	if flags.Changed("share") {
		err = p.find(cmd.Context(), s)
	} else {
		p.Trials = s.trials
		err = p.lock(cmd.Context(), s.twoWorldEstimator())
	}
	if err != nil {
		return err
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), p)
	}
	return p.table(cmd.OutOrStdout())
}

// mostPlannedTrials is where finding more trials stops.
const mostPlannedTrials = 1_000_000_000_000

func (s *boundPlanSettings) twoWorldEstimator() stats.Estimator[stats.Counts] {
	for _, e := range (&boundSettings{delta: s.delta}).twoWorldEstimators() {
		if e.Name() == s.estimator {
			return e
		}
	}
	panic("aviary: no estimator " + s.estimator) // choose has looked
}

// exactEpsilon is the ε of one release.
func exactEpsilon(q, sigma, delta float64) (float64, error) {
	curve, err := accounting.NewCurve(accounting.DPSGD(q, sigma, 1), delta)
	if err != nil {
		return 0, err
	}
	v, err := curve.Epsilon(delta)
	return v.Estimate, err
}

// rates: without the record scores are N(0, 1), with it N(1/σ, 1) in a share q
// of the runs.
func (p *trialPlan) rates(t float64) (fpr, tpr float64) {
	fpr = normalTail(-t)
	return fpr, (1-p.SampleRate)*fpr + p.SampleRate*normalTail(1/p.Noise-t)
}

// lock finds the threshold with the largest bound at p.Trials. It compares
// those at which the expected false positives are whole numbers: a smooth
// search would stop where rounding is kind.
func (p *trialPlan) lock(ctx context.Context, e stats.Estimator[stats.Counts]) error {
	p.Ceiling = -1
	for fp := 1; fp == 1 || fp <= p.Trials/2; fp = max(fp+1, fp*8/7) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := -distuv.UnitNormal.Quantile(math.Min(float64(fp)/float64(p.Trials), 0.5))
		fpr, tpr := p.rates(t)
		eps, err := e.Lower(stats.Counts{FP: fp, NonMembers: p.Trials, TP: int(tpr * float64(p.Trials)), Members: p.Trials}, p.Alpha)
		if err != nil {
			return statsError(err)
		}
		if eps > p.Ceiling {
			p.Ceiling, p.Threshold, p.FPR, p.TPR = eps, t, fpr, tpr
		}
	}
	p.Share = p.Ceiling / p.Exact
	return nil
}

// find sets p.Trials to the least number of two digits that shows s.share.
func (p *trialPlan) find(ctx context.Context, s *boundPlanSettings) error {
	e := s.twoWorldEstimator()
	var failed error
	ladder := 90 * int(math.Log10(mostPlannedTrials)-1)
	i := sort.Search(ladder, func(i int) bool {
		if failed != nil {
			return true
		}
		p.Trials = rung(i)
		failed = p.lock(ctx, e)
		return failed == nil && p.Share >= s.share
	})
	if failed != nil {
		return failed
	}
	if i == ladder {
		return usageError("", "--share %v takes more than %d trials", s.share, mostPlannedTrials)
	}
	p.Trials = rung(i)
	return p.lock(ctx, e)
}

// rung counts through the numbers of two digits and zeros: 10, 11, …, 99, 100,
// 110, …
func rung(i int) int {
	n := 10 + i%90
	for range i / 90 {
		n *= 10
	}
	return n
}

func (p *trialPlan) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "mechanism\trate %s, noise %s, one release\n", formatFloat(p.SampleRate), formatFloat(p.Noise))
	fmt.Fprintf(t, "epsilon\t%.4f\tat δ = %s\n", p.Exact, formatFloat(p.Delta))
	fmt.Fprintf(t, "trials\t%d\tin each world\n", p.Trials)
	fmt.Fprintf(t, "ceiling\t%s\t%s with confidence %s at the expected counts: %.1f %% of epsilon\n", lower(number(p.Ceiling)), p.Estimator, confidence(1-p.Alpha), 100*p.Share)
	fmt.Fprintf(t, "threshold\t%.4f\tto lock, in standard deviations of the noise\n", p.Threshold)
	fmt.Fprintf(t, "TPR, FPR\t%.4g, %.4g\n", p.TPR, p.FPR)
	return t.Flush()
}
