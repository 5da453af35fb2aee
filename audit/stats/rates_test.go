package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit"
)

// tprInterval is what TPRAtFPRInterval must look like.
type tprInterval func(s audit.Scores, num, den int, alpha float64) (Estimate, error)

// checkTPRCoverage counts how often the interval misses the population's TPR at
// 10 % FPR for scores N(1.5, 1) and N(0, 1), and for the same rounded down to
// integers, where the best threshold allowed is 2. It may be cautious, so only
// too many misses are a fault: alpha and five standard errors.
func checkTPRCoverage(f tprInterval) error {
	const runs, alpha, mu = 2000, .1, 1.5
	for name, c := range map[string]struct {
		round func(float64) float64
		truth float64
	}{
		"continuous": {func(v float64) float64 { return v }, normalBelow(mu - 1.2815515655446004)}, // the 90 % point
		"rounded":    {math.Floor, normalBelow(mu - 2)},                                            // P[N >= 1] = .16, P[N >= 2] = .02
	} {
		rng := rand.New(rand.NewPCG(23, 29))
		missed := 0
		for range runs {
			s := binormal(rng, 300, 100, mu)
			for i, v := range s.Value {
				s.Value[i] = c.round(v)
			}
			e, err := f(s, 1, 10, alpha)
			if err != nil {
				return err
			}
			if !(e.Low <= c.truth && c.truth <= e.High) {
				missed++
			}
		}
		if most := alpha*runs + 5*math.Sqrt(alpha*(1-alpha)*runs); !(float64(missed) <= most) {
			return fmt.Errorf("%s: missed %d times in %d, want at most %.0f", name, missed, runs, most)
		}
	}
	return nil
}

// ranks is what thresholdRanks must look like.
type ranks func(n0 int, rate, side float64) (surely, barely int)

// checkRanks adds up how probable it is that so many of n0 non-members are
// among the share rate with the highest scores that a rank's promise is broken:
// no more than side, and a closer rank's is broken more often.
func checkRanks(f ranks) error {
	const n0, rate, side = 80, .1, .05
	surely, barely := f(n0, rate, side)
	below := []float64{0} // P[X < k] for k = 0, 1, …, n0+1
	for k := range n0 + 1 {
		p := math.Pow(1-rate, n0)
		for i := range k {
			p *= float64(n0-i) / float64(i+1) * rate / (1 - rate)
		}
		below = append(below, below[k]+p)
	}
	if surely < 1 || barely > n0 || !(below[surely] <= side && below[surely+1] > side) || !(1-below[barely] <= side && 1-below[barely-1] > side) {
		return fmt.Errorf("ranks %d and %d of %d", surely, barely, n0)
	}
	return nil
}

func TestTPRAtFPRInterval(t *testing.T) {
	if err := checkTPRCoverage(TPRAtFPRInterval); err != nil {
		t.Error(err)
	}
	if err := checkRanks(thresholdRanks); err != nil {
		t.Error(err)
	}
	// Non-members 0, 1, …, 79 and a member above each: beyond the k-th largest
	// non-member are k members. Ranks and bounds by scipy, alpha/4 = .05.
	staircase := audit.Scores{}
	for i := range 160 {
		staircase.Value, staircase.Member = append(staircase.Value, float64(i)/2), append(staircase.Member, i%2 == 1)
	}
	e, err := TPRAtFPRInterval(staircase, 1, 10, .2)
	if err != nil || e.Value != 9./80 || !near(e.Low, .01725694161667561, 1e-9) || !near(e.High, .2599718435412602, 1e-9) {
		t.Errorf("staircase: %+v, %v", e, err)
	}
	// 20 non-members say nothing of a rate of 1 %, and with none beyond all
	// four are sure to be counted: .9^20 = .12.
	s := audit.Scores{}
	for i := range 40 {
		s.Value, s.Member = append(s.Value, float64(i)), append(s.Member, i >= 20)
	}
	e, err = TPRAtFPRInterval(s, 1, 100, .05)
	if err != nil || e.Value != 1 || e.Low != 0 || e.High != 1 {
		t.Errorf("few non-members: %+v, %v", e, err)
	}
}

func TestPlantedTPRIntervalFaults(t *testing.T) {
	// As if the threshold were known: the members' interval alone.
	known := func(s audit.Scores, num, den int, alpha float64) (Estimate, error) {
		tpr, err := TPRAtFPR(s, num, den)
		if err != nil {
			return Estimate{}, err
		}
		n1 := len(split(s)[0])
		low, high, err := BinomialInterval(int(math.Round(tpr*float64(n1))), n1, alpha)
		return Estimate{tpr, low, high}, err
	}
	if checkTPRCoverage(known) == nil {
		t.Error("not noticed: the threshold taken for known")
	}
	for name, d := range map[string][2]int{"surely + 1": {1, 0}, "surely - 1": {-1, 0}, "barely - 1": {0, -1}, "barely + 1": {0, 1}} {
		if checkRanks(func(n0 int, rate, side float64) (int, int) {
			surely, barely := thresholdRanks(n0, rate, side)
			return surely + d[0], barely + d[1]
		}) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

func TestIntervalsHoldTheirFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		tpr, err := TPRAtFPRInterval(s, 1, 10, .05)
		if err != nil {
			t.Fatal(err)
		}
		adv, err := AdvantageInterval(s, .05)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []Estimate{tpr, adv} {
			if !(0 <= e.Low && e.Low <= e.Value && e.Value <= e.High && e.High <= 1) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// checkAdvantage compares with scipy's one-sided Kolmogorov-Smirnov statistic.
func checkAdvantage(f func(audit.Scores) (float64, Point, error)) error {
	for _, c := range []struct {
		m     int
		shift bool
		want  float64
	}{{1009, false, .013063410611571732}, {1009, true, .13671675668173042}, {97, false, .007784976261333529}, {97, true, .12877257010356835}} {
		got, at, err := f(modular(c.m, c.shift))
		if err != nil {
			return err
		}
		if !(math.Abs(got-c.want) <= 1e-15) || !(got == at.TPR-at.FPR) {
			return fmt.Errorf("M = %d, shift %v: %v at %+v, want %v", c.m, c.shift, got, at, c.want)
		}
	}
	// Wrong way round, no threshold is better than calling nobody.
	s := audit.Scores{Value: []float64{1, 2}, Member: []bool{true, false}}
	if adv, at, err := f(s); err != nil || adv != 0 || at.TP != 0 || at.FP != 0 {
		return fmt.Errorf("scores the wrong way round: %v at %+v, %v", adv, at, err)
	}
	return nil
}

func TestAdvantage(t *testing.T) {
	if err := checkAdvantage(Advantage); err != nil {
		t.Error(err)
	}
}

func TestPlantedAdvantageFaults(t *testing.T) {
	for name, f := range map[string]func(audit.Scores) (float64, Point, error){
		"absolute difference": func(s audit.Scores) (float64, Point, error) { // two-sided KS
			points, err := ROC(s)
			best := slices.MaxFunc(points, func(p, q Point) int {
				return int(math.Copysign(1, math.Abs(p.TPR-p.FPR)-math.Abs(q.TPR-q.FPR)))
			})
			return math.Abs(best.TPR - best.FPR), best, err
		},
		"plain accuracy": func(s audit.Scores) (float64, Point, error) {
			points, err := ROC(s)
			best := points[0]
			for _, p := range points {
				if p.TP-p.FP > best.TP-best.FP {
					best = p
				}
			}
			return best.TPR - best.FPR, best, err
		},
	} {
		if checkAdvantage(f) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

// checkAdvantageCoverage: N(mu, 1) against N(0, 1) has the advantage
// 2Φ(mu/2) - 1. At mu = 0 the figure itself is biased upwards most.
func checkAdvantageCoverage(f func(audit.Scores, float64) (Estimate, error)) error {
	const runs, alpha = 2000, .1
	for _, mu := range []float64{0, 1} {
		rng := rand.New(rand.NewPCG(41, 43))
		missed := 0
		for range runs {
			e, err := f(binormal(rng, 30, 60, mu), alpha)
			if err != nil {
				return err
			}
			if truth := 2*normalBelow(mu/2) - 1; !(e.Low <= truth && truth <= e.High) {
				missed++
			}
		}
		if most := alpha*runs + 5*math.Sqrt(alpha*(1-alpha)*runs); !(float64(missed) <= most) {
			return fmt.Errorf("mu = %v: missed %d times in %d, want at most %.0f", mu, missed, runs, most)
		}
	}
	return nil
}

func TestAdvantageInterval(t *testing.T) {
	if err := checkAdvantageCoverage(AdvantageInterval); err != nil {
		t.Error(err)
	}
	// The normal interval at the chosen threshold forgets the choice.
	naive := func(s audit.Scores, alpha float64) (Estimate, error) {
		adv, at, err := Advantage(s)
		if err != nil {
			return Estimate{}, err
		}
		sides := split(s)
		half := 1.6448536269514722 * math.Sqrt(at.TPR*(1-at.TPR)/float64(len(sides[0]))+at.FPR*(1-at.FPR)/float64(len(sides[1])))
		return Estimate{adv, adv - half, adv + half}, nil
	}
	if checkAdvantageCoverage(naive) == nil {
		t.Error("not noticed: the choice of the threshold is forgotten")
	}
}

func TestRatesRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"alpha: 0":                 second(TPRAtFPRInterval(tiny(), 1, 20, 0)),
		"alpha: NaN":               second(AdvantageInterval(tiny(), math.NaN())),
		"false positive rate 2/1":  second(TPRAtFPRInterval(tiny(), 2, 1, .05)),
		"members; both sides":      second(AdvantageInterval(audit.Scores{}, .05)),
		"candidates are members":   second(TPRAtFPRInterval(audit.Scores{}, 1, 20, .05)),
		"0 of 0 candidates are me": func() error { _, _, err := Advantage(audit.Scores{}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

func second(_ Estimate, err error) error { return err }
