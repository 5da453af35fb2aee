package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/multirun"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/progress"
	"github.com/aviary-audit/aviary/models/train"
)

// trialSettings are the flags that audits of many trainings share.
type trialSettings struct {
	settings
	command string // "multi" or "interference"
	file    string // of the canaries
	set     int
	shard   string
}

// flags begin with what own adds.
func (s *trialSettings) flags(f *pflag.FlagSet, own func()) {
	f.SortFlags = false
	f.StringVar(&s.data, "data", "mnist", "training `DATA`: mnist, mnist-t10k, or a folder with IDX or npz files")
	f.IntVar(&s.limit, "limit", 0, "use only the first `N` training examples (0: all)")
	f.StringVar(&s.file, "canaries", "", "`FILE` of canaries, .npz, as craft makes it")
	f.IntVar(&s.set, "set", 0, "canary set in that file (`N`)")
	own()
	f.Uint64Var(&s.seed, "seed", 1, "seed of all randomness (`N`)")
	s.modelFlags(f)
	s.deviceFlags(f)
	f.StringVar(&s.shard, "shard", "1/1", "do the `I/N`-th part of the trainings; merge puts the parts together")
	f.StringVar(&s.out, "out", "", "folder (`DIR`) of the results")
	f.BoolVar(&s.resume, "resume", false, "finish the work in --out, with its own settings")
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would be done and what it costs, and stop")
	s.talkFlags(f)
	f.Lookup("json").Usage = "print JSON instead of a table"
}

func (s *trialSettings) shardNumber() (i, n int, err error) { return shardNumber(s.shard) }

// shardNumber is i and n of "i/n", with i from 0 on.
func shardNumber(shard string) (i, n int, err error) {
	before, after, found := strings.Cut(shard, "/")
	i, errI := strconv.Atoi(before)
	n, errN := strconv.Atoi(after)
	if !found || errI != nil || errN != nil || n < 1 || i < 1 || i > n || n > most {
		return 0, 0, usageError("", "--shard is %q, expected I/N with I from 1 to N, as in 2/3", shard)
	}
	return i - 1, n, nil
}

// start merges the configuration in and checks what needs no data.
func (s *trialSettings) start(flags *pflag.FlagSet) error {
	if s.out == "" {
		return usageError("", "--out is missing, expected the folder of the results")
	}
	if s.resume {
		if !holdsRun(s.out) {
			return noRun(s.out)
		}
		if s.config == "" {
			s.config = filepath.Join(s.out, configName)
		}
	}
	if s.config != "" {
		if err := loadConfig(s.config, flags); err != nil {
			return err
		}
	}
	if !isCanaryFile(s.file) {
		return usageError("aviary craft makes one", "--canaries is %q, expected a file that ends in .npz", s.file)
	}
	if len(s.targetEpsilon) > 1 {
		return usageError("", "--target-epsilon has %d values, expected one", len(s.targetEpsilon))
	}
	if err := checkInts([]intSetting{{"set", s.set, 0, most}}); err != nil {
		return err
	}
	if _, _, err := s.shardNumber(); err != nil {
		return err
	}
	s.canaries = []string{s.file}
	s.sets, s.audits, s.failAUC, s.failTPR = 1, 1, 1, 1 // not flags here
	if err := s.checkPrivacy(); err != nil {
		return err
	}
	return s.checkTraining()
}

// open opens the data and the canary set; then openModel may follow.
func (s *trialSettings) open() (*job, *audit.CanarySet, error) {
	j := &job{settings: &s.settings}
	if err := j.openData(); err != nil {
		return nil, nil, err
	}
	sets, err := scoreio.ReadCanaries(s.file, j.game.Data, strings.TrimSuffix(filepath.Base(s.file), filepath.Ext(s.file)))
	if err != nil {
		return nil, nil, inputError(err)
	}
	for _, c := range sets {
		if c.Set == s.set {
			return j, c, nil
		}
	}
	return nil, nil, usageError("", "--set is %d, but %s holds %d sets, the first of number %d", s.set, s.file, len(sets), sets[0].Set)
}

// run does the trials of design with these canaries, and returns the losses, nil
// if other shards have to come in.
func (s *trialSettings) run(cmd *cobra.Command, flags *pflag.FlagSet, j *job, c *audit.CanarySet, design multirun.Design) ([][]float64, error) {
	plan, err := design.Plan()
	if err != nil {
		return nil, inputError(err)
	}
	j.game.NumCanaries = c.Len()
	if err := j.openModel(); err != nil {
		return nil, err
	}
	defer j.close()
	if s.dryRun {
		return nil, s.describe(cmd.OutOrStdout(), j, plan)
	}
	if err := s.openFolder(flags); err != nil {
		return nil, err
	}
	ui := newTrialTalk(cmd.ErrOrStderr(), s.quiet)
	shard, shards, err := s.shardNumber()
	if err != nil {
		return nil, err
	}
	losses, err := multirun.Job{
		Data: j.game.Data, Canaries: c, Trainer: j.trainer, Design: design,
		Model: j.game.Header.Model, Recipe: j.game.Header.Recipe, Device: j.game.Header.Device,
		Shard: shard, Shards: shards, Dir: s.out, Resume: true, Progress: ui.progress,
	}.Run(cmd.Context())
	ui.line.Done()
	if err != nil {
		return nil, s.failed(err, ui)
	}
	if losses == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "aviary: shard %s is done; aviary merge OUT DIR... puts the shards together\n", s.shard)
	}
	return losses, nil
}

// openFolder makes the folder of new work, which must be empty.
func (s *trialSettings) openFolder(flags *pflag.FlagSet) error {
	if s.resume {
		return nil
	}
	config, err := effectiveConfig(flags, "")
	if err != nil {
		return err
	}
	return openRun(&s.settings, config)
}

func (s *trialSettings) failed(err error, ui *trialTalk) error {
	again := "aviary audit " + s.command + " --resume --out " + shellQuote(s.out)
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{exitRun, fmt.Errorf("interrupted after %d of %d trainings", ui.at.Done, ui.at.Total), again + " goes on"}
	case errors.Is(err, train.ErrDiverged):
		return &failure{exitRun, err, "it would again: choose other settings, and another --out"}
	case ui.at.Total == 0:
		closeRun(&s.settings)
		return inputError(err)
	}
	return &failure{exitRun, err, again + " goes on once that is mended"}
}

// describe prints what would be done and what it costs.
func (s *trialSettings) describe(w io.Writer, j *job, plan multirun.Plan) error {
	i, n, err := s.shardNumber()
	if err != nil {
		return err
	}
	all := len(plan.Trials())
	mine := (all - i + n - 1) / n
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "data\t%s: %d training examples of %v, %d classes\n", j.game.Header.Data, j.game.Data.Len(), j.game.Data.Shape(), j.game.Data.Classes())
	fmt.Fprintf(t, "canaries\t%s, set %d\n", s.file, s.set)
	fmt.Fprintf(t, "trainings\t%d of %d (shard %s)\n", mine, all, s.shard)
	fmt.Fprintf(t, "model\t%s\nrecipe\t%s\ndevice\t%s\n", j.game.Header.Model, j.game.Header.Recipe, j.game.Header.Device)
	fmt.Fprintf(t, "cost\t%d steps per training, %d in all\n", j.train.TotalSteps(j.game.Data.Len()), mine*j.train.TotalSteps(j.game.Data.Len()))
	fmt.Fprintf(t, "output\t%s\n", s.out)
	return t.Flush()
}

// trialTalk tells people how far the trainings are.
type trialTalk struct {
	w       io.Writer
	line    *progress.Progress
	at      multirun.Progress
	running bool
}

func newTrialTalk(w io.Writer, quiet bool) *trialTalk {
	return &trialTalk{w: w, line: newLine(w, quiet)}
}

func (t *trialTalk) progress(p multirun.Progress) {
	if p.Note != "" {
		fmt.Fprintf(t.w, "aviary: note: %s\n", p.Note) // even if quiet
		return
	}
	t.at = p
	if p.Steps == 0 {
		return
	}
	if !t.running {
		t.line.Start("training", p.Total*p.Steps)
		t.running = true
	}
	t.line.Set(p.Done*p.Steps + p.Step)
}

// multiSettings are the flags of audit multi.
type multiSettings struct {
	trialSettings
	canary, runs int
	worldRule
}

// worldRule is how the bounds of two worlds are made of scores.
type worldRule struct {
	threshold string // "" splits
}

func multiCommand() *cobra.Command {
	cmd, _ := newMultiCommand()
	return cmd
}

func newMultiCommand() (*cobra.Command, *multiSettings) {
	s := &multiSettings{trialSettings: trialSettings{command: "multi"}}
	cmd := &cobra.Command{
		Use:   "multi",
		Short: "Train many times with one canary and without it, and bound ε",
		Long: `Train many times with one canary and as often without it, and bound ε from the
canary's loss, as audits in two worlds do. It is the costly comparison for audits
in one run.

Without the canary the training data lack the example that it displaces, too.
The examples of other canaries stay. Every training has a seed of its own.

The folder holds scores.csv, which bound --two-world takes, and result.json.`,
		Example: `  aviary craft --sets 1 --out ibis.npz
  aviary audit multi --canaries ibis.npz --runs 100 --out multi
  aviary audit multi --canaries ibis.npz --runs 100 --shard 1/2 --out part1
  aviary merge multi part1 part2`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runMulti(cmd, s) },
	}
	s.flags(cmd.Flags(), func() {
		f := cmd.Flags()
		f.IntVar(&s.canary, "canary", 0, "number (`K`) of the canary in the set; the first has the largest self-influence after craft")
		f.IntVar(&s.runs, "runs", 100, "trainings (`N`) with it, and as many without")
		f.StringVar(&s.threshold, "threshold", "", "scores from `T` on are called members; chosen before any training (default: half of the runs chooses, the other half counts)")
	})
	return cmd, s
}

func runMulti(cmd *cobra.Command, s *multiSettings) error {
	flags := cmd.Flags()
	if err := s.start(flags); err != nil {
		return err
	}
	if err := checkInts([]intSetting{{"canary", s.canary, 0, math.MaxInt32}, {"runs", s.runs, 2, most}}); err != nil {
		return err
	}
	if err := s.worldRule.check(); err != nil {
		return err
	}
	if s.runs < 4 && s.threshold == "" {
		return usageError("or give --threshold T", "--runs is %d, expected 4 or more where half of them choose the threshold", s.runs)
	}
	j, c, err := s.open()
	if err != nil {
		return err
	}
	if s.canary >= c.Len() {
		return usageError("", "--canary is %d, expected one from 0 to %d", s.canary, c.Len()-1)
	}
	design := multirun.Design{Worlds: &multirun.Worlds{Set: s.set, Canary: s.canary, Runs: s.runs, Seed: s.seed}}
	losses, err := s.run(cmd, flags, j, alone(c, s.canary), design)
	if err != nil || losses == nil {
		return err
	}
	return conclude(cmd, s.out, design, losses, s.worldRule, s.delta, s.json)
}

// alone is the set with one of its canaries only.
func alone(c *audit.CanarySet, k int) *audit.CanarySet {
	n := len(c.X) / c.Len()
	return &audit.CanarySet{Method: c.Method, Set: c.Set, Size: c.Size, K: c.K,
		X: c.X[k*n : (k+1)*n], Y: c.Y[k : k+1], Removed: c.Removed[k : k+1]}
}

func (r worldRule) check() error {
	if r.threshold == "" {
		return nil
	}
	if t, err := strconv.ParseFloat(r.threshold, 64); err != nil || math.IsNaN(t) || math.IsInf(t, 0) {
		return usageError("", "--threshold is %q, expected a number", r.threshold)
	}
	return nil
}

// bound is what bound --two-world says of the score file.
func (r worldRule) bound(cmd *cobra.Command, path string, delta float64) (*boundAnswer, *boundSettings, error) {
	b := &boundSettings{}
	f := pflag.NewFlagSet("bound", pflag.ContinueOnError)
	b.scoreFlags(f)
	b.commonFlags(f)
	values := map[string]string{"scores": path, "two-world": "true", "delta": formatFloat(delta)}
	if r.threshold != "" {
		values["threshold"] = r.threshold
	}
	for name, value := range values {
		if err := f.Set(name, value); err != nil {
			return nil, nil, err
		}
	}
	a, err := b.boundScores(cmd.Context(), cmd.ErrOrStderr(), f, twoWorldScores)
	return a, b, err
}

const (
	trialScores = "scores.csv"
	trialResult = "result.json"
)

// conclude writes what finished trials show into dir, and prints it.
func conclude(cmd *cobra.Command, dir string, design multirun.Design, losses [][]float64, rule worldRule, delta float64, asJSON bool) error {
	if design.Interference != nil {
		return concludeInterference(cmd, dir, *design.Interference, losses, asJSON)
	}
	path := filepath.Join(dir, trialScores)
	rows := design.Worlds.Scores(losses)
	if err := atomicfile.Write(path, 0o644, func(w io.Writer) error { return scoreio.WriteScoresCSV(w, rows) }); err != nil {
		return err
	}
	answer, b, err := rule.bound(cmd, path, delta)
	if err != nil {
		return err
	}
	for i, w := range answer.Warnings { // the same wherever the folder is
		answer.Warnings[i] = strings.ReplaceAll(w, path, trialScores)
		fmt.Fprintf(cmd.ErrOrStderr(), "aviary: warning: %s\n", answer.Warnings[i])
	}
	if err := writeResult(dir, answer); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), answer)
	}
	return answer.table(cmd.OutOrStdout(), b)
}

// writeResult writes result.json.
func writeResult(dir string, v any) error {
	return atomicfile.Write(filepath.Join(dir, trialResult), 0o644, func(w io.Writer) error { return printJSON(w, v) })
}
