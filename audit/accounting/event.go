package accounting

import (
	"fmt"
	"math"
)

// Relation says which data sets are neighbours.
type Relation int

const (
	// AddRemove: one has one record more than the other. A mechanism's two
	// directions, the record in or out, are both accounted.
	AddRemove Relation = iota
	// Replace: one record differs.
	Replace
)

// String gives the name used in reports.
func (r Relation) String() string {
	switch r {
	case AddRemove:
		return "add/remove"
	case Replace:
		return "replace"
	}
	return fmt.Sprintf("Relation(%d)", int(r))
}

// Event describes a mechanism: what was released, not how it is accounted. The
// descriptions of this package are Gaussian, PoissonSampledGaussian, Laplace,
// SelfComposed and Composed; accountants refuse any other by its type's name.
// The meaning of a description never changes.
type Event interface {
	// Name describes the event in words, for reports and errors.
	Name() string
}

// Gaussian is a sum of vectors, each of norm at most C, released with noise
// N(0, (NoiseMultiplier C)^2) in each coordinate.
type Gaussian struct {
	NoiseMultiplier float64
	Relation        Relation
}

// Name implements Event.
func (e Gaussian) Name() string { return fmt.Sprintf("Gaussian, noise %g", e.NoiseMultiplier) }

// PoissonSampledGaussian is a Gaussian release of the sum over a random part of
// the data: each record is in it with probability SampleRate, independently.
type PoissonSampledGaussian struct {
	SampleRate      float64
	NoiseMultiplier float64
	Relation        Relation
}

// Name implements Event.
func (e PoissonSampledGaussian) Name() string {
	return fmt.Sprintf("Poisson-sampled Gaussian, rate %g, noise %g", e.SampleRate, e.NoiseMultiplier)
}

// Laplace is a number to which one record adds at most C in absolute value,
// released with Laplace noise of scale Scale times C: pure 1/Scale-DP if a
// record is added or removed.
type Laplace struct {
	Scale    float64
	Relation Relation
}

// Name implements Event.
func (e Laplace) Name() string { return fmt.Sprintf("Laplace, scale %g", e.Scale) }

// SelfComposed is Event released Count times with fresh noise; each release may
// depend on those before.
type SelfComposed struct {
	Event Event
	Count int
}

// Name implements Event.
func (e SelfComposed) Name() string {
	if e.Event == nil {
		return fmt.Sprintf("%d × nothing", e.Count)
	}
	return fmt.Sprintf("%d × (%s)", e.Count, e.Event.Name())
}

// Composed is several events one after another; each may depend on those before.
type Composed []Event

// Name implements Event.
func (e Composed) Name() string { return fmt.Sprintf("composition of %d events", len(e)) }

// DPSGD is training by DP-SGD for a number of steps, the batch of each drawn
// anew by Poisson sampling.
func DPSGD(sampleRate, noiseMultiplier float64, steps int) Event {
	return SelfComposed{PoissonSampledGaussian{SampleRate: sampleRate, NoiseMultiplier: noiseMultiplier}, steps}
}

// phase is one atomic event and how often it happens.
type phase struct {
	event Event
	count int
}

// flat is a checked event: atomic phases that cost something, all with one
// relation.
type flat struct {
	phases   []phase
	relation Relation
	// noiseless: some phase has no noise at all, so that ε is infinite.
	noiseless bool
	// far bounds how far all of it is, in total variation, from no release at all.
	far float64
}

// maxCount bounds the number of releases, so that counts multiply safely and
// rounding stays far below every δ that is accepted.
const maxCount = 100_000_000

// flatten checks e and takes it apart. Events that cost nothing (never sampled,
// infinite noise, no times) or next to nothing are dropped.
func flatten(e Event) (flat, error) {
	var f flat
	var first Event
	add := func(atom Event, relation Relation, count int, distance float64) error {
		if relation != AddRemove && relation != Replace {
			return fmt.Errorf("relation of %s: %v is neither AddRemove nor Replace", atom.Name(), relation)
		}
		if first == nil {
			first, f.relation = atom, relation
		} else if relation != f.relation {
			return fmt.Errorf("relation of %s: %v, but %s has %v; one composition has one relation",
				atom.Name(), relation, first.Name(), f.relation)
		}
		if count = costs(count, distance); count > 0 {
			f.phases = append(f.phases, phase{atom, count})
			f.far += float64(count) * math.Abs(distance)
		}
		return nil
	}
	var walk func(e Event, count int) error
	walk = func(e Event, count int) error {
		switch e := e.(type) {
		case Gaussian:
			if err := checkNoise("noise multiplier", e.NoiseMultiplier); err != nil {
				return err
			}
			f.noiseless = f.noiseless || e.NoiseMultiplier == 0 && count > 0
			return add(e, e.Relation, count, 0.4/e.NoiseMultiplier)
		case PoissonSampledGaussian:
			if !(e.SampleRate >= 0 && e.SampleRate <= 1) {
				return fmt.Errorf("sample rate: %g is not a probability, from 0 to 1", e.SampleRate)
			}
			if err := checkNoise("noise multiplier", e.NoiseMultiplier); err != nil {
				return err
			}
			f.noiseless = f.noiseless || e.NoiseMultiplier == 0 && e.SampleRate > 0 && count > 0
			return add(e, e.Relation, count, e.SampleRate*math.Min(1, 0.4/math.Abs(e.NoiseMultiplier)))
		case Laplace:
			if err := checkNoise("Laplace scale", e.Scale); err != nil {
				return err
			}
			f.noiseless = f.noiseless || e.Scale == 0 && count > 0
			return add(e, e.Relation, count, 0.5/e.Scale)
		case SelfComposed:
			if e.Count < 0 || e.Count > maxCount || (count > 0 && e.Count > maxCount/count) {
				return fmt.Errorf("steps: %d is not a number of steps, from 0 to %d", e.Count, maxCount)
			}
			return walk(e.Event, count*e.Count)
		case Composed:
			for _, part := range e {
				if err := walk(part, count); err != nil {
					return err
				}
			}
			return nil
		}
		return fmt.Errorf("event: no accountant knows a %T", e)
	}
	if err := walk(e, 1); err != nil {
		return flat{}, fmt.Errorf("accounting: %w", err)
	}
	if f.far < minDelta/2 && !f.noiseless { // so that ε is 0 at every δ that is accepted
		f.phases = nil
	}
	return f, nil
}

// costs is count, or 0 if that many releases are together within 1e-18 of no
// release at all, in total variation; distance bounds one. No δ that is accepted
// can tell. (A Gaussian of noise s is within 1/(s√2π), Laplace within 1/2s.)
func costs(count int, distance float64) int {
	if float64(count)*math.Abs(distance) < 1e-18 {
		return 0
	}
	return count
}

func checkNoise(name string, v float64) error {
	if !(v >= 0) {
		return fmt.Errorf("%s: %g is not a number from 0 up", name, v)
	}
	return nil
}

// Deltas below minDelta drown in the rounding of a composition in float64.
const minDelta = 1e-12

func checkDelta(delta float64) error {
	if !(delta >= minDelta && delta < 1) {
		return fmt.Errorf("accounting: delta: %g is not from %g up and below 1", delta, minDelta)
	}
	return nil
}

// gaussians is the μ of the one Gaussian that all of f amounts to, and whether f
// is nothing but Gaussians: k releases with noise s are as good as one with
// noise s/√k (Dong, Roth and Su 2022, corollary 3.3), and replacing a record
// moves a sum twice as far as removing it.
func (f flat) gaussians() (mu float64, all bool) {
	for _, p := range f.phases {
		var sigma float64
		switch e := p.event.(type) {
		case Gaussian:
			sigma = e.NoiseMultiplier
		case PoissonSampledGaussian:
			if e.SampleRate < 1 {
				return 0, false
			}
			sigma = e.NoiseMultiplier
		default:
			return 0, false
		}
		if f.relation == Replace {
			sigma /= 2
		}
		mu = math.Hypot(mu, math.Sqrt(float64(p.count))/sigma)
	}
	return mu, true
}
