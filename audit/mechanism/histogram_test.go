package mechanism

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// paper is the setting of arXiv:2609.13499, section 3.
var paper = Histogram{Slots: 8192, K: 5, Cap: 64, Clip: .1, Noise: 1, Rate: .1}

func spread(records, k, slots int) []int32 {
	var list []int32
	for i := range records * k {
		list = append(list, int32(i%slots))
	}
	return list
}

// TestVotesScale: the facts of the specification, A.2. 320 votes for as many
// slots have the norm 1/√320 and are not clipped; for 64 slots they have 1/8 and
// are clipped to C.
func TestVotesScale(t *testing.T) {
	for _, c := range []struct {
		slots int
		want  float64
	}{{320, 1 / math.Sqrt(320)}, {64, .1}, {100, .1}, {103, math.Sqrt(11*16.+92*9) / 320}, {5, .1}} {
		v, err := paper.Votes(spread(64, 5, c.slots))
		if err != nil {
			t.Fatal(err)
		}
		if got := Norm(v); len(v) != c.slots || !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%d slots: norm %v of %d entries, expected %v", c.slots, got, len(v), c.want)
		}
	}
}

// TestVotesNaive: against dense vectors, with the cap, and any order of votes.
func TestVotesNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		h := Histogram{Slots: 1 + r.IntN(30), Cap: 1 + r.IntN(6), Clip: .1 + r.Float64(), Noise: 1, Rate: 1}
		h.K = 1 + r.IntN(min(4, h.Slots))
		var nearest []int32
		n := r.IntN(9)
		for range n {
			for _, s := range r.Perm(h.Slots)[:h.K] {
				nearest = append(nearest, int32(s))
			}
		}
		want := make([]float64, h.Slots)
		records := min(n, h.Cap)
		for _, s := range nearest[:records*h.K] {
			want[s] += 1 / float64(records*h.K)
		}
		norm := 0.0
		for _, w := range want {
			norm += w * w
		}
		norm = math.Sqrt(norm)
		got, err := h.Votes(nearest)
		if err != nil {
			t.Fatal(err)
		}
		dense := make([]float64, h.Slots)
		for _, v := range got {
			dense[v.Slot] = v.Weight
		}
		for i := range want {
			if w := want[i] * math.Min(1, h.Clip/norm); norm > 0 && !(math.Abs(dense[i]-w) <= 1e-15) {
				t.Fatalf("slot %d: %v, expected %v", i, dense[i], w)
			}
		}
		if !slices.IsSortedFunc(got, func(a, b Vote) int { return a.Slot - b.Slot }) {
			t.Fatal("not by ascending slot")
		}
		if !(Norm(got) <= h.Clip*(1+1e-15)) {
			t.Fatalf("norm %v is above the clip %v", Norm(got), h.Clip)
		}
	}
}

// TestWrongVotes: the dense definition tells votes from what is easily taken for
// them. A fault planted in each, and the difference that it must make.
func TestWrongVotes(t *testing.T) {
	h := Histogram{Slots: 6, K: 2, Cap: 3, Clip: .3, Noise: 1, Rate: .1}
	nearest := []int32{0, 1, 0, 2, 0, 3, 5, 4} // the last record is beyond the cap
	right, err := h.Votes(nearest)
	if err != nil {
		t.Fatal(err)
	}
	dense := func(counts [6]float64, divide, clip float64) []float64 {
		norm := 0.0
		for _, c := range counts {
			norm += c * c / divide / divide
		}
		scale := math.Min(1, clip/math.Sqrt(norm)) / divide
		out := make([]float64, 6)
		for i, c := range counts {
			out[i] = c * scale
		}
		return out
	}
	differ := func(v []float64) (most float64) {
		for _, x := range right {
			most = math.Max(most, math.Abs(v[x.Slot]-x.Weight))
			v[x.Slot] = 0
		}
		for _, x := range v {
			most = math.Max(most, math.Abs(x))
		}
		return most
	}
	counts := [6]float64{3, 1, 1, 1}
	if d := differ(dense(counts, 6, .3)); !(d <= 1e-16) {
		t.Errorf("the definition differs by %v", d)
	}
	for name, wrong := range map[string][]float64{
		"no clip":        dense(counts, 6, math.Inf(1)),
		"no average":     dense(counts, 1, math.Inf(1)),
		"no cap":         dense([6]float64{3, 1, 1, 1, 1, 1}, 8, .3),
		"clip by slot":   {.3, 1. / 6, 1. / 6, 1. / 6, 0, 0},
		"clip of parts":  append(dense([6]float64{3}, 6, .3)[:1], dense([6]float64{0, 1, 1, 1}, 6, .3)[1:]...),
		"counted double": dense(counts, 3, .6),
	} {
		if d := differ(wrong); !(d > .01) {
			t.Errorf("%s: differs by %v only", name, d)
		}
	}
}

// TestRelease: mean q Σ v, variance q(1-q) Σ v² + (σC)², per slot.
func TestRelease(t *testing.T) {
	h := Histogram{Slots: 3, K: 1, Cap: 1, Clip: .5, Noise: .8, Rate: .3}
	users := [][]Vote{{{0, .5}}, {{0, .25}, {2, .25}}, {{2, .5}}, nil}
	r := rand.New(rand.NewPCG(3, 4))
	const n = 200_000
	var sum, square [3]float64
	for range n {
		for i, y := range h.Release(users, r) {
			sum[i] += y
			square[i] += y * y
		}
	}
	for i, v := range [][]float64{{.5, .25}, {}, {.25, .5}} {
		mean, variance := 0.0, .16
		for _, w := range v {
			mean += .3 * w
			variance += .21 * w * w
		}
		m := sum[i] / n
		s := square[i]/n - m*m
		if !(math.Abs(m-mean) <= 5*math.Sqrt(variance/n)) || !(math.Abs(s/variance-1) <= 5*math.Sqrt(2./n)*1.2) {
			t.Errorf("slot %d: mean %v and variance %v, expected %v and %v", i, m, s, mean, variance)
		}
	}
}

// TestEvent: ε of the paper's release at δ = 1e-5 is 1.68454.
func TestEvent(t *testing.T) {
	c, err := accounting.NewCurve(paper.Event(), 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	eps, err := c.Epsilon(1e-5)
	if err != nil || !(eps.Lower <= 1.684545 && eps.Upper >= 1.684535) {
		t.Errorf("%+v, %v", eps, err)
	}
}

func TestHistogramRefuses(t *testing.T) {
	if err := paper.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Histogram){
		"slots: 0":               func(h *Histogram) { h.Slots = 0 },
		"k: 8193":                func(h *Histogram) { h.K = 8193 },
		"record cap: 0":          func(h *Histogram) { h.Cap = 0 },
		"clip: NaN":              func(h *Histogram) { h.Clip = math.NaN() },
		"clip: 0":                func(h *Histogram) { h.Clip = 0 },
		"noise multiplier: +Inf": func(h *Histogram) { h.Noise = math.Inf(1) },
		"participation rate: 0":  func(h *Histogram) { h.Rate = 0 },
		"participation rate: 2":  func(h *Histogram) { h.Rate = 2 },
	} {
		h := paper
		change(&h)
		if err := h.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, bad := range map[string][]int32{"3 nearest slots": {1, 2, 3}, "slot -1": {0, 1, 2, 3, -1}, "or 8192": {0, 1, 2, 3, 8192},
		"record 1 votes twice for slot 7": {0, 1, 2, 3, 4, 6, 7, 8, 9, 7}} {
		if _, err := paper.Votes(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := (Histogram{}).Votes(nil); err == nil {
		t.Error("votes of no mechanism: no error")
	}
}
