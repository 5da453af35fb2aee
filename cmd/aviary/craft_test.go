package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tinyCraft is a crafting that takes a moment.
var tinyCraft = strings.Fields("--data mnist-t10k --limit 300 --arch mlp:784-4-10 --epochs 1 --batch 50 --num-canaries 20 --sets 2 --preselect 60 --theta-epochs 2 --steps 6 --every 2 --threads 1 --quiet")

func craft(more ...string) []string { return append(append([]string{"craft"}, tinyCraft...), more...) }

// TestCraftMakesAFile: a file that audit takes; the same canaries from --resume,
// on more threads, and from audit itself.
func TestCraftMakesAFile(t *testing.T) {
	dir := t.TempDir()
	stdout := mustCall(t, dir, craft("--out", "$DIR/a.npz")...)
	for _, want := range []string{"set  seconds", "theta-star", "2 sets of 20 ibis canaries: $DIR/a.npz\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	file := readFile(t, dir, "a.npz")
	mustCall(t, dir, craft("--out", "$DIR/b.npz", "--threads", "2")...)
	if readFile(t, dir, "b.npz") != file {
		t.Error("another number of threads, other canaries")
	}
	os.Remove(filepath.Join(dir, "a.npz"))
	os.Remove(filepath.Join(dir, "a.craft", "set1.npz"))
	var result craftResult
	if err := json.Unmarshal([]byte(mustCall(t, dir, "craft", "--resume", "--out", "$DIR/a.npz", "--json", "--quiet")), &result); err != nil {
		t.Fatal(err)
	}
	if readFile(t, dir, "a.npz") != file {
		t.Error("resumed, other canaries")
	}
	if len(result.Sets) != 2 || result.Sets[0].MeanSquaredCosine == nil || !(result.Seconds["total"] > 0) {
		t.Errorf("%+v", result)
	}
	mustCall(t, dir, craft("--out", "$DIR/c.npz", "--seed", "2")...)
	if readFile(t, dir, "c.npz") == file {
		t.Error("another seed, the same canaries")
	}

	shared := strings.Fields("audit --data mnist-t10k --limit 300 --arch mlp:784-4-10 --epochs 1 --batch 50 --num-canaries 20 --sets 2 --audits 1 --threads 1 --quiet")
	mustCall(t, dir, append(shared, "--canaries", "mislabeled,$DIR/a.npz,ibis,greedy,self-influence,blank,clipbkd", "--out", "$DIR/run")...)
	mustCall(t, dir, "verify", "$DIR/run")
	for _, name := range []string{"a", "ibis", "greedy", "self-influence", "blank", "clipbkd"} {
		if len(readFile(t, dir, "run/canaries", name+"-set1.npz")) == 0 {
			t.Errorf("no %s canaries", name)
		}
	}
	var r struct {
		Timing map[string]float64 `json:"timing"`
	}
	if err := json.Unmarshal([]byte(readFile(t, dir, "run/report.json")), &r); err != nil || !(r.Timing["canaries: refine"] > 0) {
		t.Errorf("timing %v, %v", r.Timing, err)
	}
}

// TestCraftKillAndResume: killed at whatever moment, crafting ends with the same
// bytes.
func TestCraftKillAndResume(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, craft("--out", "$DIR/whole.npz")...)
	want := readFile(t, dir, "whole.npz")
	for i, file := range []string{journalName, "set0-select-train.npz", "set0-theta-0.npz", "set1-theta-star.npz"} {
		out := filepath.Join(dir, string(rune('a'+i))+".npz")
		work := strings.TrimSuffix(out, ".npz") + ".craft"
		if code, stderr := stoppedIn(t, craft("--out", out), filepath.Join(work, file), os.Kill, out, work); code != -1 {
			t.Fatalf("exit %d, %s", code, stderr)
		}
		mustCall(t, dir, "craft", "--resume", "--out", out, "--quiet")
		if readFile(t, out) != want {
			t.Errorf("killed after %s, other canaries", file)
		}
	}
}

func TestCraftRefuses(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, craft("--out", "$DIR/there.npz")...)
	writeFile(t, filepath.Join(dir, "wrong.npz"), "no arrays")
	for want, args := range map[string][]string{
		`--method is "ibsi"`:        craft("--method", "ibsi", "--out", "$DIR/x.npz"),
		`did you mean "ibis"?`:      craft("--method", "ibsi", "--out", "$DIR/x.npz"),
		`--init is "best"`:          craft("--init", "best", "--out", "$DIR/x.npz"),
		`--labels is "drop"`:        craft("--labels", "drop", "--out", "$DIR/x.npz"),
		"--preselect is 301":        craft("--preselect", "301", "--out", "$DIR/x.npz"),
		"301 canaries":              craft("--num-canaries", "301", "--out", "$DIR/x.npz"),
		"--num-canaries is 1":       craft("--num-canaries", "1", "--out", "$DIR/x.npz"),
		"lambda is -1":              craft("--lambda", "-1", "--out", "$DIR/x.npz"),
		"rho is NaN":                craft("--rho", "NaN", "--out", "$DIR/x.npz"),
		"expected a name that ends": craft("--out", "$DIR/x.txt"),
		"there.npz is there":        craft("--out", "$DIR/there.npz"),
		"holds no crafting":         {"craft", "--resume", "--out", "$DIR/x.npz"},
		"--lambda does not go":      craft("--method", "greedy", "--lambda", "1", "--out", "$DIR/x.npz"),
		"mlp:10-10":                 {"craft", "--arch", "mlp:10-10", "--data", "mnist-t10k", "--out", "$DIR/x.npz"},
		"need a model of Aviary's":  {"audit", "--trainer", "true", "--data", "mnist-t10k", "--canaries", "ibis", "--out", "$DIR/x"},
	} {
		code, _, stderr := call(t, dir, args...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %q does not hold %q", args, code, stderr, want)
		}
	}
	for _, name := range below(t, dir) {
		if strings.HasPrefix(name, "x") {
			t.Errorf("%s was left behind", name)
		}
	}
}
