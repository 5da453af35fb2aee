package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is byte pair encoding (Sennrich et al. 2016): a word's letters are joined, the
// pair first whose merge was learnt first.
type bpe struct {
	vocabulary     map[string]int32
	merges         map[uint64]merge // by left id << 32 | right id
	made           []int32          // by rank: the token that the merge makes
	prefix, suffix string           // of letters but the first, and of the last
	unknown        int32            // or -1: unknown letters are left out
	fuse           bool             // neighbouring unknown letters are one token
	byteFallback   bool             // an unknown letter is its bytes, <0xE2> and so on
	wholeWords     bool             // a word of the vocabulary is not taken apart
}

type merge struct{ rank, id int32 }

func (j *modelJSON) bpe() (*bpe, error) {
	if j.Dropout != nil && *j.Dropout != 0 {
		return nil, fmt.Errorf("model BPE has dropout %v, expected none: tokens would be random", *j.Dropout)
	}
	m := &bpe{unknown: -1, fuse: j.Fuse, byteFallback: j.ByteFallback, wholeWords: j.IgnoreMerges}
	if j.Prefix != nil {
		m.prefix = *j.Prefix
	}
	if j.Suffix != nil {
		m.suffix = *j.Suffix
	}
	var err error
	if m.vocabulary, err = j.vocabulary(); err != nil {
		return nil, err
	}
	if j.Unknown != nil {
		id, ok := m.vocabulary[*j.Unknown]
		if !ok {
			return nil, fmt.Errorf("model BPE: unk_token %q is not in the vocabulary", *j.Unknown)
		}
		m.unknown = id
	}
	pairs, err := readMerges(j.Merges)
	if err != nil {
		return nil, err
	}
	m.merges, m.made = make(map[uint64]merge, len(pairs)), make([]int32, len(pairs))
	for rank, p := range pairs {
		a, okA := m.vocabulary[p[0]]
		b, okB := m.vocabulary[p[1]]
		if !okA || !okB {
			return nil, fmt.Errorf("model BPE: merge %d is of %q and %q, expected tokens of the vocabulary", rank, p[0], p[1])
		}
		if len(p[1]) < len(m.prefix) {
			return nil, fmt.Errorf("model BPE: merge %d: %q is shorter than the prefix %q", rank, p[1], m.prefix)
		}
		id, ok := m.vocabulary[p[0]+p[1][len(m.prefix):]]
		if !ok {
			return nil, fmt.Errorf("model BPE: merge %d makes %q, which is not in the vocabulary", rank, p[0]+p[1][len(m.prefix):])
		}
		m.merges[pairKey(a, b)], m.made[rank] = merge{int32(rank), id}, id
	}
	return m, nil
}

func pairKey(a, b int32) uint64 { return uint64(a)<<32 | uint64(b) }

// readMerges reads both forms, "a b" and ["a", "b"].
func readMerges(raw json.RawMessage) ([][2]string, error) {
	body := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("[")), " \t\r\n")
	if len(raw) == 0 {
		return nil, errors.New("model BPE lacks merges")
	}
	if len(body) > 0 && body[0] == '[' {
		var lists [][]string
		if err := json.Unmarshal(raw, &lists); err != nil {
			return nil, fmt.Errorf("model BPE: merges: %w", err)
		}
		pairs := make([][2]string, len(lists))
		for i, l := range lists {
			if len(l) != 2 {
				return nil, fmt.Errorf("model BPE: merge %d is of %d tokens, expected 2", i, len(l))
			}
			pairs[i] = [2]string(l)
		}
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return nil, fmt.Errorf("model BPE: merges: %w", err)
	}
	pairs := make([][2]string, 0, len(lines))
	for _, line := range lines {
		if strings.HasPrefix(line, "#version") {
			continue
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(b, " ") {
			return nil, fmt.Errorf("model BPE: merge %d is %q, expected two tokens with a space between them", len(pairs), line)
		}
		pairs = append(pairs, [2]string{a, b})
	}
	return pairs, nil
}

func (m *bpe) tokens() map[string]int32 { return m.vocabulary }

func (m *bpe) word(w *worker, s string, ids []int32) []int32 {
	if m.wholeWords {
		if id, ok := m.vocabulary[s]; ok {
			return append(ids, id)
		}
	}
	w.chain = m.letters(w, s, w.chain[:0])
	m.join(w, w.chain)
	for _, l := range w.chain {
		if l.id >= 0 {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// link is a token of a word that is being joined, with the places of its neighbours.
type link struct{ id, before, behind int32 }

// letters is the word's letters as a chain.
func (m *bpe) letters(w *worker, s string, chain []link) []link {
	add := func(id int32) {
		n := int32(len(chain))
		if n > 0 {
			chain[n-1].behind = n
		}
		chain = append(chain, link{id, n - 1, -1})
	}
	waiting := false // an unknown letter is waiting for others to fuse with
	for i, r := range s {
		n := utf8.RuneLen(r)
		w.bytes = w.bytes[:0]
		if i > 0 {
			w.bytes = append(w.bytes, m.prefix...)
		}
		w.bytes = append(w.bytes, s[i:i+n]...)
		if i+n == len(s) {
			w.bytes = append(w.bytes, m.suffix...)
		}
		if id, ok := m.vocabulary[string(w.bytes)]; ok {
			if waiting {
				add(m.unknown)
				waiting = false
			}
			add(id)
			continue
		}
		// The reference lets bytes go before an unknown letter that is still waiting.
		if m.byteFallback && m.bytes(w.bytes, add) {
			continue
		}
		if m.unknown >= 0 {
			if waiting && !m.fuse {
				add(m.unknown)
			}
			waiting = true
		}
	}
	if waiting {
		add(m.unknown)
	}
	return chain
}

// bytes adds the tokens of the bytes, if there are tokens for all of them.
func (m *bpe) bytes(letter []byte, add func(int32)) bool {
	token := func(b byte) (int32, bool) {
		id, ok := m.vocabulary[fmt.Sprintf("<0x%02X>", b)]
		return id, ok
	}
	for _, b := range letter {
		if _, ok := token(b); !ok {
			return false
		}
	}
	for _, b := range letter {
		id, _ := token(b)
		add(id)
	}
	return true
}

// candidate is a merge that may be done: rank << 32 | place.
type candidate uint64

// join does the merges, lowest rank first and from the left. Joined links keep the
// left one's place, and the right one's id becomes -1.
func (m *bpe) join(w *worker, chain []link) {
	heap := w.heap[:0]
	offer := func(place int32) {
		if next := chain[place].behind; next >= 0 {
			if to, ok := m.merges[pairKey(chain[place].id, chain[next].id)]; ok {
				heap = push(heap, candidate(to.rank)<<32|candidate(place))
			}
		}
	}
	for i := range chain {
		offer(int32(i))
	}
	for len(heap) > 0 {
		var c candidate
		c, heap = pop(heap)
		id, place := m.made[c>>32], int32(uint32(c))
		left := &chain[place]
		if left.id < 0 || left.behind < 0 {
			continue
		}
		right := &chain[left.behind]
		// The pair may be another by now. As in the reference it is enough that it makes the same token.
		if to, ok := m.merges[pairKey(left.id, right.id)]; !ok || to.id != id {
			continue
		}
		left.id, left.behind, right.id = id, right.behind, -1
		if left.behind >= 0 {
			chain[left.behind].before = place
		}
		if left.before >= 0 {
			offer(left.before)
		}
		offer(place)
	}
	w.heap = heap
}

func push(h []candidate, c candidate) []candidate {
	h = append(h, c)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	return h
}

func pop(h []candidate) (candidate, []candidate) {
	top := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		low := 2*i + 1
		if low >= len(h) {
			return top, h
		}
		if low+1 < len(h) && h[low+1] < h[low] {
			low++
		}
		if h[i] <= h[low] {
			return top, h
		}
		h[i], h[low] = h[low], h[i]
		i = low
	}
}
