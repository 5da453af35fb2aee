package stats

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MaxT adjusts many tests at once by permutation: observed has one statistic
// per test, large where the null hypothesis is doubtful, and permute fills in
// the same statistics for data whose labels have been shuffled by rng. The
// adjusted p-value of test j is
//
//	(1 + #{draws whose largest statistic is at least observed[j]}) / (1 + draws),
//
// the single-step max-T procedure (Westfall and Young, "Resampling-Based
// Multiple Testing", 1993, chapter 2), with the observed data counted among
// the permutations, so that it is valid for any number of draws (Phipson and
// Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010).
// All tests must be computed from the same shuffle, and bring their own scale:
// the maximum listens to the statistic that varies most. Under the joint null
// hypothesis the smallest of the p-values is valid as it stands.
//
// permute is called from several goroutines.
func MaxT(ctx context.Context, r Resampling, observed []float64, permute func(rng *rand.Rand, statistics []float64) error) ([]float64, error) {
	if len(observed) == 0 {
		return nil, fmt.Errorf("stats: no statistics to test")
	}
	for j, v := range observed {
		if math.IsNaN(v) {
			return nil, fmt.Errorf("stats: statistic %d is NaN", j)
		}
	}
	largest := make([]float64, max(r.Draws, 0))
	err := r.run(ctx, func() func(int, *rand.Rand) error {
		statistics := make([]float64, len(observed))
		return func(i int, rng *rand.Rand) error {
			for j := range statistics {
				statistics[j] = math.NaN()
			}
			if err := permute(rng, statistics); err != nil {
				return err
			}
			for j, v := range statistics {
				if math.IsNaN(v) {
					return fmt.Errorf("statistic %d is NaN", j)
				}
			}
			largest[i] = slices.Max(statistics)
			return nil
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(largest)
	p := make([]float64, len(observed))
	for j, v := range observed {
		below, _ := slices.BinarySearch(largest, v)
		p[j] = float64(1+len(largest)-below) / float64(1+len(largest))
	}
	return p, nil
}
