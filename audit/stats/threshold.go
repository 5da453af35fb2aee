package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aviary-audit/aviary/audit"
)

// ThresholdRule says at which score independent runs are called members, and
// how the confidence pays for the choice.
type ThresholdRule interface {
	Name() string
	// Bound bounds ε from scores of independent runs, and returns the counts
	// that the bound rests on.
	Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error)
}

// CountsAt calls runs members whose score is at or above threshold.
func CountsAt(s audit.Scores, threshold float64) (Counts, error) {
	if err := s.Check(); err != nil {
		return Counts{}, err
	}
	if math.IsNaN(threshold) {
		return Counts{}, fmt.Errorf("stats: threshold: %v is not a number", threshold)
	}
	var c Counts
	for i, v := range s.Value {
		called := v >= threshold
		if s.Member[i] {
			c.Members++
			if called {
				c.TP++
			}
		} else {
			c.NonMembers++
			if called {
				c.FP++
			}
		}
	}
	return c, nil
}

// Pool adds the counts of canaries that each have runs of their own. For pooled
// canaries of unlike rates each bound of a rate by Clopper and Pearson stays
// conservative (Hoeffding 1956), but at one success, or one failure, where its
// level may be γ + γ²/2 instead of γ. The joint test supposes that the rates
// are alike: with unlike ones it can claim more often than with alike ones, and
// that it keeps its level is observed in small cases, not proven.
func Pool(counts ...Counts) Counts {
	var sum Counts
	for _, c := range counts {
		sum.FP, sum.NonMembers = sum.FP+c.FP, sum.NonMembers+c.NonMembers
		sum.TP, sum.Members = sum.TP+c.TP, sum.Members+c.Members
	}
	return sum
}

// Locked is a threshold that was fixed before the scores were seen; ±Inf are
// allowed.
type Locked struct{ Threshold float64 }

// Name implements ThresholdRule.
func (Locked) Name() string { return "locked" }

// Bound implements ThresholdRule.
func (r Locked) Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error) {
	c, err := CountsAt(s, r.Threshold)
	if err != nil {
		return Bound{}, c, err
	}
	b, err := Conclude(e, c, alpha, "one look: threshold fixed in advance")
	return b, c, err
}

// largestAt is the largest bound over thresholds, each at level alpha.
func largestAt(s audit.Scores, e Estimator[Counts], alpha float64, thresholds []float64) (best Bound, at Counts, threshold float64, err error) {
	if len(thresholds) == 0 {
		return best, at, 0, fmt.Errorf("stats: threshold: none to choose from")
	}
	for i, t := range thresholds {
		c, err := CountsAt(s, t)
		if err != nil {
			return best, at, 0, err
		}
		b, err := Conclude(e, c, alpha, "")
		if err != nil {
			return best, at, 0, err
		}
		if i == 0 || b.Epsilon > best.Epsilon {
			best, at, threshold = b, c, t
		}
	}
	return best, at, threshold, nil
}

// Thresholds takes the best of several thresholds that were declared in
// advance, and pays for each of them (Bonferroni).
type Thresholds struct{ Values []float64 }

// Name implements ThresholdRule.
func (Thresholds) Name() string { return "thresholds" }

// Bound implements ThresholdRule.
func (r Thresholds) Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error) {
	if err := checkAlpha(alpha); err != nil {
		return Bound{}, Counts{}, err
	}
	b, c, _, err := largestAt(s, e, alpha/float64(max(1, len(r.Values))), r.Values)
	if err != nil {
		return Bound{}, Counts{}, err
	}
	b.Confidence = 1 - alpha
	b.Multiplicity = fmt.Sprintf("Bonferroni over %d declared thresholds", len(r.Values))
	return b, c, nil
}

// SplitThreshold lets a half of the runs of each world, drawn by Seed, choose
// the threshold, and tests the other half.
type SplitThreshold struct{ Seed uint64 }

// Name implements ThresholdRule.
func (SplitThreshold) Name() string { return "split" }

// Bound implements ThresholdRule.
func (r SplitThreshold) Bound(s audit.Scores, e Estimator[Counts], alpha float64) (Bound, Counts, error) {
	if err := s.Check(); err != nil {
		return Bound{}, Counts{}, err
	}
	random := rand.New(rand.NewPCG(r.Seed, uint64(len(s.Value))))
	var halves [2][]int
	seen := [2]int{random.IntN(2), random.IntN(2)}
	for _, i := range random.Perm(len(s.Value)) {
		side := 0
		if s.Member[i] {
			side = 1
		}
		halves[seen[side]%2] = append(halves[seen[side]%2], i)
		seen[side]++
	}
	choosing, tested := pick(s, halves[0]), pick(s, halves[1])
	for _, half := range []audit.Scores{choosing, tested} {
		if err := half.Check(); err != nil {
			return Bound{}, Counts{}, fmt.Errorf("half of the runs: %w", err)
		}
	}
	// Any way to choose is allowed on this half, and cp-2 takes microseconds.
	_, _, threshold, err := largestAt(choosing, ClopperPearson{e.AtDelta(), 2}, alpha, someThresholds(choosing.Value))
	if err != nil {
		return Bound{}, Counts{}, err
	}
	c, err := CountsAt(tested, threshold)
	if err != nil {
		return Bound{}, c, err
	}
	b, err := Conclude(e, c, alpha, "one look: threshold chosen on the other half of the runs")
	return b, c, err
}

// someThresholds are at most 64 of the scores: dense among the highest, where
// few non-members are called.
func someThresholds(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	n := len(sorted)
	var out []float64
	for i := range 64 {
		k := int(math.Pow(float64(n), float64(i)/63)) - 1
		if v := sorted[min(max(k, 0), n-1)]; len(out) == 0 || v < out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}
