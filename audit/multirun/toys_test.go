package multirun

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/rng"
)

// line is n examples of one pixel, their number.
type line int

func (d line) Len() int     { return int(d) }
func (d line) Shape() []int { return []int{1} }
func (d line) Classes() int { return 1 }

func (d line) Example(i int, x []float32) int {
	x[0] = float32(i)
	return 0
}

// canaries are m canaries with negative pixels that displace examples 2, 4, ….
func canaries(m int) *audit.CanarySet {
	c := &audit.CanarySet{Method: "toy", Size: []int{1}, K: 1}
	for i := range m {
		c.X = append(c.X, -float32(i+1))
		c.Y = append(c.Y, 0)
		c.Removed = append(c.Removed, 2*i+2)
	}
	return c
}

// sum is a trainer whose scores are known:
//
//	s(z) = member(z) (gap + couple Σ_{c ≠ z} weight(c) member(c)) + noise N(seed),
//
// with weight(c) = c + 1.
type sum struct {
	gap, couple, noise float64
	jobs               []audit.Job
	failAt             int // the run, from 1 on, that fails
}

var errToy = errors.New("toy")

func (s *sum) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	s.jobs = append(s.jobs, job)
	if err := ctx.Err(); err != nil {
		return audit.Result{}, err
	}
	if job.State != "" {
		if err := os.WriteFile(job.State, nil, 0o644); err != nil {
			return audit.Result{}, err
		}
	}
	if len(s.jobs) == s.failAt {
		return audit.Result{}, errToy
	}
	if job.Progress != nil {
		job.Progress(1, 1)
	}
	in := map[float32]bool{}
	var x [1]float32
	for i := range job.Train.Len() {
		job.Train.Example(i, x[:])
		in[x[0]] = true
	}
	r := rng.New(job.Seed, rng.Mechanism)
	losses := make([]float64, job.Canaries.Len())
	total := 0.0
	for i := range losses {
		if in[-float32(i+1)] {
			total += float64(i + 1)
		}
	}
	for i := range losses {
		if in[-float32(i+1)] {
			losses[i] = -(s.gap + s.couple*(total-float64(i+1)))
		}
		losses[i] += s.noise * r.NormFloat64()
	}
	return audit.Result{Losses: losses, TestAccuracy: math.NaN()}, nil
}

// job is a job on 40 examples.
func job(dir string, t audit.Trainer, c *audit.CanarySet, d Design) Job {
	return Job{Data: line(40), Canaries: c, Trainer: t, Design: d, Model: "m", Recipe: "r", Device: "d", Shards: 1, Dir: dir}
}

func run(t *testing.T, j Job) [][]float64 {
	t.Helper()
	losses, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return losses
}

func same(a, b [][]float64) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, slices.Equal)
}

func journalOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
