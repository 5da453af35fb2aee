package kerneltest

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
)

// Bits are hashes of all that a device put out in Run, call by call.
type Bits struct {
	name    string
	results []result
}

type result struct {
	what string
	hash uint64
}

var hashSeed = maphash.MakeSeed()

// add is called by every call of a case.
func (b *Bits) add(op, label string, a *array, values []float64) {
	if b == nil || !a.output {
		return
	}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	var word [8]byte
	for _, x := range values {
		binary.LittleEndian.PutUint64(word[:], math.Float64bits(x))
		h.Write(word[:])
	}
	b.results = append(b.results, result{fmt.Sprintf("%s: %s: %s", op, label, a.name), h.Sum64()})
}

// Same demands that two devices put out the same bits: one device with
// different numbers of threads, or two instruction sets. Whether the bits are
// right is for Run to say.
func (b *Bits) Same(t TB, other *Bits) {
	t.Helper()
	if len(b.results) == 0 || len(b.results) != len(other.results) {
		t.Errorf("%s made %d results and %s %d", b.name, len(b.results), other.name, len(other.results))
		return
	}
	differ := 0
	for i, x := range b.results {
		if x != other.results[i] {
			if differ++; differ <= manyFailures {
				t.Errorf("%s: other bits on %s than on %s", x.what, b.name, other.name)
			}
		}
	}
	if differ > manyFailures {
		t.Errorf("%d of %d results differ between %s and %s", differ, len(b.results), b.name, other.name)
	}
}
