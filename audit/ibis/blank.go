package ibis

import (
	"context"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Blank makes canaries of blank images, all zeros, each with a label at random
// (Nasr et al. 2023). Blank images of one label are the same example, and those
// of different labels contradict each other, so that many of them in one run
// interfere as much as canaries can: it is the counterexample to IBIS.
//
// They need no example to be taken out. They displace random ones all the same,
// the ones that onerun.Random and onerun.Mislabeled take, since methods are
// compared pair by pair: the rest of the training data, the number of steps,
// and the batches are then the same for all.
func Blank() audit.Selector { return blank{} }

type blank struct{}

func (blank) Name() string { return "blank" }

// Displaced implements onerun.Displacer.
func (blank) Displaced(m, _ int) int { return m }

func (blank) Select(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	c, err := onerun.Random().Select(ctx, d, m, set, seed)
	if err != nil {
		return nil, err
	}
	c.Method = "blank"
	clear(c.X)
	r := rng.New(seed, rng.Blank, uint64(set))
	for i := range c.Y {
		c.Y[i] = r.Int32N(int32(d.Classes()))
	}
	return c, nil
}
