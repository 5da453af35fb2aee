package multirun

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
)

// newTrainingSet is D ∪ S. If fixed, the canaries that are out leave their
// places to copies of examples of D that no canary displaces.
func newTrainingSet(d audit.Dataset, c *audit.CanarySet, in []bool, fixed bool) (audit.Dataset, error) {
	if !fixed {
		s := onerun.TrainingSet(d, c, in)
		if s.Len() == 0 {
			return nil, fmt.Errorf("no example is left to train on")
		}
		return s, nil
	}
	kept := onerun.TrainingSet(d, c, make([]bool, c.Len()))
	if kept.Len() < 1 {
		return nil, fmt.Errorf("%d canaries displace all %d examples, expected some that stay", c.Len(), d.Len())
	}
	return placed{kept, c, in}, nil
}

// placed is the examples that no canary displaces and after them a place for
// each canary. The place of one that is out holds a copy of an example that is
// there already: examples far from each other, so that none weighs much more.
// So sets that differ in one canary differ in one place, and a training with the
// same seed meets all others in the same batches. Leaving the place out would
// shuffle all of them anew, which moves scores as much as interference does.
type placed struct {
	audit.Dataset // kept
	canaries      *audit.CanarySet
	in            []bool
}

// Len implements audit.Dataset.
func (p placed) Len() int { return p.Dataset.Len() + len(p.in) }

// Example implements audit.Dataset.
func (p placed) Example(i int, x []float32) int {
	n := p.Dataset.Len()
	if i < n {
		return p.Dataset.Example(i, x)
	}
	k := i - n
	if p.in[k] {
		return p.canaries.Example(k, x)
	}
	return p.Dataset.Example(k*n/len(p.in), x)
}
