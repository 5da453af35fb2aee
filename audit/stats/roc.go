package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/audit"
)

// Point is one threshold: how many non-members (FP) and members (TP) score at
// or above it, and the same as rates.
type Point struct {
	Threshold float64 // +Inf in the first point, which calls nobody
	FP, TP    int
	FPR, TPR  float64
}

// block is the candidates that share a score.
type block struct {
	score   float64
	members int
	others  int
}

// blocks returns the tie blocks of s, highest score first, and the numbers of
// members and non-members.
func blocks(s audit.Scores) (bs []block, members, others int, err error) {
	if err := s.Check(); err != nil {
		return nil, 0, 0, err
	}
	order := make([]int, len(s.Value))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(s.Value[j], s.Value[i]) })
	for _, i := range order {
		if len(bs) == 0 || bs[len(bs)-1].score != s.Value[i] {
			bs = append(bs, block{score: s.Value[i]})
		}
		b := &bs[len(bs)-1]
		if s.Member[i] {
			b.members++
			members++
		} else {
			b.others++
			others++
		}
	}
	return bs, members, others, nil
}

// AUC is the area under the ROC curve: the probability that a random member
// scores above a random non-member, a tie counting one half (Mann-Whitney).
// The count is kept in integers, so the result is rounded once.
func AUC(s audit.Scores) (float64, error) {
	bs, n1, n0, err := blocks(s)
	if err != nil {
		return 0, err
	}
	var halves int64 // 2 per win, 1 per tie
	below := int64(n0)
	for _, b := range bs {
		below -= int64(b.others)
		halves += int64(b.members) * (2*below + int64(b.others))
	}
	return float64(halves) / (2 * float64(n1) * float64(n0)), nil
}

// TPRAtFPR is the largest true positive rate over all thresholds whose false
// positive rate is at most num/den. The comparison is made in integers,
// FP·den <= num·n0, so 1/20 means exactly that.
func TPRAtFPR(s audit.Scores, num, den int) (float64, error) {
	// FP·den must not overflow; no slice holds more than 2³² scores here.
	if num < 0 || den <= 0 || num > den || den > 1<<30 {
		return 0, fmt.Errorf("stats: false positive rate %d/%d: want a fraction from 0 to 1 with a denominator below 2^30", num, den)
	}
	bs, n1, n0, err := blocks(s)
	if err != nil {
		return 0, err
	}
	best, tp, fp := 0, 0, 0
	for _, b := range bs {
		tp += b.members
		fp += b.others
		if int64(fp)*int64(den) > int64(num)*int64(n0) {
			break
		}
		best = tp // tp only grows
	}
	return float64(best) / float64(n1), nil
}

// ROC returns the curve's points from (0,0) to (1,1), one per distinct score.
func ROC(s audit.Scores) ([]Point, error) {
	bs, n1, n0, err := blocks(s)
	if err != nil {
		return nil, err
	}
	points := make([]Point, 1, len(bs)+1)
	points[0].Threshold = inf
	tp, fp := 0, 0
	for _, b := range bs {
		tp += b.members
		fp += b.others
		points = append(points, Point{
			Threshold: b.score,
			FP:        fp, TP: tp,
			FPR: float64(fp) / float64(n0), TPR: float64(tp) / float64(n1),
		})
	}
	return points, nil
}

// Tied counts the candidates that share their score with another one. Ties
// between members and others hide what the scores might have told; losses of
// distinct examples tie only where digits were lost.
func Tied(s audit.Scores) (int, error) {
	bs, _, _, err := blocks(s)
	if err != nil {
		return 0, err
	}
	tied := 0
	for _, b := range bs {
		if n := b.members + b.others; n > 1 {
			tied += n
		}
	}
	return tied, nil
}
