package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// ErrDiverged is in the chain of the error of a run whose loss is no finite
// number any more. The same run would come to the same end.
var ErrDiverged = errors.New("training diverged")

// Options are what a run does besides training. None of them changes a bit of
// the trained model.
type Options struct {
	// Progress, if set, is told after each step how many are done.
	Progress func(done, total int)
	// Test, if set, is evaluated after each epoch.
	Test *Data
	// State is a file from which a stopped run goes on, and to which it saves
	// itself when its context ends; "" for none. It is left in place at the end.
	State string
	// StateEvery is how often State is written besides; 0: only at the end of
	// the context.
	StateEvery time.Duration

	files atomicfile.Options // how State is written; tests fill the disk
}

// Outcome is what a finished run gives, besides the model.
type Outcome struct {
	Steps        int
	Resumed      int     // the step at which the run went on, 0: from the start
	TrainLoss    float64 // mean over the last epoch, as it went
	TestAccuracy float64 // of the trained model; NaN without Options.Test
	Curve        []Point // one point for each epoch, and the end
}

// Point is one point of a training curve.
type Point struct {
	Epoch        float64 `json:"epoch"`
	Step         int     `json:"step"`
	TrainLoss    float64 `json:"train_loss"`    // mean over the examples seen since the last point
	TestAccuracy float64 `json:"test_accuracy"` // NaN if not measured
}

// run is the state of a run.
type run struct {
	m    *models.Model
	data *Data
	cfg  Config
	opts Options

	dev      kernels.Device
	id       string
	total    int
	schedule Schedule
	batches  *batches
	pass     *models.Pass
	meter    *meter
	grad     *tensor.Tensor
	momentum *tensor.Tensor // nil: none
	ema      *tensor.Tensor // nil: none

	step    int // steps done
	resumed int
	curve   []Point
}

// Run trains m on d from a fresh start, or goes on from opts.State. The model
// then holds the trained parameters: their average, if cfg.EMA is set.
//
// Once ctx ends, Run saves its state and returns an error that wraps ctx's. A
// loss that is not finite ends the run with an error at the end of the epoch.
func Run(ctx context.Context, m *models.Model, d *Data, cfg Config, opts Options) (Outcome, error) {
	r, err := newRun(m, d, cfg, opts)
	if r != nil {
		defer r.free()
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := r.start(); err != nil {
		return Outcome{}, err
	}
	saved := time.Now()
	for r.step < r.total {
		if ctx.Err() != nil {
			return Outcome{}, r.stop(ctx)
		}
		if err := r.doStep(); err != nil {
			return Outcome{}, err
		}
		if r.step%cfg.StepsPerEpoch(d.Len()) == 0 || r.step == r.total {
			if err := r.endEpoch(ctx); err != nil {
				return Outcome{}, err
			}
		}
		if opts.Progress != nil {
			opts.Progress(r.step, r.total)
		}
		if opts.State != "" && opts.StateEvery > 0 && time.Since(saved) >= opts.StateEvery {
			if err := r.save(); err != nil {
				return Outcome{}, err
			}
			saved = time.Now()
		}
	}
	return r.finish()
}

func newRun(m *models.Model, d *Data, cfg Config, opts Options) (*run, error) {
	if err := cfg.Validate(d.Len()); err != nil {
		return nil, err
	}
	schedule, err := ParseSchedule(cfg.Schedule)
	if err != nil {
		return nil, err
	}
	r := &run{
		m: m, data: d, cfg: cfg, opts: opts, dev: m.Device(), schedule: schedule,
		id: identity(m, d, cfg), total: cfg.TotalSteps(d.Len()), pass: models.NewPass(m.Device()),
	}
	vectors := []**tensor.Tensor{&r.grad}
	if cfg.Momentum > 0 {
		vectors = append(vectors, &r.momentum)
	}
	if cfg.EMA > 0 {
		vectors = append(vectors, &r.ema)
	}
	for _, v := range vectors {
		if *v, err = tensor.Alloc(r.dev, m.Len()); err != nil {
			return r, err
		}
	}
	if r.batches, err = newBatches(r.dev, d, cfg); err != nil {
		return r, err
	}
	r.meter, err = newMeter(r.dev, d.Len())
	r.pass.Grad = r.grad
	return r, err
}

// start sets the parameters to where the run begins or goes on.
func (r *run) start() error {
	if err := r.m.Init(r.cfg.Seed, r.cfg.scheme()); err != nil {
		return err
	}
	if r.momentum != nil {
		r.dev.Fill(r.momentum.Mem(), 0)
	}
	if r.ema != nil {
		r.dev.Copy(r.ema.Mem(), r.m.Theta.Mem())
	}
	if r.opts.State == "" {
		return nil
	}
	return r.load()
}

// doStep is one step of SGD or DP-SGD. It waits for nothing on the device.
func (r *run) doStep() error {
	chosen := r.batches.start(r.step)
	if chosen == 0 { // the coins may choose nobody; the noise comes all the same
		r.dev.Fill(r.grad.Mem(), 0)
	}
	for first := true; r.batches.more(); first = false {
		x, labels := r.batches.next()
		r.pass.Reset()
		r.pass.Accumulate = !first
		losses, err := r.gradient(tensor.Const(x), labels)
		if err != nil {
			return err
		}
		if err := r.meter.add(losses); err != nil {
			return err
		}
	}
	r.update(chosen)
	r.step++
	return nil
}

// gradient adds the batch's part to grad: a sum over examples, clipped or not.
func (r *run) gradient(x models.Value, labels *tensor.Tensor) (models.Value, error) {
	if r.cfg.Private() {
		losses, _, err := r.pass.Clipped(r.m, x, labels, r.cfg.Clip)
		return losses, err
	}
	losses, back := r.pass.Loss(r.m, x, labels, models.Value{})
	back(false)
	return losses, nil
}

// update moves the parameters: along the mean gradient of the examples, or, in
// DP-SGD, along (Σ clipped + σ C z) / Batch, whose divisor does not depend on
// the coins.
func (r *run) update(chosen int) {
	s := kernels.SGD{
		LR:       r.cfg.LR * r.schedule(r.step, r.total),
		Momentum: r.cfg.Momentum,
		Decay:    r.cfg.WeightDecay,
		Scale:    1 / float64(max(chosen, 1)),
		EMA:      r.cfg.EMA,
	}
	if r.cfg.Private() {
		s.Scale = 1 / float64(r.cfg.Batch)
		s.Noise = r.cfg.NoiseMultiplier * r.cfg.Clip / float64(r.cfg.Batch)
		s.Seed, s.Step = noiseSeed(r.cfg.Seed), uint64(r.step)
	}
	r.dev.SGD(r.m.Theta.Mem(), memOf(r.momentum), memOf(r.ema), r.grad.Mem(), s)
	r.m.Moved()
}

// endEpoch reads what the epoch left on the device: one wait per epoch.
func (r *run) endEpoch(ctx context.Context) error {
	loss, err := r.meter.take()
	if err == nil {
		err = r.pass.Err()
	}
	if err != nil {
		return fmt.Errorf("train: step %d: %w", r.step, err)
	}
	if err := r.converges(loss); err != nil {
		return err
	}
	p := Point{
		Epoch: float64(r.step) / float64(r.cfg.StepsPerEpoch(r.data.Len())), Step: r.step,
		TrainLoss: loss, TestAccuracy: math.NaN(),
	}
	if r.opts.Test != nil {
		// Not stopped halfway: the state that is saved then includes this point.
		if p.TestAccuracy, err = r.testAccuracy(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	r.curve = append(r.curve, p)
	return nil
}

// converges is an error unless a loss is finite.
func (r *run) converges(loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("train: the loss is %v after step %d: %w (lr is %v)", loss, r.step, ErrDiverged, r.cfg.LR)
	}
	return nil
}

// testAccuracy evaluates the model as it would be if training ended here. The
// gradient's memory, which is free between steps, keeps the parameters
// meanwhile.
func (r *run) testAccuracy(ctx context.Context) (float64, error) {
	if r.ema == nil {
		return Accuracy(ctx, r.m, r.opts.Test)
	}
	theta := r.m.Theta.Mem()
	r.dev.Copy(r.grad.Mem(), theta)
	r.dev.Copy(theta, r.ema.Mem())
	r.m.Moved()
	defer func() {
		r.dev.Copy(theta, r.grad.Mem())
		r.m.Moved()
	}()
	return Accuracy(ctx, r.m, r.opts.Test)
}

// stop saves the state of a run whose context has ended.
func (r *run) stop(ctx context.Context) error {
	if r.opts.State != "" {
		if err := r.save(); err != nil {
			return fmt.Errorf("train: stopped at step %d of %d, and its state is lost: %w", r.step, r.total, err)
		}
	}
	return fmt.Errorf("train: stopped at step %d of %d: %w", r.step, r.total, context.Cause(ctx))
}

func (r *run) finish() (Outcome, error) {
	if r.ema != nil {
		r.dev.Copy(r.m.Theta.Mem(), r.ema.Mem())
		r.m.Moved()
	}
	if err := r.pass.Err(); err != nil {
		return Outcome{}, fmt.Errorf("train: %w", err)
	}
	last := r.curve[len(r.curve)-1]
	return Outcome{
		Steps: r.step, Resumed: r.resumed, Curve: r.curve,
		TrainLoss: last.TrainLoss, TestAccuracy: last.TestAccuracy,
	}, nil
}

func (r *run) free() {
	r.pass.Free()
	for _, t := range []*tensor.Tensor{r.grad, r.momentum, r.ema} {
		t.Free(r.dev)
	}
	r.batches.free()
	r.meter.free()
}
