package ibis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// table is Columns of a matrix, row by row.
type table struct {
	p, batch   int
	matrix     []float64
	transposed bool        // a planted fault
	asked      map[int]int // how often each column was
}

func (c *table) Batch() int { return c.batch }
func (c *table) Free()      {}

func (c *table) Columns(_ context.Context, js []int) ([][]float64, error) {
	out := make([][]float64, len(js))
	for n, j := range js {
		c.asked[j]++
		for i := range c.p {
			if c.transposed {
				out[n] = append(out[n], c.matrix[j*c.p+i])
			} else {
				out[n] = append(out[n], c.matrix[i*c.p+j])
			}
		}
	}
	return out, nil
}

// newTable is random influences that are not symmetric, half of them negative.
func newTable(p, batch int, seed uint64) (*table, []float64) {
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	c := &table{p: p, batch: batch, asked: map[int]int{}}
	self := make([]float64, p)
	for i := range p {
		for j := range p {
			v := r.NormFloat64()
			if i == j {
				v = 1 + math.Exp(r.NormFloat64())
				self[i] = v
			}
			c.matrix = append(c.matrix, v)
		}
	}
	return c, self
}

// bruteForce is the definition: at each step all ratios anew.
func bruteForce(c *table, self []float64, num int, clamp float64) []int {
	mean := 0.0
	for _, v := range self {
		mean += v / float64(len(self))
	}
	var chosen []int
	for len(chosen) < num {
		best, bestRatio := -1, math.Inf(-1)
		for i := range self {
			if slices.Contains(chosen, i) {
				continue
			}
			ratio := self[i]
			if len(chosen) > 0 {
				most := math.Inf(-1)
				for _, k := range chosen {
					most = max(most, c.matrix[i*c.p+k])
				}
				ratio /= max(most, clamp*mean)
			}
			if ratio > bestRatio {
				best, bestRatio = i, ratio
			}
		}
		chosen = append(chosen, best)
	}
	return chosen
}

func TestGreedyIsItsDefinition(t *testing.T) {
	ctx := context.Background()
	for _, s := range []struct{ p, num, batch int }{{1, 1, 4}, {2, 2, 1}, {9, 9, 4}, {40, 12, 7}, {150, 60, 32}, {150, 150, 200}} {
		for seed := range uint64(5) {
			c, self := newTable(s.p, s.batch, seed)
			got := must[[]int](t)(greedy(ctx, self, c, s.num, nil))
			want := bruteForce(c, self, s.num, 1e-6)
			if !slices.Equal(got, want) {
				t.Fatalf("p %d, num %d, batch %d, seed %d:\n got %v\nwant %v", s.p, s.num, s.batch, seed, got, want)
			}
			if s.p != 150 || s.num == s.p {
				continue
			}
			c.transposed = true
			if wrong := must[[]int](t)(greedy(ctx, self, c, s.num, nil)); slices.Equal(wrong, want) {
				t.Errorf("planted fault: rows for columns chose the same of %d", s.p)
			}
			if wrong := bruteForce(c, self, s.num, math.Inf(-1)); slices.Equal(wrong, want) {
				t.Errorf("planted fault: without clamp the choice is the same of %d", s.p)
			}
			if wrong := bruteForce(c, self, s.num, 1); slices.Equal(wrong, want) {
				t.Errorf("planted fault: a clamp of the whole mean makes the same choice of %d", s.p)
			}
		}
	}
}

// Columns that are dropped to save memory come back when they are needed.
func TestGreedyDropsColumns(t *testing.T) {
	c, self := newTable(1500, unusedColumns+100, 1)
	got := must[[]int](t)(greedy(context.Background(), self, c, 40, nil))
	if want := bruteForce(c, self, 40, 1e-6); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	again := 0
	for _, n := range c.asked {
		if n > 1 {
			again++
		}
	}
	if again == 0 {
		t.Error("no column was computed twice, so none was dropped: the test looks at nothing")
	}
}

// Rows are scores, columns memberships.
func TestMatrixIsNotTransposed(t *testing.T) {
	r := newRig(t, kernels.Reference(), newCloud(9, 3, 1, 2), models.MLP(2, 3))
	for _, batch := range []int{1, 4, 9, 20} {
		c, _ := newTable(9, batch, 1)
		if got := must[[]float64](t)(Matrix(context.Background(), tabled{c}, r.d)); !slices.Equal(got, c.matrix) {
			t.Errorf("in batches of %d the matrix is %v, expected %v", batch, got, c.matrix)
		}
	}
}

// tabled is an Influence of a table.
type tabled struct{ *table }

func (f tabled) Self(context.Context, *train.Data, Progress) ([]float64, error) { return nil, nil }

func (f tabled) Among(context.Context, *train.Data, []int) (Columns, error) { return f.table, nil }

func TestGreedyTiesAndFailures(t *testing.T) {
	ctx := context.Background()
	c, self := newTable(6, 2, 1)
	for i := range c.matrix {
		c.matrix[i] = 1
	}
	for i := range self {
		self[i] = 2
	}
	if got := must[[]int](t)(greedy(ctx, self, c, 6, nil)); !slices.Equal(got, firstN(6)) {
		t.Errorf("equal candidates were chosen in the order %v", got)
	}
	c.matrix[3*6] = math.NaN()
	if _, err := greedy(ctx, self, c, 2, nil); err == nil || !strings.Contains(err.Error(), "candidate 0 on 3 is NaN") {
		t.Errorf("an influence that is NaN: %v", err)
	}
	if _, err := greedy(ctx, self, broken{c}, 2, nil); !errors.Is(err, errBroken) {
		t.Errorf("columns that fail: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{ *table }

func (broken) Columns(context.Context, []int) ([][]float64, error) {
	return nil, fmt.Errorf("here: %w", errBroken)
}
