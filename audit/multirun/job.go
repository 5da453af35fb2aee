package multirun

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit"
)

// Trial is one training.
type Trial struct {
	In   []bool // which of the canaries are in the training data
	Seed uint64 // of all the training's randomness
}

// Plan is a list of trials that follows from a few numbers.
type Plan interface {
	// Trials are in the order in which they are done.
	Trials() []Trial
	// Watched are the canaries whose losses are kept, ascending.
	Watched() []int
	// Fixed says that a canary that is out leaves its place to a second copy of
	// a training example, so that all trials have batches in the same order; if
	// not, it is not there.
	Fixed() bool
}

// Job is a plan and what it is done with.
type Job struct {
	Data     audit.Dataset    // D, with the examples that canaries displace
	Canaries *audit.CanarySet // as many as the plan has coins for
	Trainer  audit.Trainer
	Design   Design

	// Model, Recipe and Device name what the trainer trains, how and on what: a
	// job goes on with the same only.
	Model, Recipe, Device string

	// Of the trials those with index ≡ Shard modulo Shards are done here.
	// Shards is 1 or more, and Shard is from 0 on.
	Shard, Shards int

	// Dir keeps what is finished. One that holds a job already is refused unless
	// Resume is set; then the job goes on.
	Dir    string
	Resume bool

	// Progress, if set, is told what happens, from one goroutine at a time.
	Progress func(Progress)
}

// Progress says how far a job is.
type Progress struct {
	Done, Total int    // trials of this shard
	Step, Steps int    // of the running training; 0 of 0 if not told
	Note        string // something people should know; all else is zero then
}

// maxLoss keeps sums of squares of losses finite.
const maxLoss = 1e100

// Run does the trials of the shard that Dir does not hold yet. If that leaves
// none of the whole job undone, it returns the losses of the watched canaries,
// [trials][watched], and else nil. After an error or a cancelled ctx, Dir keeps
// what was finished.
func (j Job) Run(ctx context.Context) ([][]float64, error) {
	plan, err := j.check()
	if err != nil {
		return nil, err
	}
	st, err := j.open()
	if err != nil {
		return nil, err
	}
	defer st.close()
	trials, watched := plan.Trials(), plan.Watched()
	mine := 0
	for i := range trials {
		if i%j.Shards == j.Shard {
			mine++
		}
	}
	at := Progress{Total: mine}
	for i, trial := range trials {
		if i%j.Shards != j.Shard {
			continue
		}
		if st.losses[i] == nil {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			losses, err := j.train(ctx, plan, trial, st.stateFile(i), at)
			if err != nil {
				return nil, fmt.Errorf("trial %d of %d: %w", i, len(trials), err)
			}
			kept := make([]float64, len(watched))
			for k, c := range watched {
				kept[k] = losses[c]
			}
			if err := st.finished(i, kept); err != nil {
				return nil, err
			}
		}
		at.Done++
		j.tell(at)
	}
	if slices.ContainsFunc(st.losses, func(l []float64) bool { return l == nil }) {
		return nil, nil
	}
	return st.losses, nil
}

// train does one trial and returns the losses of all canaries.
func (j *Job) train(ctx context.Context, plan Plan, t Trial, state string, at Progress) ([]float64, error) {
	data, err := newTrainingSet(j.Data, j.Canaries, t.In, plan.Fixed())
	if err != nil {
		return nil, err
	}
	job := audit.Job{Seed: t.Seed, Train: data, Canaries: j.Canaries, State: state}
	job.Progress = func(step, steps int) {
		at.Step, at.Steps = step, steps
		j.tell(at)
	}
	r, err := j.Trainer.Train(ctx, job)
	if err != nil {
		return nil, err
	}
	if len(r.Losses) != j.Canaries.Len() {
		return nil, fmt.Errorf("the trainer returned %d losses, expected one for each of %d canaries", len(r.Losses), j.Canaries.Len())
	}
	for i, loss := range r.Losses {
		if !(math.Abs(loss) <= maxLoss) { // NaN too
			return nil, fmt.Errorf("the loss of canary %d is %v, expected a finite number below %g: the training may have diverged", i, loss, maxLoss)
		}
	}
	return r.Losses, nil
}

func (j *Job) tell(p Progress) {
	if j.Progress != nil {
		j.Progress(p)
	}
}

// check refuses what can be refused before anything is touched.
func (j *Job) check() (Plan, error) {
	switch {
	case j.Data == nil || j.Data.Len() == 0:
		return nil, fmt.Errorf("multirun: no training data")
	case j.Trainer == nil:
		return nil, fmt.Errorf("multirun: no trainer")
	case j.Dir == "":
		return nil, fmt.Errorf("multirun: no folder")
	case j.Canaries == nil || j.Canaries.Len() == 0:
		return nil, fmt.Errorf("multirun: no canaries")
	case j.Shards < 1 || j.Shard < 0 || j.Shard >= j.Shards:
		return nil, fmt.Errorf("multirun: shard %d of %d, expected one from 0 to below their number", j.Shard, j.Shards)
	}
	plan, err := j.Design.Plan()
	if err != nil {
		return nil, err
	}
	for _, t := range plan.Trials() {
		if len(t.In) != j.Canaries.Len() {
			return nil, fmt.Errorf("multirun: a plan for %d canaries, but there are %d", len(t.In), j.Canaries.Len())
		}
	}
	smallest, err := newTrainingSet(j.Data, j.Canaries, make([]bool, j.Canaries.Len()), plan.Fixed())
	if err != nil {
		return nil, fmt.Errorf("multirun: %w", err)
	}
	// A trainer that can tell at once whether it takes the data is asked.
	if c, ok := j.Trainer.(interface{ Check(audit.Dataset) error }); ok {
		return plan, c.Check(smallest)
	}
	return plan, nil
}
