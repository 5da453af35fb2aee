package pe

import (
	"context"
	"errors"
	"fmt"

	"github.com/aviary-audit/aviary/audit/stats"
)

// Result is what an audit shows.
type Result struct {
	PrefixTheory
	Attacks []AttackResult `json:"attacks"`
}

// AttackResult is one attack. Its bounds but the pooled ones are the largest of its
// canaries', each of which has a share of the level, so that the largest holds at
// the whole.
type AttackResult struct {
	Attack string `json:"attack"`
	Bounds
	// Pooled is the protocol's bound from the trials of all canaries together, at
	// the whole level.
	Pooled float64 `json:"eps_lower_pooled"`
	// PooledJoint is the joint test on them: an estimate (see stats.JointPooled).
	PooledJoint float64        `json:"eps_pooled_joint_estimate"`
	Exact       float64        `json:"eps_exact"` // of the best canary, without sampling error
	Canaries    []CanaryResult `json:"canaries"`
}

// Bounds are lower bounds on ε from one canary's trials.
type Bounds struct {
	EpsLower  float64 `json:"eps_lower"`       // by the protocol
	EpsTight  float64 `json:"eps_lower_tight"` // by bounds on two rates
	EpsJoint  float64 `json:"eps_lower_joint"` // by the joint test
	Corrected float64 `json:"eps_lower_all"`   // by the protocol, at the level divided by all attacks
	// EpsFamily supposes that the release is one Poisson-sampled Gaussian: that no
	// such mechanism with a smaller ε explains the counts.
	EpsFamily float64 `json:"eps_lower_family"`
}

func (b Bounds) max(o Bounds) Bounds {
	return Bounds{max(b.EpsLower, o.EpsLower), max(b.EpsTight, o.EpsTight), max(b.EpsJoint, o.EpsJoint),
		max(b.Corrected, o.Corrected), max(b.EpsFamily, o.EpsFamily)}
}

// Tally is what trials counted at one locked threshold.
type Tally struct {
	Threshold
	Counts
}

// CanaryResult is one attack on one canary.
type CanaryResult struct {
	Canary  int     `json:"canary"`
	User    string  `json:"user,omitempty"`
	Mu      float64 `json:"mu_eff"`       // by auxiliary users
	MuNoise float64 `json:"mu_eff_noise"` // μ_eff σ: 1 for a perfect canary
	Norm    float64 `json:"norm"`         // ‖v_P‖/C
	Twins   int     `json:"twins,omitempty"`
	Prefix
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

// Test runs the trials on the test users and bounds ε. The lock must be that of
// the design: before a test user is looked at, an error names what differs. It is
// ErrOtherShards if not all trials are there.
func (a *Audit) Test(ctx context.Context, d *Design, l *Lock, counted Counted) (*Result, error) {
	if l == nil {
		return nil, fmt.Errorf("pe: no lock: thresholds are locked before test users are looked at")
	}
	if err := l.Same(d.lock); err != nil {
		return nil, err
	}
	r := &Result{}
	theory, err := a.Protocol.Theory(a.Mechanism.Rate, a.Mechanism.Noise, 1)
	if err != nil {
		return nil, err
	}
	r.PrefixTheory = theory[0]
	var missing error
	for i, e := range d.experiments {
		c, err := a.test(ctx, d, i, &l.Attacks[i], counted, theory)
		if errors.Is(err, ErrOtherShards) { // this shard's trials of the others are still to be run
			missing = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s, canary %d: %w", e.Attack, e.Canary, err)
		}
		if len(r.Attacks) == 0 || r.Attacks[len(r.Attacks)-1].Attack != e.Attack {
			r.Attacks = append(r.Attacks, AttackResult{Attack: e.Attack})
		}
		at := &r.Attacks[len(r.Attacks)-1]
		at.Canaries = append(at.Canaries, *c)
		at.Bounds = at.Bounds.max(c.Bounds)
		at.Exact = max(at.Exact, c.Exact.Estimate)
	}
	if missing != nil {
		return nil, missing
	}
	for i := range r.Attacks {
		if err := r.Attacks[i].pool(a.Protocol); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Attacks[i].Attack, err)
		}
	}
	return r, nil
}

// pool bounds ε from the trials of all canaries. Each has its own threshold: that
// Σ TPR <= e^ε Σ FPR + nδ follows from the inequality of each.
func (r *AttackResult) pool(p Protocol) error {
	sum := map[For]Counts{}
	for _, c := range r.Canaries {
		for _, t := range c.Tallies {
			s := sum[t.For]
			sum[t.For] = Counts{s.FP + t.FP, s.TP + t.TP}
		}
	}
	t := p.claim(ForPooled, 0)
	var err error
	if r.Pooled, err = t.lower(sum[ForPooled]); err != nil {
		return err
	}
	t.estimator = stats.JointPooled{Joint: stats.Joint{Delta: p.Delta}}
	r.PooledJoint, err = t.lower(sum[ForPooled])
	return err
}

func (a *Audit) test(ctx context.Context, d *Design, i int, l *Locked, counted Counted, theory []PrefixTheory) (*CanaryResult, error) {
	e := d.experiments[i]
	if e.Blind { // calling none a member is all that the attack can do
		r := &CanaryResult{Canary: e.Canary, User: e.User, Twins: e.Twins, Prefix: Prefix{Releases: 1}}
		for _, t := range l.Prefixes[0].Thresholds {
			r.Tallies = append(r.Tallies, Tally{t, Counts{}})
		}
		return r, nil
	}
	users, err := a.contributions(ctx, d.bench, test, e.probes, e.Observe)
	if err != nil {
		return nil, err
	}
	run := Run{}
	if counted != nil {
		run = counted.Run(e.Step)
	}
	keep := run.Keep
	done, of := 0, len(d.experiments)
	run.Keep = func(block int, c []Counts) error {
		done++
		a.tell("trials", e.Step*a.Protocol.Trials+min(done*Block, a.Protocol.Trials), of*a.Protocol.Trials)
		if keep != nil {
			return keep(block, c)
		}
		return nil
	}
	p, err := a.game(d.lock.Rule).Test(ctx, e.Step, []*View{e.view}, []*Contributions{users}, &l.Decision, theory, len(a.Variants), run)
	if err != nil {
		return nil, err
	}
	return &CanaryResult{Canary: e.Canary, User: e.User, Mu: e.Mu, MuNoise: e.Mu * a.Mechanism.Noise, Norm: e.Norm, Twins: e.Twins, Prefix: p[0]}, nil
}

// Bound is all bounds that one canary's counts prove, which is one of several
// attacks'.
func (p Protocol) Bound(tallies []Tally, rate float64, attacks int) (b Bounds, err error) {
	counts := map[For]Counts{}
	for _, t := range tallies {
		counts[t.For] = t.Counts
	}
	if b.EpsLower, err = p.EpsLower(counts); err != nil {
		return b, err
	}
	tight, all := p, p
	tight.Bounds, tight.TwoThresholds = 2, false
	if b.EpsTight, err = tight.EpsLower(counts); err != nil {
		return b, err
	}
	all.Alpha /= float64(attacks)
	if b.Corrected, err = all.EpsLower(counts); err != nil {
		return b, err
	}
	for f, eps := range map[For]*float64{ForJoint: &b.EpsJoint, ForFamily: &b.EpsFamily} {
		if c, counted := counts[f]; counted {
			if *eps, err = p.claim(f, rate).lower(c); err != nil {
				return b, err
			}
		}
	}
	return b, nil
}

// tradeOff is the exact curve at 200 thresholds.
func tradeOff(l Tails) []Rates {
	low, high := l.Range()
	const points = 200
	out := make([]Rates, 0, points+1)
	for i := range points + 1 {
		fpr, tpr := l.Rates(high - (high-low)*float64(i)/points)
		out = append(out, Rates{fpr, tpr})
	}
	return out
}
