package ibis

import (
	"context"
	"fmt"
	"time"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// The stages of crafting; keys of Crafted.Seconds.
const (
	StageSelectTrain = "select-train" // the model that chooses
	StageSelect      = "select"       // influence, and the choice
	StageStar        = "theta-star"   // θ*, trained without the canaries
	StageZero        = "theta-0"      // θ₀, trained with them
	StageRefine      = "refine"
	StageMeasure     = "measure" // what reports show beside the canaries
)

// Stages are the stages of crafting in their order.
func Stages() []string {
	return []string{StageSelectTrain, StageSelect, StageStar, StageZero, StageRefine, StageMeasure}
}

// Crafter crafts canary sets. It is an audit.Selector for one set at a time.
type Crafter struct {
	dev     kernels.Device
	recipe  Recipe
	opts    CraftOptions
	seconds map[int]map[string]float64 // by set
}

// CraftOptions are what crafting does besides. None of them changes a bit of the
// canaries.
type CraftOptions struct {
	// Dir is a folder for what is finished, and for the state of what is not, from
	// which a stopped crafting goes on; "" for none. See Crafter.Craft.
	Dir string
	// Device names the kind of device: what Dir holds goes on on the same kind,
	// since each rounds in its own way.
	Device string
	// Progress, if set, is told how much of a set's stage is done.
	Progress func(set int, stage string, done, total int)
	// Note, if set, is told what people should know.
	Note func(string)
}

// Crafted is a canary set and how it came about.
type Crafted struct {
	Canaries *audit.CanarySet
	Before   *audit.CanarySet // the training examples that they were
	Chosen   *Chosen          // nil if they were chosen at random
	Trace    *Trace           // nil without refinement
	// CosineBefore and CosineAfter are between the canaries' embeddings at θ*,
	// [m, m]; nil without refinement.
	CosineBefore, CosineAfter []float64
	// InfluenceAfter is Chosen.Influence of the refined canaries, [m, m]; nil
	// unless curvature is K-FAC, with which it costs little.
	InfluenceAfter []float64
	Seconds        map[string]float64 // by stage
}

// NewCrafter crafts on dev as the recipe says.
func NewCrafter(dev kernels.Device, r Recipe, o CraftOptions) *Crafter {
	return &Crafter{dev: dev, recipe: r.settle(), opts: o, seconds: map[int]map[string]float64{}}
}

// Name implements audit.Selector.
func (c *Crafter) Name() string { return c.recipe.name() }

// Displaced implements onerun.Displacer.
func (c *Crafter) Displaced(m, _ int) int { return m }

// Seconds is how long each stage of a set took; nil if it was not crafted here.
func (c *Crafter) Seconds(set int) map[string]float64 { return c.seconds[set] }

// Select implements audit.Selector.
func (c *Crafter) Select(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	crafted, err := c.Craft(ctx, d, m, set, seed)
	if err != nil {
		return nil, err
	}
	return crafted.Canaries, nil
}

// Craft makes canary set number set of m canaries out of d. It depends on the
// recipe, d, m, set and seed alone. With Dir a call that was stopped, even by a
// kill, is repeated to the same end; a finished set is read. A folder that holds
// the work of other settings is an error that names the first difference.
func (c *Crafter) Craft(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*Crafted, error) {
	if err := c.recipe.Validate(d, m); err != nil {
		return nil, err
	}
	w, err := openWork(c.opts, c.settings(d, m, seed))
	if err != nil {
		return nil, err
	}
	defer w.close()
	out, err := w.finished(d, c.Name(), set)
	if err == nil && out == nil {
		job := &crafting{Crafter: c, work: w, d: d, m: m, set: set, seed: seed, out: &Crafted{Seconds: map[string]float64{}}}
		if err = job.run(ctx); err == nil {
			out = job.out
			err = w.finish(set, out)
		}
	}
	if err != nil {
		return nil, err
	}
	c.seconds[set] = out.Seconds
	return out, nil
}

// crafting is one set on its way.
type crafting struct {
	*Crafter
	work *work
	d    audit.Dataset
	m    int
	set  int
	seed uint64
	out  *Crafted
	// On the device: D and then, in the same memory, D ∪ C; D \ C.
	full, rest *train.Data
	// What the canaries were chosen by; nil at random.
	chooser *models.Model
	by      Influence
}

func (j *crafting) run(ctx context.Context) error {
	defer j.free()
	if err := j.choose(ctx); err != nil {
		return err
	}
	if j.recipe.FlipLabels {
		onerun.Relabel(j.out.Canaries, j.seed)
	}
	if j.recipe.SelectOnly {
		return nil
	}
	return j.refine(ctx)
}

func (j *crafting) free() {
	if j.by != nil {
		j.by.Free()
	}
	if j.chooser != nil {
		j.chooser.Free()
	}
	for _, d := range []*train.Data{j.full, j.rest} {
		if d != nil {
			d.Free()
		}
	}
}

// choose fills in Before and Canaries, alike.
func (j *crafting) choose(ctx context.Context) error {
	var index []int
	if j.recipe.Init == "random" {
		c, err := onerun.Random().Select(ctx, j.d, j.m, j.set, j.seed)
		if err != nil {
			return err
		}
		index = c.Removed
	} else {
		if err := j.load(&j.full, j.d); err != nil {
			return err
		}
		model, err := j.model(ctx, StageSelectTrain, j.full, j.recipe.seeded(j.modelSeed(0)))
		if err != nil {
			return err
		}
		j.chooser = model
		err = j.timed(StageSelect, func() error {
			j.out.Chosen, j.by, err = selectBy(ctx, model, j.full, j.m, j.recipe.Selection, j.modelSeed(0), j.progress(StageSelect))
			return err
		})
		if err != nil {
			return err
		}
		index = j.out.Chosen.Indices
	}
	j.out.Before = Canaries(j.d, j.Name(), j.set, index)
	j.out.Canaries = Canaries(j.d, j.Name(), j.set, index)
	return nil
}

// refine trains θ* and θ₀ and moves the pixels of Canaries.
func (j *crafting) refine(ctx context.Context) error {
	c := j.out.Canaries
	if err := j.load(&j.rest, onerun.TrainingSet(j.d, c, make([]bool, j.m))); err != nil {
		return err
	}
	star, err := j.model(ctx, StageStar, j.rest, j.recipe.thetaConfig(j.modelSeed(1)))
	if err != nil {
		return err
	}
	defer star.Free()
	all := make([]bool, j.m)
	for i := range all {
		all[i] = true
	}
	if err := j.load(&j.full, onerun.TrainingSet(j.d, c, all)); err != nil {
		return err
	}
	init := j.modelSeed(1)
	if j.recipe.OtherInit {
		init = j.modelSeed(2)
	}
	theta, err := j.model(ctx, StageZero, j.full, j.recipe.thetaConfig(init))
	if err != nil {
		return err
	}
	defer theta.Free()
	canaries, err := train.Upload(j.dev, c)
	if err != nil {
		return err
	}
	defer canaries.Free()
	if err := j.measure(ctx, star, canaries, &j.out.CosineBefore, nil); err != nil {
		return err
	}
	err = j.timed(StageRefine, func() error {
		o := RefineOptions{Progress: j.progress(StageRefine), State: j.work.state(j.set, StageRefine), StateEvery: stateEvery}
		j.out.Trace, err = Refine(ctx, star, theta, j.rest, canaries, j.recipe.Refinement, j.modelSeed(3), o)
		return err
	})
	if err != nil {
		return err
	}
	if err := j.measure(ctx, star, canaries, &j.out.CosineAfter, &j.out.InfluenceAfter); err != nil {
		return err
	}
	x, err := canaries.X.Floats(j.dev)
	if err != nil {
		return err
	}
	for i, v := range x {
		c.X[i] = float32(v)
	}
	return nil
}

// measure fills in the cosines between the canaries as they are, and with
// influence not nil the influences.
func (j *crafting) measure(ctx context.Context, star *models.Model, canaries *train.Data, cosine, influence *[]float64) error {
	return j.timed(StageMeasure, func() (err error) {
		if *cosine, err = cosines(star, canaries); err != nil || influence == nil || j.by == nil || j.recipe.Selection.Curvature != "kfac" {
			return err
		}
		*influence, err = Matrix(ctx, j.by, canaries)
		return err
	})
}

// stateEvery is how often a running stage saves itself.
const stateEvery = 20 * time.Second

// modelSeed is the seed of one of the set's models.
func (j *crafting) modelSeed(which uint64) uint64 {
	return rng.Seed(j.seed, rng.Craft, uint64(j.set), which)
}

// model trains a model, or reads it if the folder holds it.
func (j *crafting) model(ctx context.Context, stage string, d *train.Data, cfg train.Config) (*models.Model, error) {
	m, err := models.New(j.dev, j.recipe.Arch.Net())
	if err != nil {
		return nil, err
	}
	kept, err := j.work.model(j.set, stage, m)
	if err == nil && kept < 0 {
		err = j.timed(stage, func() error {
			_, err := train.Run(ctx, m, d, cfg, train.Options{
				Progress: j.progress(stage), State: j.work.state(j.set, stage), StateEvery: stateEvery,
			})
			return err
		})
		if err == nil {
			err = j.work.keep(j.set, stage, m, j.out.Seconds[stage])
		}
	} else if err == nil {
		j.out.Seconds[stage] = kept
	}
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("crafting set %d, %s: %w", j.set, stage, err)
	}
	return m, nil
}

// load puts a data set on the device, in the memory of the one before it.
func (j *crafting) load(to **train.Data, d audit.Dataset) error {
	if *to == nil {
		// D is the longest that either will hold.
		data, err := train.Reserve(j.dev, j.d.Len(), j.d.Shape())
		if err != nil {
			return err
		}
		*to = data
	}
	return (*to).Load(d)
}

func (j *crafting) timed(stage string, do func() error) error {
	start := time.Now()
	err := do()
	j.out.Seconds[stage] += time.Since(start).Seconds()
	return err
}

func (j *crafting) progress(stage string) func(done, total int) {
	if j.opts.Progress == nil {
		return nil
	}
	return func(done, total int) { j.opts.Progress(j.set, stage, done, total) }
}
