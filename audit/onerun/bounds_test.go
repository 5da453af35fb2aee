package onerun

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// countedScores is a game of m canaries of which the k highest and k lowest
// scores guess so many wrong.
func countedScores(m, k, wrong int) audit.Scores {
	s := audit.Scores{}
	for i := range m {
		s.Value = append(s.Value, float64(i))
		member := i >= m/2
		if i < wrong || i >= m-k && i < m-k+wrong%2 { // among the lowest, and for an odd number one of the highest
			member = !member
		}
		s.Member = append(s.Member, member)
	}
	return s
}

// TestBoundsByHand holds the bounds to what implementations independent of ours
// give for 1000 canaries, 200 guesses and 150 right ones at δ = 1e-5 (the code of
// appendix D of Steinke et al., and an f-DP recursion that agrees with
// jax_privacy's): 6 printed decimals.
func TestBoundsByHand(t *testing.T) {
	b, err := NewBounder(0)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := b.Bound(countedScores(1000, 100, 50))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		estimator, rule string
		scope           stats.Scope
		eps, tol        float64
	}{
		{"steinke", "fixed", stats.ModelFree, .819973, 1e-6},
		{"mahloujifar-eps-delta", "fixed", stats.ModelFree, .819973, .02 * .819973}, // within 2 % of Steinke's, as bounds of (ε, δ) are
		{"mahloujifar-gdp", "fixed", "family:gdp", 1.296916, 1e-6},
	} {
		got := bounds[i]
		if got.Estimator != want.estimator || got.Rule != want.rule || got.Scope != want.scope || got.Delta != 1e-5 || !(math.Abs(got.Epsilon-want.eps) <= want.tol) {
			t.Errorf("bound %d is %+v, want %+v", i, got, want)
		}
	}
	paper := bounds[3]
	if paper.Rule != "paper" || paper.Scope.Sound() || paper.Scope != stats.Estimated || !(paper.Epsilon >= bounds[2].Epsilon) || len(bounds) != 4 {
		t.Errorf("the paper's row is %+v of %d", paper, len(bounds))
	}
	summary, err := SummarizeBounds([][]AuditBound{bounds, bounds}, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range summary {
		if s.Sound != (i < 2) || s.Confidence != .95 || s.Epsilon.Mean != bounds[i].Epsilon || s.Epsilon.Min != bounds[i].Epsilon || *s.Epsilon.SD != 0 {
			t.Errorf("summary %d is %+v", i, s)
		}
	}
}

// TestBoundsHoldOnNull: with scores that know nothing, each fixed bound exceeds
// the truth, 0, in at most one game of twenty. The paper's maximum, the planted
// fault, does so several times as often: it must never be called sound.
func TestBoundsHoldOnNull(t *testing.T) {
	const games = 300
	// Five standard errors above the level.
	limit := games*.05 + 5*math.Sqrt(games*.05*.95)
	b, err := NewBounder(1e-5)
	if err != nil {
		t.Fatal(err)
	}
	var above [4]int
	rng := rand.New(rand.NewPCG(3, 1))
	for range games {
		s := audit.Scores{}
		for range 200 {
			s.Value, s.Member = append(s.Value, rng.NormFloat64()), append(s.Member, rng.IntN(2) == 1)
		}
		bounds, err := b.Bound(s)
		if err != nil {
			t.Fatal(err)
		}
		for i, bound := range bounds {
			if bound.Epsilon > 0 {
				above[i]++
			}
		}
	}
	for i, n := range above {
		if valid := float64(n) <= limit; valid != (i < 3) {
			t.Errorf("bound %d exceeds 0 in %d of %d games without a leak", i, n, games)
		}
	}
}

// TestBounderRemembers: what is remembered is what would be computed.
func TestBounderRemembers(t *testing.T) {
	b, err := NewBounder(1e-6)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for wrong := range 8 {
			s := countedScores(60, 6, wrong)
			fresh, err := NewBounder(1e-6)
			if err != nil {
				t.Fatal(err)
			}
			want, err := fresh.Bound(s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Bound(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d wrong: %s", wrong, diff)
			}
		}
	}
}

func TestBadBounds(t *testing.T) {
	for _, delta := range []float64{-1e-5, 1, math.NaN()} {
		_, err := NewBounder(delta)
		wantError(t, err, "delta", fmt.Sprint(delta))
		g, trainer := toyGame(filepath.Join(t.TempDir(), "run"))
		g.Header.Delta = delta
		_, err = g.Run(context.Background())
		wantError(t, err, "delta", fmt.Sprint(delta))
		if _, gone := os.Stat(g.Dir); gone == nil || trainer.runs > 0 {
			t.Errorf("δ = %v: trained %d times, directory %v", delta, trainer.runs, gone)
		}
	}
	b, err := NewBounder(0)
	if err != nil {
		t.Fatal(err)
	}
	s := countedScores(100, 10, 0)
	for i := range s.Member {
		s.Member[i] = i > 0
	}
	_, err = b.Bound(s)
	wantError(t, err, "99 of 100", "fair coins")
	if _, err := SummarizeBounds(nil, nil); err == nil {
		t.Error("summed up nothing")
	}
}

// TestReportBounds: a game's report has the bounds of its score files, at the
// header's δ.
func TestReportBounds(t *testing.T) {
	dir := t.TempDir()
	g, _ := toyGame(dir)
	accounted := 3.5
	g.Header.Delta, g.Header.Accounted = 1e-3, &accounted
	g.Trainer = lossesOf(func(m int) []float64 {
		l := make([]float64, m)
		for i := range l {
			l[i] = float64(i * i % 37)
		}
		return l
	})
	rep := play(t, g)
	if rep.Delta != 1e-3 || rep.Accounted == nil || *rep.Accounted != accounted {
		t.Errorf("δ is %v, accounted ε %v", rep.Delta, rep.Accounted)
	}
	b, err := NewBounder(1e-3)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rep.Methods {
		var all [][]AuditBound
		var sets []int
		for _, r := range m.Runs {
			s, err := readScores(filepath.Join(dir, r.Scores))
			if err != nil {
				t.Fatal(err)
			}
			bounds, err := b.Bound(s)
			if err != nil {
				t.Fatal(err)
			}
			all, sets = append(all, bounds), append(sets, r.Set)
		}
		want, err := SummarizeBounds(all, sets)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.Bounds); diff != "" {
			t.Errorf("%s: %s", m.Name, diff)
		}
	}
	// δ is no setting of the game: another one bounds the same scores anew.
	g.Resume, g.Header.Delta, g.Header.Accounted = true, 0, nil
	if again := play(t, g); again.Delta != DefaultDelta || again.Methods[0].Bounds[0].Delta != DefaultDelta || again.Accounted != nil {
		t.Errorf("resumed, δ is %v", again.Delta)
	}
}

// runsOf are audits with these AUCs, two in each set; TPR is half of AUC.
func runsOf(auc ...float64) (runs []audit.Run) {
	for i, v := range auc {
		runs = append(runs, audit.Run{Set: i / 2, Audit: i % 2, AUC: v, TPR: v / 2})
	}
	return runs
}

// TestPair holds a comparison to one made by hand. Differences are 1, 3, 5 and 7
// hundredths; the sets' means are .02 and .06, so that with t = 12.7062 for one
// degree of freedom the interval is .04 ± 12.7062 · .02.
func TestPair(t *testing.T) {
	base := audit.Method{Name: "random", Runs: runsOf(.5, .5, .5, .5)}
	m := audit.Method{Name: "greedy", Runs: runsOf(.51, .53, .55, .57)}
	m.Runs[0], m.Runs[3] = m.Runs[3], m.Runs[0] // the order must not matter to the pairs
	pairs, err := Pair([]audit.Method{base, m})
	if err != nil {
		t.Fatal(err)
	}
	p := pairs[0]
	near := func(name string, got, want, tol float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tol) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	const tol = 1e-15 // a few roundings of numbers below 1
	near("mean", p.AUC.Mean, .04, tol)
	near("mean TPR", p.TPR.Mean, .02, tol)
	near("min", p.AUC.Min, .01, tol)
	near("low", *p.AUC.Low, .04-12.7062*.02, 1e-6) // t is printed with four decimals
	near("high", *p.TPR.High, .02+12.7062*.01, 1e-6)
	if len(pairs) != 1 || p.Method != "greedy" || p.Baseline != "random" || p.WinsAUC != 4 || p.WinsTPR != 4 || p.Runs != 4 {
		t.Errorf("%d comparisons, the first %+v", len(pairs), p)
	}
	// Ties are nobody's win, and an interval ends where no difference can be.
	base.Runs, m.Runs = runsOf(.1, .1, .5, .5), runsOf(1, 1, .5, .5)
	if pairs, err = Pair([]audit.Method{base, m}); err != nil {
		t.Fatal(err)
	}
	if p := pairs[0]; p.WinsAUC != 2 || *p.AUC.High != 1 || *p.AUC.Low != -1 {
		t.Errorf("%+v, interval %v to %v", p, *p.AUC.Low, *p.AUC.High)
	}
}

// TestPairsOfMany: all pairs of up to six methods, each with the first of more.
func TestPairsOfMany(t *testing.T) {
	var methods []audit.Method
	for n, want := range []int{0, 0, 1, 3, 6, 10, 15, 6, 7} {
		pairs, err := Pair(methods)
		if err != nil || len(pairs) != want {
			t.Errorf("%d methods: %d comparisons, want %d; %v", n, len(pairs), want, err)
		}
		for _, p := range pairs {
			if n > manyMethods && p.Baseline != "m0" || p.Method <= p.Baseline {
				t.Errorf("%d methods: %s against %s", n, p.Method, p.Baseline)
			}
		}
		methods = append(methods, audit.Method{Name: fmt.Sprint("m", n), Runs: runsOf(.5, .6)})
	}
}

// TestBadPairs: audits that have no partner must not be compared with another.
func TestBadPairs(t *testing.T) {
	other := runsOf(.5, .6)
	other[1].Audit = 7
	twice := runsOf(.5, .6)
	twice[1] = twice[0]
	for name, runs := range map[string][]audit.Run{"other": other, "twice": twice, "fewer": runsOf(.5), "none": nil} {
		_, err := Pair([]audit.Method{{Name: "random", Runs: runsOf(.5, .5)}, {Name: "greedy", Runs: runs}})
		if err == nil || !strings.Contains(err.Error(), "greedy with random") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPairedSeesThroughSharedNoise: differences of figures that share much of
// their noise have a shorter interval than the figures; and where the pairs are
// mixed up, the planted fault, they do not.
func TestPairedSeesThroughSharedNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	var a, b []float64
	for range 20 {
		shared := .1 * rng.NormFloat64()
		a, b = append(a, .5+shared), append(b, .52+shared+.002*rng.NormFloat64())
	}
	width := func(a, b []float64) float64 {
		pairs, err := Pair([]audit.Method{{Name: "a", Runs: runsOf(a...)}, {Name: "b", Runs: runsOf(b...)}})
		if err != nil {
			t.Fatal(err)
		}
		return *pairs[0].AUC.High - *pairs[0].AUC.Low
	}
	paired := width(a, b)
	mixed := append(append([]float64{}, b[7:]...), b[:7]...)
	if !(paired < .01) || !(width(a, mixed) > .05) {
		t.Errorf("the interval is %v wide, mixed up %v", paired, width(a, mixed))
	}
}
