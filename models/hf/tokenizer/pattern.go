package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// patternJSON is a pattern of the file, either a text or a regular expression.
type patternJSON struct {
	String *string
	Regex  *string
}

func (j *patternJSON) build() (spans, error) {
	switch {
	case j != nil && j.Regex != nil:
		return regex(*j.Regex)
	case j == nil || j.String == nil || *j.String == "":
		return nil, errors.New("pattern is missing or empty, expected a String or a Regex")
	}
	text := *j.String
	return func(s string, yield func(from, to int, match bool)) error {
		for at := 0; at < len(s); {
			i := strings.Index(s[at:], text)
			if i < 0 {
				yield(at, len(s), false)
				break
			}
			if i > 0 {
				yield(at, at+i, false)
			}
			at += i + len(text)
			yield(at-len(text), at, true)
		}
		return nil
	}, nil
}

// regex compiles a regular expression of the reference's engine, Oniguruma.
func regex(pattern string) (spans, error) {
	own, err := translate(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re, err := regexp2.Compile(own, regexp2.OptionMaxBacktrackingStackSize(-1)) // texts may be long
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	if ok, err := re.MatchString(""); ok || err != nil {
		return nil, fmt.Errorf("pattern %q matches the empty text, expected one that does not", pattern)
	}
	return func(s string, yield func(from, to int, match bool)) error {
		runes := make([]rune, 0, len(s))
		if isASCII(s) {
			for i := range len(s) {
				runes = append(runes, rune(s[i]))
			}
		} else {
			other := standIn()
			for _, r := range s {
				if o, ok := other[r]; ok {
					r = o
				}
				runes = append(runes, r)
			}
		}
		at, atRune, empty := 0, 0, false
		// forward is the place in bytes of a later code point.
		forward := func(to int) int {
			i := at
			for ; atRune < to; atRune++ {
				_, n := utf8.DecodeRuneInString(s[i:])
				i += n
			}
			return i
		}
		err := re.FindRunesMatches(runes, -1, func(m regexp2.MatchView) bool {
			index, length, _ := m.GroupRange(0)
			if empty = length == 0; empty {
				return false
			}
			if from := forward(index); at < from {
				yield(at, from, false)
				at = from
			}
			to := forward(index + length)
			yield(at, to, true)
			at = to
			return true
		})
		if err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if empty {
			return fmt.Errorf("pattern %q matches the empty text at byte %d, expected one that does not", pattern, at)
		}
		if at < len(s) {
			yield(at, len(s), false)
		}
		return nil
	}, nil
}

// translation turns a pattern for Oniguruma into one that means the same here. Only
// what both engines agree on is let through.
type translation struct {
	in   string
	at   int
	out  strings.Builder
	fold []bool // of each open group: letters match in either case
	last rune   // the letter before, in a group that folds
}

func translate(pattern string) (string, error) {
	if !utf8.ValidString(pattern) {
		return "", errors.New("is not valid UTF-8")
	}
	t := &translation{in: pattern, fold: []bool{false}}
	for t.at < len(t.in) {
		if err := t.next(); err != nil {
			return "", fmt.Errorf("at byte %d: %w", t.at, err)
		}
	}
	if len(t.fold) != 1 {
		return "", errors.New("a group is not closed")
	}
	return t.out.String(), nil
}

// copy lets the next n bytes through.
func (t *translation) copy(n int) {
	t.out.WriteString(t.in[t.at : t.at+n])
	t.at += n
}

func (t *translation) next() error {
	r, n := utf8.DecodeRuneInString(t.in[t.at:])
	last := t.last
	t.last = 0
	switch r {
	case '^', '$':
		return fmt.Errorf("the anchor %c is not supported", r)
	case '\\':
		_, _, err := t.escape()
		return err
	case '[':
		return t.class()
	case '(':
		return t.open()
	case ')':
		if len(t.fold) == 1 {
			return errors.New("a group is closed that was not opened")
		}
		t.fold = t.fold[:len(t.fold)-1]
		t.copy(1)
	case '*', '+', '?', '{':
		return t.repeat()
	case '.', '|', ']', '}':
		t.copy(1)
	default:
		return t.literal(r, n, last)
	}
	return nil
}

// groups are the openings that both engines have. In the one that folds, letters
// become classes.
var groups = []string{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}

func (t *translation) open() error {
	fold := t.fold[len(t.fold)-1]
	if !strings.HasPrefix(t.in[t.at:], "(?") {
		t.copy(1)
		t.fold = append(t.fold, fold)
		return nil
	}
	for _, g := range groups {
		if strings.HasPrefix(t.in[t.at:], g) {
			if g == "(?i:" {
				t.out.WriteString("(?:")
				t.at += len(g)
				fold = true
			} else {
				t.copy(len(g))
			}
			t.fold = append(t.fold, fold)
			return nil
		}
	}
	return fmt.Errorf("a group with an option is not supported, expected one of %s", strings.Join(groups, " "))
}

// literal is a code point that stands for itself.
func (t *translation) literal(r rune, n int, last rune) error {
	if err := agreed(r, r); err != nil {
		return err
	}
	if !t.fold[len(t.fold)-1] {
		t.copy(n)
		return nil
	}
	if r >= utf8.RuneSelf {
		return errors.New("a letter beyond ASCII in a group that folds is not supported")
	}
	small := unicode.ToLower(r)
	if small < 'a' || small > 'z' {
		t.copy(n)
		return nil
	}
	// Oniguruma folds ligatures too: ß is ss.
	if slices.Contains([]string{"ss", "st", "ff", "fi", "fl"}, string([]rune{last, small})) {
		return fmt.Errorf("%c%c in a group that folds is not supported, since it is one letter too", last, small)
	}
	t.last = small
	fmt.Fprintf(&t.out, "[%c%c", small, unicode.ToUpper(small))
	if other := unicode.SimpleFold(small); other >= utf8.RuneSelf { // ſ, and K of kelvin
		t.out.WriteRune(other)
	}
	t.out.WriteByte(']')
	t.at += n
	return nil
}

// repeat is a quantifier. Two of them in a row mean other things in each engine.
func (t *translation) repeat() error {
	n := 1
	if t.in[t.at] == '{' {
		n = strings.IndexByte(t.in[t.at:], '}') + 1
		if n == 0 || !counts(t.in[t.at+1:t.at+n-1]) {
			return errors.New("expected {n}, {n,} or {n,m}")
		}
	}
	lazy := t.in[t.at] != '{' && strings.HasPrefix(t.in[t.at+n:], "?")
	if lazy {
		n++
	}
	if rest := t.in[t.at+n:]; rest != "" && strings.ContainsRune("*+?{", rune(rest[0])) {
		return errors.New("a quantifier behind a quantifier is not supported")
	}
	t.copy(n)
	return nil
}

func counts(s string) bool {
	least, most, both := strings.Cut(s, ",")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" && len(s) < 5 }
	return least != "" && digits(least) && (!both || digits(most))
}

// escape lets an escape through. It returns the code point that it names, or a set.
func (t *translation) escape() (r rune, set bool, err error) {
	rest := t.in[t.at:]
	if len(rest) < 2 {
		return 0, false, errors.New("a backslash at the end")
	}
	switch c := rest[1]; c {
	case 's', 'S', 'd', 'D':
		t.copy(2)
		return 0, true, nil
	case 'n', 'r', 't':
		t.copy(2)
		return map[byte]rune{'n': '\n', 'r': '\r', 't': '\t'}[c], false, nil
	case 'p', 'P':
		end := strings.IndexByte(rest, '}')
		if end < 0 || rest[2] != '{' || !knownCategory(rest[3:end]) {
			return 0, false, errors.New(`expected \p{..} with a general category`)
		}
		if t.fold[len(t.fold)-1] {
			return 0, false, errors.New("a category in a group that folds is not supported")
		}
		t.copy(end + 1)
		return 0, true, nil
	default:
		if c >= utf8.RuneSelf || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) || c < ' ' {
			return 0, false, fmt.Errorf(`\%c is not supported`, c)
		}
		t.copy(2)
		return rune(c), false, nil
	}
}

// knownCategory leaves out C and what belongs to it by absence, Cn and Cs.
func knownCategory(name string) bool {
	if name == "Cn" {
		return false
	}
	return slices.Contains(categories, name) || slices.Contains([]string{"L", "M", "N", "P", "S", "Z"}, name)
}

// class lets a [..] through.
func (t *translation) class() error {
	if t.fold[len(t.fold)-1] {
		return errors.New("a class in a group that folds is not supported")
	}
	t.copy(1)
	if strings.HasPrefix(t.in[t.at:], "^") {
		t.copy(1)
	}
	// before is what a range may begin with: a code point, or -1.
	before, inRange := rune(-1), false
	for empty := true; ; empty = false {
		r, n := utf8.DecodeRuneInString(t.in[t.at:])
		rest := t.in[t.at:]
		set := false
		switch {
		case rest == "":
			return errors.New("a class is not closed")
		case r == ']' && empty, r == '[', strings.HasPrefix(rest, "&&"):
			return fmt.Errorf("%q in a class is not supported, expected it behind a backslash", rest[:n])
		case r == ']':
			t.copy(1)
			return nil
		case r == '-' && !empty && !strings.HasPrefix(rest, "-]"):
			if before < 0 {
				return errors.New("a range in a class has no beginning")
			}
			t.copy(1)
			inRange = true
			continue
		case r == '\\':
			var err error
			if r, set, err = t.escape(); err != nil {
				return err
			}
		default:
			t.copy(n)
		}
		if set {
			if inRange {
				return errors.New("a range in a class has no end")
			}
			before = -1
			continue
		}
		from := r
		if inRange {
			from = before
		}
		if err := agreed(from, r); err != nil {
			return err
		}
		before = r
		if inRange {
			before, inRange = -1, false
		}
	}
}

// agreed refuses code points that have stand-ins, or are some: they cannot be named.
func agreed(from, to rune) error {
	if to < utf8.RuneSelf {
		return nil
	}
	for r := max(from, utf8.RuneSelf); r <= to; r++ {
		if _, ok := standIn()[r]; ok || slices.Contains(standIns, r) {
			return fmt.Errorf("U+%04X is not supported in a pattern", r)
		}
	}
	return nil
}
