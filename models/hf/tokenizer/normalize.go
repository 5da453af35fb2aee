package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// normalizer rewrites a text before it is split.
type normalizer func(string) (string, error)

// normalizerJSON is any normalizer of the file.
type normalizerJSON struct {
	Type string `json:"type"`
	// Sequence
	Normalizers []*normalizerJSON `json:"normalizers"`
	// BertNormalizer
	CleanText    *bool `json:"clean_text"`
	HandleHan    *bool `json:"handle_chinese_chars"`
	StripAccents *bool `json:"strip_accents"` // null: as Lowercase
	Lowercase    *bool `json:"lowercase"`
	// Strip
	Left  *bool `json:"strip_left"`
	Right *bool `json:"strip_right"`
	// Prepend, Replace
	Prepend *string      `json:"prepend"`
	Pattern *patternJSON `json:"pattern"`
	Content *string      `json:"content"`
}

// pure is a normalizer that cannot fail.
func pure(f func(string) string) normalizer {
	return func(s string) (string, error) { return f(s), nil }
}

func (j *normalizerJSON) build() (normalizer, error) {
	if j == nil {
		return pure(func(s string) string { return s }), nil
	}
	switch j.Type {
	case "Sequence":
		return j.sequence()
	case "BertNormalizer":
		if j.CleanText == nil || j.HandleHan == nil || j.Lowercase == nil {
			return nil, fmt.Errorf("normalizer BertNormalizer lacks clean_text, handle_chinese_chars or lowercase")
		}
		strip := *j.Lowercase
		if j.StripAccents != nil {
			strip = *j.StripAccents
		}
		return pure(bertNormalizer{*j.CleanText, *j.HandleHan, strip, *j.Lowercase}.apply), nil
	case "Lowercase":
		return pure(lower), nil
	case "NFD":
		return pure(form{}.apply), nil
	case "NFC":
		return pure(form{compose: true}.apply), nil
	case "NFKD":
		return pure(form{compat: true}.apply), nil
	case "NFKC":
		return pure(form{compat: true, compose: true}.apply), nil
	case "StripAccents":
		return pure(func(s string) string { return drop(s, isCombining) }), nil
	case "Nmt":
		return pure(func(s string) string { return strings.Map(nmt, s) }), nil
	case "Strip":
		if j.Left == nil || j.Right == nil {
			return nil, fmt.Errorf("normalizer Strip lacks strip_left or strip_right")
		}
		left, right := *j.Left, *j.Right
		return pure(func(s string) string { return strip(s, left, right) }), nil
	case "Prepend":
		if j.Prepend == nil {
			return nil, fmt.Errorf("normalizer Prepend lacks prepend")
		}
		return pure(func(s string) string {
			if s == "" {
				return s
			}
			return *j.Prepend + s
		}), nil
	case "Replace":
		return j.replace()
	case "ByteLevel":
		return pure(byteLetters), nil
	}
	return nil, fmt.Errorf("normalizer of type %q is not supported, expected BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "+
		"Prepend, Replace, Sequence, Strip, StripAccents or ByteLevel", j.Type)
}

func (j *normalizerJSON) sequence() (normalizer, error) {
	steps := make([]normalizer, len(j.Normalizers))
	for i, n := range j.Normalizers {
		if n == nil {
			return nil, fmt.Errorf("normalizer %d of a Sequence is null", i)
		}
		var err error
		if steps[i], err = n.build(); err != nil {
			return nil, err
		}
	}
	return func(s string) (string, error) {
		for _, step := range steps {
			var err error
			if s, err = step(s); err != nil {
				return "", err
			}
		}
		return s, nil
	}, nil
}

func (j *normalizerJSON) replace() (normalizer, error) {
	if j.Content == nil {
		return nil, fmt.Errorf("normalizer Replace lacks content")
	}
	p, err := j.Pattern.build()
	if err != nil {
		return nil, fmt.Errorf("normalizer Replace: %w", err)
	}
	return func(s string) (string, error) {
		var b strings.Builder
		err := p(s, func(from, to int, match bool) {
			if match {
				b.WriteString(*j.Content)
			} else {
				b.WriteString(s[from:to])
			}
		})
		return b.String(), err
	}, nil
}

// bertNormalizer is the one of BERT: it drops what is no text, puts spaces around
// Han, takes accents away and lowers, each if it is asked to.
type bertNormalizer struct{ clean, han, strip, lower bool }

func (n bertNormalizer) apply(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 8)
	table := codePoints()
	for _, r := range s {
		if n.clean {
			switch flags := table.of(r); {
			case flags&isControl != 0:
				continue
			case flags&isSpace != 0:
				r = ' '
			}
		}
		if n.han && isHan(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	s = b.String()
	if n.strip {
		s = drop(form{}.apply(s), isNonspacing)
	}
	if n.lower {
		s = lower(s)
	}
	return s
}

// drop leaves out the code points with one of the flags.
func drop(s string, flags uint16) string {
	if isASCII(s) {
		return s
	}
	table := codePoints()
	return strings.Map(func(r rune) rune {
		if table.of(r)&flags != 0 {
			return -1
		}
		return r
	}, s)
}

// lower takes one letter at a time, so that a capital sigma is never a final one.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	b := make([]byte, 0, len(s)+8)
	for _, r := range s {
		b = utf8.AppendRune(b, newCapitals.ToLower(r))
		if r == 'İ' {
			b = utf8.AppendRune(b, 0x307) // the dot stays
		}
	}
	return string(b)
}

func strip(s string, left, right bool) string {
	space := func(r rune) bool { return is(r, isSpace) }
	if left {
		s = strings.TrimLeftFunc(s, space)
	}
	if right {
		s = strings.TrimRightFunc(s, space)
	}
	return s
}

// nmt is the normalizer of that name, after the rules of SentencePiece.
func nmt(r rune) rune {
	switch {
	case 1 <= r && r <= 8, r == 0xb, 0xe <= r && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return -1
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200b <= r && r <= 0x200f, r == 0x2028, r == 0x2029,
		r == 0x2581, r == 0xfeff, r == utf8.RuneError:
		return ' '
	}
	return r
}
