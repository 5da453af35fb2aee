package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit"
)

// bootstrapInterval is what the bootstrap intervals must look like.
type bootstrapInterval func(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error)

// skewed is twelve members and ten non-members of different laws.
func skewed() audit.Scores {
	s := audit.Scores{Value: []float64{
		.3, 1.9, .4, 2.7, 1.1, .9, 4.8, 1.6, .2, 3.3, 2.1, .7,
		-.6, .5, .1, 1.2, -1.1, .8, .35, 2.2, -.2, 1,
	}}
	for i := range s.Value {
		s.Member = append(s.Member, i < 12)
	}
	return s
}

func aucOf(s audit.Scores) float64 {
	v, err := AUC(s)
	if err != nil {
		return math.NaN()
	}
	return v
}

// squareLess is (mean of the members)² - mean of the others.
func squareLess(s audit.Scores) float64 {
	sides := split(s)
	m := mean(sides[0])
	return m*m - mean(sides[1])
}

// sdRatio is the members' standard deviation over that of the others.
func sdRatio(s audit.Scores) float64 {
	sides := split(s)
	sd := func(x []float64) float64 { return sampleSD(x) * math.Sqrt(float64(len(x)-1)/float64(len(x))) }
	return sd(sides[0]) / sd(sides[1])
}

// checkBootstrap compares with scipy.stats.bootstrap at alpha = .1: the mean
// over four runs of 100,000 draws each, and the standard deviation of one run.
// Ours has a fifth of the draws and so √5 of that, the difference √(5 + 1/4);
// the sd comes from four runs only, whence six of it. An AUC is a multiple of 1/120, and its
// ends are at most one step apart.
func checkBootstrap(percentile, bca bootstrapInterval) error {
	ctx, r := context.Background(), Resampling{Draws: 19_999, Seed: 1}
	for _, c := range []struct {
		name           string
		f              Statistic
		interval       bootstrapInterval
		want           Estimate
		sdLow, sdHigh  float64
		latticeSpacing float64
	}{
		{"AUC, percentile", aucOf, percentile, Estimate{.7583333333333333, .575, .9125}, 0, 0, 1. / 120},
		{"AUC, BCa", aucOf, bca, Estimate{.7583333333333333, .54166667, .9}, 0, 0, 1. / 120},
		{"mean² - mean, percentile", squareLess, percentile, Estimate{2.3527777777777783, .63976997, 5.05038455}, .00788544, .00526347, 0},
		{"mean² - mean, BCa", squareLess, bca, Estimate{2.3527777777777783, .76925347, 5.44353749}, .00349209, .01430569, 0},
		{"sd ratio, percentile", sdRatio, percentile, Estimate{1.4785945199668977, .82197702, 2.6121068}, .00182725, .00430987, 0},
		{"sd ratio, BCa", sdRatio, bca, Estimate{1.4785945199668977, .80584514, 2.56233818}, .00240125, .00999774, 0},
	} {
		got, err := c.interval(ctx, r, skewed(), c.f, .1)
		if err != nil {
			return err
		}
		tol := func(sd float64) float64 { return 6*math.Sqrt(5.25)*sd + c.latticeSpacing*(1+1e-6) }
		if !(math.Abs(got.Value-c.want.Value) <= 1e-14) || !(math.Abs(got.Low-c.want.Low) <= tol(c.sdLow)) || !(math.Abs(got.High-c.want.High) <= tol(c.sdHigh)) {
			return fmt.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	return nil
}

// meanGap is the members' mean less that of the others.
func meanGap(s audit.Scores) float64 {
	var sum, n [2]float64
	for i, v := range s.Value {
		side := 0
		if s.Member[i] {
			side = 1
		}
		sum[side] += v
		n[side]++
	}
	return sum[1]/n[1] - sum[0]/n[0]
}

// checkBootstrapCoverage holds the percentile interval of a difference of
// means, 60 of each side, to its level: five standard errors and 1/60 for its
// own error.
func checkBootstrapCoverage(f bootstrapInterval) error {
	const runs, alpha, mu = 800, .1, .8
	rng := rand.New(rand.NewPCG(47, 53))
	held := 0
	for i := range runs {
		e, err := f(context.Background(), Resampling{Draws: 199, Seed: uint64(i)}, binormal(rng, 60, 60, mu), meanGap, alpha)
		if err != nil {
			return err
		}
		if e.Low <= mu && mu <= e.High {
			held++
		}
	}
	if tol := 5*math.Sqrt(alpha*(1-alpha)/runs) + 1./60; !(math.Abs(float64(held)/runs-(1-alpha)) <= tol) {
		return fmt.Errorf("held %d times in %d, want %v ± %v", held, runs, (1-alpha)*runs, tol*runs)
	}
	return nil
}

func TestBootstrap(t *testing.T) {
	if err := checkBootstrap(BootstrapPercentile, BootstrapBCa); err != nil {
		t.Error(err)
	}
	if err := checkBootstrapCoverage(BootstrapPercentile); err != nil {
		t.Error(err)
	}
}

// TestAcceleration: of the members' mean, a is their skewness over 6√n.
func TestAcceleration(t *testing.T) {
	s := skewed()
	x := split(s)[0]
	m, squares, cubes := mean(x), 0.0, 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
		cubes += math.Pow(v-m, 3)
	}
	want := cubes / 6 / math.Pow(squares, 1.5)
	got, err := acceleration(context.Background(), s, func(s audit.Scores) float64 { return mean(split(s)[0]) })
	if err != nil || !near(got, want, 1e-12) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestShareBelow(t *testing.T) {
	for value, want := range map[float64]float64{-1: 0, 0: 1. / 8, .5: 1. / 4, 1: 1. / 2, 2: 7. / 8, 3: 1} {
		if got := shareBelow([]float64{0, 1, 1, 2}, value); got != want {
			t.Errorf("below %v: %v, want %v", value, got, want)
		}
	}
}

func TestPlantedBootstrapFaults(t *testing.T) {
	corrected := func(signZ0, signA float64) bootstrapInterval {
		return func(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error) {
			value, draws, err := bootstrap(ctx, r, s, f, alpha)
			if err != nil {
				return Estimate{}, err
			}
			a, err := acceleration(ctx, s, f)
			if err != nil {
				return Estimate{}, err
			}
			z0 := mathext.NormalQuantile(shareBelow(draws, value))
			low, high := correctedTails(signZ0*z0, signA*a, alpha)
			return Estimate{value, rankFromBelow(draws, low), rankFromAbove(draws, high)}, nil
		}
	}
	for name, f := range map[string]bootstrapInterval{
		"bias corrected the wrong way": corrected(-1, 1), "acceleration of the wrong sign": corrected(1, -1),
		"no correction": BootstrapPercentile,
	} {
		if checkBootstrap(BootstrapPercentile, f) == nil {
			t.Errorf("the oracles do not notice: %s", name)
		}
	}
	halfAlpha := func(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error) {
		return BootstrapPercentile(ctx, r, s, f, 2*alpha)
	}
	// Twice the candidates, by writing each of them down twice.
	doubled := func(ctx context.Context, r Resampling, s audit.Scores, f Statistic, alpha float64) (Estimate, error) {
		return BootstrapPercentile(ctx, r, audit.Scores{Value: slices.Concat(s.Value, s.Value), Member: slices.Concat(s.Member, s.Member)}, f, alpha)
	}
	for name, f := range map[string]bootstrapInterval{"one-sided ranks": halfAlpha, "too many drawn": doubled} {
		if checkBootstrap(f, BootstrapBCa) == nil || checkBootstrapCoverage(f) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

// TestBootstrapThreads: the number of threads changes no bit, the seed does.
func TestBootstrapThreads(t *testing.T) {
	for name, f := range map[string]bootstrapInterval{"percentile": BootstrapPercentile, "BCa": BootstrapBCa} {
		results := map[Estimate]bool{}
		for _, threads := range []int{1, 2, 7, 0} {
			e, err := f(context.Background(), Resampling{Draws: 999, Seed: 5, Threads: threads}, skewed(), squareLess, .05)
			if err != nil {
				t.Fatal(err)
			}
			results[e] = true
		}
		other, err := f(context.Background(), Resampling{Draws: 999, Seed: 6}, skewed(), squareLess, .05)
		if err != nil || len(results) != 1 || results[other] {
			t.Errorf("%s: %v with one seed, %v with another, %v", name, results, other, err)
		}
	}
}

// TestBootstrapStops: at the end of the context and at the first error.
func TestBootstrapStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int64
	f := func(s audit.Scores) float64 {
		if calls.Add(1) == 100 {
			cancel()
		}
		return squareLess(s)
	}
	_, err := BootstrapPercentile(ctx, Resampling{Draws: 1e6, Threads: 3}, skewed(), f, .05)
	if !errors.Is(err, context.Canceled) || calls.Load() > 110 {
		t.Errorf("cancelled at call 100: error %v after %d calls", err, calls.Load())
	}
	calls.Store(0)
	sometimes := func(audit.Scores) float64 {
		if calls.Add(1) > 50 {
			return math.NaN()
		}
		return 1
	}
	_, err = BootstrapPercentile(context.Background(), Resampling{Draws: 1e6, Threads: 3}, skewed(), sometimes, .05)
	if err == nil || !strings.Contains(err.Error(), "NaN") || calls.Load() > 60 {
		t.Errorf("NaN at call 51: error %v after %d calls", err, calls.Load())
	}
}

func TestBootstrapRefuses(t *testing.T) {
	one := audit.Scores{Value: []float64{1, 2, 3}, Member: []bool{true, false, false}}
	wide := modular(1009, false)
	distinct := func(s audit.Scores) float64 {
		v := slices.Clone(s.Value)
		slices.Sort(v)
		return float64(len(slices.Compact(v)))
	}
	for _, c := range []struct {
		r     Resampling
		s     audit.Scores
		f     Statistic
		alpha float64
		want  string
	}{
		{Resampling{Draws: 38}, tiny(), aucOf, .05, "draws: 38, expected 39"},
		{Resampling{Draws: -1}, tiny(), aucOf, .05, "draws: -1"},
		{Resampling{Draws: 99, Threads: -1}, tiny(), aucOf, .05, "threads: -1"},
		{Resampling{Draws: 99}, tiny(), aucOf, 0, "alpha: 0"},
		{Resampling{Draws: 99}, audit.Scores{}, aucOf, .05, "both sides"},
		{Resampling{Draws: 99}, tiny(), func(audit.Scores) float64 { return math.NaN() }, .05, "NaN"},
		{Resampling{Draws: 99}, one, aucOf, .05, "1 members"},
		// fewer distinct scores in all draws than in the data
		{Resampling{Draws: 99}, wide, distinct, .05, "one side"},
	} {
		_, err := BootstrapBCa(context.Background(), c.r, c.s, c.f, c.alpha)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := BootstrapPercentile(context.Background(), Resampling{Draws: 39}, tiny(), aucOf, .05); err != nil {
		t.Errorf("39 draws at alpha = .05: %v", err)
	}
}
