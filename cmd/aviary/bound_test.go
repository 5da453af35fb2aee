package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/stats"
)

// boundOutput is what scripts read of bound --json.
type boundOutput struct {
	Bounds []outputRow
	Games  []struct {
		Set       int
		Audit     *int
		Canary    *int
		Canaries  int
		Runs      int
		Members   int
		AUC       float64
		AUCRange  *[2]float64 `json:"auc_interval"`
		TPR       float64     `json:"tpr_at_fpr_0.05"`
		Advantage float64
		Bounds    []outputRow
	}
	Warnings []string
}

type outputRow struct {
	Estimator, Scope, Assumption, Multiplicity, Rule string
	Sound                                            bool
	Confidence, Delta                                float64
	Epsilon, Mean, SD                                *float64
	Guesses, Correct, TP, FP                         *int
}

// soundness holds rows to the list of bounds that need no model. It is written
// out here, and not taken from the estimators, so that one of them cannot pass
// itself off as sound.
func soundness(rows []outputRow) error {
	if len(rows) == 0 {
		return fmt.Errorf("no rows")
	}
	modelFree := map[string]bool{"steinke": true, "mahloujifar-eps-delta": true, "cp-4": true, "cp-2": true, "joint": true}
	scopes := map[string]string{
		"mahloujifar-gdp": "family:", "mahloujifar-dpsgd": "family:", "family-subsampled-gaussian": "family:",
		"xiang-iid": "estimate", "zanella-beguelin": "estimate",
	}
	for _, r := range rows {
		sound := modelFree[r.Estimator] && r.Rule != "paper"
		if r.Sound != sound || (r.Scope == "model-free") != sound {
			return fmt.Errorf("%s by rule %q: sound is %v and scope %q, want sound %v", r.Estimator, r.Rule, r.Sound, r.Scope, sound)
		}
		if want, ok := scopes[r.Estimator]; ok && r.Rule != "paper" && !strings.HasPrefix(r.Scope, want) {
			return fmt.Errorf("%s: scope %q, want %s", r.Estimator, r.Scope, want)
		}
		if r.Rule == "paper" && r.Scope != "estimate" {
			return fmt.Errorf("%s by rule paper: scope %q", r.Estimator, r.Scope)
		}
		if r.Assumption == "" || r.Multiplicity == "" || !(r.Confidence > 0 && r.Confidence < 1) {
			return fmt.Errorf("%s: assumption %q, multiplicity %q, confidence %v", r.Estimator, r.Assumption, r.Multiplicity, r.Confidence)
		}
	}
	return nil
}

func readBound(t *testing.T, dir, args string) boundOutput {
	t.Helper()
	var got boundOutput
	text := mustCall(t, dir, strings.Fields("bound "+args+" --json")...)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := soundness(got.Bounds); err != nil {
		t.Errorf("bound %s: %v", args, err)
	}
	for _, g := range got.Games {
		if err := soundness(g.Bounds); err != nil {
			t.Errorf("bound %s: set %d: %v", args, g.Set, err)
		}
	}
	return got
}

// values wants these estimators, in this order, at these values; NaN is any.
func values(t *testing.T, rows []outputRow, tol float64, want ...any) {
	t.Helper()
	if len(rows) != len(want)/2 {
		t.Fatalf("%d rows, want %d", len(rows), len(want)/2)
	}
	for i, r := range rows {
		name, v := want[2*i].(string), want[2*i+1].(float64)
		if r.Estimator != name || r.Epsilon == nil || !math.IsNaN(v) && !(math.Abs(*r.Epsilon-v) <= tol) {
			t.Errorf("row %d is %s, want %s: %v", i, shown(r), name, v)
		}
	}
}

func shown(r outputRow) string {
	if r.Epsilon == nil {
		return r.Estimator + ": none"
	}
	return fmt.Sprintf("%s: %v", r.Estimator, *r.Epsilon)
}

// The numbers are of the published implementations, to the 1e-4 that a
// bisection by steps of their own leaves.
func TestBoundGuesses(t *testing.T) {
	got := readBound(t, t.TempDir(), "--canaries 1000 --guesses 100 --correct 90 --delta 1e-5")
	values(t, got.Bounds, 1e-4, "steinke", 1.626143, "mahloujifar-eps-delta", math.NaN(), "mahloujifar-gdp", 2.456405, "xiang-iid", 3.164458)
	if a, b := *got.Bounds[0].Epsilon, *got.Bounds[1].Epsilon; !(math.Abs(a-b) <= .03*a) { // the two tests are alike
		t.Errorf("steinke %v, mahloujifar-eps-delta %v", a, b)
	}
	if r := got.Bounds[0]; r.Confidence != .95 || r.Delta != 1e-5 || *r.Guesses != 100 || *r.Correct != 90 || r.Multiplicity != "one look" {
		t.Errorf("%+v", r)
	}
	got = readBound(t, t.TempDir(), "--canaries 1000 --guesses 100 --correct 90 --delta 0 --alpha .05")
	values(t, got.Bounds, 1e-4, "steinke", 1.630823, "mahloujifar-eps-delta", math.NaN())
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "left out at δ = 0") {
		t.Errorf("pure: warnings %q", got.Warnings)
	}
	got = readBound(t, t.TempDir(), "--canaries 1000 --guesses 100 --correct 80 --sample-rate .04 --steps 1250")
	values(t, got.Bounds, 3e-4, "steinke", .955319, "mahloujifar-eps-delta", math.NaN(), "mahloujifar-gdp", 1.402215, "mahloujifar-dpsgd", 1.4102, "xiang-iid", 1.799934)
	got = readBound(t, t.TempDir(), "--canaries 100 --guesses 100 --correct 50")
	values(t, got.Bounds, 0, "steinke", 0., "mahloujifar-eps-delta", 0., "mahloujifar-gdp", 0., "xiang-iid", 0.)
}

func TestBoundCounts(t *testing.T) {
	const counts = " --tp 573 --fp 136 --delta 1e-5 --alpha .01"
	for _, runs := range []string{"--trials 1000000", "--members 1000000 --non-members 1000000"} {
		got := readBound(t, t.TempDir(), runs+counts)
		if !(math.Abs(*got.Bounds[0].Epsilon-1.06246377) <= 1e-6) || !(math.Abs(*got.Bounds[1].Epsilon-1.091034) <= 1e-6) {
			t.Errorf("%s, %s", shown(got.Bounds[0]), shown(got.Bounds[1]))
		}
		values(t, got.Bounds, 1e-3, "cp-4", 1.062464, "cp-2", 1.091034, "joint", 1.19889, "zanella-beguelin", 1.201944)
		if r := got.Bounds[0]; *r.TP != 573 || *r.FP != 136 || r.Confidence != .99 {
			t.Errorf("%+v", r)
		}
	}
	got := readBound(t, t.TempDir(), "--trials 1000000 --sample-rate .1"+counts)
	values(t, got.Bounds, 1e-3, "cp-4", 1.062464, "cp-2", 1.091034, "joint", 1.19889, "family-subsampled-gaussian", math.NaN(), "zanella-beguelin", 1.201944)
	if eps := *got.Bounds[3].Epsilon; !(eps > 1.1 && eps < 1.7) {
		t.Errorf("family: %v", eps)
	}
	got = readBound(t, t.TempDir(), "--members 1000 --non-members 2000 --tp 50 --fp 100")
	for _, r := range got.Bounds {
		if *r.Epsilon != 0 {
			t.Errorf("equal rates: %s", shown(r))
		}
	}
}

// posing is an estimator within a family that says that it needs none.
type posing struct{ stats.MahloujifarGDP }

func (posing) Scope() stats.Scope { return stats.ModelFree }

func TestPlantedSoundness(t *testing.T) {
	b, err := stats.Conclude[stats.Guesses](posing{stats.MahloujifarGDP{Delta: 1e-5}}, stats.Guesses{Canaries: 100, Guessed: 10, Correct: 9}, .05, "one look")
	if err != nil {
		t.Fatal(err)
	}
	var row outputRow
	text, err := json.Marshal(newRow(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &row); err != nil {
		t.Fatal(err)
	}
	if err := soundness([]outputRow{row}); err == nil {
		t.Error("nobody notices a family bound that calls itself model-free")
	}
	paper := outputRow{Estimator: "steinke", Scope: "model-free", Sound: true, Rule: "paper", Assumption: "a", Multiplicity: "m", Confidence: .95}
	if soundness([]outputRow{paper}) == nil || soundness(nil) == nil {
		t.Error("nobody notices a sound maximum, or no rows")
	}
	paper.Rule = "fixed"
	if err := soundness([]outputRow{paper}); err != nil {
		t.Error(err)
	}
}

func TestBoundTable(t *testing.T) {
	code, stdout, stderr := call(t, t.TempDir(), strings.Fields("bound --canaries 1000 --guesses 100 --correct 90 --delta 1e-5")...)
	if code != exitDone || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	for i, want := range []string{"estimator", "steinke", "mahloujifar-eps-delta", "mahloujifar-gdp", "xiang-iid", "", "with confidence 95 %, ε is at least 1.6261 (steinke, model-free, δ = 1e-05)"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	for _, word := range []string{"scope", "assumes", "confidence", "multiplicity", "ε", "family:gdp", "estimate", "95 %", "2.4564", "one look"} {
		if !strings.Contains(stdout, word) {
			t.Errorf("no %q in\n%s", word, stdout)
		}
	}
	stdout = mustCall(t, t.TempDir(), strings.Fields("bound --trials 1000 --tp 50 --fp 50")...)
	if !strings.HasSuffix(stdout, "\nno evidence that ε exceeds 0 (joint, δ = 1e-05): this does not show privacy\n") {
		t.Errorf("%s", stdout)
	}
}

func TestLowerRoundsDown(t *testing.T) {
	for v, want := range map[number]string{0: "0.0000", 1.99999: "1.9999", 1.00001: "1.0000", number(math.Inf(1)): "∞"} {
		if got := lower(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestBoundGate(t *testing.T) {
	for args, want := range map[string]string{
		"--canaries 1000 --guesses 100 --correct 90 --gate 1.7":                "", // only rows of a family are above
		"--canaries 1000 --guesses 100 --correct 90 --gate 1.5":                "aviary: gate crossed: ε is at least 1.62",
		"--trials 1000000 --tp 573 --fp 136 --alpha .01 --gate 1.5":            "",
		"--trials 1000000 --tp 573 --fp 136 --alpha .01 --gate 1.08":           "by cp-2, above 1.08; ε is at least ",
		"--trials 1000000 --tp 100 --fp 100 --alpha .01 --gate 0":              "",
		"--scores $DIR/strong.csv --gate 0":                                    "by steinke, above 0",
		"--scores $DIR/strong.csv --gate 0 --rule paper":                       "",
		"--scores $DIR/strong.csv --gate 0 --json --rule paper,half-split":     "by steinke, above 0",
		"--scores $DIR/strong.csv --two-world --pool --threshold .5 --gate .1": "by cp-2, above 0.1\n", // and not by joint-pooled
	} {
		dir := t.TempDir()
		scoreFile(t, dir, "strong.csv", 1, 1, 400, 2)
		code, stdout, stderr := call(t, dir, strings.Fields("bound "+args)...)
		wantCode := exitDone
		if want != "" {
			wantCode = exitGate
		}
		if code != wantCode || !strings.Contains(stderr, want) || want == "" && strings.Contains(stderr, "gate") || stdout == "" {
			t.Errorf("bound %s: exit %d, want %d, stderr %q, want %q", args, code, wantCode, stderr, want)
		}
	}
}

// scoreFile writes games of m scores, members mu above the others; exactly half
// of each game are members.
func scoreFile(t *testing.T, dir, name string, sets, audits, m int, mu float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(m), uint64(sets*10+audits)))
	var b strings.Builder
	b.WriteString("set,audit,canary,member,score\n")
	for set := range sets {
		for audit := range audits {
			for i := range m {
				member := (i + audit) % 2
				fmt.Fprintf(&b, "%d,%d,%d,%d,%v\n", set, audit, i, member, r.NormFloat64()+mu*float64(member))
			}
		}
	}
	writeFile(t, filepath.Join(dir, name), b.String())
}

func TestBoundScores(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "one.csv", 1, 1, 1000, 1)
	got := readBound(t, dir, "--scores $DIR/one.csv --svg $DIR/roc.svg --calibration $DIR/cal.svg")
	if len(got.Games) != 1 || len(got.Bounds) != 4 || got.Bounds[0].Estimator != "steinke" || *got.Bounds[0].Guesses != 200 || got.Bounds[0].Rule != "fixed" {
		t.Fatalf("%+v", got)
	}
	g := got.Games[0]
	if g.Set != 0 || *g.Audit != 0 || g.Canary != nil || g.Canaries != 1000 || g.Members != 500 || !(g.AUC > .7 && g.AUC < .82) || !(g.TPR > .1 && g.TPR < .4) || !(g.Advantage > .3 && g.Advantage < .5) {
		t.Errorf("%+v", g)
	}
	if g.AUCRange == nil || !(g.AUCRange[0] < g.AUC && g.AUC < g.AUCRange[1]) {
		t.Errorf("AUC %v, interval %v", g.AUC, g.AUCRange)
	}
	for i, r := range g.Bounds {
		if *r.Epsilon != *got.Bounds[i].Epsilon || got.Bounds[i].Mean != nil {
			t.Errorf("%s of the only game, %s of all", shown(r), shown(got.Bounds[i]))
		}
	}
	for _, name := range []string{"roc.svg", "cal.svg"} {
		if text := readFile(t, dir, name); !strings.Contains(text, "<svg") || !strings.Contains(text, "<title") {
			t.Errorf("%s: %.100s", name, text)
		}
	}
	// The counts of the scores give the same as the counts given.
	again := readBound(t, dir, fmt.Sprintf("--canaries 1000 --guesses 200 --correct %d", *got.Bounds[0].Correct))
	for i, r := range again.Bounds {
		if *r.Epsilon != *got.Bounds[i].Epsilon {
			t.Errorf("counts give %s, scores %s", shown(r), shown(got.Bounds[i]))
		}
	}
	for _, rule := range []struct {
		args  string
		names []string
	}{
		{"--plus 100 --minus 0", []string{"fixed"}},
		{"--guesses 100", []string{"fixed"}},
		{"--rule half-split,paper --rule-seed 3", []string{"half-split", "paper"}},
		{"--rule fixed,grid --grid 50+50,100+100,100+0", []string{"fixed", "grid"}},
	} {
		got := readBound(t, dir, "--scores $DIR/one.csv "+rule.args)
		if len(got.Bounds) != 4*len(rule.names) {
			t.Fatalf("%s: %d rows", rule.args, len(got.Bounds))
		}
		for i, r := range got.Bounds {
			if r.Rule != rule.names[i/4] || r.Correct == nil {
				t.Errorf("%s: row %d %+v", rule.args, i, r)
			}
		}
		if strings.HasPrefix(rule.args, "--plus") || strings.HasPrefix(rule.args, "--guesses") {
			if *got.Bounds[0].Guesses != 100 {
				t.Errorf("%s: %d guesses", rule.args, *got.Bounds[0].Guesses)
			}
		}
	}
}

// With several games the headline pays for the choice among them, and the mean
// is of what each game would have said alone.
func TestBoundGames(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "four.csv", 2, 2, 400, 1.5)
	got := readBound(t, dir, "--scores $DIR/four.csv")
	if len(got.Games) != 4 {
		t.Fatalf("%d games", len(got.Games))
	}
	for i, r := range got.Bounds {
		largest, mean := 0.0, 0.0
		for _, g := range got.Games {
			largest, mean = max(largest, *g.Bounds[i].Epsilon), mean+*g.Bounds[i].Epsilon/4
		}
		if !(*r.Epsilon < largest) || !(math.Abs(*r.Mean-mean) <= 1e-12) || !(*r.SD > 0) || r.Confidence != .95 ||
			!strings.HasSuffix(r.Multiplicity, "the largest of 4 games, each at level 0.0125") {
			t.Errorf("%s, largest alone %v, mean %v (%v), sd %v, %q", shown(r), largest, *r.Mean, mean, *r.SD, r.Multiplicity)
		}
	}
	text := mustCall(t, dir, strings.Fields("bound --scores $DIR/four.csv")...)
	for _, word := range []string{"set 1, audit 0", "mean ± sd", "AUC", "advantage", " ± "} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
}

func TestBoundTwoWorlds(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("canary,member,score\n")
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 6000 {
		member := i / 2 % 2
		fmt.Fprintf(&b, "%d,%d,%v\n", i%2, member, r.NormFloat64()+2*float64(member))
	}
	writeFile(t, filepath.Join(dir, "runs.csv"), b.String())
	for _, test := range []struct {
		args  string
		games int
	}{
		{"--threshold 2", 2}, {"--thresholds 1.5,2", 2}, {"--rule-seed 5", 2}, {"--pool --threshold 2 --svg $DIR/roc.svg", 1}, {"--pool --threshold 2 --sample-rate 1", 1},
	} {
		got := readBound(t, dir, "--scores $DIR/runs.csv --two-world "+test.args)
		if len(got.Games) != test.games || len(got.Warnings) > 0 {
			t.Errorf("%s: %d games, warnings %q", test.args, len(got.Games), got.Warnings)
		}
		for _, row := range got.Bounds {
			// members are 2 above: the exact ε at δ = 1e-5 is 9.997
			if !(*row.Epsilon > .5 && *row.Epsilon < 9.998) || row.Rule == "" || row.TP == nil {
				t.Errorf("%s: %s %+v", test.args, shown(row), row)
			}
			if pooled := strings.Contains(row.Multiplicity, "pooled"); pooled != strings.Contains(test.args, "--pool") {
				t.Errorf("%s: multiplicity %q", test.args, row.Multiplicity)
			}
		}
	}
	scoreFile(t, dir, "onerun.csv", 1, 2, 100, 1)
	got := readBound(t, dir, "--scores $DIR/onerun.csv --two-world --pool --threshold 0")
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "several canaries share a set and audit") {
		t.Errorf("warnings %q", got.Warnings)
	}
}

func TestBoundWarns(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "wrong.csv", 1, 1, 400, -1)
	scoreFile(t, dir, "wrong4.csv", 2, 2, 400, -1)
	scoreFile(t, dir, "null.csv", 3, 1, 400, 0)
	scoreFile(t, dir, "right.csv", 1, 1, 400, 1)
	var tied strings.Builder
	tied.WriteString("member,score\n")
	for i := range 400 {
		fmt.Fprintf(&tied, "%d,%d\n", i%2, i%7)
	}
	writeFile(t, filepath.Join(dir, "tied.csv"), tied.String())
	for args, want := range map[string]string{
		"--scores $DIR/wrong.csv":                    "$DIR/wrong.csv: the AUC is 0.2",
		"--scores $DIR/wrong4.csv":                   "$DIR/wrong4.csv: the mean AUC is 0.2",
		"--scores $DIR/null.csv":                     "",
		"--scores $DIR/right.csv":                    "",
		"--scores $DIR/tied.csv":                     "$DIR/tied.csv: 400 of 400 scores are tied",
		"--canaries 1000 --guesses 1000 --correct 1": "1 of 1000 guesses are right",
		"--canaries 100 --guesses 10 --correct 5":    "",
		"--trials 1000 --tp 10 --fp 100":             "the true positive rate, 0.01, is below the false positive rate, 0.1,",
		"--trials 1000 --tp 10 --fp 12":              "",
		"--trials 1000 --tp 0 --fp 0":                "",
	} {
		code, stdout, stderr := call(t, dir, strings.Fields("bound "+args)...)
		if code != exitDone || want == "" && stderr != "" || want != "" && !strings.Contains(stderr, "aviary: warning: "+want) {
			t.Errorf("bound %s: exit %d, %q, want %q", args, code, stderr, want)
		}
		if strings.Contains(want, "AUC") && (!strings.Contains(stderr, "nothing was flipped") || !strings.Contains(stdout, "no evidence that ε exceeds 0")) {
			t.Errorf("bound %s: %s\n%s", args, stderr, stdout)
		}
		if got := readBound(t, dir, args); (len(got.Warnings) > 0) != (want != "") {
			t.Errorf("bound %s --json: warnings %q", args, got.Warnings)
		}
	}
}

func TestBoundForeignFiles(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("id\tin_train\tlogp\n")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		member := i%2 == 0
		v := r.NormFloat64()
		if member {
			v += 2
		}
		fmt.Fprintf(&b, "doc%d\t%v\t%v\n", i, member, v)
	}
	writeFile(t, filepath.Join(dir, "theirs.tsv"), b.String())
	got := readBound(t, dir, "--scores $DIR/theirs.tsv --member-column in_train --score-column logp")
	if len(got.Games) != 1 || got.Games[0].Members != 150 || !(*got.Bounds[0].Epsilon > 0) {
		t.Errorf("%+v", got)
	}
}

func TestBoundRefuses(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "s.csv", 1, 1, 100, 1)
	writeFile(t, filepath.Join(dir, "one-sided.csv"), "member,score\n"+strings.Repeat("1,2\n", 30))
	writeFile(t, filepath.Join(dir, "unfair.csv"), "member,score\n"+strings.Repeat("1,2\n", 190)+strings.Repeat("0,1\n", 10))
	writeFile(t, filepath.Join(dir, "other.csv"), "in_train,score\n1,2\n")
	before := below(t, dir)
	for _, test := range []struct{ args, want string }{
		{"", "nothing to bound: expected --canaries"},
		{"--delta 1e-5", "nothing to bound"},
		{"--canaries 10 --guesses 5", "--correct is missing"},
		{"--guesses 5 --correct 4", "--canaries is missing"},
		{"--correct 4", "--canaries is missing"},
		{"--canaries 0 --guesses 5 --correct 4", "--canaries is 0, expected 1 or more"},
		{"--canaries 10 --guesses 11 --correct 4", "--guesses is 11, expected 10 or less"},
		{"--canaries 10 --guesses 5 --correct 6", "--correct is 6, expected 5 or less"},
		{"--canaries 10 --guesses 5 --correct -1", "--correct is -1, expected 0 or more"},
		{"--canaries 10 --guesses 5 --correct 4 --tp 3", "--tp does not go with --canaries"},
		{"--canaries 10 --guesses 5 --correct 4 --sample-rate .1", "--sample-rate and --steps go together"},
		{"--canaries 10 --guesses 5 --correct 4 --steps 3", "--sample-rate and --steps go together"},
		{"--canaries 10 --guesses 5 --correct 4 --steps 0 --sample-rate .1", "--steps is 0, expected 1 or more"},
		{"--canaries 10 --guesses 5 --correct 4 --sample-rate 2 --steps 3", "--sample-rate is 2, expected a probability"},
		{"--canaries 10 --guesses 5 --correct 4 --alpha 0", "--alpha is 0, expected a number above 0 and below 1"},
		{"--canaries 10 --guesses 5 --correct 4 --alpha nan", "--alpha is NaN"},
		{"--canaries 10 --guesses 5 --correct 4 --delta 1", "--delta is 1, expected a number from 0 to below 1"},
		{"--canaries 10 --guesses 5 --correct 4 --delta nan", "--delta is NaN"},
		{"--canaries 10 --guesses 5 --correct 4 --gate nan", "--gate is NaN, expected a number from 0"},
		{"--canaries 10 --guesses 5 --correct 4 --gate -1", "--gate is -1, expected a number from 0"},
		{"--canaries 10 --guesses 5 --correct 4 --rule paper", "--rule does not go with --canaries"},
		{"--canaries 10 --guesses 5 --correct 4 --two-world", "--two-world does not go with --canaries"},
		{"--canaries 10 --guesses 5 --correct 4 --svg $DIR/x.svg", "--svg does not go with --canaries"},
		{"--canaries ten", `--canaries is "ten", expected a whole number`},
		{"--tp 3 --fp 1", "--trials is missing"},
		{"--trials 10 --tp 3", "--fp is missing"},
		{"--trials 10 --tp 11 --fp 1", "--tp is 11, expected 10 or less"},
		{"--trials 10 --tp 1 --fp 11", "--fp is 11, expected 10 or less"},
		{"--trials 0 --tp 0 --fp 0", "--trials is 0, expected 1 or more"},
		{"--trials 10 --members 10 --tp 1 --fp 1", "--members does not go with --trials"},
		{"--members 10 --tp 1 --fp 1", "--non-members is missing"},
		{"--trials 10 --tp 1 --fp 1 --steps 4", "--steps does not go with --trials"},
		{"--scores $DIR/s.csv --correct 3", "--correct does not go with --scores"},
		{"--scores $DIR/s.csv --threshold 3", "--threshold does not go with --scores"},
		{"--scores $DIR/s.csv --pool", "--pool does not go with --scores"},
		{"--scores $DIR/s.csv --two-world --rule fixed", "--rule does not go with --two-world"},
		{"--scores $DIR/s.csv --two-world --threshold 1 --thresholds 1,2", "--threshold does not go with --thresholds"},
		{"--scores $DIR/s.csv --two-world --threshold 1 --rule-seed 2", "--rule-seed is of the split"},
		{"--scores $DIR/s.csv --two-world --pool --threshold nan", "--threshold is NaN, expected a finite number"},
		{"--scores $DIR/s.csv --two-world --pool --thresholds 1,inf", "--thresholds has +Inf"},
		{"--scores $DIR/s.csv --two-world --threshold 1", "$DIR/s.csv: set 0, canary 0: 0 of 1 runs are with the canary; both worlds are needed (--pool"},
		{"--scores $DIR/s.csv --rule best", `--rule is "best", expected fixed, half-split, grid, paper`},
		{"--scores $DIR/s.csv --rule papre", `did you mean "paper"?`},
		{"--scores $DIR/s.csv --rule fixed,fixed", "--rule has fixed twice"},
		{"--scores $DIR/s.csv --rule grid", "--grid is missing"},
		{"--scores $DIR/s.csv --grid 5+5", "--grid goes with --rule grid, not fixed"},
		{"--scores $DIR/s.csv --rule grid --grid 5+5,6", `--grid has "6", expected numbers of highest and lowest scores`},
		{"--scores $DIR/s.csv --rule grid --grid 0+0", `--grid has "0+0"`},
		{"--scores $DIR/s.csv --rule-seed 2", "--rule-seed goes with --rule half-split"},
		{"--scores $DIR/s.csv --guesses 3", "--guesses is 3, expected an even number"},
		{"--scores $DIR/s.csv --guesses 4 --plus 2", "--guesses does not go with --plus and --minus"},
		{"--scores $DIR/s.csv --plus 0 --minus 0", "--plus and --minus are 0"},
		{"--scores $DIR/s.csv --plus -1", "--plus is -1, expected 0 or more"},
		{"--scores $DIR/s.csv --plus 60 --minus 60", "$DIR/s.csv: set 0, audit 0: "},
		{"--scores $DIR/none.csv", "$DIR/none.csv: no such file"},
		{"--scores $DIR/other.csv", `$DIR/other.csv: line 1: no column "member"`},
		{"--scores $DIR/other.csv --member-column in", `no column "in" among "in_train", "score"`},
		{"--scores $DIR/one-sided.csv", "$DIR/one-sided.csv: set 0, audit 0: "},
		{"--scores $DIR/unfair.csv", "$DIR/unfair.csv: set 0, audit 0: "},
		{"--scores $DIR/s.csv --svg $DIR/x.svg --calibration $DIR/x.svg", "--svg and --calibration are both $DIR/x.svg"},
		{"--scores $DIR/s.csv more", `unknown command "more"`},
	} {
		code, stdout, stderr := call(t, dir, strings.Fields("bound "+test.args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("bound %s: exit %d, %q does not say %q\n%s", test.args, code, stderr, test.want, stdout)
		}
	}
	if left := below(t, dir); len(left) != len(before) {
		t.Errorf("left %v", left)
	}
}

func TestBoundCompletion(t *testing.T) {
	stdout := mustCall(t, t.TempDir(), "__complete", "bound", "--rule", "")
	for _, name := range ruleNames {
		if !strings.Contains(stdout, name+"\n") {
			t.Errorf("no %s in %q", name, stdout)
		}
	}
	if stdout := mustCall(t, t.TempDir(), "__complete", "boun"); !strings.Contains(stdout, "bound\t") {
		t.Errorf("%q", stdout)
	}
}
