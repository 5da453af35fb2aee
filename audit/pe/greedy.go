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
	// Clip, if above 0, clips w as a release would, to this norm over all slots of
	// the bank. 0 leaves it as it is, as the paper seems to.
	Clip float64
	// MoreVotes takes the largest ‖w‖² of equal J_μ, before the first in the pool.
	MoreVotes bool
}

// Choice is what a search chose.
type Choice struct {
	Pool  []int     // numbers in the pool, in the order of slots
	Votes []int     // the canary's votes for each, with all probes in place
	Score []float64 // objective after each step, of w = votes/(records·K)
}

// tieWindow: J_μ of equal candidates differ by rounding, and so do clipped ones.
// The scores of a search are within a factor 1 ± 1e-10 of each other only if they
// tie, or if there is nothing to choose between them; sums of squared votes, being
// whole numbers, only if they are equal.
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
			return nil, fmt.Errorf("pe: probe %d: no candidate has a finite objective: is the covariance positive definite?", t)
		}
		g.commit(t, best)
	}
	return &Choice{g.chosen, g.votes[:len(s.Slot)], g.scores}, nil
}

// place is an entry of a record's list.
type place struct {
	dist  float64
	slot  int32
	owner int32 // whose vote it is, in greedy.votes
}

// greedy is a search under way.
type greedy struct {
	Search
	records, pool int
	dist          []float64 // [pool, records], so that a candidate's are together
	lists         [][]place // of each record, ascending; the first K vote
	last          []place   // the K-th of each
	// votes are those for the probe of step 0, 1, …, and then those for each slot of
	// the bank that is in some list.
	votes   []int
	chosen  []int
	scores  []float64
	taken   []bool
	scale   float64 // of an objective in votes
	onProbe int     // Σ votes² for probes
	onAll   int     // Σ votes²

	lower [][]float64 // rows of L, of Cov on the chosen = L Lᵀ
	rows  [][]float64 // Y_c = L⁻¹ Cov_{chosen,c} of each c in the pool
	schur []float64   // Cov_cc - |Y_c|²
	y     []float64   // L⁻¹ votes

	// What gain leaves of a candidate.
	lost    []int   // votes that it takes from others, by owner
	touched []int32 // owners that lose some

	trial   []float64
	all     []float64 // objectives of a step
	squares []int     // and ‖w‖², in votes
}

func (s Search) start() (*greedy, error) {
	r := len(s.Slot)
	if s.K < 1 || s.Near == nil || s.Near.K < s.K || r == 0 {
		return nil, fmt.Errorf("pe: a search for %d probes needs slots and the %d nearest of each record", r, s.K)
	}
	n := s.Near.Len()
	if n == 0 || len(s.Dist) == 0 || len(s.Dist)%n != 0 {
		return nil, fmt.Errorf("pe: %d distances of %d records", len(s.Dist), n)
	}
	m := len(s.Dist) / n
	if m < r {
		return nil, fmt.Errorf("pe: a pool of %d for %d probes", m, r)
	}
	if s.Cov != nil && len(s.Cov) != m*m {
		return nil, fmt.Errorf("pe: a covariance of %d numbers for a pool of %d", len(s.Cov), m)
	}
	if !(s.Clip >= 0) || math.IsInf(s.Clip, 0) {
		return nil, fmt.Errorf("pe: clip of a search: %v, expected a finite number from 0 on", s.Clip)
	}
	for i, d := range s.Dist {
		if math.IsNaN(d) {
			return nil, fmt.Errorf("pe: the distance of record %d to candidate %d is no number", i/m, i%m)
		}
	}
	probe := make(map[int32]bool, r)
	for _, slot := range s.Slot {
		if probe[slot] {
			return nil, fmt.Errorf("pe: slot %d is to take two probes", slot)
		}
		probe[slot] = true
	}
	total := float64(n * s.K)
	g := &greedy{Search: s, records: n, pool: m, taken: make([]bool, m), scale: 1 / (total * total), votes: make([]int, r)}
	owner := map[int32]int32{}
	for i := range n {
		var list []place
		leave := 0
		for j := i * s.Near.K; j < (i+1)*s.Near.K; j++ {
			slot := s.Near.Slot[j]
			if _, known := owner[slot]; !known {
				owner[slot] = int32(len(g.votes))
				g.votes = append(g.votes, 0)
			}
			if probe[slot] {
				leave++
			}
			if len(list) < s.K {
				g.votes[owner[slot]]++
			}
			list = append(list, place{s.Near.Dist[j], slot, owner[slot]})
		}
		if len(list)-leave < s.K {
			return nil, fmt.Errorf("pe: of the %d nearest of record %d probes will take %d, expected %d to stay", len(list), i, leave, s.K)
		}
		g.lists = append(g.lists, list)
	}
	g.dist, g.last = make([]float64, n*m), make([]place, n)
	for i := range n {
		for c := range m {
			g.dist[c*n+i] = s.Dist[i*m+c]
		}
	}
	g.lost, g.trial = make([]int, len(g.votes)), make([]float64, r)
	g.all, g.squares = make([]float64, m), make([]int, m)
	if s.Cov != nil {
		g.rows, g.schur = make([][]float64, m), make([]float64, m)
		for c := range m {
			g.rows[c], g.schur[c] = make([]float64, 0, r), s.Cov[c*m+c]
		}
	}
	return g, nil
}

// vacate takes what slot t holds out of the lists, and counts.
func (g *greedy) vacate(t int) {
	for r, list := range g.lists {
		for i, p := range list {
			if p.slot != g.Slot[t] {
				continue
			}
			list = append(list[:i], list[i+1:]...)
			g.lists[r] = list
			if i < g.K {
				g.votes[p.owner]--
				g.votes[list[g.K-1].owner]++
			}
			break
		}
		g.last[r] = g.lists[r][g.K-1]
	}
	if g.Cov != nil {
		g.y = g.solve(g.votes[:t])
	}
	g.onProbe, g.onAll = 0, 0
	for i, n := range g.votes {
		g.onAll += n * n
		if i < t {
			g.onProbe += n * n
		}
	}
}

// gain is the votes of candidate c in slot t, and what it takes from others, left
// in lost and touched.
func (g *greedy) gain(t, c int) (votes int) {
	for _, j := range g.touched {
		g.lost[j] = 0
	}
	g.touched = g.touched[:0]
	slot := g.Slot[t]
	for r, d := range g.dist[c*g.records : (c+1)*g.records] {
		last := &g.last[r]
		if !before(d, slot, last.dist, last.slot) {
			continue
		}
		votes++
		if g.lost[last.owner] == 0 {
			g.touched = append(g.touched, last.owner)
		}
		g.lost[last.owner]++
	}
	return votes
}

// best is the candidate of the largest objective; -1 if there is none.
func (g *greedy) best(t int) int {
	most := math.Inf(-1)
	for c := range g.pool {
		if g.taken[c] {
			continue
		}
		g.all[c] = g.objective(t, c)
		most = math.Max(most, g.all[c])
	}
	if math.IsNaN(most) || math.IsInf(most, 0) {
		return -1
	}
	g.scores = append(g.scores, most*g.scale)
	best := -1
	for c, j := range g.all {
		if !g.taken[c] && j >= most*(1-tieWindow) && (best < 0 || g.MoreVotes && g.squares[c] > g.squares[best]) {
			best = c
		}
	}
	return best
}

// objective is J, in votes, with candidate c in slot t.
func (g *greedy) objective(t, c int) float64 {
	n := g.gain(t, c)
	onProbe, onAll := g.onProbe+n*n, g.onAll+n*n
	first := t // of the probes that lose votes
	for _, p := range g.touched {
		left := g.votes[p] - g.lost[p]
		less := left*left - g.votes[p]*g.votes[p]
		onAll += less
		if int(p) < t {
			onProbe += less
			first = min(first, int(p))
		}
	}
	g.squares[c] = onProbe
	j := float64(onProbe)
	if g.Cov != nil {
		j = g.mu(t, c, n, first)
	}
	return j * clipped(g.Clip, g.scale, onAll)
}

// clipped is the factor of J if w is clipped, given the squared votes of all slots.
func clipped(clip, scale float64, squares int) float64 {
	if clip == 0 {
		return 1
	}
	return math.Min(1, clip*clip/(float64(squares)*scale))
}

// mu is wᵀ Σ⁻¹ w, in votes, with n votes for candidate c: |L⁻¹w|², with a last row
// of L for c. What gain left is of c; no probe before the first has lost votes.
func (g *greedy) mu(t, c, n, first int) float64 {
	y := g.y
	if first < t {
		y = g.trial[:t]
		copy(y, g.y[:first])
		for i := first; i < t; i++ {
			y[i] = forward(g.lower[i], y, float64(g.votes[i]-g.lost[i]))
		}
	}
	j := 0.0
	last := float64(n)
	row := g.rows[c][:len(y)]
	for i, v := range y {
		j += float64(v * v)
		last -= float64(row[i] * v)
	}
	last /= math.Sqrt(g.schur[c])
	return j + float64(last*last)
}

// forward is the next element of L⁻¹w, given a row of L and those before.
func forward(row, y []float64, w float64) float64 {
	last := len(row) - 1
	y = y[:last]
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
	g.votes[t] = g.gain(t, c)
	for _, j := range g.touched {
		g.votes[j] -= g.lost[j]
	}
	g.chosen, g.taken[c] = append(g.chosen, c), true
	for r, list := range g.lists {
		p := place{g.dist[c*g.records+r], g.Slot[t], int32(t)}
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
		row := g.rows[o][:t]
		for i, x := range g.rows[c] {
			v -= float64(x * row[i])
		}
		v /= pivot
		g.rows[o] = append(row, v)
		g.schur[o] -= float64(v * v)
	}
}
