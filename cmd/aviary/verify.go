package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
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
