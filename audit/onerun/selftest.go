package onerun

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/internal/rng"
)

// FalseAlarm is the probability, over seeds, that SelfTest finds fault with a
// program that has none.
const FalseAlarm = 1e-6

// SelfCheck is one known answer and what the game made of it.
type SelfCheck struct {
	Mechanism string `json:"mechanism"`
	// Figure is "auc" or "tpr_at_fpr_0.05", of which Want is the exact mean over
	// audits, given the coins; or, followed by a sound estimator's name,
	// "bound_above_epsilon:", the share of audits that claim more than the
	// mechanism's ε, of which Want is the largest mean that is allowed, or
	// "bound_above_0:", the share that claim anything.
	Figure    string  `json:"figure"`
	Want      float64 `json:"want"`
	Got       float64 `json:"got"`
	Tolerance float64 `json:"tolerance"`
	// Planted says what was broken on purpose; "" if nothing was. A planted
	// fault is OK if it is out of tolerance.
	Planted string `json:"planted,omitempty"`
	OK      bool   `json:"ok"`
}

// SelfTest plays the game on mechanisms whose privacy is known exactly and
// compares mean AUC and TPR over the audits with the exact values (package
// mechanism), and the sound bounds on ε with the truth. The tolerance is the
// exact standard error times the normal quantile, or for bounds the binomial
// one, that makes the false alarm rate of all checks together FalseAlarm.
// Then it breaks the scores on purpose, and the same checks must see it. The
// error is of a test that could not be run.
func SelfTest(ctx context.Context, seed uint64) ([]SelfCheck, error) {
	type known interface {
		audit.Trainer
		law
	}
	exact := []struct {
		name string
		mech known
		eps  float64 // the truth at δ = DefaultDelta, or a little more
		told bool    // so plainly that a bound of 0 is a fault
	}{
		{"null", mechanism.Gaussian{Mu: 0}, 0, false},
		{"gaussian mu=0.5", mechanism.Gaussian{Mu: .5}, 1.9931, false}, // Gaussians: Balle and Wang 2018, theorem 8
		{"gaussian mu=1", mechanism.Gaussian{Mu: 1}, 4.3772, true},
		{"gaussian mu=2", mechanism.Gaussian{Mu: 2}, 9.9973, true},
		{"randomized response eps=1", mechanism.RandomizedResponse{Eps: 1}, 1, false}, // whose ties are broken against the attack
		{"randomized response eps=4", mechanism.RandomizedResponse{Eps: 4}, 4, true},
	}
	// AUC and TPR may miss on two sides, the two sound bounds on one; that a
	// bound is above 0 is only asked where it is all but sure.
	alarm := FalseAlarm / float64((2*2+2)*len(exact))
	var checks []SelfCheck
	for i, e := range exact {
		m, err := twenty(ctx, rng.Seed(seed, rng.SelfTest, uint64(i)), e.name, e.mech)
		if err != nil {
			return nil, err
		}
		checks = append(checks, compare(e.name, m, e.mech, alarm)...)
		checks = append(checks, tooMuch(e.name, m, e.eps, alarm)...)
		if e.told {
			checks = append(checks, tooLittle(e.name, m)...)
		}
	}
	one, null := mechanism.Gaussian{Mu: 1}, mechanism.Gaussian{Mu: 0}
	for i, p := range []struct {
		name, planted string
		trainer       audit.Trainer
		law           law
		bounds        func(name string, m audit.Method) []SelfCheck // those that must see it
	}{
		{"gaussian mu=1", "sign of the scores flipped", flipped{one}, one, tooLittle},
		{"null", "coins leaked into the scores", leaky{null}, null, func(name string, m audit.Method) []SelfCheck { return tooMuch(name, m, 0, alarm) }},
	} {
		m, err := twenty(ctx, rng.Seed(seed, rng.SelfTest, uint64(len(exact)+i)), p.name, p.trainer)
		if err != nil {
			return nil, err
		}
		for _, c := range append(compare(p.name, m, p.law, alarm), p.bounds(p.name, m)...) {
			c.Planted, c.OK = p.planted, !c.OK
			checks = append(checks, c)
		}
	}
	return checks, nil
}

// law gives the exact laws of an audit's figures.
type law interface {
	AUC(n1, n0 int) mechanism.Law
	TPRAtFPR(n1, n0, num, den int) mechanism.Law
}

// The size of the self-test's games.
const selfCanaries, selfAudits = 1000, 20

// twenty plays 20 audits of 1000 canaries.
func twenty(ctx context.Context, seed uint64, name string, trainer audit.Trainer) (audit.Method, error) {
	rep, err := Game{
		Data: mechanism.Points(selfCanaries), Trainer: trainer, Selectors: []audit.Selector{mechanism.Coordinates()},
		NumCanaries: selfCanaries, Sets: 1, Audits: selfAudits, Seed: seed,
	}.Run(ctx)
	if err != nil {
		return audit.Method{}, fmt.Errorf("self-test of %s: %w", name, err)
	}
	return rep.Methods[0], nil
}

// compare holds the mean figures to the laws, each within the tolerance that a
// right program misses on either side with probability alarm.
func compare(name string, m audit.Method, want law, alarm float64) []SelfCheck {
	z := distuv.UnitNormal.Quantile(1 - alarm)
	auc := SelfCheck{Mechanism: name, Figure: "auc", Got: m.AUC.Mean}
	tpr := SelfCheck{Mechanism: name, Figure: "tpr_at_fpr_0.05", Got: m.TPR.Mean}
	for _, r := range m.Runs {
		n1, n0 := r.Members, selfCanaries-r.Members
		auc.add(want.AUC(n1, n0), selfAudits)
		tpr.add(want.TPRAtFPR(n1, n0, fprNum, fprDen), selfAudits)
	}
	for _, c := range []*SelfCheck{&auc, &tpr} {
		const rounding = 1e-9 // for figures that hardly ever vary
		c.Tolerance = z*math.Sqrt(c.Tolerance) + rounding
		c.OK = math.Abs(c.Got-c.Want) <= c.Tolerance
	}
	return []SelfCheck{auc, tpr}
}

// tooMuch checks that no sound estimator claims more than the truth in more
// audits than its confidence allows, where a right one is found at fault with
// probability alarm at most.
func tooMuch(name string, m audit.Method, truth, alarm float64) (checks []SelfCheck) {
	for _, b := range m.Bounds {
		if !b.Sound {
			continue
		}
		wrong := distuv.Binomial{N: selfAudits, P: 1 - b.Confidence}
		allowed := 0.0
		for wrong.Survival(allowed) > alarm {
			allowed++
		}
		c := SelfCheck{Mechanism: name, Figure: "bound_above_epsilon:" + b.Estimator, Want: wrong.P, Got: shareAbove(b, truth)}
		c.Tolerance = allowed/selfAudits - c.Want
		c.OK = c.Got*selfAudits <= allowed
		checks = append(checks, c)
	}
	return checks
}

// tooLittle checks that every sound estimator finds something in every audit.
func tooLittle(name string, m audit.Method) (checks []SelfCheck) {
	for _, b := range m.Bounds {
		if b.Sound {
			got := shareAbove(b, 0)
			checks = append(checks, SelfCheck{Mechanism: name, Figure: "bound_above_0:" + b.Estimator, Want: 1, Got: got, OK: got == 1})
		}
	}
	return checks
}

// shareAbove is the share of audits whose bound is above eps.
func shareAbove(b audit.Bound, eps float64) float64 {
	n := 0.0
	for _, v := range b.Epsilon.Values {
		if v > eps {
			n++
		}
	}
	return n / float64(len(b.Epsilon.Values))
}

// add takes one of n audits in; Tolerance holds the variance until the end.
func (c *SelfCheck) add(l mechanism.Law, n float64) {
	c.Want += l.Mean / n
	c.Tolerance += l.SD * l.SD / (n * n)
}

// flipped turns the scores of a trainer round.
type flipped struct{ audit.Trainer }

// Train implements audit.Trainer.
func (f flipped) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	r, err := f.Trainer.Train(ctx, job)
	for i := range r.Losses {
		r.Losses[i] = -r.Losses[i]
	}
	return r, err
}

// leaky lowers the loss of every canary that is in the training data by a
// little.
type leaky struct{ audit.Trainer }

// Train implements audit.Trainer.
func (l leaky) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	r, err := l.Trainer.Train(ctx, job)
	if err != nil {
		return r, err
	}
	in := map[float32]bool{}
	var x [1]float32
	for i := range job.Train.Len() {
		job.Train.Example(i, x[:])
		in[x[0]] = true
	}
	for i := range r.Losses {
		if job.Canaries.Example(i, x[:]); in[x[0]] {
			r.Losses[i] -= .5 // half a standard deviation: far beyond both tolerances
		}
	}
	return r, nil
}
