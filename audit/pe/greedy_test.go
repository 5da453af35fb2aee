package pe

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit/records"
)

// arena is a bank, a canary and a pool, small enough to route anew all the time.
type arena struct {
	k              int
	bank, can, all *records.Matrix // all is the pool
	slots          []int32
	cov            []float64
	original       bool // slots keep what they hold until a probe takes them
	clip           float64
	moreVotes      bool
}

func newArena(r *rand.Rand, p, n, m, slots, k int, draw func() float32) *arena {
	a := &arena{k: k, bank: matrix(p, 2, draw), can: matrix(n, 2, draw), all: matrix(m, 2, draw)}
	for _, s := range r.Perm(p)[:slots] {
		a.slots = append(a.slots, int32(s))
	}
	// A covariance as of 3 users, with noise.
	a.cov = make([]float64, m*m)
	for range 3 {
		u := make([]float64, m)
		for i := range u {
			u[i] = float64(r.IntN(4)) / 4
		}
		for i := range m {
			for j := range m {
				a.cov[i*m+j] += u[i] * u[j]
			}
		}
	}
	for i := range m {
		a.cov[i*m+i] += .5
	}
	return a
}

func (a *arena) search(mu bool) Search {
	s := Search{K: a.k, Slot: a.slots, Clip: a.clip, MoreVotes: a.moreVotes}
	var b Bank
	b.X = &records.Matrix{D: 2}
	for i := range a.bank.Len() {
		if a.original || !slices.Contains(a.slots, int32(i)) {
			b.X.X, b.Slot = append(b.X.X, a.bank.Row(i)...), append(b.Slot, int32(i))
		}
	}
	k := a.k
	if a.original {
		k = min(k+len(a.slots), b.X.Len())
	}
	s.Near = naive(a.can, b.X, b.Slot, k)
	for i := range a.can.Len() {
		for c := range a.all.Len() {
			s.Dist = append(s.Dist, sqDist(a.can.Row(i), a.all.Row(c)))
		}
	}
	if mu {
		s.Cov = a.cov
	}
	return s
}

// votes routes the canary to the bank with these of the pool in the first slots. It
// also returns the sum of squared votes over all slots.
func (a *arena) votes(probes []int) (w []int, squares int) {
	x := &records.Matrix{D: 2}
	var slot []int32
	for i := range a.bank.Len() {
		at := slices.Index(a.slots, int32(i))
		switch {
		case at >= 0 && at < len(probes):
			x.X = append(x.X, a.all.Row(probes[at])...)
		case at >= 0 && !a.original:
			continue
		default:
			x.X = append(x.X, a.bank.Row(i)...)
		}
		slot = append(slot, int32(i))
	}
	near := naive(a.can, x, slot, a.k)
	w = make([]int, len(probes))
	all := map[int32]int{}
	for _, s := range near.Slot {
		all[s]++
		if at := slices.Index(a.slots[:len(probes)], s); at >= 0 {
			w[at]++
		}
	}
	for _, n := range all {
		squares += n * n
	}
	return w, squares
}

// objective is J of these probes in votes, by a Cholesky factor made anew, and
// ‖w‖² in votes.
func (a *arena) objective(probes []int, mu bool) (j float64, squares int) {
	w, all := a.votes(probes)
	for _, n := range w {
		squares += n * n
	}
	total := float64(a.can.Len() * a.k)
	factor := clipped(a.clip, 1/(total*total), all)
	if !mu {
		return float64(squares) * factor, squares
	}
	m := a.all.Len()
	var lower [][]float64
	var y []float64
	for i, c := range probes {
		row := []float64{}
		d := a.cov[c*m+c]
		for k := range i {
			v := a.cov[probes[k]*m+c]
			for l := range k {
				v -= float64(lower[k][l] * row[l])
			}
			v /= lower[k][k]
			row = append(row, v)
			d -= float64(v * v)
		}
		row = append(row, math.Sqrt(d))
		lower = append(lower, row)
		y = append(y, forward(row, y, float64(w[i])))
	}
	for _, v := range y {
		j += float64(v * v)
	}
	return j * factor, squares
}

// naiveGreedy tries every candidate in the bank.
func (a *arena) naiveGreedy(mu bool) (chosen []int, scores []float64) {
	for range a.slots {
		most := math.Inf(-1)
		all, squares := make([]float64, a.all.Len()), make([]int, a.all.Len())
		for c := range all {
			all[c] = math.Inf(-1)
			if !slices.Contains(chosen, c) {
				all[c], squares[c] = a.objective(append(slices.Clone(chosen), c), mu)
				most = math.Max(most, all[c])
			}
		}
		best := -1
		for c, j := range all {
			tie := j >= most*(1-tieWindow)
			if tie && (best < 0 || a.moreVotes && squares[c] > squares[best]) {
				best = c
			}
		}
		chosen, scores = append(chosen, best), append(scores, most)
	}
	return chosen, scores
}

// compare holds the search to the naive one: the same choice, votes and scores, to
// the bit. It tells whether a probe lost all its votes again.
func (a *arena) compare(t *testing.T, name string, mu bool) (lost bool) {
	t.Helper()
	want, scores := a.naiveGreedy(mu)
	got, err := a.search(mu).Greedy()
	if err != nil {
		t.Fatal(name, err)
	}
	if !slices.Equal(got.Pool, want) {
		t.Fatalf("%s: chose %v, expected %v", name, got.Pool, want)
	}
	if votes, _ := a.votes(want); !slices.Equal(got.Votes, votes) {
		t.Errorf("%s: votes %v, expected %v", name, got.Votes, votes)
	}
	total := float64(a.can.Len() * a.k)
	for i, s := range scores {
		if got.Score[i] != s*(1/(total*total)) {
			t.Errorf("%s: step %d has score %v, expected %v", name, i, got.Score[i], s/(total*total))
		}
	}
	return slices.Contains(got.Votes, 0)
}

// TestGreedyIsNaive: the same as routing everything anew; on grids, where ties are
// everywhere.
func TestGreedyIsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	lost := 0
	for trial := range 96 {
		draw := []func() float32{func() float32 { return float32(r.IntN(4)) }, func() float32 { return float32(r.NormFloat64()) }}[trial%2]
		a := newArena(r, 14, 6, 12, 5, []int{1, 3, 5}[trial%3], draw)
		if trial%12 == 0 {
			a = newArena(r, 30, 8, 24, 16, []int{1, 3, 5}[trial/12%3], draw)
		}
		a.original = trial%4 < 2
		a.moreVotes = trial%8 < 4
		if trial%16 < 5 {
			a.clip = .05 + r.Float64()/2
		}
		for _, mu := range []bool{false, true} {
			name := fmt.Sprintf("trial %d, k %d, J_μ %v, originals stay %v, clip %v, ties by votes %v", trial, a.k, mu, a.original, a.clip, a.moreVotes)
			if a.compare(t, name, mu) {
				lost++
			}
		}
	}
	if lost == 0 {
		t.Error("no probe lost all its votes: that it is kept was not tested")
	}
}

// TestGreedyRapid is the same property on what rapid makes of it, and shrinks.
func TestGreedyRapid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		slots := rapid.IntRange(1, 5).Draw(rt, "probes")
		k := rapid.SampledFrom([]int{1, 3, 5}).Draw(rt, "k")
		values := rapid.IntRange(1, 3).Draw(rt, "values of a coordinate")
		a := newArena(r, slots+k+rapid.IntRange(0, 6).Draw(rt, "more in the bank"), rapid.IntRange(1, 6).Draw(rt, "records"),
			slots+rapid.IntRange(0, 4).Draw(rt, "more in the pool"), slots, k, func() float32 { return float32(r.IntN(values)) })
		a.original = rapid.Bool().Draw(rt, "originals stay")
		a.moreVotes = rapid.Bool().Draw(rt, "ties by votes")
		a.compare(t, "rapid", rapid.Bool().Draw(rt, "J_μ"))
	})
}

// TestGreedyCanFail: the comparison tells the search from what is easily taken for
// it: one that gives probes their slots in another order, one whose slots are not
// empty, and the candidates that are best alone.
func TestGreedyCanFail(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	faults := map[string]int{"order": 0, "originals": 0, "alone": 0}
	for range 40 {
		a := newArena(r, 14, 6, 12, 5, 3, func() float32 { return float32(r.IntN(4)) })
		want, _ := a.naiveGreedy(false)
		alone := make([]float64, 12)
		rank := make([]int, 12)
		for c := range rank {
			alone[c], _ = a.objective([]int{c}, false)
			rank[c] = c
		}
		slices.SortStableFunc(rank, func(x, y int) int { return cmp.Compare(alone[y], alone[x]) })
		if !slices.Equal(rank[:5], want) {
			faults["alone"]++
		}
		s := a.search(false)
		s.Slot = slices.Clone(s.Slot)
		slices.Reverse(s.Slot)
		got, err := s.Greedy()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Pool, want) {
			faults["order"]++
		}
		a.original = true
		if got, err = a.search(false).Greedy(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Pool, want) {
			faults["originals"]++
		}
	}
	for name, n := range faults {
		if n == 0 {
			t.Errorf("%s: the same choice in all cases", name)
		}
	}
}

// TestIsotropic: with Σ = cI both objectives choose the same, also under ties.
func TestIsotropic(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	for trial := range 60 {
		a := newArena(r, 20, 8, 16, 6, 1+trial%5, func() float32 { return float32(r.IntN(3)) })
		clear(a.cov)
		for i := range 16 {
			a.cov[i*16+i] = .01 + .0037*float64(trial)
		}
		norm, err := a.search(false).Greedy()
		if err != nil {
			t.Fatal(err)
		}
		mu, err := a.search(true).Greedy()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(norm.Pool, mu.Pool) {
			t.Errorf("trial %d: %v by the norm, %v by μ", trial, norm.Pool, mu.Pool)
		}
	}
}

// TestRankingIsWorse: taking the best candidates one by one, as if they did not
// share records, gives a lower objective: two copies of the best get its votes
// once.
func TestRankingIsWorse(t *testing.T) {
	a := &arena{k: 1, slots: []int32{0, 1}, bank: &records.Matrix{D: 2, X: []float32{90, 90, 91, 91, 0, 3}}}
	a.can = &records.Matrix{D: 2, X: []float32{0, 0, 0, 1, 9, 9}}
	a.all = &records.Matrix{D: 2, X: []float32{0, .4, 0, .5, 9, 8}}
	got, err := a.search(false).Greedy()
	if err != nil {
		t.Fatal(err)
	}
	var alone []float64
	for c := range 3 {
		j, _ := a.objective([]int{c}, false)
		alone = append(alone, j)
	}
	if !(alone[1] >= alone[2]) {
		t.Fatalf("alone: %v", alone)
	}
	ranked, _ := a.objective([]int{0, 1}, false)
	if greedy, _ := a.objective(got.Pool, false); !(greedy > ranked) {
		t.Errorf("greedy chose %v: %v, the best two alone %v", got.Pool, greedy, ranked)
	}
}

func TestGreedyRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	a := newArena(r, 10, 4, 6, 3, 2, func() float32 { return float32(r.NormFloat64()) })
	for name, change := range map[string]func(*Search){
		"no slots":            func(s *Search) { s.Slot = nil },
		"small pool":          func(s *Search) { s.Dist = s.Dist[:8] },
		"ragged distances":    func(s *Search) { s.Dist = s.Dist[:9] },
		"few nearest":         func(s *Search) { s.K = 5 },
		"covariance":          func(s *Search) { s.Cov = a.cov[:5] },
		"singular covariance": func(s *Search) { s.Cov = make([]float64, 36) },
		"two probes in one":   func(s *Search) { s.Slot[1] = s.Slot[0] },
		"no number":           func(s *Search) { s.Dist[5] = math.NaN() },
		"clip":                func(s *Search) { s.Clip = -1 },
		"nobody stays":        func(s *Search) { s.Slot = append(s.Slot, s.Near.Slot[0]) },
	} {
		s := a.search(false)
		s.Slot = slices.Clone(s.Slot)
		change(&s)
		if _, err := s.Greedy(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkGreedy(b *testing.B) {
	r := rand.New(rand.NewPCG(4, 7))
	s := Search{K: 5, Near: &Nearest{K: 5}}
	for i := range 64 * 5 {
		s.Near.Slot, s.Near.Dist = append(s.Near.Slot, int32(i)), append(s.Near.Dist, 1.2+float64(i%5)/50)
	}
	for range 64 * 512 {
		s.Dist = append(s.Dist, 1.1+r.Float64()/2)
	}
	for i := range 64 {
		s.Slot = append(s.Slot, int32(1000+i))
	}
	cov := make([]float64, 512*512)
	for i := range 512 {
		for j := range 512 {
			cov[i*512+j] = 1e-4
		}
		cov[i*512+i] = .01
	}
	for name, c := range map[string][]float64{"norm": nil, "mu": cov} {
		b.Run(name, func(b *testing.B) {
			s.Cov = c
			for b.Loop() {
				if _, err := s.Greedy(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
