package tensor

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
)

const (
	firstSlab = 1 << 14 // elements
	align     = 16      // elements; 64 bytes of float32, one cache line
)

// Arena hands out tensors that all die together at Reset. Its memory comes
// from the device in slabs that are kept: once a sequence of tensors has been
// handed out, the same sequence, or one of smaller tensors, needs no further
// allocation.
type Arena struct {
	dev    kernels.Device
	poison bool
	slabs  []kernels.Mem
	slab   int // index of the slab in use
	off    int // its first free element
	used   int
	err    error
}

// NewArena is an empty arena.
func NewArena(dev kernels.Device) *Arena { return &Arena{dev: dev} }

// New is a tensor with undefined contents. Where the device has no memory, it
// is a tensor without any, and Err says so.
func (a *Arena) New(shape ...int) *Tensor {
	n := size(shape)
	t := &Tensor{shape: slices.Clone(shape)}
	for a.slab < len(a.slabs) && a.slabs[a.slab].N-a.off < n {
		a.slab++
		a.off = 0
	}
	if a.slab == len(a.slabs) && !a.grow(n) {
		return t
	}
	t.mem = a.slabs[a.slab].Slice(a.off, n)
	a.off = min(a.off+(n+align-1)/align*align, a.slabs[a.slab].N)
	a.used += n
	return t
}

// grow adds a slab for at least n elements: as much as there is already, so
// that the number of slabs stays small.
func (a *Arena) grow(n int) bool {
	if a.err != nil {
		return false
	}
	want := firstSlab
	for _, s := range a.slabs {
		want += s.N
	}
	mem, err := a.dev.Alloc(kernels.Elem, max(n, want))
	if err != nil && want > n {
		mem, err = a.dev.Alloc(kernels.Elem, n)
	}
	if err != nil {
		a.err = fmt.Errorf("tensor: arena of %d elements: %w", a.used, err)
		return false
	}
	a.slabs = append(a.slabs, mem)
	return true
}

// Reset takes every tensor back.
func (a *Arena) Reset() {
	a.slab, a.off, a.used = 0, 0, 0
	if a.poison && a.err == nil {
		for _, s := range a.slabs {
			a.dev.Fill(s, math.NaN())
		}
	}
}

// Poison makes Reset fill the memory with NaN, which exposes whoever reads a
// tensor after its death. The filling is queued like any operation.
func (a *Arena) Poison() { a.poison = true }

// Used is the number of elements handed out since Reset.
func (a *Arena) Used() int { return a.used }

// Err is the first failure to get memory.
func (a *Arena) Err() error { return a.err }

// Free gives the slabs back to the device. The arena is then empty.
func (a *Arena) Free() {
	for _, s := range a.slabs {
		a.dev.Free(s)
	}
	a.slabs, a.slab, a.off, a.used = nil, 0, 0, 0
}
