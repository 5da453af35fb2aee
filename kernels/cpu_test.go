//go:build cgo

package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
)

// What kerneltest, which holds every device to the reference, cannot say: that
// the CPU device computes exactly the chains of its contract.

// cpus are CPU devices for every instruction set of this machine and some
// numbers of threads, closed at the end of the test.
func cpus(t testing.TB, threads ...int) []kernels.Device {
	t.Helper()
	var all []kernels.Device
	for isa := kernels.Portable; isa <= kernels.BestISA(); isa++ {
		for _, n := range threads {
			all = append(all, openCPU(t, kernels.CPUOptions{ISA: isa, Threads: n}))
		}
	}
	return all
}

func openCPU(t testing.TB, opts kernels.CPUOptions) kernels.Device {
	t.Helper()
	dev, err := kernels.CPU(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func upload(t testing.TB, dev kernels.Device, x []float32) kernels.Mem {
	t.Helper()
	m, err := dev.Alloc(kernels.Elem, len(x))
	if err != nil {
		t.Fatal(err)
	}
	dev.UploadF32(m, x)
	return m
}

func download(t testing.TB, dev kernels.Device, m kernels.Mem) []float32 {
	t.Helper()
	x := make([]float32, m.N)
	if err := dev.DownloadF32(x, m); err != nil {
		t.Fatal(err)
	}
	return x
}

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// fma32 is a*b + c rounded once to float32. The product is exact in float64; the
// sum is rounded to odd there, which a second rounding cannot spoil.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	if rest := (p - (s - t)) + (q - t); rest != 0 && math.Float64bits(s)&1 == 0 {
		if (rest > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

// mulAdd is the step of a chain on a device: rounded twice where the portable
// code has no fused instruction.
func mulAdd(dev kernels.Device) func(a, b, c float32) float32 {
	if runtime.GOARCH == "amd64" && strings.Contains(dev.Name(), "portable") {
		return func(a, b, c float32) float32 { return float32(a*b) + c }
	}
	return fma32
}

// chain is the contract of Gemm on bits: one chain in ascending k from dst or 0,
// then the bias, then ReLU. A positive split is the planted fault: the chain
// starts anew every split steps and its parts are added up.
func chain(step func(a, b, c float32) float32, dst, a, b, bias []float32, g kernels.Gemm, split int) []float32 {
	out := make([]float32, g.M*g.N)
	for m := range g.M {
		for n := range g.N {
			var s, total float32
			if g.Acc {
				s = dst[m*g.N+n]
			}
			for k := range g.K {
				x, y := a[m*g.K:], b[n:]
				i, j := k, k*g.N
				if g.TransA {
					x, i = a[m:], k*g.M
				}
				if g.TransB {
					y, j = b[n*g.K:], k
				}
				if split > 0 && k > 0 && k%split == 0 {
					total, s = total+s, 0
				}
				s = step(x[i], y[j], s)
			}
			if split > 0 {
				s += total
			}
			if bias != nil {
				s += bias[n]
			}
			if g.ReLU && s <= 0 {
				s = 0
			}
			out[m*g.N+n] = s
		}
	}
	return out
}

// gemmShapes are ±1 around the tiles (6, 12, 14, 16 rows; 4 to 32 columns), the
// switch to narrow products, and blocks of k (256 or 400) and columns (2048).
func gemmShapes() []kernels.Gemm {
	var all []kernels.Gemm
	for _, s := range [][3]int{
		{1, 1, 1}, {1, 1, 0}, {2, 3, 1}, {5, 4, 7}, {6, 8, 16}, {7, 9, 17}, {13, 15, 15}, {14, 16, 33}, {15, 17, 31},
		{16, 31, 64}, {29, 32, 65}, {32, 10, 40}, {33, 10, 321}, {64, 1, 30}, {63, 16, 19}, {70, 12, 640}, {129, 13, 9},
		{40, 33, 256}, {17, 48, 257}, {9, 33, 400}, {33, 9, 401}, {3, 2049, 5}, {97, 65, 641}, {31, 64, 3},
	} {
		for v := range 8 {
			all = append(all, kernels.Gemm{M: s[0], N: s[1], K: s[2], TransA: v&1 != 0, TransB: v&2 != 0, Acc: v&4 != 0,
				ReLU: (v+s[0])%3 == 0})
		}
	}
	return all
}

func TestGemmIsOneChain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	devices := cpus(t, 1, 2, 3, 5)
	caught := 0
	for _, g := range gemmShapes() {
		a, b, c := random(r, g.M*g.K), random(r, g.K*g.N), random(r, g.M*g.N)
		var bias []float32
		if g.M%2 == 1 || g.ReLU {
			bias = random(r, g.N)
		}
		want := map[bool][]float32{}
		for _, dev := range devices {
			twice := strings.Contains(dev.Name(), "portable")
			if want[twice] == nil {
				want[twice] = chain(mulAdd(dev), c, a, b, bias, g, 0)
			}
			dst, biasMem := upload(t, dev, c), kernels.Mem{}
			if bias != nil {
				biasMem = upload(t, dev, bias)
			}
			dev.Gemm(dst, upload(t, dev, a), upload(t, dev, b), biasMem, g)
			if got := download(t, dev, dst); !sameBits(got, want[twice]) {
				t.Errorf("%s: %+v bias %v: not the chain", dev.Name(), g, bias != nil)
			}
		}
		if !sameBits(want[false], chain(fma32, c, a, b, bias, g, 64)) {
			caught++
		}
	}
	if caught == 0 {
		t.Error("the planted fault, partial sums every 64 steps, was not seen on any shape")
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Splitting a batch into microbatches and accumulating changes no bit of the
// weight gradient or of the bias gradient.
func TestMicrobatchesGiveTheBitsOfOneBatch(t *testing.T) {
	const batch, in, out = 97, 45, 34
	r := rand.New(rand.NewPCG(3, 4))
	x, dy := random(r, batch*in), random(r, batch*out)
	for _, dev := range cpus(t, 2) {
		xm, dm := upload(t, dev, x), upload(t, dev, dy)
		whole, parts := upload(t, dev, make([]float32, in*out)), upload(t, dev, make([]float32, in*out))
		wholeBias, partsBias := upload(t, dev, make([]float32, out)), upload(t, dev, make([]float32, out))
		dev.Gemm(whole, xm, dm, kernels.Mem{}, kernels.Gemm{M: in, N: out, K: batch, TransA: true})
		dev.Sum(wholeBias, dm, kernels.Per{Batch: 1, Rows: batch, Cols: out, Axis: kernels.PerCol}, false)
		for from := 0; from < batch; from += 20 {
			n := min(20, batch-from)
			xs, ds := xm.Slice(from*in, n*in), dm.Slice(from*out, n*out)
			dev.Gemm(parts, xs, ds, kernels.Mem{}, kernels.Gemm{M: in, N: out, K: n, TransA: true, Acc: from > 0})
			dev.Sum(partsBias, ds, kernels.Per{Batch: 1, Rows: n, Cols: out, Axis: kernels.PerCol}, from > 0)
		}
		if !sameBits(download(t, dev, whole), download(t, dev, parts)) {
			t.Errorf("%s: the weight gradient of microbatches has other bits", dev.Name())
		}
		if !sameBits(download(t, dev, wholeBias), download(t, dev, partsBias)) {
			t.Errorf("%s: the bias gradient of microbatches has other bits", dev.Name())
		}
	}
}

// Long enough operations for many chunks, on 1, 2, 3 and 5 threads, over and over
// so that workers join at every moment.
func TestThreadsChangeNoBit(t *testing.T) {
	const rows, cols = 700, 301
	r := rand.New(rand.NewPCG(5, 6))
	x, y := random(r, rows*cols), random(r, rows*cols)
	var fused [][]float32
	for isa := kernels.Portable; isa <= kernels.BestISA(); isa++ {
		var first []float32
		for _, threads := range []int{1, 2, 3, 5} {
			dev := openCPU(t, kernels.CPUOptions{ISA: isa, Threads: threads})
			for range 5 {
				got := manyOps(t, dev, x, y, rows, cols)
				if first == nil {
					first = got
				}
				if !sameBits(got, first) {
					t.Fatalf("%s: other bits than with 1 thread", dev.Name())
				}
			}
		}
		if isa >= kernels.AVX2 {
			fused = append(fused, first)
		}
	}
	for _, other := range fused {
		if !sameBits(other, fused[0]) {
			t.Error("AVX2 and AVX-512 have different bits")
		}
	}
}

// manyOps is what a few long operations put out.
func manyOps(t *testing.T, dev kernels.Device, x, y []float32, rows, cols int) []float32 {
	var out []float32
	take := func(ms ...kernels.Mem) {
		for _, m := range ms {
			out = append(out, download(t, dev, m)...)
			dev.Free(m)
		}
	}
	n := rows * cols
	xm, ym := upload(t, dev, x), upload(t, dev, y)
	p, m, e := upload(t, dev, x), upload(t, dev, y), upload(t, dev, x)
	dev.SGD(p, m, e, ym, kernels.SGD{LR: .1, Momentum: .9, Decay: 1e-3, Scale: .5, EMA: .99, Noise: .3, Seed: 7, Step: 1 << 40})
	take(p, m, e)
	dot, byRow, byCol := upload(t, dev, make([]float32, 1)), upload(t, dev, make([]float32, rows)), upload(t, dev, make([]float32, cols))
	dev.Dot(dot, xm, ym, false)
	dev.SumMul(byRow, xm, ym, kernels.Per{Batch: 1, Rows: rows, Cols: cols}, false)
	dev.SumMul(byCol, xm, ym, kernels.Per{Batch: 1, Rows: rows, Cols: cols, Axis: kernels.PerCol}, false)
	take(dot, byRow, byCol)
	prob, tanh, z := upload(t, dev, make([]float32, n)), upload(t, dev, make([]float32, n)), upload(t, dev, make([]float32, n))
	dev.Softmax(prob, xm, rows, cols)
	dev.Tanh(tanh, xm)
	dev.Normal(z, 1<<33+1, 5)
	take(prob, tanh, z)
	c := upload(t, dev, make([]float32, rows*rows))
	dev.Gemm(c, xm, ym, kernels.Mem{}, kernels.Gemm{M: rows, N: rows, K: cols, TransB: true})
	take(c)
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCPUOptionsAreChecked(t *testing.T) {
	for _, o := range []kernels.CPUOptions{{Threads: -1}, {Threads: 1 << 20}, {ISA: 9}} {
		if dev, err := kernels.CPU(o); err == nil {
			dev.Close()
			t.Errorf("CPU(%+v) opened", o)
		}
	}
	for isa := kernels.BestISA() + 1; isa <= kernels.AVX512; isa++ {
		dev, err := kernels.CPU(kernels.CPUOptions{ISA: isa})
		if err == nil {
			dev.Close()
			t.Errorf("CPU opened with %v, which this machine lacks", isa)
		} else if !strings.Contains(err.Error(), isa.String()) {
			t.Errorf("the error does not name %v: %v", isa, err)
		}
	}
	if dev := openCPU(t, kernels.CPUOptions{}); !strings.Contains(dev.Name(), kernels.BestISA().String()) {
		t.Errorf("Auto opened %q, the best is %v", dev.Name(), kernels.BestISA())
	}
}

// In a container the machine may have more CPUs than the process may use; Go
// knows the limit. More threads than that would be stopped again and again.
func TestThreadsFollowGo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	if dev := openCPU(t, kernels.CPUOptions{}); !strings.Contains(dev.Name(), "3 threads") {
		t.Errorf("with GOMAXPROCS=3 the device is %q", dev.Name())
	}
}

// Fast-math would let the compiler reorder the chains and drop NaN.
func TestNoFastMath(t *testing.T) {
	flags := func(source string) (bad []string) {
		for _, line := range strings.Split(source, "\n") {
			for _, word := range []string{"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-fassociative-math", "-ffinite-math-only"} {
				if strings.Contains(line, "#cgo") && strings.Contains(line, word) || strings.Contains(line, "optimize(") && strings.Contains(line, "fast") {
					bad = append(bad, line)
				}
			}
		}
		return bad
	}
	if len(flags("// #cgo CFLAGS: -O3 -ffast-math")) == 0 {
		t.Error("the planted flag was not seen")
	}
	seen := 0
	for _, pattern := range []string{"*.go", "*.c", "*.h"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			seen++
			for _, line := range flags(string(source)) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d sources were read", seen)
	}
}

func ExampleCPU() {
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	x, _ := dev.Alloc(kernels.Elem, 3)
	y, _ := dev.Alloc(kernels.Elem, 1)
	dev.UploadF64(x, []float64{1, 2, 3})
	dev.Dot(y, x, x, false)
	sum := make([]float64, 1)
	if err := dev.DownloadF64(sum, y); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum[0])
	// Output: 14
}
