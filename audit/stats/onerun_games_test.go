package stats

import (
	"math/rand/v2"

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
