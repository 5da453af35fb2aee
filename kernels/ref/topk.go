package ref

import (
	"math"
	"slices"
)

// TopK keeps the k largest of each row: score[r,:] are the largest z[r,c],
// descending, and slot[r,:] their first+c; of equal ones the lowest slots, in
// ascending order. With acc what score and slot hold takes part, and goes before
// equals in z. Places for which there is no number hold -Inf and slot -1; a NaN
// is never kept.
func TopK(score []float64, slot []int32, z []float64, rows, cols, k, first int, acc bool) {
	type entry struct {
		score float64
		slot  int32
	}
	for r := range rows {
		var all []entry
		for j := range k {
			if at := r*k + j; acc && slot[at] >= 0 {
				all = append(all, entry{score[at], slot[at]})
			}
		}
		for c, x := range row(z, r, cols) {
			if !math.IsNaN(x) {
				all = append(all, entry{x, int32(first + c)})
			}
		}
		slices.SortStableFunc(all, func(a, b entry) int {
			switch {
			case a.score > b.score:
				return -1
			case a.score < b.score:
				return 1
			}
			return 0
		})
		for j := range k {
			best := entry{math.Inf(-1), -1}
			if j < len(all) {
				best = all[j]
			}
			score[r*k+j], slot[r*k+j] = best.score, best.slot
		}
	}
}
