package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit"
)

// aucInterval is what DeLong must look like, so that faults can be planted.
type aucInterval func(s audit.Scores, alpha float64) (Estimate, error)

// binormal draws n1 members from N(mu, 1) and n0 non-members from N(0, 1); the
// AUC is Φ(mu/√2).
func binormal(rng *rand.Rand, n1, n0 int, mu float64) audit.Scores {
	s := audit.Scores{Value: make([]float64, n1+n0), Member: make([]bool, n1+n0)}
	for i := range s.Value {
		s.Value[i] = rng.NormFloat64()
		if i < n1 {
			s.Member[i] = true
			s.Value[i] += mu
		}
	}
	return s
}

// checkDeLong compares with intervals computed pair by pair in Python (numpy,
// scipy), at alpha = .05, in float64 there as here: 1e-12.
func checkDeLong(wald, logit aucInterval) error {
	for _, c := range []struct {
		m                                    int
		shift                                bool
		low, high, logitLow, logitHigh, want float64
	}{
		{1009, false, .46517435756414727, .5376056995066277, .4652302900729025, .5375352327346036, .5013900285353875},
		{1009, true, .583702430552708, .6531616977299842, .5831511334451044, .6525062889262181, .6184320641413461},
		{97, false, .46510407840266643, .5374841098247513, .46516038805105325, .5374142881233748, .5012940941137088},
		{97, true, .5823887058166284, .6518668226595656, .5818446425637342, .6512183741728029, .617127764238097},
	} {
		for name, f := range map[string]aucInterval{"Wald": wald, "logit": logit} {
			got, err := f(modular(c.m, c.shift), .05)
			if err != nil {
				return err
			}
			want := Estimate{c.want, c.low, c.high}
			if name == "logit" {
				want = Estimate{c.want, c.logitLow, c.logitHigh}
			}
			if !near(got.Value, want.Value, 1e-12) || !near(got.Low, want.Low, 1e-12) || !near(got.High, want.High, 1e-12) {
				return fmt.Errorf("M = %d, shift %v, %s: %v, want %v", c.m, c.shift, name, got, want)
			}
		}
	}
	return nil
}

// aucCoverage is how often f holds the true AUC of binormal scores.
func aucCoverage(f aucInterval, runs, n1, n0 int, mu, alpha float64) (float64, error) {
	rng := rand.New(rand.NewPCG(17, 19))
	truth := normalBelow(mu / math.Sqrt2)
	held := 0
	for range runs {
		e, err := f(binormal(rng, n1, n0, mu), alpha)
		if err != nil {
			return 0, err
		}
		if e.Low <= truth && truth <= e.High {
			held++
		}
	}
	return float64(held) / float64(runs), nil
}

// checkAUCCoverage asks for the level to five standard errors, .02. The samples
// are so large that the interval's own error, of the order 1/n, is below .01.
func checkAUCCoverage(f aucInterval) error {
	const runs, alpha = 3000, .05
	got, err := aucCoverage(f, runs, 100, 300, .8, alpha)
	if err != nil {
		return err
	}
	if tol := 5 * math.Sqrt(alpha*(1-alpha)/runs); !(math.Abs(got-(1-alpha)) <= tol) {
		return fmt.Errorf("holds the AUC in %v of %d runs, want %v ± %v", got, runs, 1-alpha, tol)
	}
	return nil
}

func TestDeLong(t *testing.T) {
	if err := checkDeLong(DeLong, DeLongLogit); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]aucInterval{"Wald": DeLong, "logit": DeLongLogit} {
		if err := checkAUCCoverage(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeLongFarFromHalf is why DeLongLogit exists: with 40 candidates a side
// and an AUC of .96, it holds its level to five standard errors and DeLong does
// not.
func TestDeLongFarFromHalf(t *testing.T) {
	const runs, alpha = 3000, .05
	tol := 5 * math.Sqrt(alpha*(1-alpha)/runs)
	wald, err := aucCoverage(DeLong, runs, 40, 40, 2.5, alpha)
	if err != nil {
		t.Fatal(err)
	}
	logit, err := aucCoverage(DeLongLogit, runs, 40, 40, 2.5, alpha)
	if err != nil {
		t.Fatal(err)
	}
	if !(wald < 1-alpha-tol) || !(logit >= 1-alpha-tol) {
		t.Errorf("coverage %v and on the logit scale %v, want less and not less than %v", wald, logit, 1-alpha-tol)
	}
}

func TestPlantedDeLongFaults(t *testing.T) {
	scaled := func(by float64) aucInterval {
		return func(s audit.Scores, alpha float64) (Estimate, error) {
			e, err := DeLong(s, alpha)
			return Estimate{e.Value, e.Value - by*(e.Value-e.Low), e.Value + by*(e.High-e.Value)}, err
		}
	}
	oneSided := func(s audit.Scores, alpha float64) (Estimate, error) { return DeLong(s, 2*alpha) }
	// The variances divided by the numbers of the other side.
	exchanged := func(s audit.Scores, alpha float64) (Estimate, error) {
		a, s10, s01 := naiveDeLong(s)
		sides := split(s)
		half := -mathext.NormalQuantile(alpha/2) * math.Sqrt(s10/float64(len(sides[1]))+s01/float64(len(sides[0])))
		return Estimate{a, a - half, a + half}, nil
	}
	none := func(audit.Scores, float64) (Estimate, error) {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}, nil
	}
	for name, f := range map[string]aucInterval{
		"one-sided quantile": oneSided, "too short": scaled(.8), "too long": scaled(1.4), "sides exchanged": exchanged, "NaN": none,
	} {
		if checkDeLong(f, DeLongLogit) == nil {
			t.Errorf("the oracles do not notice: %s", name)
		}
		// Binormal scores of equal variance look alike from both sides.
		if name != "sides exchanged" && checkAUCCoverage(f) == nil {
			t.Errorf("the coverage does not notice: %s", name)
		}
	}
}

// naiveDeLong compares every member with every non-member.
func naiveDeLong(s audit.Scores) (auc, s10, s01 float64) {
	sides := split(s)
	wins := func(x, y float64) float64 {
		switch {
		case x > y:
			return 1
		case x == y:
			return .5
		}
		return 0
	}
	v10, v01 := make([]float64, len(sides[0])), make([]float64, len(sides[1]))
	for i, x := range sides[0] {
		for j, y := range sides[1] {
			v10[i] += wins(x, y) / float64(len(sides[1]))
			v01[j] += wins(x, y) / float64(len(sides[0]))
		}
	}
	return mean(v10), math.Pow(sampleSD(v10), 2), math.Pow(sampleSD(v01), 2)
}

func TestDeLongPairByPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		sides := split(s)
		got, se, _, err := deLong(s, .05)
		if len(sides[0]) < 2 || len(sides[1]) < 2 {
			if err == nil {
				t.Error("took one member or one non-member")
			}
			return
		}
		auc, s10, s01 := naiveDeLong(s)
		want := math.Sqrt(s10/float64(len(sides[0])) + s01/float64(len(sides[1])))
		// sums of at most 60 terms of at most 1; the root makes 1e-14 of the
		// variance 1e-7 where that is 0
		if err != nil || !(math.Abs(got-auc) <= 1e-14) || !(math.Abs(se*se-want*want) <= 1e-14) {
			t.Errorf("AUC %v ± %v, %v; pair by pair %v ± %v", got, se, err, auc, want)
		}
		for _, f := range []aucInterval{DeLong, DeLongLogit} {
			e, err := f(s, .05)
			if err != nil || !(0 <= e.Low && e.Low <= e.Value && e.Value <= e.High && e.High <= 1) || !(e.Low < e.High) {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}

// TestDeLongConstant: where every pair comes out alike, the interval is no
// point: ten pairs leave room for e = 1 - .05^(1/10).
func TestDeLongConstant(t *testing.T) {
	e := 1 - math.Pow(.05, .1)
	for want, value := range map[Estimate]func(i int, member bool) float64{
		{1, 1 - e, 1}:            func(i int, member bool) float64 { return map[bool]float64{true: 100, false: 0}[member] + float64(i) },
		{0, 0, e}:                func(i int, member bool) float64 { return map[bool]float64{true: 0, false: 100}[member] + float64(i) },
		{.5, .5 - e/2, .5 + e/2}: func(int, bool) float64 { return 3 },
	} {
		s := audit.Scores{}
		for i := range 35 {
			s.Member = append(s.Member, i < 10)
			s.Value = append(s.Value, value(i, i < 10))
		}
		for _, f := range []aucInterval{DeLong, DeLongLogit} {
			got, err := f(s, .05)
			if err != nil || got.Value != want.Value || !(math.Abs(got.Low-want.Low) <= 1e-15) || !(math.Abs(got.High-want.High) <= 1e-15) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
	}
}

func TestDeLongRefuses(t *testing.T) {
	for _, c := range []struct {
		s     audit.Scores
		alpha float64
		want  string
	}{
		{tiny(), 0, "alpha: 0"}, {tiny(), 1, "alpha: 1"}, {tiny(), math.NaN(), "alpha: NaN"},
		{audit.Scores{Value: []float64{1, 2, 3}, Member: []bool{true, false, false}}, .05, "1 members and 2 non-members"},
		{audit.Scores{Value: []float64{1, math.NaN()}, Member: []bool{true, false}}, .05, "NaN"},
	} {
		for _, f := range []aucInterval{DeLong, DeLongLogit} {
			if _, err := f(c.s, c.alpha); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
	}
}
