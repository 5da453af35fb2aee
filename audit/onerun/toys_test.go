package onerun

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/rng"
)

// toyData is n examples of shape [2 2 1] in 4 classes; example i is told from
// the others by its first pixel.
type toyData int

func (d toyData) Len() int     { return int(d) }
func (d toyData) Shape() []int { return []int{2, 2, 1} }
func (d toyData) Classes() int { return 4 }

func (d toyData) Example(i int, x []float32) int {
	x[0], x[1], x[2], x[3] = float32(i), .5, -float32(i%7), 1
	return i % 4
}

// blind returns noise and looks at nothing but the seed.
type blind struct{}

func (blind) Train(_ context.Context, job audit.Job) (audit.Result, error) {
	r := rng.New(job.Seed, rng.Mechanism)
	losses := make([]float64, job.Canaries.Len())
	for i := range losses {
		losses[i] = r.NormFloat64()
	}
	return audit.Result{Losses: losses, TestAccuracy: math.NaN()}, nil
}

// hint is blind, but the losses of members are lower by .05.
type hint struct{}

func (hint) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	r, err := blind{}.Train(ctx, job)
	for i, in := range isIn(job) {
		if in {
			r.Losses[i] -= .05
		}
	}
	return r, err
}

// isIn finds the canaries in the training data by their pixels and label.
func isIn(job audit.Job) []bool {
	type example struct {
		x     [4]float32
		label int
	}
	at := func(d audit.Dataset, i int) (e example) {
		e.label = d.Example(i, e.x[:])
		return e
	}
	there := map[example]bool{}
	for i := range job.Train.Len() {
		there[at(job.Train, i)] = true
	}
	in := make([]bool, job.Canaries.Len())
	for i := range in {
		in[i] = there[at(job.Canaries, i)]
	}
	return in
}

// toyTrainer gives members a lower loss, saves a model if asked to, and counts
// its runs. It takes steps, tells of them, and stops when its context ends,
// leaving a state; a state makes it take fewer steps.
type toyTrainer struct {
	runs  int
	seeds []uint64
	fail  error // what Train returns, if set
	// step, if set, is called before each of the 4 steps of a run.
	step func(run, step int)
}

func (t *toyTrainer) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	t.runs++
	t.seeds = append(t.seeds, job.Seed)
	if t.fail != nil {
		return audit.Result{}, t.fail
	}
	r, err := hint{}.Train(ctx, job)
	if err != nil {
		return r, err
	}
	first := 0
	if text, err := os.ReadFile(job.State); err == nil {
		if first, err = strconv.Atoi(string(text)); err != nil {
			return r, err
		}
	}
	for step := first; step < 4; step++ {
		if t.step != nil {
			t.step(t.runs, step)
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if job.State != "" {
			if err := os.WriteFile(job.State, []byte(strconv.Itoa(step)), 0o644); err != nil {
				return r, err
			}
		}
		job.Progress(step+1, 4)
	}
	if job.Model != "" {
		if err := os.WriteFile(job.Model, []byte(fmt.Sprint(job.Seed)), 0o644); err != nil {
			return r, err
		}
	}
	for i := range r.Losses {
		r.Losses[i] /= 3 // so that decimals are long
	}
	r.TestAccuracy = .875
	accuracy := .75
	r.Curve = []audit.Point{{Epoch: 1, Step: 4, TrainLoss: 1. / 3, TestAccuracy: &accuracy}}
	return r, nil
}

// toyGame is a small game of two methods, 2 sets and 2 audits: 8 units.
func toyGame(dir string) (Game, *toyTrainer) {
	trainer := &toyTrainer{}
	return Game{
		Data: toyData(120), Trainer: trainer, Selectors: []audit.Selector{Random(), Mislabeled()},
		NumCanaries: 40, Sets: 2, Audits: 2, Seed: 11, Dir: dir, KeepModels: true,
		Header:   audit.Report{Data: "toys", Model: "none", Recipe: "short", Device: "cpu"},
		Progress: func(Progress) {},
	}, trainer
}

func writeCanaries(sets []*audit.CanarySet) func(io.Writer) error {
	return func(w io.Writer) error { return scoreio.WriteCanaries(w, sets...) }
}

func scoresIn(t *testing.T, path string) []float64 {
	t.Helper()
	rows, err := scoreio.ReadScores(path)
	if err != nil {
		t.Fatal(err)
	}
	return scoreio.Scores(rows).Value
}
