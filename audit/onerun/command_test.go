package onerun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/npz"
)

// outsideTrainer is what this test program does as somebody else's trainer: it
// knows nothing but the files. Canaries that are in train.npz get the loss 1/8,
// others 1; it writes losses.npy.
func outsideTrainer() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	read := func(path string) (rows []string) {
		arrays, err := npz.ReadFile(path)
		check(err)
		images, err := npz.Of[float32](arrays["images"])
		check(err)
		labels, err := npz.Of[int64](arrays["labels"])
		check(err)
		size := len(images) / len(labels)
		for i, y := range labels {
			rows = append(rows, fmt.Sprint(images[i*size:(i+1)*size], y))
		}
		return rows
	}
	in := map[string]bool{}
	for _, row := range read(os.Getenv("AVIARY_TRAIN")) {
		in[row] = true
	}
	canaries := read(os.Getenv("AVIARY_CANARIES"))
	losses := make([]float32, len(canaries))
	for i, row := range canaries {
		losses[i] = 1
		if in[row] {
			losses[i] = .125
		}
	}
	var b bytes.Buffer
	check(npz.WriteNpy(&b, npz.Array{Shape: []int{len(losses)}, Data: losses}))
	check(os.WriteFile("losses.npy", b.Bytes(), 0o644))
	os.Exit(0)
}

// TestCommandTrainerPlays: a trainer outside that remembers its data is found
// out completely.
func TestCommandTrainerPlays(t *testing.T) {
	work := t.TempDir()
	g, _ := toyGame(t.TempDir())
	g.Selectors = []audit.Selector{Mislabeled()}
	g.Trainer = CommandTrainer{Cmd: "AVIARY_TEST_TRAINER=1 " + quote(os.Args[0]), Dir: work}
	rep := play(t, g)
	if m := rep.Methods[0]; m.AUC.Min != 1 || m.TPR.Min != 1 || m.LossIn.Mean != .125 || m.LossOut.Mean != 1 || m.TestAccuracy != nil {
		t.Errorf("%+v", m)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) != 0 {
		t.Errorf("work folders were left: %v, %v", left, err)
	}
}

// TestCommandTrainerWorksInTheRunDirectory: what a kill leaves of a work folder,
// a copy of all data, goes with the game's states and not into the system's
// temporary folder for good.
func TestCommandTrainerWorksInTheRunDirectory(t *testing.T) {
	dir, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	g, _ := toyGame(dir)
	g.Trainer = CommandTrainer{Cmd: "pwd >> " + quote(seen) + "; AVIARY_TEST_TRAINER=1 " + quote(os.Args[0])}
	play(t, g)
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	for _, work := range lines {
		if !strings.HasPrefix(work, filepath.Join(dir, "state")+"/") {
			t.Errorf("worked in %s", work)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); len(lines) != 8 || err == nil {
		t.Errorf("%d jobs, 8 expected; the state folder is left: %v", len(lines), err == nil)
	}
}

// toyJob is a job of 5 examples and 4 canaries.
func toyJob(t *testing.T) audit.Job {
	t.Helper()
	c := selected(t, Random(), toyData(9), 4, 0, 1)
	return audit.Job{Seed: 18446744073709551615, Train: newTrainingSet(toyData(9), c, []bool{true, false, false, false}), Canaries: c, Test: toyData(3)}
}

// TestCommandTrainerInShell has a trainer in sh and awk: it makes losses of the
// seed's digits and the sizes of the files, from placeholders and variables.
func TestCommandTrainerInShell(t *testing.T) {
	script := `
test {train} = "$AVIARY_TRAIN" || exit 11
test {canaries} = "$AVIARY_CANARIES" || exit 12
test {test} = "$AVIARY_TEST" || exit 13
test {losses} = "$AVIARY_LOSSES" || exit 14
test {job} = "$AVIARY_JOB" || exit 15
grep -q '"seed": "{seed}"' "$AVIARY_JOB" || exit 16
grep -q '"model": "/.*/models/here.npz"' "$AVIARY_JOB" || exit 19
test "$(dirname "$AVIARY_JOB")" = "$(pwd)" || exit 17
for f in {train} {canaries} {test}; do test -s "$f" || exit 18; done
echo "training with seed $AVIARY_SEED" >&2
awk 'BEGIN { print "canary,loss"; for (i = 3; i >= 0; i--) printf "%d,%s.%d\n", i, i, i }' > {losses}
`
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "it's a folder")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := CommandTrainer{Cmd: script, Dir: dir, Keep: true, Stderr: &out}
	job := toyJob(t)
	job.Model = "models/here.npz" // relative, and the command runs elsewhere
	r, err := c.Train(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{0, 1.1, 2.2, 3.3}; !slices.Equal(r.Losses, want) || !math.IsNaN(r.TestAccuracy) {
		t.Errorf("losses %v, accuracy %v", r.Losses, r.TestAccuracy)
	}
	if got := out.String(); got != "training with seed 18446744073709551615\n" {
		t.Errorf("passed on %q", got)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "aviary-job-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	arrays, err := npz.ReadFile(filepath.Join(kept[0], "canaries.npz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(arrays) != 2 {
		t.Errorf("canaries.npz holds %d arrays: more than images and labels gives coins or history away", len(arrays))
	}
	if a := arrays["images"]; !slices.Equal(a.Shape, []int{4, 2, 2, 1}) {
		t.Errorf("images of shape %v", a.Shape)
	}
}

func TestCommandTrainerFails(t *testing.T) {
	npy := func(data any, shape ...int) string {
		path := filepath.Join(t.TempDir(), "made.npy")
		var b bytes.Buffer
		if err := npz.WriteNpy(&b, npz.Array{Shape: shape, Data: data}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return "cp " + quote(path) + " losses.npy"
	}
	for cmd, parts := range map[string][]string{
		"  ": {"empty"},
		"for i in 1 2 3 4 5 6 7 8 9; do echo line $i >&2; done; exit 7": {"exit status 7", "line 5", "line 9"},
		`printf 'a\033[31m\tb\377\r\nc'; exit 1`:                        {"  a·[31m b· \n  c"},
		"exit 7":                                                        {"exit status 7", "printed nothing"},
		"true":                                                          {"neither losses.csv nor losses.npy"},
		"no-such-program-here":                                          {"no-such-program-here", "127"},
		"echo canary,loss > losses.csv":                                 {"losses.csv", "no rows"},
		"echo 1 > losses.csv":                                           {"losses.csv", "canary,loss"},
		"touch losses.csv losses.npy":                                   {"both"},
		"echo junk > losses.npy":                                        {"losses.npy"},
		npy(make([]float64, 3), 3):                                      {"[3]", "[4]"},
		npy(make([]int64, 4), 4):                                        {"int64", "float64"},
		npy(make([]float64, 4), 2, 2):                                   {"[2 2]"},
		`printf 'canary,loss\n0,1\n1,1\n2,1\n3,nan\n' > losses.csv`: {"losses.csv", "line 5", "finite"},
	} {
		_, err := CommandTrainer{Cmd: cmd, Dir: t.TempDir()}.Train(context.Background(), toyJob(t))
		if err == nil {
			t.Errorf("%q: no error", cmd)
			continue
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q: error %q does not say %q", cmd, err, p)
			}
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("error %q holds what a terminal would obey", err)
		}
		if strings.Contains(err.Error(), "line 4") {
			t.Errorf("error %q says more than the last lines", err)
		}
	}
	_, err := CommandTrainer{Cmd: "true", Dir: filepath.Join(t.TempDir(), "absent")}.Train(context.Background(), toyJob(t))
	wantError(t, err, "absent", "work folder")
}

// TestCommandTrainerStops: cancelling ends the command and its children, also
// those that do not listen.
func TestCommandTrainerStops(t *testing.T) {
	for _, deaf := range []string{"", "trap '' TERM; "} {
		testStop(t, deaf)
	}
}

func testStop(t *testing.T, before string) {
	t.Helper()
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	cmd := before + fmt.Sprintf("sleep 60 & echo $! > %[1]s.tmp; mv %[1]s.tmp %[1]s; wait", quote(started))
	_, err := CommandTrainer{Cmd: cmd, Dir: dir, patience: 50 * time.Millisecond}.Train(ctx, toyJob(t))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "aviary-job-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("work folders were left: %v, %v", left, err)
	}
	childEnds(t, cmd, started)
}

// TestCommandTrainerLeavesChildren: a command that ends before a child which
// holds its output is told so in words, and the child ends too.
func TestCommandTrainerLeavesChildren(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	cmd := "sleep 60 & echo $! > " + quote(started)
	_, err := CommandTrainer{Cmd: cmd, Dir: dir, patience: 50 * time.Millisecond}.Train(context.Background(), toyJob(t))
	wantError(t, err, "sleep 60", "ended, but", "expected it to wait", "printed nothing")
	childEnds(t, cmd, started)
}

// childEnds waits for the end of the process whose number is in a file.
func childEnds(t *testing.T, cmd, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 { // the signal has been sent; the child may need a moment
		if syscall.Kill(child, 0) != nil || zombie(child) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("a child of %q outlived the command", cmd)
}

// zombie says whether a process has ended and nobody has asked how, as happens
// to orphans in containers without an init.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}
