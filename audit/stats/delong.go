package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit"
)

// Estimate is a figure with a confidence interval.
type Estimate struct {
	Value, Low, High float64
}

// DeLong is the AUC with DeLong's interval at confidence 1-alpha, cut to
// [0, 1],
//
//	AUC ± z · √(S10/n1 + S01/n0),
//
// where S10 is the sample variance, over the members, of the share of
// non-members that each one beats, and S01 likewise (DeLong, DeLong and
// Clarke-Pearson, Biometrics 44, 1988). The shares are read off the tie blocks,
// which is the mid-rank form of Sun and Xu (IEEE Signal Processing Letters 21,
// 2014), in O(n log n). Two of each side are needed.
//
// It is a large-sample interval, too short for an AUC near 0 or 1: prefer
// DeLongLogit there. Where all pairs of a member and a non-member come out
// alike (AUC 0 or 1, or ½ by ties alone) the variance is 0 and the formula
// would give a point. The interval is then that of the min(n1, n0) pairs that
// share nobody: of independent trials without another outcome, at most
// 1 - alpha^(1/pairs) have one in the long run.
func DeLong(s audit.Scores, alpha float64) (Estimate, error) {
	auc, se, pairs, err := deLong(s, alpha)
	switch {
	case err != nil:
		return Estimate{}, err
	case se == 0:
		return constantAUC(auc, pairs, alpha), nil
	}
	half := -mathext.NormalQuantile(alpha/2) * se
	return Estimate{auc, max(0, auc-half), min(1, auc+half)}, nil
}

// DeLongLogit is DeLong with the interval symmetric in ln(AUC/(1-AUC)), by the
// delta method (Pepe, "The Statistical Evaluation of Medical Tests", 2003,
// chapter 5). It stays inside (0, 1), and holds its level better where the
// AUC is far from ½.
func DeLongLogit(s audit.Scores, alpha float64) (Estimate, error) {
	auc, se, pairs, err := deLong(s, alpha)
	switch {
	case err != nil:
		return Estimate{}, err
	case se == 0:
		return constantAUC(auc, pairs, alpha), nil
	}
	half := -mathext.NormalQuantile(alpha/2) * se / (auc * (1 - auc))
	logit := math.Log(auc / (1 - auc))
	return Estimate{auc, logistic(logit - half), logistic(logit + half)}, nil
}

func logistic(t float64) float64 { return 1 / (1 + math.Exp(-t)) }

// deLong is the AUC and its standard error; pairs is the number of disjoint
// pairs of a member and a non-member.
func deLong(s audit.Scores, alpha float64) (auc, se float64, pairs int, err error) {
	if err := checkAlpha(alpha); err != nil {
		return 0, 0, 0, err
	}
	bs, n1, n0, err := blocks(s)
	if err != nil {
		return 0, 0, 0, err
	}
	if n1 < 2 || n0 < 2 {
		return 0, 0, 0, fmt.Errorf("stats: %d members and %d non-members: a variance needs 2 of each", n1, n0)
	}
	if auc, err = AUC(s); err != nil {
		return 0, 0, 0, err
	}
	var s10, s01 float64 // sums of squared deviations
	above, below := 0.0, float64(n0)
	for _, b := range bs {
		below -= float64(b.others)
		beats := (below + float64(b.others)/2) / float64(n0)
		beatenBy := (above + float64(b.members)/2) / float64(n1)
		s10 += float64(b.members) * (beats - auc) * (beats - auc)
		s01 += float64(b.others) * (beatenBy - auc) * (beatenBy - auc)
		above += float64(b.members)
	}
	variance := s10/float64(n1-1)/float64(n1) + s01/float64(n0-1)/float64(n0)
	return auc, math.Sqrt(variance), min(n1, n0), nil
}

// constantAUC is the interval where every pair of a member and a non-member
// came out alike: all won (AUC 1), all lost (0) or all tied (½). With
// confidence 1-alpha the probability of any other outcome is at most e, and the
// AUC within e, or e/2 for ties, of what was seen.
func constantAUC(auc float64, pairs int, alpha float64) Estimate {
	e := clopperPearsonUpper(0, pairs, alpha)
	if auc == .5 {
		return Estimate{auc, auc - e/2, auc + e/2}
	}
	return Estimate{auc, max(0, auc-e), min(1, auc+e)}
}
