package ref

import (
	"cmp"
	"math"
	"slices"
)

// Nearest describes a search in a bank; its fields are those of kernels.TopK.
type Nearest struct {
	Queries, Bank, Dim, K int
	First                 int
	Acc                   bool
}

// TopK finds the K candidates of a bank with the largest scores for each query,
//
//	s[r,p] = Σ_k q[r,k] bank[p,k] + bias[p],
//
// descending, and their slots First+p; of equal ones the lowest slots, in
// ascending order. bias may be nil. With Acc what score and slot hold takes part,
// and goes before equals. A NaN or -Inf is never kept; places for which there is
// no score hold -Inf and slot -1.
func TopK(score []float64, slot []int32, q, bank, bias []float64, t Nearest) {
	type entry struct {
		score float64
		slot  int32
	}
	s := make([]float64, t.Bank)
	for r := range t.Queries {
		Gemm(s, row(q, r, t.Dim), bank, bias, Product{M: 1, N: t.Bank, K: t.Dim, TransB: true})
		var all []entry
		for j := range t.K {
			if at := r*t.K + j; t.Acc && slot[at] >= 0 {
				all = append(all, entry{score[at], slot[at]})
			}
		}
		for p, x := range s {
			if x > math.Inf(-1) {
				all = append(all, entry{x, int32(t.First + p)})
			}
		}
		slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.score, a.score) })
		for j := range t.K {
			best := entry{math.Inf(-1), -1}
			if j < len(all) {
				best = all[j]
			}
			score[r*t.K+j], slot[r*t.K+j] = best.score, best.slot
		}
	}
}
