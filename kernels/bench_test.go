//go:build cgo && linux

package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/aviary-audit/aviary/kernels"
)

// Rates are per second of the process's CPU time as well as of wall time, since
// other programs change the second: GF/s and GB/s count wall time, the metrics
// named cpu divide by user CPU time.

var gemmBenchmarks = []struct {
	name string
	g    kernels.Gemm
}{
	{"NN-1024x1024x1024", kernels.Gemm{M: 1024, N: 1024, K: 1024}},
	{"NN-256x784x512", kernels.Gemm{M: 256, N: 512, K: 784}},
	{"NN-256x512x512", kernels.Gemm{M: 256, N: 512, K: 512}},
	{"NN-256x784x256", kernels.Gemm{M: 256, N: 256, K: 784}},
	{"TN-784x256x512", kernels.Gemm{M: 784, N: 512, K: 256, TransA: true}},
	{"TN-512x256x512", kernels.Gemm{M: 512, N: 512, K: 256, TransA: true}},
	{"TN-784x256x256", kernels.Gemm{M: 784, N: 256, K: 256, TransA: true}},
	{"NT-256x512x512", kernels.Gemm{M: 256, N: 512, K: 512, TransB: true}},
	{"NN-256x512x10", kernels.Gemm{M: 256, N: 10, K: 512}},
	{"NN-256x256x10", kernels.Gemm{M: 256, N: 10, K: 256}},
	{"TN-512x256x10", kernels.Gemm{M: 512, N: 10, K: 256, TransA: true}},
	{"NT-256x10x512", kernels.Gemm{M: 256, N: 512, K: 10, TransB: true}},
}

// BenchmarkGemm names a shape by rows x contraction x columns.
func BenchmarkGemm(b *testing.B) {
	for isa := kernels.AVX2; isa <= kernels.BestISA(); isa++ {
		for _, threads := range []int{1, 2} {
			for _, c := range gemmBenchmarks {
				b.Run(fmt.Sprintf("%v/%s/%dT", isa, c.name, threads), func(b *testing.B) {
					benchmarkGemm(b, openCPU(b, kernels.CPUOptions{ISA: isa, Threads: threads}), c.g)
				})
			}
		}
	}
}

func benchmarkGemm(b *testing.B, dev kernels.Device, g kernels.Gemm) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := upload(b, dev, random(r, g.M*g.K)), upload(b, dev, random(r, g.K*g.N))
	dst := upload(b, dev, make([]float32, g.M*g.N))
	report(b, 2*float64(g.M)*float64(g.N)*float64(g.K), "GF/s", func() { dev.Gemm(dst, x, y, kernels.Mem{}, g) })
}

// BenchmarkSGD is a step on the 669,706 parameters of an MLP 784-512-512-10.
func BenchmarkSGD(b *testing.B) {
	const n = 784*512 + 512 + 512*512 + 512 + 512*10 + 10
	r := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		name  string
		noise float64
		all   bool
	}{{"plain", 0, false}, {"momentum+ema", 0, true}, {"noise", 1, false}, {"momentum+ema+noise", 1, true}} {
		b.Run(c.name, func(b *testing.B) {
			dev := openCPU(b, kernels.CPUOptions{Threads: 1})
			p, g := upload(b, dev, random(r, n)), upload(b, dev, random(r, n))
			var m, e kernels.Mem
			bytes := 12.0
			if c.all {
				m, e = upload(b, dev, random(r, n)), upload(b, dev, random(r, n))
				bytes = 28
			}
			s := kernels.SGD{LR: 1e-3, Momentum: .9, Decay: 1e-4, Scale: 1, EMA: .99, Noise: c.noise}
			report(b, bytes*n, "GB/s", func() { s.Step++; dev.SGD(p, m, e, g, s) })
		})
	}
}

// BenchmarkOps are other operations of a step at batch 256, on one thread.
func BenchmarkOps(b *testing.B) {
	const rows, cols = 256, 512
	dev := openCPU(b, kernels.CPUOptions{Threads: 1})
	r := rand.New(rand.NewPCG(3, 3))
	x, y := upload(b, dev, random(r, rows*cols)), upload(b, dev, random(r, rows*cols))
	z, p := x.Slice(0, rows*10), upload(b, dev, make([]float32, rows*10))
	sq, byCol := upload(b, dev, make([]float32, rows)), upload(b, dev, make([]float32, cols))
	byColumn := kernels.Per{Batch: 1, Rows: rows, Cols: cols, Axis: kernels.PerCol}
	byRow := kernels.Per{Batch: 1, Rows: rows, Cols: cols}
	out := upload(b, dev, make([]float32, rows*cols))
	for _, c := range []struct {
		name  string
		bytes float64
		f     func()
	}{
		{"Softmax-256x10", 8 * rows * 10, func() { dev.Softmax(p, z, rows, 10) }},
		{"Softmax-256x512", 8 * rows * cols, func() { dev.Softmax(out, x, rows, cols) }},
		{"SqNormOuter", 8 * rows * cols, func() { dev.SqNormOuter(sq, x, y, rows, cols, cols, true, false) }},
		{"Sum-PerCol", 4 * rows * cols, func() { dev.Sum(byCol, x, byColumn, false) }},
		{"ScaleBy-PerRow", 8 * rows * cols, func() { dev.ScaleBy(out, x, sq, byRow, false) }},
		{"Keep", 12 * rows * cols, func() { dev.Keep(out, x, y) }},
		{"Keep-in-place", 12 * rows * cols, func() { dev.Keep(y, y, x) }},
		{"Tanh", 8 * rows * cols, func() { dev.Tanh(out, x) }},
		{"Normal", 4 * rows * cols, func() { dev.Normal(out, 1, 1) }},
	} {
		b.Run(c.name, func(b *testing.B) { report(b, c.bytes, "GB/s", c.f) })
	}
}

// BenchmarkTopK is the search of the 5 and the 13 nearest in a bank of 8,192, of
// 384 dimensions, on one thread.
func BenchmarkTopK(b *testing.B) {
	t := kernels.TopK{Queries: 1120, Bank: 8192, Dim: 384}
	for isa := kernels.AVX2; isa <= kernels.BestISA(); isa++ {
		dev := openCPU(b, kernels.CPUOptions{ISA: isa, Threads: 1})
		r := rand.New(rand.NewPCG(4, 4))
		q, bank := upload(b, dev, random(r, t.Queries*t.Dim)), upload(b, dev, random(r, t.Bank*t.Dim))
		qBytes, bankBytes := uploadInts(b, dev, r, q.N/4), uploadInts(b, dev, r, bank.N/4)
		for _, t.K = range []int{5, 13, 32} {
			score := upload(b, dev, make([]float32, t.Queries*t.K))
			slot := uploadInts(b, dev, r, t.Queries*t.K)
			b.Run(fmt.Sprintf("%v/k=%d", isa, t.K), func(b *testing.B) {
				report(b, 2*float64(t.Queries*t.Bank*t.Dim), "GF/s", func() { dev.TopK(score, slot, q, bank, kernels.Mem{}, t) })
			})
			b.Run(fmt.Sprintf("%v/bytes/k=%d", isa, t.K), func(b *testing.B) {
				report(b, 2*float64(t.Queries*t.Bank*t.Dim), "GF/s", func() {
					dev.TopKBytes(score, slot, qBytes, bankBytes, q.Slice(0, t.Queries), bank.Slice(0, t.Bank), kernels.Mem{}, t)
				})
			})
		}
	}
}

// uploadInts is n random words on the device.
func uploadInts(b *testing.B, dev kernels.Device, r *rand.Rand, n int) kernels.Mem {
	m, err := dev.Alloc(kernels.Int32, n)
	if err != nil {
		b.Fatal(err)
	}
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.Uint32())
	}
	dev.UploadInts(m, x)
	return m
}

// report runs f b.N times and reports billions of `work` per second, of wall and
// of CPU time, and the best of the wall times.
func report(b *testing.B, work float64, unit string, f func()) {
	f()
	b.ResetTimer()
	best := time.Duration(1 << 62)
	cpu, wall := cpuTime(), time.Now()
	for range b.N {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	used, took := cpuTime()-cpu, time.Since(wall)
	b.ReportMetric(work*float64(b.N)/float64(took), unit)
	b.ReportMetric(work*float64(b.N)/float64(max(used, 1)), "cpu-"+unit)
	b.ReportMetric(work/float64(best), "best-"+unit)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
