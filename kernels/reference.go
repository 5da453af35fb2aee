package kernels

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Reference is a device that computes with float64 elements by the plain loops
// of kernels/ref: the definition that others are tested against, and what
// gradient and Hessian checks run on. New memory holds NaN, so that reading
// what was never written shows.
func Reference() Device { return newReference(&direct{}) }

// ReferenceAsync is Reference with a queue: calls return at once and run in
// order on a goroutine of the device, as they would on a GPU. Code that looks
// at results without waiting, or that relies on the contents of host memory
// after an upload has returned, fails on it. Close ends the goroutine.
func ReferenceAsync() Device { return newReference(newQueue()) }

// runner runs functions in order.
type runner interface {
	do(f func()) // now or later
	wait()       // until all have run
	async() bool // whether do returns before f has run
	close()      // waits and ends
}

type reference struct {
	run runner

	mu     sync.Mutex
	stats  Stats
	live   map[*refBuffer]bool
	err    error // the first failure
	closed bool
}

// refBuffer holds ints if its kind is Int32, else floats.
type refBuffer struct {
	kind   Kind
	n      int
	floats []float64
	ints   []int32
}

func (b *refBuffer) Kind() Kind { return b.kind }
func (b *refBuffer) Len() int   { return b.n }

func (b *refBuffer) bytes() int64 {
	return 8*int64(len(b.floats)) + 4*int64(len(b.ints))
}

func newReference(run runner) *reference {
	return &reference{run: run, live: map[*refBuffer]bool{}}
}

func (d *reference) Name() string {
	if d.run.async() {
		return "ref (queued)"
	}
	return "ref"
}

func (d *reference) ElemBits() int { return 64 }

func (d *reference) Alloc(kind Kind, n int) (Mem, error) {
	if n < 0 {
		panic(fmt.Sprintf("kernels: Alloc: %d elements", n))
	}
	b := &refBuffer{kind: kind, n: n}
	switch kind {
	case Elem, Float64:
		b.floats = make([]float64, n)
		for i := range b.floats {
			b.floats[i] = math.NaN()
		}
	case Int32:
		b.ints = make([]int32, n)
		for i := range b.ints {
			b.ints[i] = math.MinInt32
		}
	default:
		panic(fmt.Sprintf("kernels: Alloc: unknown kind %v", kind))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return Mem{}, errors.New("kernels: Alloc: the device is closed")
	}
	d.live[b] = true
	d.stats.Allocs++
	d.stats.LiveBytes += b.bytes()
	d.stats.PeakBytes = max(d.stats.PeakBytes, d.stats.LiveBytes)
	return Mem{Buf: b, N: n}, nil
}

func (d *reference) Free(m Mem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.own("Free", m)
	delete(d.live, b) // queued calls keep what they use
	d.stats.LiveBytes -= b.bytes()
}

func (d *reference) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *reference) UploadF32(dst Mem, src []float32) {
	checkUpload(dst, len(src), false)
	wide := make([]float64, len(src))
	for i, x := range src {
		wide[i] = float64(x)
	}
	d.enqueue("UploadF32", []Mem{dst}, func() error { copy(floats(dst), wide); return nil })
}

func (d *reference) UploadF64(dst Mem, src []float64) {
	checkUpload(dst, len(src), false)
	if d.run.async() {
		src = append([]float64(nil), src...)
	}
	d.enqueue("UploadF64", []Mem{dst}, func() error { copy(floats(dst), src); return nil })
}

func (d *reference) UploadInts(dst Mem, src []int32) {
	checkUpload(dst, len(src), true)
	if d.run.async() {
		src = append([]int32(nil), src...)
	}
	d.enqueue("UploadInts", []Mem{dst}, func() error { copy(ints(dst), src); return nil })
}

func (d *reference) DownloadF32(dst []float32, src Mem) error {
	checkDownload(len(dst), src, false)
	return d.download("DownloadF32", src, func() {
		for i, x := range floats(src) {
			dst[i] = float32(x)
		}
	})
}

func (d *reference) DownloadF64(dst []float64, src Mem) error {
	checkDownload(len(dst), src, false)
	return d.download("DownloadF64", src, func() { copy(dst, floats(src)) })
}

func (d *reference) DownloadInts(dst []int32, src Mem) error {
	checkDownload(len(dst), src, true)
	return d.download("DownloadInts", src, func() { copy(dst, ints(src)) })
}

func (d *reference) download(op string, src Mem, f func()) error {
	d.enqueue(op, []Mem{src}, func() error { f(); return nil })
	return d.Sync()
}

func (d *reference) Sync() error {
	d.run.wait()
	return d.failure()
}

func (d *reference) Close() error {
	d.mu.Lock()
	already := d.closed
	d.closed = true
	d.mu.Unlock()
	if already {
		return nil
	}
	d.run.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.live)
	d.stats.LiveBytes = 0
	return d.err
}

// launch queues an operation on its operands.
func (d *reference) launch(op string, operands []Mem, f func() error) {
	d.enqueue(op, operands, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Launches++
}

// enqueue queues f, which does nothing once something has failed.
func (d *reference) enqueue(op string, operands []Mem, f func() error) {
	d.checkOperands(op, operands)
	d.run.do(func() {
		if d.failure() != nil {
			return
		}
		if err := f(); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.err = fmt.Errorf("kernels: %s: %w", op, err)
		}
	})
}

func (d *reference) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *reference) checkOperands(op string, operands []Mem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		panic(fmt.Sprintf("kernels: %s: the device is closed", op))
	}
	for _, m := range operands {
		if !m.None() {
			d.own(op, m)
		}
	}
}

// own returns the buffer of m, and panics unless it is a live one of this
// device. The mutex is held.
func (d *reference) own(op string, m Mem) *refBuffer {
	b, ok := m.Buf.(*refBuffer)
	if !ok || !d.live[b] {
		panic(fmt.Sprintf("kernels: %s: a buffer that was freed, or belongs to another device", op))
	}
	return b
}

// floats is the run of numbers of m, nil for none.
func floats(m Mem) []float64 {
	if m.None() {
		return nil
	}
	return m.Buf.(*refBuffer).floats[m.Off : m.Off+m.N]
}

func ints(m Mem) []int32 { return m.Buf.(*refBuffer).ints[m.Off : m.Off+m.N] }

// direct is the runner that runs at once, one caller at a time.
type direct struct{ mu sync.Mutex }

func (r *direct) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *direct) wait()       {}
func (r *direct) async() bool { return false }
func (r *direct) close()      {}

// queue is the runner with a goroutine and an endless queue.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond // of all below
	todo    []func()
	busy    bool // a function is running
	ending  bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	go q.work()
	return q
}

func (q *queue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.todo) == 0 {
			if q.ending {
				return
			}
			q.changed.Wait()
		}
		f := q.todo[0]
		q.todo = q.todo[1:]
		q.busy = true
		q.mu.Unlock()
		f()
		q.mu.Lock()
		q.busy = false
		q.changed.Broadcast()
	}
}

func (q *queue) do(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.todo = append(q.todo, f)
	q.changed.Broadcast()
}

func (q *queue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy || len(q.todo) > 0 {
		q.changed.Wait()
	}
}

func (q *queue) async() bool { return true }

func (q *queue) close() {
	q.wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = true
	q.changed.Broadcast()
}
