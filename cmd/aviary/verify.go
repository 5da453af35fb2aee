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
	"github.com/aviary-audit/aviary/internal/atomicfile"
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
			checked := 0
			r, err := report.Read(filepath.Join(dir, report.JSONFile))
			if err != nil {
				found = append(found, fmt.Sprintf("%s: %v", report.JSONFile, err))
			} else {
				var wrong []string
				if checked, wrong, err = wrongFigures(dir, r); err != nil {
					return err
				}
				found = append(found, unlisted(m, r)...)
				found = append(found, wrong...)
			}
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
		sum, err := atomicfile.Sum(filepath.Join(dir, filepath.FromSlash(name)))
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

// unlisted names the files of r's results of which the manifest knows nothing.
func unlisted(m *manifest, r *audit.Report) (found []string) {
	names := report.Files()
	for _, method := range r.Methods {
		for _, run := range method.Runs {
			names = append(names, run.Scores)
		}
	}
	for _, name := range names {
		if _, ok := m.Outputs[name]; !ok {
			found = append(found, fmt.Sprintf("%s: has no hash of %s", manifestName, name))
		}
	}
	return found
}

// wrongRuns says what is wrong with the list of a method's audits, which holds
// one for each audit of each set. A report that leaves out its worst audits, or
// shows one twice, is not that of the run.
func wrongRuns(r *audit.Report, m audit.Method) (found []string) {
	if want := r.Sets * r.Audits; len(m.Runs) != want {
		found = append(found, fmt.Sprintf("%s: %s has %d audits, expected %d (%d sets × %d)", report.JSONFile, m.Name, len(m.Runs), want, r.Sets, r.Audits))
	}
	seen := map[[2]int]bool{}
	for _, run := range m.Runs {
		key := [2]int{run.Set, run.Audit}
		switch {
		case seen[key]:
			found = append(found, fmt.Sprintf("%s: %s set %d audit %d is there twice", report.JSONFile, m.Name, run.Set, run.Audit))
		case run.Set < 0 || run.Set >= r.Sets || run.Audit < 0 || run.Audit >= r.Audits:
			found = append(found, fmt.Sprintf("%s: %s set %d audit %d is none of %d sets × %d", report.JSONFile, m.Name, run.Set, run.Audit, r.Sets, r.Audits))
		}
		seen[key] = true
	}
	return found
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

// wrongFigures compares the figures of r, the report of the run in dir, with
// what the score files say, bit by bit, and counts them.
func wrongFigures(dir string, r *audit.Report) (checked int, found []string, err error) {
	load := loader(dir)
	same := func(where string, got, want float64) {
		checked++
		if got != want { // NaN too
			found = append(found, fmt.Sprintf("%s: %s is %s by the score files, the report has %s", report.JSONFile, where, formatFloat(got), formatFloat(want)))
		}
	}
	for _, m := range r.Methods {
		found = append(found, wrongRuns(r, m)...)
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
		if len(sets) == 0 {
			continue // and one of none even less: wrongRuns has said so
		}
		for _, f := range []struct {
			name      string
			summarize func(values []float64, sets []int) (audit.Summary, error)
			values    []float64
			have      audit.Summary
		}{
			{"auc", stats.SummarizeRate, auc, m.AUC}, {"tpr_at_fpr_0.05", stats.SummarizeRate, tpr, m.TPR},
			{"loss_in", stats.Summarize, in, m.LossIn}, {"loss_out", stats.Summarize, out, m.LossOut},
		} {
			want, err := f.summarize(f.values, sets)
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
