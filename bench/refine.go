package bench

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/data"
	"github.com/aviary-audit/aviary/models/train"
)

// What Refine works on; torch_ibis.py has the same.
const (
	refineSteps    = 8
	refineCanaries = 1000
	refineEpochs   = 2
)

// Refine is refineSteps steps of the refinement of 1000 canaries, by the recipe
// for MNIST except that they move in every step: gradient and Hessian-vector
// product of a batch of 256, and for all canaries their gradient, the mixed
// derivative, and θ*'s side with the regulariser. It works on the digits that
// are built in, of which the last 1000 are the canaries. From run to run the
// model and the canaries go on from where they are.
func Refine(dev kernels.Device) (*Work, error) {
	digits, _, err := data.Open("mnist-t10k", data.Options{})
	if err != nil {
		return nil, err
	}
	var free []func()
	freeAll := func() {
		for _, f := range free {
			f()
		}
	}
	upload := func(from, to int) *train.Data {
		if err != nil {
			return nil
		}
		index := make([]int, to-from)
		for i := range index {
			index[i] = from + i
		}
		var d *train.Data
		if d, err = train.Upload(dev, digits.Subset(index)); err == nil {
			free = append(free, d.Free)
		}
		return d
	}
	fit := func(d *train.Data) *models.Model {
		if err != nil {
			return nil
		}
		var m *models.Model
		if m, err = models.New(dev, models.MLP(784, 256, 10)); err != nil {
			return nil
		}
		free = append(free, m.Free)
		cfg := train.Default()
		cfg.Epochs = refineEpochs
		_, err = train.Run(context.Background(), m, d, cfg, train.Options{})
		return m
	}
	n := digits.Len()
	rest, canaries := upload(0, n-refineCanaries), upload(n-refineCanaries, n)
	star, theta := fit(rest), fit(upload(0, n))
	if err != nil {
		freeAll()
		return nil, fmt.Errorf("refine: %w", err)
	}
	cfg := ibis.DefaultRefinement()
	cfg.Steps, cfg.Every = refineSteps, 1
	return &Work{
		Run: func() error {
			if _, err := ibis.Refine(context.Background(), star, theta, rest, canaries, cfg, 1, ibis.RefineOptions{}); err != nil {
				return err
			}
			return dev.Sync()
		},
		Free: freeAll,
	}, nil
}
