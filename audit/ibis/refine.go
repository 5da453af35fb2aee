package ibis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// Refinement says how canaries are refined. The inner problem is the training
// that will be audited: Augment and ClipNorm describe it.
type Refinement struct {
	// Lambda is λ of the regulariser R = λ Σ_{i≠j} cos²(φ_i, φ_j), a sum over
	// ordered pairs of canaries of the cosines between their embeddings at θ*.
	Lambda float64 `json:"lambda"`
	Rho    float64 `json:"rho"` // ρ, the step of the pixels
	Eta    float64 `json:"eta"` // η, the step of θ and of v
	Steps  int     `json:"steps"`
	// Every is how many steps the model makes between two moves of the pixels.
	Every int `json:"every"`
	// Batch is the number of examples of D ∪ C in a step. Each epoch is a new
	// shuffle, cut in batches, of which the last may be smaller.
	Batch int `json:"batch"`
	// CanaryBatch is how many canaries move at a time, drawn anew each time; the
	// others stay. 0: all of them.
	CanaryBatch int `json:"canary_batch"`
	// ClipPixels keeps the pixels in [0, 1]. Without it canaries are detected
	// better, but are not images any more.
	ClipPixels bool `json:"clip_pixels"`
	// Augment is that of the audited training: see train.ParseAugment.
	Augment string `json:"augment"`
	// ClipNorm > 0 is the audited training's bound C on an example's gradient.
	ClipNorm float64 `json:"clip_norm"`
	// WithoutImplicit leaves out v, as if moving a canary did not move the model.
	WithoutImplicit bool `json:"without_implicit"`
	// WithoutDetect leaves only the regulariser; the model then stays at θ₀.
	WithoutDetect bool `json:"without_detect"`
}

// DefaultRefinement is the recipe for MNIST.
func DefaultRefinement() Refinement {
	return Refinement{
		Lambda: 3, Rho: 0.012, Eta: 0.05, Steps: 470, Every: 8, Batch: 256, ClipPixels: true, Augment: "none",
	}
}

// Validate returns an error, naming the setting and its value, unless canaries
// of a set of m can be refined within n examples of a shape.
func (r Refinement) Validate(m, n int, shape []int) error {
	bad := func(name string, value any, want string) error {
		return fmt.Errorf("ibis: %s is %v, expected %s", name, value, want)
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case m < 1:
		return bad("number of canaries", m, "at least 1")
	case !(r.Lambda >= 0) || !finite(r.Lambda):
		return bad("lambda", r.Lambda, "a number that is not negative")
	case !(r.Rho > 0) || !finite(r.Rho):
		return bad("rho", r.Rho, "a positive number")
	case !(r.Eta > 0) || !finite(r.Eta):
		return bad("eta", r.Eta, "a positive number")
	case r.Steps < 1:
		return bad("steps", r.Steps, "at least 1")
	case r.Every < 1:
		return bad("every", r.Every, "at least 1")
	case r.Batch < 1 || r.Batch > n:
		return bad("batch", r.Batch, fmt.Sprintf("1 to %d, the number of examples with canaries", n))
	case r.CanaryBatch < 0 || r.CanaryBatch > m:
		return bad("canary_batch", r.CanaryBatch, fmt.Sprintf("0 to %d, the number of canaries", m))
	case r.CanaryBatch == 1 && m > 1 && r.Lambda > 0:
		return bad("canary_batch", r.CanaryBatch, "at least 2, since lambda compares canaries with each other")
	case !(r.ClipNorm >= 0) || !finite(r.ClipNorm):
		return bad("clip_norm", r.ClipNorm, "a norm, or 0 for no clipping")
	case r.WithoutDetect && r.Lambda == 0:
		return bad("lambda", r.Lambda, "a positive number, since nothing else is left to refine by")
	}
	augment, err := train.ParseAugment(r.Augment)
	if err == nil && !augment.None() && len(shape) != 3 {
		err = fmt.Errorf("ibis: augment is %q, but examples have shape %v, expected height, width and channels", r.Augment, shape)
	}
	return err
}

// RefineOptions are what a refinement does besides. None of them changes a bit
// of the canaries.
type RefineOptions struct {
	// Progress, if set, is told after each step how many are done.
	Progress func(done, total int)
	// State is a file from which a stopped refinement goes on, if it is called
	// again with the same arguments, and to which it saves itself when its
	// context ends; "" for none. It is left in place at the end.
	State string
	// StateEvery is how often State is written besides; 0: only at the end of
	// the context.
	StateEvery time.Duration
}

// Trace is how a refinement went.
type Trace struct {
	Steps   int
	Resumed int // the step at which it went on, 0: from the start
	Points  []TracePoint
}

// TracePoint is what was found before one move of the pixels, on the canaries
// that were about to move.
type TracePoint struct {
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`      // mean, at θ
	LossStar float64 `json:"loss_star"` // mean, at θ*
	R        float64 `json:"r"`         // the regulariser, estimated for all canaries
	V        float64 `json:"v"`         // |v|
	GX       float64 `json:"gx"`        // norm of the gradient by their pixels
}

// Refine moves the pixels of canaries by the updates (4) to (6) of IBIS (arXiv
// 2605.27292), all with the numbers of step t on the right:
//
//	θ ← θ - η mean_B ∇θ ℓ(θ, ·)
//	v ← v - η (mean_B ∇²θθ ℓ(θ, ·) v - Σ_C ∇θ ℓ(θ, ·))
//	x ← x - ρ (∇ₓ ℓ(θ, x) - ∇ₓ ℓ(θ*, x) - ∇²ₓθ ℓ(θ, x) v / n + ∂R/∂x)
//
// for batches B of D ∪ C, with n = |D ∪ C|. star holds θ*, trained on D = rest.
// theta holds θ₀, trained on D ∪ C, and is moved. The canaries' labels stay.
// Both models are of one architecture and on one device, as are the data.
//
// Once ctx ends, Refine saves its state and returns an error that wraps ctx's.
// Numbers that are not finite end it with train.ErrDiverged.
func Refine(ctx context.Context, star, theta *models.Model, rest, canaries *train.Data, cfg Refinement, seed uint64, o RefineOptions) (*Trace, error) {
	r, err := newRefiner(star, theta, rest, canaries, cfg, seed)
	if r != nil {
		defer r.free()
	}
	if err != nil {
		return nil, err
	}
	trace := &Trace{Steps: cfg.Steps}
	file := stateFile{path: o.State}
	if o.State != "" {
		if file.id, err = r.identity(seed); err == nil {
			err = file.load(r)
		}
		if err != nil {
			return nil, err
		}
		trace.Resumed = r.step
	}
	saved := time.Now()
	for r.step < cfg.Steps {
		if ctx.Err() != nil {
			return nil, file.stop(ctx, r)
		}
		if err := r.doStep(); err != nil {
			return nil, fmt.Errorf("ibis: step %d of %d: %w", r.step, cfg.Steps, err)
		}
		if o.Progress != nil {
			o.Progress(r.step, cfg.Steps)
		}
		if o.State != "" && o.StateEvery > 0 && time.Since(saved) >= o.StateEvery {
			if err := file.save(r); err != nil {
				return nil, err
			}
			saved = time.Now()
		}
	}
	if err := r.checkEnd(); err != nil {
		return nil, fmt.Errorf("ibis: after step %d of %d: %w", r.step, cfg.Steps, err)
	}
	trace.Points = r.points
	return trace, nil
}

// checkPair compares what goes into a refinement with each other.
func checkPair(star, theta *models.Model, rest, canaries *train.Data) error {
	switch {
	case star == theta:
		return errors.New("ibis: theta and star are the same model, expected two, since one of them moves")
	case star.Device() != theta.Device():
		return errors.New("ibis: the two models are on different devices")
	case !slices.EqualFunc(star.Params, theta.Params, func(a, b *models.Param) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape)
	}):
		return errors.New("ibis: the two models are of different architectures")
	case !slices.Equal(rest.Shape(), canaries.Shape()):
		return fmt.Errorf("ibis: canaries have shape %v, expected %v, that of the other examples", canaries.Shape(), rest.Shape())
	case rest.Classes != canaries.Classes:
		return fmt.Errorf("ibis: canaries have %d classes, expected %d, as the other examples", canaries.Classes, rest.Classes)
	}
	return nil
}
