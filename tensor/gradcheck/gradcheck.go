// Package gradcheck compares derivatives with central differences in float64.
//
// A difference across a kink, such as a ReLU whose input changes sign, says
// nothing about either side: a check during which one flipped is an error of
// its own, neither passed nor failed.
package gradcheck

import (
	"errors"
	"fmt"
	"math"
)

// Step is the h of the differences. The error of a central difference is
// about h² for the curvature that it ignores and 2⁻⁵²/h for rounding; h = 1e-6
// is near the best for functions of order one, and flips few signs.
const Step = 1e-6

// Tolerance is the relative error that a right derivative stays under: 500
// roundings of the function, each divided by Step.
const Tolerance = 1e-7

// ErrMeaningless is the outcome of a check that crossed a kink.
var ErrMeaningless = errors.New("gradcheck: the difference is meaningless")

// Probe is what a function gives at one point.
type Probe struct {
	Y     []float64
	Signs []bool // on which side of its kink each kinked part of the function is
}

// Central is (f(h) - f(-h)) / 2h, element by element.
func Central(f func(t float64) (Probe, error)) ([]float64, error) {
	hi, err := f(Step)
	if err != nil {
		return nil, err
	}
	lo, err := f(-Step)
	if err != nil {
		return nil, err
	}
	if len(hi.Y) != len(lo.Y) || len(hi.Signs) != len(lo.Signs) {
		return nil, fmt.Errorf("gradcheck: %d numbers and %d signs on one side, %d and %d on the other",
			len(hi.Y), len(hi.Signs), len(lo.Y), len(lo.Signs))
	}
	flips := 0
	for i, s := range hi.Signs {
		if s != lo.Signs[i] {
			flips++
		}
	}
	if flips > 0 {
		return nil, fmt.Errorf("%w: %d of %d signs flipped", ErrMeaningless, flips, len(hi.Signs))
	}
	slope := make([]float64, len(hi.Y))
	for i := range slope {
		slope[i] = (hi.Y[i] - lo.Y[i]) / (2 * Step)
	}
	return slope, nil
}

// Compare returns an error unless |got - want| <= tol |want|, in the Euclidean
// norm. Comparing nothing is an error, and so is a NaN.
func Compare(what string, got, want []float64, tol float64) error {
	if len(got) != len(want) || len(got) == 0 {
		return fmt.Errorf("gradcheck: %s: %d numbers where %d are due", what, len(got), len(want))
	}
	off, all := 0.0, 0.0
	for i, w := range want {
		off += (got[i] - w) * (got[i] - w)
		all += w * w
	}
	off, all = math.Sqrt(off), math.Sqrt(all)
	if !(off <= tol*all) {
		return fmt.Errorf("gradcheck: %s: off by %.2e of %.2e, tolerance %.0e relative", what, off, all, tol)
	}
	return nil
}

// Dot is the sum of the products of a and b, of one length.
func Dot(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

// Check compares the gradient of a function, a derivative along each of n
// numbers, with differences along the direction v: grad·v with the slope of f,
// which is the function at its point moved by t v.
func Check(what string, f func(t float64) (Probe, error), grad, v []float64) error {
	if len(grad) != len(v) {
		return fmt.Errorf("gradcheck: %s: a gradient of %d numbers along %d", what, len(grad), len(v))
	}
	slope, err := Central(f)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return Compare(what, []float64{Dot(grad, v)}, slope, Tolerance)
}
