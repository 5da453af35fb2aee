package pe_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/audit/pe"
)

// An audit by numbers: what 500 auxiliary, 500 calibration and 1000 test users add
// to two observed slots of the histogram, and what the canary adds.
func ExampleGame() {
	r := rand.New(rand.NewPCG(1, 2))
	users := func(n int) *pe.Contributions {
		c := &pe.Contributions{Slots: []int32{17, 4711}}
		for range n {
			c.Row = append(c.Row, .002*r.Float64(), .002*r.Float64())
		}
		return c
	}
	g := pe.Game{
		Mechanism: mechanism.Histogram{Slots: 8192, K: 5, Cap: 64, Clip: .1, Noise: 1, Rate: .1},
		Protocol:  pe.Protocol{Trials: 200_000, Canaries: 5, Alpha: .05, Delta: 1e-5, Bounds: 4},
		Eligible:  1000, Seed: 1, Rule: pe.ExactLock,
	}
	ctx := context.Background()
	view, err := g.View(users(500), []float64{.08, .06})
	if err != nil {
		fmt.Println(err)
		return
	}
	decision, err := g.Lock(ctx, 0, []*pe.View{view}, []*pe.Contributions{users(500)})
	if err != nil {
		fmt.Println(err)
		return
	}
	theory, err := g.Protocol.Theory(.1, 1, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := g.Test(ctx, 0, []*pe.View{view}, []*pe.Contributions{users(1000)}, decision, theory, 1, pe.Run{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := result[0]
	fmt.Printf("ε >= %.2f; %.2f expected of such a canary, %.2f of the best one\n", p.EpsLower, p.Expected.Mean, theory[0].Ceiling.Mean)
	fmt.Printf("exact: %.3f of the attack, %.3f of the mechanism, %.3f by Opacus\n", p.Exact.Estimate, theory[0].Theory.Estimate, theory[0].Theory.Opacus)
	// Output:
	// ε >= 0.60; 0.67 expected of such a canary, 0.69 of the best one
	// exact: 1.646 of the attack, 1.685 of the mechanism, 1.695 by Opacus
}
