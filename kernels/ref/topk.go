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
	topK(score, slot, t, func(s []float64, r int) {
		Gemm(s, row(q, r, t.Dim), bank, bias, Product{M: 1, N: t.Bank, K: t.Dim, TransB: true})
	})
}

// TopKBytes is TopK for vectors of signed bytes, four in each number of q and
// bank, the first in its lowest bits:
//
//	s[r,p] = (Σ_k q[r,k] bank[p,k]) qScale[r] scale[p] + bias[p]
func TopKBytes(score []float64, slot, q, bank []int32, qScale, scale, bias []float64, t Nearest) {
	words := t.Dim / 4
	topK(score, slot, t, func(s []float64, r int) {
		for p := range s {
			sum := 0
			for k, a := range q[r*words : (r+1)*words] {
				b := bank[p*words+k]
				for shift := 0; shift < 32; shift += 8 {
					sum += int(int8(a>>shift)) * int(int8(b>>shift))
				}
			}
			s[p] = float64(sum) * qScale[r] * scale[p]
			if bias != nil {
				s[p] += bias[p]
			}
		}
	})
}

// topK fills the lists from the scores that fill gives for a query.
func topK(score []float64, slot []int32, t Nearest, fill func(s []float64, query int)) {
	type entry struct {
		score float64
		slot  int32
	}
	s := make([]float64, t.Bank)
	for r := range t.Queries {
		fill(s, r)
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
