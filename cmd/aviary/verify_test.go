package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/report"
)

// editJSON changes a JSON file of a run.
func editJSON[T any](t *testing.T, path string, change func(*T)) {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(readFile(t, path)), &v); err != nil {
		t.Fatal(err)
	}
	change(&v)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(text))
}

// signManifest makes a manifest agree with a changed file, as somebody who
// knows what they do would.
func signManifest(t *testing.T, run, name string) {
	t.Helper()
	sum, err := atomicfile.Sum(filepath.Join(run, name))
	if err != nil {
		t.Fatal(err)
	}
	editJSON(t, filepath.Join(run, manifestName), func(m *manifest) { m.Outputs[name] = sum })
}

// A report that cannot be read is a difference like others, and those found
// before it are told.
func TestVerifyReportDamaged(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--out", "$DIR/run")...)
	path := filepath.Join(dir, "run", report.JSONFile)
	text := readFile(t, path)
	for name, damage := range map[string]func() error{
		"gone": func() error { return os.Remove(path) },
		"cut":  func() error { return os.WriteFile(path, []byte(text[:len(text)-9]), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := call(t, dir, "verify", "$DIR/run")
		if code != exitGate || !strings.HasPrefix(stdout, "report.json: ") || !strings.Contains(stderr, "aviary: $DIR/run: ") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
		writeFile(t, path, text)
	}
}

// Hashes can be made again by whoever changes a file. The figures of an audit
// that is left out of a report, and a file that is left out of the manifest,
// must be missed all the same.
func TestVerifyMissesWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	mustCall(t, dir, with(tiny, "--out", "$DIR/run", "--sets", "3")...)
	before := map[string]string{}
	for _, name := range []string{report.JSONFile, manifestName} {
		before[name] = readFile(t, run, name)
	}
	drop := func(m *audit.Method, i int) {
		m.Runs = slices.Delete(m.Runs, i, i+1)
		sets := []int{m.Runs[0].Set, m.Runs[1].Set}
		for _, s := range []*audit.Summary{&m.AUC, &m.TPR} {
			*s = must(stats.SummarizeRate(slices.Delete(s.Values, i, i+1), sets))(t)
		}
		for _, s := range []*audit.Summary{&m.LossIn, &m.LossOut} {
			*s = must(stats.Summarize(slices.Delete(s.Values, i, i+1), sets))(t)
		}
	}
	for name, test := range map[string]struct {
		change func()
		want   string
	}{
		"an audit": {func() {
			editJSON(t, filepath.Join(run, report.JSONFile), func(r *audit.Report) { drop(&r.Methods[0], 2) })
			signManifest(t, run, report.JSONFile)
		}, "report.json: mislabeled has 2 audits, expected 3 (3 sets × 1)\n"},
		"an audit, another twice": {func() {
			editJSON(t, filepath.Join(run, report.JSONFile), func(r *audit.Report) { r.Methods[0].Runs[2] = r.Methods[0].Runs[1] })
			signManifest(t, run, report.JSONFile)
		}, "report.json: mislabeled set 1 audit 0 is there twice\n"},
		"the scores' hash": {func() {
			editJSON(t, filepath.Join(run, manifestName), func(m *manifest) { delete(m.Outputs, "scores/mislabeled-set1-audit0.csv") })
		}, "manifest.json: has no hash of scores/mislabeled-set1-audit0.csv\n"},
		"the report's hash": {func() {
			editJSON(t, filepath.Join(run, manifestName), func(m *manifest) { delete(m.Outputs, report.JSONFile) })
		}, "manifest.json: has no hash of report.json\n"},
	} {
		test.change()
		if code, stdout, stderr := call(t, dir, "verify", "$DIR/run"); code != exitGate || !strings.Contains(stdout, test.want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
		for name, text := range before {
			writeFile(t, filepath.Join(run, name), text)
		}
	}
	mustCall(t, dir, "verify", "$DIR/run")
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
