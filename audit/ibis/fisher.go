package ibis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

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

// walk runs the model on the training data and calls f, for each block, with
// the Kronecker factors of its layers: in the order of the backward pass, with
// the gradient of the loss at labels of the model's own. With Expected f is
// called once for each class, and the gradients carry the root of its
// probability. again is true for all calls but the first of a block.
func (f Fisher) walk(ctx context.Context, m *models.Model, d *train.Data, progress Progress,
	each func(c *tensor.Ctx, layers []models.Factors, again bool) error) error {
	r, err := newReader(m.Device(), d, nil)
	if err != nil {
		return err
	}
	defer r.free()
	p := models.NewPass(m.Device())
	p.Eval, p.KeepTaps = true, true
	defer p.Free()
	labels := rng.New(f.Seed, rng.Fisher)
	return r.each(ctx, func(x tensor.Value, y *tensor.Tensor, from, to int) error {
		p.Reset()
		z, back := p.Output(m, x)
		prob := p.Softmax(z)
		table, err := floats(p.Ctx, prob)
		if err != nil {
			return err
		}
		classes := z.Shape()[1]
		if f.Expected {
			err = f.allLabels(p, back, prob, table, classes, m, y, each)
		} else {
			m.Device().UploadInts(y.Mem(), draw(labels, table, classes))
			back(p.SubOneHot(prob, y), false)
			err = call(p, m, false, each)
		}
		if err == nil {
			err = p.Err()
		}
		progress.tell(to, d.Len())
		return err
	})
}

// allLabels calls each once for every class, as walk says.
func (f Fisher) allLabels(p *models.Pass, back models.Back, prob tensor.Value, table []float64, classes int,
	m *models.Model, y *tensor.Tensor, each func(*tensor.Ctx, []models.Factors, bool) error) error {
	n := y.Len()
	host, root := make([]int32, n), make([]float64, n)
	weight := p.NewX(n)
	for k := range classes {
		for i := range n {
			host[i], root[i] = int32(k), math.Sqrt(table[i*classes+k])
		}
		m.Device().UploadInts(y.Mem(), host)
		m.Device().UploadF64(weight.Mem(), root)
		p.Taps = nil
		back(p.Weighted(p.SubOneHot(prob, y), tensor.Const(weight)), false)
		if err := call(p, m, k > 0, each); err != nil {
			return err
		}
	}
	return nil
}

func call(p *models.Pass, m *models.Model, again bool, each func(*tensor.Ctx, []models.Factors, bool) error) error {
	layers, err := kronecker(m, p.Taps)
	if err != nil {
		return err
	}
	return each(p.Ctx, layers, again)
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
