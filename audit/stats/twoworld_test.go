package stats

import (
	"math"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

const million = 1_000_000

// TestClopperPearsonTable: ε from counts of a million runs each at δ = 1e-5,
// each of the four bounds at .0025.
func TestClopperPearsonTable(t *testing.T) {
	for _, o := range []struct {
		tp, fp int
		want   float64
	}{
		{573, 136, 1.06246377}, {830, 233, .97657374}, {378, 88, .98606803}, {1742, 577, .91495008}, {163, 32, .84283259},
		{56, 9, .25342194}, {36341, 22750, .43523299}, {20, 0, 0}, {100, 100, 0}, {900000, 100000, 2.18786132}, {999900, 900000, 6.62533572},
	} {
		got := lowerOf[Counts](t, ClopperPearson{1e-5, 4}, Counts{o.fp, million, o.tp, million}, .01)
		if !(math.Abs(got-o.want) <= 1e-8) {
			t.Errorf("%d, %d: %v, want %v", o.tp, o.fp, got, o.want)
		}
	}
	c := Counts{136, million, 573, million}
	if two := lowerOf[Counts](t, ClopperPearson{1e-5, 2}, c, .01); !(math.Abs(two-1.091034) <= 1e-6) {
		t.Errorf("cp-2: %v", two)
	}
}

func TestZanellaOracle(t *testing.T) {
	c := Counts{136, million, 573, million}
	for alpha, want := range map[float64]float64{.01: 1.201944, .05: 1.264787} {
		if got := lowerOf[Counts](t, ZanellaBeguelin{1e-5}, c, alpha); !(math.Abs(got-want) <= 2e-4) {
			t.Errorf("level %v: %v, want %v", alpha, got, want)
		}
	}
}

// TestSubsampledGaussian: at the expected counts of t = 1.82, half of .02 on
// each rate, the distance is at least .96 of 1 and ε below the exact 1.68454.
func TestSubsampledGaussian(t *testing.T) {
	const at, q = 1.82, .1
	fpr := normalBelow(-at)
	tpr := (1-q)*fpr + q*normalBelow(1-at)
	c := Counts{int(fpr * million), million, int(tpr * million), million}
	got := lowerOf[Counts](t, SubsampledGaussian{q, 1e-5}, c, .01)
	if !(got >= 1.5 && got <= 1.6) {
		t.Errorf("%v, want about 1.53", got)
	}
	if cp := lowerOf[Counts](t, ClopperPearson{1e-5, 2}, c, .01); !(got > cp) {
		t.Errorf("family %v, cp-2 %v", got, cp)
	}
	full := lowerOf[Counts](t, SubsampledGaussian{1, 1e-5}, Counts{int(normalBelow(-.5) * million), million, int(normalBelow(.5) * million), million}, .05)
	if !(full > 4.2 && full < 4.3772) {
		t.Errorf("Gaussian of mu 1: %v, exact 4.3772", full)
	}
}

// TestTwoWorldMonotone: p-values grow with ε, and are the level at the bound.
func TestTwoWorldMonotone(t *testing.T) {
	c := Counts{20, 1000, 150, 1200}
	for _, e := range []Estimator[Counts]{ClopperPearson{1e-3, 4}, ClopperPearson{1e-3, 2}, SubsampledGaussian{.5, 1e-3}, ZanellaBeguelin{1e-3}} {
		last := 0.0
		for eps := 0.0; eps < 4; eps += .2 {
			p, err := e.PValue(c, eps)
			if err != nil || !(p >= last*(1-1e-3) && p <= 1) {
				t.Errorf("%s at %v: %v, %v after %v", e.Name(), eps, p, err, last)
			}
			last = p
		}
		low := lowerOf(t, e, c, .05)
		if p, err := e.PValue(c, low); err != nil || !(math.Abs(p-.05) <= 1e-3) {
			t.Errorf("%s: p at the bound %v is %v, %v", e.Name(), low, p, err)
		}
	}
}

// gaussianRates are those of a Gaussian mechanism of distance mu at a threshold.
func gaussianRates(mu, at float64) (p0, p1 float64) { return normalBelow(-at), normalBelow(mu - at) }

// TestFamilyAtKnownDistance: d = .9733 at q = .1 and δ = 1e-5 is worth 1.586.
func TestFamilyAtKnownDistance(t *testing.T) {
	remove, add, err := accounting.SingleRelease(accounting.PoissonSampledGaussian{SampleRate: .1, NoiseMultiplier: 1 / .9733}, 1e-5)
	if got := math.Max(remove, add); err != nil || !(math.Abs(got-1.586) <= 1e-3) {
		t.Errorf("%v, %v, want 1.586", got, err)
	}
}

// TestTwoWorldPower: cp-2 reaches nine tenths of the exact ε with enough runs.
func TestTwoWorldPower(t *testing.T) {
	for _, o := range []struct {
		mu float64
		n  int
	}{{.5, 10_000_000}, {1, 100_000_000}} {
		exact, err := gaussianEps(o.mu, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		best := 0.0
		for at := 2.0; at < 6; at += .01 {
			p0, p1 := gaussianRates(o.mu, at)
			c := Counts{int(math.Ceil(p0 * float64(o.n))), o.n, int(p1 * float64(o.n)), o.n}
			best = math.Max(best, lowerOf[Counts](t, ClopperPearson{1e-5, 2}, c, .05))
		}
		if !(best >= .9*exact && best <= exact) {
			t.Errorf("mu %v: %v of the exact %v", o.mu, best, exact)
		}
	}
}

func TestTwoWorldRefuses(t *testing.T) {
	good := Counts{10, 100, 50, 100}
	for _, o := range []struct {
		e    Estimator[Counts]
		c    Counts
		want string
	}{
		{ClopperPearson{0, 3}, good, "bounds: 3"},
		{ClopperPearson{math.NaN(), 2}, good, "delta: NaN"},
		{ClopperPearson{1, 2}, good, "delta: 1"},
		{ClopperPearson{-1, 2}, good, "delta: -1"},
		{ZanellaBeguelin{math.Inf(1)}, good, "delta: +Inf"},
		{SubsampledGaussian{0, 1e-5}, good, "sample rate: 0"},
		{SubsampledGaussian{math.NaN(), 1e-5}, good, "sample rate: NaN"},
		{SubsampledGaussian{.1, 0}, good, "delta: 0, expected above 0"},
		{ClopperPearson{0, 2}, Counts{1, 0, 1, 1}, "non-members: 0"},
		{ClopperPearson{0, 2}, Counts{1, 1, 1, 0}, "members: 0"},
		{ClopperPearson{0, 2}, Counts{2, 1, 1, 1}, "false positives: 2"},
		{ClopperPearson{0, 2}, Counts{1, 1, -1, 1}, "true positives: -1"},
	} {
		_, err := o.e.PValue(o.c, 1)
		_, err2 := o.e.Lower(o.c, .05)
		for _, err := range []error{err, err2} {
			if err == nil || !strings.Contains(err.Error(), o.want) {
				t.Errorf("%s of %+v: %v does not say %q", o.e.Name(), o.c, err, o.want)
			}
		}
	}
	for _, e := range []Estimator[Counts]{ClopperPearson{0, 2}, SubsampledGaussian{.1, 1e-5}, ZanellaBeguelin{}} {
		if p, err := e.PValue(good, math.NaN()); err == nil {
			t.Errorf("%s at NaN: %v", e.Name(), p)
		}
		if v, err := e.Lower(good, 1); err == nil {
			t.Errorf("%s at level 1: %v", e.Name(), v)
		}
	}
}

func TestLowerOfPairs(t *testing.T) {
	fp, tp := []int{0, 136, 999_990}, []int{0, 573, 1_000_000}
	for _, e := range []ClopperPearson{{1e-5, 2}, {1e-5, 4}} {
		rows, err := e.LowerOfPairs(fp, tp, 1_000_000, 1_000_000, .01)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range fp {
			for j, y := range tp {
				want, err := e.Lower(Counts{x, 1_000_000, y, 1_000_000}, .01)
				if err != nil || rows[i][j] != want {
					t.Errorf("%d and %d: %v, expected %v, %v", x, y, rows[i][j], want, err)
				}
			}
		}
		if _, err := e.LowerOfPairs([]int{-1}, tp, 10, 10, .01); err == nil {
			t.Error("counts below 0: no error")
		}
		if _, err := e.LowerOfPairs(fp, nil, 1_000_000, 10, 2); err == nil {
			t.Error("level 2: no error")
		}
	}
}
