package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestShuffle: every epoch sees every example once, each in an order of its
// own, and the last batch is what is left.
func TestShuffle(t *testing.T) {
	cfg := Config{Epochs: 2, Batch: 8, Seed: 1}
	s := newSampler(cfg, 21)
	var epochs [2][]int
	for step := range 6 {
		b := s.batch(step)
		if want := []int{8, 8, 5}[step%3]; len(b) != want {
			t.Errorf("step %d has %d examples, want %d", step, len(b), want)
		}
		epochs[step/3] = append(epochs[step/3], b...)
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs have one order")
	}
	late := slices.Clone(newSampler(cfg, 21).batch(4))
	if !slices.Equal(late, epochs[1][8:16]) {
		t.Error("a step's batch depends on the steps before")
	}
	for _, e := range epochs {
		slices.Sort(e)
		for i, example := range e {
			if i != example {
				t.Fatalf("an epoch's examples are %v", e)
			}
		}
	}
}

// independent returns an error unless the sampler's examples look like
// independent coins: each example, and each pair of neighbours, as often as it
// should, within five standard deviations (a right sampler fails one of the
// 2n comparisons less than once in 20,000 runs).
func independent(n int, q float64, sample func(step int) []int) error {
	const steps = 20000
	single, pair := make([]float64, n), make([]float64, n)
	for step := range steps {
		last := -2
		for _, i := range sample(step) {
			if i <= last && last >= 0 || i < 0 || i >= n {
				return fmt.Errorf("example %d after %d", i, last)
			}
			single[i]++
			if i == last+1 {
				pair[i]++
			}
			last = i
		}
	}
	for i := range n {
		if err := frequency(single[i], steps, q); err != nil {
			return fmt.Errorf("example %d: %w", i, err)
		}
		if i == 0 {
			continue
		}
		if err := frequency(pair[i], steps, q*q); err != nil {
			return fmt.Errorf("examples %d and %d together: %w", i-1, i, err)
		}
	}
	return nil
}

func frequency(count, of, p float64) error {
	if d := math.Abs(count - of*p); !(d <= 5*math.Sqrt(of*p*(1-p))) {
		return fmt.Errorf("chosen %v times of %v, with probability %v", count, of, p)
	}
	return nil
}

func TestPoisson(t *testing.T) {
	const n = 12
	for _, q := range []float64{0.02, 0.3, 0.9, 1} {
		err := independent(n, q, func(step int) []int { return poisson(nil, 5, step, n, q) })
		if err != nil {
			t.Errorf("q = %v: %v", q, err)
		}
	}
	// Planted: a first gap that cannot be zero, gaps that never leave
	// neighbours, and a sample of fixed size.
	r := rand.New(rand.NewPCG(1, 1))
	for name, wrong := range map[string]func(step int) []int{
		"never the first": func(step int) []int {
			return slices.DeleteFunc(poisson(nil, 5, step, n, 0.3), func(i int) bool { return i == 0 })
		},
		"never neighbours": func(step int) []int { return slices.Compact(halve(poisson(nil, 5, step, n, 0.3))) },
		"fixed size": func(int) []int {
			s := r.Perm(n)[:4]
			slices.Sort(s)
			return s
		},
	} {
		if independent(n, 0.3, wrong) == nil {
			t.Errorf("planted sampler passed: %s", name)
		}
	}
	if got := poisson(nil, 1, 0, 1000, 1e-300); len(got) != 0 {
		t.Errorf("a tiny rate chose %v", got)
	}
}

func halve(s []int) []int {
	for i := range s {
		s[i] = s[i] / 2 * 2
	}
	return s
}
