package kernels

import "fmt"

// Kind is what a buffer holds.
type Kind uint8

// The kinds of buffers.
const (
	Elem    Kind = iota // numbers of the device's element type
	Int32               // labels, row numbers
	Float64             // results that float32 would blur, such as losses
)

func (k Kind) String() string {
	switch k {
	case Elem:
		return "elem"
	case Int32:
		return "int32"
	case Float64:
		return "float64"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Buffer is an allocation on a device. Only that device looks inside.
type Buffer interface {
	Kind() Kind
	Len() int // in elements
}

// Mem is a run of elements within a buffer. The zero Mem stands for "none"
// where an operation says that an operand is optional.
type Mem struct {
	Buf Buffer
	Off int // first element
	N   int // number of elements
}

// None says whether m is the zero Mem.
func (m Mem) None() bool { return m.Buf == nil }

// Slice is the n elements of m from off on.
func (m Mem) Slice(off, n int) Mem {
	if off < 0 || n < 0 || off+n > m.N {
		panic(fmt.Sprintf("kernels: slice [%d:%d] of %d elements", off, off+n, m.N))
	}
	return Mem{m.Buf, m.Off + off, n}
}

// Device owns memory and computes. Calls are queued in order and may return
// before they have run; Sync and the Download methods wait. A failure is
// sticky: later calls do nothing, and Sync and Download return the first one.
// Arguments of the wrong size or kind are the caller's bug and panic at once,
// naming the operation. A Device may be used by several goroutines; their
// calls then interleave in some order.
type Device interface {
	Ops

	// Name tells people what computes, e.g. "cpu (avx512, 2 threads)".
	Name() string
	// ElemBits is 32 or 64: the size of an element.
	ElemBits() int

	// Alloc returns n elements with undefined contents.
	Alloc(kind Kind, n int) (Mem, error)
	// Free gives the whole buffer back. It waits for nothing: queued calls that
	// use the buffer still run before it is reused.
	Free(Mem)
	// Stats counts what the device has done since it was opened.
	Stats() Stats

	// Uploads copy src into dst, converting to the device's element type (or to
	// float64 where dst holds that). src may be reused at once.
	UploadF32(dst Mem, src []float32)
	UploadF64(dst Mem, src []float64)
	UploadInts(dst Mem, src []int32)
	// Downloads wait for all that is queued.
	DownloadF32(dst []float32, src Mem) error
	DownloadF64(dst []float64, src Mem) error
	DownloadInts(dst []int32, src Mem) error

	// Sync waits for all queued calls and returns the first failure.
	Sync() error
	// Close frees what the device holds. It must not be used afterwards.
	Close() error
}

// Stats are a device's counters.
type Stats struct {
	Allocs    int64 // calls of Alloc
	LiveBytes int64 // allocated and not freed
	PeakBytes int64
	Launches  int64 // operations run
}
