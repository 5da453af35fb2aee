package pe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/mechanism"
)

func normalAbove(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// TestLawClosedForm: no users give a normal law, n alike a binomial mixture of
// normal laws.
func TestLawClosedForm(t *testing.T) {
	for _, c := range []struct {
		n        int
		x, noise float64
	}{{0, 0, 1}, {1, 3, .5}, {1, -.2, 2}, {50, .1, 1}, {1000, .02, .9}, {300, -1, .3}, {20, 40, 1}} {
		ch := &Channel{Rate: .1, Noise: c.noise, Shift: -.7, Step: 1}
		for range c.n {
			ch.X = append(ch.X, c.x)
		}
		l, err := NewLaw(ch)
		if err != nil {
			t.Fatal(err)
		}
		coins := distuv.Binomial{N: float64(c.n), P: .1}
		low, high := l.Range()
		compared := 0
		for i := range 201 {
			tau := low + (high-low)*float64(i)/200
			want := normalAbove((tau + .7) / c.noise)
			if c.n > 0 {
				want = 0
				for k := range c.n + 1 {
					want += coins.Prob(float64(k)) * normalAbove((tau+.7-float64(k)*c.x)/c.noise)
				}
			}
			slack := 1e-16 // of the normal law
			if c.n > 0 {
				slack = 1e-12 // gonum's binomial probabilities are good to about 1e-15 n
			}
			if got := l.Above(tau); !(math.Abs(got-want) <= l.Error+slack) {
				t.Errorf("%+v: P(ℓ > %v) = %v, expected %v ± %.1g", c, tau, got, want, l.Error)
			}
			compared++
		}
		if compared == 0 || !(l.Error < 1e-10) {
			t.Errorf("%+v: error %v", c, l.Error)
		}
	}
}

// someChannel is one like those of audits, smaller.
func someChannel(r *rand.Rand, users int) *Channel {
	c := &Channel{Rate: .05 + .3*r.Float64(), Noise: .5 + r.Float64(), Shift: -.5, Step: .5 + r.Float64()}
	for range users {
		c.X = append(c.X, .1*r.NormFloat64())
	}
	return c
}

// TestTrialsFollowTheLaw: of 1e7 trials the largest distance to the exact law is
// at most 2.4/√n (Kolmogorov: exceeded with probability 2 e^{-2·2.4²} = 2e-5).
// Planted faults are seen: users who take part too often, and noise that is off by
// a thousandth.
func TestTrialsFollowTheLaw(t *testing.T) {
	const n = 10_000_000
	c := someChannel(rand.New(rand.NewPCG(1, 3)), 100)
	distance := func(of *Channel) float64 {
		l, err := NewLaw(of)
		if err != nil {
			t.Fatal(err)
		}
		s := newBackground(c)
		// Counts in cells between 4000 points.
		low, high := l.Range()
		const cells = 4000
		counts := make([][]int, n/1_000_000)
		_ = parallelBlocks(len(counts), func(b int) {
			src := stream(9, uint64(b))
			cell := make([]int, cells+2)
			for range n / len(counts) {
				x := s.draw(src)
				cell[int(math.Min(cells+1, math.Max(0, math.Ceil((x-low)/(high-low)*cells))))]++
			}
			counts[b] = cell
		})
		worst, above := 0.0, n
		for i := range cells + 1 {
			for _, cell := range counts {
				above -= cell[i]
			}
			tau := low + (high-low)*float64(i)/cells
			worst = math.Max(worst, math.Abs(float64(above)/n-l.Above(tau)))
		}
		return worst * math.Sqrt(n)
	}
	if d := distance(c); !(d <= 2.4) {
		t.Errorf("distance %.2f/√n, expected at most 2.4", d)
	}
	often, noisy := *c, *c
	often.Rate *= 1.01
	noisy.Noise *= 1.005
	for what, of := range map[string]*Channel{"rate": &often, "noise": &noisy} {
		if d := distance(of); !(d > 2.4) {
			t.Errorf("another %s is at a distance of %.2f/√n: not seen", what, d)
		}
	}
}

func parallelBlocks(n int, do func(b int)) error {
	_, _, err := Run{}.blocks(context.Background(), n, 0, func(int) int { return 1 }, func(b int) []Counts { do(b); return nil })
	return err
}

// setting is a small audit, in full: users, canary, statistic.
type setting struct {
	h mechanism.Histogram
	c *Contributions
	v []float64
	s *Statistic
	f *Channel
	l *Law
}

func newSetting(t *testing.T, r *rand.Rand) setting {
	t.Helper()
	dim := 1 + r.IntN(6)
	h := mechanism.Histogram{Slots: 100, K: 1, Cap: 10, Clip: .05 + r.Float64(), Noise: .4 + 2*r.Float64(), Rate: .02 + .5*r.Float64()}
	c := &Contributions{}
	for i := range dim {
		c.Slots = append(c.Slots, int32(i))
	}
	vector := func(norm float64) []float64 {
		v := make([]float64, dim)
		s := 0.0
		for i := range v {
			v[i] = math.Abs(r.NormFloat64())
			s += v[i] * v[i]
		}
		for i := range v {
			v[i] *= norm / math.Sqrt(s)
		}
		return v
	}
	for range r.IntN(60) + 2 {
		c.Row = append(c.Row, vector(h.Clip*r.Float64())...)
	}
	return settingOf(t, h, c, vector(h.Clip*(.3+.7*r.Float64())))
}

// settingOf makes the statistic and the law of a canary that adds v.
func settingOf(t *testing.T, h mechanism.Histogram, c *Contributions, v []float64) setting {
	t.Helper()
	m, err := NewMoments(h, c, c.Users())
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStatistic(h, m, v)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := s.Channel(c, v)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLaw(ch)
	if err != nil {
		t.Fatal(err)
	}
	return setting{h, c, v, s, ch, l}
}

// release draws the whole histogram at the observed slots, user by user.
func (s setting) release(r *rand.Rand, with bool) float64 {
	y := make([]float64, len(s.v))
	add := func(row []float64) {
		if r.Float64() < s.h.Rate {
			for i, w := range row {
				y[i] += w
			}
		}
	}
	for u := range s.c.Users() {
		add(s.c.Of(u))
	}
	if with {
		add(s.v)
	}
	for i := range y {
		y[i] += s.h.Noise * s.h.Clip * r.NormFloat64()
	}
	return s.s.Of(y)
}

// skipping draws ℓ by the gaps between the users who take part, which are geometric.
func skipping(ch *Channel, r *rand.Rand) float64 {
	l := ch.Shift + ch.Noise*r.NormFloat64()
	gap := func() int { return int(math.Log(1-r.Float64()) / math.Log1p(-ch.Rate)) }
	for i := gap(); i < len(ch.X); i += 1 + gap() {
		l += ch.X[i]
	}
	return l
}

// TestScalarsEqualVectors: ℓ of histograms that are drawn in full, of scalars whose
// participants are found by geometric gaps, and of alias tables have one law
// (two-sample Kolmogorov-Smirnov at 1e5 each, p > 1e-4 in every setting and world).
func TestScalarsEqualVectors(t *testing.T) {
	const n = 100_000
	// p = 1e-4 of the two-sample statistic: √(2/n) √(-ln(p/2)/2)
	limit := math.Sqrt(2./n) * math.Sqrt(-math.Log(1e-4/2)/2)
	r := rand.New(rand.NewPCG(5, 3))
	for range 4 {
		s := newSetting(t, r)
		ch := s.f
		sampler := newBackground(ch)
		for _, with := range []bool{false, true} {
			src := stream(1, r.Uint64())
			var full, one, alias []float64
			for range n {
				full = append(full, s.release(r, with))
				l := skipping(ch, r)
				a := sampler.draw(src)
				if with {
					if r.Float64() < ch.Rate {
						l += ch.Step
					}
					if r.Float64() < ch.Rate {
						a += ch.Step
					}
				}
				one, alias = append(one, l), append(alias, a)
			}
			for name, of := range map[string][]float64{"gaps": one, "alias": alias} {
				if d := twoSample(full, of); !(d <= limit) {
					t.Errorf("%s, canary %v: distance %v, expected at most %v", name, with, d, limit)
				}
			}
		}
	}
}

func twoSample(a, b []float64) float64 {
	slices.Sort(a)
	slices.Sort(b)
	worst, j := 0.0, 0
	for i, x := range a {
		for j < len(b) && b[j] <= x {
			j++
		}
		worst = math.Max(worst, math.Abs(float64(i+1)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return worst
}

// TestAttackIsBelowTheMechanism: in 300 random mechanisms the exact ε of the
// attack is at most that of the mechanism, without exception; and it is not
// nothing.
func TestAttackIsBelowTheMechanism(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	share := 0.0
	for i := range 300 {
		s := newSetting(t, r)
		remove, add, err := accounting.SingleRelease(s.h.Event().(accounting.PoissonSampledGaussian), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		eps := math.Max(remove, add)
		a := Exact(s.l, 1e-5)
		if !(a.Lower <= a.Estimate && a.Estimate <= a.Upper && a.Estimate <= eps && a.Upper <= eps+attackGap) {
			t.Errorf("mechanism %d: attack %+v, mechanism %v", i, a, eps)
		}
		if !(a.AnyTest >= a.Estimate && a.AnyTest <= eps+1e-6) {
			t.Errorf("mechanism %d: attack %+v by any test, mechanism %v", i, a, eps)
		}
		share += a.Estimate / eps / 300
	}
	if !(share > .2) {
		t.Errorf("attacks reach %.3f of ε on average: nothing was tested", share)
	}
}

// TestEpsilonIsTheLargest: against a fine grid of thresholds, and against the
// closed form where there are no users and the canary is all that there can be:
// then the attack reaches the ε of the mechanism.
func TestEpsilonIsTheLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 3))
	for range 10 {
		s := newSetting(t, r)
		a := Exact(s.l, 1e-5)
		low, high := s.l.Range()
		best := 0.0
		for i := range 20001 {
			fpr, tpr := s.l.Rates(low + (high-low)*float64(i)/20000)
			if fpr > s.l.Error && tpr > 1e-5 {
				best = math.Max(best, math.Log((tpr-1e-5)/fpr))
			}
			if fnr := 1 - tpr; fnr > s.l.Error && 1-fpr > 1e-5 {
				best = math.Max(best, math.Log((1-fpr-1e-5)/fnr))
			}
		}
		if !(best <= a.Upper && best >= a.Estimate-1e-4) {
			t.Errorf("%v on a grid, %+v", best, a)
		}
	}
	ideal, err := NewLaw(&Channel{Rate: .1, Noise: 1, Shift: -.5, Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The mechanism's ε is a hockey-stick divergence, which the best test of one
	// threshold reaches at ε: δ = TPR - e^ε FPR.
	a := Exact(ideal, 1e-5)
	if want := 1.68454; !(math.Abs(a.Estimate-want) <= 1e-5) {
		t.Errorf("ε of the ideal attack is %+v, expected %v", a, want)
	}
	if !(math.Abs(a.AnyTest-a.Estimate) <= 1e-4) {
		t.Errorf("with a growing likelihood ratio thresholds are the best tests: %+v", a)
	}
	// One user who stands far out of the noise: the canary is seen on both its sides.
	lumpy, err := NewLaw(&Channel{X: []float64{8}, Rate: .5, Noise: 1, Shift: -.5, Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	if a := Exact(lumpy, .05); !(a.AnyTest > a.Estimate+.01) {
		t.Errorf("two lumps: %+v, thresholds are not the best tests there", a)
	}
}

func TestMoments(t *testing.T) {
	h := mechanism.Histogram{Slots: 4, K: 1, Cap: 1, Clip: 1, Noise: .5, Rate: .25}
	c := &Contributions{[]int32{0, 2}, []float64{1, 0, .5, .5}}
	m, err := NewMoments(h, c, 6) // three times as many
	if err != nil {
		t.Fatal(err)
	}
	want := mat.NewSymDense(2, []float64{3*.1875*1.25 + .25, 3 * .1875 * .25, 3 * .1875 * .25, 3*.1875*.25 + .25})
	if !mat.EqualApprox(m.Cov, want, 1e-15) || !(math.Abs(m.Mean[0]-3*.25*1.5) < 1e-15) || !(math.Abs(m.Mean[1]-3*.25*.5) < 1e-15) {
		t.Errorf("%v %v", m.Mean, mat.Formatted(m.Cov))
	}
	// ℓ is ln N(Y; mean+v, Cov) - ln N(Y; mean, Cov).
	v := []float64{.3, .6}
	s, err := NewStatistic(h, m, v)
	if err != nil {
		t.Fatal(err)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(m.Cov); err != nil {
		t.Fatal(err)
	}
	form := func(d []float64) float64 {
		x := mat.NewVecDense(2, d)
		return mat.Inner(x, &inverse, x)
	}
	y := []float64{2, -1}
	without := form([]float64{y[0] - m.Mean[0], y[1] - m.Mean[1]})
	with := form([]float64{y[0] - m.Mean[0] - v[0], y[1] - m.Mean[1] - v[1]})
	if l := s.Of(y); !(math.Abs(l-(without-with)/2) <= 1e-12) {
		t.Errorf("ℓ = %v, expected %v", l, (without-with)/2)
	}
	if !(math.Abs(s.Mu-math.Sqrt(form(v))) <= 1e-13) || !(math.Abs(s.Norm-math.Sqrt(.45)) <= 1e-15) {
		t.Errorf("μ %v, norm %v", s.Mu, s.Norm)
	}
	if _, err := NewStatistic(h, m, []float64{0, 0}); err == nil {
		t.Error("a canary without votes: no error")
	}
	if _, err := NewStatistic(h, m, []float64{1}); err == nil {
		t.Error("a canary of one slot: no error")
	}
}

func TestMixture(t *testing.T) {
	for _, q := range []float64{.1, 1, 1e-9} {
		for _, l := range []float64{-800, -5, -1e-9, 0, 1e-9, 3, 800} {
			want := math.Log(1 - q + q*math.Exp(l))
			if q == 1 {
				want = l
			} else if l > 700 {
				want = l + math.Log(q)
			}
			if got := Mixture(q, l); !(math.Abs(got-want) <= 1e-13+1e-15*math.Abs(want)) && !(q == 1e-9 && math.Abs(got-q*math.Expm1(l)) <= 1e-16) {
				t.Errorf("q %v, ℓ %v: %v, expected %v", q, l, got, want)
			}
		}
	}
}

// TestSimulate: counts do not depend on threads, on what was done before, or on
// shards, and agree with the law within 5 standard deviations.
func TestSimulate(t *testing.T) {
	c := someChannel(rand.New(rand.NewPCG(8, 3)), 30)
	s := NewSampler(c)
	l, err := NewLaw(c)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5*Block + 100
	taus := [][]float64{{.3, 1}}
	simulate := func(index uint64, run Run) ([]Counts, int) {
		t.Helper()
		c, done, err := s.Simulate(t.Context(), 7, []uint64{1, index}, n, taus, run)
		if err != nil {
			t.Fatal(err)
		}
		return c, done
	}
	all := map[int][]Counts{}
	finished := 0
	want, done := simulate(2, Run{Keep: func(b int, c []Counts) error { all[b] = c; return nil }, Finish: func() error { finished++; return nil }})
	if len(all) != 6 || done != n || finished != 1 {
		t.Fatal(all, done, finished)
	}
	for i, tau := range taus[0] {
		fpr, tpr := l.Rates(tau)
		for _, x := range []struct{ got, p float64 }{{float64(want[i].FP), fpr}, {float64(want[i].TP), tpr}} {
			if !(math.Abs(x.got-n*x.p) <= 5*math.Sqrt(n*x.p*(1-x.p))) {
				t.Errorf("%v of %d, expected %v", x.got, n, n*x.p)
			}
		}
	}
	runtime.GOMAXPROCS(1)
	one, _ := simulate(2, Run{})
	runtime.GOMAXPROCS(3)
	three, _ := simulate(2, Run{})
	runtime.GOMAXPROCS(runtime.NumCPU())
	sum, trials := make([]Counts, 2), 0
	for shard := range 3 {
		part, done := simulate(2, Run{Shard: shard, Shards: 3})
		for i, c := range part {
			sum[i].FP, sum[i].TP = sum[i].FP+c.FP, sum[i].TP+c.TP
		}
		trials += done
	}
	delete(all, 3)
	again, _ := simulate(2, Run{Done: all})
	for how, got := range map[string][]Counts{"one thread": one, "three threads": three, "shards": sum, "resumed": again} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", how, got, want)
		}
	}
	if trials != n {
		t.Errorf("shards ran %d of %d trials", trials, n)
	}
	if other, _ := simulate(3, Run{}); slices.Equal(other, want) {
		t.Error("another experiment, the same counts")
	}
	wrong := errors.New("full")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for what, run := range map[string]func() error{
		"full": func() error {
			_, _, err := s.Simulate(t.Context(), 7, []uint64{1}, n, taus, Run{Keep: func(int, []Counts) error { return wrong }})
			return err
		},
		"canceled": func() error { _, _, err := s.Simulate(ctx, 7, nil, n, taus, Run{}); return err },
		"0 trials": func() error { _, _, err := s.Simulate(t.Context(), 7, nil, 0, taus, Run{}); return err },
		"not a number": func() error {
			_, _, err := s.Simulate(t.Context(), 7, nil, 5, [][]float64{{math.NaN()}}, Run{})
			return err
		},
		"for 2 releases": func() error {
			_, _, err := s.Simulate(t.Context(), 7, nil, 5, [][]float64{{1}, {2}}, Run{})
			return err
		},
		"for 1 thresholds": func() error {
			_, _, err := s.Simulate(t.Context(), 7, nil, 5, taus, Run{Done: map[int][]Counts{0: {{}}}})
			return err
		},
		"counts 65537 and ": func() error {
			_, _, err := s.Simulate(t.Context(), 7, nil, Block, taus, Run{Done: map[int][]Counts{0: {{FP: Block + 1}, {}}}})
			return err
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func BenchmarkTrials(b *testing.B) {
	c := &Channel{Rate: .1, Noise: 1, Step: 1}
	r := rand.New(rand.NewPCG(9, 3))
	for range 1000 {
		c.X = append(c.X, .02*r.NormFloat64())
	}
	s := NewSampler(c)
	for b.Loop() {
		s.Block(1, nil, 0, 500_000, [][]float64{{3}})
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/1M-trials")
}

func BenchmarkLaw(b *testing.B) {
	c := &Channel{Rate: .1, Noise: .8, Step: 1}
	r := rand.New(rand.NewPCG(9, 3))
	for range 1000 {
		c.X = append(c.X, .05*r.NormFloat64())
	}
	for b.Loop() {
		l, err := NewLaw(c)
		if err != nil {
			b.Fatal(err)
		}
		Exact(l, 1e-5)
	}
}
