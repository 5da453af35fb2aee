package stats

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Signal is what an attack is expected to tell: scores are normal with one
// standard deviation, and those of members lie this many deviations above the
// others'.
type Signal float64

// SignalOfAUC is the signal with this area under the ROC curve, AUC = Φ(μ/√2).
func SignalOfAUC(auc float64) (Signal, error) {
	if !(auc > 0.5 && auc < 1) {
		return 0, fmt.Errorf("stats: AUC: %v, expected above 0.5 and below 1", auc)
	}
	return Signal(math.Sqrt2 * mathext.NormalQuantile(auc)), nil
}

// SignalOfTPR is the signal with this true positive rate where the false positive
// rate is fpr, TPR = Φ(Φ⁻¹(FPR) + μ).
func SignalOfTPR(tpr, fpr float64) (Signal, error) {
	if !(fpr > 0 && fpr < 1) {
		return 0, fmt.Errorf("stats: FPR: %v, expected above 0 and below 1", fpr)
	}
	if !(tpr > fpr && tpr < 1) {
		return 0, fmt.Errorf("stats: TPR: %v, expected above the FPR of %v and below 1", tpr, fpr)
	}
	return Signal(mathext.NormalQuantile(tpr) - mathext.NormalQuantile(fpr)), nil
}

// AUC is the signal's area under the ROC curve.
func (s Signal) AUC() float64 { return normalBelow(float64(s) / math.Sqrt2) }

// TPR is the signal's true positive rate at a false positive rate.
func (s Signal) TPR(fpr float64) float64 {
	return normalBelow(float64(s) + mathext.NormalQuantile(fpr))
}

// Correct is how many of the guesses of f are expected to be right among m
// canaries, half of them members, in the limit of large m. The k highest scores
// are those above the t with m/2 (Φ̄(t) + Φ̄(t-μ)) = k, and m/2 Φ̄(t-μ) of them are
// members'; by symmetry as many of the k lowest are others'.
func (s Signal) Correct(m int, f FixedGuesses) float64 {
	return s.membersAbove(m, f.Plus) + s.membersAbove(m, f.Minus)
}

func (s Signal) membersAbove(m, k int) float64 {
	if k == 0 {
		return 0
	}
	half, mu := float64(m)/2, float64(s)
	low, high := -40., 40+mu
	for range 200 {
		t := (low + high) / 2
		if half*(normalBelow(-t)+normalBelow(mu-t)) > float64(k) {
			low = t
		} else {
			high = t
		}
	}
	return half * normalBelow(mu-low)
}

// ExpectedGuesses is a rule, the guesses to expect of it, and the bound at those.
type ExpectedGuesses struct {
	Rule    FixedGuesses
	Guesses Guesses
	Epsilon float64
}

// GuessPlan compares rules before a game: what each is expected to show, in the
// order in which they were given, and the first of the best.
type GuessPlan struct {
	Rows []ExpectedGuesses
	Best ExpectedGuesses
}

// PlanGuesses says which bound each of the rules gives at the guesses that are
// expected of m canaries with this signal, the right ones rounded to a whole
// number. The choice of one is paid by no confidence if it is made before the
// scores are seen.
func PlanGuesses(ctx context.Context, e Estimator[Guesses], m int, signal Signal, alpha float64, rules []FixedGuesses) (GuessPlan, error) {
	switch {
	case m < 2:
		return GuessPlan{}, fmt.Errorf("stats: canaries: %d, expected 2 or more", m)
	case !(signal > 0) || math.IsInf(float64(signal), 1):
		return GuessPlan{}, fmt.Errorf("stats: signal: %v, expected a finite number above 0", float64(signal))
	case len(rules) == 0:
		return GuessPlan{}, fmt.Errorf("stats: guesses: no rule to compare")
	}
	var p GuessPlan
	for i, f := range rules {
		if err := ctx.Err(); err != nil {
			return GuessPlan{}, err
		}
		if f.Plus < 0 || f.Minus < 0 || f.Plus+f.Minus < 1 || f.Plus+f.Minus > m {
			return GuessPlan{}, fmt.Errorf("stats: guesses: %d highest and %d lowest, expected 0 or more each and 1 to the %d canaries together", f.Plus, f.Minus, m)
		}
		r := f.Plus + f.Minus
		row := ExpectedGuesses{Rule: f, Guesses: Guesses{m, r, min(r, int(math.Round(signal.Correct(m, f))))}}
		var err error
		if row.Epsilon, err = e.Lower(row.Guesses, alpha); err != nil {
			return GuessPlan{}, err
		}
		p.Rows = append(p.Rows, row)
		if i == 0 || row.Epsilon > p.Best.Epsilon {
			p.Best = row
		}
	}
	return p, nil
}

// UsualGuesses are rules for m canaries from few guesses to all: of as many of the
// highest as of the lowest scores, and of the highest alone.
func UsualGuesses(m int) []FixedGuesses {
	var rules []FixedGuesses
	last := 0
	for _, share := range []float64{.005, .01, .02, .03, .04, .05, .07, .1, .15, .2, .25, .3, .4, .5} {
		k := int(math.Round(share * float64(m)))
		if k <= last || 2*k > m {
			continue
		}
		last = k
		rules = append(rules, FixedGuesses{k, 0}, FixedGuesses{k, k})
	}
	return rules
}
