package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type adjustment func(p []float64) ([]float64, error)

// checkHolm compares with statsmodels' multipletests, and with three printed
// values (.013, .033, .088) of a published Holm adjustment over five pooled
// correlations of 337 records in 12 pools, from correlations of that size.
func checkHolm(f adjustment) error {
	got, err := f([]float64{.01, .04, .03, .005, .5, .03})
	if err != nil {
		return err
	}
	for i, want := range []float64{.05, .12, .12, .03, .5, .12} {
		if !(math.Abs(got[i]-want) <= 1e-15) {
			return fmt.Errorf("p-value %d becomes %v, want %v", i, got[i], want)
		}
	}
	var p []float64
	for _, r := range []float64{.02, .172, -.01, .125, .151} {
		v, err := Correlation{r, 304}.Test(0)
		if err != nil {
			return err
		}
		p = append(p, v)
	}
	if got, err = f(p); err != nil {
		return err
	}
	for i, want := range map[int]string{1: "0.013", 3: "0.088", 4: "0.033"} {
		if text := fmt.Sprintf("%.3f", got[i]); text != want {
			return fmt.Errorf("correlation %d: adjusted p-value %s, want %s", i, text, want)
		}
	}
	return nil
}

// checkFamilywise draws 5 uniform p-values, the last two equal, and rejects
// those adjusted to .1 or less: any rejection is false.
func checkFamilywise(f adjustment) error {
	const runs, alpha = 20_000, .1
	rng := rand.New(rand.NewPCG(59, 61))
	wrong := 0
	for range runs {
		p := []float64{rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), 0}
		p[4] = p[3]
		adjusted, err := f(p)
		if err != nil {
			return err
		}
		for _, v := range adjusted {
			if !(v > alpha) {
				wrong++
				break
			}
		}
	}
	if most := alpha*runs + 5*math.Sqrt(alpha*(1-alpha)*runs); !(float64(wrong) <= most) {
		return fmt.Errorf("false rejections in %d of %d runs, want at most %.0f", wrong, runs, most)
	}
	return nil
}

func TestHolm(t *testing.T) {
	if err := checkHolm(Holm); err != nil {
		t.Error(err)
	}
	if err := checkFamilywise(Holm); err != nil {
		t.Error(err)
	}
	if p, err := Holm(nil); err != nil || len(p) != 0 {
		t.Errorf("no tests: %v, %v", p, err)
	}
	for _, bad := range []float64{-1e-9, 1.1, math.NaN()} {
		if _, err := Holm([]float64{.5, bad}); err == nil || !strings.Contains(err.Error(), "p-value 1 is") {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}

// TestHolmProperties: the order of p-values stays, none gets smaller or beyond
// Bonferroni's.
func TestHolmProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		adjusted, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p {
			if !(adjusted[i] >= p[i] && adjusted[i] <= math.Min(1, float64(len(p))*p[i])) {
				t.Errorf("%v becomes %v of %d", p[i], adjusted[i], len(p))
			}
			for j := range p {
				if p[i] < p[j] && adjusted[i] > adjusted[j] {
					t.Errorf("order of %v and %v turned", p[i], p[j])
				}
			}
		}
	})
}

func TestPlantedHolmFaults(t *testing.T) {
	each := func(factor func(rank, m int) float64) adjustment { // without the running maximum
		return func(p []float64) ([]float64, error) {
			out := make([]float64, len(p))
			for i := range p {
				rank := 1
				for j := range p {
					if p[j] < p[i] || p[j] == p[i] && j < i {
						rank++
					}
				}
				out[i] = min(1, factor(rank, len(p))*p[i])
			}
			return out, nil
		}
	}
	for name, f := range map[string]adjustment{
		"no running maximum":   each(func(rank, m int) float64 { return float64(m - rank + 1) }),
		"factor off by one":    each(func(rank, m int) float64 { return float64(m - rank) }),
		"Bonferroni":           each(func(_, m int) float64 { return float64(m) }),
		"Benjamini-Hochberg":   each(func(rank, m int) float64 { return float64(m) / float64(rank) }),
		"no adjustment at all": each(func(int, int) float64 { return 1 }),
	} {
		if checkHolm(f) == nil {
			t.Errorf("the oracles do not notice: %s", name)
		}
	}
	if checkFamilywise(each(func(int, int) float64 { return 1 })) == nil {
		t.Error("false rejections are not noticed")
	}
}

// checkFisher compares with closed forms computed in Python (numpy, scipy).
func checkFisher(interval func(Correlation, float64) (Estimate, error)) error {
	for _, c := range []struct {
		c                 Correlation
		low, high         float64
		zero, threeTenths float64
	}{
		{Correlation{.5, 20}, .07381057440740976, .7717607064299187, .023522054512814965, .3228269586359168},
		{Correlation{-.9, 10}, -.9763590803424295, -.6239349925489369, 9.814743490816298e-05, 2.428546946683932e-06},
		{Correlation{.172, 304}, .06068181437924969, .2790922333388247, .00257785995371927, .018477133696532613},
	} {
		e, err := interval(c.c, .05)
		if err != nil {
			return err
		}
		if !near(e.Low, c.low, 1e-12) || !near(e.High, c.high, 1e-12) || e.Value != c.c.R {
			return fmt.Errorf("%+v: %+v, want %v to %v", c.c, e, c.low, c.high)
		}
		for rho, want := range map[float64]float64{0: c.zero, .3: c.threeTenths} {
			if p, err := c.c.Test(rho); err != nil || !near(p, want, 1e-12) {
				return fmt.Errorf("%+v: p-value %v of %v, %v, want %v", c.c, p, rho, err, want)
			}
		}
	}
	return nil
}

// sampleCorrelation is that of n normal pairs whose true correlation is rho.
func sampleCorrelation(rng *rand.Rand, n int, rho float64) Correlation {
	var x, y, xx, yy, xy float64
	for range n {
		u := rng.NormFloat64()
		v := rho*u + math.Sqrt(1-rho*rho)*rng.NormFloat64()
		x, y, xx, yy, xy = x+u, y+v, xx+u*u, yy+v*v, xy+u*v
	}
	m := float64(n)
	return Correlation{(xy - x*y/m) / math.Sqrt((xx-x*x/m)*(yy-y*y/m)), n}
}

// checkFisherCoverage wants the level to five standard errors, and .006 for
// Fisher's approximation at ten normal pairs: artanh R is biased by rho/(2(n-1)),
// a tenth of its standard deviation, which costs z·φ(z)·.1² = .001, and its
// variance is that of its series to 3 %, which costs z·φ(z)·.03 = .004.
func checkFisherCoverage(interval func(Correlation, float64) (Estimate, error)) error {
	const runs, alpha, rho = 10_000, .05, .6
	rng := rand.New(rand.NewPCG(67, 71))
	held := 0
	for range runs {
		e, err := interval(sampleCorrelation(rng, 10, rho), alpha)
		if err != nil {
			return err
		}
		if e.Low <= rho && rho <= e.High {
			held++
		}
	}
	if tol := 5*math.Sqrt(alpha*(1-alpha)/runs) + .006; !(math.Abs(float64(held)/runs-(1-alpha)) <= tol) {
		return fmt.Errorf("held %d times in %d, want %v ± %v", held, runs, (1-alpha)*runs, tol*runs)
	}
	return nil
}

func TestFisher(t *testing.T) {
	if err := checkFisher(Correlation.Interval); err != nil {
		t.Error(err)
	}
	if err := checkFisherCoverage(Correlation.Interval); err != nil {
		t.Error(err)
	}
}

func TestPlantedFisherFaults(t *testing.T) {
	for name, f := range map[string]func(Correlation, float64) (Estimate, error){
		"n for n-3": func(c Correlation, alpha float64) (Estimate, error) {
			return Correlation{c.R, c.N + 3}.Interval(alpha)
		},
		"one-sided quantile": func(c Correlation, alpha float64) (Estimate, error) { return c.Interval(2 * alpha) },
		"not transformed": func(c Correlation, _ float64) (Estimate, error) {
			half := 1.959963984540054 / math.Sqrt(float64(c.N-3))
			return Estimate{c.R, c.R - half, c.R + half}, nil
		},
	} {
		if checkFisher(f) == nil {
			t.Errorf("the oracles do not notice: %s", name)
		}
		if checkFisherCoverage(f) == nil {
			t.Errorf("the coverage does not notice: %s", name)
		}
	}
}

func TestPoolCorrelations(t *testing.T) {
	got, err := PoolCorrelations([]Correlation{{.1, 20}, {.3, 33}, {-.2, 50}})
	if err != nil || got.N != 97 || !(math.Abs(got.R-.015561073550109477) <= 1e-15) { // scipy
		t.Errorf("%+v, %v", got, err)
	}
}

type comparison func(a, b Correlation, alpha float64) (Estimate, float64, error)

// checkComparison compares with the formulas in Python, and counts how often
// the interval of samples of 15 and 25 normal pairs misses the true difference
// and the test a true hypothesis, each to five standard errors and .006, as for
// one correlation.
func checkComparison(f comparison) error {
	e, p, err := f(Correlation{.5, 100}, Correlation{.2, 50}, .05)
	if err != nil {
		return err
	}
	if !near(e.Value, .3, 1e-12) || !near(e.Low, -.0012581217139351897, 1e-12) || !near(e.High, .6131509100840447, 1e-12) || !near(p, .05116841084145633, 1e-12) {
		return fmt.Errorf("%+v, p = %v", e, p)
	}
	const runs, alpha = 10_000, .05
	tol := 5*math.Sqrt(alpha*(1-alpha)*runs) + .006*runs
	rng := rand.New(rand.NewPCG(73, 79))
	missed, rejected := 0, 0
	for range runs {
		e, _, err := f(sampleCorrelation(rng, 15, .7), sampleCorrelation(rng, 25, .1), alpha)
		if err != nil {
			return err
		}
		if !(e.Low <= .6 && .6 <= e.High) {
			missed++
		}
		_, p, err := f(sampleCorrelation(rng, 15, .4), sampleCorrelation(rng, 25, .4), alpha)
		if err != nil {
			return err
		}
		if !(p > alpha) {
			rejected++
		}
	}
	if !(math.Abs(float64(missed)-alpha*runs) <= tol) || !(math.Abs(float64(rejected)-alpha*runs) <= tol) {
		return fmt.Errorf("missed %d times, rejected %d times in %d, want %v ± %.0f", missed, rejected, runs, alpha*runs, tol)
	}
	return nil
}

func TestCompareCorrelations(t *testing.T) {
	if err := checkComparison(CompareCorrelations); err != nil {
		t.Error(err)
	}
	same := Correlation{.3, 40}
	if e, p, err := CompareCorrelations(same, same, .05); err != nil || e.Value != 0 || p != 1 {
		t.Errorf("a correlation and itself: %+v, p = %v, %v", e, p, err)
	}
	ends := func(a, b Correlation, alpha float64) (Estimate, float64, error) { // the ends' differences
		x, err := a.Interval(alpha)
		if err != nil {
			return Estimate{}, 0, err
		}
		y, err := b.Interval(alpha)
		if err != nil {
			return Estimate{}, 0, err
		}
		_, p, err := CompareCorrelations(a, b, alpha)
		return Estimate{a.R - b.R, x.Low - y.High, x.High - y.Low}, p, err
	}
	turned := func(a, b Correlation, alpha float64) (Estimate, float64, error) {
		return CompareCorrelations(b, a, alpha)
	}
	for name, f := range map[string]comparison{"differences of the ends": ends, "sides exchanged": turned} {
		if checkComparison(f) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

func TestCorrelationsRefused(t *testing.T) {
	ok := Correlation{.5, 20}
	for _, c := range []Correlation{{1, 20}, {-1, 20}, {math.NaN(), 20}, {.5, 3}} {
		_, test := c.Test(0)
		_, interval := c.Interval(.05)
		_, pool := PoolCorrelations([]Correlation{ok, c})
		_, _, compare := CompareCorrelations(ok, c, .05)
		for _, err := range []error{test, interval, pool, compare} {
			if err == nil || !strings.Contains(err.Error(), "correlation") {
				t.Errorf("%+v: error %v", c, err)
			}
		}
	}
	if _, err := ok.Test(1); err == nil {
		t.Error("took the hypothesis of a correlation of 1")
	}
	if _, err := ok.Interval(0); err == nil {
		t.Error("took alpha = 0")
	}
	if _, err := PoolCorrelations(nil); err == nil {
		t.Error("pooled nothing")
	}
}
