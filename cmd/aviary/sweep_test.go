package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// private is a private audit that takes a moment.
func private(more ...string) []string {
	return with(tiny, append([]string{"--clip", "1", "--canaries", "mislabeled,greedy"}, more...)...)
}

// TestSweep: each ε has the run that it would have alone, and the canaries are
// crafted once.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	stdout := mustCall(t, dir, private("--target-epsilon", "4,1", "--out", "$DIR/sweep")...)
	for _, want := range []string{"4  mislabeled  0.", "1  greedy", "table: $DIR/sweep/epsilons.csv"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	mustCall(t, dir, private("--target-epsilon", "1", "--out", "$DIR/alone")...)
	alone := results(t, filepath.Join(dir, "alone"))
	sameResults(t, results(t, filepath.Join(dir, "sweep/epsilon-1")), alone)
	if results(t, filepath.Join(dir, "sweep/epsilon-4"))["scores/greedy-set0-audit0.csv"] == alone["scores/greedy-set0-audit0.csv"] {
		t.Error("another ε gave the same scores")
	}
	for _, name := range below(t, filepath.Join(dir, "sweep")) {
		if strings.HasPrefix(name, "epsilon-1/craft") || strings.HasPrefix(name, "epsilon-4/craft") {
			t.Errorf("%s was crafted apart", name)
		}
	}
	table := readFile(t, dir, "sweep/epsilons.csv")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[3], "1,0.9") || !strings.Contains(lines[3], ",mislabeled,2,0.") || strings.Count(lines[3], ",") != strings.Count(lines[0], ",") {
		t.Errorf("table:\n%s", table)
	}
	mustCall(t, dir, "verify", "$DIR/sweep/epsilon-4")

	// What is there is not done again.
	mustCall(t, dir, "audit", "--resume", "--out", "$DIR/sweep", "--quiet")
	if readFile(t, dir, "sweep/epsilons.csv") != table {
		t.Error("resumed, another table")
	}
}

func TestSweepRefuses(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"holds 1 twice":              private("--target-epsilon", "1,1", "--out", "$DIR/x"),
		`--target-epsilon is "-1"`:   private("--target-epsilon", "1,-1", "--out", "$DIR/x"),
		"--target-epsilon without":   with(tiny, "--target-epsilon", "1,2", "--out", "$DIR/x"),
		"--target-epsilon finds the": private("--target-epsilon", "1,2", "--noise-multiplier", "1", "--out", "$DIR/x"),
		"holds no run to resume":     {"audit", "--resume", "--out", "$DIR/x"},
		"mlp:10-10":                  private("--target-epsilon", "1,2", "--arch", "mlp:10-10", "--out", "$DIR/x"),
	} {
		code, _, stderr := call(t, dir, args...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %q does not hold %q", args, code, stderr, want)
		}
	}
	if left := below(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
