package stats

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"pgregory.net/rapid"
)

// tails is the functions under test; the checks take them as arguments, so that
// faults can be planted.
type tails struct {
	upper, lower, logPMF func(k, n int, p float64) float64
	cpLower, cpUpper     func(x, n int, alpha float64) float64
}

var ours = tails{binomialUpper, binomialLower, logBinomialPMF, clopperPearsonLower, clopperPearsonUpper}

// near reports whether got is want to a relative tol; where want underflows,
// got must too.
func near(got, want, tol float64) bool {
	return math.Abs(got-want) <= tol*math.Abs(want)+5e-324
}

// checkTails compares with the oracles. The logarithm of the smallest tail is
// -780; it is the sum of two terms with a few roundings each, so the tail has
// 780·4·2⁻⁵³ < 4e-13.
func checkTails(f tails) error {
	const tol = 1e-12
	for _, c := range tailOracles {
		at := fmt.Sprintf("at k = %d, n = %d, p = %v: ", c.k, c.n, c.p)
		if got := f.upper(c.k, c.n, c.p); !near(got, c.upper, tol) {
			return fmt.Errorf("%supper tail %v, want %v", at, got, c.upper)
		}
		if got := f.lower(c.k, c.n, c.p); !near(got, c.lower, tol) {
			return fmt.Errorf("%slower tail %v, want %v", at, got, c.lower)
		}
		if got := f.logPMF(c.k, c.n, c.p); !(math.Abs(got-c.logPMF) <= tol) {
			return fmt.Errorf("%sln pmf %v, want %v", at, got, c.logPMF)
		}
	}
	return nil
}

// checkBounds compares with the oracles, to 1e-12: the tail's error becomes
// smaller in the bound, but for tails that vary less than their argument.
func checkBounds(f tails) error {
	for _, c := range boundOracles {
		at := fmt.Sprintf("at x = %d, n = %d, alpha = %v: ", c.x, c.n, c.alpha)
		if got := f.cpLower(c.x, c.n, c.alpha); !near(got, c.lower, 1e-12) {
			return fmt.Errorf("%slower bound %v, want %v", at, got, c.lower)
		}
		if got := f.cpUpper(c.x, c.n, c.alpha); !near(got, c.upper, 1e-12) {
			return fmt.Errorf("%supper bound %v, want %v", at, got, c.upper)
		}
	}
	return nil
}

// clopperPearsonTable is published bounds for one million trials, at the levels
// .0025, .005, .0125 and .025: lower and upper, as printed.
const clopperPearsonTable = `
0 | 0, 5.9914465983e-06 | 0, 5.2983033305e-06 | 0, 4.3820170336e-06 | 0, 3.6888726502e-06
1 | 2.5031302150e-09, 8.2119384499e-06 | 5.0125418110e-09, 7.4301056120e-06 | 1.2578782128e-08, 6.3809085313e-06 | 2.5317807664e-08, 5.5716306552e-06
10 | 3.3614211596e-06, 2.2601930535e-05 | 3.7169319499e-06, 2.1397705555e-05 | 4.2781585943e-06, 1.9728780851e-05 | 4.7953987775e-06, 1.8390278891e-05
85 | 6.1403347977e-05, 1.1432717257e-04 | 6.3131309266e-05, 1.1175904232e-04 | 6.5689066634e-05, 1.0811140363e-04 | 6.7895527745e-05, 1.0510275981e-04
136 | 1.0555131492e-04, 1.7214944202e-04 | 1.0784138212e-04, 1.6902118622e-04 | 1.1121324268e-04, 1.6456256148e-04 | 1.1410565548e-04, 1.6087077396e-04
573 | 5.0811287980e-04, 6.4352458062e-04 | 5.1323541400e-04, 6.3756875732e-04 | 5.2070619106e-04, 6.2901852626e-04 | 5.2704958766e-04, 6.2188205220e-04
1000 | 9.1356354564e-04, 1.0920553087e-03 | 9.2046021782e-04, 1.0843271122e-03 | 9.3049758242e-04, 1.0732127823e-03 | 9.3900120795e-04, 1.0639181073e-03
10000 | 9.7229410144e-03, 1.0282547307e-02 | 9.7455397988e-03, 1.0259134302e-02 | 9.7782893348e-03, 1.0225330613e-02 | 9.8059062407e-03, 1.0196939814e-02
999999 | .99999178806, .99999999750 | .99999256989, .99999999499 | .99999361909, .99999998742 | .99999442837, .99999997468
1000000 | .99999400855, 1 | .99999470170, 1 | .99999561798, 1 | .99999631113, 1`

// checkTable compares with the table, to half a unit of its last digit.
func checkTable(f tails) error {
	const n = 1_000_000
	same := func(got float64, want string) bool {
		format := "%.10e"
		if strings.HasPrefix(want, ".") {
			format = "%.11f"
		} else if want == "0" || want == "1" {
			return fmt.Sprint(got) == want
		}
		return strings.TrimPrefix(fmt.Sprintf(format, got), "0") == want
	}
	levels := []float64{.0025, .005, .0125, .025}
	rows := strings.Split(strings.TrimSpace(clopperPearsonTable), "\n")
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		var x int
		if _, err := fmt.Sscan(cells[0], &x); err != nil || len(cells) != 1+len(levels) {
			return fmt.Errorf("row %q: %v", row, err)
		}
		for i, alpha := range levels {
			low, high, _ := strings.Cut(cells[i+1], ", ")
			if got := f.cpLower(x, n, alpha); !same(got, low) {
				return fmt.Errorf("x = %d, alpha = %v: lower bound %v, want %s", x, alpha, got, low)
			}
			if got := f.cpUpper(x, n, alpha); !same(got, high) {
				return fmt.Errorf("x = %d, alpha = %v: upper bound %v, want %s", x, alpha, got, high)
			}
		}
	}
	return nil
}

// checkValid adds up, for small n, how probable the counts are whose bounds
// miss p: never more than alpha. And the bounds are not slack: at p = the bound
// of some count, the lower one misses counts of probability alpha exactly.
func checkValid(f tails) error {
	const n, alpha = 20, .05
	pmf := func(k int, p float64) float64 { // by multiplying factors
		v := 1.0
		for i := range k {
			v *= float64(n-i) / float64(i+1) * p
		}
		for range n - k {
			v *= 1 - p
		}
		return v
	}
	missed := func(p float64) (above, below float64) {
		for k := range n + 1 {
			if f.cpLower(k, n, alpha) > p {
				above += pmf(k, p)
			}
			if f.cpUpper(k, n, alpha) < p {
				below += pmf(k, p)
			}
		}
		return above, below
	}
	for i := 1; i < 1000; i++ {
		p := float64(i) / 1000
		if above, below := missed(p); !(above <= alpha) || !(below <= alpha) {
			return fmt.Errorf("p = %v: missed from above with probability %v and from below with %v", p, above, below)
		}
	}
	for k := 1; k <= n; k++ {
		// 1e-9 to either side of the bound moves the probability by less than 1e-7
		above, _ := missed(f.cpLower(k, n, alpha) * (1 - 1e-9))
		_, below := missed(f.cpUpper(n-k, n, alpha) * (1 + 1e-9))
		if !(above >= alpha-1e-7) || !(below >= alpha-1e-7) {
			return fmt.Errorf("bounds of %d and %d miss with probability %v and %v only", k, n-k, above, below)
		}
	}
	return nil
}

func TestTailOracles(t *testing.T) {
	for name, check := range map[string]func(tails) error{
		"tails": checkTails, "bounds": checkBounds, "table": checkTable, "validity": checkValid,
	} {
		if err := check(ours); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlantedTailFaults: each fault is noticed by the check that is named.
func TestPlantedTailFaults(t *testing.T) {
	with := func(change func(*tails)) tails { f := ours; change(&f); return f }
	for _, c := range []struct {
		name  string
		f     tails
		check func(tails) error
	}{
		{"upper tail without its first term", with(func(f *tails) {
			f.upper = func(k, n int, p float64) float64 { return binomialUpper(k+1, n, p) }
		}), checkTails},
		{"lower tail without its last term", with(func(f *tails) {
			f.lower = func(k, n int, p float64) float64 { return binomialLower(k-1, n, p) }
		}), checkTails},
		{"pmf by log gamma", with(func(f *tails) { f.logPMF = pmfByGamma }), checkTails},
		{"tails of the library", with(func(f *tails) {
			f.upper = func(k, n int, p float64) float64 {
				return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
			}
		}), checkTails},
		{"lower bound off by one, oracles", with(lowerOffByOne), checkBounds},
		{"lower bound off by one, table", with(lowerOffByOne), checkTable},
		{"lower bound off by one, validity", with(lowerOffByOne), checkValid},
		{"lower bound of one less", with(func(f *tails) {
			f.cpLower = func(x, n int, alpha float64) float64 { return clopperPearsonLower(max(x-1, 0), n, alpha) }
		}), checkValid},
		{"upper bound off by one", with(func(f *tails) {
			f.cpUpper = func(x, n int, alpha float64) float64 { return clopperPearsonUpper(max(x-1, 0), n, alpha) }
		}), checkValid},
		{"upper bound at twice the level", with(func(f *tails) {
			f.cpUpper = func(x, n int, alpha float64) float64 { return clopperPearsonUpper(x, n, 2*alpha) }
		}), checkValid},
		{"no expm1 at x = 0", with(func(f *tails) {
			f.cpUpper = func(x, n int, alpha float64) float64 {
				if x == 0 {
					return 1 - math.Pow(alpha, 1/float64(n))
				}
				return clopperPearsonUpper(x, n, alpha)
			}
		}), checkBounds},
		{"NaN", tails{nanTail, nanTail, nanTail, nanTail, nanTail}, checkValid},
		{"NaN, oracles", tails{nanTail, nanTail, nanTail, nanTail, nanTail}, checkTails},
	} {
		if c.check(c.f) == nil {
			t.Errorf("not noticed: %s", c.name)
		}
	}
}

func lowerOffByOne(f *tails) {
	f.cpLower = func(x, n int, alpha float64) float64 { return clopperPearsonLower(min(x+1, n), n, alpha) }
}

func nanTail(int, int, float64) float64 { return math.NaN() }

func pmfByGamma(k, n int, p float64) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
}

// drawTrials draws n from 1 to 1e9, evenly in its logarithm, and a count.
func drawTrials(t *rapid.T) (x, n int) {
	n = int(math.Pow(10, rapid.Float64Range(0, 9).Draw(t, "log10 n")))
	switch rapid.IntRange(0, 3).Draw(t, "which") {
	case 0:
		x = rapid.IntRange(0, min(n, 20)).Draw(t, "x")
	case 1:
		x = n - rapid.IntRange(0, min(n, 20)).Draw(t, "n-x")
	default:
		x = rapid.IntRange(0, n).Draw(t, "x")
	}
	return x, n
}

// TestTailIdentities: the two tails and the pmf fit together.
func TestTailIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, n := drawTrials(t)
		// p up to 40 standard deviations from k/n: tails down to where they underflow
		mid := (float64(k) + .5) / (float64(n) + 1)
		z := rapid.Float64Range(-40, 40).Draw(t, "z")
		p := mid + z*math.Sqrt(mid*(1-mid)/float64(n))
		if !(p > 0 && p < 1) {
			p = mid
		}
		up, next, low := binomialUpper(k, n, p), binomialUpper(k+1, n, p), binomialLower(k, n, p)
		if !(math.Abs(low+next-1) <= 1e-12) {
			t.Errorf("P[X <= k] = %v, P[X > k] = %v", low, next)
		}
		pmf := math.Exp(logBinomialPMF(k, n, p))
		if !(math.Abs(up-next-pmf) <= 1e-12*up+1e-300) {
			t.Errorf("P[X >= k] = %v, P[X > k] = %v, P[X = k] = %v", up, next, pmf)
		}
		if more := binomialUpper(k, n, math.Min(1, p*(1+1e-9))); !(more >= up*(1-1e-12)) {
			t.Errorf("P[X >= k] falls from %v to %v where p grows", up, more)
		}
	})
}

// TestBoundsInvertTails: at the lower bound, the upper tail is alpha, and the
// bounds grow with the count and with confidence.
func TestBoundsInvertTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, n := drawTrials(t)
		alpha := math.Pow(10, rapid.Float64Range(-12, -.01).Draw(t, "log10 alpha"))
		low, high := clopperPearsonLower(x, n, alpha), clopperPearsonUpper(x, n, alpha)
		if !(low >= 0 && high <= 1) || alpha < .5 && !(low < high) {
			t.Errorf("bounds %v and %v", low, high)
		}
		// A relative rounding of 2⁻⁵³ in p moves ln tail by that times its slope
		// in the log odds, about |count - np| and at most √n more, over 1-p.
		check := func(what string, tail, p, count float64) {
			tol := 1e-11 + 4*0x1p-53*(1+math.Abs(count-float64(n)*p))/(1-p)
			if !near(tail, alpha, tol) {
				t.Errorf("tail at the %s bound %v is %v, alpha %v", what, p, tail, alpha)
			}
		}
		if x > 0 && low < 1-1e-6 {
			check("lower", binomialUpper(x, n, low), low, float64(x))
		}
		if x < n && high < 1-1e-6 {
			check("upper", binomialLower(x, n, high), high, float64(x))
		}
		if mirrored := 1 - clopperPearsonUpper(n-x, n, alpha); !(math.Abs(mirrored-low) <= 0x1p-52) {
			t.Errorf("lower bound %v, of the failures %v", low, mirrored)
		}
		const tol = 1e-12 // of both bounds compared
		if x < n && !(clopperPearsonLower(x+1, n, alpha) >= low*(1-tol) && clopperPearsonUpper(x+1, n, alpha) >= high*(1-tol)) {
			t.Errorf("a bound falls from x to x+1")
		}
		if !(clopperPearsonLower(x, n, alpha/2) <= low*(1+tol) && clopperPearsonUpper(x, n, alpha/2) >= high*(1-tol)) {
			t.Errorf("a bound is less cautious at alpha/2")
		}
	})
}

// TestTailEdges: documented answers at the ends and beyond, and no hang.
func TestTailEdges(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string][2]float64{
		"upper, k = 0":       {binomialUpper(0, 5, .3), 1},
		"upper, k > n":       {binomialUpper(6, 5, .3), 0},
		"upper, p = 0":       {binomialUpper(1, 5, 0), 0},
		"upper, p = 1":       {binomialUpper(5, 5, 1), 1},
		"lower, k < 0":       {binomialLower(-1, 5, .3), 0},
		"lower, k = n":       {binomialLower(5, 5, .3), 1},
		"lower, p = 1":       {binomialLower(4, 5, 1), 0},
		"lower, p = 0":       {binomialLower(0, 5, 0), 1},
		"pmf, k < 0":         {logBinomialPMF(-1, 5, .3), -inf},
		"pmf, p = 0, k = 0":  {logBinomialPMF(0, 5, 0), 0},
		"pmf, p = 0, k = 1":  {logBinomialPMF(1, 5, 0), -inf},
		"pmf, p = 1, k = n":  {logBinomialPMF(5, 5, 1), 0},
		"cp lower, alpha 0":  {clopperPearsonLower(3, 5, 0), 0},
		"cp lower, alpha 1":  {clopperPearsonLower(3, 5, 1), 1},
		"cp upper, alpha 0":  {clopperPearsonUpper(3, 5, 0), 1},
		"cp upper, alpha 1":  {clopperPearsonUpper(3, 5, 1), 0},
		"cp lower, no trial": {clopperPearsonLower(0, 0, .05), 0},
		"cp upper, no trial": {clopperPearsonUpper(0, 0, .05), 1},
		"beta, x < 0":        {regIncBeta(2, 3, -1), 0},
		"beta, x > 1":        {regIncBeta(2, 3, 2), 1},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	for name, v := range map[string]float64{
		"upper": binomialUpper(3, 5, nan), "lower": binomialLower(3, 5, nan), "pmf": logBinomialPMF(3, 5, nan),
		"cp lower": clopperPearsonLower(3, 5, nan), "cp upper": clopperPearsonUpper(3, 5, nan),
		"beta": regIncBeta(2, 3, nan), "beta a": regIncBeta(nan, 3, .5),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s of NaN is %v", name, v)
		}
	}
	for _, alpha := range []float64{5e-324, 1e-300, 1e-12, .5, 1 - 1e-12, math.Nextafter(1, 0)} {
		for _, n := range []int{2, 3, 1000, 1e9, 1e12} {
			for _, x := range []int{0, 1, 2, n / 2, n - 1, n} {
				low, high := clopperPearsonLower(x, n, alpha), clopperPearsonUpper(x, n, alpha)
				if !(low >= 0 && low <= 1 && high >= 0 && high <= 1) {
					t.Errorf("x = %d, n = %d, alpha = %v: %v and %v", x, n, alpha, low, high)
				}
			}
		}
	}
}

// TestRegIncBeta: closed forms for halves, and the reflection.
func TestRegIncBeta(t *testing.T) {
	for i := 1; i < 100; i++ {
		x := float64(i) / 100
		// I_x(½, ½) = (2/π) arcsin √x; I_x(a, 1) = x^a; I_x(1, b) = 1-(1-x)^b.
		for _, c := range [][3]float64{
			{.5, .5, 2 / math.Pi * math.Asin(math.Sqrt(x))},
			{3.7, 1, math.Pow(x, 3.7)}, {.01, 1, math.Pow(x, .01)},
			{1, 42.5, -math.Expm1(42.5 * math.Log1p(-x))},
		} {
			if got := regIncBeta(c[0], c[1], x); !near(got, c[2], 1e-13) {
				t.Errorf("I_%v(%v, %v) = %v, want %v", x, c[0], c[1], got, c[2])
			}
		}
		if sum := regIncBeta(136.5, 863.5, x) + regIncBeta(863.5, 136.5, 1-x); !(math.Abs(sum-1) <= 1e-12) {
			t.Errorf("I_%v(136.5, 863.5) and its complement add up to %v", x, sum)
		}
	}
}

func TestBinomialInterval(t *testing.T) {
	low, high, err := BinomialInterval(3, 10, .05)
	if err != nil || !near(low, .066739511177734468518, 1e-12) || !near(high, .65245285005999729166, 1e-12) {
		t.Errorf("3 of 10: [%v, %v], %v", low, high, err)
	}
	for _, c := range []struct {
		x, n  int
		alpha float64
		names string
	}{
		{-1, 10, .05, "successes: -1"}, {11, 10, .05, "successes: 11"}, {0, 0, .05, "trials: 0"},
		{3, 10, 0, "alpha: 0"}, {3, 10, 1, "alpha: 1"}, {3, 10, math.NaN(), "alpha: NaN"},
	} {
		if _, _, err := BinomialInterval(c.x, c.n, c.alpha); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
