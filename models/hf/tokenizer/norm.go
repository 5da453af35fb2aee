package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is a Unicode normalisation form (UAX #15). x/text has the decompositions
// and combining classes, which Unicode never changes; what is done with them is
// written here, since x/text puts a U+034F after 30 marks and the reference does
// not, and since code points newer than the reference's tables are to be left alone.
type form struct {
	compat  bool // NFKD, NFKC
	compose bool // NFC, NFKC
}

// Hangul syllables are composed by arithmetic (The Unicode Standard, 3.12).
const (
	hangulBase, hangulEnd        = 0xac00, 0xac00 + 11172
	leadBase, vowelBase, endBase = 0x1100, 0x1161, 0x11a7
	vowels, ends                 = 21, 28
)

// mark is a code point with its canonical combining class.
type mark struct {
	r   rune
	ccc uint8
}

func (f form) apply(s string) string {
	if isASCII(s) {
		return s
	}
	table := codePoints()
	out := make([]mark, 0, len(s))
	moved := false
	for _, r := range s {
		if r < utf8.RuneSelf || table.of(r)&isMoving == 0 {
			out = append(out, mark{r, 0})
			continue
		}
		moved = true
		if hangulBase <= r && r < hangulEnd {
			i := r - hangulBase
			out = append(out, mark{leadBase + i/(vowels*ends), 0}, mark{vowelBase + i%(vowels*ends)/ends, 0})
			if i%ends != 0 {
				out = append(out, mark{endBase + i%ends, 0})
			}
			continue
		}
		parts := f.properties(r).Decomposition()
		if parts == nil {
			parts = utf8.AppendRune(nil, r)
		}
		for len(parts) > 0 {
			part, n := utf8.DecodeRune(parts)
			parts = parts[n:]
			out = append(out, mark{part, combiningClass(part)})
		}
	}
	if moved {
		order(out)
	}
	if f.compose {
		out = compose(out)
	} else if !moved {
		return s
	}
	b := make([]byte, 0, len(s)+8)
	for _, m := range out {
		b = utf8.AppendRune(b, m.r)
	}
	return string(b)
}

func (f form) properties(r rune) norm.Properties {
	var b [utf8.UTFMax]byte
	n := utf8.EncodeRune(b[:], r)
	if f.compat {
		return norm.NFKD.Properties(b[:n])
	}
	return norm.NFD.Properties(b[:n])
}

func combiningClass(r rune) uint8 {
	if r < 0x300 || !is(r, isMoving) {
		return 0
	}
	return form{}.properties(r).CCC()
}

// order sorts each run of marks by class, and keeps the order within a class.
func order(s []mark) {
	for i := 0; i < len(s); i++ {
		if s[i].ccc == 0 {
			continue
		}
		from := i
		for i < len(s) && s[i].ccc != 0 {
			i++
		}
		slices.SortStableFunc(s[from:i], func(a, b mark) int { return int(a.ccc) - int(b.ccc) })
	}
}

// compose joins each starter with what may follow it, in place.
func compose(s []mark) []mark {
	out := s[:0]
	starter := -1
	last := uint8(0) // class of what came last, behind the starter
	for _, m := range s {
		if starter >= 0 && (len(out)-1 == starter || last < m.ccc) {
			if joined, ok := pair(out[starter].r, m.r); ok {
				out[starter].r = joined
				continue
			}
		}
		if m.ccc == 0 {
			starter = len(out)
		}
		last = m.ccc
		out = append(out, m)
	}
	return out
}

// pair is the primary composite of two code points.
func pair(a, b rune) (rune, bool) {
	if leadBase <= a && a < leadBase+19 && vowelBase <= b && b < vowelBase+vowels {
		return hangulBase + ((a-leadBase)*vowels+b-vowelBase)*ends, true
	}
	if hangulBase <= a && a < hangulEnd && (a-hangulBase)%ends == 0 && endBase < b && b < endBase+ends {
		return a + b - endBase, true
	}
	if b < 0x300 { // nothing below joins what comes before
		return 0, false
	}
	var buf [2 * utf8.UTFMax]byte
	n := utf8.EncodeRune(buf[:], a)
	two := buf[:n+utf8.EncodeRune(buf[n:], b)]
	if norm.NFC.QuickSpan(two) == len(two) {
		return 0, false
	}
	both := norm.NFC.Bytes(two)
	joined, n := utf8.DecodeRune(both)
	if n != len(both) || !is(joined, isMoving) {
		return 0, false
	}
	// x/text joins U+20041 and U+0301 to Á, as if the former were A.
	if !bytes.Equal(norm.NFD.Bytes(both), norm.NFD.Bytes(two)) {
		return 0, false
	}
	return joined, true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
