package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// maxT is what MaxT must look like.
type maxT func(ctx context.Context, r Resampling, observed []float64, permute func(*rand.Rand, []float64) error) ([]float64, error)

// gaps fills in, for each column of x, the sum over the rows that are labelled.
func gaps(x [][]float64, label []bool, out []float64) {
	for j := range out {
		out[j] = 0
		for i, row := range x {
			if label[i] {
				out[j] += row[j]
			}
		}
	}
}

// shuffled is a permute function: gaps of x for labels in random order.
func shuffled(x [][]float64, label []bool) func(*rand.Rand, []float64) error {
	return func(rng *rand.Rand, out []float64) error {
		l := slices.Clone(label)
		rng.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		gaps(x, l, out)
		return nil
	}
}

// checkMaxT has 8 tests of 12 rows that no label has anything to do with, two
// of them nearly the same. With 19 permutations the smallest adjusted p-value
// is at most .1 with probability 2/20, with 4 never.
func checkMaxT(f maxT) error {
	for draws, want := range map[int]float64{19: .1, 4: 0} {
		if err := checkFalse(f, draws, want); err != nil {
			return fmt.Errorf("%d draws: %w", draws, err)
		}
	}
	return nil
}

func checkFalse(f maxT, draws int, want float64) error {
	const runs, alpha, rows, tests = 4000, .1, 12, 8
	rng := rand.New(rand.NewPCG(83, 89))
	label := make([]bool, rows)
	for i := range rows / 2 {
		label[i] = true
	}
	x := make([][]float64, rows)
	wrong := 0
	for run := range runs {
		for i := range x {
			x[i] = make([]float64, tests)
			for j := range x[i] {
				x[i][j] = rng.NormFloat64()
			}
			x[i][1] = x[i][0] + .1*x[i][1]
		}
		observed := make([]float64, tests)
		gaps(x, label, observed)
		p, err := f(context.Background(), Resampling{Draws: draws, Seed: uint64(run), Threads: 1}, observed, shuffled(x, label))
		if err != nil {
			return err
		}
		if !(slices.Min(p) > alpha) {
			wrong++
		}
	}
	if tol := 5 * math.Sqrt(want*(1-want)*runs); !(math.Abs(float64(wrong)-want*runs) <= tol) {
		return fmt.Errorf("false rejections in %d of %d runs, want %v ± %.0f", wrong, runs, want*runs, tol)
	}
	return nil
}

func TestMaxT(t *testing.T) {
	if err := checkMaxT(MaxT); err != nil {
		t.Error(err)
	}
}

// TestMaxTExact: six rows of one test have 20 labellings, of which one gives
// the observed sum; a second statistic that never varies is always beaten.
func TestMaxTExact(t *testing.T) {
	const draws = 20_000
	x := [][]float64{{6, 2}, {5, 2}, {4, 2}, {3, 2}, {2, 2}, {1, 2}}
	label := []bool{true, true, true, false, false, false}
	observed := make([]float64, 2)
	gaps(x, label, observed)
	seen := map[string]bool{}
	for _, threads := range []int{1, 2, 5} {
		p, err := MaxT(context.Background(), Resampling{Draws: draws, Seed: 3, Threads: threads}, observed, shuffled(x, label))
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(p)] = true
		// 6 = 2+2+2 is at most any sum of three
		if tol := 5 * math.Sqrt(.05*.95/draws); !(math.Abs(p[0]-.05) <= tol+1./draws) || p[1] != 1 {
			t.Errorf("p-values %v, want .05 ± %v and 1", p, tol)
		}
	}
	if len(seen) != 1 {
		t.Errorf("the number of threads changes p-values: %v", seen)
	}
	// No draw reaches what was observed: 1/(1+draws), never 0.
	p, err := MaxT(context.Background(), Resampling{Draws: 99}, []float64{1}, func(_ *rand.Rand, out []float64) error { out[0] = 0; return nil })
	if err != nil || p[0] != .01 {
		t.Errorf("%v, %v, want .01", p, err)
	}
}

func TestPlantedMaxTFaults(t *testing.T) {
	// count adjusts with the counts of draws that reach what was observed.
	count := func(reaches func(drawn []float64, j int, observed float64) bool, p func(reached, draws int) float64) maxT {
		return func(_ context.Context, r Resampling, observed []float64, permute func(*rand.Rand, []float64) error) ([]float64, error) {
			out, reached := make([]float64, len(observed)), make([]int, len(observed))
			for i := range r.Draws {
				if err := permute(rand.New(rand.NewPCG(r.Seed, uint64(i))), out); err != nil {
					return nil, err
				}
				for j, v := range observed {
					if reaches(out, j, v) {
						reached[j]++
					}
				}
			}
			for j := range out {
				out[j] = p(reached[j], r.Draws)
			}
			return out, nil
		}
	}
	byMax := func(drawn []float64, _ int, v float64) bool { return slices.Max(drawn) >= v }
	ofItsOwn := func(drawn []float64, j int, v float64) bool { return drawn[j] >= v }
	counted := func(reached, draws int) float64 { return float64(1+reached) / float64(1+draws) }
	if err := checkMaxT(count(byMax, counted)); err != nil {
		t.Errorf("without a fault: %v", err)
	}
	for name, f := range map[string]maxT{
		"each test by itself":  count(ofItsOwn, counted),
		"observed not counted": count(byMax, func(reached, draws int) float64 { return float64(reached) / float64(draws) }),
	} {
		if checkMaxT(f) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

func TestMaxTRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fill := func(v float64) func(*rand.Rand, []float64) error {
		return func(_ *rand.Rand, out []float64) error { out[0] = v; return nil }
	}
	failure := errors.New("no more rows")
	for _, c := range []struct {
		ctx      context.Context
		draws    int
		observed []float64
		permute  func(*rand.Rand, []float64) error
		want     string
	}{
		{context.Background(), 9, nil, fill(0), "no statistics"},
		{context.Background(), 9, []float64{math.NaN()}, fill(0), "statistic 0 is NaN"},
		{context.Background(), 0, []float64{1}, fill(0), "draws: 0"},
		{context.Background(), -1, []float64{1}, fill(0), "draws: -1"},
		{context.Background(), 9, []float64{1}, fill(math.NaN()), "statistic 0 is NaN"},
		{context.Background(), 9, []float64{1, 2}, fill(0), "statistic 1 is NaN"}, // left out
		{context.Background(), 9, []float64{1}, func(*rand.Rand, []float64) error { return failure }, "no more rows"},
		{ctx, 9, []float64{1}, fill(0), "canceled"},
	} {
		if _, err := MaxT(c.ctx, Resampling{Draws: c.draws}, c.observed, c.permute); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
