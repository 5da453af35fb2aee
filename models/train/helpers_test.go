package train

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

// blobs is a Source of images of noise around one pattern for each class.
type blobs struct {
	n, classes int
	seed       uint64
	shape      []int
	spoil      func(i int, x []float32, label int) int // changes an example, if set
}

func newBlobs(n int) *blobs { return &blobs{n: n, classes: 3, seed: 1, shape: []int{4, 4, 1}} }

func (b *blobs) Len() int     { return b.n }
func (b *blobs) Shape() []int { return b.shape }
func (b *blobs) Classes() int { return b.classes }

func (b *blobs) Example(i int, x []float32) int {
	label := i % b.classes
	pattern := rand.New(rand.NewPCG(99, uint64(label)))
	noise := rand.New(rand.NewPCG(b.seed, uint64(i)))
	for j := range x {
		x[j] = float32(pattern.NormFloat64() + 0.8*noise.NormFloat64())
	}
	if b.spoil != nil {
		return b.spoil(i, x, label)
	}
	return label
}

// rig is a device with a data set.
type rig struct {
	t    *testing.T
	dev  kernels.Device
	data *Data
}

func newRig(t *testing.T, n int) *rig { return newRigOn(t, kernels.Reference(), n) }

func newRigOn(t *testing.T, dev kernels.Device, n int) *rig {
	t.Helper()
	data, err := Upload(dev, newBlobs(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return &rig{t, dev, data}
}

func (r *rig) model() *models.Model {
	r.t.Helper()
	m, err := models.New(r.dev, models.MLP(16, 6, 3))
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// fit trains a fresh model and returns its parameters.
func (r *rig) fit(cfg Config, opts Options) ([]float64, Outcome) {
	r.t.Helper()
	m := r.model()
	defer m.Free()
	out, err := Run(context.Background(), m, r.data, cfg, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.theta(m), out
}

func (r *rig) theta(m *models.Model) []float64 {
	r.t.Helper()
	theta, err := m.Theta.Floats(r.dev)
	if err != nil {
		r.t.Fatal(err)
	}
	return theta
}

// configs are one run of each kind.
func configs() map[string]Config {
	plain := Config{Epochs: 3, Batch: 8, LR: 0.05, Momentum: 0.9, WeightDecay: 1e-3, EMA: 0.8, Schedule: "cosine", Seed: 7}
	bare := Config{Steps: 11, Batch: 5, LR: 0.1, Init: models.Glorot, Seed: 8}
	augmented := plain
	augmented.Augment, augmented.Schedule = "shift:1+flip", "step:0.5@0.3,0.7"
	private := Config{Epochs: 2, Batch: 6, LR: 0.1, Momentum: 0.5, Clip: 0.7, NoiseMultiplier: 0.8, EMA: 0.5, Seed: 9}
	clipped := private
	clipped.NoiseMultiplier, clipped.Augment = 0, "crop:2"
	return map[string]Config{"plain": plain, "bare": bare, "augmented": augmented, "private": private, "clipped": clipped}
}

func sameBits(a, b []float64) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func sameCurve(a, b []Point) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(p, q Point) bool {
		return p.Epoch == q.Epoch && p.Step == q.Step && p.TrainLoss == q.TrainLoss &&
			math.Float64bits(p.TestAccuracy) == math.Float64bits(q.TestAccuracy)
	})
}
