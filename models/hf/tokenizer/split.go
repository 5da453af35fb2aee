package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// splitter cuts a text into the pieces that the model sees. Pieces are never empty.
type splitter func(s string, emit func(string)) error

// spans goes through a text in neighbouring spans that match or do not.
type spans func(s string, yield func(from, to int, match bool)) error

// splitterJSON is any pre-tokenizer of the file.
type splitterJSON struct {
	Type string `json:"type"`
	// Sequence
	Splitters []*splitterJSON `json:"pretokenizers"`
	// ByteLevel
	PrefixSpace *bool `json:"add_prefix_space"`
	Regex       *bool `json:"use_regex"`
	// Split, Punctuation
	Pattern  *patternJSON `json:"pattern"`
	Behavior *behavior    `json:"behavior"`
	Invert   *bool        `json:"invert"`
	// Digits, CharDelimiterSplit, FixedLength
	Individual *bool   `json:"individual_digits"`
	Delimiter  *string `json:"delimiter"`
	Length     *int    `json:"length"`
}

// behavior says what becomes of a span that matches.
type behavior string

func (b behavior) check() error {
	if !slices.Contains([]behavior{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}, b) {
		return fmt.Errorf("behavior %q is not supported, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", b)
	}
	return nil
}

// cut is a splitter by spans. One piece is kept back, since the next span may join it.
func (b behavior) cut(in spans) splitter {
	return func(s string, emit func(string)) error {
		from, to, before := 0, 0, false
		err := in(s, func(a, z int, match bool) {
			join := false
			switch b {
			case "Contiguous":
				join = match == before
			case "MergedWithPrevious":
				join = match && !before
			case "MergedWithNext":
				join = !match && before
			}
			if !join || from == to {
				if from < to {
					emit(s[from:to])
				}
				from = a
			}
			to, before = z, match
			if match && b == "Removed" {
				from = to
			}
		})
		if from < to {
			emit(s[from:to])
		}
		return err
	}
}

// each matches every code point for which f holds by itself.
func each(f func(rune) bool) spans {
	return func(s string, yield func(from, to int, match bool)) error {
		from := 0
		for i, r := range s {
			if !f(r) {
				continue
			}
			if from < i {
				yield(from, i, false)
			}
			from = i + utf8.RuneLen(r)
			yield(i, from, true)
		}
		if from < len(s) {
			yield(from, len(s), false)
		}
		return nil
	}
}

func space(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || '\t' <= r && r <= '\r'
	}
	return is(r, isSpace)
}

func (j *splitterJSON) build() (splitter, error) {
	if j == nil {
		return func(s string, emit func(string)) error {
			if s != "" {
				emit(s)
			}
			return nil
		}, nil
	}
	switch j.Type {
	case "Sequence":
		return j.sequence()
	case "BertPreTokenizer":
		return then(behavior("Removed").cut(each(space)), behavior("Isolated").cut(each(isPunct))), nil
	case "WhitespaceSplit":
		return behavior("Removed").cut(each(space)), nil
	case "Whitespace":
		return words, nil
	case "ByteLevel":
		return j.byteLevel()
	case "Split":
		return j.split()
	case "Punctuation":
		b := behavior("Isolated")
		if j.Behavior != nil {
			b = *j.Behavior
		}
		return b.cut(each(isPunct)), b.check()
	case "Digits":
		if j.Individual == nil {
			return nil, fmt.Errorf("pre_tokenizer Digits lacks individual_digits")
		}
		b := behavior("Contiguous")
		if *j.Individual {
			b = "Isolated"
		}
		return b.cut(each(func(r rune) bool { return is(r, isNumeric) })), nil
	case "CharDelimiterSplit":
		if j.Delimiter == nil || utf8.RuneCountInString(*j.Delimiter) != 1 {
			return nil, fmt.Errorf("pre_tokenizer CharDelimiterSplit needs a delimiter of one character")
		}
		delimiter, _ := utf8.DecodeRuneInString(*j.Delimiter)
		return behavior("Removed").cut(each(func(r rune) bool { return r == delimiter })), nil
	case "FixedLength":
		length := 5
		if j.Length != nil {
			length = *j.Length
		}
		if length < 1 {
			return nil, fmt.Errorf("pre_tokenizer FixedLength has length %d, expected at least 1", length)
		}
		return func(s string, emit func(string)) error { fixed(s, length, emit); return nil }, nil
	}
	return nil, fmt.Errorf("pre_tokenizer of type %q is not supported, expected BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, "+
		"FixedLength, Punctuation, Sequence, Split, Whitespace or WhitespaceSplit", j.Type)
}

func (j *splitterJSON) sequence() (splitter, error) {
	var all splitter
	for i, step := range j.Splitters {
		if step == nil {
			return nil, fmt.Errorf("pre_tokenizer %d of a Sequence is null", i)
		}
		next, err := step.build()
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = next
		} else {
			all = then(all, next)
		}
	}
	if all == nil {
		return (*splitterJSON)(nil).build()
	}
	return all, nil
}

// then splits the pieces of a by b.
func then(a, b splitter) splitter {
	return func(s string, emit func(string)) error {
		var inner error
		err := a(s, func(piece string) {
			if inner == nil {
				inner = b(piece, emit)
			}
		})
		if err == nil {
			err = inner
		}
		return err
	}
}

func (j *splitterJSON) split() (splitter, error) {
	if j.Behavior == nil || j.Invert == nil {
		return nil, fmt.Errorf("pre_tokenizer Split lacks behavior or invert")
	}
	p, err := j.Pattern.build()
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer Split: %w", err)
	}
	if *j.Invert {
		straight := p
		p = func(s string, yield func(from, to int, match bool)) error {
			return straight(s, func(from, to int, match bool) { yield(from, to, !match) })
		}
	}
	return j.Behavior.cut(p), j.Behavior.check()
}

// words is the pattern \w+|[^\w\s]+, and drops what is between its matches.
func words(s string, emit func(string)) error {
	const none, word, other = 0, 1, 2
	table := codePoints()
	from, kind := 0, none
	for i, r := range s {
		now := other
		switch flags := table.of(r); {
		case flags&isWord != 0:
			now = word
		case flags&isSpace != 0:
			now = none
		}
		if now != kind {
			if kind != none {
				emit(s[from:i])
			}
			from, kind = i, now
		}
	}
	if kind != none {
		emit(s[from:])
	}
	return nil
}

func fixed(s string, length int, emit func(string)) {
	from, n := 0, 0
	for i := range s {
		if n == length {
			emit(s[from:i])
			from, n = i, 0
		}
		n++
	}
	if from < len(s) {
		emit(s[from:])
	}
}

// gpt2 is the pattern of GPT-2's byte-level pre-tokenizer.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (j *splitterJSON) byteLevel() (splitter, error) {
	if j.PrefixSpace == nil {
		return nil, fmt.Errorf("pre_tokenizer ByteLevel lacks add_prefix_space")
	}
	prefix := *j.PrefixSpace
	cut := func(s string, emit func(string)) error { emit(s); return nil }
	if j.Regex == nil || *j.Regex {
		p, err := regex(gpt2)
		if err != nil {
			return nil, err
		}
		cut = behavior("Isolated").cut(p)
	}
	return func(s string, emit func(string)) error {
		if s == "" {
			return nil
		}
		if prefix && s[0] != ' ' {
			s = " " + s
		}
		return cut(s, func(piece string) { emit(byteLetters(piece)) })
	}, nil
}

// byteLetter is the letter that stands for a byte: itself where it can be seen in
// Latin-1, else one from U+0100 on, as GPT-2 has it.
var byteLetter = func() (letters [256]rune) {
	next := rune(0x100)
	for b := range letters {
		if '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b {
			letters[b] = rune(b)
		} else {
			letters[b] = next
			next++
		}
	}
	return letters
}()

func byteLetters(s string) string {
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		b = utf8.AppendRune(b, byteLetter[s[i]])
	}
	return string(b)
}
