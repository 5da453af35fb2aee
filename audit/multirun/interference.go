package multirun

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aviary-audit/aviary/internal/rng"
)

// Interference toggles single canaries. For toggled canaries z and random
// subsets S of the set (each canary with probability 1/2) it gives the gap
//
//	Δ(z, S) = s(θ(D ∪ S ∪ {z}), z) − s(θ(D ∪ S \ {z}), z),  s = −loss
//
// (arXiv:2605.27292, section 5.2). A training on S itself is one side of the
// pairs of all z, so that a subset costs 1 + toggled trainings. All trainings
// have the same seed, and the same batches but for the places of the canaries
// (see Plan.Fixed): what varies in Δ(z, ·) then is S and nothing else.
type Interference struct {
	Set      int    `json:"set"`
	Canaries int    `json:"canaries"` // in the set
	Toggled  int    `json:"toggled"`
	Subsets  int    `json:"subsets"`
	Seed     uint64 `json:"seed"`
}

// The streams of a measurement, after the number of the set.
const (
	toggleWhich = iota
	toggleSubset
	toggleTrain
	toggleResample
)

func (f Interference) check() error {
	switch {
	case f.Set < 0:
		return fmt.Errorf("multirun: set %d, expected 0 or more", f.Set)
	case f.Canaries < 2:
		return fmt.Errorf("multirun: %d canaries, expected 2 or more: one has nobody to interfere with", f.Canaries)
	case f.Toggled < 1 || f.Toggled > f.Canaries:
		return fmt.Errorf("multirun: %d toggled canaries, expected 1 to the %d that there are", f.Toggled, f.Canaries)
	case f.Subsets < 2:
		return fmt.Errorf("multirun: %d subsets, expected 2 or more for a variance", f.Subsets)
	}
	return nil
}

// Trials implements Plan: of each subset its own training, then one for each
// watched canary, toggled.
func (f Interference) Trials() []Trial {
	watched := f.Watched()
	seed := rng.Seed(f.Seed, rng.Toggle, uint64(f.Set), toggleTrain)
	var trials []Trial
	for k := range f.Subsets {
		r := rng.New(f.Seed, rng.Toggle, uint64(f.Set), toggleSubset, uint64(k))
		base := make([]bool, f.Canaries)
		for i := range base {
			base[i] = r.Uint64()>>63 == 1
		}
		trials = append(trials, Trial{base, seed})
		for _, z := range watched {
			in := slices.Clone(base)
			in[z] = !in[z]
			trials = append(trials, Trial{in, seed})
		}
	}
	return trials
}

// Watched implements Plan: the canaries that are toggled.
func (f Interference) Watched() []int {
	order := rng.New(f.Seed, rng.Toggle, uint64(f.Set), toggleWhich).Perm(f.Canaries)
	return slices.Sorted(slices.Values(order[:f.Toggled]))
}

// Fixed implements Plan.
func (Interference) Fixed() bool { return true }

// CanaryGap is what one canary's toggles gave.
type CanaryGap struct {
	Canary   int       `json:"canary"`
	Gaps     []float64 `json:"gaps"`     // Δ(z, S) of each subset
	Mean     float64   `json:"mean"`     // over the subsets
	Variance float64   `json:"variance"` // over the subsets, unbiased
	// Ratio is Variance / Mean². Of few subsets it is too large on average, by
	// about 1 + 3·Ratio/subsets, and wild where the mean is near 0; nil if it is 0.
	Ratio *float64 `json:"ratio"`
}

// Measured is the interference within a set.
type Measured struct {
	Canaries []CanaryGap `json:"canaries"`
	MeanGap  float64     `json:"mean_gap"` // over canaries and subsets
	// Ratio is the mean over canaries of Variance, divided by MeanGap²: the
	// normalisation of the paper, by "the squared mean gap across canaries".
	Ratio Interval `json:"interference"`
	// Median is that of the canaries' own ratios.
	Median Interval `json:"median_ratio"`
}

// Interval is a value with its 95 % bootstrap percentile interval over canaries,
// which were drawn from the set; subsets and training are taken as they are. nil
// is "not finite".
type Interval struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

const (
	resamples = 1999 // so that the ranks of both ends are whole
	tailRank  = 50   // (resamples+1) · 2.5 %
)

// Measure turns the losses that Job.Run returns into gaps.
func (f Interference) Measure(losses [][]float64) (*Measured, error) {
	trials, watched := f.Trials(), f.Watched()
	if len(losses) != len(trials) {
		return nil, fmt.Errorf("multirun: losses of %d trials, expected %d", len(losses), len(trials))
	}
	m := &Measured{}
	for j, z := range watched {
		g := CanaryGap{Canary: z}
		for k := range f.Subsets {
			base := k * (1 + f.Toggled)
			gap := losses[base+1+j][j] - losses[base][j] // out: the toggled training, if z is in the base
			if !trials[base].In[z] {
				gap = -gap
			}
			g.Gaps = append(g.Gaps, gap)
		}
		g.Mean, g.Variance = moments(g.Gaps)
		g.Ratio = finite(g.Variance / (g.Mean * g.Mean))
		m.Canaries = append(m.Canaries, g)
	}
	m.MeanGap, _ = moments(column(m.Canaries, func(g CanaryGap) float64 { return g.Mean }))
	r := rng.New(f.Seed, rng.Toggle, uint64(f.Set), toggleResample)
	m.Ratio = interval(r, m.Canaries, ratio)
	m.Median = interval(r, m.Canaries, medianRatio)
	return m, nil
}

// ratio is the mean variance over the squared mean gap.
func ratio(gs []CanaryGap) float64 {
	gap, _ := moments(column(gs, func(g CanaryGap) float64 { return g.Mean }))
	variance, _ := moments(column(gs, func(g CanaryGap) float64 { return g.Variance }))
	return variance / (gap * gap)
}

func medianRatio(gs []CanaryGap) float64 {
	v := column(gs, func(g CanaryGap) float64 {
		if g.Ratio == nil {
			return math.Inf(1)
		}
		return *g.Ratio
	})
	slices.Sort(v)
	n := len(v)
	return v[(n-1)/2]/2 + v[n/2]/2
}

func column(gs []CanaryGap, of func(CanaryGap) float64) []float64 {
	v := make([]float64, len(gs))
	for i, g := range gs {
		v[i] = of(g)
	}
	return v
}

// moments are the mean and the unbiased variance, NaN of a single value.
func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(v)-1)
}

// interval draws canaries anew. What cannot be computed of a draw counts as
// infinite.
func interval(r *rand.Rand, gs []CanaryGap, of func([]CanaryGap) float64) Interval {
	draws := make([]float64, resamples)
	again := make([]CanaryGap, len(gs))
	for i := range draws {
		for k := range again {
			again[k] = gs[r.IntN(len(gs))]
		}
		if draws[i] = of(again); math.IsNaN(draws[i]) {
			draws[i] = math.Inf(1)
		}
	}
	slices.Sort(draws)
	return Interval{finite(of(gs)), finite(draws[tailRank-1]), finite(draws[resamples-tailRank])}
}

// finite is nil of what JSON cannot hold.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
