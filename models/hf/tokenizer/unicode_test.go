package tokenizer

import (
	"hash/crc32"
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2/v2"
)

// blocks are the reference's normalizers on code points, as sums of 4,096 each. Planes
// that hold no characters are left out.
func blocks(t *testing.T) map[string]map[int]uint32 {
	t.Helper()
	var sums map[string]map[int]uint32
	readJSON(t, "blocks.json.gz", &sums)
	return sums
}

// contexts is what oracles_tokenizer.py puts around a code point.
func contexts(r rune) string {
	c := string(r)
	return "a" + c + "\u0334\u0323e" + c + "\u0301\u0345" + c
}

func differing(sums map[int]uint32, normalize func(string) string) (blocks []int) {
	for b, want := range sums {
		var crc uint32
		for r := rune(b) << 12; r < rune(b+1)<<12; r++ {
			if 0xd800 <= r && r < 0xe000 {
				continue
			}
			crc = crc32.Update(crc, crc32.IEEETable, []byte(normalize(contexts(r))+"\n"))
		}
		if crc != want {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func TestNormalizersOnEveryCodePoint(t *testing.T) {
	t.Parallel()
	forms := map[string]func(string) string{
		"Lowercase": lower,
		"NFD":       form{}.apply, "NFC": form{compose: true}.apply,
		"NFKD": form{compat: true}.apply, "NFKC": form{compat: true, compose: true}.apply,
		"StripAccents":   func(s string) string { return drop(s, isCombining) },
		"Nmt":            func(s string) string { return strings.Map(nmt, s) },
		"BertNormalizer": bertNormalizer{true, true, true, true}.apply,
		"Cased":          bertNormalizer{true, true, false, false}.apply,
	}
	sums := blocks(t)
	if len(sums) != len(forms) {
		t.Fatalf("%d normalizers, expected %d", len(sums), len(forms))
	}
	for name, want := range sums {
		if len(want) < 0x34 {
			t.Fatalf("%s: %d blocks", name, len(want))
		}
		for _, b := range differing(want, forms[name]) {
			t.Errorf("%s: other text in U+%04X to U+%04X", name, b<<12, b<<12|0xfff)
		}
	}
	// The planted fault: Go's own tables, of another version of Unicode.
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.Is(unicode.M, r) {
				return -1
			}
			return r
		}, s)
	}
	if len(differing(sums["StripAccents"], plain)) == 0 {
		t.Error("the marks of another Unicode pass the check")
	}
}

// TestPatternsOnEveryCodePoint holds the regular expression engine, seen through the
// stand-ins, to the reference's categories.
func TestPatternsOnEveryCodePoint(t *testing.T) {
	t.Parallel()
	other := standIn()
	for i, name := range append([]string{`\s`}, categories[1:]...) {
		pattern := name
		if i > 0 {
			pattern = `\p{` + name + `}`
		}
		re := regexp2.MustCompile("^" + pattern)
		wrong := 0
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if 0xd800 <= r && r < 0xe000 || 0x40000 <= r && r < 0xe0000 {
				continue
			}
			seen := r
			if o, ok := other[r]; ok {
				seen = o
			}
			flags := codePoints().of(r)
			want := int(flags&categoryMask) == i
			if i == 0 {
				want = flags&isSpace != 0
			}
			if got, err := re.MatchRunes([]rune{seen}); err != nil || got != want {
				if wrong++; wrong < 4 {
					t.Errorf("%s on %U: %v, expected %v (%v)", pattern, r, got, want, err)
				}
			}
		}
	}
	if len(other) == 0 {
		t.Log("Go's categories are the reference's by now")
	}
}
