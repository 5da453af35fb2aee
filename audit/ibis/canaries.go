package ibis

import "github.com/aviary-audit/aviary/audit"

// Canaries makes a canary set of the examples index of d, as they are. Each
// displaces itself.
func Canaries(d audit.Dataset, method string, set int, index []int) *audit.CanarySet {
	size := exampleLen(d)
	c := &audit.CanarySet{
		Method: method, Set: set, Size: d.Shape(), K: d.Classes(),
		X: make([]float32, len(index)*size), Y: make([]int32, len(index)),
		Removed: append([]int(nil), index...),
	}
	for i, e := range index {
		c.Y[i] = int32(d.Example(e, c.X[i*size:(i+1)*size]))
	}
	return c
}

func exampleLen(d audit.Dataset) int {
	n := 1
	for _, s := range d.Shape() {
		n *= s
	}
	return n
}
