package tokenizer

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"io"
	"sync"
	"unicode"
)

// The reference mixes the Unicode versions of several Rust crates (8 for
// punctuation, 16 for letters), none of which is Go's. unicode.bin.gz holds the
// properties as it sees them: runs of a length and flags, both varints, made by
// bench/peers/oracles_tokenizer.py.
//
//go:embed unicode.bin.gz
var unicodeRuns []byte

// Flags of a code point.
const (
	categoryMask  = 1<<5 - 1 // index into categories
	isPunctuation = 1 << 5
	isControl     = 1 << 6  // what clean_text removes
	isNonspacing  = 1 << 7  // mark that BertNormalizer strips
	isCombining   = 1 << 8  // mark that StripAccents strips
	isNumeric     = 1 << 9  // Digits
	isWord        = 1 << 10 // \w of Whitespace and of added tokens
	isSpace       = 1 << 11
	isMoving      = 1 << 12 // has a decomposition or a combining class
)

// categories are the general categories in the order of the flags, and categoryTables
// what Go holds for them.
var (
	categories = []string{"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
		"Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"}
	// standIns are code points of those categories that no pattern is likely to name,
	// and that every version of Unicode agrees on.
	standIns = []rune{0xffff, 'Ѐ', 'ѐ', 'ῼ', 'ˠ', 'ܐ', 0x0730, 0x0903, 0x0488, '०', 'Ⅰ', '①', '‿', '‐', '⁅', '⁆', '‹', '›',
		'‰', '⁄', '₠', '˂', '⅊', 0x2005, 0x2028, 0x2029, 0x81, 0x2061, 0xe000}
)

// flagTable is a table in two stages: pages of 256 code points, equal ones kept once.
type flagTable struct {
	page  [0x1100]uint16
	flags [][256]uint16
}

func (t *flagTable) of(r rune) uint16 {
	if r < 0 || r > unicode.MaxRune {
		return 0
	}
	return t.flags[t.page[r>>8]][r&0xff]
}

// codePoints reads the table at its first use. The bytes are part of the program,
// so that one that cannot be read is its author's mistake.
var codePoints = sync.OnceValue(func() *flagTable {
	z, err := gzip.NewReader(bytes.NewReader(unicodeRuns))
	if err != nil {
		panic("tokenizer: unicode.bin.gz: " + err.Error())
	}
	runs, err := io.ReadAll(z)
	if err != nil {
		panic("tokenizer: unicode.bin.gz: " + err.Error())
	}
	t := &flagTable{}
	seen := map[[256]uint16]uint16{}
	var page [256]uint16
	at := 0
	for len(runs) > 0 {
		length, n := binary.Uvarint(runs)
		flags, m := binary.Uvarint(runs[n:])
		runs = runs[n+m:]
		for range length {
			page[at&0xff] = uint16(flags)
			if at++; at&0xff != 0 {
				continue
			}
			index, ok := seen[page]
			if !ok {
				index = uint16(len(t.flags))
				seen[page] = index
				t.flags = append(t.flags, page)
			}
			t.page[at>>8-1] = index
		}
	}
	if at != unicode.MaxRune+1 {
		panic("tokenizer: unicode.bin.gz does not hold every code point")
	}
	return t
})

// is says whether the code point has one of the flags.
func is(r rune, flags uint16) bool { return codePoints().of(r)&flags != 0 }

// isPunct is the reference's punctuation: ASCII's, which includes symbols, and category P.
func isPunct(r rune) bool {
	if r < 0x80 {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return is(r, isPunctuation)
}

// isHan is what handle_chinese_chars puts spaces around. It leaves out
// U+2B820 to U+2B91F, as the reference does.
func isHan(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3400 <= r && r <= 0x4dbf || 0x20000 <= r && r <= 0x2a6df || 0x2a700 <= r && r <= 0x2b73f ||
		0x2b740 <= r && r <= 0x2b81f || 0x2b920 <= r && r <= 0x2ceaf || 0xf900 <= r && r <= 0xfaff || 0x2f800 <= r && r <= 0x2fa1f
}

// newCapitals have small letters in Unicode 17, which the reference knows.
var newCapitals = unicode.SpecialCase{
	{Lo: 0x1c89, Hi: 0x1c89, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7cb, Hi: 0xa7cb, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x264 - 0xa7cb}},
	{Lo: 0xa7cc, Hi: 0xa7cc, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7ce, Hi: 0xa7ce, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7d2, Hi: 0xa7d2, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7d4, Hi: 0xa7d4, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7da, Hi: 0xa7da, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7dc, Hi: 0xa7dc, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x19b - 0xa7dc}},
	{Lo: 0x10d50, Hi: 0x10d65, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x20}},
	{Lo: 0x16ea0, Hi: 0x16eb8, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x1b}},
}

// standIn is a code point that the regular expression engine, which asks Go's
// tables, takes for what the reference takes r for.
var standIn = sync.OnceValue(func() map[rune]rune {
	goes := make([]uint8, unicode.MaxRune+1)
	for i, name := range categories[1:] {
		table := unicode.Categories[name]
		for _, run := range table.R16 {
			for r := rune(run.Lo); r <= rune(run.Hi); r += rune(run.Stride) {
				goes[r] = uint8(i + 1)
			}
		}
		for _, run := range table.R32 {
			for r := rune(run.Lo); r <= rune(run.Hi); r += rune(run.Stride) {
				goes[r] = uint8(i + 1)
			}
		}
	}
	other := map[rune]rune{}
	t := codePoints()
	for r := range goes {
		category := t.of(rune(r)) & categoryMask
		if uint16(goes[r]) != category && !(0xd800 <= r && r < 0xe000) {
			other[rune(r)] = standIns[category]
		}
	}
	return other
})
