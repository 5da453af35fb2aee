package ibis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// clampShare is the share of the mean self-influence below which the largest
// influence of the chosen does not count as smaller still. Half of all
// cross-influences are negative, and a ratio to a negative number says nothing.
const clampShare = 1e-6

// unusedColumns is how many columns are kept for later picks before all are
// dropped, to be computed again when needed.
const unusedColumns = 1024

// greedy chooses num of the p candidates one by one (Algorithm 2 of IBIS): each
// time the one with the largest
//
//	self[i] / max(largest I(i, k) over the chosen k, clampShare mean(self)),
//
// in case of a tie the first. The first choice is the largest self-influence.
// It returns the candidates in the order of their choice.
//
// Only the columns of the chosen are needed. They come in batches together with
// those of the candidates next in line, since a product with one column takes
// as long as with many; that does not change the choice.
func greedy(ctx context.Context, self []float64, cols Columns, num int, progress Progress) ([]int, error) {
	g := newPicker(self)
	for len(g.chosen) < num {
		k := g.next()
		if g.columns[k] == nil {
			if err := g.fetch(ctx, cols); err != nil {
				return nil, err
			}
		}
		if err := g.choose(k); err != nil {
			return nil, err
		}
		progress.tell(len(g.chosen), num)
	}
	return g.chosen, nil
}

// taken is the ratio of a candidate that is chosen, below that of any other.
var taken = math.Inf(-1)

// picker is the state of greedy.
type picker struct {
	self    []float64
	ratio   []float64 // of each candidate, or taken
	largest []float64 // I(i, k) over the chosen k
	clamp   float64
	chosen  []int
	columns [][]float64 // of candidates not chosen yet; nil: not known
	unused  int         // how many are known
}

func newPicker(self []float64) *picker {
	p := len(self)
	g := &picker{self: self, ratio: slices.Clone(self), largest: make([]float64, p), columns: make([][]float64, p)}
	for i, v := range self {
		g.clamp += clampShare * v / float64(p)
		g.largest[i] = math.Inf(-1)
	}
	return g
}

// next is the candidate with the largest ratio. At first the ratio is the
// self-influence.
func (g *picker) next() int {
	best, most := 0, taken
	for i, r := range g.ratio {
		if r > most {
			best, most = i, r
		}
	}
	return best
}

// fetch computes a batch of columns: of the candidates with the largest ratios
// among those without one, that of next first.
func (g *picker) fetch(ctx context.Context, cols Columns) error {
	if g.unused >= unusedColumns {
		clear(g.columns)
		g.unused = 0
	}
	var js []int
	for i, r := range g.ratio {
		if g.columns[i] == nil && r != taken {
			js = append(js, i)
		}
	}
	slices.SortStableFunc(js, func(i, j int) int { return cmp.Compare(g.ratio[j], g.ratio[i]) })
	js = js[:min(cols.Batch(), len(js))]
	part, err := cols.Columns(ctx, js)
	if err != nil {
		return err
	}
	for c, j := range js {
		g.columns[j] = part[c]
	}
	g.unused += len(js)
	return nil
}

// choose adds candidate k, whose column is known.
func (g *picker) choose(k int) error {
	g.chosen = append(g.chosen, k)
	for i, v := range g.columns[k] {
		if v-v != 0 {
			return fmt.Errorf("ibis: the influence of candidate %d on %d is %v, expected a finite number", k, i, v)
		}
		if v > g.largest[i] {
			g.largest[i] = v
			if g.ratio[i] != taken {
				g.ratio[i] = g.self[i] / max(v, g.clamp)
			}
		}
	}
	g.ratio[k] = taken
	g.columns[k] = nil
	g.unused--
	return nil
}
