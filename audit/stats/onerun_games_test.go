package stats

import (
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

// gaussianGame is a game of m fair coins with scores N(mu, 1) for members and
// N(0, 1) for others.
func gaussianGame(r *rand.Rand, m int, mu float64) audit.Scores {
	s := audit.Scores{Value: make([]float64, m), Member: make([]bool, m)}
	for i := range m {
		s.Value[i] = r.NormFloat64()
		if s.Member[i] = r.IntN(2) == 1; s.Member[i] {
			s.Value[i] += mu
		}
	}
	return s
}

// TestOneRunPower: 200 guesses of 1,000 canaries with independent Gaussian
// channels of mu = 1 are worth 2.3 on average, where ε is 4.377.
func TestOneRunPower(t *testing.T) {
	const games, m, half = 400, 1000, 100
	r := rand.New(rand.NewPCG(7, 8))
	sum := 0.0
	for range games {
		s := gaussianGame(r, m, 1)
		g, err := Count(s, half, half)
		if err != nil {
			t.Fatal(err)
		}
		sum += lowerOf(t, MahloujifarGDP{1e-5}, g, .05)
	}
	if mean := sum / games; !(mean >= 2.3) {
		t.Errorf("mean %v", mean)
	}
}
