package onerun

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// stateEvery is how often a running training saves itself: what a kill can
// cost, against some tens of milliseconds each time.
const stateEvery = time.Minute

// ModelTrainer trains Aviary's own models. It keeps its device memory from one
// job to the next. It is for one job at a time; the owner calls Close.
type ModelTrainer struct {
	dev   kernels.Device
	arch  models.Arch
	cfg   train.Config
	model *models.Model
	// Of the current job, each in memory that the next job takes over.
	train, canaries, test *train.Data
}

// NewModelTrainer trains the architecture with this configuration on dev. The
// configuration's seed is replaced by each job's.
func NewModelTrainer(dev kernels.Device, arch models.Arch, cfg train.Config) *ModelTrainer {
	return &ModelTrainer{dev: dev, arch: arch, cfg: cfg}
}

// Close gives the device memory back.
func (t *ModelTrainer) Close() {
	for _, d := range []*train.Data{t.train, t.canaries, t.test} {
		if d != nil {
			d.Free()
		}
	}
	if t.model != nil {
		t.model.Free()
	}
	*t = ModelTrainer{dev: t.dev, arch: t.arch, cfg: t.cfg}
}

// Check reports whether the architecture and the configuration suit the data.
// A game asks before it begins.
func (t *ModelTrainer) Check(d audit.Dataset) error {
	if err := t.arch.Check(d.Shape(), d.Classes()); err != nil {
		return err
	}
	return t.cfg.Validate(d.Len())
}

// Train implements audit.Trainer: a fresh model, from job.Seed alone.
func (t *ModelTrainer) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	if err := t.Check(job.Train); err != nil {
		return audit.Result{}, err
	}
	if t.model == nil {
		model, err := models.New(t.dev, t.arch.Net())
		if err != nil {
			return audit.Result{}, err
		}
		t.model = model
	}
	if t.train == nil {
		// The coins decide how long the training set is; make room for all of
		// them, since memory that is outgrown lies about until it is collected.
		most := job.Train.Len() + job.Canaries.Len()
		data, err := train.Reserve(t.dev, most, job.Train.Shape())
		if err != nil {
			return audit.Result{}, err
		}
		t.train = data
	}
	if err := t.load(&t.train, job.Train); err != nil {
		return audit.Result{}, err
	}
	if err := t.load(&t.canaries, job.Canaries); err != nil {
		return audit.Result{}, fmt.Errorf("canaries: %w", err)
	}
	opts := train.Options{Progress: job.Progress, State: job.State, StateEvery: stateEvery}
	if job.Test != nil {
		if err := t.load(&t.test, job.Test); err != nil {
			return audit.Result{}, fmt.Errorf("test data: %w", err)
		}
		opts.Test = t.test
	}
	cfg := t.cfg
	cfg.Seed = job.Seed
	out, err := train.Run(ctx, t.model, t.train, cfg, opts)
	if err != nil {
		return audit.Result{}, err
	}
	losses, err := train.Losses64(ctx, t.model, t.canaries)
	if err != nil {
		return audit.Result{}, err
	}
	if job.Model != "" {
		if err := train.SaveModel(job.Model, t.model); err != nil {
			return audit.Result{}, err
		}
	}
	return audit.Result{Losses: losses, TestAccuracy: out.TestAccuracy, Curve: curve(out.Curve)}, nil
}

// load puts a data set on the device, in the memory of the one before it.
func (t *ModelTrainer) load(to **train.Data, d audit.Dataset) error {
	if *to != nil {
		return (*to).Load(d)
	}
	data, err := train.Upload(t.dev, d)
	*to = data
	return err
}

// curve is a training curve as reports hold it.
func curve(points []train.Point) []audit.Point {
	out := make([]audit.Point, len(points))
	for i, p := range points {
		out[i] = audit.Point{Epoch: p.Epoch, Step: p.Step, TrainLoss: p.TrainLoss}
		if !math.IsNaN(p.TestAccuracy) {
			out[i].TestAccuracy = &p.TestAccuracy
		}
	}
	return out
}
