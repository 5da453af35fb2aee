package models

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/internal/rng"
)

// Init says how a parameter starts: at a constant, or at random with a spread
// that follows from its fans.
type Init struct {
	FanIn, FanOut int     // 0: constant
	Value         float64 // the constant
}

// Scheme is a rule for random initial weights.
type Scheme string

// The schemes.
const (
	// He draws from N(0, 2/FanIn) (He et al. 2015, eq. 10), for ReLU networks.
	He Scheme = "he"
	// Glorot draws from U(-a, a) with a = sqrt(6/(FanIn+FanOut)) (Glorot and
	// Bengio 2010, eq. 16).
	Glorot Scheme = "glorot"
)

// Check returns an error unless s is a known scheme.
func (s Scheme) Check() error {
	if s != He && s != Glorot {
		return fmt.Errorf("init is %q, expected %q or %q", string(s), He, Glorot)
	}
	return nil
}

// draw fills values with initial numbers of parameter number index.
func (i Init) draw(s Scheme, seed, index uint64, values []float64) {
	if i.FanIn == 0 {
		for j := range values {
			values[j] = i.Value
		}
		return
	}
	r := rng.New(seed, rng.Init, index)
	switch s {
	case He:
		sd := math.Sqrt(2 / float64(i.FanIn))
		for j := range values {
			values[j] = sd * r.NormFloat64()
		}
	case Glorot:
		a := math.Sqrt(6 / float64(i.FanIn+i.FanOut))
		for j := range values {
			values[j] = a * (2*r.Float64() - 1)
		}
	}
}
