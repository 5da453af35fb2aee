// Package rng derives every random stream of a run from one master seed.
//
// A stream is named by its purpose and by integers such as a set, an audit or
// a step. Streams with different names are independent, so work can be done in
// any order, in parallel, or again after a kill, and give the same numbers.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Purpose names what a stream is for. The constants are in purposes.go, so
// that no two uses share a name by accident.
type Purpose string

// New is the stream (seed, purpose, index...): ChaCha8 keyed by the SHA-256 of
// its name.
func New(seed uint64, purpose Purpose, index ...uint64) *rand.Rand {
	return rand.New(rand.NewChaCha8(key(seed, purpose, index)))
}

// Seed derives a 64-bit seed in the same way, for a generator of another kind
// or for a sub-run with streams of its own.
func Seed(seed uint64, purpose Purpose, index ...uint64) uint64 {
	k := key(seed, purpose, index)
	return binary.LittleEndian.Uint64(k[:8])
}

func key(seed uint64, purpose Purpose, index []uint64) [32]byte {
	b := binary.LittleEndian.AppendUint64([]byte("aviary/rng/1\x00"), seed)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(purpose)))
	b = append(b, purpose...)
	for _, i := range index {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	return sha256.Sum256(b)
}
