package main

import (
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// settings is everything that an audit can be told. Each field is one flag and
// one key of the configuration file, under the same name.
type settings struct {
	// what is audited
	data        string
	limit       int
	canaries    []string
	numCanaries int
	sets        int
	audits      int
	seed        uint64
	// how the model is trained
	arch        string
	epochs      int
	batch       int
	lr          float64
	momentum    float64
	weightDecay float64
	ema         float64
	schedule    string
	augment     string
	microbatch  int
	// privately, if at all
	clip            float64
	noiseMultiplier float64
	targetEpsilon   []string
	// by whom and on what
	trainer string
	device  string
	threads int
	// where to
	out        string
	resume     bool
	saveModels bool
	// gates
	failAUC float64
	failTPR float64
	// talk
	json   bool
	quiet  bool
	dryRun bool
	config string
}

// gameFlags are the flags of what is audited; audit plan has only these.
func (s *settings) gameFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.data, "data", "mnist", "`data` to train on: mnist (60,000 digits), mnist-t10k (10,000, built in), or a folder with IDX or npz files")
	f.IntVar(&s.limit, "limit", 0, "use only the first `N` training examples (0: all)")
	f.StringSliceVar(&s.canaries, "canaries", []string{"mislabeled"}, "`kinds` of canaries: random, mislabeled, or FILE.npz; several give one audit each")
	f.IntVar(&s.numCanaries, "num-canaries", 1000, "`number` of canaries in a set")
	f.IntVar(&s.sets, "sets", 5, "canary `sets` per kind")
	f.IntVar(&s.audits, "audits", 2, "training `runs` per set, each with coins of its own")
	f.Uint64Var(&s.seed, "seed", 1, "`seed` of all randomness")
}

// modelFlags say how the built-in trainer trains. They mean nothing to
// somebody else's.
func (s *settings) modelFlags(f *pflag.FlagSet) {
	f.StringVar(&s.arch, "arch", "mlp:784-256-10", "`model`: mlp:INPUT-HIDDEN-…-CLASSES")
	f.IntVar(&s.epochs, "epochs", 7, "`passes` over the training data")
	f.IntVar(&s.batch, "batch", 256, "examples per `step`; the mean number of them with --clip")
	f.Float64Var(&s.lr, "lr", 0.1, "learning `rate`")
	f.Float64Var(&s.momentum, "momentum", 0.9, "heavy-ball `momentum`")
	f.Float64Var(&s.weightDecay, "weight-decay", 1e-5, "weight `decay`")
	f.Float64Var(&s.ema, "ema", 0.9, "`decay` per step of the average of the weights that is audited (0: the weights themselves)")
	f.StringVar(&s.schedule, "schedule", "constant", "learning rate `over` time: constant, cosine, or step")
	f.StringVar(&s.augment, "augment", "none", "`changes` to images while training: none, shift, or flip")
	f.IntVar(&s.microbatch, "microbatch", 0, "at most `N` examples in memory at once with --clip (0: a whole batch); changes no result")
	f.Float64Var(&s.clip, "clip", 0, "`norm` to which each example's gradient is clipped, for DP-SGD (0: plain SGD)")
	f.Float64Var(&s.noiseMultiplier, "noise-multiplier", 0, "standard deviation of DP-SGD's noise, in `units` of the clip norm")
	f.StringSliceVar(&s.targetEpsilon, "target-epsilon", nil, "not in this version: use --noise-multiplier")
}

// runFlags say where and on what an audit runs.
func (s *settings) runFlags(f *pflag.FlagSet) {
	f.StringVar(&s.trainer, "trainer", "", "`command` that trains instead of Aviary; see the manual in docs/")
	f.StringVar(&s.device, "device", "auto", "`device`: auto, cpu, or ref (float64, slow)")
	f.IntVar(&s.threads, "threads", 0, "`threads` of the device (0: one per core); changes no result")
	f.StringVar(&s.out, "out", "", "run `directory` (default runs/NAME, from the settings)")
	f.BoolVar(&s.resume, "resume", false, "finish the run in --out, with its own settings")
	f.BoolVar(&s.saveModels, "save-models", false, "keep every trained model in the run directory")
	s.gateFlags(f)
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would be done and what it costs, and stop")
}

// gateFlags turn figures into exit codes.
func (s *settings) gateFlags(f *pflag.FlagSet) {
	f.Float64Var(&s.failAUC, "fail-if-auc-above", 1, "exit with 1 if the mean AUC of any kind is above `X`")
	f.Float64Var(&s.failTPR, "fail-if-tpr-above", 1, "exit with 1 if the mean TPR at 5 % FPR of any kind is above `X`")
}

// talkFlags say what is printed.
func (s *settings) talkFlags(f *pflag.FlagSet) {
	f.BoolVar(&s.json, "json", false, "print report.json instead of a table")
	f.BoolVar(&s.quiet, "quiet", false, "no progress")
	f.StringVar(&s.config, "config", "", "YAML `file` with the same settings; flags override it")
}

// check refuses settings that no data could make right. changed tells which
// were given, by flag or file.
func (s *settings) check(changed func(name string) bool) error {
	if len(s.targetEpsilon) > 0 {
		return usageError("use --noise-multiplier S with --clip C", "--target-epsilon needs an accountant, which this version does not have")
	}
	for _, n := range []struct {
		name string
		v    int
		min  int
	}{
		{"limit", s.limit, 0}, {"sets", s.sets, 1}, {"audits", s.audits, 1}, {"epochs", s.epochs, 1}, {"batch", s.batch, 1},
		{"microbatch", s.microbatch, 0}, {"threads", s.threads, 0},
	} {
		if n.v < n.min {
			return usageError("", "--%s is %d, expected %d or more", n.name, n.v, n.min)
		}
	}
	for _, n := range []struct {
		name     string
		v        float64
		min, max float64 // max excluded
	}{
		{"momentum", s.momentum, 0, 1}, {"ema", s.ema, 0, 1}, {"weight-decay", s.weightDecay, 0, math.Inf(1)},
		{"clip", s.clip, 0, math.Inf(1)}, {"noise-multiplier", s.noiseMultiplier, 0, math.Inf(1)},
	} {
		if !(n.v >= n.min && n.v < n.max) {
			return usageError("", "--%s is %v, expected a number from %v to below %v", n.name, n.v, n.min, n.max)
		}
	}
	if !(s.lr > 0 && !math.IsInf(s.lr, 0)) {
		return usageError("", "--lr is %v, expected a number above 0", s.lr)
	}
	if s.noiseMultiplier > 0 && s.clip == 0 {
		return usageError("add --clip C, the norm that the noise is relative to", "--noise-multiplier without --clip")
	}
	if s.microbatch > 0 && s.clip == 0 {
		return usageError("", "--microbatch is %d without --clip; only DP-SGD splits batches", s.microbatch)
	}
	if s.trainer != "" {
		return s.checkTrainer(changed)
	}
	return nil
}

// checkTrainer refuses settings that somebody else's trainer would not get.
func (s *settings) checkTrainer(changed func(string) bool) error {
	if strings.TrimSpace(s.trainer) == "" {
		return usageError("", "--trainer is empty, expected a command")
	}
	var err error
	none := &settings{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	none.modelFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if changed(f.Name) && err == nil {
			err = usageError("give it to the command yourself", "--%s does not reach --trainer", f.Name)
		}
	})
	return err
}

// canaryCount is the number of canaries to ask for: 0, as many as there are,
// where they come from files and no number was given.
func (s *settings) canaryCount(changed func(string) bool) int {
	if changed("num-canaries") {
		return s.numCanaries
	}
	for _, kind := range s.canaries {
		if !isCanaryFile(kind) {
			return s.numCanaries
		}
	}
	return 0
}

func isCanaryFile(kind string) bool {
	return strings.HasSuffix(strings.ToLower(kind), ".npz")
}

// shellQuote makes an argument of a command that can be pasted into a shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=@%+"+string(os.PathSeparator)) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
