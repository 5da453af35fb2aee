package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/report"
)

// sweepTable is the file of a sweep's figures.
const sweepTable = "epsilons.csv"

// sweep audits one recipe at several ε. Each has a run directory of its own in
// --out, and coins, canaries and seeds are the same for all.
func sweep(cmd *cobra.Command, s *settings, flags *pflag.FlagSet) error {
	if err := s.check(flags); err != nil {
		return err
	}
	if twice := firstTwice(s.targetEpsilon); twice != "" {
		return usageError("", "--target-epsilon holds %s twice", twice)
	}
	if s.out == "" {
		s.out = defaultOut(s)
	}
	runs := make([]*settings, len(s.targetEpsilon))
	sets := make([]*pflag.FlagSet, len(s.targetEpsilon))
	for i, e := range s.targetEpsilon {
		var err error
		if sets[i], runs[i], err = s.at(flags, e); err != nil {
			return err
		}
	}
	if s.dryRun {
		for i := range runs {
			if _, err := find(cmd, runs[i], sets[i], ""); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.openSweep(flags); err != nil {
		return err
	}
	defer closeSweep(s.out)
	var reports []*audit.Report
	for i, run := range runs {
		if !s.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "aviary: ε = %s, %d of %d\n", s.targetEpsilon[i], i+1, len(runs))
		}
		r, err := find(cmd, run, sets[i], "")
		if err != nil {
			var f *failure
			if errors.As(err, &f) && f.code == exitRun {
				f.hint = "aviary audit --resume --out " + shellQuote(s.out) + " goes on"
			}
			return err
		}
		reports = append(reports, r)
	}
	if err := atomicfile.Write(filepath.Join(s.out, sweepTable), 0o644, func(w io.Writer) error {
		return sweepCSV(w, s.targetEpsilon, reports)
	}); err != nil {
		return err
	}
	if err := s.showSweep(cmd.OutOrStdout(), reports); err != nil {
		return err
	}
	var crossed []error
	for _, r := range reports {
		if err := gates(s, r); err != nil {
			crossed = append(crossed, err)
		}
	}
	if len(crossed) > 0 {
		return crossed[0]
	}
	return nil
}

func firstTwice(list []string) string {
	for i, e := range list {
		if slices.Contains(list[:i], e) {
			return e
		}
	}
	return ""
}

// at is the settings of the run at one ε, and their flags.
func (s *settings) at(flags *pflag.FlagSet, e string) (*pflag.FlagSet, *settings, error) {
	f, run := allFlags()
	var err error
	flags.Visit(func(set *pflag.Flag) {
		if err != nil || f.Lookup(set.Name) == nil {
			return
		}
		if list, ok := set.Value.(pflag.SliceValue); ok {
			if err = f.Set(set.Name, ""); err == nil {
				err = f.Lookup(set.Name).Value.(pflag.SliceValue).Replace(list.GetSlice())
			}
			return
		}
		err = f.Set(set.Name, set.Value.String())
	})
	if err == nil {
		run.targetEpsilon = []string{e}
		run.out = filepath.Join(s.out, "epsilon-"+e)
		run.craftDir = filepath.Join(s.out, "craft")
		run.resume = holdsRun(run.out)
		run.config = ""
	}
	return f, run, err
}

// openSweep makes the folder of a new sweep, which must be empty.
func (s *settings) openSweep(flags *pflag.FlagSet) error {
	if s.resume {
		return nil
	}
	config, err := effectiveConfig(flags, "")
	if err != nil {
		return err
	}
	return openRun(s, config)
}

// closeSweep leaves no trace of a sweep that never began.
func closeSweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != configName }) {
		return
	}
	os.Remove(filepath.Join(dir, configName))
	os.Remove(dir)
}

// showSweep prints methods against ε.
func (s *settings) showSweep(w io.Writer, reports []*audit.Report) error {
	if s.json {
		type run struct {
			Target float64       `json:"target_epsilon"`
			Report *audit.Report `json:"report"`
		}
		var runs []run
		for i, r := range reports {
			e, err := strconv.ParseFloat(s.targetEpsilon[i], 64)
			if err != nil {
				return err
			}
			runs = append(runs, run{e, r})
		}
		return printJSON(w, struct {
			Runs []run `json:"runs"`
		}{runs})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "target ε\tcanaries\tAUC\tTPR at 5 % FPR")
	for i, r := range reports {
		for _, m := range r.Methods {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.targetEpsilon[i], m.Name, plusMinus(m.AUC), plusMinus(m.TPR))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := report.Epsilons(w, reports); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ntable: %s\n", filepath.Join(s.out, sweepTable))
	return err
}

func plusMinus(s audit.Summary) string {
	if s.SD == nil {
		return fmt.Sprintf("%.3f", s.Mean)
	}
	return fmt.Sprintf("%.3f ± %.3f", s.Mean, *s.SD)
}

func sweepCSV(w io.Writer, epsilons []string, reports []*audit.Report) error {
	c := csv.NewWriter(w)
	head := []string{"target_epsilon", "accounted_epsilon", "canaries", "runs", "auc_mean", "auc_sd", "auc_min", "tpr_at_fpr_0.05_mean", "tpr_at_fpr_0.05_sd", "tpr_at_fpr_0.05_min"}
	for _, b := range reports[0].Methods[0].Bounds {
		for _, what := range []string{"mean", "sd", "min"} {
			head = append(head, fmt.Sprintf("%s_%s_%s_%s", b.Estimator, b.Rule, b.Scope, what))
		}
	}
	c.Write(head)
	for i, r := range reports {
		for _, m := range r.Methods {
			row := []string{epsilons[i], optional(r.Accounted), m.Name, strconv.Itoa(len(m.Runs))}
			summaries := []audit.Summary{m.AUC, m.TPR}
			for _, b := range m.Bounds {
				summaries = append(summaries, b.Epsilon)
			}
			for _, s := range summaries {
				row = append(row, formatFloat(s.Mean), optional(s.SD), formatFloat(s.Min))
			}
			c.Write(row)
		}
	}
	c.Flush()
	return c.Error()
}

// optional is a number, or nothing.
func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return formatFloat(*v)
}
