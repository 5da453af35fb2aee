package accounting

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPairSums: against sums of products, tails within the bound and by far; the
// two worlds do not mix, and what is beyond n comes back.
func TestPairSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	const n, width, terms = 1 << 10, 100, 5
	law := func() []float64 {
		p := make([]float64, width)
		sum := 0.0
		for i := range p {
			p[i] = math.Exp(3 * r.NormFloat64())
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	var worlds [2][][]float64
	for w := range worlds {
		for range terms {
			worlds[w] = append(worlds[w], law())
		}
	}
	a, b, rounding, err := PairSums(worlds[0], worlds[1], n)
	if err != nil {
		t.Fatal(err)
	}
	if !(rounding < 1e-10) {
		t.Errorf("rounding %v", rounding)
	}
	for w, got := range [][][]float64{a, b} {
		want := []float64{1}
		for k, p := range worlds[w] {
			next := make([]float64, len(want)+width-1)
			for i, x := range want {
				for j, y := range p {
					next[i+j] += x * y
				}
			}
			want = next
			tail, exact := 0.0, 0.0
			for i := n - 1; i >= 0; i-- {
				tail += got[k][i]
				if i < len(want) {
					exact += want[i]
				}
				if !(math.Abs(tail-exact) <= rounding) {
					t.Fatalf("world %d, %d terms: tail from %d is %v, expected %v ± %.1g", w, k+1, i, tail, exact, rounding)
				}
			}
		}
	}
	wrapped, _, _, err := PairSums([][]float64{{0, 0, 0, 1}, {0, 0, 1}}, [][]float64{{1}, {1}}, 4)
	if err != nil || !(math.Abs(wrapped[1][1]-1) < 1e-15) {
		t.Errorf("3 + 2 modulo 4: %v, %v", wrapped, err)
	}
}

func TestPairSumsRefuses(t *testing.T) {
	one := [][]float64{{1}}
	for want, call := range map[string]func() error{
		"as many of both":  func() error { _, _, _, err := PairSums(one, nil, 4); return err },
		"power of two":     func() error { _, _, _, err := PairSums(one, one, 3); return err },
		"probability -0.5": func() error { _, _, _, err := PairSums(one, [][]float64{{-.5}}, 4); return err },
		"probability NaN":  func() error { _, _, _, err := PairSums([][]float64{{math.NaN()}}, one, 4); return err },
		"numbers below 2":  func() error { _, _, _, err := PairSums([][]float64{{0, 0, 1}}, one, 2); return err },
		"a sum of 1.5":     func() error { _, _, _, err := PairSums([][]float64{{1, .5}}, one, 4); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
