package onerun_test

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/audit/onerun"
)

// An audit of the Gaussian mechanism with mu = 1, whose AUC is Φ(1/√2) = 0.76.
func Example() {
	report, err := onerun.Game{
		Data: mechanism.Points(1000), Trainer: mechanism.Gaussian{Mu: 1},
		Selectors:   []audit.Selector{mechanism.Coordinates()},
		NumCanaries: 1000, Sets: 1, Audits: 4, Seed: 1,
	}.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("AUC %.2f\n", report.Methods[0].AUC.Mean)
	// Output: AUC 0.76
}
