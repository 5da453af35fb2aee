package ibis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// Fisher says with which labels the Fisher matrix is estimated. It is the true
// one: labels come from the model, not from the data, whose gradients would
// give the so-called empirical Fisher matrix.
type Fisher struct {
	// Seed is of the stream from which each example's label is drawn, in the
	// order of the examples.
	Seed uint64
	// Expected takes the mean over all labels instead, weighted by the model's
	// probabilities. It costs one backward pass for each class.
	Expected bool
}

// visit sees the Kronecker factors of all layers for a block of examples, in
// the order of the backward pass. again is true if the block, and so the
// layers' inputs, have been seen before, with other labels.
type visit func(c *tensor.Ctx, layers []models.Factors, again bool) error

// walk runs the model on the training data, block by block, with the gradients
// of losses at labels of the model's own. With Expected, see is called once for
// each class, whose gradients carry the root of its probability.
func (f Fisher) walk(ctx context.Context, m *models.Model, d *train.Data, progress Progress, see visit) error {
	r, err := newReader(m.Device(), d, nil)
	if err != nil {
		return err
	}
	defer r.free()
	p := models.NewPass(m.Device())
	p.Eval, p.KeepTaps = true, true
	defer p.Free()
	uniform := rng.New(f.Seed, rng.Fisher)
	return r.each(ctx, func(x tensor.Value, y *tensor.Tensor, from, to int) error {
		p.Reset()
		z, back := p.Output(m, x)
		prob := p.Softmax(z)
		table, err := floats(p.Ctx, prob)
		if err != nil {
			return err
		}
		n, classes := to-from, z.Shape()[1]
		differentiate := func(labels []int32, weight tensor.Value, again bool) error {
			m.Device().UploadInts(y.Mem(), labels)
			p.Taps = nil
			back(p.Weighted(p.SubOneHot(prob, y), weight), false)
			layers, err := kronecker(m, p.Taps)
			if err != nil {
				return err
			}
			if err := see(p.Ctx, layers, again); err != nil {
				return err
			}
			return p.Err()
		}
		if !f.Expected {
			err = differentiate(draw(uniform, table, classes), tensor.Value{}, false)
		}
		for k := 0; f.Expected && k < classes && err == nil; k++ {
			root := make([]float64, n)
			for i := range root {
				root[i] = math.Sqrt(table[i*classes+k])
			}
			weight := p.NewX(n)
			m.Device().UploadF64(weight.Mem(), root)
			err = differentiate(slices.Repeat([]int32{int32(k)}, n), tensor.Const(weight), k > 0)
		}
		progress.tell(to, d.Len())
		return err
	})
}

// draw takes a label for each row of prob: the first class at which the sum of
// probabilities exceeds a uniform number.
func draw(r *rand.Rand, prob []float64, classes int) []int32 {
	labels := make([]int32, len(prob)/classes)
	for i := range labels {
		row := prob[i*classes : (i+1)*classes]
		total := 0.0
		for _, p := range row { // 1 up to rounding
			total += p
		}
		u, sum := r.Float64()*total, 0.0
		for k, p := range row {
			if sum += p; u < sum {
				labels[i] = int32(k)
				break
			}
		}
	}
	return labels
}

// kronecker is the factors of all taps, if they cover the whole model.
func kronecker(m *models.Model, taps []models.Tap) ([]models.Factors, error) {
	layers := make([]models.Factors, 0, len(taps))
	covered := map[*models.Param]bool{}
	for _, t := range taps {
		k, ok := t.(models.Kronecker)
		if !ok {
			continue // its parameters are missing below
		}
		f := k.Kronecker()
		for _, q := range []*models.Param{f.W, f.B} {
			if q != nil && covered[q] {
				return nil, fmt.Errorf("ibis: parameter %q is used twice, expected once: its gradients are no outer products", q.Name)
			}
			covered[q] = true
		}
		layers = append(layers, f)
	}
	for _, q := range m.Params {
		if !covered[q] {
			return nil, fmt.Errorf("ibis: the layer of parameter %q has no Kronecker factors, expected a net of linear layers", q.Name)
		}
	}
	return layers, nil
}

// floats waits for v and downloads its numbers.
func floats(c *tensor.Ctx, v tensor.Value) ([]float64, error) {
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("ibis: %w", err)
	}
	x, _ := tensor.Parts(v)
	return x.Floats(c.Device())
}
