package ibis

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/data"
	"github.com/aviary-audit/aviary/models/train"
)

// BenchmarkRefine is the MNIST recipe on the digits that are built in: a whole
// step, and its two halves. Threads are as many as there are CPUs.
func BenchmarkRefine(b *testing.B) {
	dev, err := kernels.CPU(kernels.CPUOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	digits, _, err := data.Open("mnist-t10k", data.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rest, err := train.Upload(dev, digits)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	canaries, err := train.Upload(dev, randomNumbers(r, 1000, 10, true, 28, 28, 1))
	if err != nil {
		b.Fatal(err)
	}
	fit := func() *models.Model {
		m, err := models.New(dev, models.MLP(784, 256, 10))
		if err == nil {
			cfg := train.Default()
			cfg.Epochs = 2
			_, err = train.Run(context.Background(), m, rest, cfg, train.Options{})
		}
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	start := func() *refiner {
		ref, err := newRefiner(fit(), fit(), rest, canaries, DefaultRefinement(), 1)
		if err != nil {
			b.Fatal(err)
		}
		return ref
	}
	ref := start()
	defer ref.free()
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
				if err := dev.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	measure("batch256", func() error {
		n, err := ref.batchGradient()
		ref.moveModel(n)
		ref.step++
		return err
	})
	measure("star1000", ref.atStar)
	measure("theta1000", ref.atTheta)
	measure("pixels1000", func() error { ref.movePixels(); return nil })
	ref.step = 0
	measure("step", ref.doStep)
}
