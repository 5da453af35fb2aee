package stats

import (
	"fmt"
	"math"
)

// ClopperPearson bounds ε by intervals of the two rates (Clopper and Pearson
// 1934; Nasr et al. 2021, section 3). With Bounds = 4,
//
//	ε >= max(0, ln((TPR_L-δ)/FPR_U), ln((TNR_L-δ)/FNR_U)),
//
// each of the four at a quarter of the level; with Bounds = 2 the first
// logarithm alone, each rate at half.
type ClopperPearson struct {
	Delta  float64
	Bounds int // 4 or 2
}

// Name implements Estimator.
func (e ClopperPearson) Name() string { return fmt.Sprintf("cp-%d", e.Bounds) }

// Scope implements Estimator.
func (ClopperPearson) Scope() Scope { return ModelFree }

// Assumption implements Estimator.
func (e ClopperPearson) Assumption() string {
	if e.Bounds == 2 {
		return "independent runs; direction declared in advance"
	}
	return "independent runs"
}

// AtDelta implements Estimator.
func (e ClopperPearson) AtDelta() float64 { return e.Delta }

func (e ClopperPearson) check(c Counts, eps float64) error {
	if e.Bounds != 2 && e.Bounds != 4 {
		return fmt.Errorf("stats: bounds: %d, expected 2 or 4", e.Bounds)
	}
	return checkCounts(c, e.Delta, eps)
}

// checkCounts refuses impossible arguments of a two-world test.
func checkCounts(c Counts, delta, eps float64) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := checkDelta(delta); err != nil {
		return err
	}
	return checkEps(eps)
}

// rates are the one-sided bounds that a claim needs: of non-members FPR_U, and
// TNR_L for the second logarithm; of members TPR_L, and FNR_U.
type rates struct{ first, second float64 }

func (e ClopperPearson) nonMembers(fp, n int, alpha float64) (r rates) {
	each := alpha / float64(e.Bounds)
	r.first = clopperPearsonUpper(fp, n, each)
	if e.Bounds == 4 {
		r.second = clopperPearsonLower(n-fp, n, each)
	}
	return r
}

func (e ClopperPearson) members(tp, n int, alpha float64) (r rates) {
	each := alpha / float64(e.Bounds)
	r.first = clopperPearsonLower(tp, n, each)
	if e.Bounds == 4 {
		r.second = clopperPearsonUpper(n-tp, n, each)
	}
	return r
}

// of is the bound from those of the rates.
func (e ClopperPearson) of(non, member rates) float64 {
	eps := math.Max(0, logRatio(member.first-e.Delta, non.first))
	if e.Bounds == 4 {
		eps = math.Max(eps, logRatio(non.second-e.Delta, member.second))
	}
	return eps
}

// lower is Lower for arguments that were checked. It grows with alpha.
func (e ClopperPearson) lower(c Counts, alpha float64) float64 {
	return e.of(e.nonMembers(c.FP, c.NonMembers, alpha), e.members(c.TP, c.Members, alpha))
}

// LowerOfPairs is Lower of every fp with every tp, by rows of one fp: the rates are
// bounded once for each, not for each pair.
func (e ClopperPearson) LowerOfPairs(fp, tp []int, nonMembers, members int, alpha float64) ([][]float64, error) {
	if err := checkAlpha(alpha); err != nil {
		return nil, err
	}
	var non, member []rates
	for _, x := range fp {
		if err := e.check(Counts{FP: x, NonMembers: nonMembers, Members: members}, 0); err != nil {
			return nil, err
		}
		non = append(non, e.nonMembers(x, nonMembers, alpha))
	}
	for _, y := range tp {
		if err := e.check(Counts{TP: y, NonMembers: nonMembers, Members: members}, 0); err != nil {
			return nil, err
		}
		member = append(member, e.members(y, members, alpha))
	}
	out := make([][]float64, len(non))
	for i, a := range non {
		for _, b := range member {
			out[i] = append(out[i], e.of(a, b))
		}
	}
	return out, nil
}

// logRatio is ln(a/b), or -Inf where a is not positive.
func logRatio(a, b float64) float64 {
	if !(a > 0) {
		return math.Inf(-1)
	}
	return math.Log(a) - math.Log(b)
}

// Lower implements Estimator.
func (e ClopperPearson) Lower(c Counts, alpha float64) (float64, error) {
	if err := e.check(c, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	return e.lower(c, alpha), nil
}

// PValue implements Estimator: the least level at which the bound exceeds eps,
// 1 if none does, and at least 1e-300.
func (e ClopperPearson) PValue(c Counts, eps float64) (float64, error) {
	if err := e.check(c, eps); err != nil {
		return 0, err
	}
	return leastAlpha(func(alpha float64) bool { return e.lower(c, alpha) > eps }), nil
}

// leastAlpha is the least level that rejects, found by bisection of its
// logarithm.
func leastAlpha(rejects func(alpha float64) bool) float64 {
	low, high := math.Log(1e-300), math.Log(1-1e-12)
	if !rejects(math.Exp(high)) {
		return 1
	}
	for range 60 {
		mid := (low + high) / 2
		if rejects(math.Exp(mid)) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Exp(high)
}
