package multirun

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Worlds is an audit of two worlds: D' ∪ {z} against D', with D' the training
// data less the example that the canary z displaces. All other examples stay,
// those that other canaries of the set displace as well: the neighbours are
// those of the data that people have, and one record apart. Every trial has a
// training seed of its own, for the randomness of training is part of the
// mechanism.
type Worlds struct {
	Set    int    `json:"set"`    // number of the canary's set
	Canary int    `json:"canary"` // its number there
	Runs   int    `json:"runs"`   // trials in each world
	Seed   uint64 `json:"seed"`
}

func (w Worlds) check() error {
	if w.Set < 0 || w.Canary < 0 || w.Runs < 1 {
		return fmt.Errorf("multirun: set %d, canary %d, %d runs in each world: expected 0 or more, 0 or more, 1 or more", w.Set, w.Canary, w.Runs)
	}
	return nil
}

// Trials implements Plan: as many with the canary as without, in random order.
func (w Worlds) Trials() []Trial {
	trials := make([]Trial, 2*w.Runs)
	order := rng.New(w.Seed, rng.Worlds, uint64(w.Set), uint64(w.Canary)).Perm(len(trials))
	for i, k := range order {
		trials[i] = Trial{In: []bool{k < w.Runs}, Seed: rng.Seed(w.Seed, rng.Worlds, uint64(w.Set), uint64(w.Canary), uint64(i))}
	}
	return trials
}

// Watched implements Plan: the canary, which is the only one.
func (Worlds) Watched() []int { return []int{0} }

// Fixed implements Plan: who trains without a record has no copy in its place.
func (Worlds) Fixed() bool { return false }

// Scores are the rows of a score file, one for each trial, given the losses
// that Job.Run returns. The number of the trial is that of the audit.
func (w Worlds) Scores(losses [][]float64) []scoreio.Row {
	rows := make([]scoreio.Row, len(losses))
	for i, t := range w.Trials() {
		rows[i] = scoreio.Row{Set: w.Set, Audit: i, Canary: w.Canary, Member: t.In[0], Score: -losses[i][0]}
	}
	return rows
}
