package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	trained   = strings.Fields("--data mnist-t10k --limit 300 --arch mlp:784-4-10 --epochs 1 --batch 50 --threads 1 --quiet --canaries $DIR/c.npz")
	tinyMulti = append(strings.Fields("audit multi --runs 6 --canary 3"), trained...)
	tinyInter = append(strings.Fields("audit interference --toggled 3 --subsets 2"), trained...)
)

func crafted(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	mustCall(t, dir, craft("--out", "$DIR/c.npz")...)
	return dir
}

func plus(base []string, more ...string) []string {
	return append(append([]string{}, base...), more...)
}

// TestShards: parts that were done apart, one of them interrupted, have the
// bytes of the whole.
func TestShards(t *testing.T) {
	dir := crafted(t)
	for name, base := range map[string][]string{"multi": tinyMulti, "inter": tinyInter} {
		out := func(s string) string { return "$DIR/" + name + s }
		printed := mustCall(t, dir, plus(base, "--out", out("-whole"))...)
		for _, i := range []string{"1", "2", "3"} {
			if stdout := mustCall(t, dir, plus(base, "--out", out("-part"+i), "--shard", i+"/3", "--threads", "2")...); stdout != "" {
				t.Errorf("a shard printed %q", stdout)
			}
		}
		// What a kill leaves: the last trial is not there.
		path := filepath.Join(dir, name+"-part2", "journal.jsonl")
		lines := strings.SplitAfter(readFile(t, path), "\n")
		if err := os.WriteFile(path, []byte(strings.Join(lines[:len(lines)-2], "")), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := call(t, dir, "merge", out("-early"), out("-part1"), out("-part2"), out("-part3")); code != exitUsage || !strings.Contains(stderr, "trials are missing") {
			t.Errorf("merging too early: exit %d, %s", code, stderr)
		}
		mustCall(t, dir, append(strings.Fields(base[0]+" "+base[1]), "--resume", "--quiet", "--out", out("-part2"))...)
		if merged := mustCall(t, dir, "merge", out(""), out("-part3"), out("-part1"), out("-part2")); merged != printed {
			t.Errorf("merged:\n%s\nin one place:\n%s", merged, printed)
		}
		for _, file := range below(t, filepath.Join(dir, name)) {
			if file == "config.yaml" || file == "manifest.json" { // they name the folder
				continue
			}
			if readFile(t, dir, name, file) != readFile(t, dir, name+"-whole", file) {
				t.Errorf("%s: %s differs", name, file)
			}
		}
	}
	for _, want := range []string{"journal.jsonl", "result.json", "scores.csv"} {
		readFile(t, dir, "multi", want)
	}
}

func TestMultiPrints(t *testing.T) {
	dir := crafted(t)
	stdout := mustCall(t, dir, plus(tinyMulti, "--out", "$DIR/a", "--threshold", "-2")...)
	for _, want := range []string{"cp-2", "cp-4", "joint", "model-free"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	var result struct{ Bounds []json.RawMessage }
	if err := json.Unmarshal([]byte(mustCall(t, dir, plus(tinyMulti, "--out", "$DIR/b", "--clip", "1", "--target-epsilon", "4", "--json")...)), &result); err != nil || len(result.Bounds) < 3 {
		t.Errorf("%d bounds, %v", len(result.Bounds), err)
	}
	if lines := strings.Count(readFile(t, dir, "b/scores.csv"), "\n"); lines != 13 {
		t.Errorf("%d lines of scores, expected 13", lines)
	}
	mustCall(t, dir, "bound", "--scores", "$DIR/a/scores.csv", "--two-world", "--threshold", "-2")

	stdout = mustCall(t, dir, plus(tinyInter, "--out", "$DIR/c")...)
	for _, want := range []string{"variance / mean²", "3 canaries of set 0 in 2 subsets", "interference, mean variance / squared mean gap: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if stdout := mustCall(t, dir, plus(tinyInter, "--out", "$DIR/d", "--shard", "2/3", "--dry-run")...); !strings.Contains(stdout, "3 of 8 (shard 2/3)") {
		t.Errorf("dry run:\n%s", stdout)
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
		t.Error("a dry run made a folder")
	}
}

func TestMultiRefuses(t *testing.T) {
	dir := crafted(t)
	for want, args := range map[string][]string{
		"--out is missing":     tinyMulti,
		"--canary is 20":       plus(tinyMulti, "--out", "$DIR/x", "--canary", "20"),
		"--runs is 1":          plus(tinyMulti, "--out", "$DIR/x", "--runs", "1"),
		"--threshold is":       plus(tinyMulti, "--out", "$DIR/x", "--threshold", "NaN"),
		"--shard is \"0/2\"":   plus(tinyMulti, "--out", "$DIR/x", "--shard", "0/2"),
		"--shard is \"2\"":     plus(tinyMulti, "--out", "$DIR/x", "--shard", "2"),
		"--set is 7":           plus(tinyMulti, "--out", "$DIR/x", "--set", "7"),
		"--toggled is 21":      plus(tinyInter, "--out", "$DIR/x", "--toggled", "21"),
		"--subsets is 1":       plus(tinyInter, "--out", "$DIR/x", "--subsets", "1"),
		"--canaries is \"no\"": plus(tinyInter, "--out", "$DIR/x", "--canaries", "no"),
		"nothing.npz":          plus(tinyInter, "--out", "$DIR/x", "--canaries", "$DIR/nothing.npz"),
		"has 2 values":         plus(tinyMulti, "--out", "$DIR/x", "--clip", "1", "--target-epsilon", "1,2"),
		"holds no run":         {"audit", "multi", "--resume", "--out", "$DIR/x"},
		"holds no shard":       {"merge", "$DIR/x", "$DIR/y"},
		"merge OUT":            {"merge", "$DIR/x"},
	} {
		code, _, stderr := call(t, dir, args...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %q does not hold %q", args, code, stderr, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a refused command made its folder")
	}
}
