package stats

import (
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit"
)

// TPRAtFPRInterval is TPRAtFPR with an interval, at confidence 1-alpha, of the
// largest true positive rate that any threshold reaches in the population of
// candidates at a false positive rate of at most num/den. It assumes
// independent members and non-members, and nothing of how scores are
// distributed.
//
// Half of alpha pays for not knowing where the population's threshold lies:
// two order statistics of the non-members enclose it, as in the distribution
// free interval of a quantile (David and Nagaraja, "Order Statistics", 2003,
// chapter 7). The other half pays for the Clopper-Pearson bounds of the share
// of members beyond each of the two. With few non-members no threshold is
// surely within the rate, and Low is 0.
func TPRAtFPRInterval(s audit.Scores, num, den int, alpha float64) (Estimate, error) {
	if err := checkAlpha(alpha); err != nil {
		return Estimate{}, err
	}
	value, err := TPRAtFPR(s, num, den)
	if err != nil {
		return Estimate{}, err
	}
	sides := split(s)
	members, others := sides[0], sides[1]
	slices.Sort(members)
	slices.Sort(others)
	n1, n0 := len(members), len(others)
	// beyond counts the members above the k-th largest non-member.
	beyond := func(k int) int {
		i, _ := slices.BinarySearchFunc(members, others[n0-k], func(v, t float64) int {
			if v > t {
				return 1
			}
			return -1
		})
		return n1 - i
	}
	surely, barely := thresholdRanks(n0, float64(num)/float64(den), alpha/4)
	e := Estimate{Value: value, Low: 0, High: 1}
	if surely > 0 {
		e.Low = clopperPearsonLower(beyond(surely), n1, alpha/4)
	}
	if barely <= n0 {
		e.High = clopperPearsonUpper(beyond(barely), n1, alpha/4)
	}
	// Chance may put the figure itself outside; an interval without it helps nobody.
	e.Low, e.High = min(e.Low, value), max(e.High, value)
	return e, nil
}

// thresholdRanks encloses the threshold that n0 non-members exceed at a rate.
// Beyond the surely-th largest of them the true rate is at most rate, and
// beyond the barely-th it is no less than that of any threshold that is allowed,
// each but for a chance of side. There may be no such ranks: 0 and n0+1.
func thresholdRanks(n0 int, rate, side float64) (surely, barely int) {
	// Of non-members with a larger rate, at most k-1 are beyond: X < k.
	surely = largestCount(n0, func(k int) bool { return binomialLower(k-1, n0, rate) <= side })
	// Of non-members with that rate or less, k or more are beyond: X >= k.
	barely = 1 + largestCount(n0, func(k int) bool { return binomialUpper(k, n0, rate) > side })
	return surely, barely
}

// largestCount is the largest k from 1 to n at which holds, which holds up to
// some k and not beyond, is true; 0 if there is none.
func largestCount(n int, holds func(k int) bool) int {
	low, high := 0, n+1
	for high-low > 1 {
		if mid := low + (high-low)/2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// Advantage is the membership advantage (Yeom, Giacomelli, Fredrikson and Jha,
// CSF 2018) of the best threshold: the largest TPR - FPR, and the point of the
// curve that has it, the strictest one of several. It is also 2·a - 1 for the
// best balanced accuracy a = (TPR + TNR)/2, and the one-sided Kolmogorov-Smirnov
// statistic, so on finite data it is above 0 even where scores say nothing.
func Advantage(s audit.Scores) (float64, Point, error) {
	points, err := ROC(s)
	if err != nil {
		return 0, Point{}, err
	}
	best := points[0]
	for _, p := range points[1:] {
		if p.TPR-p.FPR > best.TPR-best.FPR {
			best = p
		}
	}
	return best.TPR - best.FPR, best, nil
}

// AdvantageInterval is Advantage with an interval of the best threshold's
// advantage in the population, at confidence 1-alpha or more, for independent
// candidates and any distribution: each side's curve is within √(ln(4/alpha)/2n)
// of the population's everywhere, but for a chance of alpha/2 (Massart, Annals
// of Probability 18, 1990), and so the maximum of their difference is within
// the sum of the two.
func AdvantageInterval(s audit.Scores, alpha float64) (Estimate, error) {
	if err := checkAlpha(alpha); err != nil {
		return Estimate{}, err
	}
	value, _, err := Advantage(s)
	if err != nil {
		return Estimate{}, err
	}
	n1 := 0
	for _, m := range s.Member {
		if m {
			n1++
		}
	}
	width := func(n int) float64 { return math.Sqrt(math.Log(4/alpha) / 2 / float64(n)) }
	half := width(n1) + width(len(s.Member)-n1)
	return Estimate{value, max(0, value-half), min(1, value+half)}, nil
}
