package train

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// cpuRig is a CPU device with data that are larger than its tiles.
func cpuRig(t *testing.T, o kernels.CPUOptions) *rig {
	t.Helper()
	dev, err := kernels.CPU(o)
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, dev, 301)
}

// cpuFit trains a net with layers wider than a tile and returns parameters and
// losses.
func (r *rig) cpuFit(cfg Config, opts Options) (theta, losses []float64) {
	r.t.Helper()
	m, err := models.New(r.dev, models.MLP(16, 67, 35, 3))
	if err != nil {
		r.t.Fatal(err)
	}
	defer m.Free()
	if _, err := Run(context.Background(), m, r.data, cfg, opts); err != nil {
		r.t.Fatal(err)
	}
	if losses, err = Losses64(context.Background(), m, r.data); err != nil {
		r.t.Fatal(err)
	}
	return r.theta(m), losses
}

func cpuConfigs() map[string]Config {
	all := configs()
	for name, cfg := range all {
		cfg.Batch, cfg.Epochs, cfg.Steps = 70, 2, 0
		all[name] = cfg
	}
	return all
}

// TestCPUBits: neither the number of threads, nor microbatches, nor AVX2 in
// place of AVX-512, nor a stop in the middle changes a bit.
func TestCPUBits(t *testing.T) {
	for name, cfg := range cpuConfigs() {
		want, wantLosses := cpuRig(t, kernels.CPUOptions{Threads: 1}).cpuFit(cfg, Options{})
		same := func(what string, o kernels.CPUOptions, cfg Config) {
			t.Helper()
			got, losses := cpuRig(t, o).cpuFit(cfg, Options{})
			if !sameBits(got, want) || !sameBits(losses, wantLosses) {
				t.Errorf("%s: %s changes the result", name, what)
			}
		}
		for _, threads := range []int{2, 3, 5} {
			same(fmt.Sprint(threads, " threads"), kernels.CPUOptions{Threads: threads}, cfg)
		}
		if kernels.BestISA() == kernels.AVX512 {
			same("AVX2", kernels.CPUOptions{Threads: 2, ISA: kernels.AVX2}, cfg)
		}
		for _, size := range []int{1, 13, 64} {
			cfg := cfg
			cfg.Microbatch = size
			same(fmt.Sprint("microbatches of ", size), kernels.CPUOptions{Threads: 2}, cfg)
		}

		r := cpuRig(t, kernels.CPUOptions{Threads: 2})
		state := filepath.Join(t.TempDir(), "state.npz")
		ctx, cancel := context.WithCancel(context.Background())
		m, err := models.New(r.dev, models.MLP(16, 67, 35, 3))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(ctx, m, r.data, cfg, Options{State: state, Progress: func(done, _ int) {
			if done == 7 {
				cancel()
			}
		}})
		if err == nil {
			t.Errorf("%s: the run was not stopped", name)
		}
		if got, _ := r.cpuFit(cfg, Options{State: state}); !sameBits(got, want) {
			t.Errorf("%s: resuming changes the result", name)
		}
		cancel()
	}
}

// TestCPUAgreesWithReference: float32 follows float64 for as long as rounding
// lets it. What is compared is how far the parameters moved in 10 steps, which
// is at least a hundredth of their size. Rounding parameters to 2⁻²⁴ is then
// 6e-6 of the way; a sign that flips at one ReLU of one example, 1/(70·67) of a
// gradient, is 2e-4. A wrong term is not below 1e-3.
func TestCPUAgreesWithReference(t *testing.T) {
	moved := func(r *rig, cfg Config) []float64 {
		still := cfg // the same start, and a step that is too small for it
		still.LR, still.EMA, still.Epochs, still.Steps = 1e-30, 0, 0, 1
		from, _ := r.cpuFit(still, Options{})
		to, _ := r.cpuFit(cfg, Options{})
		for i := range to {
			to[i] -= from[i]
		}
		return to
	}
	for name, cfg := range cpuConfigs() {
		got := moved(cpuRig(t, kernels.CPUOptions{}), cfg)
		if err := gradcheck.Compare(name, got, moved(newRig(t, 301), cfg), 1e-3); err != nil {
			t.Error(err)
		}
		cfg.LR *= 1.01 // planted
		if gradcheck.Compare(name, got, moved(newRig(t, 301), cfg), 1e-3) == nil {
			t.Errorf("%s: a learning rate wrong by one percent was not noticed", name)
		}
	}
}
