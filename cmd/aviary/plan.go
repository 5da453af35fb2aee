package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/report"
)

const planName = "plan.json"

func planCommand() *cobra.Command {
	s := &settings{}
	var model, recipe string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Draw the coins of an audit whose models somebody else trains",
		Long: `Draw the canaries and coins of an audit whose models somebody else trains.

The plan's directory says, for each training run, which examples to leave out
and which canaries to add. Train the models in whatever way is to be audited,
write the loss of every canary under each of them into a file with the columns
set,audit,canary,loss, and give it to aviary audit score.`,
		Example: "  aviary audit plan --data mnist-t10k --canaries mislabeled --sets 2 --out plans/a\n  aviary audit score plans/a losses.csv",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.config != "" {
				if err := loadConfig(s.config, cmd.Flags()); err != nil {
					return err
				}
			}
			return runPlan(cmd, s, model, recipe)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.gameFlags(f)
	f.Lookup("canaries").Usage = "`KIND` of canaries: random, mislabeled, blank, or FILE.npz, as aviary craft writes; one in a plan"
	f.StringVar(&s.out, "out", "", "`directory` of the plan (required)")
	f.StringVar(&model, "model", "somebody else's", "the `name` of the model, for the report")
	f.StringVar(&recipe, "recipe", "not told", "`how` it is trained, for the report")
	f.StringVar(&s.config, "config", "", "YAML `file` with the same settings; flags override it")
	return cmd
}

func runPlan(cmd *cobra.Command, s *settings, model, recipe string) error {
	if s.out == "" {
		return usageError("aviary audit plan --out DIR", "--out is missing, the directory of the plan")
	}
	if err := checkInts([]intSetting{{"limit", s.limit, 0, math.MaxInt}, {"sets", s.sets, 1, most}, {"audits", s.audits, 1, most}}); err != nil {
		return err
	}
	if err := s.settleCount(cmd.Flags()); err != nil {
		return err
	}
	j := &job{settings: s}
	if err := j.openData(); err != nil {
		return err
	}
	if err := j.openCanaries(); err != nil {
		return err
	}
	j.game.Dir = s.out
	j.game.Header.Model, j.game.Header.Recipe = model, recipe
	plan, err := j.game.WritePlan(cmd.Context())
	if err != nil {
		return inputError(err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "plan %s: %d training runs in %s\n", plan.ID, plan.Sets*plan.Audits, s.out)
	return err
}

func scoreCommand() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "score DIR LOSSES",
		Short: "Report on a plan, given the losses of its models",
		Long: `Report on a plan, given the losses of its models.

LOSSES is a .csv or .npz file with the columns set, audit, canary and loss, as
many digits as there are: a loss that is rounded to 0 ties with others.`,
		Example: "  aviary audit score plans/a losses.csv",
		Args:    arguments("DIR", "LOSSES"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.checkGates(); err != nil {
				return err
			}
			s.out = args[0]
			r, err := onerun.ScorePlan(args[0], args[1])
			if err != nil {
				return inputError(err)
			}
			r.Version = programVersion()
			if r.Device == "" {
				r.Device = "not told"
			}
			if err := finishRun(s.out, r, &job{inputs: args[1:]}); err != nil {
				return err
			}
			return show(cmd, s, r)
		},
	}
	cmd.Flags().BoolVar(&s.json, "json", false, "print report.json instead of a table")
	s.gateFlags(cmd.Flags())
	return cmd
}

func reportCommand() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:     "report DIR",
		Short:   "Make the report of a run directory again",
		Long:    "Make report.html, the plots and tables of a run directory again from its report.json and score files.",
		Example: "  aviary report aviary-demo",
		Args:    arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.checkGates(); err != nil {
				return err
			}
			s.out = args[0]
			m, err := readManifest(s.out)
			if err != nil {
				return err
			}
			// Making a page again must not make a changed score look right.
			found, err := changedFiles(s.out, m, append(report.Files()[1:], configName))
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return usageError("aviary verify "+shellQuote(s.out)+" says more", "%s has changed since the run: %s", s.out, found[0])
			}
			r, err := report.Render(s.out, loader(s.out))
			if err != nil {
				return inputError(err)
			}
			for _, name := range report.Files() {
				if m.Outputs[name], err = atomicfile.Sum(filepath.Join(s.out, name)); err != nil {
					return err
				}
			}
			if err := m.write(s.out); err != nil {
				return err
			}
			return show(cmd, s, r)
		},
	}
	cmd.Flags().BoolVar(&s.json, "json", false, "print report.json instead of a table")
	s.gateFlags(cmd.Flags())
	return cmd
}
