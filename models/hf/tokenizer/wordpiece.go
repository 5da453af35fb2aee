package tokenizer

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// wordPiece takes the longest beginning of a word that the vocabulary has, then the
// longest of the rest with a prefix before it, and so on (Wu et al. 2016).
type wordPiece struct {
	vocabulary map[string]int32
	prefix     string
	unknown    int32
	most       int // longer words, in code points, are unknown
}

func (j *modelJSON) wordPiece() (*wordPiece, error) {
	if j.Unknown == nil || j.Prefix == nil || j.MostChars == nil {
		return nil, errors.New("model WordPiece lacks unk_token, continuing_subword_prefix or max_input_chars_per_word")
	}
	if *j.MostChars < 0 {
		return nil, fmt.Errorf("model WordPiece: max_input_chars_per_word is %d, expected at least 0", *j.MostChars)
	}
	vocabulary, err := j.vocabulary()
	if err != nil {
		return nil, err
	}
	unknown, ok := vocabulary[*j.Unknown]
	if !ok {
		return nil, fmt.Errorf("model WordPiece: unk_token %q is not in the vocabulary", *j.Unknown)
	}
	return &wordPiece{vocabulary, *j.Prefix, unknown, *j.MostChars}, nil
}

func (m *wordPiece) tokens() map[string]int32 { return m.vocabulary }

func (m *wordPiece) word(w *worker, s string, ids []int32) []int32 {
	if utf8.RuneCountInString(s) > m.most {
		return append(ids, m.unknown)
	}
	before := len(ids)
	piece := w.bytes
	for from := 0; from < len(s); {
		piece = piece[:0]
		if from > 0 {
			piece = append(piece, m.prefix...)
		}
		first := len(piece)
		piece = append(piece, s[from:]...)
		id, ok := m.vocabulary[string(piece)]
		for !ok {
			_, n := utf8.DecodeLastRune(piece)
			if piece = piece[:len(piece)-n]; len(piece) == first {
				w.bytes = piece
				return append(ids[:before], m.unknown)
			}
			id, ok = m.vocabulary[string(piece)]
		}
		ids = append(ids, id)
		from += len(piece) - first
	}
	w.bytes = piece
	return ids
}
