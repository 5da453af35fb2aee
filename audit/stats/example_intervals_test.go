package stats_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// No false positive in a million runs still leaves room for one in 270,000.
func ExampleBinomialInterval() {
	low, high, err := stats.BinomialInterval(0, 1_000_000, .05)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%v to %.4g\n", low, high)
	// Output: 0 to 3.689e-06
}

// Two proxies are tried on one release: labels are shuffled for both at once,
// so that the better one's p-value pays for the choice.
func ExampleMaxT() {
	member := []bool{true, true, true, true, false, false, false, false}
	proxies := [][]float64{{9, 8, 7, 6, 5, 4, 3, 2}, {7, 5, 2, 6, 3, 1, 4, 0}}
	aucs := func(member []bool, out []float64) error {
		for j, value := range proxies {
			auc, err := stats.AUC(audit.Scores{Value: value, Member: member})
			if err != nil {
				return err
			}
			out[j] = auc
		}
		return nil
	}
	observed := make([]float64, len(proxies))
	if err := aucs(member, observed); err != nil {
		fmt.Println(err)
	}
	p, err := stats.MaxT(context.Background(), stats.Resampling{Draws: 9999, Seed: 1}, observed,
		func(rng *rand.Rand, out []float64) error {
			shuffled := make([]bool, len(member))
			for i, j := range rng.Perm(len(member)) {
				shuffled[i] = member[j]
			}
			return aucs(shuffled, out)
		})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("AUC %.2f: p = %.2f; AUC %.2f: p = %.2f\n", observed[0], p[0], observed[1], p[1])
	// Output: AUC 1.00: p = 0.03; AUC 0.88: p = 0.08
}
