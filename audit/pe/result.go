package pe

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/stats"
)

// Result is what an audit shows.
type Result struct {
	Theory  Theory         `json:"theory"`
	Ceiling Expected       `json:"ceiling"` // of a perfect canary, at this number of trials
	Attacks []AttackResult `json:"attacks"`
}

// Theory is the ε of the mechanism, for one user more or less.
type Theory struct {
	Lower    float64 `json:"lower"`
	Estimate float64 `json:"estimate"`
	Upper    float64 `json:"upper"`
	Opacus   float64 `json:"opacus"` // as Opacus prints it
	// Reverse is all that the reverse direction can show, -rounds·ln(1-q); nil if
	// everybody takes part.
	Reverse *float64 `json:"reverse_limit,omitempty"`
}

// AttackResult is one attack. Its bounds are the largest of its canaries', each of
// which has a share of the level, so that the largest holds at the whole.
type AttackResult struct {
	Attack    string         `json:"attack"`
	EpsLower  float64        `json:"eps_lower"`       // by the protocol
	EpsTight  float64        `json:"eps_lower_tight"` // by bounds on two rates
	EpsJoint  float64        `json:"eps_lower_joint"` // by the joint test
	Corrected float64        `json:"eps_lower_all"`   // by the protocol, at the level divided by all attacks
	Exact     float64        `json:"eps_exact"`       // of the best canary, without sampling error
	Canaries  []CanaryResult `json:"canaries"`
}

// CanaryResult is one attack on one canary.
type CanaryResult struct {
	Canary    int      `json:"canary"`
	User      string   `json:"user,omitempty"`
	Mu        float64  `json:"mu_eff"`       // by auxiliary users
	MuNoise   float64  `json:"mu_eff_noise"` // μ_eff σ: 1 for a perfect canary
	Norm      float64  `json:"norm"`         // ‖v_P‖/C
	Twins     int      `json:"twins,omitempty"`
	Threshold float64  `json:"threshold"`
	Gap       Gap      `json:"moments_gap"`
	FP        int      `json:"fp"`
	TP        int      `json:"tp"`
	EpsLower  float64  `json:"eps_lower"`
	EpsTight  float64  `json:"eps_lower_tight"`
	EpsJoint  float64  `json:"eps_lower_joint"`
	Corrected float64  `json:"eps_lower_all"`
	Exact     Attack   `json:"exact"`    // of the attack with the locked statistic on the test users, at its best threshold
	Expected  Expected `json:"expected"` // by the exact law at the locked threshold
	Curve     []Rates  `json:"trade_off"`
}

// Rates are one point of an exact trade-off curve.
type Rates struct {
	FPR float64 `json:"fpr"`
	TPR float64 `json:"tpr"`
}

// Counted keeps what trials gave, and knows what was done before.
type Counted interface {
	// Run says which blocks of an experiment are known, and where new ones go.
	Run(experiment int) Run
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

// Test runs the trials on the test users and bounds ε. The lock must be that of
// the design. It returns nil if other shards have to come in.
func (a *Audit) Test(ctx context.Context, d *Design, l *Lock, counted Counted) (*Result, error) {
	if len(l.Attacks) != len(d.experiments) {
		return nil, fmt.Errorf("pe: a lock of %d experiments for %d", len(l.Attacks), len(d.experiments))
	}
	r := &Result{}
	var err error
	if r.Theory, err = MechanismTheory(a.Mechanism.Rate, a.Mechanism.Noise, 1, a.Protocol.Delta); err != nil {
		return nil, err
	}
	if r.Ceiling, err = a.Protocol.Ceiling(a.Mechanism.Rate, a.Mechanism.Noise); err != nil {
		return nil, err
	}
	for i, e := range d.experiments {
		c, err := a.test(ctx, d.bench, e, l.Attacks[i], counted, len(d.experiments))
		if err != nil {
			return nil, fmt.Errorf("%s, canary %d: %w", e.Attack, e.Canary, err)
		}
		if len(r.Attacks) == 0 || r.Attacks[len(r.Attacks)-1].Attack != e.Attack {
			r.Attacks = append(r.Attacks, AttackResult{Attack: e.Attack})
		}
		at := &r.Attacks[len(r.Attacks)-1]
		at.Canaries = append(at.Canaries, *c)
		at.EpsLower = max(at.EpsLower, c.EpsLower)
		at.EpsTight = max(at.EpsTight, c.EpsTight)
		at.EpsJoint = max(at.EpsJoint, c.EpsJoint)
		at.Corrected = max(at.Corrected, c.Corrected)
		at.Exact = max(at.Exact, c.Exact.Estimate)
	}
	return r, nil
}

func (a *Audit) test(ctx context.Context, b *bench, e *Experiment, l Locked, counted Counted, of int) (*CanaryResult, error) {
	users, err := a.contributions(ctx, b, test, e.probes, e.Observe)
	if err != nil {
		return nil, err
	}
	world := users
	if a.Eligible != users.Users() {
		world = replicated(users, a.Eligible, testUsers(a.Seed, e.Step))
	}
	ch := e.stat.Channel(world, e.V)
	law, err := NewLaw(ch)
	if err != nil {
		return nil, err
	}
	run := Run{}
	if counted != nil {
		run = counted.Run(e.Step)
	}
	keep := run.Keep
	done := 0
	run.Keep = func(block int, c Counts) error {
		done++
		a.tell("trials", e.Step*a.Protocol.Trials+min(done*Block, a.Protocol.Trials), of*a.Protocol.Trials)
		if keep != nil {
			return keep(block, c)
		}
		return nil
	}
	counts, err := NewSampler(ch).Simulate(ctx, a.Seed, []uint64{0, uint64(e.Step)}, a.Protocol.Trials, l.Threshold, run)
	if err != nil {
		return nil, err
	}
	r := &CanaryResult{Canary: e.Canary, User: e.User, Mu: e.Mu, MuNoise: e.Mu * a.Mechanism.Noise, Norm: e.Norm, Twins: e.Twins,
		Threshold: l.Threshold, Gap: l.Gap, FP: counts.FP, TP: counts.TP, Exact: law.Epsilon(a.Protocol.Delta)}
	if r.EpsLower, err = a.Protocol.EpsLower(counts); err != nil {
		return nil, err
	}
	tight, all := a.Protocol, a.Protocol
	tight.Bounds = 2
	all.Alpha /= float64(len(a.Variants))
	if r.EpsTight, err = tight.EpsLower(counts); err != nil {
		return nil, err
	}
	if r.Corrected, err = all.EpsLower(counts); err != nil {
		return nil, err
	}
	if r.EpsJoint, err = (stats.Joint{Delta: a.Protocol.Delta}).Lower(a.Protocol.counts(counts), a.Protocol.level()); err != nil {
		return nil, err
	}
	if r.Expected, err = a.Protocol.Expect(law, l.Threshold); err != nil {
		return nil, err
	}
	r.Curve = tradeOff(law)
	return r, nil
}

// tradeOff is the exact curve at 200 thresholds.
func tradeOff(l *Law) []Rates {
	low, high := l.Range()
	const points = 200
	out := make([]Rates, 0, points+1)
	for i := range points + 1 {
		fpr, tpr := l.Rates(high - (high-low)*float64(i)/points)
		out = append(out, Rates{fpr, tpr})
	}
	return out
}
