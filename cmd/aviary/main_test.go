package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

// mainEnv makes this test program be aviary, for tests that kill it.
const mainEnv = "AVIARY_TEST_MAIN"

func TestMain(m *testing.M) {
	version = "v0.0.0-test"
	if os.Getenv(mainEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// tiny is an audit that takes a moment.
var tiny = strings.Fields("--data mnist-t10k --limit 200 --arch mlp:784-4-10 --epochs 1 --batch 50 --num-canaries 20 --sets 2 --audits 1 --threads 1 --quiet")

// call runs aviary with a directory for the test in place of $DIR, which
// stands in what comes back too.
func call(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return callContext(ctx, dir, args...)
}

func callContext(ctx context.Context, dir string, args ...string) (code int, stdout, stderr string) {
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$DIR", dir)
	}
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	mask := strings.NewReplacer(dir, "$DIR")
	return code, mask.Replace(out.String()), mask.Replace(err.String())
}

// mustCall is call for what must succeed.
func mustCall(t *testing.T, dir string, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := call(t, dir, args...)
	if code != exitDone {
		t.Fatalf("aviary %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func with(base []string, more ...string) []string {
	return append(append([]string{"audit"}, base...), more...)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// results is all of a run directory that must not depend on how it came about:
// scores, canaries, models and the report without its timing.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range []string{"scores", "canaries", "models"} {
		err := filepath.WalkDir(filepath.Join(dir, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			found[name] = readFile(t, path)
			return err
		})
		if err != nil && !(folder == "models" && os.IsNotExist(err)) {
			t.Fatal(err)
		}
	}
	var r audit.Report
	if err := json.Unmarshal([]byte(readFile(t, dir, "report.json")), &r); err != nil {
		t.Fatal(err)
	}
	r.Timing = nil
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	found["report.json"] = string(text)
	if len(found) < 3 {
		t.Fatalf("%s holds only %d results", dir, len(found))
	}
	return found
}

func sameResults(t *testing.T, got, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 2000 {
			diff = diff[:2000] + "…"
		}
		t.Error(diff)
	}
}

// below lists all files below dir.
func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The words that a user sees when something is wrong: one line, perhaps a
// hint, the exit code, and nothing left behind.
func TestWrongInput(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AVIARY_DATA", filepath.Join(dir, "nodata"))
	for name, text := range map[string]string{
		"file":                "not a folder\n",
		"unknown.yaml":        "data: mnist-t10k\n# a comment\nepoch: 3\n",
		"twice.yaml":          "epochs: 3\nlr: 1\nepochs: 4\n",
		"number.yaml":         "epochs: seven\n",
		"list.yaml":           "epochs: [1, 2]\n",
		"null.yaml":           "data:\n",
		"plain.yaml":          "just words\n",
		"broken.yaml":         "data: [1\n",
		"nested.yaml":         "canaries:\n  - [a]\n",
		"again.yaml":          "resume: true\n",
		"full/x":              "mine\n",
		"other/" + configName: "mine: too\n",
		"two.yaml":            "epochs: 3\n---\nepochs: 4\n",
		"bad.npz":             "no npz\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	before := below(t, dir)
	for _, test := range []struct {
		args   string
		stderr string
	}{
		{"audti", `unknown command "audti" for "aviary"` + "\nhint: did you mean \"audit\"?"},
		{"zebra", `unknown command "zebra" for "aviary"` + "\nhint: aviary --help lists the commands"},
		{"audit pln", `unknown command "pln" for "aviary audit"` + "\nhint: did you mean \"plan\"?"},
		{"audit --epoch 3", "unknown flag: --epoch\nhint: did you mean \"--epochs\"?"},
		{"audit --epochs", "flag needs an argument: --epochs\nhint: aviary audit --help lists the flags"},
		{"audit --epochs x", "--epochs is \"x\", expected a whole number\nhint: aviary audit --help lists the flags"},
		{"audit --epochs 99999999999999999999", "--epochs is \"99999999999999999999\", expected a whole number of at most 64 bits\nhint: aviary audit --help lists the flags"},
		{"audit --seed -1", "--seed is \"-1\", expected a whole number of at least 0\nhint: aviary audit --help lists the flags"},
		{"audit --resume=perhaps", "--resume is \"perhaps\", expected true or false\nhint: aviary audit --help lists the flags"},
		{"audit --sets 9223372036854775807", "--sets is 9223372036854775807, expected 1000000 or less"},
		{"audit plan --audits 1000001 --out $DIR/r", "--audits is 1000001, expected 1000000 or less"},
		{"audit plan --limit -1 --out $DIR/r", "--limit is -1, expected 0 or more"},
		{"audit --config $DIR/two.yaml", "$DIR/two.yaml:2: a second YAML document, expected one"},
		{"audit --data mnist-t10k --out $DIR/other", "$DIR/other is there already and not empty\nhint: choose another --out"},
		{"audit --trainer x --threads 3", "--threads does not reach --trainer\nhint: give it to the command yourself"},
		{"audit --trainer x --device ref", "--device does not reach --trainer\nhint: give it to the command yourself"},
		{"completion foo", `unknown command "foo" for "aviary completion"` + "\nhint: aviary completion --help lists the commands"},
		{"help audti", `unknown command "audti" for "aviary"` + "\nhint: did you mean \"audit\"?"},
		{"help audit pln", `unknown command "pln" for "aviary audit"` + "\nhint: did you mean \"plan\"?"},
		{"audit --config $DIR/none.yaml", "open $DIR/none.yaml: no such file or directory"},
		{"audit --config $DIR/unknown.yaml", "$DIR/unknown.yaml:3: unknown key \"epoch\"\nhint: did you mean \"epochs\"?"},
		{"audit --config $DIR/twice.yaml", "$DIR/twice.yaml:3: epochs again, first in line 1"},
		{"audit --config $DIR/number.yaml", `$DIR/number.yaml:1: epochs: "seven", expected a whole number`},
		{"audit --config $DIR/list.yaml", "$DIR/list.yaml:1: epochs: expected a whole number"},
		{"audit --config $DIR/null.yaml", "$DIR/null.yaml:1: data: expected text"},
		{"audit --config $DIR/plain.yaml", `$DIR/plain.yaml:1: expected settings as "key: value"`},
		{"audit --config $DIR/broken.yaml", "$DIR/broken.yaml: line 1: did not find expected ',' or ']'"},
		{"audit --config $DIR/nested.yaml", "$DIR/nested.yaml:2: canaries: item 1 is not a plain value"},
		{"audit --config $DIR/again.yaml", "$DIR/again.yaml:1: unknown key \"resume\"\nhint: every key is a flag without its dashes"},
		{"audit", "data set mnist: there is no folder $DIR/nodata/mnist; `make data` fetches the digits, or set AVIARY_DATA to the folder that mnist is in (mnist-t10k is built in)"},
		{"audit --data $DIR/full", "$DIR/full: no data set found; expected train-images-idx3-ubyte[.gz] and its companions, train.npz, x_train.npy and y_train.npy, or one .npz file; the folder holds x"},
		{"audit --clip 1 --target-epsilon 0", "--target-epsilon is \"0\", expected a number above 0"},
		{"audit --target-epsilon 3", "--target-epsilon without --clip\nhint: add --clip C, the norm that the noise is relative to"},
		{"audit --clip 1 --target-epsilon 3 --noise-multiplier 1", "--target-epsilon finds the noise that --noise-multiplier 1 gives\nhint: leave one of them out"},
		{"audit --delta 1", "--delta is 1, expected a number above 0 and below 1"},
		{"audit --noise-multiplier 1", "--noise-multiplier without --clip\nhint: add --clip C, the norm that the noise is relative to"},
		{"audit --microbatch 8", "--microbatch is 8 without --clip; only DP-SGD splits batches"},
		{"audit --epochs 0", "--epochs is 0, expected 1 or more"},
		{"audit --sets 0", "--sets is 0, expected 1 or more"},
		{"audit --momentum 1", "--momentum is 1, expected a number from 0 to below 1"},
		{"audit --lr NaN", "--lr is NaN, expected a number above 0"},
		{"audit --fail-if-auc-above NaN", "--fail-if-auc-above is NaN, expected a number from 0 to below +Inf"},
		{"audit --trainer x --epochs 3", "--epochs does not reach --trainer\nhint: give it to the command yourself"},
		{"audit --data mnist-t10k --canaries misslabeled", "--canaries: unknown kind \"misslabeled\", expected random, mislabeled, blank, clipbkd, self-influence, greedy, ibis or FILE.npz\nhint: did you mean \"mislabeled\"?"},
		{"audit --data mnist-t10k --canaries $DIR/bad.npz", "$DIR/bad.npz: not an npz file: no zip directory found (truncated, or of another kind)"},
		{"audit --data mnist-t10k --num-canaries 0 --out $DIR/r", "audit: 0 canaries: expected at least 2, so that one can be in and one out"},
		{"audit --data mnist-t10k --num-canaries 1 --out $DIR/r", "audit: 1 canaries: expected at least 2, so that one can be in and one out"},
		{"audit --data mnist-t10k --limit 300 --num-canaries 301 --out $DIR/r", "audit: 301 canaries: expected at most the 300 training examples"},
		{"audit --data mnist-t10k --limit 9000", "--limit is 9000, expected at most the 8000 training examples of mnist-t10k"},
		{"audit --data mnist-t10k --limit 200", "train: batch is 256, expected 1 to 200, the number of training examples"},
		{"audit --data mnist-t10k --arch cnn:3", `arch "cnn:3": unknown kind "cnn", expected mlp, as in mlp:784-256-10`},
		{"audit --data mnist-t10k --arch mlp:784-9", "arch mlp:784-9 has 9 outputs, but the data have 10 classes"},
		{"audit --data mnist-t10k --schedule often", `train: schedule is "often", expected constant, cosine or step:FACTOR@FRACTION,... as in step:0.1@0.5,0.75`},
		{"audit --data mnist-t10k --device gpu", "--device is \"gpu\", expected auto, cpu or ref\nhint: aviary devices lists what there is"},
		{"audit --data mnist-t10k --device cuda:0", "--device cuda:0: this version has no GPU device\nhint: aviary devices lists what there is"},
		{"audit --data mnist-t10k --device ref --out $DIR/file/run", "make folder $DIR/file/run: $DIR/file is a regular file, expected a folder (not a directory)"},
		{"audit --data mnist-t10k --device ref --out $DIR/full", "$DIR/full is there already and not empty\nhint: choose another --out"},
		{"audit --resume", "--resume needs --out, the run to finish\nhint: aviary audit --resume --out DIR"},
		{"audit --resume --out $DIR/full", "$DIR/full holds no run to resume\nhint: without --resume a new run begins"},
		{"demo --out $DIR/full", "$DIR/full is there already and not empty\nhint: choose another --out"},
		{"audit plan", "--out is missing, the directory of the plan\nhint: aviary audit plan --out DIR"},
		{"audit score $DIR", "LOSSES is missing\nhint: usage: aviary audit score DIR LOSSES [flags]"},
		{"audit score $DIR/full $DIR/file", "$DIR/full: no plan.json; expected a directory that a plan was written to"},
		{"report", "DIR is missing\nhint: usage: aviary report DIR [flags]"},
		{"report $DIR/full", "$DIR/full has no manifest.json, expected the directory of a finished run\nhint: an unfinished run is finished by aviary audit --resume --out $DIR/full"},
		{"verify a b", "unexpected argument \"b\"\nhint: usage: aviary verify DIR [flags]"},
		{"verify $DIR/none", "$DIR/none does not exist, expected the directory of a finished run"},
		{"verify $DIR", "$DIR has no manifest.json, expected the directory of a finished run\nhint: an unfinished run is finished by aviary audit --resume --out $DIR"},
	} {
		code, stdout, stderr := call(t, dir, strings.Fields(test.args)...)
		if want := "aviary: " + test.stderr + "\n"; code != exitUsage || stdout != "" || stderr != want {
			t.Errorf("aviary %s\nexit %d, stdout %q, stderr:\n%sexpected exit 2 and\n%s", test.args, code, stdout, stderr, want)
		}
	}
	if diff := cmp.Diff(before, below(t, dir)); diff != "" {
		t.Errorf("files were left or lost:\n%s", diff)
	}
}

// A run that the machine cannot hold is refused before it is begun.
func TestMemoryIsChecked(t *testing.T) {
	flags, s := allFlags()
	if err := flags.Parse(strings.Fields("--data mnist-t10k --arch mlp:784-1000000-1000000-10")); err != nil {
		t.Fatal(err)
	}
	j := &job{settings: s, device: kernels.Reference()}
	defer j.close()
	if err := j.openData(); err != nil {
		t.Fatal(err)
	}
	var err error
	if j.arch, err = models.ParseArch(s.arch); err != nil {
		t.Fatal(err)
	}
	for machine, want := range map[int]string{1 << 40: "has 1048576 MB", 0: "", 1 << 46: ""} { // parameters take 10¹² · 32 bytes
		err := j.checkMemory(machine)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("on %d bytes: %v", machine, err)
		}
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && machineMemory() < 1<<24 {
		t.Errorf("this machine says it has %d bytes", machineMemory())
	}
}

func TestCommandsThatOnlyTell(t *testing.T) {
	for _, test := range []struct{ args, stdout string }{
		{"version", "aviary v0.0.0-test ("},
		{"--version", "aviary v0.0.0-test ("},
		{"help audit plan", "aviary audit plan [flags]"},
		{"help", "Available Commands:"},
		{"completion", "aviary completion [command]"},
		{"devices", "ref   plain Go, float64"},
		{"", "Audit how much"},
		{"--help", "Exit codes: 0 done, 1 a gate"},
		{"completion bash", "bash completion"},
		{"completion zsh", "#compdef aviary"},
		{"audit --data mnist-t10k --dry-run --sets 3 --out here", "audits    6: 2 of each of 3 sets of 1 kinds\n"},
	} {
		code, stdout, stderr := call(t, t.TempDir(), strings.Fields(test.args)...)
		if test.args == "" {
			test.stdout = "Aviary measures how much"
		}
		if code != exitDone || stderr != "" || !strings.Contains(stdout, test.stdout) {
			t.Errorf("aviary %s: exit %d, stderr %q, stdout:\n%s\nexpected %q", test.args, code, stderr, stdout, test.stdout)
		}
	}
	if _, err := os.Stat("here"); err == nil {
		t.Error("--dry-run made the run directory")
	}
}

func TestSelfTest(t *testing.T) {
	code, stdout, stderr := call(t, t.TempDir(), "selftest")
	if code != exitDone || strings.Contains(stdout, "FAILED") || strings.Count(stdout, " ok ") < 10 || !strings.Contains(stdout, "sign of the scores flipped") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

// Every flag is a key and every key a flag: a file that is written by one call
// and read by another changes nothing, and flags go before it.
func TestConfigRoundTrip(t *testing.T) {
	flags, s := allFlags()
	for _, v := range [][2]string{
		{"data", "a b: c"}, {"canaries", `random,"a,b.npz"`}, {"seed", "18446744073709551615"}, {"lr", "1e-3"}, {"save-models", "true"},
		{"trainer", "echo 'x' # y"}, {"schedule", "step:0.1@0.5"}, {"arch", "yes"}, {"device", "1"},
	} {
		if err := flags.Set(v[0], v[1]); err != nil {
			t.Fatal(err)
		}
	}
	text, err := effectiveConfig(flags, "# hello")
	if err != nil {
		t.Fatal(err)
	}
	back, s2 := allFlags()
	if err := back.Set("epochs", "99"); err != nil {
		t.Fatal(err)
	}
	if err := parseConfig("x.yaml", text, back); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if s2.epochs != 99 {
		t.Errorf("the file overrode the flag: epochs is %d", s2.epochs)
	}
	s2.epochs = s.epochs
	if got, want := fmt.Sprintf("%+v", *s2), fmt.Sprintf("%+v", *s); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	if strings.Join(s2.canaries, "|") != "random|a,b.npz" {
		t.Errorf("canaries are %q", s2.canaries)
	}
}

// Instruction sets with the same bits have one name, or a run could not be
// resumed on another machine.
func TestCPUName(t *testing.T) {
	if a, b := cpuName(kernels.AVX2, 32), cpuName(kernels.AVX512, 32); a != b || a == cpuName(kernels.Portable, 32) {
		t.Errorf("AVX2 is called %q, AVX-512 %q, portable %q", a, b, cpuName(kernels.Portable, 32))
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"epoch", "epochs", 1}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: %d, expected %d", test.a, test.b, got, test.want)
		}
		if got := editDistance(test.b, test.a); got != test.want {
			t.Errorf("%q, %q: %d, expected %d", test.b, test.a, got, test.want)
		}
	}
}
