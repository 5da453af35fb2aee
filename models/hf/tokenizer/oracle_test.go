package tokenizer

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
)

// expected is what the reference makes of hard texts: ids, or sums of them where that is enough.
type expected struct {
	IDs    [][]int32 // of each text, with no limit
	Sums   []uint32
	Cut    uint32 // of all texts, at most 9 tokens
	File   uint32 // of all texts, with the file's limit
	Tokens int
}

// oracle is all of expected.json.gz.
type oracle struct {
	Texts    []string
	Want     map[string]expected
	Patterns map[string]uint32 // by pattern: the sum of the pieces of all texts
}

func readExpected(t testing.TB) (texts []string, want map[string]expected) {
	t.Helper()
	var all oracle
	readJSON(t, "expected.json.gz", &all)
	if len(all.Texts) < 345 || len(all.Want) != 12 {
		t.Fatalf("%d texts and %d tokenizers", len(all.Texts), len(all.Want))
	}
	return all.Texts, all.Want
}

// files are the tokenizers of tokenizers.json.gz, where equal models are kept once.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	var all struct {
		Tokenizers map[string]map[string]json.RawMessage
		Shared     map[string]json.RawMessage
	}
	readJSON(t, "tokenizers.json.gz", &all)
	out := map[string][]byte{}
	for name, file := range all.Tokenizers {
		var model map[string]json.RawMessage
		if err := json.Unmarshal(file["model"], &model); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"vocab", "merges"} {
			var key string
			if json.Unmarshal(model[part], &key) == nil && key != "" {
				model[part] = all.Shared[key]
			}
		}
		file["model"] = marshal(t, model)
		out[name] = marshal(t, file)
	}
	if len(out) != 11 {
		t.Fatalf("%d tokenizers", len(out))
	}
	return out
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sum(ids []int32) uint32 {
	return crc32.ChecksumIEEE([]byte(strings.Trim(fmt.Sprint(ids), "[]")))
}

func encode(t testing.TB, tok *Tokenizer, text string, limit int) []int32 {
	t.Helper()
	ids, err := tok.Encode(text, limit)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	return ids
}

// misses are the texts that a tokenizer makes other ids of.
func misses(t testing.TB, tok *Tokenizer, texts []string, want expected) (bad []int) {
	t.Helper()
	compared, tokens := 0, 0
	for i, text := range texts {
		got := encode(t, tok, text, 1<<30)
		tokens += len(got)
		ok := false
		if want.IDs != nil {
			ok = slices.Equal(got, want.IDs[i])
		} else {
			ok = sum(got) == want.Sums[i]
		}
		compared++
		if !ok {
			bad = append(bad, i)
		}
	}
	if compared < 345 || len(bad) == 0 && tokens != want.Tokens {
		t.Fatalf("%d texts, %d tokens, expected %d", compared, tokens, want.Tokens)
	}
	return bad
}

// allCut is the sum of all texts' ids under a limit.
func allCut(t testing.TB, tok *Tokenizer, texts []string, limit int) uint32 {
	var all []int32
	for _, text := range texts {
		ids := encode(t, tok, text, limit)
		all = append(append(all, ids...), -1)
	}
	return sum(all)
}

func check(t *testing.T, tok *Tokenizer, texts []string, want expected) {
	t.Helper()
	bad := misses(t, tok, texts, want)
	t.Logf("%d of %d texts", len(texts)-len(bad), len(texts))
	for _, i := range bad[:min(len(bad), 8)] {
		got := encode(t, tok, texts[i], 1<<30)
		if want.IDs != nil {
			t.Errorf("text %d, %+.120q:\n%v, expected\n%v", i, texts[i], got, want.IDs[i])
		} else {
			t.Errorf("text %d, %+.120q: %v", i, texts[i], got)
		}
	}
	if allCut(t, tok, texts, 9) != want.Cut {
		t.Error("other ids with at most 9 tokens")
	}
	if allCut(t, tok, texts, 0) != want.File {
		t.Error("other ids with the file's own limit")
	}
}

func TestAgainstReference(t *testing.T) {
	texts, want := readExpected(t)
	for name, data := range files(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			check(t, tok, texts, want[name])
		})
	}
}

func miniLM(t testing.TB) *Tokenizer {
	t.Helper()
	path := filepath.Join("..", "..", "..", "data", "minilm", "tokenizer.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("NOT TESTED on all-MiniLM-L6-v2: %v; make data-minilm fetches it", err)
	}
	tok, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestMiniLM(t *testing.T) {
	tok := miniLM(t)
	if tok.Len() != 30522 || tok.Special() != 2 {
		t.Errorf("%d tokens, %d special", tok.Len(), tok.Special())
	}
	texts, want := readExpected(t)
	check(t, tok, texts, want["minilm"])
}

// TestPlantedFaults changes one thing in a file at a time; the texts must tell.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	texts, want := readExpected(t)
	all := files(t)
	for _, c := range []struct{ name, from, to string }{
		{"bert", `"strip_accents":null`, `"strip_accents":false`},
		{"bert", `"clean_text":true`, `"clean_text":false`},
		{"bert", `"handle_chinese_chars":true`, `"handle_chinese_chars":false`},
		{"bert", `"max_input_chars_per_word":100`, `"max_input_chars_per_word":101`},
		{"roberta", `"lstrip":true`, `"lstrip":false`},
		{"cased", `"single_word":true`, `"single_word":false`},
		{"pieces", `"StripAccents"`, `"NFC"`},
		{"roberta", `"add_prefix_space":true`, `"add_prefix_space":false`},
		{"llama3", `"ignore_merges":true`, `"ignore_merges":false`},
		{"llama3", `(?i:`, `(?:`},
		{"o200k", `"type":"NFC"`, `"type":"NFD"`},
		{"splits", `"MergedWithNext"`, `"MergedWithPrevious"`},
		{"clip", `"fuse_unk":true`, `"fuse_unk":false`},
		{"fallback", `"byte_fallback":true`, `"byte_fallback":false`},
	} {
		changed := strings.ReplaceAll(string(all[c.name]), c.from, c.to)
		if changed == string(all[c.name]) {
			t.Errorf("%s has no %s", c.name, c.from)
			continue
		}
		tok, err := Parse([]byte(changed))
		if err != nil {
			t.Errorf("%s, %s: %v", c.name, c.to, err)
			continue
		}
		if len(misses(t, tok, texts, want[c.name])) == 0 {
			t.Errorf("%s passes with %s", c.name, c.to)
		}
	}
}

// TestManyGoroutines: ids do not depend on who else is at work, nor on what a worker has seen.
func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	texts, want := readExpected(t)
	all := files(t)
	for _, name := range []string{"bert", "llama3"} {
		tok, err := Parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		wrong := make([]int, 8)
		for g := range wrong {
			wait.Go(func() {
				order := make([]int, len(texts))
				for i := range order {
					order[i] = (i*(2*g+1) + g) % len(texts)
				}
				for _, i := range order {
					if ids, err := tok.Encode(texts[i], 1<<30); err != nil || sum(ids) != want[name].Sums[i] {
						wrong[g]++
					}
				}
			})
		}
		wait.Wait()
		if !slices.Equal(wrong, make([]int, 8)) {
			t.Errorf("%s: %v texts differ", name, wrong)
		}
	}
}

func TestLongWords(t *testing.T) {
	t.Parallel()
	names := files(t)
	keys := make([]string, 0, len(names))
	for name := range names {
		keys = append(keys, name)
	}
	sort.Strings(keys)
	for _, name := range keys {
		tok, err := Parse(names[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{strings.Repeat("a", 30_000), strings.Repeat(" ", 30_000), strings.Repeat("\u0301", 20_000),
			strings.Repeat("é!", 20_000), strings.Repeat("Ab1", 10_000)} {
			for _, id := range encode(t, tok, text, 1<<30) {
				if id < 0 || int(id) >= tok.Len() {
					t.Fatalf("%s: id %d of %d", name, id, tok.Len())
				}
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "ARCHITECTURE.md"))
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, tok *Tokenizer) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				encode(b, tok, string(text), 1<<30)
			}
		})
	}
	for _, name := range []string{"gpt2", "roberta", "llama3", "o200k"} {
		tok, err := Parse(files(b)[name])
		if err != nil {
			b.Fatal(err)
		}
		run(name, tok)
	}
	run("minilm", miniLM(b))
}
