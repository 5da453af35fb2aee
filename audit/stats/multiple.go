package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Holm adjusts p-values for the number of tests: rejecting those whose adjusted
// value is at most alpha keeps the chance of any false rejection at alpha,
// however the tests depend on each other (Holm, Scandinavian Journal of
// Statistics 6, 1979). The k-th smallest of m becomes the largest of
// (m-j+1)·p_(j), j <= k, and at most 1. The result is in the order of p.
func Holm(p []float64) ([]float64, error) {
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("stats: p-value %d is %v, expected 0 to 1", i, v)
		}
	}
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if p[i] < p[j] {
			return -1
		} else if p[i] > p[j] {
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	largest := 0.0
	for k, i := range order {
		largest = max(largest, min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = largest
	}
	return adjusted, nil
}

// Correlation is a sample correlation R of N independent pairs. The methods
// take artanh R to be normal with variance 1/(N-3) (Fisher, Metron 1, 1921),
// which is right for large N and for normal pairs good from some ten on; for
// rank correlations it is an approximation.
type Correlation struct {
	R float64
	N int
}

func (c Correlation) check() error {
	if !(c.R > -1 && c.R < 1) {
		return fmt.Errorf("stats: correlation: %v, expected a number between -1 and 1", c.R)
	}
	if c.N < 4 {
		return fmt.Errorf("stats: correlation of %d pairs, expected 4 or more", c.N)
	}
	return nil
}

// Test is the two-sided p-value of the hypothesis that the true correlation is
// rho.
func (c Correlation) Test(rho float64) (float64, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	if !(rho > -1 && rho < 1) {
		return 0, fmt.Errorf("stats: hypothesis: correlation %v, expected a number between -1 and 1", rho)
	}
	return twoSided((math.Atanh(c.R) - math.Atanh(rho)) * math.Sqrt(float64(c.N-3))), nil
}

// Interval is a two-sided interval of the true correlation at confidence
// 1-alpha.
func (c Correlation) Interval(alpha float64) (Estimate, error) {
	if err := checkAlpha(alpha); err != nil {
		return Estimate{}, err
	}
	if err := c.check(); err != nil {
		return Estimate{}, err
	}
	z, half := math.Atanh(c.R), -mathext.NormalQuantile(alpha/2)/math.Sqrt(float64(c.N-3))
	return Estimate{c.R, math.Tanh(z - half), math.Tanh(z + half)}, nil
}

// PoolCorrelations is the common correlation of independent samples: the mean
// of artanh R weighted by N-3, whose variance is that of one sample with as
// many degrees, N-3 = Σ(N_i-3). The result takes Test and Interval.
func PoolCorrelations(samples []Correlation) (Correlation, error) {
	sum, degrees := 0.0, 0
	for i, c := range samples {
		if err := c.check(); err != nil {
			return Correlation{}, fmt.Errorf("sample %d: %w", i, err)
		}
		sum += float64(c.N-3) * math.Atanh(c.R)
		degrees += c.N - 3
	}
	if degrees == 0 {
		return Correlation{}, fmt.Errorf("stats: no correlations to pool")
	}
	return Correlation{math.Tanh(sum / float64(degrees)), degrees + 3}, nil
}

// CompareCorrelations is the difference a - b of the correlations of two
// independent samples with an interval at confidence 1-alpha, and the two-sided
// p-value of no difference. The test is Fisher's; the interval is put together
// from those of a and b, so that it stays within [-2, 2] and need not be
// symmetric (Zou, Psychological Methods 12, 2007).
func CompareCorrelations(a, b Correlation, alpha float64) (difference Estimate, p float64, err error) {
	x, err := a.Interval(alpha)
	if err != nil {
		return Estimate{}, 0, err
	}
	y, err := b.Interval(alpha)
	if err != nil {
		return Estimate{}, 0, err
	}
	d := a.R - b.R
	difference = Estimate{
		Value: d,
		Low:   d - math.Hypot(a.R-x.Low, y.High-b.R),
		High:  d + math.Hypot(x.High-a.R, b.R-y.Low),
	}
	se := math.Sqrt(1/float64(a.N-3) + 1/float64(b.N-3))
	return difference, twoSided((math.Atanh(a.R) - math.Atanh(b.R)) / se), nil
}

// twoSided is P[|N(0,1)| >= |z|].
func twoSided(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }
