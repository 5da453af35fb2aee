package ibis

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// Selection says how canaries are chosen among the training examples.
type Selection struct {
	// Order is how they are chosen among the preselected:
	//
	//	"greedy"          detectable and far from each other, see Select
	//	"self-influence"  those with the largest self-influence
	//	"random"          any
	Order string
	// Preselect is p: how many examples, those with the largest self-influence,
	// there are to choose from.
	Preselect int
	// Damping of the curvature, relative to its mean eigenvalue; see KFAC, EKFAC.
	Damping float64
	// Curvature is "kfac" or "ekfac".
	Curvature string
}

// DefaultSelection is the recipe for MNIST.
func DefaultSelection() Selection {
	return Selection{Order: "greedy", Preselect: 10000, Damping: 0.1, Curvature: "kfac"}
}

// Chosen is canaries in the order of their choice.
type Chosen struct {
	Indices []int     // of the training examples, [num]
	Self    []float64 // their self-influence, [num]
	// Influence is [num, num], row by row: row i, column j is the influence that
	// the membership of Indices[j] has on the score of Indices[i].
	Influence []float64
}

// Validate returns an error, naming the setting and its value, unless s can
// choose num of n examples.
func (s Selection) Validate(num, n int) error {
	if !slices.Contains([]string{"greedy", "self-influence", "random"}, s.Order) {
		return fmt.Errorf("ibis: order is %q, expected greedy, self-influence or random", s.Order)
	}
	if s.Curvature != "kfac" && s.Curvature != "ekfac" {
		return fmt.Errorf("ibis: curvature is %q, expected kfac or ekfac", s.Curvature)
	}
	if s.Preselect < 1 || s.Preselect > n {
		return fmt.Errorf("ibis: preselect is %d, expected 1 to %d, the number of training examples", s.Preselect, n)
	}
	if num < 1 || num > s.Preselect {
		return fmt.Errorf("ibis: %d canaries, expected 1 to %d, the number of preselected examples", num, s.Preselect)
	}
	return checkDamping(s.Damping)
}

// Select chooses num canaries among the examples d that m was trained on. The
// greedy order is Algorithm 2 of IBIS: the largest self-influence first, and
// then again and again the example whose self-influence is largest relative to
// the largest influence that any of the chosen has on it. Influences that are
// negative or tiny count as 1e-6 of the mean self-influence of the preselected.
//
// The choice depends on the model, the data, s and the seed, and not on the
// number of threads.
func Select(ctx context.Context, m *models.Model, d *train.Data, num int, s Selection, seed uint64, progress func(done, total int)) (*Chosen, error) {
	c, f, err := selectBy(ctx, m, d, num, s, seed, progress)
	if f != nil {
		f.Free()
	}
	return c, err
}

// selectBy is Select, and returns the influence that it went by; the caller
// frees it.
func selectBy(ctx context.Context, m *models.Model, d *train.Data, num int, s Selection, seed uint64, progress func(done, total int)) (*Chosen, Influence, error) {
	if err := s.Validate(num, d.Len()); err != nil {
		return nil, nil, err
	}
	// Units of progress: examples that pass, and columns of influences.
	n, estimate, curvature := d.Len(), d.Len(), KFAC
	if s.Curvature == "ekfac" {
		estimate, curvature = 2*d.Len(), EKFAC
	}
	tell, total := Progress(progress), estimate+n+2*num
	f, err := curvature(ctx, m, d, s.Damping, Fisher{Seed: seed}, tell.part(0, total))
	if err != nil {
		return nil, nil, err
	}
	self, err := f.Self(ctx, d, tell.part(estimate, total))
	if err != nil {
		return nil, f, err
	}
	top, err := largest(self, s.Preselect)
	if err != nil {
		return nil, f, err
	}
	c := &Chosen{}
	if c.Indices, err = s.choose(ctx, f, d, self, top, num, seed, tell.part(estimate+n, total)); err != nil {
		return nil, f, err
	}
	for _, e := range c.Indices {
		c.Self = append(c.Self, self[e])
	}
	c.Influence, err = among(ctx, f, d, c.Indices, tell.part(estimate+n+num, total))
	return c, f, err
}

// choose returns num of the examples top, which are in descending order of
// their self-influence.
func (s Selection) choose(ctx context.Context, f Influence, d *train.Data, self []float64, top []int, num int, seed uint64, progress Progress) ([]int, error) {
	picks := make([]int, num) // positions in top
	switch s.Order {
	case "self-influence":
		for i := range picks {
			picks[i] = i
		}
	case "random":
		copy(picks, rng.New(seed, rng.Pick).Perm(len(top)))
	default:
		cols, err := f.Among(ctx, d, top)
		if err != nil {
			return nil, err
		}
		defer cols.Free()
		of := make([]float64, len(top))
		for i, e := range top {
			of[i] = self[e]
		}
		if picks, err = greedy(ctx, of, cols, num, progress); err != nil {
			return nil, err
		}
	}
	for i, k := range picks {
		picks[i] = top[k]
	}
	progress.tell(num, num)
	return picks, nil
}

// largest is the p examples with the largest figures, in descending order; of
// equal ones the first.
func largest(self []float64, p int) ([]int, error) {
	order := make([]int, len(self))
	for i, v := range self {
		if v-v != 0 {
			return nil, fmt.Errorf("ibis: the self-influence of example %d is %v, expected a finite number", i, v)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(self[j], self[i]) })
	return order[:p:p], nil
}
