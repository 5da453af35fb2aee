package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSteinkeSlack: against the definition, and with what a wrong reading of it
// would give seen as wrong.
func TestSteinkeSlack(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	differed := 0
	for n := range 400 {
		r := 1 + rng.IntN(300)
		v := 1 + rng.IntN(r)
		q := .5 + rng.Float64()/2
		if n%4 == 0 { // where the cut is near the mode
			q = math.Max(.5, math.Min(1, (float64(v)+rng.Float64())/float64(r+1)))
		}
		best, sum, all := 0.0, 0.0, 0.0
		for i := 1; i <= v; i++ {
			sum += math.Exp(logBinomialPMF(v-i, r, q))
			best, all = math.Max(best, sum/float64(i)), sum/float64(v)
		}
		got := steinkeSlack(r, v, q)
		// Tails are good to 1e-12 and their difference is a thousandth of them or more.
		if !(math.Abs(got-best) <= 1e-9*best) {
			t.Errorf("r %d, v %d, q %v: %v, want %v", r, v, q, got, best)
		}
		if math.Abs(got-all) > 1e-6*got { // planted: the mean of all of them
			differed++
		}
	}
	if differed < 300 {
		t.Errorf("only %d of 400 cases tell the largest mean from the mean of all", differed)
	}
}
