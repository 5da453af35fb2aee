//go:build cgo

package kernels

// #cgo CFLAGS: -std=c11 -O3 -Wall -Wextra -Wno-psabi
// #cgo LDFLAGS: -lm -lpthread
// #include "abi.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// CPU opens a float32 device on the processor: C kernels for the best
// instruction set, with a worker pool of its own. Its results do not depend on
// the number of threads. Calls run at once, one at a time.
func CPU(opts CPUOptions) (Device, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	isa, threads := opts.ISA, opts.Threads
	if isa == Auto {
		isa = BestISA()
	}
	if threads == 0 {
		threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	c := C.av_open(C.int(threads), C.int(isa-Portable))
	if c == nil {
		return nil, fmt.Errorf("kernels: CPU: the system gave no memory or no threads for a pool of %d", threads)
	}
	return &cpu{c: c, isa: isa, threads: threads}, nil
}

// BestISA is the best instruction set that the machine offers.
func BestISA() ISA { return Portable + ISA(C.av_best_isa()) }

// CPUFeatures says in words what the CPU device would compute with.
func CPUFeatures() string {
	return fmt.Sprintf("%s, %v, %d CPUs", runtime.GOARCH, BestISA(), runtime.NumCPU())
}

// cpu is the device. The mutex serves its fields and serialises the kernels.
type cpu struct {
	mu      sync.Mutex
	c       *C.av_cpu // nil when closed
	isa     ISA
	threads int
	err     error // the first failure
	stats   Stats
}

// cpuBuffer holds its numbers in Go memory, which the collector takes back after
// Free. The memory starts at a multiple of 64 bytes, a cache line and the widest
// vector.
type cpuBuffer struct {
	owner *cpu
	kind  Kind
	n     int
	data  unsafe.Pointer // nil when freed, or empty
	freed bool
}

const alignment = 64

func (b *cpuBuffer) Kind() Kind { return b.kind }
func (b *cpuBuffer) Len() int   { return b.n }

func (b *cpuBuffer) size() int {
	if b.kind == Float64 {
		return 8
	}
	return 4
}

func (d *cpu) Name() string {
	if d.threads == 1 {
		return fmt.Sprintf("cpu (%v, 1 thread)", d.isa)
	}
	return fmt.Sprintf("cpu (%v, %d threads)", d.isa, d.threads)
}

func (d *cpu) ElemBits() int { return 32 }

func (d *cpu) Alloc(kind Kind, n int) (Mem, error) {
	if n < 0 {
		refuse("Alloc", "%d elements", n)
	}
	if kind > Float64 {
		refuse("Alloc", "unknown kind %v", kind)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c == nil {
		return Mem{}, errors.New("kernels: Alloc: the device is closed")
	}
	b := &cpuBuffer{owner: d, kind: kind, n: n}
	if n > 0 {
		raw := make([]byte, n*b.size()+alignment)
		skip := -uintptr(unsafe.Pointer(&raw[0])) % alignment
		b.data = unsafe.Pointer(&raw[skip])
	}
	d.stats.Allocs++
	d.stats.LiveBytes += int64(n * b.size())
	d.stats.PeakBytes = max(d.stats.PeakBytes, d.stats.LiveBytes)
	return Mem{Buf: b, N: n}, nil
}

func (d *cpu) Free(m Mem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.own("Free", m)
	b.data, b.freed = nil, true
	d.stats.LiveBytes -= int64(b.n * b.size())
}

func (d *cpu) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *cpu) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *cpu) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c != nil {
		C.av_close(d.c)
		d.c = nil
	}
	return d.err
}

// own is the live buffer of m on this device; anything else is the caller's bug.
func (d *cpu) own(op string, m Mem) *cpuBuffer {
	b, ok := m.Buf.(*cpuBuffer)
	if !ok || b.owner != d || b.freed {
		refuse(op, "a buffer that was freed, or belongs to another device")
	}
	return b
}

// begin takes the lock for an operation on the operands and says whether it
// should run: after a failure nothing does. The caller unlocks.
func (d *cpu) begin(op string, operands ...Mem) bool {
	d.mu.Lock()
	if d.c == nil {
		d.mu.Unlock()
		refuse(op, "the device is closed")
	}
	for _, m := range operands {
		if m.None() {
			continue
		}
		if b, ok := m.Buf.(*cpuBuffer); !ok || b.owner != d || b.freed {
			d.mu.Unlock()
			refuse(op, "a buffer that was freed, or belongs to another device")
		}
	}
	return d.err == nil
}

// launch is begin for what Stats counts.
func (d *cpu) launch(op string, operands ...Mem) bool {
	run := d.begin(op, operands...)
	d.stats.Launches++
	return run
}

func (d *cpu) fail(op, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("kernels: "+op+": "+format, args...)
	}
}

// at is where the numbers of m start; nil for none and for nothing.
func at[T any](m Mem) *T {
	if m.Buf == nil || m.N == 0 {
		return nil
	}
	b := m.Buf.(*cpuBuffer)
	return (*T)(unsafe.Add(b.data, m.Off*b.size()))
}

func slice[T any](m Mem) []T { return unsafe.Slice(at[T](m), m.N) }

func (d *cpu) UploadF32(dst Mem, src []float32) {
	checkUpload(dst, len(src), false)
	upload(d, "UploadF32", dst, src)
}

func (d *cpu) UploadF64(dst Mem, src []float64) {
	checkUpload(dst, len(src), false)
	upload(d, "UploadF64", dst, src)
}

func (d *cpu) UploadInts(dst Mem, src []int32) {
	checkUpload(dst, len(src), true)
	run := d.begin("UploadInts", dst)
	defer d.mu.Unlock()
	if run {
		copy(slice[int32](dst), src)
	}
}

func (d *cpu) DownloadF32(dst []float32, src Mem) error {
	checkDownload(len(dst), src, false)
	return download(d, "DownloadF32", dst, src)
}

func (d *cpu) DownloadF64(dst []float64, src Mem) error {
	checkDownload(len(dst), src, false)
	return download(d, "DownloadF64", dst, src)
}

func (d *cpu) DownloadInts(dst []int32, src Mem) error {
	checkDownload(len(dst), src, true)
	run := d.begin("DownloadInts", src)
	defer d.mu.Unlock()
	if run {
		copy(dst, slice[int32](src))
	}
	return d.err
}

type floating interface{ float32 | float64 }

func upload[S floating](d *cpu, op string, dst Mem, src []S) {
	run := d.begin(op, dst)
	defer d.mu.Unlock()
	switch {
	case !run:
	case dst.Buf.Kind() == Elem:
		convert(slice[float32](dst), src)
	default:
		convert(slice[float64](dst), src)
	}
}

func download[D floating](d *cpu, op string, dst []D, src Mem) error {
	run := d.begin(op, src)
	defer d.mu.Unlock()
	switch {
	case !run:
	case src.Buf.Kind() == Elem:
		convert(dst, slice[float32](src))
	default:
		convert(dst, slice[float64](src))
	}
	return d.err
}

func convert[D, S floating](dst []D, src []S) {
	for i, x := range src {
		dst[i] = D(x)
	}
}
