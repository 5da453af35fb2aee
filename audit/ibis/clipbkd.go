package ibis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// ClipBKD makes canaries along the directions in which the training data vary
// least (Jagielski, Ullman and Oprea 2020): the data say little of what a model
// does there, so that one example can move it, even one whose gradient is
// clipped. A canary is such a direction, a principal component of unit length,
// times the mean norm of the training examples, with the label that a linear
// model of the data finds least likely. It is no image: its numbers may be
// negative, or larger than 1.
//
// Their method makes one point for many runs. For a game of m canaries in one
// run, canary i takes the direction with the i-th smallest variance; once there
// are no more, the same directions with the opposite sign, and then both again
// with the next label. The linear model is the least-squares fit to the labels'
// indicators, with a ridge of 1e-3 of the mean variance. A component's largest
// element (the first of equal ones) is positive.
//
// The canaries are the same in all sets; they displace the examples that
// onerun.Random takes, see Blank. The second moments of the data are computed
// on dev.
func ClipBKD(dev kernels.Device) audit.Selector { return clipBKD{dev} }

type clipBKD struct{ dev kernels.Device }

func (clipBKD) Name() string { return "clipbkd" }

// Displaced implements onerun.Displacer.
func (clipBKD) Displaced(m, _ int) int { return m }

func (s clipBKD) Select(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	size := exampleLen(d)
	if most := 2 * size * d.Classes(); m > most {
		return nil, fmt.Errorf("clipbkd: %d canaries, expected at most %d: two for each of %d directions and %d labels", m, most, size, d.Classes())
	}
	c, err := onerun.Random().Select(ctx, d, m, set, seed)
	if err != nil {
		return nil, err
	}
	c.Method = "clipbkd"
	data, err := train.Upload(s.dev, d)
	if err != nil {
		return nil, err
	}
	defer data.Free()
	p, err := components(ctx, s.dev, data)
	if err != nil {
		return nil, fmt.Errorf("clipbkd: %w", err)
	}
	for i := range c.Y {
		x := p.point(i%size, i/size%2 == 1)
		for j, v := range x {
			c.X[i*size+j] = float32(v)
		}
		c.Y[i] = int32(p.unlikely(x)[i/size/2])
	}
	return c, nil
}

// principal is the components of a data set and a linear model of its labels.
type principal struct {
	norm       float64    // mean of the examples
	directions *mat.Dense // [size, size]: columns, in ascending order of variance
	weights    *mat.Dense // [size, K]
	bias       []float64  // [K]
}

// point is the canary along a direction, or against it.
func (p *principal) point(direction int, against bool) []float64 {
	x := mat.Col(nil, direction, p.directions)
	most := 0
	for j, v := range x {
		if math.Abs(v) > math.Abs(x[most]) {
			most = j
		}
	}
	scale := math.Copysign(p.norm, x[most])
	if against {
		scale = -scale
	}
	for j := range x {
		x[j] *= scale
	}
	return x
}

// unlikely is the labels, the least likely at x first; of equal ones the lower
// first.
func (p *principal) unlikely(x []float64) []int {
	labels, score := make([]int, len(p.bias)), slices.Clone(p.bias)
	for k := range labels {
		labels[k] = k
		for j, v := range x {
			score[k] += v * p.weights.At(j, k)
		}
	}
	slices.SortStableFunc(labels, func(a, b int) int { return cmp.Compare(score[a], score[b]) })
	return labels
}

// components analyses a data set.
func components(ctx context.Context, dev kernels.Device, d *train.Data) (*principal, error) {
	s, err := momentsOf(ctx, dev, d)
	if err != nil {
		return nil, err
	}
	n, size := float64(d.Len()), len(s.mean)
	cov := symmetric(size, func(i, j int) float64 { return s.xx[i*size+j] / n })
	variance := mat.Trace(cov)
	if !(variance > 0) {
		return nil, fmt.Errorf("the variance of the training data is %v, expected a positive number", variance)
	}
	p := &principal{norm: s.norm / n, directions: &mat.Dense{}, weights: &mat.Dense{}, bias: make([]float64, d.Classes)}
	var e mat.EigenSym
	if !e.Factorize(cov, true) {
		return nil, fmt.Errorf("the eigenvalues of the covariance of %d numbers did not converge", size)
	}
	e.VectorsTo(p.directions)

	// Least squares: (cov + ridge) W = E[(x - mean) eᵀ].
	for i := range size {
		cov.SetSym(i, i, cov.At(i, i)+1e-3*variance/float64(size))
	}
	right := mat.NewDense(size, d.Classes, s.xy)
	right.Scale(1/n, right)
	var c mat.Cholesky
	if !c.Factorize(cov) {
		return nil, fmt.Errorf("the covariance of %d numbers is not positive definite with a ridge", size)
	}
	if err := c.SolveTo(p.weights, right); err != nil {
		return nil, err
	}
	for _, y := range d.Y {
		p.bias[y] += 1 / n
	}
	for k := range p.bias {
		for i, v := range s.mean {
			p.bias[k] -= v * p.weights.At(i, k)
		}
	}
	return p, nil
}

// dataMoments are figures of a data set, with e the indicator of the label.
type dataMoments struct {
	mean   []float64 // of x, [size]
	xx, xy []float64 // Σ (x - mean)(x - mean)ᵀ [size, size], Σ (x - mean) eᵀ [size, K]
	norm   float64   // Σ |x|
}

// momentsOf makes two passes, so that a large mean blurs nothing.
func momentsOf(ctx context.Context, dev kernels.Device, d *train.Data) (*dataMoments, error) {
	size := d.X.Len() / d.Len()
	c := tensor.NewCtx(dev)
	defer c.Free()
	r, err := newReader(dev, d, nil)
	if err != nil {
		return nil, err
	}
	defer r.free()
	var total [3]*tensor.Tensor // mean, xx, xy
	for i, shape := range [][]int{{size}, {size, size}, {size, d.Classes}} {
		if total[i], err = tensor.Alloc(dev, shape...); err != nil {
			return nil, err
		}
		defer total[i].Free(dev)
		dev.Fill(total[i].Mem(), 0)
	}
	mean, s := total[0], &dataMoments{}
	err = r.each(ctx, func(x tensor.Value, _ *tensor.Tensor, from, to int) error {
		c.Reset()
		rows := x.View(to-from, size)
		c.SumTo(tensor.Sink{X: mean, AccX: true}, rows, tensor.PerChannel(rows.Shape()))
		sq, err := floats(c, c.SumMul(rows, rows, tensor.PerExample(rows.Shape())))
		for _, v := range sq {
			s.norm += math.Sqrt(v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	dev.Add(mean.Mem(), mean.Mem(), kernels.Mem{}, 1/float64(d.Len()), 0)
	err = r.each(ctx, func(x tensor.Value, labels *tensor.Tensor, from, to int) error {
		c.Reset()
		shape := []int{to - from, size}
		centred := c.Shift(x.View(shape...), -1, tensor.Const(mean), tensor.PerChannel(shape))
		indicator := c.Times(-1, c.SubOneHot(c.Fill(0, to-from, d.Classes), labels))
		c.MatMulTo(tensor.Sink{X: total[1], AccX: true}, centred, centred, true, false)
		c.MatMulTo(tensor.Sink{X: total[2], AccX: true}, centred, indicator, true, false)
		return c.Err()
	})
	for i, to := range []*[]float64{&s.mean, &s.xx, &s.xy} {
		if err == nil {
			*to, err = total[i].Floats(dev)
		}
	}
	return s, err
}
