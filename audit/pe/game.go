package pe

import (
	"context"
	"errors"
	"fmt"

	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Game is an audit of canaries as the statistics see it: numbers, whoever counted
// the votes. Auxiliary users give the statistic (View), calibration users the
// thresholds (Lock), and test users the bounds (Test), of one release or of several
// with the same users and a bank each.
type Game struct {
	Mechanism mechanism.Histogram
	Protocol  Protocol
	Eligible  int    // N, users of a release beside the canary: those given, as often as it takes
	Seed      uint64 // of trials, and of which users are there once more
	Rule      string // of thresholds: ExactLock or EmpiricalLock
}

// The rules that thresholds are locked by.
const (
	// ExactLock takes the best threshold of the exact law on calibration users.
	ExactLock = "exact"
	// EmpiricalLock takes the best of trials that are simulated on them.
	EmpiricalLock = "empirical"
)

// Check refuses what cannot be played.
func (g Game) Check() error {
	if err := g.Mechanism.Check(); err != nil {
		return err
	}
	if err := g.Protocol.Check(); err != nil {
		return err
	}
	switch {
	case g.Eligible < 1:
		return fmt.Errorf("pe: eligible users: %d, expected 1 or more", g.Eligible)
	case g.Rule != ExactLock && g.Rule != EmpiricalLock:
		return fmt.Errorf("pe: threshold rule %q, expected %s or %s", g.Rule, ExactLock, EmpiricalLock)
	}
	return nil
}

// View is one canary in one release.
type View struct {
	V       []float64 // what it adds to the observed slots
	Stat    *Statistic
	Moments *Moments // of the auxiliary users, scaled to N
}

// View makes the statistic of a canary that adds v, from the auxiliary users' rows.
func (g Game) View(aux *Contributions, v []float64) (*View, error) {
	m, err := NewMoments(g.Mechanism, aux, g.Eligible)
	if err != nil {
		return nil, err
	}
	s, err := NewStatistic(g.Mechanism, m, v)
	if err != nil {
		return nil, err
	}
	return &View{v, s, m}, nil
}

// Decision is what is decided on the calibration users.
type Decision struct {
	Statistics []string       `json:"statistics_sha256"` // one a release
	Prefixes   []LockedPrefix `json:"prefixes"`          // after each release
}

// LockedPrefix is thresholds of the statistic after some releases: of ℓ if there is
// only one, else of Λ_t.
type LockedPrefix struct {
	Thresholds []Threshold `json:"thresholds"`
	Expected   Expected    `json:"expected"` // on the calibration users, of the protocol's bound
	// Gap compares the moments of the auxiliary users, by which the last of the
	// releases' statistic was made, with those of the calibration users.
	Gap Gap `json:"moments_gap"`
}

// What users are repeated for, in the names of random streams.
const (
	calibrationUsers = 1
	testUsers        = 2
)

// channels are the laws of ℓ in each release with these users.
func (g Game) channels(views []*View, users []*Contributions, part, step uint64) ([]*Channel, error) {
	if len(views) == 0 || len(users) != len(views) {
		return nil, fmt.Errorf("pe: users' rows of %d releases, expected %d, at least 1", len(users), len(views))
	}
	var list []*Channel
	for t, v := range views {
		if err := users[t].check(g.Mechanism.Clip); err != nil {
			return nil, fmt.Errorf("release %d: %w", t+1, err)
		}
		if n := users[t].Users(); n != users[0].Users() {
			return nil, fmt.Errorf("pe: release %d has %d users, and the first %d", t+1, n, users[0].Users())
		}
		// The same users are repeated in all releases.
		ch, err := v.Stat.Channel(replicated(users[t], g.Eligible, rng.New(g.Seed, rng.Users, part, step)), v.V)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", t+1, err)
		}
		list = append(list, ch)
	}
	return list, nil
}

// laws are the exact laws of what trials of these channels draw.
func laws(channels []*Channel) ([]Tails, *Sampler, error) {
	if len(channels) == 1 {
		l, err := NewLaw(channels[0])
		if err != nil {
			return nil, nil, err
		}
		return []Tails{l}, NewSampler(channels[0]), nil
	}
	rounds, err := NewRoundsLaw(channels)
	if err != nil {
		return nil, nil, err
	}
	var list []Tails
	for _, l := range rounds {
		list = append(list, l)
	}
	return list, NewRoundsSampler(channels), nil
}

// Lock decides the thresholds of experiment number step on the calibration users'
// rows, one Contributions a release.
func (g Game) Lock(ctx context.Context, step int, views []*View, cal []*Contributions) (*Decision, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	channels, err := g.channels(views, cal, calibrationUsers, uint64(step))
	if err != nil {
		return nil, err
	}
	tails, sampler, err := laws(channels)
	if err != nil {
		return nil, err
	}
	var taus [][]float64
	var counts []Counts
	if g.Rule == EmpiricalLock {
		for _, l := range tails {
			taus = append(taus, candidates(l))
		}
		if counts, _, err = sampler.Simulate(ctx, g.Seed, []uint64{calibrationUsers, uint64(step)}, g.Protocol.Trials, taus, Run{}); err != nil {
			return nil, err
		}
	}
	d := &Decision{}
	for t, l := range tails {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		moments, err := NewMoments(g.Mechanism, cal[t], g.Eligible)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", t+1, err)
		}
		p := LockedPrefix{Gap: views[t].Moments.gap(moments, views[t].Stat)}
		if g.Rule == EmpiricalLock {
			p.Thresholds, err = g.Protocol.Empirical(taus[t], counts[:len(taus[t])], len(tails), g.Mechanism.Rate)
			counts = counts[len(taus[t]):]
		} else {
			p.Thresholds, err = g.Protocol.Thresholds(l, len(tails), g.Mechanism.Rate)
		}
		if err != nil {
			return nil, err
		}
		if p.Expected, err = g.Protocol.Expect(l, p.Thresholds[0].Tau); err != nil {
			return nil, err
		}
		d.Statistics = append(d.Statistics, views[t].Stat.digest())
		d.Prefixes = append(d.Prefixes, p)
	}
	return d, nil
}

// Prefix is what the first releases of an audit show together.
type Prefix struct {
	Releases int     `json:"releases"`
	Gap      Gap     `json:"moments_gap"`
	Tallies  []Tally `json:"tallies"`
	Bounds
	Exact    Attack   `json:"exact"`    // at its best threshold on the test users, without sampling error
	Expected Expected `json:"expected"` // by the exact law at the locked threshold
	Curve    []Rates  `json:"trade_off"`
	law      Tails    // on the test users
}

// ErrOtherShards says that the trials of other shards are missing.
var ErrOtherShards = errors.New("the trials of other shards are missing")

// Test runs trials with the test users' rows at the decided thresholds, and bounds ε
// after each release; theory is the mechanism's, and of attacks there are so many.
// It is ErrOtherShards if not all trials are there.
func (g Game) Test(ctx context.Context, step int, views []*View, users []*Contributions, d *Decision, theory []PrefixTheory, attacks int, run Run) ([]Prefix, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if d == nil || len(d.Prefixes) != len(views) || len(d.Statistics) != len(views) || len(theory) != len(views) {
		return nil, fmt.Errorf("pe: a decision and the ε of %d releases are needed before test users are looked at", len(views))
	}
	for t, v := range views {
		if v.Stat.digest() != d.Statistics[t] {
			return nil, fmt.Errorf("pe: the statistic of release %d is not the one that thresholds were locked for", t+1)
		}
	}
	channels, err := g.channels(views, users, testUsers, uint64(step))
	if err != nil {
		return nil, err
	}
	tails, sampler, err := laws(channels)
	if err != nil {
		return nil, err
	}
	var taus [][]float64
	for _, p := range d.Prefixes {
		var of []float64
		for _, t := range p.Thresholds {
			of = append(of, t.Tau)
		}
		taus = append(taus, of)
	}
	counts, trials, err := sampler.Simulate(ctx, g.Seed, []uint64{0, uint64(step)}, g.Protocol.Trials, taus, run)
	if err != nil {
		return nil, err
	}
	if trials < g.Protocol.Trials {
		return nil, ErrOtherShards
	}
	var out []Prefix
	for t, l := range tails {
		r := Prefix{Releases: t + 1, Gap: d.Prefixes[t].Gap, Exact: Exact(l, g.Protocol.Delta), Curve: tradeOff(l), law: l}
		// No attack has more than the mechanism, also where the law cannot tell.
		r.Exact.Upper = min(r.Exact.Upper, theory[t].Theory.Upper)
		for _, th := range d.Prefixes[t].Thresholds {
			r.Tallies = append(r.Tallies, Tally{th, counts[0]})
			counts = counts[1:]
		}
		if r.Bounds, err = g.Protocol.Bound(r.Tallies, g.Mechanism.Rate, attacks); err != nil {
			return nil, err
		}
		if r.Expected, err = g.Protocol.Expect(l, d.Prefixes[t].Thresholds[0].Tau); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
