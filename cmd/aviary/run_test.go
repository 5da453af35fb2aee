package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAuditMakesARunDirectory(t *testing.T) {
	dir := t.TempDir()
	stdout := mustCall(t, dir, with(tiny, "--canaries", "random,mislabeled", "--out", "$DIR/run", "--save-models")...)
	want := strings.Fields(`canaries/mislabeled-set0.npz canaries/mislabeled-set1.npz canaries/random-set0.npz canaries/random-set1.npz
		config.yaml journal.jsonl manifest.json
		models/mislabeled-set0-audit0.npz models/mislabeled-set1-audit0.npz models/random-set0-audit0.npz models/random-set1-audit0.npz
		report.html report.json roc.png roc.svg
		scores/mislabeled-set0-audit0.csv scores/mislabeled-set1-audit0.csv scores/random-set0-audit0.csv scores/random-set1-audit0.csv
		summary.csv`)
	if diff := cmp.Diff(want, below(t, filepath.Join(dir, "run"))); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"canaries     AUC", "random       0.", "mislabeled   0.", "report: $DIR/run/report.html\n", "2 (2 sets × 1)"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("%q is not in\n%s", line, stdout)
		}
	}
	lines := strings.Split(readFile(t, dir, "run/scores/random-set1-audit0.csv"), "\n")
	if lines[0] != "set,audit,canary,member,score" || len(lines) != 22 {
		t.Errorf("%d lines, the first %q", len(lines), lines[0])
	}

	// The same from the effective settings; then with another seed.
	again := mustCall(t, dir, "audit", "--config", "$DIR/run/config.yaml", "--out", "$DIR/again", "--quiet", "--json")
	if again != readFile(t, dir, "again/report.json") {
		t.Error("--json did not print report.json")
	}
	first := results(t, filepath.Join(dir, "run"))
	sameResults(t, results(t, filepath.Join(dir, "again")), first)
	mustCall(t, dir, "audit", "--config", "$DIR/run/config.yaml", "--out", "$DIR/other", "--quiet", "--seed", "2")
	if results(t, filepath.Join(dir, "other"))["scores/random-set0-audit0.csv"] == first["scores/random-set0-audit0.csv"] {
		t.Error("another seed gave the same scores") // the comparison can fail
	}
}

// Progress and everything else that is no result goes to stderr.
func TestProgressGoesToStderr(t *testing.T) {
	dir := t.TempDir()
	loud := slices.DeleteFunc(slices.Clone(tiny), func(s string) bool { return s == "--quiet" })
	code, stdout, stderr := call(t, dir, with(loud, "--out", "$DIR/run", "--json")...)
	if code != exitDone || !json.Valid([]byte(stdout)) {
		t.Errorf("exit %d, stdout is not JSON:\n%s", code, stdout)
	}
	if !regexp.MustCompile(`(?m)^audit 2 of 2: mislabeled set 1 audit 0: AUC 0\.\d+, TPR at 5 % FPR 0\.\d+$`).MatchString(stderr) {
		t.Errorf("stderr:\n%s", stderr)
	}
}

func TestThreadsChangeNoByte(t *testing.T) {
	dir := t.TempDir()
	for _, private := range [][]string{nil, {"--clip", "1", "--noise-multiplier", "0.5"}} {
		name := fmt.Sprintf("$DIR/%d-", len(private))
		mustCall(t, dir, with(tiny, append(private, "--threads", "1", "--out", name+"1")...)...)
		mustCall(t, dir, with(tiny, append(private, "--threads", "2", "--out", name+"2")...)...)
		name = filepath.Join(dir, fmt.Sprint(len(private)))
		sameResults(t, results(t, name+"-2"), results(t, name+"-1"))
	}
}

// longer is an audit that is still running when its first scores are there.
func longer(out string) []string {
	return with(tiny, "--canaries", "random,mislabeled", "--audits", "4", "--epochs", "3", "--save-models", "--out", out)
}

// stopped starts aviary on longer(out) as a process of its own and sends it a
// signal as soon as a file is there. Where it had ended before, because the
// machine is busy, it is started again. It returns the exit code, -1 if the
// signal ended the process, and stderr.
func stopped(t *testing.T, out, file string, signal os.Signal) (code int, stderr string) {
	t.Helper()
	return stoppedIn(t, longer(out), filepath.Join(out, file), signal, out)
}

// stoppedIn is stopped for any command; remove is what it leaves behind.
func stoppedIn(t *testing.T, args []string, file string, signal os.Signal, remove ...string) (code int, stderr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		for _, path := range remove {
			os.RemoveAll(path)
		}
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), mainEnv+"=1")
		var text bytes.Buffer
		cmd.Stderr = &text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := os.Stat(file); err == nil {
				running = false
			}
		}
		cmd.Process.Signal(signal)
		<-ended
		if code := cmd.ProcessState.ExitCode(); code != exitDone {
			return code, text.String()
		}
	}
	t.Fatal("the process always ended before the signal: nothing is tested")
	return 0, ""
}

// A run that was killed, at whatever moment, is finished with the same bytes.
func TestKillAndResume(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, longer("$DIR/whole")...)
	want := results(t, filepath.Join(dir, "whole"))
	for i, file := range []string{journalName, "scores/random-set0-audit1.csv", "scores/mislabeled-set0-audit1.csv"} {
		out := filepath.Join(dir, fmt.Sprint("killed", i))
		if code, stderr := stopped(t, out, file, os.Kill); code != -1 {
			t.Fatalf("exit %d, %s", code, stderr)
		}
		mustCall(t, dir, "audit", "--resume", "--out", out, "--quiet")
		sameResults(t, results(t, out), want)
		mustCall(t, dir, "verify", out)
	}
}

func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it, and children inherit
		signals = append(signals, syscall.SIGHUP)
	}
	for _, signal := range signals {
		out := filepath.Join(dir, fmt.Sprint("run ", signal))
		code, stderr := stopped(t, out, "scores/random-set0-audit0.csv", signal)
		want := regexp.MustCompile(`^aviary: interrupted after \d+ of 16 audits\nhint: aviary audit --resume --out '` + regexp.QuoteMeta(out) + "' finishes it\n$")
		if code != exitRun || !want.MatchString(stderr) {
			t.Errorf("%v: exit %d, stderr %q", signal, code, stderr)
		}
		mustCall(t, dir, "audit", "--resume", "--out", out, "--quiet")
	}
}

// A training that diverges does so again: nobody is sent to --resume.
func TestDivergence(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := call(t, dir, with(tiny, "--out", "$DIR/run", "--lr", "1e300")...)
	want := regexp.MustCompile(`^aviary: audit mislabeled-set0-audit0: train: the loss is \S+ after step \d+: training diverged \(lr is 1e\+300\)\nhint: it would again: choose other settings, and another --out\n$`)
	if code != exitRun || stdout != "" || !want.MatchString(stderr) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestResumeRefusesOtherSettings(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--out", "$DIR/run")...)
	for _, test := range []struct{ args, want string }{
		{"--seed 2", "seed was 1, now 2"},
		{"--lr 0.2", "recipe was "},
		{"--sets 3", "sets was 2, now 3"},
		{"--limit 199", "training data (SHA-256) was "},
		{"--device ref", ", now ref (float64)"},
	} {
		code, _, stderr := call(t, dir, append([]string{"audit", "--resume", "--out", "$DIR/run"}, strings.Fields(test.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit %d, %s", test.args, code, stderr)
		}
	}
	code, _, stderr := call(t, dir, with(tiny, "--out", "$DIR/run")...)
	if want := "aviary: $DIR/run is there already and not empty\nhint: finish it with --resume, or choose another --out\n"; code != exitUsage || stderr != want {
		t.Errorf("exit %d, %q", code, stderr)
	}
	mustCall(t, dir, "verify", "$DIR/run") // all this has changed nothing
}

// A journal whose last record was cut, as by a power cut, costs that one
// audit; other damage is an error that leaves everything as it is.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--out", "$DIR/run")...)
	run := filepath.Join(dir, "run")
	want := results(t, run)
	path := filepath.Join(run, journalName)
	whole := readFile(t, path)

	writeFile(t, path, whole[:len(whole)-30])
	code, _, stderr := call(t, dir, "audit", "--resume", "--out", "$DIR/run", "--quiet")
	if code != exitDone || !strings.HasPrefix(stderr, "aviary: note: ") {
		t.Errorf("exit %d, stderr %q, expected a note", code, stderr)
	}
	sameResults(t, results(t, run), want)

	middle := strings.Replace(whole, `"auc":0.`, `"auc":1.`, 1)
	if middle == whole {
		t.Fatal("nothing was damaged")
	}
	writeFile(t, path, middle)
	code, _, stderr = call(t, dir, "audit", "--resume", "--out", "$DIR/run", "--quiet")
	if code != exitUsage || !strings.HasPrefix(stderr, "aviary: journal $DIR/run/journal.jsonl: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	sameResults(t, results(t, run), want)
}

func TestVerifySaysWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--out", "$DIR/run")...)
	if out := mustCall(t, dir, "verify", "$DIR/run"); !regexp.MustCompile(`^\$DIR/run: 11 files and \d+ figures are as they were\n$`).MatchString(out) {
		t.Error(out)
	}
	run := filepath.Join(dir, "run")
	const scores = "scores/mislabeled-set1-audit0.csv"
	for name, test := range map[string]struct {
		file   string
		change func(string) string
		want   []string
	}{
		"one score": {scores, func(s string) string {
			lines := strings.Split(s, "\n")
			cells := strings.Split(lines[5], ",")
			cells[4] = "-1e-9"
			lines[5] = strings.Join(cells, ",")
			return strings.Join(lines, "\n")
		}, []string{scores + ": SHA-256 is ", "report.json: mislabeled set 1 audit 0 (" + scores + ") auc is 0.", "report.json: mislabeled loss_"}},
		"one coin": {scores, func(s string) string {
			return regexp.MustCompile(`(?m)^(1,0,7),(.),`).ReplaceAllStringFunc(s, func(m string) string {
				return m[:6] + strconv.Itoa(1-int(m[6]-'0')) + ","
			})
		}, []string{scores + ": SHA-256", ") members is "}},
		"cut":     {scores, func(s string) string { return s[:len(s)/2] }, []string{scores + ": SHA-256", "report.json: mislabeled set 1 audit 0 (" + scores + ")"}},
		"a page":  {"report.html", func(s string) string { return s + " " }, []string{"report.html: SHA-256 is "}},
		"a claim": {"report.json", func(s string) string { return strings.Replace(s, `"min": 0.`, `"min": 0.0`, 1) }, []string{"report.json: SHA-256", "mislabeled auc min is "}},
		"gone":    {"roc.png", nil, []string{"roc.png: is gone"}},
	} {
		path := filepath.Join(run, test.file)
		before := readFile(t, path)
		if test.change == nil {
			os.Remove(path)
		} else {
			after := test.change(before)
			if after == before {
				t.Fatalf("%s: nothing was changed", name)
			}
			writeFile(t, path, after)
		}
		code, stdout, stderr := call(t, dir, "verify", "$DIR/run")
		if code != exitGate || !strings.HasPrefix(stderr, "aviary: $DIR/run: ") || !strings.Contains(stderr, " differences\n") {
			t.Errorf("%s: exit %d, stderr %q", name, code, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, stdout)
			}
		}
		writeFile(t, path, before)
	}
	mustCall(t, dir, "verify", "$DIR/run")
}

func TestReportRendersAgain(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--out", "$DIR/run")...)
	page := filepath.Join(dir, "run/report.html")
	want := readFile(t, page)
	os.Remove(page)
	mustCall(t, dir, "report", "$DIR/run")
	if readFile(t, page) != want {
		t.Error("the page made again differs")
	}
	mustCall(t, dir, "verify", "$DIR/run")

	// A page must not be made of scores that were changed.
	scores := filepath.Join(dir, "run/scores/mislabeled-set0-audit0.csv")
	writeFile(t, scores, strings.Replace(readFile(t, scores), "-", "-1", 1))
	code, _, stderr := call(t, dir, "report", "$DIR/run")
	if code != exitUsage || !strings.Contains(stderr, "$DIR/run has changed since the run: scores/mislabeled-set0-audit0.csv: ") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

func TestGates(t *testing.T) {
	dir := t.TempDir()
	for _, command := range []string{"report $DIR/run", "audit score $DIR/plan $DIR/losses.csv", "audit"} {
		code, stdout, stderr := call(t, dir, append(strings.Fields(command), "--fail-if-tpr-above", "nan")...)
		if code != exitUsage || stdout != "" || stderr != "aviary: --fail-if-tpr-above is NaN, expected a number from 0 to below +Inf\n" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
	}
	mustCall(t, dir, with(tiny, "--out", "$DIR/run", "--fail-if-auc-above", "0.999")...)
	for _, test := range []struct{ args, want string }{
		{"--fail-if-auc-above 0.01", "aviary: gate crossed: AUC of mislabeled canaries is 0."},
		{"--fail-if-tpr-above 0 --fail-if-auc-above 0", "; TPR at 5 % FPR of mislabeled canaries is "},
	} {
		code, stdout, stderr := call(t, dir, append([]string{"report", "$DIR/run"}, strings.Fields(test.args)...)...)
		if code != exitGate || !strings.Contains(stderr, test.want) || !strings.Contains(stdout, "mislabeled   0.") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

// The demo overwrites its own earlier output, also that of a run that did not
// end, and nothing else.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	small := strings.Fields("demo --out $DIR/demo --limit 2000 --epochs 1 --quiet")
	first := mustCall(t, dir, slices.Clone(small)...)
	if !strings.Contains(readFile(t, dir, "demo/report.html"), "<strong>Demo.</strong>") || !strings.Contains(readFile(t, dir, "demo/report.json"), `"demo": true`) {
		t.Error("the report does not say that it is a demo's")
	}
	// What is refused leaves the earlier demo as it was.
	before := results(t, filepath.Join(dir, "demo"))
	code, _, stderr := call(t, dir, append(slices.Clone(small), "--epochs", "0")...)
	if code != exitUsage || !strings.Contains(stderr, "--epochs is 0") {
		t.Errorf("without epochs: exit %d, %s", code, stderr)
	}
	sameResults(t, results(t, filepath.Join(dir, "demo")), before)
	writeFile(t, filepath.Join(dir, "demo/mine.txt"), "keep me")
	before = results(t, filepath.Join(dir, "demo"))
	code, _, stderr = call(t, dir, slices.Clone(small)...)
	if code != exitUsage || !strings.Contains(stderr, "not empty: mine.txt is not the demo's") {
		t.Errorf("a folder with a file of the user's: exit %d, %s", code, stderr)
	}
	sameResults(t, results(t, filepath.Join(dir, "demo")), before)
	// So does one that another process has at work.
	os.Remove(filepath.Join(dir, "demo/mine.txt"))
	held, err := os.Open(filepath.Join(dir, "demo", journalName))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = call(t, dir, slices.Clone(small)...)
	if code != exitUsage || !strings.Contains(stderr, "in use by another process\nhint: wait for it, or choose another --out\n") {
		t.Errorf("a demo at work: exit %d, %s", code, stderr)
	}
	held.Close()
	sameResults(t, results(t, filepath.Join(dir, "demo")), before)
	// A demo that is resumed is still one.
	os.Remove(filepath.Join(dir, "demo", "report.json"))
	os.Remove(filepath.Join(dir, "demo", "manifest.json"))
	mustCall(t, dir, "audit", "--resume", "--out", "$DIR/demo", "--quiet")
	sameResults(t, results(t, filepath.Join(dir, "demo")), before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr = callContext(ctx, dir, slices.Clone(small)...)
	if want := "aviary: interrupted before the first audit\nhint: aviary demo starts again\n"; code != exitRun || stderr != want {
		t.Errorf("interrupted: exit %d, %q", code, stderr)
	}
	if again := mustCall(t, dir, slices.Clone(small)...); again != first {
		t.Errorf("%s\nat first:\n%s", again, first)
	}
	mustCall(t, dir, "verify", "$DIR/demo")

	mustCall(t, dir, with(tiny, "--out", "$DIR/audit")...)
	code, _, stderr = call(t, dir, "demo", "--out", "$DIR/audit")
	if code != exitUsage || !strings.Contains(stderr, "$DIR/audit holds a run that is not a demo") {
		t.Errorf("over an audit: exit %d, %s", code, stderr)
	}
	mustCall(t, dir, "verify", "$DIR/audit")
}

// Somebody else's code, by plan and score and as a command, and canaries from
// a file.
func TestForeignTrainers(t *testing.T) {
	dir := t.TempDir()
	data := strings.Fields("--data mnist-t10k --limit 200 --num-canaries 20 --sets 2 --audits 1")
	mustCall(t, dir, append([]string{"audit", "plan", "--out", "$DIR/plan", "--model", "an oracle"}, data...)...)
	// An oracle's losses: small for members.
	losses := "set,audit,canary,loss\n"
	for _, line := range strings.Split(strings.TrimSpace(readFile(t, dir, "plan/members.csv")), "\n")[1:] {
		place, member, _ := strings.Cut(line[len("0,0,"):], ",")
		losses += line[:len("0,0,")] + place + "," + map[string]string{"1": "0.5", "0": "2"}[member] + "\n"
	}
	writeFile(t, filepath.Join(dir, "losses.csv"), losses)
	stdout := mustCall(t, dir, "audit", "score", "$DIR/plan", "$DIR/losses.csv")
	if !strings.Contains(stdout, "Mislabeled canaries: AUC 1.00 (min 1.00); an attacker who accepts 5 % false alarms finds 100 % of them.") {
		t.Error(stdout)
	}
	mustCall(t, dir, "verify", "$DIR/plan")
	writeFile(t, filepath.Join(dir, "losses.csv"), losses[:len(losses)-8])
	if code, _, stderr := call(t, dir, "audit", "score", "$DIR/plan", "$DIR/losses.csv"); code != exitUsage || !strings.Contains(stderr, "losses.csv") {
		t.Errorf("cut losses: exit %d, %s", code, stderr)
	}

	const trainer = `{ echo canary,loss; for i in $(seq 0 19); do echo $i,1.$i; done; } > {losses}`
	args := append([]string{"audit", "--trainer", trainer, "--canaries", "$DIR/plan/canaries/mislabeled-set0.npz", "--out", "$DIR/cmd", "--quiet"}, strings.Fields("--data mnist-t10k --limit 200 --sets 1")...)
	stdout = mustCall(t, dir, args...)
	if !strings.Contains(stdout, "2 (1 set × 2)") || !strings.Contains(readFile(t, dir, "cmd/manifest.json"), "plan/canaries/mislabeled-set0.npz") {
		t.Error(stdout)
	}
	mustCall(t, dir, "audit", "--resume", "--out", "$DIR/cmd", "--quiet") // its config.yaml can be read again
	mustCall(t, dir, "verify", "$DIR/cmd")

	args[2], args[6] = "echo broken >&2; exit 7", "$DIR/failed"
	code, _, stderr := call(t, dir, args...)
	if code != exitRun || !strings.Contains(stderr, "exit status 7") || !strings.Contains(stderr, "hint: aviary audit --resume --out ") {
		t.Errorf("a trainer that fails: exit %d, %s", code, stderr)
	}
}
