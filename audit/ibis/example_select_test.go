package ibis_test

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// line is points on a line, the left half of class 0; the first one has the
// wrong label.
type line struct{}

func (line) Len() int     { return 40 }
func (line) Shape() []int { return []int{1} }
func (line) Classes() int { return 2 }

func (line) Example(i int, x []float32) int {
	x[0] = float32(i)/20 - 1
	if i == 0 || x[0] >= 0 {
		return 1
	}
	return 0
}

// The point with the wrong label influences its own score the most.
func ExampleSelect() {
	ctx := context.Background()
	dev := kernels.Reference()
	defer dev.Close()
	data, err := train.Upload(dev, line{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer data.Free()
	m, err := models.New(dev, models.MLP(1, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Free()
	if _, err := train.Run(ctx, m, data, train.Config{Epochs: 20, Batch: 8, LR: 0.5, Seed: 1}, train.Options{}); err != nil {
		fmt.Println(err)
		return
	}

	s := ibis.Selection{Order: "greedy", Preselect: 20, Damping: 0.1, Curvature: "kfac"}
	c, err := ibis.Select(ctx, m, data, 3, s, 1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first", c.Indices[0])
	set := ibis.Canaries(line{}, "greedy", 0, c.Indices)
	fmt.Println(set.Len(), "canaries; the first displaces example", set.Removed[0])

	s.Preselect = 41
	_, err = ibis.Select(ctx, m, data, 3, s, 1, nil)
	fmt.Println(err)
	// Output:
	// first 0
	// 3 canaries; the first displaces example 0
	// ibis: preselect is 41, expected 1 to 40, the number of training examples
}
