package pe

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/mechanism"
)

func perfectRounds(noise float64, releases int) []*Channel {
	var list []*Channel
	for range releases {
		list = append(list, perfect(.1, noise))
	}
	return list
}

// TestRoundsCeilings: the table of the specification (accounting-and-bounds, 5.3),
// whose means are simulated to about .003.
func TestRoundsCeilings(t *testing.T) {
	want := map[int][][2]float64{
		1_000_000: {{.763, .850}, {.930, 1.019}, {1.044, 1.138}, {1.142, 1.236}, {1.223, 1.322}, {1.299, 1.398}},
		5_000_000: {{.982, 1.054}, {1.156, 1.231}, {1.280, 1.359}, {1.382, 1.462}, {1.472, 1.557}, {1.555, 1.638}},
	}
	for n, table := range want {
		p := published
		p.Trials = n
		got, err := p.Theory(.1, 1.1088, 6)
		if err != nil || len(got) != 6 {
			t.Fatal(got, err)
		}
		for i, theory := range got {
			e := theory.Ceiling
			if !(math.Abs(e.Mean-table[i][0]) <= .005 && math.Abs(e.Best-table[i][1]) <= .005) {
				t.Errorf("%d trials, %d releases: %+v, expected %v", n, i+1, e, table[i])
			}
		}
	}
}

// TestRoundsExact: the perfect canary's ε after each release is that of the
// mechanism, which an accountant finds in another way; the reverse direction shows
// no more than -T ln(1-q).
func TestRoundsExact(t *testing.T) {
	laws, err := NewRoundsLaw(perfectRounds(1.1088, 6))
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range laws {
		c, err := accounting.NewCurve(accounting.DPSGD(.1, 1.1088, i+1), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		eps, err := c.Epsilon(1e-5)
		if err != nil {
			t.Fatal(err)
		}
		a := Exact(l, 1e-5)
		if !(a.Lower <= eps.Upper && eps.Lower <= a.Upper && a.Upper-a.Lower < .004 && math.Abs(a.Estimate-eps.Estimate) <= 1e-5) {
			t.Errorf("%d releases: attack %+v, mechanism %+v", i+1, a, eps)
		}
		if limit := *reverseLimit(.1, i+1); !(a.Reverse > .5*limit && a.Reverse <= limit) {
			t.Errorf("%d releases: %v by the reverse direction, at most %v", i+1, a.Reverse, limit)
		}
	}
}

// TestOneRound: the law of one term encloses that of ℓ, and trials of the term
// count as trials of ℓ do.
func TestOneRound(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 3))
	for _, rate := range []float64{0, 1} {
		c := someChannel(r, 40)
		if rate > 0 {
			c.Rate = rate
		}
		one, err := NewLaw(c)
		if err != nil {
			t.Fatal(err)
		}
		laws, err := NewRoundsLaw([]*Channel{c})
		if err != nil {
			t.Fatal(err)
		}
		low, high := one.Range()
		for i := range 1001 {
			tau := low + (high-low)*float64(i)/1000
			fpr, tpr := one.Rates(tau)
			f, p := laws[0].Bounds(Mixture(c.Rate, tau))
			if off := 2 * one.Error; !(f.Lower <= fpr+off && fpr <= f.Upper+off && p.Lower <= tpr+off && tpr <= p.Upper+off) {
				t.Fatalf("rate %v, τ %v: %v and %v, enclosed by %+v and %+v", c.Rate, tau, fpr, tpr, f, p)
			}
			if !(math.Abs(f.Estimate-fpr) <= 1e-6 && math.Abs(p.Estimate-tpr) <= 1e-6) {
				t.Fatalf("rate %v, τ %v: %v and %v, estimated as %+v and %+v", c.Rate, tau, fpr, tpr, f, p)
			}
		}
		const n = 2 * Block
		a, _, err := NewSampler(c).Simulate(t.Context(), 1, nil, n, [][]float64{{0, 1}}, Run{})
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := NewRoundsSampler([]*Channel{c}).Simulate(t.Context(), 1, nil, n, [][]float64{{Mixture(c.Rate, 0), Mixture(c.Rate, 1)}}, Run{})
		if err != nil || a[0] != b[0] || a[1] != b[1] {
			t.Errorf("ℓ counts %v, its mixture %v, %v", a, b, err)
		}
		x, y := Exact(one, 1e-5), Exact(laws[0], 1e-5)
		if !(y.Lower <= x.Upper && x.Lower <= y.Upper && math.Abs(x.Estimate-y.Estimate) < 1e-4) {
			t.Errorf("rate %v: ε %+v, and %+v as one of several releases", c.Rate, x, y)
		}
	}
}

// TestRoundsTrialsFollowTheLaw: in both worlds and after each release the largest
// distance between trials and law is at most 2.4/√n. Planted faults are seen: a
// canary whose coin is drawn once for all releases, and terms that are ℓ.
func TestRoundsTrialsFollowTheLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 3))
	var channels []*Channel
	for i := range 3 {
		c := someChannel(r, 20+10*i)
		c.Rate = .2
		channels = append(channels, c)
	}
	laws, err := NewRoundsLaw(channels)
	if err != nil {
		t.Fatal(err)
	}
	const n, cells = 1_000_000, 1000
	// distance is that of statistics that draw gives, after each release.
	distance := func(seed uint64, with bool, draw func(src *source, out []float64)) (worst float64) {
		counts := make([][cells + 2]int, len(laws))
		src := stream(seed)
		out := make([]float64, len(laws))
		for range n {
			draw(src, out)
			for i, l := range laws {
				low, high := l.Range()
				counts[i][int(math.Min(cells+1, math.Max(0, math.Ceil((out[i]-low)/(high-low)*cells))))]++
			}
		}
		for i, l := range laws {
			low, high := l.Range()
			above := n
			for j := range cells + 1 {
				above -= counts[i][j]
				p, q := l.Rates(low + (high-low)*float64(j)/cells)
				if with {
					p = q
				}
				worst = math.Max(worst, math.Abs(float64(above)/n-p)*math.Sqrt(n))
			}
		}
		return worst
	}
	s := NewRoundsSampler(channels)
	for _, with := range []bool{false, true} {
		if d := distance(1, with, func(src *source, out []float64) { s.draw(src, with, out) }); !(d <= 2.4) {
			t.Errorf("canary %v: distance %.2f/√n, expected at most 2.4", with, d)
		}
	}
	once := func(src *source, out []float64) {
		sum, there := 0.0, src.uniform() < .2
		for i, b := range s.releases {
			l := b.draw(src)
			if there {
				l += b.ch.Step
			}
			sum += Mixture(.2, l)
			out[i] = sum
		}
	}
	plain := *s
	plain.mixture = false
	for what, d := range map[string]float64{
		"coin drawn once": distance(2, true, once),
		"sum of ℓ":        distance(3, false, func(src *source, out []float64) { plain.draw(src, false, out) }),
	} {
		if !(d > 2.4) {
			t.Errorf("%s: at a distance of %.2f/√n, not seen", what, d)
		}
	}
}

// roundsGame is a canary, nearly perfect, in three releases, and users around it.
func roundsGame(t *testing.T, rule string) (Game, []*View, []*Contributions) {
	t.Helper()
	r := rand.New(rand.NewPCG(22, 3))
	g := Game{Mechanism: mechanism.Histogram{Slots: 90, K: 1, Cap: 9, Clip: .1, Noise: 1, Rate: .1}, Protocol: published, Eligible: 40, Seed: 4, Rule: rule}
	g.Protocol.Trials = 3 * Block
	var views []*View
	var users []*Contributions
	for release := range 3 {
		c := &Contributions{Slots: []int32{1, int32(5 + release)}}
		for range 20 {
			c.Row = append(c.Row, .02*r.Float64(), .02*r.Float64())
		}
		v, err := g.View(c, []float64{.08, .06})
		if err != nil {
			t.Fatal(err)
		}
		views, users = append(views, v), append(users, c)
	}
	return g, views, users
}

// TestGameOfRounds: an audit of three releases, by the numbers.
func TestGameOfRounds(t *testing.T) {
	g, views, users := roundsGame(t, ExactLock)
	theory, err := g.Protocol.Theory(.1, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	d, err := g.Lock(t.Context(), 2, views, users)
	if err != nil {
		t.Fatal(err)
	}
	test := func(run Run) ([]Prefix, error) { return g.Test(t.Context(), 2, views, users, d, theory, 8, run) }
	all := map[int][]Counts{}
	got, err := test(Run{Keep: func(b int, c []Counts) error { all[b] = c; return nil }})
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for i, r := range got {
		if len(r.Tallies) != 3 || r.EpsFamily != 0 || r.Releases != i+1 {
			t.Errorf("%d releases: %+v", i+1, r)
		}
		eps := theory[i].Theory
		if !(r.EpsLower <= r.EpsTight && r.Corrected <= r.EpsLower && r.EpsTight <= r.Exact.Lower && r.Exact.Estimate <= eps.Estimate && r.Exact.Upper <= eps.Upper) {
			t.Errorf("%d releases: %+v", i+1, r)
		}
		// The same users calibrate and test, so that the expectation is the same.
		if !(r.EpsLower > 0 && math.Abs(r.EpsLower-r.Expected.Mean) < .6 && r.Expected == d.Prefixes[i].Expected && r.Expected.Mean <= theory[i].Ceiling.Mean+.01) {
			t.Errorf("%d releases: bound %v, expected %+v, ceiling %+v", i+1, r.EpsLower, r.Expected, theory[i].Ceiling)
		}
		if i > 0 && !(r.Exact.Estimate > got[i-1].Exact.Estimate) {
			t.Errorf("%d releases show no more than %d", i+1, i)
		}
	}
	if _, err := test(Run{Shard: 1, Shards: 2}); !errors.Is(err, ErrOtherShards) {
		t.Errorf("one shard of two: %v", err)
	}
	again, err := test(Run{Done: all})
	if err != nil || again[2].Tallies[0] != got[2].Tallies[0] {
		t.Errorf("resumed: %+v, %v", again, err)
	}

	empirical, _, _ := roundsGame(t, EmpiricalLock)
	e, err := empirical.Lock(t.Context(), 2, views, users)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range e.Prefixes {
		if best := d.Prefixes[i].Expected.Mean; !(p.Expected.Mean <= best+.01 && p.Expected.Mean > 0) {
			t.Errorf("%d releases: %v by the empirical threshold, %v by the exact one", i+1, p.Expected.Mean, best)
		}
	}
}

func TestGameRefuses(t *testing.T) {
	g, views, users := roundsGame(t, ExactLock)
	g.Protocol.Trials = 100
	theory, err := g.Protocol.Theory(.1, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	d, err := g.Lock(t.Context(), 1, views, users)
	if err != nil {
		t.Fatal(err)
	}
	test := func(g Game, views []*View, users []*Contributions, d *Decision) error {
		_, err := g.Test(t.Context(), 1, views, users, d, theory, 1, Run{})
		return err
	}
	fewer := *users[1]
	fewer.Row = fewer.Row[:10]
	for want, call := range map[string]func() error{
		"needed before test users": func() error { return test(g, views, users, nil) },
		"needed before":            func() error { return test(g, views[:2], users[:2], d) },
		"statistic of release 1": func() error {
			return test(g, []*View{views[1], views[0], views[2]}, users, d)
		},
		"release 2 has 5 users": func() error { return test(g, views, []*Contributions{users[0], &fewer, users[2]}, d) },
		"rows of 2 releases":    func() error { return test(g, views, users[:2], d) },
		"rows of 0 releases":    func() error { _, err := g.Lock(t.Context(), 1, nil, nil); return err },
		"release 3: pe: users add": func() error {
			return test(g, views, []*Contributions{users[0], users[1], {Slots: []int32{1}, Row: make([]float64, 20)}}, d)
		},
		`threshold rule "guess"`: func() error {
			g := g
			g.Rule = "guess"
			return test(g, views, users, d)
		},
		"eligible users: 0": func() error {
			g := g
			g.Eligible = 0
			_, err := g.View(users[0], views[0].V)
			if err != nil && strings.Contains(err.Error(), "moments of 0 users") {
				_, err = g.Lock(t.Context(), 1, views, users)
			}
			return err
		},
		"law of no releases":                func() error { _, err := NewRoundsLaw(nil); return err },
		"release 1: pe: a law with noise 0": func() error { _, err := NewRoundsLaw([]*Channel{{Rate: .1}}); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
