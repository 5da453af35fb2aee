package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// binomialUpper is P[X >= k] for X of n trials with success probability p.
func binomialUpper(k, n int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// binomialLower is P[X <= k] for X of n trials with success probability p.
func binomialLower(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// logBinomialPMF is ln P[X = k] for X of n trials with success probability p.
func logBinomialPMF(k, n int, p float64) float64 {
	switch {
	case k < 0 || k > n:
		return math.Inf(-1)
	case p <= 0 || p >= 1:
		if (p <= 0 && k == 0) || (p >= 1 && k == n) {
			return 0
		}
		return math.Inf(-1)
	}
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
}

// clopperPearsonLower is the largest p with P[X >= x] <= alpha: a lower bound
// on the success probability, after x successes in n trials, that is above the
// truth with probability at most alpha (Clopper and Pearson 1934).
func clopperPearsonLower(x, n int, alpha float64) float64 {
	if x <= 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(x), float64(n-x+1), alpha)
}

// clopperPearsonUpper is the smallest p with P[X <= x] <= alpha.
func clopperPearsonUpper(x, n int, alpha float64) float64 {
	if x >= n {
		return 1
	}
	return mathext.InvRegIncBeta(float64(x+1), float64(n-x), 1-alpha)
}
