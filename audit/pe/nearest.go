package pe

import (
	"fmt"
	"math"
)

// Nearest is, for each of a list of records, the K candidates nearest to it,
// ascending by distance, equal ones by slot.
type Nearest struct {
	K    int
	Slot []int32   // [records, K]
	Dist []float64 // [records, K], squared
}

// Len is the number of records.
func (n *Nearest) Len() int { return len(n.Slot) / n.K }

// Rows are the slots of records from to to-1, K each.
func (n *Nearest) Rows(from, to int) []int32 { return n.Slot[from*n.K : to*n.K] }

// Merge is the K nearest of two lists for the same records, over slots that
// they do not share. Lists may have fewer than K entries a record, if K is at
// most both together. Merging candidates into the lists over all others equals
// routing to both, since a candidate can only push others off the end.
func Merge(k int, a, b *Nearest) (*Nearest, error) {
	records := a.Len()
	if b.Len() != records {
		return nil, fmt.Errorf("pe: lists of %d and of %d records cannot be merged", records, b.Len())
	}
	if k < 1 || k > a.K+b.K {
		return nil, fmt.Errorf("pe: k: %d, expected 1 to the %d + %d nearest there are", k, a.K, b.K)
	}
	m := &Nearest{K: k, Slot: make([]int32, records*k), Dist: make([]float64, records*k)}
	for r := range records {
		i, iEnd := r*a.K, (r+1)*a.K
		j, jEnd := r*b.K, (r+1)*b.K
		for o := r * k; o < (r+1)*k; o++ {
			if j == jEnd || i < iEnd && before(a.Dist[i], a.Slot[i], b.Dist[j], b.Slot[j]) {
				m.Slot[o], m.Dist[o] = a.Slot[i], a.Dist[i]
				i++
			} else {
				m.Slot[o], m.Dist[o] = b.Slot[j], b.Dist[j]
				j++
			}
		}
	}
	return m, nil
}

// before is the order of candidates.
func before(dist float64, slot int32, otherDist float64, otherSlot int32) bool {
	return dist < otherDist || dist == otherDist && slot < otherSlot
}

// sqDist is |a-b|², in float64, its terms added in their order. The conversion
// keeps a compiler from fusing them, so that all machines agree on ties.
func sqDist(a, b []float32) float64 {
	s := 0.0
	b = b[:len(a)]
	for i, x := range a {
		d := float64(x) - float64(b[i])
		s += float64(d * d)
	}
	return s
}

// finiteRow is the first number in x that is not finite, as an error.
func finiteRow(what string, row int, x []float32) error {
	for i, v := range x {
		if w := float64(v); math.IsNaN(w) || math.IsInf(w, 0) {
			return fmt.Errorf("pe: %s: row %d, column %d is %v, expected a finite number", what, row, i, v)
		}
	}
	return nil
}
