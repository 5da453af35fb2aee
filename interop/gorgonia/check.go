package gorgonia

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aviary-audit/aviary/kernels/ref"
)

// checkGradient compares the gradients of what g's inputs hold with central
// differences along random directions. Gorgonia has graphs whose gradient is
// silently wrong (a Reshape can do it), and a net trained by one audits
// something else than its owner believes.
//
// The error of a difference is far below checkTol of the gradient's length,
// unless a ReLU changes sides within h. So one direction of three that agrees
// is enough, while a wrong gradient agrees along none.
func checkGradient(g *graph, labels []int32, r *rand.Rand) error {
	const (
		h        = 1e-6
		checkTol = 1e-4
		rounding = 1e-8 // of losses of order one, divided by h
	)
	if err := g.run(); err != nil {
		return err
	}
	var gradient []float64
	for _, d := range g.gradients {
		gradient = append(gradient, numbers(d)...)
	}
	var length float64
	for _, d := range gradient {
		length = math.Hypot(length, d)
	}
	start := make([][]float64, len(g.params))
	for i, p := range g.params {
		start[i] = slices.Clone(floats(p))
	}
	at := func(u []float64, h float64) (float64, error) {
		for i, p := range g.params {
			for j := range start[i] {
				floats(p)[j] = start[i][j] + h*u[j]
			}
			u = u[len(start[i]):]
		}
		if err := g.run(); err != nil {
			return 0, err
		}
		return g.loss(labels)
	}
	var along, difference float64
	for range 3 {
		u := make([]float64, len(gradient))
		along = 0
		for i := range u {
			u[i] = r.NormFloat64()
			along += u[i] * gradient[i]
		}
		up, err := at(u, h)
		if err != nil {
			return err
		}
		down, err := at(u, -h)
		if err != nil {
			return err
		}
		if _, err := at(u, 0); err != nil {
			return err
		}
		if difference = (up - down) / (2 * h); math.Abs(difference-along) <= checkTol*length+rounding {
			return nil
		}
	}
	return fmt.Errorf("the gradient that Gorgonia computes for this net is wrong: "+
		"along a random direction it is %.6g, and the loss changes by %.6g", along, difference)
}

// loss is the weighted cross-entropy of the logits, not computed by Gorgonia.
func (gr *graph) loss(labels []int32) (float64, error) {
	each := make([]float64, len(labels))
	if err := ref.Loss64(each, numbers(gr.logits), labels, len(labels), gr.classes); err != nil {
		return 0, err
	}
	var sum float64
	for z, l := range each {
		sum += floats(gr.weight)[z] * l
	}
	return sum, nil
}
