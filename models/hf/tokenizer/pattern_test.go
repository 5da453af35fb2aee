package tokenizer

import (
	"hash/crc32"
	"strings"
	"testing"
)

// TestPatterns splits the hard texts by patterns, and holds the pieces to Oniguruma's.
func TestPatterns(t *testing.T) {
	t.Parallel()
	var all oracle
	readJSON(t, "expected.json.gz", &all)
	if len(all.Patterns) < 25 {
		t.Fatalf("%d patterns", len(all.Patterns))
	}
	pieces := func(pattern string) uint32 {
		p, err := regex(pattern)
		if err != nil {
			t.Error(err)
			return 0
		}
		split := behavior("Isolated").cut(p)
		var b strings.Builder
		for _, text := range all.Texts {
			if err := split(text, func(piece string) { b.WriteString(piece + "\x00") }); err != nil {
				t.Errorf("%.60q: %v", text, err)
			}
		}
		return crc32.ChecksumIEEE([]byte(b.String()))
	}
	for pattern, want := range all.Patterns {
		if pieces(pattern) != want {
			t.Errorf("%s: other pieces", pattern)
		}
	}
	if pieces(`\s`) == all.Patterns[`\s+`] {
		t.Error("another pattern passes")
	}
}

func TestPatternsRefused(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`^a`: "anchor", `a$`: "anchor", `\w+`: `\w is not supported`, `\bx`: `\b is not supported`, `(a)\1`: `\1 is not supported`,
		`\x41`: `\x is not supported`, `a\`: "backslash at the end", `\p{C}`: "general category", `\p{Cn}`: "general category",
		`\p{Han}`: "general category", `\pL`: "general category", `\p{L`: "general category", `(?i)a`: "a group with an option",
		`(?<n>a)`: "a group with an option", `(?m:a)`: "a group with an option", `a++`: "a quantifier behind", `a{2}{3}`: "a quantifier behind",
		`a{2}?`: "a quantifier behind", `a??b*?+`: "a quantifier behind", `a{,2}`: "expected {n}", `a{`: "expected {n}", `a{99999}`: "expected {n}",
		`[a[b]]`: "in a class", `[a&&b]`: "in a class", `[]a]`: "in a class", `[a`: "not closed", `[\d-x]`: "no beginning", `[a-\d]`: "no end",
		`[a-b-c]`: "no beginning", `(a`: "not closed", `a)`: "not opened", `(?i:é)`: "beyond ASCII", `(?i:ss)`: "one letter too",
		`(?i:of fish)`: "one letter too", `(?i:[ab])`: "a class in a group that folds", `(?i:\p{L})`: "a category in a group that folds",
		`a*`: "matches the empty text", `\u4f60`: `\u is not supported`, `+a`: "pattern", "\xff": "not valid UTF-8",
		"\U00010d50": "U+10D50 is not supported", "[\u4e00-\U0003ffff]": "is not supported in a pattern", "é\u2005": "U+2005 is not supported",
	} {
		if _, err := regex(pattern); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pattern") {
			t.Errorf("%s: %v, expected %s", pattern, err, want)
		}
	}
	// What matches the empty text only behind something else is told of when it does.
	p, err := regex(`(?<=a)b*`)
	if err != nil {
		t.Fatal(err)
	}
	if err := behavior("Isolated").cut(p)("xac", func(string) {}); err == nil || !strings.Contains(err.Error(), "empty text at byte") {
		t.Errorf("an empty match: %v", err)
	}
}
