package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		for j := range m.Bounds {
			s := &m.Bounds[j].Epsilon
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

// Bounds and comparisons follow from the score files. Whoever changes either,
// and signs it, is found out: with one coin of one file turned round the bounds
// are others, and methods have not met the same coins.
func TestVerifyBoundsAndComparisons(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	mustCall(t, dir, with(tiny, "--canaries", "random,mislabeled", "--num-canaries", "200", "--limit", "400", "--arch", "mlp:784-32-10", "--epochs", "20", "--out", "$DIR/run")...)
	const scores = "scores/mislabeled-set0-audit0.csv"
	before := map[string]string{}
	for _, name := range []string{report.JSONFile, manifestName, scores} {
		before[name] = readFile(t, run, name)
	}
	r, err := report.Read(filepath.Join(run, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Methods[1]; m.Name != "mislabeled" || len(m.Bounds) != 4 || !(m.Bounds[0].Epsilon.Min > 0) || r.Delta != defaultDelta || len(r.Paired) != 1 {
		t.Fatalf("%+v, %d comparisons: there is no leak to bound", m.Bounds, len(r.Paired))
	}
	edited := func(change func(*audit.Report)) func() {
		return func() {
			editJSON(t, filepath.Join(run, report.JSONFile), change)
			signManifest(t, run, report.JSONFile)
		}
	}
	for name, test := range map[string]struct {
		change func()
		want   []string
	}{
		"a coin": {func() {
			writeFile(t, filepath.Join(run, scores), turnSurest(t, before[scores]))
			signManifest(t, run, scores)
		}, []string{
			"mislabeled bound on ε by steinke (fixed) mean is ", "bound on ε by mahloujifar-eps-delta (fixed) mean is ",
			"bound on ε by mahloujifar-gdp (fixed) values are ", "bound on ε by mahloujifar-gdp (paper) ",
			scores + "): its members are not those of the first method's set 0 audit 0\n", "report.json: mislabeled against random auc mean is ",
		}},
		"a bound":           {edited(func(r *audit.Report) { r.Methods[1].Bounds[0].Epsilon.Min += .01 }), []string{"mislabeled bound on ε by steinke (fixed) min is "}},
		"one of its values": {edited(func(r *audit.Report) { r.Methods[1].Bounds[1].Epsilon.Values[0] += .01 }), []string{"mislabeled bound on ε by mahloujifar-eps-delta (fixed) values are "}},
		"the confidence":    {edited(func(r *audit.Report) { r.Methods[0].Bounds[2].Confidence = .99 }), []string{"(fixed) confidence is 0.95 by the score files, the report has 0.99"}},
		"another δ": {edited(func(r *audit.Report) {
			r.Delta = 1e-7
			for _, m := range r.Methods {
				for i := range m.Bounds {
					m.Bounds[i].Delta = 1e-7
				}
			}
		}), []string{"mislabeled bound on ε by mahloujifar-gdp (fixed) mean is "}},
		"the paper's maximum made sound": {edited(func(r *audit.Report) {
			for _, m := range r.Methods {
				m.Bounds[3].Sound, m.Bounds[3].Scope = true, string(stats.ModelFree)
			}
		}), []string{"report.json: report: random: bound by mahloujifar-gdp, rule paper"}},
		"the paper's maximum in another's place": {edited(func(r *audit.Report) {
			for _, m := range r.Methods {
				m.Bounds[0].Epsilon = m.Bounds[3].Epsilon
			}
		}), []string{"mislabeled bound on ε by steinke (fixed) mean is "}},
		"all bounds left out": {edited(func(r *audit.Report) { r.Methods[0].Bounds, r.Methods[1].Bounds = nil, nil }), []string{
			"report.json: random has 0 bounds on ε, expected 4\n", "report.json: mislabeled has 0 bounds",
		}},
		"a win":                 {edited(func(r *audit.Report) { r.Paired[0].WinsAUC-- }), []string{"mislabeled against random wins_auc is 2 by the score files, the report has 1"}},
		"a difference":          {edited(func(r *audit.Report) { *r.Paired[0].TPR.Low += .1 }), []string{"mislabeled against random tpr_at_fpr_0.05 low is "}},
		"a comparison left out": {edited(func(r *audit.Report) { r.Paired = nil }), []string{"report.json: 0 comparisons of methods, expected 1\n"}},
	} {
		test.change()
		code, stdout, stderr := call(t, dir, "verify", "$DIR/run")
		for _, want := range test.want {
			if code != exitGate || !strings.Contains(stdout, want) {
				t.Errorf("%s: exit %d, stdout %q lacks %q, stderr %q", name, code, stdout, want, stderr)
			}
		}
		for name, text := range before {
			writeFile(t, filepath.Join(run, name), text)
		}
	}
	mustCall(t, dir, "verify", "$DIR/run")
}

// turnSurest turns the coin of the highest score round, which all rules guess.
func turnSurest(t *testing.T, scores string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(scores), "\n")
	best, high := 0, math.Inf(-1)
	for i, line := range lines[1:] {
		f := strings.Split(line, ",")
		if v := must(strconv.ParseFloat(f[4], 64))(t); v > high {
			best, high = i+1, v
		}
	}
	f := strings.Split(lines[best], ",")
	f[3] = map[string]string{"0": "1", "1": "0"}[f[3]]
	lines[best] = strings.Join(f, ",")
	return strings.Join(lines, "\n") + "\n"
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
