package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// addedJSON is a token that is cut out of a text before the model sees it.
type addedJSON struct {
	ID         *int64 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Left       bool   `json:"lstrip"`
	Right      bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// addedToken is one with the text that it is found by.
type addedToken struct {
	addedJSON
	id      int32
	pattern string
}

// addedSet finds the leftmost and there the longest of its tokens.
type addedSet struct {
	byFirst [256][]addedToken // by the first byte of the pattern, longest first
	empty   bool
}

// readAdded resolves ids as the reference does, and refuses a file whose ids are others.
// raw are found in the text as it came, normalized behind the normalizer.
func readAdded(list []addedJSON, vocabulary map[string]int32, normalize normalizer) (raw, normalized *addedSet, ids map[string]int32, err error) {
	ids = map[string]int32{}
	byID := map[int32]addedToken{}
	next, most := int32(len(vocabulary)), int32(-1)
	for i, j := range list {
		if j.Content == "" || j.ID == nil || *j.ID < 0 || *j.ID >= maxID {
			return nil, nil, nil, fmt.Errorf("added token %d has no content, or no id from 0 to %d", i, maxID-1)
		}
		id, ok := ids[j.Content]
		if !ok {
			id, ok = vocabulary[j.Content]
		}
		if !ok {
			id, next = next, next+1
		}
		if int64(id) != *j.ID {
			return nil, nil, nil, fmt.Errorf("added token %q has id %d, and %d by the vocabulary and its place in the list", j.Content, *j.ID, id)
		}
		a := addedToken{j, id, j.Content}
		if j.Normalized {
			if a.pattern, err = normalize(j.Content); err != nil {
				return nil, nil, nil, err
			}
			if a.pattern == "" {
				return nil, nil, nil, fmt.Errorf("nothing is left of added token %q behind the normalizer", j.Content)
			}
		}
		if old, ok := byID[id]; ok && old.Content != j.Content {
			return nil, nil, nil, fmt.Errorf("added tokens %q and %q have the same id, %d", old.Content, j.Content, id)
		}
		ids[j.Content], byID[id] = id, a
		most = max(most, id)
	}
	raw, normalized = &addedSet{empty: true}, &addedSet{empty: true}
	for _, a := range byID {
		set := raw
		if a.Normalized {
			set = normalized
		}
		if err := set.add(a); err != nil {
			return nil, nil, nil, err
		}
	}
	return raw, normalized, ids, nil
}

func (s *addedSet) add(a addedToken) error {
	list := s.byFirst[a.pattern[0]]
	for _, b := range list {
		if a.pattern == b.pattern {
			return fmt.Errorf("added tokens %q and %q are both %q behind the normalizer", min(a.Content, b.Content), max(a.Content, b.Content), a.pattern)
		}
	}
	list = append(list, a)
	slices.SortFunc(list, func(a, b addedToken) int {
		return cmp.Or(cmp.Compare(len(b.pattern), len(a.pattern)), cmp.Compare(a.pattern, b.pattern))
	})
	s.byFirst[a.pattern[0]], s.empty = list, false
	return nil
}

// find is the first token from a place on.
func (s *addedSet) find(text string, from int) (at int, found *addedToken) {
	for ; from < len(text); from++ {
		list := s.byFirst[text[from]]
		for i := range list {
			if strings.HasPrefix(text[from:], list[i].pattern) {
				return from, &list[i]
			}
		}
	}
	return 0, nil
}

// cut calls token for each token of the set, and piece for what is between them.
func (s *addedSet) cut(text string, piece func(string) error, token func(id int32)) error {
	done := 0
	for from := 0; !s.empty; {
		start, a := s.find(text, from)
		if a == nil {
			break
		}
		stop := start + len(a.pattern)
		from = stop
		if a.SingleWord && (endsInWord(text[:start]) || startsWithWord(text[stop:])) {
			continue
		}
		if a.Left {
			start = max(len(strip(text[:start], false, true)), done)
		}
		if a.Right {
			stop = len(text) - len(strip(text[stop:], true, false))
		}
		if done < start {
			if err := piece(text[done:start]); err != nil {
				return err
			}
		}
		token(a.id)
		done = stop
	}
	if done < len(text) {
		return piece(text[done:])
	}
	return nil
}

func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && is(r, isWord)
}

func startsWithWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && is(r, isWord)
}
