package pe

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aviary-audit/aviary/audit/records"
)

func TestNonceTexts(t *testing.T) {
	format := regexp.MustCompile(`^[A-Z2-7]{6}(-[A-Z2-7]{6}){4}$`)
	seen := map[string]bool{}
	for _, purpose := range []int{nonceCanary, noncePool} {
		for c := range 3 {
			for _, s := range nonceTexts(1, purpose, c, 200) {
				if !format.MatchString(s) {
					t.Fatalf("%q", s)
				}
				if seen[s] {
					t.Fatalf("%q twice", s)
				}
				seen[s] = true
			}
		}
	}
	if nonceTexts(1, noncePool, 0, 1)[0] != nonceTexts(1, noncePool, 0, 5)[0] || nonceTexts(2, noncePool, 0, 1)[0] == nonceTexts(1, noncePool, 0, 1)[0] {
		t.Error("nonces do not follow from the seed")
	}
}

// TestRewrite: no variant is the text itself, they differ, keep it near, and
// nothing breaks on odd texts.
func TestRewrite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	text := "I bought this because my doctor said it works. The side effects were bad, however! Would I use it again? Maybe."
	seen := map[string]bool{}
	e := records.DefaultNGrams()
	x := e.Embed([]string{text}).Row(0)
	for range 8 {
		s := Rewrite(text, r)
		if s == text {
			t.Errorf("%q is verbatim", s)
		}
		seen[s] = true
		if d := sqDist(x, e.Embed([]string{s}).Row(0)); !(d < 1.2) {
			t.Errorf("%q is at a squared distance of %v", s, d)
		}
	}
	if len(seen) < 6 {
		t.Errorf("%d different variants of 8", len(seen))
	}
	for _, odd := range []string{"", " ", "a", "…", "NASA", "東京。", "\xff\xfe bad", "'", "good", "Élan vital. Good."} {
		s := Rewrite(odd, r)
		if s == odd || strings.TrimSpace(s) == "" && odd != "" {
			t.Errorf("%q became %q", odd, s)
		}
		if utf8.ValidString(odd) && !utf8.ValidString(s) {
			t.Errorf("%q became %q", odd, s)
		}
	}
}
