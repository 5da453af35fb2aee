package main

import (
	"math"
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
	delta           float64
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
	// craftDir keeps what is crafted, if not the run directory: runs that differ
	// in noise alone share it.
	craftDir string
}

// allFlags are the flags of audit.
func allFlags() (*pflag.FlagSet, *settings) {
	s := &settings{}
	f := pflag.NewFlagSet("audit", pflag.ContinueOnError)
	f.SortFlags = false
	s.gameFlags(f)
	s.modelFlags(f)
	s.runFlags(f)
	s.talkFlags(f)
	return f, s
}

// gameFlags are the flags of what is audited; audit plan has only these.
func (s *settings) gameFlags(f *pflag.FlagSet) {
	f.StringVar(&s.data, "data", "mnist", "training `DATA`: mnist (60,000 digits), mnist-t10k (10,000, built in), or a folder with IDX or npz files")
	f.IntVar(&s.limit, "limit", 0, "use only the first `N` training examples (0: all)")
	f.StringSliceVar(&s.canaries, "canaries", []string{"mislabeled"}, "`KINDS` of canaries: random, mislabeled, blank, clipbkd, self-influence, greedy, ibis, or FILE.npz; each kind is audited")
	f.IntVar(&s.numCanaries, "num-canaries", 1000, "canaries in a set (`M`); as many as there are if all come from files")
	f.IntVar(&s.sets, "sets", 5, "canary sets per kind (`N`)")
	f.IntVar(&s.audits, "audits", 2, "training runs per set, each with coins of its own (`N`)")
	f.Uint64Var(&s.seed, "seed", 1, "seed of all randomness (`N`)")
}

// trainFlags say how the built-in trainer trains, but for the noise of DP-SGD.
func (s *settings) trainFlags(f *pflag.FlagSet) {
	f.StringVar(&s.arch, "arch", "mlp:784-256-10", "`MODEL` to train: mlp:INPUT-HIDDEN-…-CLASSES")
	f.IntVar(&s.epochs, "epochs", 7, "passes over the training data (`N`)")
	f.IntVar(&s.batch, "batch", 256, "examples per step (`B`); their mean number with --clip")
	f.Float64Var(&s.lr, "lr", 0.1, "learning rate (`X`)")
	f.Float64Var(&s.momentum, "momentum", 0.9, "heavy-ball momentum (`X`)")
	f.Float64Var(&s.weightDecay, "weight-decay", 1e-5, "weight decay (`X`)")
	f.Float64Var(&s.ema, "ema", 0.9, "decay per step (`X`) of the average of the weights that is audited (0: no average)")
	f.StringVar(&s.schedule, "schedule", "constant", "`RULE` for the learning rate: constant, cosine, or step:FACTOR@FRACTION,… as in step:0.1@0.5,0.75")
	f.StringVar(&s.augment, "augment", "none", "`RULE` for moving images while training: none, shift:K, crop:K, flip, or several joined by +")
	f.IntVar(&s.microbatch, "microbatch", 0, "at most `N` examples in memory at once with --clip (0: a whole batch); changes no result")
	f.Float64Var(&s.clip, "clip", 0, "norm (`C`) to which each example's gradient is clipped, for DP-SGD (0: plain SGD)")
}

// modelFlags say how the built-in trainer trains. They mean nothing to
// somebody else's.
func (s *settings) modelFlags(f *pflag.FlagSet) {
	s.trainFlags(f)
	f.Float64Var(&s.noiseMultiplier, "noise-multiplier", 0, "standard deviation of DP-SGD's noise in units of the clip norm (`S`)")
	f.StringSliceVar(&s.targetEpsilon, "target-epsilon", nil, "find the noise multiplier that gives DP-SGD this ε (`E`); several are audited one after the other")
	f.Float64Var(&s.delta, "delta", defaultDelta, "the δ (`D`) of DP-SGD's (ε, δ)")
}

// runFlags say where and on what an audit runs.
func (s *settings) runFlags(f *pflag.FlagSet) {
	f.StringVar(&s.trainer, "trainer", "", "`CMD` that trains instead of Aviary, run once per audit in a folder of its own (so give its path in full): it finds train.npz, canaries.npz, test.npz and job.json there, also named by AVIARY_TRAIN and so on, and writes losses.csv with the columns canary,loss")
	s.deviceFlags(f)
	f.StringVar(&s.out, "out", "", "run directory (`DIR`) (default runs/NAME, from the settings)")
	f.BoolVar(&s.resume, "resume", false, "finish the run in --out, with its own settings")
	f.BoolVar(&s.saveModels, "save-models", false, "keep every trained model in the run directory")
	s.gateFlags(f)
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would be done and what it costs, and stop")
}

// deviceFlags say on what the built-in trainer trains.
func (s *settings) deviceFlags(f *pflag.FlagSet) {
	f.StringVar(&s.device, "device", "auto", "`DEVICE` to train on: auto, cpu, or ref (float64, slow)")
	f.IntVar(&s.threads, "threads", 0, "threads of the device (`N`) (0: one per core); changes no result")
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
	f.StringVar(&s.config, "config", "", "YAML `FILE` with the same settings; flags override it")
}

// check refuses settings that no data could make right, and settles those
// whose default depends on others. flags are those of s.
func (s *settings) check(flags *pflag.FlagSet) error {
	if err := s.settleCount(flags); err != nil {
		return err
	}
	if err := s.checkPrivacy(); err != nil {
		return err
	}
	if err := s.checkGates(); err != nil {
		return err
	}
	if err := s.checkTraining(); err != nil {
		return err
	}
	if s.trainer != "" {
		return s.checkTrainer(flags)
	}
	return nil
}

// checkTraining refuses sizes and rates that no data could make right.
func (s *settings) checkTraining() error {
	if err := checkInts([]intSetting{
		{"limit", s.limit, 0, math.MaxInt}, {"sets", s.sets, 1, most}, {"audits", s.audits, 1, most}, {"epochs", s.epochs, 1, most},
		{"batch", s.batch, 1, math.MaxInt}, {"microbatch", s.microbatch, 0, math.MaxInt}, {"threads", s.threads, 0, math.MaxInt},
	}); err != nil {
		return err
	}
	if err := checkFloats([]floatSetting{
		{"momentum", s.momentum, 0, 1}, {"ema", s.ema, 0, 1}, {"weight-decay", s.weightDecay, 0, math.Inf(1)},
		{"clip", s.clip, 0, math.Inf(1)}, {"noise-multiplier", s.noiseMultiplier, 0, math.Inf(1)},
	}); err != nil {
		return err
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
	return nil
}

// most is as many sets, audits and epochs as anybody will wait for: more is a
// slip, and their products overflow.
const most = 1_000_000

type intSetting struct {
	name     string
	v        int
	min, max int
}

func checkInts(settings []intSetting) error {
	for _, n := range settings {
		if n.v < n.min {
			return usageError("", "--%s is %d, expected %d or more", n.name, n.v, n.min)
		}
		if n.v > n.max {
			return usageError("", "--%s is %d, expected %d or less", n.name, n.v, n.max)
		}
	}
	return nil
}

// checkGates refuses gates that nothing passes, or everything.
func (s *settings) checkGates() error {
	return checkFloats([]floatSetting{{"fail-if-auc-above", s.failAUC, 0, math.Inf(1)}, {"fail-if-tpr-above", s.failTPR, 0, math.Inf(1)}})
}

type floatSetting struct {
	name     string
	v        float64
	min, max float64 // max excluded
}

func checkFloats(settings []floatSetting) error {
	for _, n := range settings {
		if !(n.v >= n.min && n.v < n.max) { // NaN too
			return usageError("", "--%s is %v, expected a number from %v to below %v", n.name, n.v, n.min, n.max)
		}
	}
	return nil
}

// checkTrainer refuses settings that somebody else's trainer would not get.
func (s *settings) checkTrainer(flags *pflag.FlagSet) (err error) {
	if strings.TrimSpace(s.trainer) == "" {
		return usageError("", "--trainer is empty, expected a command")
	}
	mine := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(settings).modelFlags(mine)
	new(settings).deviceFlags(mine)
	mine.VisitAll(func(f *pflag.Flag) {
		if err == nil && flags.Lookup(f.Name).Value.String() != f.DefValue {
			err = usageError("give it to the command yourself", "--%s does not reach --trainer", f.Name)
		}
	})
	return err
}

// settleCount asks for 0 canaries, which is as many as there are, where all of
// them come from files and no number was given.
func (s *settings) settleCount(flags *pflag.FlagSet) error {
	if flags.Changed("num-canaries") || len(s.canaries) == 0 {
		return nil
	}
	for _, kind := range s.canaries {
		if !isCanaryFile(kind) {
			return nil
		}
	}
	return flags.Set("num-canaries", "0")
}

func isCanaryFile(kind string) bool {
	return strings.HasSuffix(strings.ToLower(kind), ".npz")
}

// shellQuote makes an argument of a command that can be pasted into a shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=@%+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
