package pe

import (
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit/records"
)

// distinct is the different rows of a bank. A bank that a language model wrote
// holds many copies of one text, all at the same distance of a record: more than
// the device finds, so that none of them could be told to be among the nearest.
type distinct struct {
	x     *records.Matrix
	slots [][]int32 // of each row: the lowest that hold it, ascending
}

// newDistinct keeps up to k slots of a row.
func newDistinct(bank Bank, k int) *distinct {
	d := &distinct{x: bank.X}
	first := map[uint64][]int{}
	var rows []int // of the bank, one for each different row
	for i := range bank.X.Len() {
		row := bank.X.Row(i)
		sum := uint64(0) // a hash; rows that share one are compared
		for _, v := range row {
			sum = (sum ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		}
		at := slices.IndexFunc(first[sum], func(j int) bool { return slices.Equal(bank.X.Row(rows[j]), row) })
		if at < 0 {
			first[sum] = append(first[sum], len(rows))
			rows = append(rows, i)
			d.slots = append(d.slots, []int32{bank.slot(int32(i))})
		} else if j := first[sum][at]; len(d.slots[j]) < k {
			d.slots[j] = append(d.slots[j], bank.slot(int32(i)))
		}
	}
	if len(rows) < bank.X.Len() {
		d.x = &records.Matrix{D: bank.X.D, X: make([]float32, 0, len(rows)*bank.X.D)}
		for _, i := range rows {
			d.x.X = append(d.x.X, bank.X.Row(i)...)
		}
	}
	return d
}
