package onerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// killEnv, if set, makes this test program play toyGame in a folder and kill
// itself before a step: "DIR RUN STEP".
const killEnv = "AVIARY_TEST_KILL"

func TestMain(m *testing.M) {
	if job := os.Getenv(killEnv); job != "" {
		playAndDie(job)
	}
	if os.Getenv("AVIARY_TEST_TRAINER") != "" {
		outsideTrainer()
	}
	os.Exit(m.Run())
}

func playAndDie(job string) {
	var dir string
	var run, step int
	if _, err := fmt.Sscan(job, &dir, &run, &step); err != nil {
		panic(err)
	}
	g, trainer := toyGame(dir)
	g.Resume = true
	trainer.step = func(r, s int) {
		if r == run && s == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	_, err := g.Run(context.Background())
	fmt.Fprintln(os.Stderr, "not killed:", err)
	os.Exit(0)
}

// seconds is what two runs of the same game differ in. The sums of a journal
// cover it.
var seconds = regexp.MustCompile(`"sum":"[0-9a-f]+"|"seconds":[0-9.e+-]+`)

// snapshot maps the files of a folder to their contents, without times.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if name == journalName {
			text = seconds.ReplaceAll(text, nil)
		}
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func names(files map[string]string) (all []string) {
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// sameRun compares a run directory and report with those of an uninterrupted
// game.
func sameRun(t *testing.T, what, dir string, rep *audit.Report, wantDir string, want *audit.Report) {
	t.Helper()
	got, wanted := snapshot(t, dir), snapshot(t, wantDir)
	if !slices.Equal(names(got), names(wanted)) {
		t.Errorf("%s: files %v, want %v", what, names(got), names(wanted))
	}
	for name, text := range wanted {
		if got[name] != text {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if a, b := reportBytes(t, rep), reportBytes(t, want); a != b {
		t.Errorf("%s: report %s, want %s", what, a, b)
	}
}

func reportBytes(t *testing.T, rep *audit.Report) string {
	t.Helper()
	r := *rep
	r.Timing = nil
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// uninterrupted plays toyGame to its end.
func uninterrupted(t *testing.T) (string, *audit.Report) {
	t.Helper()
	dir := t.TempDir()
	g, _ := toyGame(dir)
	rep := play(t, g)
	if got := names(snapshot(t, dir)); len(got) != 1+4+8+8 {
		t.Errorf("files %v, want the journal, 4 canary sets, 8 score files and 8 models", got)
	}
	return dir, rep
}

// TestResumeAfterCancel ends the context in every run in turn, at its start or
// in its middle.
func TestResumeAfterCancel(t *testing.T) {
	wantDir, want := uninterrupted(t)
	for run := 1; run <= 8; run++ {
		step := run % 2 * 3
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		g, trainer := toyGame(dir)
		trainer.step = func(r, s int) {
			if r == run && s == step {
				cancel()
			}
		}
		if _, err := g.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled in run %d: error %v", run, err)
		}
		g, trainer = toyGame(dir)
		g.Resume = true
		rep := play(t, g)
		if trainer.runs != 9-run {
			t.Errorf("cancelled in run %d: resumed with %d runs, want %d", run, trainer.runs, 9-run)
		}
		sameRun(t, fmt.Sprintf("cancelled in run %d at step %d", run, step), dir, rep, wantDir, want)
	}
}

// TestCancelBeforeTheStart: nothing is trained.
func TestCancelBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g, trainer := toyGame(t.TempDir())
	if _, err := g.Run(ctx); !errors.Is(err, context.Canceled) || trainer.runs != 0 {
		t.Errorf("error %v after %d runs", err, trainer.runs)
	}
}

// TestResumeAfterKill plays in a process of its own that is killed again and
// again, with SIGKILL.
func TestResumeAfterKill(t *testing.T) {
	wantDir, want := uninterrupted(t)
	dir := t.TempDir()
	for _, at := range []string{"1 0", "1 2", "2 1", "3 3"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+dir+" "+at)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("at %s: %v, %s", at, err, out)
		}
	}
	// A kill can also strike while a file is written.
	for _, sub := range []string{".", "canaries", "scores", "state", "models"} {
		if err := os.WriteFile(filepath.Join(dir, sub, ".half.tmp-XYZ"), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g, trainer := toyGame(dir)
	g.Resume = true
	rep := play(t, g)
	// The processes finished 0, 0, 1 and 2 audits.
	if trainer.runs != 5 {
		t.Errorf("%d runs were left, want 5", trainer.runs)
	}
	sameRun(t, "killed", dir, rep, wantDir, want)
}

// copyDir copies a run directory.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestResumeFinishedGame(t *testing.T) {
	wantDir, want := uninterrupted(t)
	dir := copyDir(t, wantDir)
	g, trainer := toyGame(dir)
	g.Resume = true
	reused := 0
	g.Progress = func(p Progress) {
		if p.Reused && p.Run != nil {
			reused++
		}
	}
	rep := play(t, g)
	if trainer.runs != 0 || reused != 8 {
		t.Errorf("%d runs, %d reused", trainer.runs, reused)
	}
	sameRun(t, "finished", dir, rep, wantDir, want)
	if rep.Timing["train"] != want.Timing["train"] {
		t.Errorf("time of training %v, want that of the first session, %v", rep.Timing["train"], want.Timing["train"])
	}
}

// TestResumeAfterLoss: what is gone is made again, with the same bytes; what
// was changed is an error, and nothing is overwritten.
func TestResumeAfterLoss(t *testing.T) {
	wantDir, want := uninterrupted(t)
	score, canary := "scores/random-set1-audit0.csv", "canaries/mislabeled-set0.npz"

	dir := copyDir(t, wantDir)
	for _, name := range []string{score, canary} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	g, trainer := toyGame(dir)
	g.Resume = true
	rep := play(t, g)
	if trainer.runs != 1 {
		t.Errorf("%d runs, want 1", trainer.runs)
	}
	if a, b := reportBytes(t, rep), reportBytes(t, want); a != b {
		t.Errorf("report %s, want %s", a, b)
	}
	for name, text := range snapshot(t, wantDir) {
		if name != journalName && snapshot(t, dir)[name] != text {
			t.Errorf("%s differs", name)
		}
	}

	for _, name := range []string{score, canary} {
		dir := copyDir(t, wantDir)
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		g, trainer := toyGame(dir)
		g.Resume = true
		_, err = g.Run(context.Background())
		wantError(t, err, name, "has changed", "SHA-256")
		after := snapshot(t, dir)
		if trainer.runs != 0 || !reflect.DeepEqual(before, after) {
			t.Errorf("%s: %d runs; files %v, were %v", name, trainer.runs, names(after), names(before))
		}
	}
}

// TestRefusesOtherCanaryFile: a canary file that has changed since the run began
// would be listed as what went in, and did not.
func TestRefusesOtherCanaryFile(t *testing.T) {
	d, folder := toyData(120), t.TempDir()
	write := func(seed uint64) audit.Selector {
		st := &store{dir: folder}
		sets := []*audit.CanarySet{selected(t, Mislabeled(), d, 30, 0, seed), selected(t, Mislabeled(), d, 30, 1, 5)}
		if _, err := st.write("mine.npz", "", writeCanaries(sets)); err != nil {
			t.Fatal(err)
		}
		sel, err := FromFile(filepath.Join(folder, "mine.npz"), d)
		if err != nil {
			t.Fatal(err)
		}
		return sel
	}
	dir := t.TempDir()
	g, _ := toyGame(dir)
	g.Selectors, g.NumCanaries = []audit.Selector{write(5)}, 0
	play(t, g)
	g.Resume = true
	play(t, g)
	g.Selectors = []audit.Selector{write(6)}
	before := snapshot(t, dir)
	_, err := g.Run(context.Background())
	wantError(t, err, "mine.npz", "set 0", "not those that the run began with")
	if !reflect.DeepEqual(before, snapshot(t, dir)) {
		t.Error("the run was touched")
	}
}

// TestMadeAgainDiffers: a trainer that does not depend on its seed alone is
// found out when a lost score file is made again.
func TestMadeAgainDiffers(t *testing.T) {
	wantDir, _ := uninterrupted(t)
	dir := copyDir(t, wantDir)
	name := "scores/random-set0-audit1.csv"
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	g, _ := toyGame(dir)
	g.Resume, g.Trainer = true, blind{}
	_, err := g.Run(context.Background())
	wantError(t, err, name, "made again, it differs")
}

func TestRefusesOccupiedDirectory(t *testing.T) {
	dir, _ := uninterrupted(t)
	before := snapshot(t, dir)
	g, trainer := toyGame(dir)
	_, err := g.Run(context.Background())
	wantError(t, err, dir, "holds a game already", "resume")
	if trainer.runs != 0 || !reflect.DeepEqual(before, snapshot(t, dir)) {
		t.Error("the directory was touched")
	}
}

func TestRefusesOtherSettings(t *testing.T) {
	done, _ := uninterrupted(t)
	for name, c := range map[string]struct {
		change func(*Game)
		parts  []string
	}{
		"seed":    {func(g *Game) { g.Seed = 12 }, []string{"seed was 11, now 12"}},
		"methods": {func(g *Game) { g.Selectors = g.Selectors[:1] }, []string{"methods was [random mislabeled], now [random]"}},
		"number":  {func(g *Game) { g.NumCanaries = 41 }, []string{"canaries was 40, now 41"}},
		"sets":    {func(g *Game) { g.Sets = 3 }, []string{"sets was 2, now 3"}},
		"audits":  {func(g *Game) { g.Audits = 3 }, []string{"audits was 2, now 3"}},
		"model":   {func(g *Game) { g.Header.Model = "other" }, []string{"model was none, now other"}},
		"recipe":  {func(g *Game) { g.Header.Recipe = "long" }, []string{"recipe was short, now long"}},
		"device":  {func(g *Game) { g.Header.Device = "ref" }, []string{"device was cpu, now ref"}},
		"data":    {func(g *Game) { g.Data = toyData(121) }, []string{"training data"}},
		"test":    {func(g *Game) { g.Test = toyData(3) }, []string{"test data"}},
		"models":  {func(g *Game) { g.KeepModels = false }, []string{"models was true, now false"}},
	} {
		dir := copyDir(t, done)
		before := snapshot(t, dir)
		g, _ := toyGame(dir)
		g.Resume = true
		c.change(&g)
		_, err := g.Run(context.Background())
		wantError(t, err, append(c.parts, journalName)...)
		if !reflect.DeepEqual(before, snapshot(t, dir)) {
			t.Errorf("%s: the directory was touched", name)
		}
	}
}

// TestDamagedJournal: a last record that was cut is played again; damage
// before it is an error that leaves everything as it was.
func TestDamagedJournal(t *testing.T) {
	wantDir, want := uninterrupted(t)
	text, err := os.ReadFile(filepath.Join(wantDir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for _, keep := range []int{last + 1, (last + len(text)) / 2, len(text) - 1} {
		dir := copyDir(t, wantDir)
		if err := os.WriteFile(filepath.Join(dir, journalName), text[:keep], 0o644); err != nil {
			t.Fatal(err)
		}
		g, trainer := toyGame(dir)
		g.Resume = true
		var notes []string
		g.Progress = func(p Progress) {
			if p.Note != "" {
				notes = append(notes, p.Note)
			}
		}
		rep := play(t, g)
		if trainer.runs != 1 || len(notes) != 1 || !strings.Contains(notes[0], journalName) {
			t.Errorf("cut after %d of %d bytes: %d runs, notes %q", keep, len(text), trainer.runs, notes)
		}
		sameRun(t, "cut journal", dir, rep, wantDir, want)
	}

	dir := copyDir(t, wantDir)
	text[len(text)/2] ^= 4
	if err := os.WriteFile(filepath.Join(dir, journalName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	g, _ := toyGame(dir)
	g.Resume = true
	_, err = g.Run(context.Background())
	wantError(t, err, journalName, "line ")
	if !reflect.DeepEqual(before, snapshot(t, dir)) {
		t.Error("the directory was touched")
	}
}

// TestFullDisk: the disk is full in the middle of a canary file, or of a score
// file. What was finished stays, and the game goes on once there is room.
func TestFullDisk(t *testing.T) {
	wantDir, want := uninterrupted(t)
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(wantDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	canaries, scores := size("canaries/random-set0.npz"), size("scores/random-set0-audit0.csv")
	if scores >= canaries {
		t.Fatalf("score files of %d bytes, canary files of %d: the test needs smaller score files", scores, canaries)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		limit int64
		file  string
	}{
		{canaries / 2, "canaries/random-set0.npz"},
		{scores / 2, "scores/random-set0-audit0.csv"},
	} {
		if strings.HasPrefix(c.file, "scores") { // make the canaries first, with room
			g, trainer := toyGame(dir)
			g.Resume = true
			trainer.fail = errors.New("not now")
			if _, err := g.Run(context.Background()); err == nil {
				t.Fatal("no error")
			}
		}
		g, _ := toyGame(dir)
		g.Resume = true
		g.files = atomicfile.FullAfter(c.limit)
		_, err := g.Run(context.Background())
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v, want ENOSPC", err)
		}
		wantError(t, err, c.file)
		for name := range snapshot(t, dir) {
			if name == c.file || strings.Contains(name, ".tmp") {
				t.Errorf("%s is there after the disk was full", name)
			}
		}
	}
	g, _ := toyGame(dir)
	g.Resume = true
	sameRun(t, "disk was full", dir, play(t, g), wantDir, want)
}

func TestDirectoryBelowAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "run")} {
		g, trainer := toyGame(dir)
		_, err := g.Run(context.Background())
		wantError(t, err, file, "folder")
		g, _ = toyGame(dir)
		g.Selectors = g.Selectors[:1]
		_, err = g.WritePlan(context.Background())
		wantError(t, err, file, "folder")
		if text, err := os.ReadFile(file); err != nil || string(text) != "precious" || trainer.runs != 0 {
			t.Errorf("the file holds %q, %v; %d runs", text, err, trainer.runs)
		}
	}
}

// TestInUse: two processes cannot play in one directory.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	g, trainer := toyGame(dir)
	var second error
	trainer.step = func(run, step int) {
		if run == 1 && step == 0 {
			g, _ := toyGame(dir)
			g.Resume = true
			_, second = g.Run(context.Background())
		}
	}
	play(t, g)
	wantError(t, second, journalName, "in use")
}

// TestStateIsUsed: a training run that was stopped goes on from its state.
func TestStateIsUsed(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	g, trainer := toyGame(dir)
	trainer.step = func(run, step int) {
		if run == 2 && step == 3 {
			cancel()
		}
	}
	if _, err := g.Run(ctx); err == nil {
		t.Fatal("not cancelled")
	}
	state := filepath.Join(dir, "state", "random-set0-audit1.state")
	if text, err := os.ReadFile(state); err != nil || string(text) != "2" {
		t.Errorf("state %q, %v", text, err)
	}
	g, trainer = toyGame(dir)
	g.Resume = true
	var steps []string
	trainer.step = func(run, step int) {
		if run == 1 {
			steps = append(steps, strconv.Itoa(step))
		}
	}
	play(t, g)
	if got := strings.Join(steps, " "); got != "2 3" {
		t.Errorf("the run went on with steps %s, want 2 3", got)
	}
}
