package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"unicode/utf8"
)

// Tokenizer turns texts into token ids. It may be used by many goroutines at once.
type Tokenizer struct {
	raw, normalized *addedSet
	normalize       normalizer
	split           splitter
	model           model
	post            post
	limit           int  // the file's own limit of tokens, 0 if it has none
	left            bool // what is too long loses its beginning
	ids             map[string]int32
	size            int
	workers         sync.Pool
}

// file is a tokenizer.json. Its padding is for batches of equal length, and its
// decoder for the way back; neither matters here.
type file struct {
	Version       *string         `json:"version"`
	Truncation    *truncationJSON `json:"truncation"`
	Added         []addedJSON     `json:"added_tokens"`
	Normalizer    *normalizerJSON `json:"normalizer"`
	PreTokenizer  *splitterJSON   `json:"pre_tokenizer"`
	PostProcessor *postJSON       `json:"post_processor"`
	Model         json.RawMessage `json:"model"`
}

// Open reads a tokenizer.json. Errors name the file, and what in it is not supported.
func Open(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads the contents of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func parse(data []byte) (t *Tokenizer, err error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the file is not valid UTF-8")
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != nil && *f.Version != "1.0" {
		return nil, fmt.Errorf("version %q is not supported, expected 1.0", *f.Version)
	}
	if f.Model == nil {
		return nil, errors.New("model is missing")
	}
	t = &Tokenizer{}
	if t.model, err = readModel(f.Model); err != nil {
		return nil, err
	}
	if t.normalize, err = f.Normalizer.build(); err != nil {
		return nil, err
	}
	if t.split, err = f.PreTokenizer.build(); err != nil {
		return nil, err
	}
	if t.post, err = f.PostProcessor.build(); err != nil {
		return nil, err
	}
	if t.limit, t.left, err = f.Truncation.read(t.Special()); err != nil {
		return nil, err
	}
	if t.raw, t.normalized, t.ids, err = readAdded(f.Added, t.model.tokens(), t.normalize); err != nil {
		return nil, err
	}
	for _, ids := range []map[string]int32{t.model.tokens(), t.ids} {
		for _, id := range ids {
			t.size = max(t.size, int(id)+1)
		}
	}
	for _, ids := range [][]int32{t.post.before, t.post.behind} {
		for _, id := range ids {
			t.size = max(t.size, int(id)+1)
		}
	}
	t.workers.New = func() any { return &worker{words: map[string][]int32{}} }
	return t, nil
}

// Len is one more than the largest id, so the number of rows that an embedding needs.
func (t *Tokenizer) Len() int { return t.size }

// ID is the id of a token, if there is such a token.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	if id, ok = t.ids[token]; !ok {
		id, ok = t.model.tokens()[token]
	}
	return id, ok
}

// Special is how many special tokens Encode puts around each text.
func (t *Tokenizer) Special() int { return len(t.post.before) + len(t.post.behind) }

// Encode returns the ids of a text with the special tokens around it, at most maxLen in
// all: of a longer text the end is cut off (or the beginning, if the file says so). If
// maxLen is 0, the file's own limit holds, if it has one. An error says that the text is
// not valid UTF-8, or that maxLen leaves no room for the special tokens.
func (t *Tokenizer) Encode(text string, maxLen int) ([]int32, error) {
	if maxLen == 0 {
		maxLen = t.limit
	} else if maxLen < t.Special() || maxLen < 0 {
		return nil, fmt.Errorf("tokenizer: at most %d tokens, expected at least the %d special ones", maxLen, t.Special())
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("tokenizer: the text is not valid UTF-8 at byte %d", invalidAt(text))
	}
	w := t.workers.Get().(*worker)
	defer t.workers.Put(w)
	w.ids = append(w.ids[:0], t.post.before...)
	stop := 0 // tokens from here on would be cut off, if not 0
	if maxLen > 0 && !t.left {
		stop = maxLen - len(t.post.behind)
	}
	word := func(s string) {
		if stop == 0 || len(w.ids) < stop {
			w.word(t.model, s)
		}
	}
	token := func(id int32) { w.ids = append(w.ids, id) }
	inner := func(piece string) error { return t.split(piece, word) }
	err := t.raw.cut(text, func(piece string) error {
		piece, err := t.normalize(piece)
		if err != nil {
			return err
		}
		return t.normalized.cut(piece, inner, token)
	}, token)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	body := w.ids[len(t.post.before):]
	if room := maxLen - t.Special(); maxLen > 0 && len(body) > room {
		if t.left {
			body = body[len(body)-room:]
		} else {
			body = body[:room]
		}
	}
	out := make([]int32, 0, len(body)+t.Special())
	out = append(out, t.post.before...)
	out = append(out, body...)
	return append(out, t.post.behind...), nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return len(s)
}

// worker is the memory of one Encode, kept for those that follow.
type worker struct {
	ids   []int32
	words map[string][]int32 // tokens of words seen before
	bytes []byte
	chain []link
	heap  []candidate
}

const (
	mostWords   = 1 << 15 // words that a worker remembers
	longestWord = 64      // bytes of a word that it remembers
)

func (w *worker) word(m model, s string) {
	if len(s) > longestWord {
		w.ids = m.word(w, s, w.ids)
		return
	}
	known, ok := w.words[s]
	if !ok {
		before := len(w.ids)
		w.ids = m.word(w, s, w.ids)
		if len(w.words) >= mostWords {
			clear(w.words)
		}
		w.words[string([]byte(s))] = append([]int32(nil), w.ids[before:]...)
		return
	}
	w.ids = append(w.ids, known...)
}
