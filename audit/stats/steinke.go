package stats

import (
	"math"
	"sort"
)

// Steinke is the bound of Steinke, Nasr and Jagielski 2023, theorem 5.2 (code in
// their appendix D): a mechanism that is (ε, δ)-DP lets any attack guess r of m
// independent fair coins so that, with q = 1/(1+e^-ε) and B ~ Bin(r, q),
//
//	P[correct >= v] <= P[B >= v] + 2 m δ max_{i=1..v} P[v-i <= B < v]/i.
//
// With δ = 0 the second term is absent. It holds whatever the mechanism, also
// where one canary's fate tells of another's.
type Steinke struct{ Delta float64 }

// Name implements Estimator.
func (Steinke) Name() string { return "steinke" }

// Scope implements Estimator.
func (Steinke) Scope() Scope { return ModelFree }

// Assumption implements Estimator.
func (Steinke) Assumption() string { return "independent fair coins" }

// AtDelta implements Estimator.
func (s Steinke) AtDelta() float64 { return s.Delta }

// PValue implements Estimator.
func (s Steinke) PValue(g Guesses, eps float64) (float64, error) {
	if err := checkGuesses(g, s.Delta, eps); err != nil {
		return 0, err
	}
	q := 1 / (1 + math.Exp(-eps))
	p := binomialUpper(g.Correct, g.Guessed, q)
	if s.Delta > 0 && g.Correct > 0 {
		p += 2 * float64(g.Canaries) * s.Delta * steinkeSlack(g.Guessed, g.Correct, q)
	}
	return math.Min(1, p), nil
}

// steinkeSlack is max_{i=1..v} P[v-i <= B < v]/i for B ~ Bin(r, q): the largest
// mean of the probabilities of v-1, v-2, ..., v-i.
//
// Probabilities grow down to the mode and fall below it. So the mean grows with i
// while the next probability is above it, and never again once one is not: the
// first i at which that happens has the largest mean, and is found by halving.
func steinkeSlack(r, v int, q float64) float64 {
	mode := int(float64(r+1) * q)
	if v-1 <= mode {
		return math.Exp(logBinomialPMF(v-1, r, q))
	}
	above := binomialUpper(v, r, q)
	mean := func(i int) float64 { return (binomialUpper(v-i, r, q) - above) / float64(i) }
	first := v - mode // i that reaches down to the mode
	return mean(first + sort.Search(v-first, func(j int) bool {
		i := first + j
		return math.Exp(logBinomialPMF(v-i-1, r, q)) <= mean(i)
	}))
}

// Lower implements Estimator.
func (s Steinke) Lower(g Guesses, alpha float64) (float64, error) {
	return lowerByPValue(s, g, alpha)
}

// maxEps is where searches for ε end: e^-700 is about the smallest float.
const maxEps = 700

// lowerByPValue is the largest eps whose p-value is below alpha.
func lowerByPValue[D any](e Estimator[D], d D, alpha float64) (float64, error) {
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	return largestRejected(maxEps, boundTol, func(eps float64) (bool, error) {
		p, err := e.PValue(d, eps)
		return p < alpha, err
	})
}

// checkGuesses refuses impossible arguments of a one-run test.
func checkGuesses(g Guesses, delta, eps float64) error {
	if err := g.Check(); err != nil {
		return err
	}
	if err := checkDelta(delta); err != nil {
		return err
	}
	return checkEps(eps)
}
