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

// sqDist4 is sqDist of a with four vectors, the same to the bit: four chains of
// additions take little longer than one.
func sqDist4(a, b0, b1, b2, b3 []float32) (s [4]float64) {
	n := len(a)
	b0, b1, b2, b3 = b0[:n], b1[:n], b2[:n], b3[:n]
	var s0, s1, s2, s3 float64
	for i, v := range a {
		x := float64(v)
		d0, d1, d2, d3 := x-float64(b0[i]), x-float64(b1[i]), x-float64(b2[i]), x-float64(b3[i])
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
	}
	return [4]float64{s0, s1, s2, s3}
}

// sqNorm is |x|² in float64.
func sqNorm(x []float32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// bestList fills a record's part of a Nearest, in order.
type bestList struct {
	slot []int32
	dist []float64
	n    int // filled
}

func (b *bestList) full() bool { return b.n == len(b.slot) }

// last is the largest distance in a full list.
func (b *bestList) last() float64 { return b.dist[len(b.dist)-1] }

// putAll inserts candidates at one distance.
func (b *bestList) putAll(dist float64, slots []int32) {
	for _, s := range slots {
		b.put(dist, s)
	}
}

// put inserts a candidate, unless the list is full of nearer ones.
func (b *bestList) put(dist float64, slot int32) {
	i := b.n
	if b.full() {
		i--
		if !before(dist, slot, b.dist[i], b.slot[i]) {
			return
		}
	} else {
		b.n++
	}
	for ; i > 0 && before(dist, slot, b.dist[i-1], b.slot[i-1]); i-- {
		b.dist[i], b.slot[i] = b.dist[i-1], b.slot[i-1]
	}
	b.dist[i], b.slot[i] = dist, slot
}

// candidate is one that may be among the nearest.
type candidate struct {
	dist float64
	slot int32
}

func (c candidate) compare(o candidate) int {
	switch {
	case before(c.dist, c.slot, o.dist, o.slot):
		return -1
	case before(o.dist, o.slot, c.dist, c.slot):
		return 1
	}
	return 0
}
