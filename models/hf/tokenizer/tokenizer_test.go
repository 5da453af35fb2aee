package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a tokenizer of few words, which the tests change.
const small = `{"version":"1.0","truncation":null,"added_tokens":[{"id":1,"content":"[X]"},{"id":7,"content":"new"}],
"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Whitespace"},
"post_processor":{"type":"BertProcessing","sep":["[X]",1],"cls":["a",2]},
"model":{"type":"WordPiece","unk_token":"[U]","continuing_subword_prefix":"##","max_input_chars_per_word":10,
"vocab":{"[U]":0,"[X]":1,"a":2,"b":3,"##b":4,"ab":5,"##":6}}}`

const smallBPE = `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abb":3},"merges":["a b","ab b"]}}`

func TestSmall(t *testing.T) {
	t.Parallel()
	tok, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if tok.Len() != 8 || tok.Special() != 2 {
		t.Errorf("%d tokens, %d special", tok.Len(), tok.Special())
	}
	if id, ok := tok.ID("new"); id != 7 || !ok {
		t.Errorf("new is %d, %v", id, ok)
	}
	if id, ok := tok.ID("old"); ok {
		t.Errorf("old is %d", id)
	}
	for _, c := range []struct {
		text  string
		limit int
		want  []int32
	}{
		{"", 0, []int32{2, 1}},
		{"A ab abb", 0, []int32{2, 2, 5, 5, 4, 1}},
		{"ba x new[X]b", 0, []int32{2, 0, 0, 7, 1, 3, 1}},
		{"a a a a", 4, []int32{2, 2, 2, 1}},
		{"abbb", 3, []int32{2, 5, 1}},
		{"a", 2, []int32{2, 1}},
	} {
		if got := encode(t, tok, c.text, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, expected %v", c.text, got, c.want)
		}
	}
	for text, limit := range map[string]int{"a": 1, "b": -1} {
		if _, err := tok.Encode(text, limit); err == nil || !strings.Contains(err.Error(), "expected at least the 2 special ones") {
			t.Errorf("at most %d tokens: %v", limit, err)
		}
	}
	if _, err := tok.Encode("ab\xffc", 0); err == nil || !strings.Contains(err.Error(), "not valid UTF-8 at byte 2") {
		t.Errorf("invalid UTF-8: %v", err)
	}
	if got := encode(t, tok, "\ufffd", 0); !slices.Equal(got, []int32{2, 0, 1}) {
		t.Errorf("U+FFFD itself: %v", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, from, to, want string }{
		{small, `"WordPiece"`, `"Unigram"`, `model of type "Unigram" is not supported, expected WordPiece or BPE`},
		{small, `"WordPiece"`, `"WordLevel"`, `model of type "WordLevel"`},
		{small, `"1.0"`, `"2.0"`, `version "2.0"`},
		{small, `"Lowercase"`, `"Precompiled"`, `normalizer of type "Precompiled" is not supported`},
		{small, `"Lowercase"`, `"BertNormalizer"`, "lacks clean_text"},
		{small, `"Lowercase"`, `"Strip"`, "lacks strip_left"},
		{small, `"Lowercase"`, `"Prepend"`, "lacks prepend"},
		{small, `"Lowercase"`, `"Replace","content":""`, "pattern is missing"},
		{small, `"Lowercase"`, `"Replace","pattern":{"String":"a"}`, "lacks content"},
		{small, `"Lowercase"`, `"Sequence","normalizers":[null]`, "normalizer 0 of a Sequence is null"},
		{small, `"Lowercase"`, `"Sequence","normalizers":[{"type":"NFC"},{"type":"Odd"}]`, `"Odd" is not supported`},
		{small, `{"type":"Lowercase"}`, `{}`, `normalizer of type ""`},
		{small, `"Whitespace"`, `"Metaspace"`, `pre_tokenizer of type "Metaspace" is not supported`},
		{small, `"Whitespace"`, `"Sequence","pretokenizers":[null]`, "pre_tokenizer 0 of a Sequence is null"},
		{small, `"Whitespace"`, `"Sequence","pretokenizers":[{"type":"UnicodeScripts"}]`, `"UnicodeScripts" is not supported`},
		{small, `"Whitespace"`, `"ByteLevel"`, "lacks add_prefix_space"},
		{small, `"Whitespace"`, `"Digits"`, "lacks individual_digits"},
		{small, `"Whitespace"`, `"Punctuation","behavior":"Odd"`, `behavior "Odd"`},
		{small, `"Whitespace"`, `"FixedLength","length":0`, "has length 0"},
		{small, `"Whitespace"`, `"CharDelimiterSplit","delimiter":"ab"`, "one character"},
		{small, `"Whitespace"`, `"Split"`, "lacks behavior"},
		{small, `"Whitespace"`, `"Split","behavior":"Isolated","invert":false`, "pattern is missing"},
		{small, `"Whitespace"`, `"Split","behavior":"Isolated","invert":false,"pattern":{"String":""}`, "pattern is missing or empty"},
		{small, `"Whitespace"`, `"Split","behavior":"Odd","invert":false,"pattern":{"Regex":"a"}`, `behavior "Odd"`},
		{small, `"Whitespace"`, `"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":"\\w+"}`, `\w is not supported`},
		{small, `"BertProcessing"`, `"Odd"`, `post_processor of type "Odd"`},
		{small, `"cls"`, `"class"`, "lacks sep or cls"},
		{small, `["[X]",1]`, `["[X]"]`, "is no token and id"},
		{small, `["[X]",1]`, `["[X]",-1]`, "id -1"},
		{small, `"BertProcessing"`, `"TemplateProcessing"`, "expected the sequence A in single, once"},
		{small, `"BertProcessing"`, `"TemplateProcessing","single":[{"Sequence":{"id":"B"}}]`, "neither the sequence A"},
		{small, `"BertProcessing"`, `"TemplateProcessing","single":[{"SpecialToken":{"id":"q"}}]`, `special_tokens lacks "q"`},
		{small, `"BertProcessing"`, `"Sequence","processors":[null]`, "post_processor 0"},
		{small, `"truncation":null`, `"truncation":{"max_length":1,"strategy":"LongestFirst"}`, "at least 1 and of the 2 special"},
		{small, `"truncation":null`, `"truncation":{"max_length":9,"strategy":"OnlySecond"}`, `strategy "OnlySecond"`},
		{small, `"truncation":null`, `"truncation":{"max_length":9,"strategy":"OnlyFirst","direction":"Up"}`, `direction "Up"`},
		{small, `"id":7`, `"id":9`, `added token "new" has id 9, and 7 by`},
		{small, `"id":1,"content":"[X]"`, `"id":2,"content":"[X]"`, `added token "[X]" has id 2, and 1 by`},
		{small, `"content":"new"`, `"content":""`, "added token 1 has no content"},
		{small, `{"id":7,`, `{"id":2147483647,`, "no id from 0 to"},
		{small, `{"id":7,"content":"new"}`, `{"id":7,"content":"N","normalized":true},{"id":8,"content":"n","normalized":true}`, `added tokens "N" and "n" are both "n"`},
		{small, `"unk_token":"[U]",`, ``, "lacks unk_token"},
		{small, `"unk_token":"[U]"`, `"unk_token":"[Q]"`, `unk_token "[Q]" is not in the vocabulary`},
		{small, `"max_input_chars_per_word":10`, `"max_input_chars_per_word":-1`, "max_input_chars_per_word is -1"},
		{small, `"a":2`, `"a":-2`, `"a" has id -2`},
		{small, `"a":2`, `"a":2147483648`, `"a" has id 2147483648`},
		{small, `"a":2`, `"a":2.5`, "cannot unmarshal"},
		{small, `"##":6}}}`, `"##":6}}`, "unexpected end"},
		{small, `"a":2`, "\"\xff\":2", "not valid UTF-8"},
		{smallBPE, `"ab b"`, `"ab c"`, `merge 1 is of "ab" and "c"`},
		{smallBPE, `"ab b"`, `"b b"`, `merge 1 makes "bb"`},
		{smallBPE, `"ab b"`, `"ab  b"`, "expected two tokens with a space"},
		{smallBPE, `["a b","ab b"]`, `[["a"]]`, "merge 0 is of 1 tokens"},
		{smallBPE, `["a b","ab b"]`, `[["a","b"],"ab b"]`, "cannot unmarshal"},
		{smallBPE, `"merges":["a b","ab b"]`, `"x":0`, "lacks merges"},
		{smallBPE, `"vocab":{"a":0,"b":1,"ab":2,"abb":3}`, `"vocab":{}`, "vocab is missing or empty"},
		{smallBPE, `"type":"BPE"`, `"dropout":0.1`, "dropout 0.1"},
		{smallBPE, `"type":"BPE"`, `"unk_token":"q"`, `unk_token "q" is not in the vocabulary`},
		{smallBPE, `"type":"BPE"`, `"continuing_subword_prefix":"long"`, "shorter than the prefix"},
		{smallBPE, `"model"`, `"modell"`, "model is missing"},
	} {
		changed := strings.Replace(c.base, c.from, c.to, 1)
		if changed == c.base {
			t.Errorf("there is no %s", c.from)
		}
		if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.to, err, c.want)
		}
	}
	for _, base := range []string{small, smallBPE} {
		if _, err := Parse([]byte(base)); err != nil {
			t.Errorf("unchanged: %v", err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"model":{"type":"Unigram"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), path+": tokenizer: model of type") {
		t.Errorf("not supported: %v", err)
	}
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err != nil {
		t.Error(err)
	}
}

// TestMerges: merges by rank, both forms of them, unknown letters, and models without a type.
func TestMerges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, text, want string }{
		{``, ``, "aabbab", "[0 3 2]"},
		{`["a b","ab b"]`, `[["a","b"],["ab","b"]]`, "aabbab", "[0 3 2]"},
		{`["a b","ab b"]`, `["#version: 0.2","a b"]`, "abb", "[2 1]"},
		{`["a b","ab b"]`, `[]`, "abb", "[0 1 1]"},
		{`"type":"BPE",`, ``, "abb", "[3]"},
		{``, ``, "axb", "[2]"}, // the unknown letter is left out before the merges
		{`"type"`, `"unk_token":"b","type"`, "xxa", "[1 1 0]"},
		{`"type"`, `"unk_token":"b","fuse_unk":true,"type"`, "xxa", "[1 0]"},
		{`"type"`, `"unk_token":null,"ignore_merges":true,"type"`, "abb", "[3]"},
	} {
		tok, err := Parse([]byte(strings.Replace(smallBPE, c.from, c.to, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.to, err)
			continue
		}
		if got, _ := json.Marshal(encode(t, tok, c.text, 0)); strings.ReplaceAll(string(got), ",", " ") != c.want {
			t.Errorf("%s: %q is %s, expected %s", c.to, c.text, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small), "A ab[X]new")
	f.Add([]byte(smallBPE), "abb")
	f.Add([]byte(strings.Replace(small, `"Whitespace"`, `"Split","behavior":"MergedWithNext","invert":true,"pattern":{"Regex":"(?i:'s|x)|[^\\s\\p{L}]+|\\s+(?!\\S)"}`, 1)), "it's a 'S")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := Parse(data); err == nil {
			checkEncode(t, tok, text, 5)
		}
	})
}

func FuzzEncode(f *testing.F) {
	var all []*Tokenizer
	data := files(f)
	for _, name := range []string{"bert", "cased", "pieces", "roberta", "o200k", "splits", "clip", "fallback"} {
		tok, err := Parse(data[name])
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, tok)
	}
	texts, _ := readExpected(f)
	for i, text := range texts[:120] {
		f.Add(text, i%20)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		for _, tok := range all {
			checkEncode(t, tok, text, limit)
		}
	})
}

// checkEncode: ids are of the vocabulary, limits hold, and a limit only takes away.
func checkEncode(t *testing.T, tok *Tokenizer, text string, limit int) {
	whole, err := tok.Encode(text, 1<<30)
	if err != nil {
		return
	}
	for _, id := range whole {
		if id < 0 || int(id) >= tok.Len() {
			t.Fatalf("%q: id %d of %d", text, id, tok.Len())
		}
	}
	again, err := tok.Encode(text, 1<<30)
	if err != nil || !slices.Equal(whole, again) {
		t.Fatalf("%q: %v, and then %v, %v", text, whole, again, err)
	}
	if limit < max(tok.Special(), 1) {
		return
	}
	cut, err := tok.Encode(text, limit)
	if err != nil || len(cut) != min(limit, len(whole)) {
		t.Fatalf("%q: %d of %d tokens with at most %d, %v", text, len(cut), len(whole), limit, err)
	}
	before, behind := len(tok.post.before), len(tok.post.behind)
	body, rest := cut[before:len(cut)-behind], whole[before:len(whole)-behind]
	if tok.left {
		rest = rest[len(rest)-len(body):]
	}
	if !slices.Equal(body, rest[:len(body)]) {
		t.Fatalf("%q: %v with at most %d of %v", text, cut, limit, whole)
	}
}
