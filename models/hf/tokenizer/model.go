package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxID bounds ids, so that they and one more fit into 32 bits.
const maxID = 1<<31 - 2

// model turns a word into tokens.
type model interface {
	tokens() map[string]int32
	word(w *worker, s string, ids []int32) []int32
}

// modelJSON is any model of the file.
type modelJSON struct {
	Type    string           `json:"type"`
	Vocab   map[string]int64 `json:"vocab"`
	Unknown *string          `json:"unk_token"`
	Prefix  *string          `json:"continuing_subword_prefix"`
	// WordPiece
	MostChars *int `json:"max_input_chars_per_word"`
	// BPE
	Merges       json.RawMessage `json:"merges"`
	Suffix       *string         `json:"end_of_word_suffix"`
	Dropout      *float64        `json:"dropout"`
	Fuse         bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
}

// readModel knows models of old files, which have no type, by their fields.
func readModel(raw json.RawMessage) (model, error) {
	var kind struct {
		Type      string          `json:"type"`
		Merges    json.RawMessage `json:"merges"`
		MostChars json.RawMessage `json:"max_input_chars_per_word"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	switch {
	case kind.Type == "BPE", kind.Type == "WordPiece":
	case kind.Type == "" && kind.Merges != nil:
		kind.Type = "BPE"
	case kind.Type == "" && kind.MostChars != nil:
		kind.Type = "WordPiece"
	default:
		return nil, fmt.Errorf("model of type %q is not supported, expected WordPiece or BPE", kind.Type)
	}
	var j modelJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("model %s: %w", kind.Type, err)
	}
	if kind.Type == "BPE" {
		return j.bpe()
	}
	return j.wordPiece()
}

func (j *modelJSON) vocabulary() (map[string]int32, error) {
	if len(j.Vocab) == 0 {
		return nil, errors.New("model: vocab is missing or empty")
	}
	out := make(map[string]int32, len(j.Vocab))
	for token, id := range j.Vocab {
		if id < 0 || id >= maxID {
			return nil, fmt.Errorf("model: vocab: %q has id %d, expected 0 to %d", token, id, maxID-1)
		}
		out[token] = int32(id)
	}
	return out, nil
}
