package mechanism

import (
	"context"
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/rng"
)

// maxPoints is how many coordinates float32 pixels can name: whole numbers up
// to 2²⁴ are exact.
const maxPoints = 1 << 24

// Points is n training examples that are no canary's: one pixel, 0, of class 0.
func Points(n int) audit.Dataset { return points(n) }

type points int

func (p points) Len() int     { return int(p) }
func (p points) Shape() []int { return []int{1} }
func (p points) Classes() int { return 1 }

func (p points) Example(_ int, x []float32) int {
	x[0] = 0
	return 0
}

// Coordinates makes canaries for Points: the pixel of canary i is i+1, the
// coordinate that it adds 1 to. They displace nothing.
func Coordinates() audit.Selector { return coordinates{} }

type coordinates struct{}

func (coordinates) Name() string { return "coordinates" }

func (coordinates) Select(_ context.Context, d audit.Dataset, m, set int, _ uint64) (*audit.CanarySet, error) {
	if m < 2 || m > maxPoints {
		return nil, fmt.Errorf("%d canaries: expected 2 to %d", m, maxPoints)
	}
	c := &audit.CanarySet{Method: "coordinates", Set: set, Size: d.Shape(), K: d.Classes(), X: make([]float32, m), Y: make([]int32, m), Removed: make([]int, m)}
	for i := range m {
		c.X[i] = float32(i + 1)
		c.Removed[i] = -1
	}
	return c, nil
}

// counts is the exact query: how often each canary is in the training data.
func counts(job audit.Job) ([]float64, error) {
	m := job.Canaries.Len()
	coordinate := make(map[float32]int, m)
	var x [1]float32
	for i := range m {
		job.Canaries.Example(i, x[:])
		if j, twice := coordinate[x[0]]; twice {
			return nil, fmt.Errorf("mechanism: canaries %d and %d share the coordinate %v", j, i, x[0])
		}
		coordinate[x[0]] = i
	}
	sums := make([]float64, m)
	for i := range job.Train.Len() {
		job.Train.Example(i, x[:])
		if j, ok := coordinate[x[0]]; ok {
			sums[j]++
		}
	}
	return sums, nil
}

// Gaussian releases each coordinate plus N(0, 1/Mu²): it is exactly Mu-GDP.
// Mu = 0 releases noise alone.
type Gaussian struct{ Mu float64 }

// Train implements audit.Trainer.
func (g Gaussian) Train(_ context.Context, job audit.Job) (audit.Result, error) {
	if !(g.Mu >= 0) || math.IsInf(g.Mu, 0) {
		return audit.Result{}, fmt.Errorf("gaussian mechanism: mu is %v, expected a number from 0 on", g.Mu)
	}
	release, err := counts(job)
	if err != nil {
		return audit.Result{}, err
	}
	r := rng.New(job.Seed, rng.Mechanism)
	for i, c := range release {
		release[i] = -(g.Mu*c + r.NormFloat64()) // scaled by Mu, so that 0 works
	}
	return audit.Result{Losses: release, TestAccuracy: math.NaN()}, nil
}

// RandomizedResponse releases each coordinate's bit, or its opposite with
// probability 1/(1+exp(Eps)): it is exactly Eps-DP.
type RandomizedResponse struct{ Eps float64 }

// Train implements audit.Trainer.
func (m RandomizedResponse) Train(_ context.Context, job audit.Job) (audit.Result, error) {
	if !(m.Eps >= 0) {
		return audit.Result{}, fmt.Errorf("randomized response: eps is %v, expected a number from 0 on", m.Eps)
	}
	release, err := counts(job)
	if err != nil {
		return audit.Result{}, err
	}
	r := rng.New(job.Seed, rng.Mechanism)
	for i, c := range release {
		if c != 0 && c != 1 {
			return audit.Result{}, fmt.Errorf("randomized response: canary %d is in the data %v times, expected at most once", i, c)
		}
		if r.Float64() >= m.truth() {
			c = 1 - c
		}
		release[i] = -c
	}
	return audit.Result{Losses: release, TestAccuracy: math.NaN()}, nil
}

// truth is the probability of the true bit.
func (m RandomizedResponse) truth() float64 { return 1 / (1 + math.Exp(-m.Eps)) }
