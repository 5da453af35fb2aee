package gorgonia

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// Trainer fits a Gorgonia net, so that the one-run game can audit it: it is an
// audit.Trainer. It trains in float64 by SGD on the mean cross-entropy, the
// recipe of Aviary's own trainer.
//
// Gorgonia panics where a graph cannot be built; that becomes an error here.
// Each run compares the net's first gradient with finite differences, since
// Gorgonia has graphs whose gradient is wrong without an error. It runs graphs on a goroutine of its own, though, where nobody can catch a
// panic: to survive one, train in a process of its own (aviary audit --trainer).
type Trainer struct {
	Net      Net
	Epochs   int
	Batch    int     // examples per step; the last of an epoch may be smaller
	LR       float64 // learning rate, constant
	Momentum float64 // heavy ball, 0 for none
	Decay    float64 // weight decay
	EMA      float64 // of the parameters, per step; 0 audits the last ones
}

var _ audit.Trainer = Trainer{}

// Train implements audit.Trainer. Job.State is not used: a run that is killed
// starts again. Job.Model gets the audited parameters as an npz file, under the
// names of their nodes.
func (t Trainer) Train(ctx context.Context, job audit.Job) (result audit.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("gorgonia: %v", r)
		}
	}()
	if err := t.valid(job); err != nil {
		return audit.Result{}, fmt.Errorf("gorgonia: %w", err)
	}
	r, err := newRun(t, job)
	if err != nil {
		return audit.Result{}, fmt.Errorf("gorgonia: %w", err)
	}
	defer r.close()
	if err := r.fit(ctx); err != nil {
		return audit.Result{}, fmt.Errorf("gorgonia: %w", err)
	}
	if result, err = r.result(ctx); err != nil {
		return audit.Result{}, fmt.Errorf("gorgonia: %w", err)
	}
	return result, nil
}

func (t Trainer) valid(job audit.Job) error {
	switch {
	case t.Net == nil:
		return fmt.Errorf("no net to train")
	case t.Epochs < 1:
		return fmt.Errorf("%d epochs, expected at least 1", t.Epochs)
	case t.Batch < 1:
		return fmt.Errorf("batch %d, expected at least 1", t.Batch)
	case t.Batch > job.Train.Len():
		return fmt.Errorf("batch %d of %d training examples", t.Batch, job.Train.Len())
	case !(t.LR > 0):
		return fmt.Errorf("learning rate %v, expected a positive number", t.LR)
	case !(t.Momentum >= 0 && t.Momentum < 1):
		return fmt.Errorf("momentum %v, expected 0 ≤ momentum < 1", t.Momentum)
	case !(t.Decay >= 0):
		return fmt.Errorf("weight decay %v, expected 0 or more", t.Decay)
	case !(t.EMA >= 0 && t.EMA < 1):
		return fmt.Errorf("EMA %v, expected 0 ≤ EMA < 1", t.EMA)
	}
	return nil
}

// run is one training run.
type run struct {
	Trainer
	job      audit.Job
	learn    *graph // with gradients, current parameters
	judge    *graph // without, audited parameters
	momentum [][]float64
	curve    []audit.Point
	labels   []int32 // of the batch
	pixels   []float32
}

func newRun(t Trainer, job audit.Job) (*run, error) {
	dim := 1
	for _, d := range job.Train.Shape() {
		dim *= d
	}
	k := job.Train.Classes()
	learn, err := newGraph(t.Net, rng.New(job.Seed, rng.Init), t.Batch, dim, k, true)
	if err != nil {
		return nil, err
	}
	// The same stream: the average starts at the initial parameters.
	judge, err := newGraph(t.Net, rng.New(job.Seed, rng.Init), t.Batch, dim, k, false)
	if err != nil {
		learn.close()
		return nil, err
	}
	r := &run{Trainer: t, job: job, learn: learn, judge: judge, labels: make([]int32, t.Batch), pixels: make([]float32, dim)}
	for _, p := range learn.params {
		r.momentum = append(r.momentum, make([]float64, p.DataSize()))
	}
	return r, nil
}

func (r *run) close() {
	r.learn.close()
	r.judge.close()
}

func (r *run) fit(ctx context.Context) error {
	n := r.job.Train.Len()
	steps := (n + r.Batch - 1) / r.Batch
	if err := r.check(); err != nil {
		return err
	}
	for epoch := range r.Epochs {
		order := rng.New(r.job.Seed, rng.Shuffle, uint64(epoch)).Perm(n)
		var sum float64
		for s := range steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			loss, err := r.step(order[s*r.Batch : min(n, (s+1)*r.Batch)])
			if err != nil {
				return fmt.Errorf("epoch %d, step %d: %w", epoch+1, s+1, err)
			}
			sum += loss
			if r.job.Progress != nil {
				r.job.Progress(epoch*steps+s+1, r.Epochs*steps)
			}
		}
		r.curve = append(r.curve, audit.Point{
			Epoch: float64(epoch + 1), Step: (epoch + 1) * steps, TrainLoss: sum / float64(steps)})
	}
	return nil
}

// check makes sure of the gradient, on the first examples.
func (r *run) check() error {
	first := make([]int, r.Batch)
	for i := range first {
		first[i] = i
	}
	if err := r.prepare(first); err != nil {
		return err
	}
	return checkGradient(r.learn, r.labels, rng.New(r.job.Seed, rng.SelfTest))
}

// step is one SGD step on the examples; it returns their mean loss before it.
func (r *run) step(examples []int) (float64, error) {
	g := r.learn
	if err := r.prepare(examples); err != nil {
		return 0, err
	}
	if err := g.run(); err != nil {
		return 0, err
	}
	for i, p := range g.params {
		gradient := numbers(g.gradients[i])
		for _, d := range gradient {
			if math.IsNaN(d) || math.IsInf(d, 0) {
				return 0, fmt.Errorf("a gradient of %s is %v: training diverged, lower the learning rate", g.names[i], d)
			}
		}
		ref.SGD(floats(p), r.momentum[i], floats(r.judge.params[i]), gradient,
			ref.Update{LR: r.LR, Momentum: r.Momentum, Decay: r.Decay, Scale: 1, EMA: r.EMA})
	}
	return g.loss(r.labels)
}

// prepare makes the inputs of a step: the mean loss of the examples.
func (r *run) prepare(examples []int) error {
	g := r.learn
	if err := r.load(g, r.job.Train, examples); err != nil {
		return err
	}
	weight, onehot := floats(g.weight), floats(g.onehot)
	clear(weight)
	clear(onehot)
	for i := range examples {
		weight[i] = 1 / float64(len(examples))
		onehot[i*g.classes+int(r.labels[i])] = 1
	}
	return nil
}

// load puts examples of d into g's rows; other rows become zero.
func (r *run) load(g *graph, d audit.Dataset, examples []int) error {
	x := floats(g.x)
	clear(x)
	for row, e := range examples {
		label := d.Example(e, r.pixels)
		if label < 0 || label >= g.classes {
			return fmt.Errorf("example %d has label %d, expected 0 to %d", e, label, g.classes-1)
		}
		r.labels[row] = int32(label)
		for i, v := range r.pixels {
			x[row*g.dim+i] = float64(v)
		}
	}
	return nil
}

func (r *run) result(ctx context.Context) (audit.Result, error) {
	losses, _, err := r.evaluate(ctx, r.job.Canaries)
	if err != nil {
		return audit.Result{}, fmt.Errorf("canaries: %w", err)
	}
	result := audit.Result{Losses: losses, TestAccuracy: math.NaN(), Curve: r.curve}
	if r.job.Test != nil {
		if _, result.TestAccuracy, err = r.evaluate(ctx, r.job.Test); err != nil {
			return audit.Result{}, fmt.Errorf("test examples: %w", err)
		}
	}
	if r.job.Model == "" {
		return result, nil
	}
	return result, r.save(r.job.Model)
}

// evaluate is the losses of d's examples under the audited parameters, in their
// order, and the share that is classified right.
func (r *run) evaluate(ctx context.Context, d audit.Dataset) (losses []float64, accuracy float64, err error) {
	g, n, right := r.judge, d.Len(), 0
	losses = make([]float64, n)
	guess := make([]int32, g.batch)
	for from := 0; from < n; from += g.batch {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		rows := make([]int, min(g.batch, n-from))
		for i := range rows {
			rows[i] = from + i
		}
		if err := r.load(g, d, rows); err != nil {
			return nil, 0, err
		}
		if err := g.run(); err != nil {
			return nil, 0, err
		}
		z := numbers(g.logits)
		if err := ref.Loss64(losses[from:from+len(rows)], z, r.labels, len(rows), g.classes); err != nil {
			return nil, 0, err
		}
		ref.Argmax(guess, z, len(rows), g.classes)
		for i := range rows {
			if guess[i] == r.labels[i] {
				right++
			}
		}
	}
	return losses, float64(right) / float64(n), nil
}

// save writes the audited parameters.
func (r *run) save(path string) error {
	var arrays []npz.Named
	for i, p := range r.judge.params {
		arrays = append(arrays, npz.Named{Name: r.judge.names[i], Array: npz.Array{Shape: p.Shape(), Data: floats(p)}})
	}
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return npz.Write(w, arrays...) })
}

func heDeviation(in int) float64 { return math.Sqrt(2 / float64(in)) }
