package gorgonia_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/interop/gorgonia"
)

// grid is 120 images of 2 x 2 pixels, of two classes: light above, or below.
type grid struct{}

func (grid) Len() int     { return 120 }
func (grid) Shape() []int { return []int{2, 2, 1} }
func (grid) Classes() int { return 2 }
func (grid) Example(i int, x []float32) int {
	label := i % 2
	for j := range x {
		x[j] = float32((i*(7+j))%11) / 22
		if j/2 == label {
			x[j] += 0.5
		}
	}
	return label
}

// Audit a Gorgonia net with mislabeled canaries.
func Example() {
	report, err := onerun.Game{
		Data: grid{},
		Trainer: gorgonia.Trainer{
			Net: gorgonia.MLP(4, 32, 2), Epochs: 20, Batch: 20, LR: 0.1, Momentum: 0.9,
		},
		Selectors:   []audit.Selector{onerun.Mislabeled()},
		NumCanaries: 30, Sets: 2, Audits: 2, Seed: 1,
	}.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	m := report.Methods[0]
	fmt.Printf("%s: %d audits, AUC above chance: %v\n", m.Name, len(m.AUC.Values), m.AUC.Mean > 0.5)
	// Output: mislabeled: 4 audits, AUC above chance: true
}
