package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/npz"
)

func readRows(t *testing.T, path string) ([]int, []float32) {
	t.Helper()
	a, err := npz.ReadNpyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := npz.Of[float32](a)
	if err != nil {
		t.Fatal(err)
	}
	return a.Shape, x
}

// The same texts from each kind of file give the same bytes, which are those of
// records.NGrams, on any number of threads; and it says that no encoder was used.
func TestEmbedNGrams(t *testing.T) {
	dir := t.TempDir()
	texts := []string{"Hello, world", "", "a \"quoted\" text"}
	writeFile(t, filepath.Join(dir, "a.txt"), "Hello, world\n\na \"quoted\" text\n")
	writeFile(t, filepath.Join(dir, "a.csv"), "id,review\n1,\"Hello, world\"\n2,\n3,\"a \"\"quoted\"\" text\"\n")
	writeFile(t, filepath.Join(dir, "a.jsonl"), `{"review":"Hello, world"}`+"\n"+`{"review":""}`+"\n"+`{"x":1,"review":"a \"quoted\" text"}`+"\n")
	var first []byte
	for _, args := range [][]string{{"a.txt", "--threads", "1"}, {"a.csv", "--threads", "2"}, {"a.jsonl", "--threads", "5"}} {
		code, stdout, stderr := call(t, dir, append([]string{"embed", "--text-column", "review", "--quiet", "--out", "$DIR/x.npy", "--in", "$DIR/" + args[0]}, args[1:]...)...)
		if code != exitDone || !strings.Contains(stdout, "3 rows of 384 numbers") || !strings.Contains(stderr, "no neural encoder") {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "x.npy"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = raw
		}
		if !bytes.Equal(raw, first) {
			t.Errorf("%v: other bytes", args)
		}
	}
	shape, got := readRows(t, filepath.Join(dir, "x.npy"))
	want := records.DefaultNGrams().Embed(texts)
	if len(shape) != 2 || shape[0] != 3 || shape[1] != 384 || string(f32bytes(got)) != string(f32bytes(want.X)) {
		t.Errorf("shape %v", shape)
	}
	var about embedding
	if err := json.Unmarshal([]byte(readFile(t, dir, "x.npy.json")), &about); err != nil {
		t.Fatal(err)
	}
	if about.Neural || about.Encoder != records.NGramsName || about.Rows != 3 || about.Weights != "" {
		t.Errorf("%+v", about)
	}
}

func f32bytes(x []float32) []byte {
	var b bytes.Buffer
	if err := npz.WriteElements(&b, x); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const smallBERT = "../../models/hf/testdata/bert"

// Token ids go through an encoder; vectors have length 1, as the folder asks, and
// the same bytes on any number of threads.
func TestEmbedTokens(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "ids.txt"), "2 7 9 3\n5\n2 2 2 2 2 2 2 11 40 47\n")
	var first []byte
	for _, threads := range []string{"1", "2"} {
		mustCall(t, dir, "embed", "--in", "$DIR/ids.txt", "--token-ids", "--encoder", smallBERT, "--out", "$DIR/x.npy", "--quiet", "--threads", threads)
		raw, err := os.ReadFile(filepath.Join(dir, "x.npy"))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(raw, first) {
			t.Error("another number of threads, other bytes")
		}
		first = raw
	}
	shape, x := readRows(t, filepath.Join(dir, "x.npy"))
	if len(shape) != 2 || shape[0] != 3 || shape[1] != 24 {
		t.Fatalf("shape %v", shape)
	}
	for r := range 3 {
		square := 0.0
		for _, v := range x[r*24 : (r+1)*24] {
			square += float64(v) * float64(v)
		}
		if !(math.Abs(square-1) < 1e-5) {
			t.Errorf("row %d: squared length %v", r, square)
		}
	}
	var about embedding
	if err := json.Unmarshal([]byte(readFile(t, dir, "x.npy.json")), &about); err != nil {
		t.Fatal(err)
	}
	if !about.Neural || about.Encoder != "bert (bert)" || len(about.Weights) != 64 || about.Pooling != "mean" || !about.Normalised || about.MaxTokens != 20 {
		t.Errorf("%+v", about)
	}
}

// With real weights, where they are: texts of like meaning are near each other.
func TestEmbedMiniLM(t *testing.T) {
	encoder := "../../data/minilm"
	if _, err := os.Stat(encoder + "/model.safetensors"); err != nil {
		t.Skipf("NOT TESTED with real weights: %v; make data-minilm fetches them", err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.txt"), "The medicine cured my headache.\nThis drug got rid of my migraine.\nThe train to Paris is late.\n")
	mustCall(t, dir, "embed", "--in", "$DIR/a.txt", "--encoder", encoder, "--out", "$DIR/x.npy", "--quiet")
	_, x := readRows(t, filepath.Join(dir, "x.npy"))
	dot := func(a, b int) (s float64) {
		for j := range 384 {
			s += float64(x[a*384+j]) * float64(x[b*384+j])
		}
		return s
	}
	if len(x) != 3*384 || !(dot(0, 1) > 0.6) || !(dot(0, 2) < 0.2) {
		t.Errorf("cosines %v and %v", dot(0, 1), dot(0, 2))
	}
	writeFile(t, filepath.Join(dir, "bad.txt"), "fine\n\xff\n")
	code, _, stderr := call(t, dir, "embed", "--in", "$DIR/bad.txt", "--encoder", encoder, "--out", "$DIR/y.npy", "--quiet")
	if code != exitUsage || !strings.Contains(stderr, "bad.txt: line 2: the text is not valid UTF-8") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func TestEmbedRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "1 2\n3 48\n", "bad.txt": "1\nx\n", "empty.txt": "", "a.csv": "x,y\n1,2\n", "half.csv": "text\n\"a\n",
		"a.jsonl": "{\"text\":\"a\"}\n{\"text\":5}\n", "b.jsonl": "{\"text\":\"a\"}\n[]\n", "a.xls": "a\n"} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	for _, c := range []struct{ args, want string }{
		{"--out $DIR/x.npy", "--in is missing"},
		{"--in $DIR/a.txt", `--out is ""`},
		{"--in $DIR/a.txt --out $DIR/x.bin", `--out is "$DIR/x.bin"`},
		{"--in $DIR/none.txt --out $DIR/x.npy", "none.txt"},
		{"--in $DIR/empty.txt --out $DIR/x.npy", "empty.txt: no records"},
		{"--in $DIR/a.xls --out $DIR/x.npy", `a.xls: expected a name that ends in`},
		{"--in $DIR/a.csv --out $DIR/x.npy", `a.csv has no column of texts`},
		{"--in $DIR/half.csv --out $DIR/x.npy", "half.csv: parse error on line 2"},
		{"--in $DIR/a.jsonl --out $DIR/x.npy", `a.jsonl: line 2: column "text" is 5, expected a string`},
		{"--in $DIR/a.jsonl --out $DIR/x.npy --text-column body", `a.jsonl: line 1: no column "body"`},
		{"--in $DIR/b.jsonl --out $DIR/x.npy", "b.jsonl: line 2: "},
		{"--in $DIR/a.txt --out $DIR/x.npy --token-ids", "--token-ids goes with --encoder"},
		{"--in $DIR/a.txt --out $DIR/x.npy --threads -1", "--threads is -1"},
		{"--in $DIR/a.txt --out $DIR/x.npy --encoder $DIR --token-ids", "config.json is missing"},
		{"--in $DIR/a.txt --out $DIR/x.npy --token-ids --encoder " + smallBERT, `a.txt: text 2: "48", expected a token id below 48`},
		{"--in $DIR/a.txt --out $DIR/x.npy --encoder " + smallBERT, "tokenizer.json"},
		{"--in $DIR/bad.txt --out $DIR/x.npy --token-ids --encoder " + smallBERT, `bad.txt: text 2: "x", expected a token id`},
	} {
		code, _, stderr := call(t, dir, append([]string{"embed"}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("embed %s: exit %d, want %d and %q, got %s", c.args, code, exitUsage, c.want, stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "x.npy")); err == nil {
			t.Fatalf("embed %s: wrote a file", c.args)
		}
	}
}
