package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// TestBoundLosses: losses count with their sign turned if they are said to be
// losses, and not otherwise.
func TestBoundLosses(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	var losses, scores strings.Builder
	losses.WriteString(",in_train,loss\n")
	scores.WriteString("member,score\n")
	for i := range 600 {
		v := r.NormFloat64() - float64(i%2)
		fmt.Fprintf(&losses, "%d,%d.0,%v\n", i, i%2, v)
		fmt.Fprintf(&scores, "%d,%v\n", i%2, -v)
	}
	writeFile(t, filepath.Join(dir, "losses.csv"), losses.String())
	writeFile(t, filepath.Join(dir, "scores.csv"), scores.String())
	want := readBound(t, dir, "--scores $DIR/scores.csv")
	got := readBound(t, dir, "--scores $DIR/losses.csv --member-column in_train --loss-column loss")
	if !reflect.DeepEqual(got, want) || !(*got.Bounds[0].Epsilon > 0) {
		t.Errorf("losses give %+v, scores %+v", got, want)
	}
	for _, test := range []struct{ args, want string }{
		{"--scores $DIR/losses.csv --member-column in_train --score-column loss", "higher scores seem to mean non-members; nothing was flipped; losses are told by --loss-column"},
		{"--scores $DIR/scores.csv --loss-column score", "lower losses seem to mean non-members; nothing was flipped; of scores, tell the column by --score-column"},
	} {
		wrong := readBound(t, dir, test.args)
		if len(wrong.Warnings) != 1 || !strings.Contains(wrong.Warnings[0], test.want) || *wrong.Bounds[0].Epsilon != 0 {
			t.Errorf("%s: %q, %s", test.args, wrong.Warnings, shown(wrong.Bounds[0]))
		}
	}
}

// TestBoundOrder: the order of the rows says nothing, whatever the rule.
func TestBoundOrder(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "a.csv", 2, 1, 300, 1)
	lines := strings.Split(strings.TrimSpace(readFile(t, dir, "a.csv")), "\n")
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(lines)-1, func(i, j int) { lines[i+1], lines[j+1] = lines[j+1], lines[i+1] })
	writeFile(t, filepath.Join(dir, "b.csv"), strings.Join(lines, "\n")+"\n")
	for _, args := range []string{" --rule fixed,half-split,grid --grid 20+20,30+0", " --two-world --pool", " --two-world --pool --thresholds 0,1"} {
		a, b := readBound(t, dir, "--scores $DIR/a.csv"+args), readBound(t, dir, "--scores $DIR/b.csv"+args)
		a.Warnings, b.Warnings = nil, nil // which name the file
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v, in another order %+v", args, a, b)
		}
	}
}

func TestAdvantage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		n := 2 + r.IntN(12)
		s := audit.Scores{Value: make([]float64, n), Member: make([]bool, n)}
		level := 9.0
		for i := range n {
			level -= float64(r.IntN(2)) // with ties
			s.Value[i], s.Member[i] = level, r.IntN(2) == 0
		}
		s.Member[0], s.Member[n-1] = r.IntN(2) == 0, !s.Member[0]
		roc, err := stats.ROC(s)
		if err != nil {
			continue // one side is missing
		}
		g := boundGame{scores: s}
		want := 0.0
		for _, p := range roc {
			want = max(want, p.TPR-p.FPR)
		}
		for _, m := range s.Member {
			if m {
				g.Members++
			}
		}
		if got := g.advantage(); got != want {
			t.Fatalf("%+v: %v, want %v", s, got, want)
		}
	}
}

// TestBoundPlotTargets: a plot takes the place of no input, device or folder,
// and is refused before anything is computed.
func TestBoundPlotTargets(t *testing.T) {
	dir := t.TempDir()
	scoreFile(t, dir, "s.csv", 1, 1, 100, 1)
	if err := os.Symlink(filepath.Join(dir, "s.csv"), filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, text := below(t, dir), readFile(t, dir, "s.csv")
	for _, flag := range []string{"svg", "calibration"} {
		for target, want := range map[string]string{
			"$DIR/s.csv":       "$DIR/s.csv, which is read and would be lost",
			"$DIR/link.csv":    "$DIR/link.csv, which is read and would be lost",
			"$DIR/pipe":        "expected a file or nothing there, not a special file",
			"$DIR":             "expected a file or nothing there, not a folder",
			"$DIR/none/x.svg":  "but there is no folder $DIR/none",
			"$DIR/s.csv/x.svg": "but $DIR/s.csv is no folder",
			"":                 "--" + flag + " is empty, expected the name of a file",
		} {
			code, stdout, stderr := call(t, dir, "bound", "--scores", "$DIR/s.csv", "--"+flag, target)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("--%s %s: exit %d, %q does not say %q", flag, target, code, stderr, want)
			}
		}
	}
	if after := below(t, dir); !reflect.DeepEqual(before, after) || readFile(t, dir, "s.csv") != text {
		t.Errorf("left %v", after)
	}
}

// TestBoundExtremes: where a family has nothing to say the other rows are there,
// and the errors say what to do.
func TestBoundExtremes(t *testing.T) {
	got := readBound(t, t.TempDir(), "--canaries 1000 --guesses 100 --correct 90 --delta 1e-13")
	values(t, got.Bounds, 1e-4, "steinke", 1.630823, "mahloujifar-eps-delta", 1.614933)
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "left out at δ = 1e-13: they are computed from δ = 1e-12 on") {
		t.Errorf("%q", got.Warnings)
	}
	got = readBound(t, t.TempDir(), "--trials 1000 --tp 100 --fp 10 --delta 1e-13 --sample-rate .1")
	if len(got.Bounds) != 4 || len(got.Warnings) != 1 {
		t.Errorf("%+v", got)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "runs.csv"), "canary,member,score\n0,1,2\n0,0,1\n")
	for _, test := range []struct{ args, want string }{
		{"--trials 10 --tp 5 --fp 1 --alpha 1e-17", "--alpha is 1e-17, expected 1e-15 or more"},
		{"--scores $DIR/runs.csv", "again, expected once (first in $DIR/runs.csv: line 2)\nhint: if every row is a training run of its own, with the record or without it, add --two-world"},
		{"--scores $DIR/runs.csv --two-world", "1 runs with the record and 1 without: where half of them"},
		{"--scores $DIR/runs.csv --two-world --thresholds x", `--thresholds is "x", expected numbers, separated by commas`},
		{"--scores $DIR/runs.csv --loss-column a --score-column b", "--loss-column does not go with --score-column"},
	} {
		code, stdout, stderr := call(t, dir, strings.Fields("bound "+test.args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("bound %s: exit %d, %q does not say %q", test.args, code, stderr, test.want)
		}
	}
	if code, _, stderr := call(t, dir, "bound", "--scores", ""); code != exitUsage || !strings.Contains(stderr, "--scores is empty") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if got := readBound(t, dir, "--scores $DIR/runs.csv --two-world --threshold 1.5"); len(got.Games) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestInterruptible: nobody waits for work once the program is to end.
func TestInterruptible(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	_, err := interruptible(ctx, func() (int, error) {
		cancel()
		<-release
		return 1, nil
	})
	var f *failure
	if !errors.As(err, &f) || f.code != exitRun || f.Error() != "interrupted" {
		t.Errorf("%v", err)
	}
	v, err := interruptible(t.Context(), func() (int, error) { return 7, nil })
	if v != 7 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	var b bytes.Buffer
	step, end := slowly(&b, "work", 2)
	step()
	end()
	if b.Len() > 0 {
		t.Errorf("fast work says %q", b.String())
	}
}
