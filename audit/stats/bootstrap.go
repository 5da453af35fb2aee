package stats

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit"
)

// Statistic is a figure of scores. It is called from several goroutines, must
// not keep or change the slices, and says that it cannot be computed by NaN.
type Statistic func(audit.Scores) float64

// BootstrapPercentile is a statistic with its bootstrap percentile interval at
// confidence 1-alpha (Efron and Tibshirani, "An Introduction to the Bootstrap",
// 1993, chapter 13). Members and non-members are drawn anew each on their own
// side, as many as there are. The ends are draws, of rank (B+1)·alpha/2 from
// either end, and at least 2/alpha - 1 draws are needed.
func BootstrapPercentile(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error) {
	value, draws, err := bootstrap(ctx, r, s, f, alpha)
	if err != nil {
		return Estimate{}, err
	}
	return Estimate{value, rankFromBelow(draws, alpha/2), rankFromAbove(draws, alpha/2)}, nil
}

// BootstrapBCa is BootstrapPercentile corrected for bias and acceleration
// (Efron, Journal of the American Statistical Association 82, 1987): the ranks
// of the ends are moved to
//
//	Φ(z0 + (z0 ± z)/(1 - a(z0 ± z))),
//
// with z0 the normal quantile of the share of draws below the value (a tie
// counts half), and a from the jackknife of both sides (Davison and Hinkley,
// "Bootstrap Methods and their Application", 1997, section 5.3), which takes one
// evaluation of the statistic per candidate. Two of each side are needed, and
// draws on both sides of the value.
func BootstrapBCa(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error) {
	value, draws, err := bootstrap(ctx, r, s, f, alpha)
	if err != nil {
		return Estimate{}, err
	}
	a, err := acceleration(ctx, s, f)
	if err != nil {
		return Estimate{}, err
	}
	z0 := mathext.NormalQuantile(shareBelow(draws, value))
	if math.IsInf(z0, 0) {
		return Estimate{}, fmt.Errorf("stats: all %d draws are on one side of the value %v: no bias correction exists", len(draws), value)
	}
	low, high := correctedTails(z0, a, alpha)
	return Estimate{value, rankFromBelow(draws, low), rankFromAbove(draws, high)}, nil
}

// shareBelow is the share of draws below value, where those that equal it count
// half.
func shareBelow(sorted []float64, value float64) float64 {
	below, _ := slices.BinarySearch(sorted, value)
	upTo, _ := slices.BinarySearch(sorted, math.Nextafter(value, inf))
	return float64(below+upTo) / 2 / float64(len(sorted))
}

// correctedTails is the shares of draws below and above the BCa interval.
func correctedTails(z0, a, alpha float64) (low, high float64) {
	moved := func(z float64) float64 {
		w := z0 + z
		if !(1-a*w > 0) { // beyond the pole the formula turns back
			return math.Copysign(inf, w)
		}
		return z0 + w/(1-a*w)
	}
	z := -mathext.NormalQuantile(alpha / 2)
	return normalBelow(moved(-z)), normalBelow(-moved(z))
}

// normalBelow is P[N(0,1) < x].
func normalBelow(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// rankFromBelow is the draw with about the share p of draws below it, and
// rankFromAbove with that share above it; the rank is rounded outwards, and the
// outermost draw stands for all beyond. The factor takes up the rounding of p,
// which must not cost a rank.
func rankFromBelow(sorted []float64, p float64) float64 {
	n := len(sorted)
	return sorted[min(max(int(p*float64(n+1)*(1+1e-12))-1, 0), n-1)]
}

func rankFromAbove(sorted []float64, p float64) float64 {
	n := len(sorted)
	return sorted[n-1-min(max(int(p*float64(n+1)*(1+1e-12))-1, 0), n-1)]
}

// bootstrap is f of s and, sorted, of draws from s.
func bootstrap(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (value float64, draws []float64, err error) {
	if err := checkAlpha(alpha); err != nil {
		return 0, nil, err
	}
	if err := s.Check(); err != nil {
		return 0, nil, err
	}
	if !(float64(r.Draws+1)*alpha/2 >= 1-1e-12) {
		return 0, nil, fmt.Errorf("stats: draws: %d, expected %.0f or more at alpha = %v", r.Draws, math.Ceil(2/alpha-1-1e-9), alpha)
	}
	if value = f(s); math.IsNaN(value) {
		return 0, nil, fmt.Errorf("stats: the statistic of the scores is NaN")
	}
	sides := split(s)
	draws = make([]float64, r.Draws)
	err = r.run(ctx, func() func(int, *rand.Rand) error {
		d := audit.Scores{Value: make([]float64, len(s.Value)), Member: make([]bool, len(s.Value))}
		return func(i int, rng *rand.Rand) error {
			k := 0
			for side, values := range sides {
				for range values {
					d.Value[k], d.Member[k] = values[rng.IntN(len(values))], side == 0
					k++
				}
			}
			if draws[i] = f(d); math.IsNaN(draws[i]) {
				return fmt.Errorf("the statistic is NaN")
			}
			return nil
		}
	})
	slices.Sort(draws)
	return value, draws, err
}

// split is the scores of the members and those of the others.
func split(s audit.Scores) [2][]float64 {
	var sides [2][]float64
	for i, v := range s.Value {
		if s.Member[i] {
			sides[0] = append(sides[0], v)
		} else {
			sides[1] = append(sides[1], v)
		}
	}
	return sides
}

// acceleration is a = Σ Σ l³/n³ / 6(Σ Σ l²/n²)^(3/2), the sums over both sides
// and their n candidates, l being a candidate's influence by the jackknife; 0
// where nobody has any.
func acceleration(ctx context.Context, s audit.Scores, f Statistic) (float64, error) {
	sides := split(s)
	var squares, cubes float64
	for side, values := range sides {
		n := len(values)
		if n < 2 {
			return 0, fmt.Errorf("stats: %d members and %d non-members: the jackknife needs 2 of each", len(sides[0]), len(sides[1]))
		}
		without := make([]float64, n)
		for i := range values {
			if err := context.Cause(ctx); err != nil {
				return 0, err
			}
			d := audit.Scores{}
			for other, vs := range sides {
				for j, v := range vs {
					if other != side || j != i {
						d.Value, d.Member = append(d.Value, v), append(d.Member, other == 0)
					}
				}
			}
			if without[i] = f(d); math.IsNaN(without[i]) {
				return 0, fmt.Errorf("stats: the statistic is NaN without one of the candidates")
			}
		}
		m := mean(without)
		for _, v := range without {
			l := float64(n-1) / float64(n) * (m - v)
			squares += l * l
			cubes += l * l * l
		}
	}
	if squares == 0 {
		return 0, nil
	}
	return cubes / 6 / math.Pow(squares, 1.5), nil
}
