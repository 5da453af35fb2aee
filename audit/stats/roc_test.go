package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit"
)

// tiny is the hand-made example of the score definitions, worked on paper.
func tiny() audit.Scores {
	return audit.Scores{
		Value:  []float64{3, 2, 2, 1, 2, 1, 0, 0},
		Member: []bool{true, true, true, true, false, false, false, false},
	}
}

// modular is the 1000-candidate example: A_i = ((31 i) mod 7) < 3,
// s_i = (7919 i) mod M, plus M div 8 for members if shift.
func modular(m int, shift bool) audit.Scores {
	s := audit.Scores{Value: make([]float64, 1000), Member: make([]bool, 1000)}
	for i := range s.Value {
		s.Member[i] = (31*i)%7 < 3
		v := (7919 * i) % m
		if shift && s.Member[i] {
			v += m / 8
		}
		s.Value[i] = float64(v)
	}
	return s
}

// tprFunc is what a TPRAtFPR must look like; the checks below take one, so
// that planted faults can be shown to fail them.
type tprFunc func(s audit.Scores, num, den int) (float64, error)

// checkTPR compares f with the published values, to their ten digits.
func checkTPR(f tprFunc) error {
	for _, c := range []struct {
		name     string
		s        audit.Scores
		num, den int
		want     float64
	}{
		{"tiny", tiny(), 1, 4, .75},
		{"tiny", tiny(), 1, 5, .25},
		{"tiny", tiny(), 0, 1, .25},
		{"tiny", tiny(), 1, 1, 1},
		{"M=1009", modular(1009, false), 5, 100, .0442890443},
		{"M=1009", modular(1009, false), 1, 100, .0139860140},
		{"M=1009 shifted", modular(1009, true), 5, 100, .1724941725},
		{"M=1009 shifted", modular(1009, true), 1, 100, .1421911422},
		{"M=97", modular(97, false), 5, 100, .0396270396},
		{"M=97", modular(97, false), 1, 100, .0116550117},
		{"M=97 shifted", modular(97, true), 5, 100, .1701631702},
		{"M=97 shifted", modular(97, true), 1, 100, .1375291375},
	} {
		got, err := f(c.s, c.num, c.den)
		if err != nil {
			return err
		}
		if !(math.Abs(got-c.want) <= 5e-11) { // the table has ten decimals
			return fmt.Errorf("%s: TPR at FPR %d/%d is %.10f, want %.10f", c.name, c.num, c.den, got, c.want)
		}
	}
	return nil
}

func TestTPRAtFPROracles(t *testing.T) {
	if err := checkTPR(TPRAtFPR); err != nil {
		t.Error(err)
	}
}

func TestAUCOracles(t *testing.T) {
	for _, c := range []struct {
		name string
		s    audit.Scores
		want float64
	}{
		{"tiny", tiny(), .84375},
		{"M=1009", modular(1009, false), .5013900285},
		{"M=1009 shifted", modular(1009, true), .6184320641},
		{"M=97", modular(97, false), .5012940941},
		{"M=97 shifted", modular(97, true), .6171277642},
	} {
		got, err := AUC(c.s)
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(got-c.want) <= 5e-11) {
			t.Errorf("%s: AUC %.10f, want %.10f", c.name, got, c.want)
		}
	}
}

// TestPlantedTPRFaults shows that the values above tell the definition from
// the usual ways of getting it wrong.
func TestPlantedTPRFaults(t *testing.T) {
	for name, f := range map[string]tprFunc{
		"ties split":   splitTies,
		"interpolated": interpolated,
		"FPR < a":      strictly,
	} {
		if checkTPR(f) == nil {
			t.Errorf("the oracles do not notice: %s", name)
		}
	}
}

// splitTies orders members before the non-members that they tie with.
func splitTies(s audit.Scores, num, den int) (float64, error) {
	order := make([]int, len(s.Value))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case s.Value[i] != s.Value[j]:
			if s.Value[i] > s.Value[j] {
				return -1
			}
			return 1
		case s.Member[i] && !s.Member[j]:
			return -1
		case s.Member[j] && !s.Member[i]:
			return 1
		}
		return 0
	})
	n1, n0 := sides(s)
	tp, fp, best := 0, 0, 0
	for _, i := range order {
		if s.Member[i] {
			tp++
		} else {
			fp++
		}
		if fp*den <= num*n0 {
			best = tp
		}
	}
	return float64(best) / float64(n1), nil
}

// interpolated reads the piecewise linear curve at the rate asked for.
func interpolated(s audit.Scores, num, den int) (float64, error) {
	points, err := ROC(s)
	if err != nil {
		return 0, err
	}
	a := float64(num) / float64(den)
	for i := len(points) - 1; i >= 0; i-- {
		p := points[i]
		if p.FPR <= a {
			if i+1 == len(points) {
				return p.TPR, nil
			}
			q := points[i+1]
			return p.TPR + (q.TPR-p.TPR)*(a-p.FPR)/(q.FPR-p.FPR), nil
		}
	}
	return 0, nil
}

// strictly asks for a false positive rate below the limit.
func strictly(s audit.Scores, num, den int) (float64, error) {
	points, err := ROC(s)
	if err != nil {
		return 0, err
	}
	_, n0 := sides(s)
	best := 0.0
	for _, p := range points {
		if p.FP*den < num*n0 {
			best = p.TPR
		}
	}
	return best, nil
}

func sides(s audit.Scores) (n1, n0 int) {
	for _, m := range s.Member {
		if m {
			n1++
		} else {
			n0++
		}
	}
	return n1, n0
}

// drawScores makes small integer scores (many ties) with both sides present.
func drawScores(t *rapid.T) audit.Scores {
	n := rapid.IntRange(2, 60).Draw(t, "n")
	levels := rapid.IntRange(1, 30).Draw(t, "levels")
	s := audit.Scores{Value: make([]float64, n), Member: make([]bool, n)}
	for i := range n {
		s.Value[i] = float64(rapid.IntRange(-levels, levels).Draw(t, "score"))
		s.Member[i] = rapid.Bool().Draw(t, "member")
	}
	s.Member[0], s.Member[n-1] = true, false
	return s
}

// naiveAUC compares every pair.
func naiveAUC(s audit.Scores) float64 {
	wins, n1, n0 := 0.0, 0.0, 0.0
	for i, mi := range s.Member {
		if !mi {
			n0++
			continue
		}
		n1++
		for j, mj := range s.Member {
			if mj {
				continue
			}
			if s.Value[i] > s.Value[j] {
				wins++
			} else if s.Value[i] == s.Value[j] {
				wins += .5
			}
		}
	}
	return wins / (n1 * n0)
}

// naiveTPR tries every score, and no threshold at all, as a threshold.
func naiveTPR(s audit.Scores, num, den int) float64 {
	n1, n0 := sides(s)
	best := 0
	for _, threshold := range s.Value {
		tp, fp := 0, 0
		for i, v := range s.Value {
			if v >= threshold && s.Member[i] {
				tp++
			} else if v >= threshold {
				fp++
			}
		}
		if fp*den <= num*n0 {
			best = max(best, tp)
		}
	}
	return float64(best) / float64(n1)
}

func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		den := rapid.IntRange(1, 40).Draw(t, "den")
		num := rapid.IntRange(0, den).Draw(t, "num")
		auc, err := AUC(s)
		if err != nil {
			t.Fatal(err)
		}
		if want := naiveAUC(s); auc != want { // halves of small integers: exact
			t.Errorf("AUC %v, pair by pair %v", auc, want)
		}
		tpr, err := TPRAtFPR(s, num, den)
		if err != nil {
			t.Fatal(err)
		}
		if want := naiveTPR(s, num, den); tpr != want {
			t.Errorf("TPR %v, threshold by threshold %v", tpr, want)
		}
	})
}

// TestInvariance: order and monotone maps of the scores change nothing.
func TestInvariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		perm := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Perm(len(s.Value))
		moved := audit.Scores{Value: make([]float64, len(perm)), Member: make([]bool, len(perm))}
		for i, j := range perm {
			moved.Value[i], moved.Member[i] = math.Exp(s.Value[j]/3)-7, s.Member[j]
		}
		a, b := figures(t, s), figures(t, moved)
		if a != b {
			t.Errorf("%v became %v", a, b)
		}
	})
}

func figures(t *rapid.T, s audit.Scores) [2]float64 {
	auc, err := AUC(s)
	if err != nil {
		t.Fatal(err)
	}
	tpr, err := TPRAtFPR(s, 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	return [2]float64{auc, tpr}
}

// TestROC: the curve runs from (0,0) to (1,1), never turns back, has the area
// AUC, and TPRAtFPR is its best allowed point.
func TestROC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		points, err := ROC(s)
		if err != nil {
			t.Fatal(err)
		}
		first, last := points[0], points[len(points)-1]
		if first.FPR != 0 || first.TPR != 0 || last.FPR != 1 || last.TPR != 1 {
			t.Errorf("runs from %+v to %+v", first, last)
		}
		area := 0.0
		for i := 1; i < len(points); i++ {
			p, q := points[i-1], points[i]
			if q.FP < p.FP || q.TP < p.TP || !(q.Threshold < p.Threshold) {
				t.Errorf("turns back from %+v to %+v", p, q)
			}
			area += (q.FPR - p.FPR) * (q.TPR + p.TPR) / 2
		}
		auc, err := AUC(s)
		if err != nil {
			t.Fatal(err)
		}
		// at most 60 terms of at most 1, each with a few roundings
		if !(math.Abs(area-auc) <= 60*4*0x1p-53) {
			t.Errorf("area %v, AUC %v", area, auc)
		}
	})
}

// TestNull: without ties and without signal, with 500 candidates on each side,
// TPR at 5 % FPR has mean (25+1)/(500+1) and standard deviation .01401
// (beta-binomial); AUC has mean 1/2 and variance (n1+n0+1)/(12 n1 n0).
func TestNull(t *testing.T) {
	const runs = 2000
	rng := rand.New(rand.NewPCG(7, 11))
	s := audit.Scores{Value: make([]float64, 1000), Member: make([]bool, 1000)}
	for i := range 500 {
		s.Member[i] = true
	}
	var auc, tpr float64
	for range runs {
		for i := range s.Value {
			s.Value[i] = rng.Float64()
		}
		a, err := AUC(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := TPRAtFPR(s, 5, 100)
		if err != nil {
			t.Fatal(err)
		}
		auc += a / runs
		tpr += p / runs
	}
	// Five standard errors; the seed is fixed, so this cannot flicker.
	if tol := 5 * .01401 / math.Sqrt(runs); !(math.Abs(tpr-26./501) <= tol) {
		t.Errorf("mean TPR %v, want %v ± %v", tpr, 26./501, tol)
	}
	if tol := 5 * math.Sqrt(1001./(12*500*500)/runs); !(math.Abs(auc-.5) <= tol) {
		t.Errorf("mean AUC %v, want .5 ± %v", auc, tol)
	}
}

func TestRefused(t *testing.T) {
	ok := tiny()
	for name, s := range map[string]audit.Scores{
		"empty":      {},
		"NaN":        {Value: []float64{1, math.NaN()}, Member: []bool{true, false}},
		"one side":   {Value: []float64{1, 2}, Member: []bool{true, true}},
		"no members": {Value: []float64{1, 2}, Member: []bool{false, false}},
		"lengths":    {Value: []float64{1}, Member: []bool{true, false}},
	} {
		if _, err := AUC(s); err == nil {
			t.Errorf("AUC took %s", name)
		}
		if _, err := TPRAtFPR(s, 5, 100); err == nil {
			t.Errorf("TPRAtFPR took %s", name)
		}
		if _, err := ROC(s); err == nil {
			t.Errorf("ROC took %s", name)
		}
	}
	for _, f := range [][2]int{{-1, 20}, {1, 0}, {2, 1}, {1, -1}, {1, 1 << 31}} {
		if _, err := TPRAtFPR(ok, f[0], f[1]); err == nil {
			t.Errorf("took the rate %d/%d", f[0], f[1])
		}
	}
}

func TestTied(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   int
	}{{[]float64{1, 2, 3, 4}, 0}, {[]float64{0, 0, 0, 0}, 4}, {[]float64{1, 2, 1, 3}, 2}, {[]float64{math.Copysign(0, -1), 5, 0, 5}, 4}} {
		if got, err := Tied(audit.Scores{Value: c.values, Member: []bool{true, true, false, false}}); err != nil || got != c.want {
			t.Errorf("%v: %d, %v, expected %d", c.values, got, err, c.want)
		}
	}
	if _, err := Tied(audit.Scores{Value: []float64{1}, Member: []bool{true}}); err == nil {
		t.Error("took scores of members only")
	}
}
