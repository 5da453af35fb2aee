package pe

import (
	"math"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// PrefixTheory is what the mechanism allows after some releases, and what trials can
// show of it.
type PrefixTheory struct {
	Releases int      `json:"releases"`
	Theory   Theory   `json:"theory"`
	Ceiling  Expected `json:"ceiling"` // of a perfect canary, at this number of trials
}

// Theory is the ε of the mechanism for one user more or less.
type Theory struct {
	Lower    float64 `json:"lower"`
	Estimate float64 `json:"estimate"`
	Upper    float64 `json:"upper"`
	Opacus   float64 `json:"opacus"` // as Opacus prints it
	// Reverse is all that the reverse direction can show, -rounds·ln(1-q); nil if
	// everybody takes part.
	Reverse *float64 `json:"reverse_limit,omitempty"`
}

// MechanismTheory is the ε of rounds releases.
func MechanismTheory(rate, noise float64, rounds int, delta float64) (Theory, error) {
	e := accounting.DPSGD(rate, noise, rounds)
	c, err := accounting.NewCurve(e, delta)
	if err != nil {
		return Theory{}, err
	}
	eps, err := c.Epsilon(delta)
	if err != nil {
		return Theory{}, err
	}
	t := Theory{Lower: eps.Lower, Estimate: eps.Estimate, Upper: eps.Upper, Reverse: reverseLimit(rate, rounds)}
	if rate < 1 {
		o, err := accounting.Opacus(e, delta)
		if err != nil {
			return Theory{}, err
		}
		t.Opacus = o.Upper
	}
	return t, nil
}

// Theory is ε and ceilings after each of the first releases. A ceiling is what the
// protocol prints, on average, of the best canary that there can be: all that it
// adds is observed and has the norm C, and nobody else is there. Its attack has the
// ε of the mechanism.
func (p Protocol) Theory(rate, noise float64, releases int) ([]PrefixTheory, error) {
	var channels []*Channel
	for range releases {
		channels = append(channels, perfect(rate, noise))
	}
	tails, _, err := laws(channels)
	if err != nil {
		return nil, err
	}
	var out []PrefixTheory
	for t, l := range tails {
		r := PrefixTheory{Releases: t + 1}
		if r.Theory, err = MechanismTheory(rate, noise, t+1, p.Delta); err != nil {
			return nil, err
		}
		if r.Ceiling, err = p.best(l); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// perfect is the channel of the best canary.
func perfect(rate, noise float64) *Channel {
	return &Channel{Rate: rate, Noise: 1 / noise, Shift: -1 / (2 * noise * noise), Step: 1 / (noise * noise)}
}

// reverseLimit is what the reverse direction can show at most: without the canary
// nothing is less likely than with it by more than (1-q) a release.
func reverseLimit(rate float64, rounds int) *float64 {
	if rate == 1 {
		return nil
	}
	limit := -float64(rounds) * math.Log1p(-rate)
	return &limit
}
