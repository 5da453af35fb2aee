package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/audit/stats"
)

// boundSettings are the flags of bound.
type boundSettings struct {
	canaries, guesses, correct          int // of one run
	trials, members, nonMembers, tp, fp int // of two worlds
	// of a score file
	scores           string
	columns          scoreio.Columns
	rules            []string
	plus, minus      int
	grid             string
	ruleSeed         uint64
	twoWorld, pool   bool
	threshold        float64
	thresholds       []float64
	svg, calibration string
	// of all
	alpha, delta, sampleRate float64
	steps                    int
	gate                     float64
	json                     bool
}

func boundCommand() *cobra.Command {
	s := &boundSettings{}
	cmd := &cobra.Command{
		Use:   "bound",
		Short: "Say which ε counts or scores of an audit prove, from any framework",
		Long: `Say which ε an audit proves a mechanism to have at least, from what it counted
or from the scores it gave, whatever framework made them.

An audit in one run has many canaries, each in the training data or not by a
fair coin of its own, and guesses which are in: --canaries, --guesses, --correct.
An audit of two worlds trains many times, with a record or without it, and counts
how often it is called a member: --trials (of each world), --tp, --fp. A file of
scores is either: of one run for each set and audit, or with --two-world a run in
every row. Its columns are set,audit,canary,member,score, where the first three
may be missing; --member-column and its like tell other names. Higher scores
must mean members; a column of losses is told by --loss-column.

Each row of the answer holds at its own confidence. Rows that are model-free are
sound: they hold for any mechanism. Those within a family assume it, estimates
prove nothing. The last line is of the row chosen beforehand: steinke in one run,
joint in two worlds, cp-2 if canaries are pooled. The largest of several rows holds less surely than each.`,
		Example: `  aviary bound --canaries 1000 --guesses 100 --correct 90
  aviary bound --trials 1000000 --tp 573 --fp 136 --delta 1e-5 --alpha 0.01
  aviary bound --scores scores.csv --gate 2
  aviary bound --scores out.csv --member-column in_train --loss-column loss
  aviary bound --scores runs.npz --two-world --thresholds 0.5,1,2 --json
  aviary bound plan --canaries 1000 --auc 0.6`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBound(cmd, s) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.countFlags(f)
	s.scoreFlags(f)
	s.commonFlags(f)
	cmd.AddCommand(boundPlanCommand())
	completeValues(cmd, "rule", ruleNames)
	return cmd
}

// completeValues lets the shell complete the values of a flag.
func completeValues(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("aviary: " + err.Error()) // no such flag: our own slip
	}
}

func (s *boundSettings) countFlags(f *pflag.FlagSet) {
	f.IntVar(&s.canaries, "canaries", 0, "one run: canaries (`M`), each in or out by a fair coin")
	f.IntVar(&s.guesses, "guesses", 0, "one run: guesses made (`R`); the attack abstained from the others. With --scores: the R/2 highest and lowest scores")
	f.IntVar(&s.correct, "correct", 0, "one run: guesses that were right (`V`)")
	f.IntVar(&s.trials, "trials", 0, "two worlds: runs (`N`) in each")
	f.IntVar(&s.members, "members", 0, "two worlds: runs (`N`) with the record, in place of --trials")
	f.IntVar(&s.nonMembers, "non-members", 0, "two worlds: runs (`N`) without it")
	f.IntVar(&s.tp, "tp", 0, "two worlds: runs with the record that were called so (`X`)")
	f.IntVar(&s.fp, "fp", 0, "two worlds: runs without it that were called so too (`X`)")
}

func (s *boundSettings) scoreFlags(f *pflag.FlagSet) {
	f.StringVar(&s.scores, "scores", "", "`FILE` of scores: .csv, .tsv, .json or .npz; text may be packed, as .csv.gz")
	for _, c := range []struct {
		to   *string
		name string
		what string
	}{
		{&s.columns.Score, "score", "the score, higher for members"},
		{&s.columns.Member, "member", "0, 1, true or false"},
		{&s.columns.Set, "set", "the number of the canary set"},
		{&s.columns.Audit, "audit", "the number of the training run"},
		{&s.columns.Canary, "canary", "the number of the canary"},
	} {
		f.StringVar(c.to, c.name+"-column", "", "column `NAME` of "+c.what+"; unknown columns are then ignored")
	}
	f.StringVar(&s.columns.Loss, "loss-column", "", "column `NAME` of the loss, lower for members, in place of a score; unknown columns are then ignored")
	f.StringSliceVar(&s.rules, "rule", []string{"fixed"}, "`RULES` that choose guesses in one run: fixed, half-split, grid, paper (the largest of all, which is no bound)")
	f.IntVar(&s.plus, "plus", 0, "rule fixed: call the `K` highest scores members (default a tenth)")
	f.IntVar(&s.minus, "minus", 0, "rule fixed: call the `K` lowest scores non-members (default a tenth)")
	f.StringVar(&s.grid, "grid", "", "rule grid: `LIST` of highest+lowest to pay for and look at, as in 50+50,100+100,100+0")
	f.Uint64Var(&s.ruleSeed, "rule-seed", 1, "seed (`N`) of half-split, and of the split for a threshold")
	f.BoolVar(&s.twoWorld, "two-world", false, "every row is an independent training run, with the record (member) or without")
	f.BoolVar(&s.pool, "pool", false, "two worlds: take all canaries of a set together")
	f.Float64Var(&s.threshold, "threshold", 0, "two worlds: scores from `T` on are called members; chosen before the scores were seen")
	f.Float64SliceVar(&s.thresholds, "thresholds", nil, "two worlds: `LIST` of thresholds to pay for and look at (default: half of the runs chooses, the other half counts)")
	f.Lookup("thresholds").DefValue = "" // not "[]"
	f.StringVar(&s.svg, "svg", "", "also draw the ROC curve and the best sound bound into `FILE`")
	f.StringVar(&s.calibration, "calibration", "", "also draw the members' share against the score into `FILE` (SVG)")
}

func (s *boundSettings) commonFlags(f *pflag.FlagSet) {
	f.Float64Var(&s.alpha, "alpha", 0.05, "probability (`A`) with which a row may be wrong: one minus its confidence")
	f.Float64Var(&s.delta, "delta", defaultDelta, "the δ (`D`) of (ε, δ)")
	f.Float64Var(&s.sampleRate, "sample-rate", 0, "`Q` of DP-SGD: adds mahloujifar-dpsgd (with --steps) or family-subsampled-gaussian")
	f.IntVar(&s.steps, "steps", 0, "steps (`T`) of DP-SGD")
	f.Float64Var(&s.gate, "gate", 0, "exit with 1 if a sound row is above `E`")
	f.BoolVar(&s.json, "json", false, "print JSON; an infinite ε is null")
}

// evidenceKind is what the flags give a bound to work with.
type evidenceKind int

const (
	oneRunCounts evidenceKind = iota
	twoWorldCounts
	oneRunScores
	twoWorldScores
)

// evidenceFlags are the flags of each kind, the one that stands for it first.
var evidenceFlags = map[evidenceKind][]string{
	oneRunCounts:   {"canaries", "guesses", "correct", "steps"},
	twoWorldCounts: {"trials", "members", "non-members", "tp", "fp"},
	oneRunScores: {"scores", "rule", "plus", "minus", "guesses", "grid", "rule-seed", "svg", "calibration", "steps",
		"score-column", "loss-column", "member-column", "set-column", "audit-column", "canary-column"},
	twoWorldScores: {"two-world", "scores", "pool", "threshold", "thresholds", "rule-seed", "svg", "calibration",
		"score-column", "loss-column", "member-column", "set-column", "audit-column", "canary-column"},
}

// kind finds what the flags give, and refuses flags of another kind.
func (s *boundSettings) kind(flags *pflag.FlagSet) (evidenceKind, error) {
	k := oneRunCounts
	any := func(names ...string) bool {
		for _, name := range names {
			if flags.Changed(name) {
				return true
			}
		}
		return false
	}
	switch {
	case any("scores") && s.twoWorld:
		k = twoWorldScores
	case any("scores"):
		k = oneRunScores
	case any("canaries", "correct", "guesses"):
	case any("trials", "members", "non-members", "tp", "fp"):
		k = twoWorldCounts
	default:
		return 0, usageError("aviary bound --help has examples",
			"nothing to bound: expected --canaries, --guesses and --correct, or --trials, --tp and --fp, or --scores")
	}
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(boundSettings).commonFlags(common)
	allowed := map[string]bool{}
	common.VisitAll(func(f *pflag.Flag) { allowed[f.Name] = f.Name != "steps" })
	for _, name := range evidenceFlags[k] {
		allowed[name] = true
	}
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && !allowed[f.Name] && f.Name != "help" {
			err = usageError("", "--%s does not go with --%s", f.Name, evidenceFlags[k][0])
		}
	})
	return k, err
}

func runBound(cmd *cobra.Command, s *boundSettings) error {
	flags := cmd.Flags()
	kind, err := s.kind(flags)
	if err != nil {
		return err
	}
	if err := s.check(flags, kind); err != nil {
		return err
	}
	var plots map[string][]byte
	answer, err := interruptible(cmd.Context(), func() (a *boundAnswer, err error) {
		switch kind {
		case oneRunCounts:
			a, err = s.boundGuesses()
		case twoWorldCounts:
			a, err = s.boundCounts()
		default:
			a, err = s.boundScores(cmd.Context(), cmd.ErrOrStderr(), flags, kind)
		}
		if err == nil {
			plots, err = s.plots(a)
		}
		return a, err
	})
	if err != nil {
		return err
	}
	if s.delta < leastDelta && (s.sampleRate > 0 || kind == oneRunCounts || kind == oneRunScores) {
		if s.delta == 0 {
			answer.warn("rows of Gaussian families are left out at δ = 0, where Gaussian noise has an infinite ε")
		} else {
			answer.warn("rows of Gaussian families are left out at δ = %s: they are computed from δ = %v on", formatFloat(s.delta), leastDelta)
		}
	}
	for _, w := range answer.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "aviary: warning: %s\n", w)
	}
	if err := writePlots(plots); err != nil {
		return err
	}
	if s.json {
		err = printJSON(cmd.OutOrStdout(), answer)
	} else {
		err = answer.table(cmd.OutOrStdout(), s)
	}
	if err != nil || !flags.Changed("gate") {
		return err
	}
	return crossed(answer.Bounds, s.gate)
}

// crossed is the error of a gate that a sound row is above.
func crossed(rows []boundRow, gate float64) error {
	var over []string
	for _, r := range rows {
		if r.Sound && float64(r.Epsilon) > gate {
			over = append(over, fmt.Sprintf("ε is at least %s by %s, above %s", formatFloat(float64(r.Epsilon)), r.Estimator, formatFloat(gate)))
		}
	}
	if over == nil {
		return nil
	}
	return &failure{exitGate, fmt.Errorf("gate crossed: %s", strings.Join(over, "; ")), ""}
}

// check refuses values that no bound could be made of.
func (s *boundSettings) check(flags *pflag.FlagSet, kind evidenceKind) error {
	if !(s.alpha > 0 && s.alpha < 1) {
		return usageError("", "--alpha is %v, expected a number above 0 and below 1", s.alpha)
	}
	if s.alpha < leastAlpha {
		return usageError("", "--alpha is %v, expected %v or more: confidences below it are all 1", s.alpha, leastAlpha)
	}
	if err := checkFloats([]floatSetting{{"delta", s.delta, 0, 1}, {"gate", s.gate, 0, math.Inf(1)}}); err != nil {
		return err
	}
	if flags.Changed("sample-rate") && !(s.sampleRate > 0 && s.sampleRate <= 1) {
		return usageError("", "--sample-rate is %v, expected a probability above 0", s.sampleRate)
	}
	if flags.Changed("steps") {
		if err := checkInts([]intSetting{{"steps", s.steps, 1, math.MaxInt32}}); err != nil {
			return err
		}
	}
	if oneRun := kind == oneRunCounts || kind == oneRunScores; oneRun && flags.Changed("sample-rate") != flags.Changed("steps") {
		return usageError("mahloujifar-dpsgd needs both", "--sample-rate and --steps go together in one run")
	}
	for _, f := range []struct{ name, path string }{{"svg", s.svg}, {"calibration", s.calibration}} {
		if !flags.Changed(f.name) {
			continue
		}
		if err := checkPlot(f.name, f.path, s.scores); err != nil {
			return err
		}
	}
	if s.svg != "" && filepath.Clean(s.svg) == filepath.Clean(s.calibration) {
		return usageError("", "--svg and --calibration are both %s, expected two files", s.svg)
	}
	if flags.Changed("scores") && s.scores == "" {
		return usageError("", "--scores is empty, expected the name of a file")
	}
	if s.columns.Score != "" && s.columns.Loss != "" {
		return usageError("", "--loss-column does not go with --score-column: a score is then minus the loss")
	}
	switch kind {
	case oneRunCounts:
		return s.checkGuesses(flags)
	case twoWorldCounts:
		return s.checkCounts(flags)
	case oneRunScores:
		return s.checkRules(flags)
	}
	return s.checkThresholds(flags)
}

// leastAlpha is where confidences stop to differ from 1 in float64.
const leastAlpha = 1e-15

// leastDelta is the least δ that the accountant of the Gaussian families takes.
const leastDelta = 1e-12

func missing(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if !flags.Changed(name) {
			return usageError("", "--%s is missing", name)
		}
	}
	return nil
}

func (s *boundSettings) checkGuesses(flags *pflag.FlagSet) error {
	if err := missing(flags, "canaries", "guesses", "correct"); err != nil {
		return err
	}
	return checkInts([]intSetting{{"canaries", s.canaries, 1, math.MaxInt32}, {"guesses", s.guesses, 1, s.canaries}, {"correct", s.correct, 0, s.guesses}})
}

func (s *boundSettings) checkCounts(flags *pflag.FlagSet) error {
	if flags.Changed("trials") {
		for _, name := range []string{"members", "non-members"} {
			if flags.Changed(name) {
				return usageError("", "--%s does not go with --trials, which is the runs of either world", name)
			}
		}
		if err := checkInts([]intSetting{{"trials", s.trials, 1, mostTrials}}); err != nil {
			return err
		}
		s.members, s.nonMembers = s.trials, s.trials
	} else if err := missing(flags, "members", "non-members"); err != nil {
		if !flags.Changed("members") && !flags.Changed("non-members") {
			return missing(flags, "trials")
		}
		return err
	}
	if err := missing(flags, "tp", "fp"); err != nil {
		return err
	}
	return checkInts([]intSetting{{"members", s.members, 1, mostTrials}, {"non-members", s.nonMembers, 1, mostTrials},
		{"tp", s.tp, 0, s.members}, {"fp", s.fp, 0, s.nonMembers}})
}

// mostTrials is where float64 stops to tell counts apart.
const mostTrials = 1 << 53

// statsError names no Go package in an error of stats.
func statsError(err error) error {
	return inputError(errors.New(strings.NewReplacer("stats: ", "", "accounting: ", "").Replace(err.Error())))
}

// boundGuesses bounds what one run counted.
func (s *boundSettings) boundGuesses() (*boundAnswer, error) {
	g := stats.Guesses{Canaries: s.canaries, Guessed: s.guesses, Correct: s.correct}
	a := &boundAnswer{}
	for _, e := range s.oneRunEstimators() {
		b, err := stats.Conclude(e, g, s.alpha, "one look")
		if err != nil {
			return nil, statsError(err)
		}
		a.Bounds = append(a.Bounds, newRow(b).ofGuesses(g))
	}
	if p := belowHalf(g.Correct, g.Guessed); p < wrongWay {
		a.warn("%d of %d guesses are right, fewer than half by more than chance (p = %.1g): higher seems to mean non-member; nothing was flipped", g.Correct, g.Guessed, p)
	}
	return a, nil
}

// boundCounts bounds what two worlds counted.
func (s *boundSettings) boundCounts() (*boundAnswer, error) {
	c := stats.Counts{TP: s.tp, Members: s.members, FP: s.fp, NonMembers: s.nonMembers}
	a := &boundAnswer{}
	for _, e := range s.twoWorldEstimators() {
		b, err := stats.Conclude(e, c, s.alpha, "one look")
		if err != nil {
			return nil, statsError(err)
		}
		a.Bounds = append(a.Bounds, newRow(b).ofCounts(c))
	}
	if p := rateBelow(c); p < wrongWay {
		a.warn("the true positive rate, %.4g, is below the false positive rate, %.4g, by more than chance (p = %.1g): higher seems to mean non-member; nothing was flipped",
			float64(c.TP)/float64(c.Members), float64(c.FP)/float64(c.NonMembers), p)
	}
	return a, nil
}

// oneRunEstimators are the rows of one run. Families of Gaussian noise have
// something to say at δ > 0 alone: at 0 their ε is infinite.
func (s *boundSettings) oneRunEstimators() []stats.Estimator[stats.Guesses] {
	es := []stats.Estimator[stats.Guesses]{
		stats.Steinke{Delta: s.delta},
		stats.MahloujifarEpsDelta{Delta: s.delta},
	}
	if s.delta < leastDelta {
		return es
	}
	es = append(es, stats.MahloujifarGDP{Delta: s.delta})
	if s.sampleRate > 0 {
		es = append(es, stats.MahloujifarDPSGD{SampleRate: s.sampleRate, Steps: s.steps, Delta: s.delta})
	}
	return append(es, stats.XiangIID{Delta: s.delta})
}

func (s *boundSettings) twoWorldEstimators() []stats.Estimator[stats.Counts] {
	es := []stats.Estimator[stats.Counts]{
		stats.ClopperPearson{Delta: s.delta, Bounds: 4},
		stats.ClopperPearson{Delta: s.delta, Bounds: 2},
	}
	if s.pool {
		es = append(es, stats.JointPooled{Joint: stats.Joint{Delta: s.delta}})
	} else {
		es = append(es, stats.Joint{Delta: s.delta})
	}
	if s.sampleRate > 0 && s.delta >= leastDelta {
		es = append(es, stats.SubsampledGaussian{SampleRate: s.sampleRate, Delta: s.delta})
	}
	return append(es, stats.ZanellaBeguelin{Delta: s.delta})
}
