package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/report"
)

// peFiles writes records of 40 users about a few topics, and a bank.
func peFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	topics := [][]string{
		strings.Fields("the food was good but service slow waiter kind soup cold bread fresh table small"),
		strings.Fields("my phone battery died screen bright camera poor charger broke cheap case fits"),
		strings.Fields("doctor gave me pills pain went away side effects bad sleep better after weeks"),
	}
	text := func() string {
		words := topics[r.IntN(3)]
		var b []string
		for range 6 + r.IntN(6) {
			b = append(b, words[r.IntN(len(words))])
		}
		return strings.Join(b, " ") + "."
	}
	var users, bank bytes.Buffer
	for u := range 40 {
		for i := range 6 {
			fmt.Fprintf(&users, `{"id":"%d-%d","user":"u%d","text":%q}`+"\n", u, i, u, text())
		}
	}
	bank.WriteString("candidate_id,text\n")
	for i := range 150 {
		fmt.Fprintf(&bank, "%d,%s\n", i, text())
	}
	writeFile(t, filepath.Join(dir, "users.jsonl"), users.String())
	writeFile(t, filepath.Join(dir, "bank.csv"), bank.String())
	return dir
}

func peRun(stage string, more ...string) []string {
	return append(strings.Fields("pe "+stage+` --users $DIR/users.jsonl --bank $DIR/bank.csv --bank-size 0 --min-records 6 --cap 6 --k 2 --clip .2
		--auxiliary 10 --calibration 10 --test 15 --num-canaries 2 --probes 6 --pool 20 --trials 150000 --quiet`), more...)
}

// TestPERun: all attacks; the same bytes on more threads, resumed, in shards, and
// with the lock made beforehand.
func TestPERun(t *testing.T) {
	dir := peFiles(t)
	stdout := mustCall(t, dir, peRun("run", "--out", "$DIR/all", "--trials", "20000")...)
	for _, want := range []string{"nonce-norm", "paraphrase-mu", "ordinary", "ε_theory", "report: $DIR/all/report.html"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	var r report.PE
	if err := json.Unmarshal([]byte(readFile(t, dir, "all/report.json")), &r); err != nil || len(r.Attacks) != 8 || len(r.ByTrials) != 9 || len(r.Notes) == 0 {
		t.Fatalf("%d attacks, %d curves, %v", len(r.Attacks), len(r.ByTrials), err)
	}
	for _, a := range r.Attacks {
		if !(a.EpsLower <= a.Exact+.05 && a.Exact <= r.Theory.Upper+1e-4) {
			t.Errorf("%s: %+v", a.Name, a)
		}
	}
	if n := strings.Count(readFile(t, dir, "all/attacks.csv"), "\n"); n != 17 {
		t.Errorf("%d lines of attacks, expected 17", n)
	}
	if page := readFile(t, dir, "all/report.html"); !strings.Contains(page, "<svg") || strings.Contains(page, "battery") {
		t.Error("the page has no plot, or has texts of users")
	}
	few := []string{"--attacks", "ordinary,paraphrase-mu"}
	mustCall(t, dir, peRun("run", append(few, "--out", "$DIR/a", "--threads", "1")...)...)
	same := func(name string) {
		t.Helper()
		for _, f := range []string{"report.json", "attacks.csv", "report.html", "lock.json"} {
			if readFile(t, dir, name, f) != readFile(t, dir, "a", f) {
				t.Errorf("%s: %s differs", name, f)
			}
		}
	}
	mustCall(t, dir, peRun("lock", append(few, "--out", "$DIR/b", "--threads", "2")...)...)
	mustCall(t, dir, "pe", "run", "--resume", "--out", "$DIR/b", "--quiet", "--threads", "2")
	same("b")
	os.Remove(filepath.Join(dir, "b", "report.json"))
	mustCall(t, dir, "pe", "run", "--resume", "--out", "$DIR/b", "--quiet")
	same("b")
	for _, i := range []string{"1", "2"} {
		if out := mustCall(t, dir, peRun("run", append(few, "--out", "$DIR/s"+i, "--shard", i+"/2")...)...); out != "" {
			t.Errorf("a shard printed %q", out)
		}
	}
	mustCall(t, dir, "pe", "run", "--resume", "--quiet", "--out", "$DIR/s1", "--add", "$DIR/s2/journal.jsonl")
	same("s1")
	if code, _, stderr := call(t, dir, peRun("run", "--out", "$DIR/g", "--attacks", "nonce-norm", "--num-canaries", "1", "--trials", "1000000", "--gate", "0.01")...); code != exitGate || !strings.Contains(stderr, "above the gate") {
		t.Errorf("gate: exit %d, %s", code, stderr)
	}
}

// TestPELockHolds: what was locked cannot be changed afterwards.
func TestPELockHolds(t *testing.T) {
	dir := peFiles(t)
	out := mustCall(t, dir, peRun("lock", "--out", "$DIR/a", "--attacks", "exact")...)
	if !strings.Contains(out, "μ_eff·σ") || strings.Count(out, "\n") != 3 {
		t.Errorf("%s", out)
	}
	bank := readFile(t, dir, "bank.csv")
	writeFile(t, filepath.Join(dir, "bank.csv"), strings.Replace(bank, "0,", "0,other words ", 1))
	code, _, stderr := call(t, dir, "pe", "run", "--resume", "--out", "$DIR/a", "--quiet")
	if code != exitUsage || !strings.Contains(stderr, "bank") || !strings.Contains(stderr, "lock.json") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestPEEmbeddings: files of embeddings, of which a number is wrong.
func TestPEEmbeddings(t *testing.T) {
	dir := peFiles(t)
	r := rand.New(rand.NewPCG(2, 1))
	npy := func(name string, rows int, bad bool) {
		x := make([]float32, rows*8)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		if bad {
			x[5*8+3] = float32(math.Inf(1))
		}
		var b bytes.Buffer
		if err := npz.WriteNpy(&b, npz.Array{Shape: []int{rows, 8}, Data: x}); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), b.String())
	}
	npy("users.npy", 240, false)
	npy("bank.npy", 150, false)
	npy("bad.npy", 240, true)
	npy("short.npy", 239, false)
	with := func(users string, more ...string) []string {
		return peRun("run", append([]string{"--out", "$DIR/x", "--user-embeddings", "$DIR/" + users, "--bank-embeddings", "$DIR/bank.npy"}, more...)...)
	}
	for want, args := range map[string][]string{
		"row 5, column 3 is +Inf":           with("bad.npy", "--attacks", "exact"),
		"239 rows, expected":                with("short.npy", "--attacks", "exact"),
		"paraphrases and nonces have to be": with("users.npy"),
		"go together":                       peRun("run", "--out", "$DIR/x", "--user-embeddings", "$DIR/users.npy"),
		"--users and --bank are needed":     {"pe", "run", "--out", "$DIR/x"},
		"--out is missing":                  peRun("run"),
		"there are 40":                      peRun("run", "--out", "$DIR/x", "--test", "500"),
		`attack "nonces"`:                   peRun("run", "--out", "$DIR/x", "--attacks", "nonces"),
		"--k is 0":                          peRun("run", "--out", "$DIR/x", "--k", "0"),
		"--llm and --model":                 peRun("run", "--out", "$DIR/x", "--llm", "http://x"),
		"noise multiplier":                  peRun("run", "--out", "$DIR/x", "--noise-multiplier", "NaN"),
		"no user has":                       peRun("run", "--out", "$DIR/x", "--min-records", "7"),
		"--gate is NaN":                     peRun("run", "--out", "$DIR/x", "--gate", "NaN"),
		"--shard is \"3/2\"":                peRun("run", "--out", "$DIR/x", "--shard", "3/2"),
		"no column":                         peRun("run", "--out", "$DIR/x", "--user-column", "who"),
		"holds no run":                      {"pe", "run", "--resume", "--out", "$DIR/x"},
		"expected 200":                      peRun("run", "--out", "$DIR/x", "--bank-size", "200"),
	} {
		code, _, stderr := call(t, dir, args...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", want, code, stderr)
		}
	}
	out := mustCall(t, dir, with("users.npy", "--attacks", "ordinary,exact", "--trials", "10000")...)
	if !strings.Contains(out, "exact") {
		t.Error(out)
	}
	if stdout := mustCall(t, dir, peRun("run", "--dry-run")...); !strings.Contains(stdout, "40 with at least 6 records") {
		t.Error(stdout)
	}
}

// TestPEKeepsAnswers: what a language model has answered is kept when it fails, and
// asked for once; the run goes on. Journals that are not there are not made.
func TestPEKeepsAnswers(t *testing.T) {
	dir := peFiles(t)
	asked, limit := 0, 15
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked == limit {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked++
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"answer %d, slow food"}}]}`, asked)
	}))
	defer server.Close()
	code, _, stderr := call(t, dir, peRun("lock", "--attacks", "paraphrase", "--llm", server.URL, "--model", "m", "--out", "$DIR/a")...)
	if code != exitRun || !strings.Contains(stderr, "401") || !strings.Contains(stderr, "pe lock --resume --out $DIR/a goes on") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	limit = -1
	mustCall(t, dir, "pe", "lock", "--resume", "--out", "$DIR/a", "--quiet")
	if asked != 40 { // 2 pools of 20
		t.Errorf("%d questions, expected 40", asked)
	}
	code, _, stderr = call(t, dir, "pe", "run", "--resume", "--out", "$DIR/a", "--quiet", "--add", "$DIR/none/journal.jsonl")
	if code != exitUsage || !strings.Contains(stderr, "none/journal.jsonl") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a journal was made where none was")
	}
}
