package bench

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
)

// mlpFlops is what the products of a step of the MLP cost: forward and weights'
// gradient for every layer, and the input's gradient for all but the first.
func mlpFlops() float64 {
	var all, first float64
	for i := range len(StepSizes) - 1 {
		f := 2 * float64(StepBatch) * float64(StepSizes[i]) * float64(StepSizes[i+1])
		if all += f; i == 0 {
			first = f
		}
	}
	return 3*all - first
}

// TestWorkIsWhatItSays runs every work once and compares its products with the
// count by hand: a step that skips a layer would look fast. The last line of
// each case is the planted fault, half of the work.
func TestWorkIsWhatItSays(t *testing.T) {
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	check := func(name string, w *Work, err error, low, high float64) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer w.Free()
		if err := w.Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if within := w.Flops >= low && w.Flops <= high; !within {
			t.Errorf("%s: %v flops, expected %v to %v", name, w.Flops, low, high)
		}
		if half := w.Flops / 2; half >= low {
			t.Errorf("%s: half of the work would pass", name)
		}
	}
	for _, s := range Shapes {
		w, err := GEMM(dev, s)
		n := 2 * float64(s.M*s.K*s.N)
		check(s.String(), w, err, n, n)
	}
	one := mlpFlops()
	for _, kind := range []Kind{Plain, DP, DPNoise, Gradient} {
		w, err := Step(dev, kind)
		check(string(kind), w, err, one, one)
	}
	// With the HVP a pass is 9F - 5F0 for 3F - F0: 2.5 of it for these sizes.
	w, err := Step(dev, GradientHVP)
	check(string(GradientHVP), w, err, 2.4*one, 2.6*one)

	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are still allocated", live)
	}
	if math.IsNaN(one) || one <= 0 {
		t.Errorf("the count by hand is %v", one)
	}
}

func BenchmarkGEMM(b *testing.B) {
	for _, s := range Shapes {
		each(b, s.String(), func(dev kernels.Device) (*Work, error) { return GEMM(dev, s) })
	}
}

func BenchmarkStep(b *testing.B) {
	for _, kind := range []Kind{Plain, DP, DPNoise, Gradient, GradientHVP} {
		each(b, string(kind), func(dev kernels.Device) (*Work, error) { return Step(dev, kind) })
	}
}

// each benchmarks a work with one thread and with all.
func each(b *testing.B, name string, make func(kernels.Device) (*Work, error)) {
	for _, threads := range []int{1, runtime.NumCPU()} {
		b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
			dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			w, err := make(dev)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Free()
			for b.Loop() {
				if err := w.Run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(w.Flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
	}
}
