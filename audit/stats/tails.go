package stats

import (
	"fmt"
	"math"
)

// binomialUpper is P[X >= k] for X of n trials with success probability p, to
// a relative 1e-12 for n up to 1e9 and results down to 1e-300; NaN if p is.
func binomialUpper(k, n int, p float64) float64 {
	switch {
	case math.IsNaN(p):
		return p
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return newBeta(float64(k), float64(n-k+1)).below(p, 1-p)
}

// binomialLower is P[X <= k], as precise as binomialUpper.
func binomialLower(k, n int, p float64) float64 {
	switch {
	case math.IsNaN(p):
		return p
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return newBeta(float64(n-k), float64(k+1)).below(1-p, p)
}

// logBinomialPMF is ln P[X = k], in Loader's saddle-point form (2000): no
// factorial is formed, so nothing cancels. NaN if p is.
func logBinomialPMF(k, n int, p float64) float64 {
	switch {
	case math.IsNaN(p):
		return p
	case k < 0 || k > n:
		return math.Inf(-1)
	case p <= 0 || p >= 1:
		if (p <= 0 && k == 0) || (p >= 1 && k == n) {
			return 0
		}
		return math.Inf(-1)
	case k == 0:
		return float64(n) * math.Log1p(-p)
	case k == n:
		return float64(n) * math.Log(p)
	}
	// P[X = k] = w(p) · n / (k (n-k)) with the weight of the beta law (k, n-k).
	l := newBeta(float64(k), float64(n-k))
	return l.logWeight(p, 1-p, l.slope(p, 1-p)) + math.Log(float64(n)/(float64(k)*float64(n-k)))
}

// clopperPearsonLower is the largest p with P[X >= x] <= alpha: a lower bound
// on the success probability, after x successes in n trials, that is above the
// truth with probability at most alpha (Clopper and Pearson 1934). A level of 0
// or less gives 0, of 1 or more 1, and NaN gives NaN.
func clopperPearsonLower(x, n int, alpha float64) float64 {
	low, _ := clopperPearson(x, n, alpha)
	return low
}

// clopperPearsonUpper is the smallest p with P[X <= x] <= alpha. A level of 0
// or less gives 1, of 1 or more 0, and NaN gives NaN.
func clopperPearsonUpper(x, n int, alpha float64) float64 {
	_, high := clopperPearson(n-x, n, alpha) // the failures, seen from below
	return high
}

// clopperPearson is the largest p with P[X >= x] <= alpha, and 1-p.
func clopperPearson(x, n int, alpha float64) (p, q float64) {
	switch {
	case math.IsNaN(alpha):
		return alpha, alpha
	case x <= 0 || alpha <= 0:
		return 0, 1
	case x > n || alpha >= 1:
		return 1, 0
	case x == 1: // 1 - q^n = alpha
		t := math.Log1p(-alpha) / float64(n)
		return -math.Expm1(t), math.Exp(t)
	case x == n: // p^n = alpha
		t := math.Log(alpha) / float64(n)
		return math.Exp(t), -math.Expm1(t)
	}
	return newBeta(float64(x), float64(n-x+1)).quantile(alpha)
}

// BinomialInterval is the two-sided Clopper-Pearson interval of a success
// probability after x successes in n independent trials: each side misses the
// truth with probability at most alpha/2, whatever the truth is (Clopper and
// Pearson, "The use of confidence or fiducial limits illustrated in the case of
// the binomial", Biometrika 26, 1934).
func BinomialInterval(x, n int, alpha float64) (low, high float64, err error) {
	if n < 1 {
		return 0, 0, fmt.Errorf("stats: trials: %d, expected 1 or more", n)
	}
	if x < 0 || x > n {
		return 0, 0, fmt.Errorf("stats: successes: %d, expected 0 to the %d trials", x, n)
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, 0, err
	}
	return clopperPearsonLower(x, n, alpha/2), clopperPearsonUpper(x, n, alpha/2), nil
}
