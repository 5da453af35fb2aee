package pe

import (
	"fmt"
	"math"
)

// Search is a greedy choice of probes (arXiv:2609.13499, algorithm B.1): one
// after the other, each time the one with which the canary's votes on all chosen
// probes have the largest objective,
//
//	J_norm = ‖w‖²,  J_μ = wᵀ Σ⁻¹ w,
//
// with w the votes after routing all of the canary's records to the bank with the
// probe in its slot. Of equal ones the first in the pool is taken.
type Search struct {
	K int // votes of a record
	// Near is the canary's records over the bank in which the slots are empty, or,
	// if they keep what they hold until a probe takes them, over the whole bank,
	// with K + len(Slot) nearest (or all there are).
	Near *Nearest
	Dist []float64 // [records, M]: squared distances to the pool
	Slot []int32   // the slot of the first probe, of the second, …
	// Cov is the covariance [M, M] of all that is not the canary's on the pool's
	// probes, for J_μ; nil for J_norm.
	Cov []float64
}

// Choice is what a search chose.
type Choice struct {
	Pool  []int     // numbers in the pool, in the order of slots
	Votes []int     // the canary's votes for each, with all probes in place
	Score []float64 // objective after each step, of w = votes/(records·K)
}

// tieWindow: J_μ of equal candidates differ by rounding, and then the first
// counts. The scores of a search are within a factor 1 ± 1e-10 of each other
// only if they tie, or if there is nothing to choose between them.
const tieWindow = 1e-10

// Greedy runs the search. Its result is that of routing everything anew for each
// candidate, but it only looks at what a candidate changes: a record's k nearest
// lose exactly their last entry to a nearer candidate.
func (s Search) Greedy() (*Choice, error) {
	g, err := s.start()
	if err != nil {
		return nil, err
	}
	for t := range s.Slot {
		g.vacate(t)
		best := g.best(t)
		if best < 0 {
			return nil, fmt.Errorf("pe: probe %d: no candidate has a finite objective", t)
		}
		g.commit(t, best)
	}
	return &Choice{g.chosen, g.votes, g.scores}, nil
}

// place is an entry of a record's list.
type place struct {
	dist  float64
	slot  int32
	probe int32 // number among the chosen, or -1
}

// greedy is a search under way.
type greedy struct {
	Search
	records, pool int
	lists         [][]place // of each record, ascending; the first K vote
	votes         []int     // for the chosen
	chosen        []int
	scores        []float64
	taken         []bool
	scale         float64 // of an objective in votes

	lower [][]float64 // rows of L, of Cov on the chosen = L Lᵀ
	rows  [][]float64 // Y_c = L⁻¹ Cov_{chosen,c} of each c in the pool
	schur []float64   // Cov_cc - |Y_c|²
	y     []float64   // L⁻¹ votes
	lost  []int       // votes that a candidate takes from the chosen
	touch []int       // which of lost are not 0
	trial []float64
}

func (s Search) start() (*greedy, error) {
	if s.K < 1 || s.Near == nil || s.Near.K < s.K || len(s.Slot) == 0 {
		return nil, fmt.Errorf("pe: a search for %d probes needs slots and the %d nearest of each record", len(s.Slot), s.K)
	}
	n := s.Near.Len()
	if n == 0 || len(s.Dist) == 0 || len(s.Dist)%n != 0 {
		return nil, fmt.Errorf("pe: %d distances of %d records", len(s.Dist), n)
	}
	m := len(s.Dist) / n
	if m < len(s.Slot) {
		return nil, fmt.Errorf("pe: a pool of %d for %d probes", m, len(s.Slot))
	}
	if s.Cov != nil && len(s.Cov) != m*m {
		return nil, fmt.Errorf("pe: a covariance of %d numbers for a pool of %d", len(s.Cov), m)
	}
	total := float64(n * s.K)
	g := &greedy{Search: s, records: n, pool: m, taken: make([]bool, m), scale: 1 / (total * total)}
	for r := range n {
		var list []place
		for i := r * s.Near.K; i < (r+1)*s.Near.K; i++ {
			list = append(list, place{s.Near.Dist[i], s.Near.Slot[i], -1})
		}
		g.lists = append(g.lists, list)
	}
	g.lost, g.trial = make([]int, len(s.Slot)), make([]float64, len(s.Slot))
	if s.Cov != nil {
		g.rows, g.schur = make([][]float64, m), make([]float64, m)
		for c := range m {
			g.schur[c] = s.Cov[c*m+c]
		}
	}
	return g, nil
}

// vacate takes what slot t holds out of the lists.
func (g *greedy) vacate(t int) {
	changed := false
	for r, list := range g.lists {
		for i, p := range list {
			if p.slot != g.Slot[t] {
				continue
			}
			g.lists[r] = append(list[:i], list[i+1:]...)
			if i < g.K && len(g.lists[r]) >= g.K {
				if up := g.lists[r][g.K-1].probe; up >= 0 {
					g.votes[up]++
					changed = true
				}
			}
			break
		}
	}
	if changed && g.Cov != nil {
		g.y = g.solve(g.votes)
	}
}

// gain is the votes of candidate c in slot t, and what it takes from the chosen,
// left in lost and touch.
func (g *greedy) gain(t, c int) (votes int) {
	for _, j := range g.touch {
		g.lost[j] = 0
	}
	g.touch = g.touch[:0]
	for r, list := range g.lists {
		last := list[g.K-1]
		if !before(g.Dist[r*g.pool+c], g.Slot[t], last.dist, last.slot) {
			continue
		}
		votes++
		if j := last.probe; j >= 0 {
			if g.lost[j] == 0 {
				g.touch = append(g.touch, int(j))
			}
			g.lost[j]++
		}
	}
	return votes
}

// best is the candidate of the largest objective; -1 if there is none.
func (g *greedy) best(t int) int {
	if g.Cov == nil {
		return g.bestNorm(t)
	}
	return g.bestMu(t)
}

// bestNorm compares sums of squared votes, which are integers.
func (g *greedy) bestNorm(t int) int {
	squares := 0
	for _, n := range g.votes {
		squares += n * n
	}
	best, most := -1, -1
	for c := range g.pool {
		if g.taken[c] {
			continue
		}
		n := g.gain(t, c)
		j := squares + n*n
		for _, p := range g.touch {
			left := g.votes[p] - g.lost[p]
			j += left*left - g.votes[p]*g.votes[p]
		}
		if j > most {
			best, most = c, j
		}
	}
	g.scores = append(g.scores, float64(most)*g.scale)
	return best
}

func (g *greedy) bestMu(t int) int {
	most := math.Inf(-1)
	scores := make([]float64, g.pool)
	for c := range g.pool {
		scores[c] = math.Inf(-1)
		if !g.taken[c] {
			scores[c] = g.mu(t, c)
			most = math.Max(most, scores[c])
		}
	}
	if math.IsNaN(most) || math.IsInf(most, 0) {
		return -1
	}
	g.scores = append(g.scores, most*g.scale)
	for c, j := range scores {
		if !g.taken[c] && j >= most*(1-tieWindow) {
			return c
		}
	}
	return -1
}

// mu is wᵀ Σ⁻¹ w, in votes, with candidate c in slot t: |L⁻¹w|², with a last row
// of L for c.
func (g *greedy) mu(t, c int) float64 {
	n := g.gain(t, c)
	y := g.y
	if len(g.touch) > 0 {
		y = g.trial[:t]
		for i := range t {
			y[i] = forward(g.lower[i], y, float64(g.votes[i]-g.lost[i]))
		}
	}
	j := 0.0
	last := float64(n)
	for i, v := range y {
		j += float64(v * v)
		last -= float64(g.rows[c][i] * v)
	}
	last /= math.Sqrt(g.schur[c])
	return j + float64(last*last)
}

// forward is the next element of L⁻¹w, given a row of L and those before.
func forward(row, y []float64, w float64) float64 {
	last := len(row) - 1
	for k, l := range row[:last] {
		w -= float64(l * y[k])
	}
	return w / row[last]
}

// solve is L⁻¹w.
func (g *greedy) solve(w []int) []float64 {
	y := make([]float64, len(w))
	for i := range y {
		y[i] = forward(g.lower[i], y, float64(w[i]))
	}
	return y
}

// commit puts candidate c into slot t.
func (g *greedy) commit(t, c int) {
	votes := g.gain(t, c)
	for _, j := range g.touch {
		g.votes[j] -= g.lost[j]
	}
	g.votes = append(g.votes, votes)
	g.chosen, g.taken[c] = append(g.chosen, c), true
	for r, list := range g.lists {
		p := place{g.Dist[r*g.pool+c], g.Slot[t], int32(t)}
		i := len(list)
		for i > 0 && before(p.dist, p.slot, list[i-1].dist, list[i-1].slot) {
			i--
		}
		if i < len(list) {
			copy(list[i+1:], list[i:len(list)-1])
			list[i] = p
		}
	}
	if g.Cov == nil {
		return
	}
	pivot := math.Sqrt(g.schur[c])
	g.lower = append(g.lower, append(append([]float64{}, g.rows[c]...), pivot))
	for o := range g.pool {
		if g.taken[o] {
			continue
		}
		v := g.Cov[c*g.pool+o]
		for i, x := range g.rows[c] {
			v -= float64(x * g.rows[o][i])
		}
		v /= pivot
		g.rows[o] = append(g.rows[o], v)
		g.schur[o] -= float64(v * v)
	}
	g.y = g.solve(g.votes)
}
