package kerneltest_test

import (
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/kerneltest"
)

// Every instruction set that the machine has passes with one thread and with
// two, with the same bits; and so have all that fuse their multiply-adds. With
// -short, which is for the race detector, only the best one with two.
func TestCPU(t *testing.T) {
	var fused []*kerneltest.Bits
	tested := 0
	for _, isa := range []kernels.ISA{kernels.Portable, kernels.AVX2, kernels.AVX512} {
		if testing.Short() && isa != kernels.BestISA() {
			continue
		}
		if isa > kernels.BestISA() {
			t.Logf("%v is absent on this machine: not tested", isa)
			continue
		}
		var bits []*kerneltest.Bits
		for _, threads := range []int{1, 2} {
			if testing.Short() && threads == 1 {
				continue
			}
			open := func() (kernels.Device, error) {
				return kernels.CPU(kernels.CPUOptions{Threads: threads, ISA: isa})
			}
			dev, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Run(dev.Name(), func(t *testing.T) {
				bits = append(bits, kerneltest.Run(t, dev))
				kerneltest.Failures(t, open)
			})
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
			tested++
		}
		for _, other := range bits[1:] {
			bits[0].Same(t, other)
		}
		if isa != kernels.Portable { // which may have to round twice
			fused = append(fused, bits[0])
		}
	}
	for _, other := range fused[min(1, len(fused)):] {
		fused[0].Same(t, other)
	}
	if tested == 0 {
		t.Error("no CPU device was tested")
	}
}
