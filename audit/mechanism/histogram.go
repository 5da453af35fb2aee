package mechanism

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// Histogram is the vote histogram that Private Evolution releases of its users
// (arXiv:2609.13499, section 2): each record votes for the K candidates of the bank
// that are nearest to it, a user's votes are averaged over records and clipped,
// and the sum over the users who take part is released with noise,
//
//	Y = Σ_u b_u v_u + N(0, (Noise·Clip)² I),  v_u = h_u min(1, Clip/‖h_u‖),
//
// with b_u independent coins of probability Rate. Neighbouring data differ by one
// user, present or not.
type Histogram struct {
	Slots int     // p, candidates in the bank
	K     int     // votes of a record
	Cap   int     // m, records of a user that vote, at most
	Clip  float64 // C, largest L2 norm of a user's vector over all slots
	Noise float64 // σ, noise multiplier: the standard deviation of a slot is σC
	Rate  float64 // q, probability that a user takes part
}

// Check refuses what is no mechanism.
func (h Histogram) Check() error {
	switch {
	case h.Slots < 1:
		return fmt.Errorf("mechanism: slots: %d, expected 1 or more", h.Slots)
	case h.K < 1 || h.K > h.Slots:
		return fmt.Errorf("mechanism: k: %d, expected 1 to the %d slots", h.K, h.Slots)
	case h.Cap < 1:
		return fmt.Errorf("mechanism: record cap: %d, expected 1 or more", h.Cap)
	case !(h.Clip > 0) || math.IsInf(h.Clip, 0):
		return fmt.Errorf("mechanism: clip: %v, expected a finite number above 0", h.Clip)
	case !(h.Noise > 0) || math.IsInf(h.Noise, 0):
		return fmt.Errorf("mechanism: noise multiplier: %v, expected a finite number above 0", h.Noise)
	case !(h.Rate > 0 && h.Rate <= 1):
		return fmt.Errorf("mechanism: participation rate: %v, expected a number above 0, at most 1", h.Rate)
	}
	return nil
}

// Vote is one entry of a user's vector.
type Vote struct {
	Slot   int
	Weight float64
}

// Votes is a user's vector v_u, its entries that are not 0, by ascending slot. A
// record votes for nearest[i·K:(i+1)·K], different slots; records beyond the cap do
// not vote. A user without records votes for nothing. The norm that Clip bounds is
// over all slots, whatever an audit looks at.
func (h Histogram) Votes(nearest []int32) ([]Vote, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	if len(nearest)%h.K != 0 {
		return nil, fmt.Errorf("mechanism: %d nearest slots, expected %d for each record", len(nearest), h.K)
	}
	records := min(len(nearest)/h.K, h.Cap)
	if records == 0 {
		return nil, nil
	}
	for r := range records {
		of := nearest[r*h.K : (r+1)*h.K]
		for i, s := range of {
			if slices.Contains(of[:i], s) {
				return nil, fmt.Errorf("mechanism: record %d votes twice for slot %d", r, s)
			}
		}
	}
	sorted := slices.Clone(nearest[:records*h.K])
	slices.Sort(sorted)
	if sorted[0] < 0 || int(sorted[len(sorted)-1]) >= h.Slots {
		return nil, fmt.Errorf("mechanism: a vote for slot %d or %d, expected 0 to %d", sorted[0], sorted[len(sorted)-1], h.Slots-1)
	}
	var votes []Vote
	squares := 0 // of counts: exact
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		votes = append(votes, Vote{int(sorted[i]), float64(j - i)})
		squares += (j - i) * (j - i)
		i = j
	}
	// ‖h‖ = √squares / total
	total := float64(len(sorted))
	scale := math.Min(1/total, h.Clip/math.Sqrt(float64(squares)))
	for i := range votes {
		votes[i].Weight *= scale
	}
	return votes, nil
}

// Norm is the L2 norm of a vector.
func Norm(votes []Vote) float64 {
	s := 0.0
	for _, v := range votes {
		s += v.Weight * v.Weight
	}
	return math.Sqrt(s)
}

// Event is one release as accountants know it: one user's part has a norm of at
// most Clip, and the noise σC.
func (h Histogram) Event() accounting.Event {
	return accounting.PoissonSampledGaussian{SampleRate: h.Rate, NoiseMultiplier: h.Noise}
}

// Rand is what Release draws from.
type Rand interface {
	Float64() float64
	NormFloat64() float64
}

// Release draws one release Y [Slots] of these users. Its noise is of floating
// point numbers, whose last bits tell something of the sum (Mironov 2012): it is for
// tests and for banks of an audit, not for protecting anybody.
func (h Histogram) Release(users [][]Vote, r Rand) []float64 {
	y := make([]float64, h.Slots)
	for _, votes := range users {
		if r.Float64() >= h.Rate {
			continue
		}
		for _, v := range votes {
			y[v.Slot] += v.Weight
		}
	}
	for i := range y {
		y[i] += h.Noise * h.Clip * r.NormFloat64()
	}
	return y
}
