package accounting_test

import (
	"fmt"
	"log"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// DP-SGD with noise 1, batches of one in a hundred and 10,000 steps.
func ExampleNewCurve() {
	event := accounting.DPSGD(0.01, 1, 10000)
	curve, err := accounting.NewCurve(event, 1e-5)
	if err != nil {
		log.Fatal(err)
	}
	eps, err := curve.Epsilon(1e-5)
	if err != nil {
		log.Fatal(err)
	}
	opacus, err := accounting.Opacus(event, 1e-5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: ε = %.3f; Opacus prints %.2f\n", curve.Method(), eps.Upper, opacus.Upper)
	// Output: PRV: ε = 6.188; Opacus prints 6.20
}

func ExampleNoise_Calibrate() {
	n := accounting.Noise{SampleRate: 0.04, Steps: 1250, Delta: 1e-5}
	tight, err := n.Calibrate(4)
	if err != nil {
		log.Fatal(err)
	}
	opacus, err := n.CalibrateOpacus(4, accounting.OpacusPRV)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f, Opacus %v\n", tight, opacus)
	// Output: 1.7155, Opacus 1.71875
}
