package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	if err := checkInts([]intSetting{{"trials", s.trials, 1, stats.MaxTrials}}); err != nil {
		return err
	}
	if err := s.choose(twoWorldPlans); err != nil {
		return err
	}
	planner := stats.TrialPlanner{SampleRate: s.sampleRate, NoiseMultiplier: s.noise, Estimator: s.twoWorldEstimator(), Alpha: s.alpha}
	var plan stats.TrialPlan
	var err error
	if flags.Changed("share") {
		plan, err = planner.Least(cmd.Context(), s.share)
	} else {
		plan, err = planner.Ceiling(cmd.Context(), s.trials)
	}
	if errors.Is(err, stats.ErrTooManyTrials) {
		return usageError("", "--share %v takes more than %d trials", s.share, stats.MaxTrials)
	}
	if err != nil {
		return planError(err)
	}
	p := &trialPlan{
		SampleRate: s.sampleRate, Noise: s.noise, Estimator: s.estimator, Delta: s.delta, Alpha: s.alpha,
		Exact: plan.Exact, Trials: plan.Trials, Ceiling: plan.Ceiling, Share: plan.Share(), Threshold: plan.Threshold, TPR: plan.TPR, FPR: plan.FPR,
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), p)
	}
	return p.table(cmd.OutOrStdout())
}

func (s *boundPlanSettings) twoWorldEstimator() stats.Estimator[stats.Counts] {
	for _, e := range (&boundSettings{delta: s.delta}).twoWorldEstimators() {
		if e.Name() == s.estimator {
			return e
		}
	}
	panic("aviary: no estimator " + s.estimator) // choose has looked
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
