package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/aviary-audit/aviary/kernels"
)

// Memory tests allocation, counters, transfers and the order of calls.
func Memory(t TB, dev kernels.Device) {
	t.Helper()
	m := memory{t, dev}
	m.transfers()
	m.order()
	m.counters()
	m.refusals()
}

type memory struct {
	t   TB
	dev kernels.Device
}

func (m memory) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf("%s: %s", m.dev.Name(), fmt.Sprintf(format, args...))
}

func (m memory) alloc(kind kernels.Kind, n int) kernels.Mem {
	m.t.Helper()
	mem, err := m.dev.Alloc(kind, n)
	if err != nil {
		m.fail("alloc of %d %v: %v", n, kind, err)
	}
	return mem
}

// same compares to the last bit; NaN equals NaN.
func (m memory) same(what string, got, want []float64, err error) {
	m.t.Helper()
	if err != nil {
		m.fail("%s: %v", what, err)
	}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return near(a, b, 0) }) {
		m.fail("%s: got %v, want %v", what, got, want)
	}
}

// transfers: what goes up comes down, rounded to what the buffer holds, from
// and to the right place, and host memory is free as soon as an upload returns.
func (m memory) transfers() {
	wide := []float64{0.1, -1, 0, math.Pi, 1e-30, 16777217, math.NaN(), math.Inf(-1)}
	narrow := make([]float32, len(wide))
	float32s := make([]float64, len(wide))
	for i, x := range wide {
		narrow[i] = float32(x)
		float32s[i] = float64(narrow[i])
	}
	n := len(wide)
	for _, kind := range []kernels.Kind{kernels.Elem, kernels.Float64} {
		held := wide
		if kind == kernels.Elem && m.dev.ElemBits() == 32 {
			held = float32s
		}
		whole := m.alloc(kind, n+5)
		view := whole.Slice(3, n)
		m.dev.UploadF64(whole, fill(n+5, 7))

		src64, got64 := slices.Clone(wide), make([]float64, n)
		m.dev.UploadF64(view, src64)
		clear(src64)
		m.same("float64 there and back", got64, held, m.dev.DownloadF64(got64, view))

		src32, got32 := slices.Clone(narrow), make([]float32, n)
		m.dev.UploadF32(view, src32)
		clear(src32)
		err := m.dev.DownloadF32(got32, view)
		for i, x := range got32 {
			got64[i] = float64(x)
		}
		m.same("float32 there and back", got64, float32s, err)

		all := make([]float64, n+5)
		want := append(append([]float64{7, 7, 7}, float32s...), 7, 7)
		m.same("around a view", all, want, m.dev.DownloadF64(all, whole))
		m.same("nothing", nil, nil, m.dev.DownloadF64(nil, whole.Slice(2, 0)))
		m.dev.UploadF32(whole.Slice(n+5, 0), nil)
		m.dev.Free(whole)
	}

	ints := []int32{0, -1, math.MaxInt32, math.MinInt32, 16777217}
	mem := m.alloc(kernels.Int32, len(ints))
	src, got := slices.Clone(ints), make([]int32, len(ints))
	m.dev.UploadInts(mem, src)
	clear(src)
	if err := m.dev.DownloadInts(got, mem); err != nil || !slices.Equal(got, ints) {
		m.fail("int32 there and back: got %v, %v, want %v", got, err, ints)
	}
	m.dev.Free(mem)
}

// order: calls run in the order in which they are made, transfers and frees
// included.
func (m memory) order() {
	const n = 1000
	x, y, sum := m.alloc(kernels.Elem, n), m.alloc(kernels.Elem, n), m.alloc(kernels.Elem, n)
	m.dev.Fill(sum, 0)
	host := make([]float32, n)
	for i := range 20 {
		for k := range host {
			host[k] = float32(i)
		}
		m.dev.UploadF32(x, host)
		m.dev.Copy(y, x)
		m.dev.Fill(x, -1000)
		m.dev.Add(sum, sum, y, 1, 1)
		once := m.alloc(kernels.Elem, n)
		m.dev.Copy(once, y)
		m.dev.Add(sum, sum, once, 1, 1)
		m.dev.Free(once)
		reused := m.alloc(kernels.Elem, n) // perhaps the same memory: only once Add is done with it
		m.dev.UploadF64(reused, fill(n, math.NaN()))
		m.dev.Free(reused)
	}
	got := make([]float64, n)
	m.same("calls in order", got, fill(n, 2*190), m.dev.DownloadF64(got, sum))
	for _, mem := range []kernels.Mem{x, y, sum} {
		m.dev.Free(mem)
	}
}

func (m memory) counters() {
	elem := int64(m.dev.ElemBits() / 8)
	before := m.dev.Stats()
	a := m.alloc(kernels.Elem, 1000)
	b := m.alloc(kernels.Float64, 100)
	c := m.alloc(kernels.Int32, 10)
	m.dev.Fill(a, 1)
	m.dev.Fill(a, 2)
	if err := m.dev.Sync(); err != nil {
		m.fail("%v", err)
	}
	during := m.dev.Stats()
	if got := during.Allocs - before.Allocs; got != 3 {
		m.fail("3 allocations are counted as %d", got)
	}
	if got := during.Launches - before.Launches; got != 2 {
		m.fail("2 launches are counted as %d", got)
	}
	// A device may round sizes up, to no more than double and a page.
	want := 1000*elem + 800 + 40
	if got := during.LiveBytes - before.LiveBytes; got < want || got > 2*want+3*4096 {
		m.fail("%d bytes are counted as %d", want, got)
	}
	if during.PeakBytes < during.LiveBytes {
		m.fail("the peak of %d bytes is below the %d in use", during.PeakBytes, during.LiveBytes)
	}
	for _, mem := range []kernels.Mem{b.Slice(10, 5), c, a} {
		m.dev.Free(mem)
	}
	if after := m.dev.Stats(); after.LiveBytes != before.LiveBytes || after.PeakBytes < during.LiveBytes {
		m.fail("after freeing all, %+v; before, %+v", after, before)
	}
}

// refusals: the caller's bugs panic at once and name the operation.
func (m memory) refusals() {
	x, small, ints := m.alloc(kernels.Elem, 6), m.alloc(kernels.Elem, 5), m.alloc(kernels.Int32, 6)
	for name, f := range map[string]func(){
		"Copy": func() { m.dev.Copy(x, small) },
		"Add":  func() { m.dev.Add(x, x, ints, 1, 1) },
		"Mul":  func() { m.dev.Mul(x, x.Slice(0, 6), kernels.Mem{}, true) },
		"Gemm": func() { m.dev.Gemm(x, small, small, kernels.Mem{}, kernels.Gemm{M: 2, N: 3, K: 1}) },
		"Sum": func() {
			m.dev.Sum(small, x, kernels.Per{Batch: 1, Rows: 2, Cols: 3}, false)
		},
		"Tanh":   func() { m.dev.Tanh(x.Slice(1, 5), x.Slice(0, 5)) }, // overlap
		"Loss64": func() { m.dev.Loss64(x, x, ints, 6, 1) },
		"Upload": func() { m.dev.UploadF32(x, make([]float32, 5)) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) {
					m.fail("wrong operands of %s: want a panic that names it, got %v", name, got)
				}
			}()
			f()
		}()
	}
	for _, mem := range []kernels.Mem{x, small, ints} {
		m.dev.Free(mem)
	}
}

// Goroutines lets several use the device at a time, each on memory of its own.
func Goroutines(t TB, dev kernels.Device) {
	t.Helper()
	m := memory{t, dev}
	var wait sync.WaitGroup
	for id := range 4 {
		wait.Go(func() {
			const n = 40
			for range 20 {
				x, y := m.alloc(kernels.Elem, n*n), m.alloc(kernels.Elem, n*n)
				m.dev.UploadF64(x, fill(n*n, float64(id+1)))
				m.dev.Gemm(y, x, x, kernels.Mem{}, kernels.Gemm{M: n, N: n, K: n, TransB: id%2 == 0})
				got := make([]float64, n*n)
				m.same("several goroutines", got, fill(n*n, float64(n*(id+1)*(id+1))), m.dev.DownloadF64(got, y))
				m.dev.Free(x)
				m.dev.Free(y)
			}
		})
	}
	wait.Wait()
}

// Failures tests, on fresh devices, that what only the data can show is a
// failure which names the operation and stays: later calls do nothing, and
// waiting returns it.
func Failures(t TB, open func() (kernels.Device, error)) {
	t.Helper()
	const rows, cols = 20, 3
	type operands struct{ x, y, out, loss, ints kernels.Mem }
	for op, call := range map[string]func(dev kernels.Device, o operands){
		"Gather":       func(dev kernels.Device, o operands) { dev.Gather(o.x, o.y, o.ints, rows, cols) },
		"CrossEntropy": func(dev kernels.Device, o operands) { dev.CrossEntropy(o.out, o.x, o.ints, rows, cols) },
		"CrossEntropyTangent": func(dev kernels.Device, o operands) {
			dev.CrossEntropyTangent(o.out, o.x, o.y, o.ints, rows, cols)
		},
		"SubOneHot": func(dev kernels.Device, o operands) { dev.SubOneHot(o.x, o.y, o.ints, rows, cols) },
		"Attention": func(dev kernels.Device, o operands) {
			none := kernels.Attention{Sequences: rows - 1, Heads: 1, Dim: 1, Longest: 1}
			dev.Attention(o.x.Slice(0, 0), o.y.Slice(0, 0), o.ints, kernels.Mem{}, none)
		},
		"Loss64": func(dev kernels.Device, o operands) { dev.Loss64(o.loss, o.x, o.ints, rows, cols) },
	} {
		beyond := int32(cols)
		if op == "Gather" {
			beyond = rows
		}
		for _, bad := range []int32{-1, beyond, math.MaxInt32, math.MinInt32} {
			dev, err := open()
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			m := memory{t, dev}
			index := repeat(rows, 0)
			index[rows-2] = bad
			o := operands{
				x: m.alloc(kernels.Elem, rows*cols), y: m.alloc(kernels.Elem, rows*cols),
				out: m.alloc(kernels.Elem, rows), loss: m.alloc(kernels.Float64, rows), ints: m.alloc(kernels.Int32, rows),
			}
			dev.UploadF64(o.x, fill(rows*cols, 1))
			dev.UploadF64(o.y, fill(rows*cols, 1))
			dev.UploadInts(o.ints, index)
			if err := dev.Sync(); err != nil {
				m.fail("before any failure: %v", err)
			}
			call(dev, o)
			dev.Fill(o.x, 2)
			for _, err := range []error{dev.Sync(), dev.DownloadF64(make([]float64, rows), o.out), dev.Sync()} {
				if err == nil || !strings.Contains(err.Error(), op) || !strings.Contains(err.Error(), fmt.Sprint(bad)) {
					m.fail("%s with %d: want an error that names both, got %v", op, bad, err)
				}
			}
			dev.Close()
		}
	}
}
