package pe

import (
	"context"
	"fmt"
)

// Prefix is what the first releases of an audit of several show together.
type Prefix struct {
	Releases int      `json:"releases"`
	Theory   Theory   `json:"theory"`
	Ceiling  Expected `json:"ceiling"` // of a perfect canary, at this number of trials
	Tallies  []Tally  `json:"tallies"`
	Bounds
	Exact    Attack   `json:"exact"`    // at the best threshold, without sampling error
	Expected Expected `json:"expected"` // by the exact law at the locked threshold
}

// LockRounds is thresholds for each prefix of several releases, from the channels of
// the calibration users, one a release: the canary's coin is drawn anew for each,
// and the banks are those of one run, whatever trials release.
func (p Protocol) LockRounds(channels []*Channel) ([][]Threshold, error) {
	laws, err := NewRoundsLaw(channels)
	if err != nil {
		return nil, err
	}
	var all [][]Threshold
	for _, l := range laws {
		list, err := p.Thresholds(l, l.releases+1, 0) // no family, for one release neither: Λ is not ℓ
		if err != nil {
			return nil, fmt.Errorf("%d releases: %w", l.releases, err)
		}
		all = append(all, list)
	}
	return all, nil
}

// TestRounds runs trials of several releases with the channels of the test users,
// and bounds ε of each prefix at its locked thresholds. Of attacks there are so many.
// It is ErrOtherShards if not all trials are there.
func (p Protocol) TestRounds(ctx context.Context, channels []*Channel, noise float64, locked [][]Threshold, attacks int, seed uint64, index []uint64, run Run) ([]Prefix, error) {
	if len(locked) != len(channels) {
		return nil, fmt.Errorf("pe: thresholds for %d releases, expected %d", len(locked), len(channels))
	}
	laws, err := NewRoundsLaw(channels)
	if err != nil {
		return nil, err
	}
	rate := channels[0].Rate
	for t, c := range channels {
		if c.Rate != rate {
			return nil, fmt.Errorf("pe: release %d has participation rate %v, and the first %v", t+1, c.Rate, rate)
		}
	}
	var taus [][]float64
	for _, list := range locked {
		var of []float64
		for _, t := range list {
			of = append(of, t.Tau)
		}
		taus = append(taus, of)
	}
	counts, trials, err := NewRoundsSampler(channels).Simulate(ctx, seed, index, p.Trials, taus, run)
	if err != nil {
		return nil, err
	}
	if trials < p.Trials {
		return nil, ErrOtherShards
	}
	ceilings, err := p.RoundsCeiling(rate, noise, len(channels))
	if err != nil {
		return nil, err
	}
	var out []Prefix
	for t, l := range laws {
		r := Prefix{Releases: t + 1, Ceiling: ceilings[t], Exact: Exact(l, p.Delta)}
		if r.Theory, err = MechanismTheory(rate, noise, t+1, p.Delta); err != nil {
			return nil, err
		}
		r.Exact.Upper = min(r.Exact.Upper, r.Theory.Upper)
		for _, th := range locked[t] {
			r.Tallies = append(r.Tallies, Tally{th, counts[0]})
			counts = counts[1:]
		}
		if r.Bounds, err = p.Bound(r.Tallies, rate, attacks); err != nil {
			return nil, err
		}
		if r.Expected, err = p.Expect(l, locked[t][0].Tau); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// RoundsCeiling is Ceiling for each prefix of several releases.
func (p Protocol) RoundsCeiling(rate, noise float64, releases int) ([]Expected, error) {
	var channels []*Channel
	for range releases {
		channels = append(channels, perfect(rate, noise))
	}
	laws, err := NewRoundsLaw(channels)
	if err != nil {
		return nil, err
	}
	var out []Expected
	for _, l := range laws {
		e, err := p.best(l)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
