// Package bench holds the work that Aviary's speed is measured on: products of
// the sizes that the MLP needs, and its steps. bench/ratio runs it side by side
// with other software, and the benchmarks of this package run it alone.
package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// Work is something to time. Run does it once and waits for the end; what it
// works on stays in place between runs.
type Work struct {
	Flops float64 // of the matrix products, for one Run
	Run   func() error
	Free  func()
	Long  bool // one Run takes seconds
}

// Shape is a product [M,K] [K,N]. Layout says for either operand whether it is
// stored as it is, "n", or transposed, "t".
type Shape struct {
	Layout  string
	M, K, N int
}

func (s Shape) String() string { return fmt.Sprintf("%s-%dx%dx%d", s.Layout, s.M, s.K, s.N) }

// Narrow says whether the product has a side of 10, the number of classes.
func (s Shape) Narrow() bool { return min(s.M, s.K, s.N) == 10 }

// Shapes are a cube, and the products of a step of the MLPs 784-512-512-10 and
// 784-256-10 with a batch of 256: forward (nn), weights' gradient (tn), input's
// gradient (nt). gemm_peers.py has the same.
var Shapes = []Shape{
	{"nn", 1024, 1024, 1024},
	{"tn", 1024, 1024, 1024},
	{"nt", 1024, 1024, 1024},
	{"nn", 256, 784, 512},
	{"nn", 256, 512, 512},
	{"tn", 784, 256, 512},
	{"tn", 512, 256, 512},
	{"nt", 256, 512, 784},
	{"nt", 256, 512, 512},
	{"nn", 256, 784, 256},
	{"tn", 784, 256, 256},
	{"nn", 256, 512, 10},
	{"tn", 512, 256, 10},
	{"nt", 256, 10, 512},
	{"nn", 256, 256, 10},
	{"tn", 256, 256, 10},
	{"nt", 256, 10, 256},
}

// GEMM is one product of a shape.
func GEMM(dev kernels.Device, s Shape) (*Work, error) {
	bag := bag{dev: dev}
	a, b, c := bag.random(1, s.M, s.K), bag.random(2, s.K, s.N), bag.random(3, s.M, s.N)
	if bag.err != nil {
		bag.free()
		return nil, bag.err
	}
	g := kernels.Gemm{M: s.M, N: s.N, K: s.K, TransA: s.Layout[0] == 't', TransB: s.Layout[1] == 't'}
	return &Work{
		Flops: 2 * float64(s.M) * float64(s.K) * float64(s.N),
		Run: func() error {
			dev.Gemm(c.Mem(), a.Mem(), b.Mem(), kernels.Mem{}, g)
			return dev.Sync()
		},
		Free: bag.free,
	}, nil
}

// Kind is what a step of training does.
type Kind string

// The kinds. The update is SGD with momentum and weight decay.
const (
	Plain       Kind = "plain"        // gradient and update
	DP          Kind = "dp"           // per-example clipping and update
	DPNoise     Kind = "dp-noise"     // the same with noise
	Gradient    Kind = "gradient"     // no update
	GradientHVP Kind = "gradient+hvp" // both in one pass, no update
)

// The MLP of the steps, and its batch.
var (
	StepSizes = []int{784, 512, 512, 10}
	StepBatch = 256
)

// Step is one step of a kind, on a batch that is in the device's memory.
func Step(dev kernels.Device, kind Kind) (*Work, error) {
	model, err := models.New(dev, models.MLP(StepSizes...))
	if err != nil {
		return nil, err
	}
	bag := bag{dev: dev}
	pass := models.NewPass(dev)
	free := func() { pass.Free(); bag.free(); model.Free() }
	if err := model.Init(1, models.He); err != nil {
		free()
		return nil, err
	}
	x := tensor.Const(bag.random(1, StepBatch, StepSizes[0]))
	labels := bag.labels(StepBatch, StepSizes[len(StepSizes)-1])
	momentum := bag.zeros(model.Len())
	pass.Grad = bag.zeros(model.Len())
	if kind == GradientHVP {
		v := bag.random(2, model.Len())
		pass.HVP = bag.zeros(model.Len())
		if bag.err == nil {
			pass.Dir = model.Split(v)
		}
	}
	if bag.err != nil {
		free()
		return nil, bag.err
	}
	sgd := kernels.SGD{LR: 0.1, Momentum: 0.9, Decay: 1e-5, Scale: 1 / float64(StepBatch)}
	const clip, sigma = 1, 1
	if kind == DPNoise {
		sgd.Noise, sgd.Seed = sigma*clip/float64(StepBatch), 1
	}
	run := func() error {
		pass.Reset()
		switch kind {
		case DP, DPNoise:
			if _, _, err := pass.Clipped(model, x, labels, clip); err != nil {
				return err
			}
		default:
			_, back := pass.Loss(model, x, labels, models.Value{})
			back(false)
		}
		if kind != Gradient && kind != GradientHVP {
			dev.SGD(model.Theta.Mem(), momentum.Mem(), kernels.Mem{}, pass.Grad.Mem(), sgd)
			sgd.Step++
			model.Moved()
		}
		if err := pass.Err(); err != nil {
			return err
		}
		return dev.Sync()
	}
	if err := run(); err != nil { // also warms the arenas up
		free()
		return nil, err
	}
	before := pass.Flops()
	if err := run(); err != nil {
		free()
		return nil, err
	}
	return &Work{Flops: float64(pass.Flops() - before), Run: run, Free: free}, nil
}

// bag keeps what was allocated and the first failure.
type bag struct {
	dev kernels.Device
	all []*tensor.Tensor
	err error
}

func (b *bag) keep(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil && b.err == nil {
		b.err = err
	}
	b.all = append(b.all, t)
	return t
}

func (b *bag) random(seed uint64, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 0))
	n := 1
	for _, d := range shape {
		n *= d
	}
	numbers := make([]float64, n)
	for i := range numbers {
		numbers[i] = r.Float64() // not negative, as pixels are
	}
	return b.keep(tensor.FromFloats(b.dev, numbers, shape...))
}

func (b *bag) zeros(n int) *tensor.Tensor {
	return b.keep(tensor.FromFloats(b.dev, make([]float64, n), n))
}

func (b *bag) labels(n, classes int) *tensor.Tensor {
	y := make([]int32, n)
	for i := range y {
		y[i] = int32(i % classes)
	}
	return b.keep(tensor.FromInts(b.dev, y, n))
}

func (b *bag) free() {
	for _, t := range b.all {
		t.Free(b.dev)
	}
}
