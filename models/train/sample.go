package train

import (
	"math"

	"github.com/aviary-audit/aviary/internal/rng"
)

// sampler tells which examples a step sees, and in which order.
type sampler struct {
	cfg   Config
	n     int
	order []int // the shuffle of epoch
	epoch int
}

func newSampler(cfg Config, n int) *sampler { return &sampler{cfg: cfg, n: n, epoch: -1} }

// batch is the examples of a step. It is valid until the next call.
func (s *sampler) batch(step int) []int {
	if s.cfg.Private() {
		s.order = poisson(s.order[:0], s.cfg.Seed, step, s.n, s.cfg.SampleRate(s.n))
		return s.order
	}
	perEpoch := s.cfg.StepsPerEpoch(s.n)
	if e := step / perEpoch; e != s.epoch {
		s.epoch = e
		s.order = rng.New(s.cfg.Seed, rng.Shuffle, uint64(e)).Perm(s.n)
	}
	from := step % perEpoch * s.cfg.Batch
	return s.order[from:min(from+s.cfg.Batch, s.n)]
}

// poisson appends the examples that a step's coins choose, each of n with
// probability q, in ascending order. Instead of n coins it draws the gaps
// between successes, which are geometric: P(gap > g) = (1-q)^g, so a gap is
// 1 + ⌊ln(1-u)/ln(1-q)⌋ for uniform u in [0, 1).
func poisson(chosen []int, seed uint64, step, n int, q float64) []int {
	r := rng.New(seed, rng.Poisson, uint64(step))
	never := math.Log1p(-q)
	for i := -1; ; {
		gap := math.Floor(math.Log1p(-r.Float64()) / never)
		if !(gap < float64(n)) { // also where q is too small for any gap
			return chosen
		}
		i += 1 + int(gap)
		if i >= n {
			return chosen
		}
		chosen = append(chosen, i)
	}
}
