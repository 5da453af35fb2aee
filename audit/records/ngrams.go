package records

import (
	"hash/fnv"
	"math"
	"runtime"
	"strings"
	"sync"
	"unicode"
)

// NGrams embeds texts without a model: words, pieces of words and their shapes
// are hashed into D numbers with a sign each (Weinberger et al. 2009), and the
// vector has length 1. It tells spellings and topics apart and knows no meaning:
// for audits where no encoder is at hand, which say so.
type NGrams struct{ D int }

// NGramsName is what reports call this embedder.
const NGramsName = "hashed n-grams (no neural encoder)"

// DefaultNGrams has as many dimensions as MiniLM.
func DefaultNGrams() NGrams { return NGrams{384} }

// Embed returns one row for each text; one without any word has only zeros.
func (n NGrams) Embed(texts []string) *Matrix {
	m := &Matrix{n.D, make([]float32, len(texts)*n.D)}
	parts := min(runtime.GOMAXPROCS(0), len(texts))
	var wait sync.WaitGroup
	for p := range parts {
		wait.Go(func() { n.embed(m, texts, len(texts)*p/parts, len(texts)*(p+1)/parts) })
	}
	wait.Wait()
	return m
}

// embed fills the rows from to to-1.
func (n NGrams) embed(m *Matrix, texts []string, from, to int) {
	sums := make([]float64, n.D)
	for i := from; i < to; i++ {
		clear(sums)
		n.add(sums, texts[i])
		square := 0.0
		for _, v := range sums {
			square += v * v
		}
		if square == 0 {
			continue
		}
		row, scale := m.Row(i), 1/math.Sqrt(square)
		for j, v := range sums {
			row[j] = float32(v * scale)
		}
	}
}

// add sums the features of a text: each word counts 1 as it is, ½ by its shape,
// and its pieces of 3 to 5 letters 1 together.
func (n NGrams) add(sums []float64, text string) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' })
	for _, w := range words {
		n.feature(sums, "s:"+shape(w), .5)
		lower := strings.ToLower(w)
		n.feature(sums, "w:"+lower, 1)
		letters := []rune("^" + lower + "$")
		var pieces []string
		for size := 3; size <= 5; size++ {
			for i := 0; i+size <= len(letters); i++ {
				pieces = append(pieces, string(letters[i:i+size]))
			}
		}
		for _, p := range pieces {
			n.feature(sums, "p:"+p, 1/math.Sqrt(float64(len(pieces))))
		}
	}
}

func (n NGrams) feature(sums []float64, name string, weight float64) {
	h := fnv.New64a()
	h.Write([]byte(name))
	v := h.Sum64()
	// FNV's low bits are weak: mix as in MurmurHash3's finaliser.
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	if v>>63 == 1 {
		weight = -weight
	}
	sums[int(v%uint64(n.D))] += weight
}

// shape has a letter for each run of capitals, of small letters and of digits.
func shape(word string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range word {
		kind := 'x'
		switch {
		case unicode.IsDigit(r):
			kind = 'd'
		case unicode.IsUpper(r):
			kind = 'X'
		}
		if kind != last {
			b.WriteRune(kind)
			last = kind
		}
	}
	return b.String()
}
