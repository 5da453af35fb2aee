package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

// fisherCounts is Fisher's exact test that members are called no more often than
// others. It tests ε = 0 alone, but is much sharper there than intervals of the
// two rates, so that faults of a rule are not hidden by slack. Its "bound" is
// above 0 where it rejects, and grows with the evidence.
type fisherCounts struct {
	asked []Counts
	level []float64
}

func (*fisherCounts) Name() string       { return "fisher" }
func (*fisherCounts) Scope() Scope       { return ModelFree }
func (*fisherCounts) Assumption() string { return "independent runs" }
func (*fisherCounts) AtDelta() float64   { return 0 }
func (*fisherCounts) PValue(c Counts, _ float64) (float64, error) {
	if err := c.Check(); err != nil {
		return 0, err
	}
	called := c.TP + c.FP
	sum := 0.0
	for k := c.TP; k <= min(called, c.Members); k++ {
		if called-k <= c.NonMembers {
			sum += math.Exp(lnChoose(c.Members, k) + lnChoose(c.NonMembers, called-k) - lnChoose(c.Members+c.NonMembers, called))
		}
	}
	return min(1, sum), nil
}
func (f *fisherCounts) Lower(c Counts, alpha float64) (float64, error) {
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	f.asked, f.level = append(f.asked, c), append(f.level, alpha)
	p, err := f.PValue(c, 0)
	return math.Max(0, math.Log(alpha/p)), err
}

func lnChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// nullRuns are half runs with and half without the record, whose scores tell
// nothing; with ties they are rounded to few values. Members come first.
func nullRuns(r *rand.Rand, half int, ties bool) audit.Scores {
	s := audit.Scores{Value: make([]float64, 2*half), Member: make([]bool, 2*half)}
	for i := range s.Value {
		s.Member[i] = i < half
		if s.Value[i] = r.NormFloat64(); ties {
			s.Value[i] = math.Round(2 * s.Value[i])
		}
	}
	return s
}

// checkThresholdRule makes 4,000 audits of 100 runs in each world, and fails if
// more than 5 % of them, and five standard errors, claim a leak.
func checkThresholdRule(rule func(seed uint64) ThresholdRule, ties bool) error {
	const audits, alpha = 4000, .05
	r := rand.New(rand.NewPCG(41, 42))
	e := &fisherCounts{}
	above := 0
	for i := range audits {
		e.asked, e.level = e.asked[:0], e.level[:0]
		b, _, err := rule(uint64(i)).Bound(nullRuns(r, 100, ties), e, alpha)
		if err != nil {
			return err
		}
		if b.Epsilon > 0 {
			above++
		}
	}
	share := float64(above) / audits
	if limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/audits); !(share <= limit) {
		return tooOften{share, limit}
	}
	return nil
}

// someDeclared are thresholds across the scores of nullRuns.
var someDeclared = []float64{-1, -.5, 0, .25, .5, .75, 1, 1.5}

func TestThresholdRuleValidity(t *testing.T) {
	for name, rule := range map[string]func(seed uint64) ThresholdRule{
		"locked":     func(uint64) ThresholdRule { return Locked{.5} },
		"split":      func(seed uint64) ThresholdRule { return SplitThreshold{seed} },
		"thresholds": func(uint64) ThresholdRule { return Thresholds{someDeclared} },
	} {
		if got := rule(0).Name(); got != name {
			t.Errorf("name %q, want %q", got, name)
		}
		for _, ties := range []bool{false, true} {
			if err := checkThresholdRule(rule, ties); err != nil {
				t.Errorf("%s, ties %v: %v", name, ties, err)
			}
		}
	}
}

// chosenOnTest chooses the threshold on the scores that it then tests.
type chosenOnTest struct{ SplitThreshold }

func (chosenOnTest) Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error) {
	b, c, _, err := largestAt(s, e, alpha, someThresholds(s.Value))
	return b, c, err
}

// unpaidThresholds are declared thresholds without Bonferroni's correction.
type unpaidThresholds struct{ Thresholds }

func (r unpaidThresholds) Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error) {
	return r.Thresholds.Bound(s, e, alpha*float64(len(r.Values)))
}

func TestPlantedThresholdFaults(t *testing.T) {
	for name, rule := range map[string]ThresholdRule{
		"threshold chosen on the test scores": chosenOnTest{},
		"thresholds that pay nothing":         unpaidThresholds{Thresholds{someDeclared}},
	} {
		err := checkThresholdRule(func(uint64) ThresholdRule { return rule }, false)
		if _, ok := err.(tooOften); !ok {
			t.Errorf("%s: not noticed: %v", name, err)
		}
	}
}

// jointAt is the joint test of one ε: the bound it gives is above or below that.
type jointAt struct {
	Joint
	eps   float64
	known map[asked]bool
}

// asked is what a test was asked.
type asked struct {
	c     Counts
	alpha float64
}

func (e *jointAt) Lower(c Counts, alpha float64) (float64, error) {
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	key := asked{c, alpha}
	above, ok := e.known[key]
	if !ok {
		above = e.rejects(c, e.eps, alpha, alpha/100)
		e.known[key] = above
	}
	if above {
		return e.eps + 1, nil
	}
	return 0, nil
}

// responseRuns are half runs with and half without the record, whose scores have
// the sign of the world with probability e^eps/(1+e^eps), whatever their size:
// at every threshold above 0 members are called e^eps times as often, so that
// all thresholds are as dear, and the best looks better than it is.
func responseRuns(r *rand.Rand, half int, eps float64, ties bool) audit.Scores {
	s := audit.Scores{Value: make([]float64, 2*half), Member: make([]bool, 2*half)}
	for i := range s.Value {
		s.Member[i] = i < half
		size := math.Abs(r.NormFloat64())
		if ties {
			size = math.Ceil(4 * size)
		}
		if (r.Float64() < 1/(1+math.Exp(-eps))) != s.Member[i] {
			size = -size
		}
		s.Value[i] = size
	}
	return s
}

// checkThresholdRuleAt makes audits of 100 runs in each world of randomised
// response of ε = eps, and fails if more than 5 % of them, and five standard errors, claim
// more than its ε.
func checkThresholdRuleAt(rule func(seed uint64) ThresholdRule, audits int, eps float64, ties bool) error {
	const alpha = .05
	r := rand.New(rand.NewPCG(43, 44))
	e := &jointAt{eps: eps, known: map[asked]bool{}}
	above := 0
	for i := range audits {
		b, _, err := rule(uint64(i)).Bound(responseRuns(r, 100, eps, ties), e, alpha)
		if err != nil {
			return err
		}
		if b.Epsilon > eps {
			above++
		}
	}
	share := float64(above) / float64(audits)
	if limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/float64(audits)); !(share <= limit) {
		return tooOften{share, limit}
	}
	return nil
}

// TestThresholdRulesAtEps: with the joint test too the rules keep the level, where
// scores tell nothing and where there is a leak, and the faults do not.
func TestThresholdRulesAtEps(t *testing.T) {
	declared := Thresholds{[]float64{.125, .25, .5, .75, 1, 1.25, 1.5, 2}}
	for name, rule := range map[string]func(seed uint64) ThresholdRule{
		"locked":     func(uint64) ThresholdRule { return Locked{.25} },
		"split":      func(seed uint64) ThresholdRule { return SplitThreshold{seed} },
		"thresholds": func(uint64) ThresholdRule { return declared },
	} {
		for _, eps := range []float64{0, 1} {
			for _, ties := range []bool{false, true} {
				if err := checkThresholdRuleAt(rule, 10_000, eps, ties); err != nil {
					t.Errorf("%s at %v, ties %v: %v", name, eps, ties, err)
				}
			}
		}
	}
	for name, rule := range map[string]ThresholdRule{
		"threshold chosen on the test scores": chosenOnTest{},
		"thresholds that pay nothing":         unpaidThresholds{declared},
	} {
		err := checkThresholdRuleAt(func(uint64) ThresholdRule { return rule }, 2000, 1, false)
		if _, ok := err.(tooOften); !ok {
			t.Errorf("%s: not noticed: %v", name, err)
		}
	}
}

func TestCountsAt(t *testing.T) {
	s := scoresOf("M Mo oM o") // 0, -1, -2, -3
	for threshold, want := range map[float64]Counts{
		math.Inf(1):  {0, 3, 0, 3},
		.5:           {0, 3, 0, 3},
		0:            {0, 3, 1, 3}, // at the threshold is called
		-.5:          {0, 3, 1, 3},
		-1:           {1, 3, 2, 3}, // a tie falls on one side whole
		-2:           {2, 3, 3, 3},
		-3:           {3, 3, 3, 3},
		math.Inf(-1): {3, 3, 3, 3},
	} {
		if got, err := CountsAt(s, threshold); err != nil || got != want {
			t.Errorf("%v: %v, %v; want %v", threshold, got, err, want)
		}
		if _, got, err := (Locked{threshold}).Bound(s, &fisherCounts{}, .05); err != nil || got != want {
			t.Errorf("locked at %v: %v, %v; want %v", threshold, got, err, want)
		}
	}
}

func TestPool(t *testing.T) {
	if got, want := Pool(Counts{1, 10, 2, 20}, Counts{3, 30, 4, 40}), (Counts{4, 40, 6, 60}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Pool(); got != (Counts{}) {
		t.Errorf("nothing pooled: %v", got)
	}
}

// TestSomeThresholds: few, among the scores, in order, from the highest to the
// lowest.
func TestSomeThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for _, n := range []int{1, 2, 3, 64, 1000, 100_000} {
		values := make([]float64, n)
		known := map[float64]bool{}
		low, high := math.Inf(1), math.Inf(-1)
		for i := range values {
			values[i] = r.NormFloat64()
			known[values[i]] = true
			low, high = math.Min(low, values[i]), math.Max(high, values[i])
		}
		got := someThresholds(values)
		if len(got) == 0 || len(got) > 64 || got[0] != high || n > 1 && got[len(got)-1] != low {
			t.Errorf("%d scores: %d thresholds: %v", n, len(got), got)
		}
		for i, v := range got {
			if !known[v] || i > 0 && !(v < got[i-1]) {
				t.Errorf("%d scores: %v after %v", n, v, got[max(0, i-1)])
			}
		}
	}
}

// TestThresholdRulesSay: what the rules say of their bounds, and what they ask.
func TestThresholdRulesSay(t *testing.T) {
	const alpha = .04
	s := nullRuns(rand.New(rand.NewPCG(61, 62)), 101, false)
	for i := range s.Value {
		if s.Member[i] {
			s.Value[i] += 2
		}
	}
	for _, c := range []struct {
		rule         ThresholdRule
		level        float64
		multiplicity string
	}{
		{Locked{1}, alpha, "fixed in advance"},
		{SplitThreshold{3}, alpha, "other half"},
		{Thresholds{someDeclared}, alpha / 8, "Bonferroni over 8 "},
	} {
		name := c.rule.Name()
		e := &fisherCounts{}
		b, counts, err := c.rule.Bound(s, e, alpha)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b.Estimator != "fisher" || b.Scope != ModelFree || !strings.Contains(b.Multiplicity, c.multiplicity) || b.Confidence != 1-alpha {
			t.Errorf("%s: %+v", name, b)
		}
		if len(e.asked) > 65 {
			t.Errorf("%s: %d looks", name, len(e.asked))
		}
		for _, level := range e.level {
			if level != c.level {
				t.Errorf("%s: asked at level %v, want %v", name, level, c.level)
			}
		}
		if eps, err := e.Lower(counts, c.level); err != nil || eps != b.Epsilon || !(eps > 0) {
			t.Errorf("%s: %v gives %v, %v; the bound is %v", name, counts, eps, err, b.Epsilon)
		}
		if again, counts2, err := c.rule.Bound(s, e, alpha); err != nil || again != b || counts2 != counts {
			t.Errorf("%s: another bound the second time: %v, %v", name, again, err)
		}
	}
	// Each half has half of each world, to one run.
	seen := map[Counts]bool{}
	for seed := range uint64(20) {
		_, c, err := SplitThreshold{seed}.Bound(s, &fisherCounts{}, alpha)
		if err != nil || c.Members < 50 || c.Members > 51 || c.NonMembers < 50 || c.NonMembers > 51 {
			t.Errorf("seed %d: %v, %v", seed, c, err)
		}
		seen[c] = true
	}
	if len(seen) < 2 {
		t.Errorf("all seeds split alike")
	}
}

func TestThresholdsRefuse(t *testing.T) {
	good := scoresOf("M M o o M o")
	bound := func(r ThresholdRule, s audit.Scores, alpha float64) error {
		_, _, err := r.Bound(s, &fisherCounts{}, alpha)
		return err
	}
	nan := scoresOf("M o")
	nan.Value[1] = math.NaN()
	for want, err := range map[string]error{
		"threshold: NaN":        bound(Locked{math.NaN()}, good, .05),
		"threshold: NaN is":     bound(Thresholds{[]float64{0, math.NaN()}}, good, .05),
		"score 1 is NaN":        bound(Locked{0}, nan, .05),
		"is NaN":                bound(SplitThreshold{1}, nan, .05),
		"both sides are needed": bound(Locked{0}, scoresOf("o o"), .05),
		"half of the runs":      bound(SplitThreshold{1}, scoresOf("M o o o"), .05),
		"none to choose":        bound(Thresholds{}, good, .05),
		"alpha: 0 ":             bound(Locked{0}, good, 0),
		"alpha: 1 ":             bound(SplitThreshold{1}, good, 1),
		"alpha: 2 ":             bound(Thresholds{someDeclared}, good, 2),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
