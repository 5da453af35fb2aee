package models_test

import (
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// benchRig is the MLP 784-512-512-10 with a batch of 256 on the CPU.
type benchRig struct {
	b             *testing.B
	dev           kernels.Device
	m             *models.Model
	x, labels     *tensor.Tensor
	v             *tensor.Tensor
	grad, hvp     *tensor.Tensor
	momentum, ema *tensor.Tensor
}

func newBenchRig(b *testing.B) *benchRig {
	dev, err := kernels.CPU(kernels.CPUOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dev.Close() })
	m, err := models.New(dev, models.MLP(784, 512, 512, 10))
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Init(1, models.He); err != nil {
		b.Fatal(err)
	}
	const batch = 256
	r := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) *tensor.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		numbers := make([]float64, n)
		for i := range numbers {
			numbers[i] = r.Float64()
		}
		t, err := tensor.FromFloats(dev, numbers, shape...)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	labels := make([]int32, batch)
	for i := range labels {
		labels[i] = int32(r.IntN(10))
	}
	y, err := tensor.FromInts(dev, labels, batch)
	if err != nil {
		b.Fatal(err)
	}
	n := m.Len()
	return &benchRig{b, dev, m, random(batch, 784), y, random(n), random(n), random(n), random(n), random(n)}
}

// loop times step, which queues one pass, to its end on the device.
func (r *benchRig) loop(p *models.Pass, step func()) {
	r.b.ReportAllocs()
	for r.b.Loop() {
		p.Reset()
		step()
		if err := r.dev.Sync(); err != nil {
			r.b.Fatal(err)
		}
	}
}

func (r *benchRig) loss(p *models.Pass) {
	_, back := p.Loss(r.m, tensor.Const(r.x), r.labels, models.Value{})
	back(false)
}

func (r *benchRig) update(noise float64) {
	r.dev.SGD(r.m.Theta.Mem(), r.momentum.Mem(), r.ema.Mem(), r.grad.Mem(),
		kernels.SGD{LR: 1e-6, Momentum: 0.9, Decay: 1e-5, Scale: 1. / 256, EMA: 0.9, Noise: noise})
}

func BenchmarkGradient(b *testing.B) {
	r := newBenchRig(b)
	p := models.NewPass(r.dev)
	p.Grad = r.grad
	r.loop(p, func() { r.loss(p) })
}

func BenchmarkGradientAndHVP(b *testing.B) {
	r := newBenchRig(b)
	p := models.NewPass(r.dev)
	p.Grad, p.HVP, p.Dir = r.grad, r.hvp, r.m.Split(r.v)
	r.loop(p, func() { r.loss(p) })
}

func BenchmarkStep(b *testing.B) {
	r := newBenchRig(b)
	p := models.NewPass(r.dev)
	p.Grad = r.grad
	r.loop(p, func() { r.loss(p); r.update(0) })
}

func BenchmarkStepDP(b *testing.B)          { benchmarkDP(b, 0) }
func BenchmarkStepDPWithNoise(b *testing.B) { benchmarkDP(b, 1e-3) }

func benchmarkDP(b *testing.B, noise float64) {
	r := newBenchRig(b)
	p := models.NewPass(r.dev)
	p.Grad = r.grad
	r.loop(p, func() {
		if _, _, err := p.Clipped(r.m, tensor.Const(r.x), r.labels, 1); err != nil {
			b.Fatal(err)
		}
		r.update(noise)
	})
}
