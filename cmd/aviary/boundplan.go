package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit/stats"
)

// boundPlanSettings are the flags of bound plan.
type boundPlanSettings struct {
	canaries          int
	auc, tpr, mu      float64
	sampleRate, noise float64
	trials            int
	share             float64
	delta, alpha      float64
	estimator         string
	json              bool
}

func boundPlanCommand() *cobra.Command {
	s := &boundPlanSettings{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Choose guesses, threshold or trials before an audit",
		Long: `Choose before an audit what must not be chosen after it.

For an audit in one run, say how many canaries there are and how strong the
signal is expected to be: the answer is the bound to expect for each number of
guesses, k+ for the highest and k- for the lowest scores. For an audit of two
worlds of a subsampled Gaussian, say its rate and noise: the answer is the most
that N trials can show and the threshold to lock, or how many trials show a
share of the ε that there is.`,
		Example: `  aviary bound plan --canaries 1000 --auc 0.6
  aviary bound plan --canaries 1000 --mu 1 --estimator mahloujifar-gdp
  aviary bound plan --sample-rate 0.1 --noise-multiplier 1 --trials 1000000
  aviary bound plan --sample-rate 0.1 --noise-multiplier 1 --share 0.9`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runBoundPlan(cmd, s) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&s.canaries, "canaries", 0, "one run: canaries (`M`)")
	f.Float64Var(&s.auc, "auc", 0, "one run: expected area under the ROC curve (`A`)")
	f.Float64Var(&s.tpr, "tpr", 0, "one run: expected true positive rate at 5 % false positives (`T`), in place of --auc")
	f.Float64Var(&s.mu, "mu", 0, "one run: expected distance (`U`) of the scores in standard deviations, in place of --auc")
	f.Float64Var(&s.sampleRate, "sample-rate", 0, "two worlds: probability (`Q`) with which the record joins a run")
	f.Float64Var(&s.noise, "noise-multiplier", 0, "two worlds: standard deviation of the noise in units of the record's effect (`S`)")
	f.IntVar(&s.trials, "trials", 1_000_000, "two worlds: runs (`N`) in each")
	f.Float64Var(&s.share, "share", 0, "two worlds: find the runs that show this share (`X`) of ε, in place of --trials")
	f.Float64Var(&s.delta, "delta", defaultDelta, "the δ (`D`) of (ε, δ)")
	f.Float64Var(&s.alpha, "alpha", 0.05, "probability (`A`) with which the bound may be wrong")
	f.StringVar(&s.estimator, "estimator", "", "`NAME` of the bound to plan for (default mahloujifar-gdp in one run, cp-2 in two worlds)")
	f.BoolVar(&s.json, "json", false, "print JSON")
	completeValues(cmd, "estimator", slices.Concat(oneRunPlans, twoWorldPlans))
	return cmd
}

// The estimators that can be planned for; the first is the default.
var (
	oneRunPlans   = []string{"mahloujifar-gdp", "steinke", "mahloujifar-eps-delta", "xiang-iid"}
	twoWorldPlans = []string{"cp-2", "cp-4", "joint"}
)

func runBoundPlan(cmd *cobra.Command, s *boundPlanSettings) error {
	flags := cmd.Flags()
	if !(s.alpha > 0 && s.alpha < 1) {
		return usageError("", "--alpha is %v, expected a number above 0 and below 1", s.alpha)
	}
	if !(s.delta > 0 && s.delta < 1) {
		return usageError("", "--delta is %v, expected a number above 0 and below 1", s.delta)
	}
	switch oneRun, twoWorlds := flags.Changed("canaries"), flags.Changed("noise-multiplier") || flags.Changed("sample-rate"); {
	case oneRun && twoWorlds:
		return usageError("", "--canaries, of one run, does not go with --sample-rate and --noise-multiplier, of two worlds")
	case oneRun:
		return s.planGuesses(cmd, flags)
	case twoWorlds:
		return s.planTrials(cmd, flags)
	}
	return usageError("aviary bound plan --help has examples", "nothing to plan: expected --canaries, or --sample-rate and --noise-multiplier")
}

// choose settles the estimator among those that can be planned for.
func (s *boundPlanSettings) choose(names []string) error {
	if s.estimator == "" {
		s.estimator = names[0]
	}
	if !slices.Contains(names, s.estimator) {
		return usageError(didYouMean(s.estimator, names, ""), "--estimator is %q, expected %s", s.estimator, strings.Join(names, ", "))
	}
	return nil
}

// only refuses flags of the other kind of plan.
func only(flags *pflag.FlagSet, with string, others ...string) error {
	for _, name := range others {
		if flags.Changed(name) {
			return usageError("", "--%s does not go with --%s", name, with)
		}
	}
	return nil
}

// signal is what is expected of the attack, by the one flag that says it.
func (s *boundPlanSettings) signal(flags *pflag.FlagSet) (stats.Signal, error) {
	var given []string
	for _, name := range []string{"auc", "tpr", "mu"} {
		if flags.Changed(name) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		return 0, usageError("", "the signal is missing: expected --auc, --tpr or --mu")
	case len(given) > 1:
		return 0, usageError("", "--%s does not go with --%s, which says the same", given[1], given[0])
	}
	switch given[0] {
	case "auc":
		if !(s.auc > 0.5 && s.auc < 1) {
			return 0, usageError("", "--auc is %v, expected a number above 0.5 and below 1", s.auc)
		}
		return stats.SignalOfAUC(s.auc)
	case "tpr":
		if !(s.tpr > 0.05 && s.tpr < 1) {
			return 0, usageError("", "--tpr is %v, expected a number above 0.05 and below 1", s.tpr)
		}
		return stats.SignalOfTPR(s.tpr, 0.05)
	}
	if !(s.mu > 0) || math.IsInf(s.mu, 0) {
		return 0, usageError("", "--mu is %v, expected a finite number above 0", s.mu)
	}
	return stats.Signal(s.mu), nil
}

// planError is an error of a plan as the user's, but for an interruption.
func planError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return statsError(err)
}
