package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/report"
)

// craftSettings are the flags of craft. Those that say what is trained on, and
// how, are shared with audit.
type craftSettings struct {
	settings
	method     string
	recipe     ibis.Recipe
	thetaInit  string
	labelsKept string
}

func craftCommand() *cobra.Command {
	s := &craftSettings{recipe: ibis.DefaultRecipe(models.Arch{}, train.Config{})} // which prepare fills in
	cmd := &cobra.Command{
		Use:   "craft",
		Short: "Make canaries that are easy to detect and leave each other alone",
		Long: `Make canaries for an audit of the training that --arch, --epochs and so on
describe, and write them to a file that audit --canaries takes.

Influence functions choose training examples whose membership a model shows, far
from each other (greedy) or not (self-influence); ibis then refines their pixels
by bilevel optimisation, so that each is seen in the model's loss and none
disturbs the others (arXiv:2605.27292). With --clip it crafts for clipped
gradients, with --augment for moved images.

The folder FILE.craft keeps what is finished, and a page with pictures, craft.html.
Crafting that was interrupted goes on with --resume, to the same canaries.`,
		Example: `  aviary craft --data mnist --num-canaries 1000 --sets 5 --out ibis.npz
  aviary audit --data mnist --canaries ibis.npz,mislabeled --num-canaries 1000
  aviary craft --method greedy --preselect 5000 --out greedy.npz`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runCraft(cmd, s) },
	}
	s.craftFlags(cmd.Flags())
	return cmd
}

func (s *craftSettings) craftFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	r := &s.recipe
	f.StringVar(&s.method, "method", "ibis", "`KIND` of canaries: "+strings.Join(canaryKinds, ", "))
	f.StringVar(&s.data, "data", "mnist", "training `DATA`: mnist, mnist-t10k, or a folder with IDX or npz files")
	f.IntVar(&s.limit, "limit", 0, "use only the first `N` training examples (0: all)")
	f.IntVar(&s.numCanaries, "num-canaries", 1000, "canaries in a set (`M`)")
	f.IntVar(&s.sets, "sets", 5, "canary sets (`N`)")
	f.Uint64Var(&s.seed, "seed", 1, "seed of all randomness (`N`)")
	f.StringVar(&r.Init, "init", r.Init, "`HOW` ibis chooses examples: greedy, self-influence or random")
	f.IntVar(&r.Selection.Preselect, "preselect", r.Selection.Preselect, "examples (`P`) of the largest self-influence to choose from")
	f.StringVar(&r.Selection.Curvature, "curvature", r.Selection.Curvature, "`MATRIX` of influence: kfac or ekfac")
	f.Float64Var(&r.Selection.Damping, "damping", r.Selection.Damping, "damping (`X`) of the curvature, relative to its mean eigenvalue")
	f.Float64Var(&r.Refinement.Lambda, "lambda", r.Refinement.Lambda, "weight (`X`) of the regulariser against interference")
	f.Float64Var(&r.Refinement.Rho, "rho", r.Refinement.Rho, "step (`X`) of the pixels")
	f.Float64Var(&r.Refinement.Eta, "eta", r.Refinement.Eta, "step (`X`) of the model in the refinement")
	f.IntVar(&r.Refinement.Steps, "steps", r.Refinement.Steps, "steps of the model in the refinement (`N`)")
	f.IntVar(&r.Refinement.Every, "every", r.Refinement.Every, "steps between two moves of the pixels (`N`)")
	f.IntVar(&r.Refinement.CanaryBatch, "canary-batch", r.Refinement.CanaryBatch, "canaries that move at a time (`N`) (0: all)")
	f.IntVar(&r.ThetaEpochs, "theta-epochs", r.ThetaEpochs, "epochs (`N`) of the models with and without canaries that refinement starts from")
	f.StringVar(&s.thetaInit, "theta0-init", "same", "`WHICH` random parameters the second of them starts from: same, other")
	f.StringVar(&s.labelsKept, "labels", "keep", "`WHAT` ibis does with labels: keep, or flip to a wrong one")
	f.BoolVar(&r.Refinement.ClipPixels, "clip-pixels", r.Refinement.ClipPixels, "keep pixels in [0, 1]; without it canaries are detected better but are no images")
	f.BoolVar(&r.Refinement.WithoutImplicit, "without-implicit", false, "leave out how a moved canary moves the model")
	f.BoolVar(&r.Refinement.WithoutDetect, "without-detect", false, "refine by the regulariser alone")
	s.trainFlags(f)
	s.deviceFlags(f)
	f.StringVar(&s.out, "out", "canaries.npz", "`FILE` of the canaries, .npz")
	f.BoolVar(&s.resume, "resume", false, "finish the crafting of --out, with its own settings")
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would be done and what it costs, and stop")
	s.talkFlags(f)
	f.Lookup("json").Usage = "print JSON instead of a table"
}

// workDir keeps what is finished.
func (s *craftSettings) workDir() string {
	return strings.TrimSuffix(s.out, filepath.Ext(s.out)) + ".craft"
}

func runCraft(cmd *cobra.Command, s *craftSettings) error {
	flags := cmd.Flags()
	if !isCanaryFile(s.out) {
		return usageError("", "--out is %q, expected a name that ends in .npz", s.out)
	}
	if s.resume {
		kept := filepath.Join(s.workDir(), configName)
		if _, err := os.Stat(kept); err != nil {
			return usageError("without --resume a new crafting begins", "%s holds no crafting to resume", s.workDir())
		}
		if s.config == "" {
			s.config = kept
		}
	}
	if s.config != "" {
		if err := loadConfig(s.config, flags); err != nil {
			return err
		}
	}
	j, selector, err := s.prepare(flags)
	if err != nil {
		return err
	}
	defer j.close()
	if s.dryRun {
		return s.describe(cmd.OutOrStdout(), j)
	}
	if err := s.open(flags); err != nil {
		return err
	}
	ui := newTalk(cmd.ErrOrStderr(), s.quiet)
	j.crafting = ui.craft
	result, err := s.craft(cmd.Context(), j, selector)
	ui.done()
	if err != nil {
		return s.failed(err)
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), result)
	}
	return result.table(cmd.OutOrStdout())
}

// prepare opens what the settings name. Its errors are the user's.
func (s *craftSettings) prepare(flags *pflag.FlagSet) (*job, audit.Selector, error) {
	if err := s.check(flags); err != nil {
		return nil, nil, err
	}
	j := &job{settings: &s.settings}
	if err := j.openData(); err != nil {
		return nil, nil, err
	}
	if err := j.openModel(); err != nil {
		j.close()
		return nil, nil, err
	}
	s.canaries = []string{s.method}
	r := &s.recipe
	r.Arch, r.Train = j.arch, j.train
	r.Refinement.Batch = s.batch
	r.OtherInit, r.FlipLabels = s.thetaInit == "other", s.labelsKept == "flip"
	var err error
	switch s.method {
	case "ibis", "greedy", "self-influence":
		if flags.Changed("preselect") && r.Selection.Preselect > j.game.Data.Len() {
			err = usageError("", "--preselect is %d, expected at most the %d training examples", r.Selection.Preselect, j.game.Data.Len())
			break
		}
		_, err = j.crafter(s.method, s.workDir(), *r)
	default:
		err = j.openCanaries()
	}
	if err != nil {
		j.close()
		return nil, nil, err
	}
	if len(j.crafters) > 0 {
		return j, j.crafters[0], nil
	}
	return j, j.game.Selectors[0], nil
}

// check refuses settings that no data could make right.
func (s *craftSettings) check(flags *pflag.FlagSet) error {
	if !isCanaryKind(s.method) {
		return usageError(didYouMean(s.method, canaryKinds, ""), "--method is %q, expected one of %s", s.method, strings.Join(canaryKinds, ", "))
	}
	for _, c := range []struct {
		flag, got string
		want      []string
	}{
		{"init", s.recipe.Init, []string{"greedy", "self-influence", "random"}},
		{"curvature", s.recipe.Selection.Curvature, []string{"kfac", "ekfac"}},
		{"theta0-init", s.thetaInit, []string{"same", "other"}},
		{"labels", s.labelsKept, []string{"keep", "flip"}},
	} {
		if !slices.Contains(c.want, c.got) {
			return usageError(didYouMean(c.got, c.want, ""), "--%s is %q, expected %s", c.flag, c.got, strings.Join(c.want, " or "))
		}
	}
	// What only refinement looks at must not be given in vain.
	if s.method != "ibis" {
		for _, name := range []string{"init", "lambda", "rho", "eta", "steps", "every", "canary-batch", "theta-epochs", "theta0-init", "labels", "clip-pixels", "without-implicit", "without-detect"} {
			if flags.Changed(name) && s.config == "" {
				return usageError("", "--%s does not go with --method %s, which refines nothing", name, s.method)
			}
		}
	}
	if err := checkInts([]intSetting{{"num-canaries", s.numCanaries, 2, math.MaxInt}, {"preselect", s.recipe.Selection.Preselect, 1, math.MaxInt}}); err != nil {
		return err
	}
	s.audits, s.delta, s.failAUC, s.failTPR = 1, defaultDelta, 1, 1 // not flags here
	return s.settings.checkTraining()
}

// open makes the work folder of a new crafting.
func (s *craftSettings) open(flags *pflag.FlagSet) error {
	dir := s.workDir()
	if !s.resume {
		for _, path := range []string{s.out, dir} {
			_, err := os.Lstat(path)
			if err == nil {
				return usageError("finish it with --resume, or choose another --out", "%s is there already", path)
			}
			if !errors.Is(err, os.ErrNotExist) {
				return inputError(err)
			}
		}
	}
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
		return inputError(err)
	}
	if s.resume {
		return nil
	}
	config, err := effectiveConfig(flags, "")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, configName), 0o644, config)
}

// craft makes all sets and writes the file.
func (s *craftSettings) craft(ctx context.Context, j *job, selector audit.Selector) (*craftResult, error) {
	result := &craftResult{File: s.out, Method: s.method, Canaries: s.numCanaries, Seed: s.seed, Seconds: map[string]float64{}}
	page := &report.Craft{
		Method: s.method, Data: j.game.Header.Data, Model: j.game.Header.Model, Recipe: recipe(j.train), Version: programVersion(),
		Seed: s.seed, Shape: j.game.Data.Shape(),
	}
	var sets []*audit.CanarySet
	for set := range s.sets {
		var crafted *ibis.Crafted
		var err error
		if c, ok := selector.(*ibis.Crafter); ok {
			crafted, err = c.Craft(ctx, j.game.Data, s.numCanaries, set, s.seed)
		} else {
			crafted = &ibis.Crafted{}
			crafted.Canaries, err = selector.Select(ctx, j.game.Data, s.numCanaries, set, s.seed)
		}
		if err != nil {
			return nil, err
		}
		sets = append(sets, crafted.Canaries)
		result.add(set, crafted)
		if crafted.Before != nil {
			page.Sets = append(page.Sets, craftedPage(set, crafted, set == 0))
		}
	}
	if len(page.Sets) > 0 {
		for _, stage := range ibis.Stages() {
			if v, ok := result.Seconds[stage]; ok {
				page.Stages = append(page.Stages, report.CraftStage{Name: stage, Seconds: v})
			}
		}
		if err := report.WriteCraft(s.workDir(), page); err != nil {
			return nil, err
		}
		result.Page = filepath.Join(s.workDir(), report.CraftHTML)
	}
	return result, atomicfile.Write(s.out, 0o644, func(w io.Writer) error { return scoreio.WriteCanaries(w, sets...) })
}

func (s *craftSettings) failed(err error) error {
	again := "aviary craft --resume --out " + shellQuote(s.out)
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{exitRun, errors.New("interrupted"), again + " goes on"}
	case errors.Is(err, train.ErrDiverged):
		return &failure{exitRun, err, "it would again: choose other settings, and another --out"}
	}
	return &failure{exitRun, err, again + " goes on once that is mended"}
}

// describe prints what a crafting would do and cost.
func (s *craftSettings) describe(w io.Writer, j *job) error {
	n, m := j.game.Data.Len(), s.numCanaries
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "data\t%s: %d training examples of %v, %d classes\n", j.game.Header.Data, n, j.game.Data.Shape(), j.game.Data.Classes())
	fmt.Fprintf(t, "canaries\t%s: %d in each of %d sets\n", s.method, m, s.sets)
	fmt.Fprintf(t, "model\t%s\nrecipe\t%s\ndevice\t%s\n", j.game.Header.Model, recipe(j.train), j.game.Header.Device)
	if len(j.crafters) > 0 {
		steps := j.train.TotalSteps(n)
		if s.method == "ibis" {
			theta := j.train
			theta.Epochs = s.recipe.ThetaEpochs
			steps += theta.TotalSteps(n-m) + theta.TotalSteps(n)
		}
		fmt.Fprintf(t, "training\t%d steps for each set\n", steps)
	}
	if s.method == "ibis" {
		r := s.recipe.Refinement
		fmt.Fprintf(t, "refinement\t%d steps, pixels move every %d, lambda %s, rho %s, eta %s\n", r.Steps, r.Every, formatFloat(r.Lambda), formatFloat(r.Rho), formatFloat(r.Eta))
	}
	fmt.Fprintf(t, "output\t%s, %s\n", s.out, s.workDir())
	return t.Flush()
}
