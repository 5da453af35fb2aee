package hf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// From texts to vectors: the tokens are those of sentence-transformers, and so are the
// vectors.
func TestMiniLMTexts(t *testing.T) {
	e, err := OpenText(minilm(t), openCPU(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	texts, want, vectors := miniLMOracle(t)
	ids, err := e.Tokens(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if !slices.Equal(ids[i], want[i]) {
			t.Errorf("text %d, %.60q: tokens %v, expected %v", i, texts[i], ids[i], want[i])
		}
	}
	got, err := e.EmbedTexts(context.Background(), texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	least, row, err := leastCosine(got, vectors)
	if err != nil || !(least >= 0.99999) {
		t.Errorf("text %d, %.40q: cosine %v, %v", row, texts[row], least, err)
	}
}

// smallTokenizer is a tokenizer.json with the given words, after [UNK].
func smallTokenizer(words ...string) string {
	var list strings.Builder
	for i, w := range words {
		fmt.Fprintf(&list, `,%q:%d`, w, i+1)
	}
	return `{"version":"1.0","added_tokens":[],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,` +
		`"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,"decoder":null,` +
		`"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0` +
		list.String() + `}}}`
}

// Texts reach the encoder as the tokens they have, cut at the folder's 20.
func TestEmbedTexts(t *testing.T) {
	dir := folder(t, "bert", "tokenizer.json", "", smallTokenizer("a", "b", "##c"))
	e, err := OpenText(dir, openCPU(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	texts := slices.Repeat([]string{"A bc b", "zz a", strings.Repeat("a ", 30)}, 50)
	ids, err := e.Tokens(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int32{{1, 2, 3, 2}, {0, 1}, slices.Repeat([]int32{1}, 20)} {
		if !slices.Equal(ids[i], want) || !slices.Equal(ids[i+147], want) {
			t.Errorf("%q: tokens %v and %v, expected %v", texts[i], ids[i], ids[i+147], want)
		}
	}
	got, err := e.EmbedTexts(t.Context(), texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Embed(t.Context(), ids, e.Folder.Pooling, true, nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("texts and their tokens have different vectors, %v", err)
	}
	if _, err := e.Tokens([]string{"a", "\xff"}); err == nil || !strings.Contains(err.Error(), "text 1: ") {
		t.Errorf("a text that is no UTF-8: %v", err)
	}
}

func TestOpenTextRefuses(t *testing.T) {
	dir := folder(t, "bert", "modules.json", "Pooling", "Pooling")
	if _, err := OpenText(dir, reference(t)); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("without a tokenizer: %v", err)
	}
	words := make([]string, 48) // with [UNK] one more than the model has
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(smallTokenizer(words...)), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenText(dir, reference(t)); err == nil || !strings.Contains(err.Error(), "token ids up to 48, expected less than the 48") {
		t.Errorf("too many tokens: %v", err)
	}
}
