package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/audit/stats"
	"github.com/aviary-audit/aviary/report"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Recompute a run's hashes, and its figures from the score files",
		Long: `Recompute the SHA-256 of every file of a run, and all figures of report.json
from the score files, and say what differs. Exits with 1 if anything does.`,
		Example: "  aviary verify aviary-demo",
		Args:    arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			m, err := readManifest(dir)
			if err != nil {
				return err
			}
			found, err := changedFiles(dir, m, nil)
			if err != nil {
				return err
			}
			checked, wrong, err := wrongFigures(dir)
			if err != nil {
				return err
			}
			found = append(found, wrong...)
			out := cmd.OutOrStdout()
			for _, line := range found {
				fmt.Fprintln(out, line)
			}
			if len(found) > 0 {
				return &failure{exitGate, fmt.Errorf("%s: %d differences", dir, len(found)), ""}
			}
			_, err = fmt.Fprintf(out, "%s: %d files and %d figures are as they were\n", dir, len(m.Outputs), checked)
			return err
		},
	}
}

// changedFiles names the files of dir that are not as the manifest has them,
// but for those in ignore.
func changedFiles(dir string, m *manifest, ignore []string) (found []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(m.Outputs)) {
		if slices.Contains(ignore, name) {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, usageError("", "%s: output %q lies outside the run directory", filepath.Join(dir, manifestName), name)
		}
		sum, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found = append(found, name+": is gone")
		case err != nil:
			return nil, err
		case sum != m.Outputs[name]:
			found = append(found, fmt.Sprintf("%s: SHA-256 is %s, the manifest has %s", name, sum, m.Outputs[name]))
		}
	}
	return found, nil
}

// loader reads the score files of the run in dir.
func loader(dir string) report.Loader {
	return func(run audit.Run) (audit.Scores, error) {
		if !filepath.IsLocal(filepath.FromSlash(run.Scores)) {
			return audit.Scores{}, fmt.Errorf("score file %q lies outside the run directory", run.Scores)
		}
		path := filepath.Join(dir, filepath.FromSlash(run.Scores))
		rows, err := scoreio.ReadScores(path)
		if err != nil {
			return audit.Scores{}, err
		}
		for i, row := range rows {
			if row.Set != run.Set || row.Audit != run.Audit {
				return audit.Scores{}, fmt.Errorf("%s: row %d is of set %d, audit %d, expected set %d, audit %d", path, i, row.Set, row.Audit, run.Set, run.Audit)
			}
		}
		return scoreio.Scores(rows), nil
	}
}

// wrongFigures compares the figures of dir's report.json with what its score
// files say, bit by bit, and counts them.
func wrongFigures(dir string) (checked int, found []string, err error) {
	r, err := report.Read(filepath.Join(dir, report.JSONFile))
	if err != nil {
		return 0, nil, inputError(err)
	}
	load := loader(dir)
	same := func(where string, got, want float64) {
		checked++
		if got != want { // NaN too
			found = append(found, fmt.Sprintf("%s: %s is %s by the score files, the report has %s", report.JSONFile, where, formatFloat(got), formatFloat(want)))
		}
	}
	for _, m := range r.Methods {
		var auc, tpr, in, out []float64
		var sets []int
		for _, run := range m.Runs {
			where := fmt.Sprintf("%s set %d audit %d (%s)", m.Name, run.Set, run.Audit, run.Scores)
			s, err := load(run)
			if err == nil {
				err = s.Check()
			}
			if err != nil {
				found = append(found, fmt.Sprintf("%s: %v", where, err))
				continue
			}
			f, err := figuresOf(s)
			if err != nil {
				return 0, nil, err
			}
			same(where+" members", float64(f.members), float64(run.Members))
			same(where+" candidates", float64(len(s.Value)), float64(r.Canaries))
			same(where+" auc", f.auc, run.AUC)
			same(where+" tpr_at_fpr_0.05", f.tpr, run.TPR)
			sets = append(sets, run.Set)
			auc, tpr = append(auc, f.auc), append(tpr, f.tpr)
			in, out = append(in, f.lossIn), append(out, f.lossOut)
		}
		if len(sets) < len(m.Runs) {
			continue // a summary of some of the audits says nothing
		}
		for _, f := range []struct {
			name   string
			values []float64
			have   audit.Summary
		}{{"auc", auc, m.AUC}, {"tpr_at_fpr_0.05", tpr, m.TPR}, {"loss_in", in, m.LossIn}, {"loss_out", out, m.LossOut}} {
			want, err := stats.Summarize(f.values, sets)
			if err != nil {
				return 0, nil, err
			}
			where := m.Name + " " + f.name
			same(where+" mean", want.Mean, f.have.Mean)
			same(where+" min", want.Min, f.have.Min)
			same(where+" sd", orNone(want.SD), orNone(f.have.SD))
			same(where+" low", orNone(want.Low), orNone(f.have.Low))
			same(where+" high", orNone(want.High), orNone(f.have.High))
			if !slices.Equal(want.Values, f.have.Values) {
				found = append(found, fmt.Sprintf("%s: %s values are %v by the score files, the report has %v", report.JSONFile, where, want.Values, f.have.Values))
			}
		}
	}
	if checked == 0 && len(found) == 0 {
		return 0, nil, fmt.Errorf("%s: no figures to check", dir)
	}
	return checked, found, nil
}

// orNone stands for a figure that is not known by a number that no figure is.
func orNone(v *float64) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return *v
}

// auditFigures is what one score file says.
type auditFigures struct {
	members                   int
	auc, tpr, lossIn, lossOut float64
}

func figuresOf(s audit.Scores) (f auditFigures, err error) {
	if f.auc, err = stats.AUC(s); err != nil {
		return f, err
	}
	if f.tpr, err = stats.TPRAtFPR(s, 1, 20); err != nil {
		return f, err
	}
	var sum [2]float64 // of losses outside and inside, in the order of the file
	for i, v := range s.Value {
		side := 0
		if s.Member[i] {
			f.members, side = f.members+1, 1
		}
		sum[side] -= v
	}
	f.lossIn = sum[1] / float64(f.members)
	f.lossOut = sum[0] / float64(len(s.Value)-f.members)
	return f, nil
}
