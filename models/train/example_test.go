package train_test

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// sides is a data set of points, labelled by the side on which they lie.
type sides struct{}

func (sides) Len() int     { return 40 }
func (sides) Shape() []int { return []int{1} }
func (sides) Classes() int { return 2 }

func (sides) Example(i int, x []float32) int {
	x[0] = float32(i)/20 - 1
	if x[0] < 0 {
		return 0
	}
	return 1
}

// Upload, Run, and then ask for losses.
func Example() {
	ctx := context.Background()
	dev := kernels.Reference()
	defer dev.Close()
	data, err := train.Upload(dev, sides{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer data.Free()
	m, err := models.New(dev, models.MLP(1, 4, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Free()

	cfg := train.Config{Epochs: 40, Batch: 8, LR: 0.5, Momentum: 0.9, Seed: 1}
	out, err := train.Run(ctx, m, data, cfg, train.Options{Test: data})
	if err != nil {
		fmt.Println(err)
		return
	}
	losses, err := train.Losses64(ctx, m, data)
	fmt.Println(out.Steps, "steps, accuracy", out.TestAccuracy, "and", len(losses), "losses", err)

	cfg.Batch = 41
	fmt.Println(cfg.Validate(data.Len()))
	// Output:
	// 200 steps, accuracy 1 and 40 losses <nil>
	// train: batch is 41, expected 1 to 40, the number of training examples
}
