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
	Mechanism string  `json:"mechanism"`
	Figure    string  `json:"figure"` // "auc" or "tpr_at_fpr_0.05"
	Want      float64 `json:"want"`   // exact mean over audits, given the coins
	Got       float64 `json:"got"`
	Tolerance float64 `json:"tolerance"`
	// Planted says what was broken on purpose; "" if nothing was. A planted
	// fault is OK if it is out of tolerance.
	Planted string `json:"planted,omitempty"`
	OK      bool   `json:"ok"`
}

// SelfTest plays the game on mechanisms whose privacy is known exactly and
// compares mean AUC and TPR over the audits with the exact values (package
// mechanism). The tolerance is the exact standard error times the normal
// quantile that makes the false alarm rate of all checks together FalseAlarm.
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
	}{
		{"null", mechanism.Gaussian{Mu: 0}},
		{"gaussian mu=0.5", mechanism.Gaussian{Mu: .5}},
		{"gaussian mu=1", mechanism.Gaussian{Mu: 1}},
		{"gaussian mu=2", mechanism.Gaussian{Mu: 2}},
		{"randomized response eps=1", mechanism.RandomizedResponse{Eps: 1}},
		{"randomized response eps=4", mechanism.RandomizedResponse{Eps: 4}},
	}
	const figures = 2
	z := distuv.UnitNormal.Quantile(1 - FalseAlarm/float64(2*figures*len(exact)))
	var checks []SelfCheck
	for i, e := range exact {
		cs, err := compare(ctx, rng.Seed(seed, rng.SelfTest, uint64(i)), e.name, e.mech, e.mech, z)
		if err != nil {
			return nil, err
		}
		checks = append(checks, cs...)
	}
	one, null := mechanism.Gaussian{Mu: 1}, mechanism.Gaussian{Mu: 0}
	for i, p := range []struct {
		name, planted string
		trainer       audit.Trainer
		law           law
	}{
		{"gaussian mu=1", "sign of the scores flipped", flipped{one}, one},
		{"null", "coins leaked into the scores", leaky{null}, null},
	} {
		cs, err := compare(ctx, rng.Seed(seed, rng.SelfTest, uint64(len(exact)+i)), p.name, p.trainer, p.law, z)
		if err != nil {
			return nil, err
		}
		for _, c := range cs {
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

// compare plays 20 audits of 1000 canaries and holds the mean figures to the
// laws, within z standard errors.
func compare(ctx context.Context, seed uint64, name string, trainer audit.Trainer, want law, z float64) ([]SelfCheck, error) {
	const canaries, audits = 1000, 20
	rep, err := Game{
		Data: mechanism.Points(canaries), Trainer: trainer, Selectors: []audit.Selector{mechanism.Coordinates()},
		NumCanaries: canaries, Sets: 1, Audits: audits, Seed: seed,
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("self-test of %s: %w", name, err)
	}
	m := rep.Methods[0]
	auc := SelfCheck{Mechanism: name, Figure: "auc", Got: m.AUC.Mean}
	tpr := SelfCheck{Mechanism: name, Figure: "tpr_at_fpr_0.05", Got: m.TPR.Mean}
	for _, r := range m.Runs {
		n1, n0 := r.Members, canaries-r.Members
		auc.add(want.AUC(n1, n0), audits)
		tpr.add(want.TPRAtFPR(n1, n0, fprNum, fprDen), audits)
	}
	for _, c := range []*SelfCheck{&auc, &tpr} {
		const rounding = 1e-9 // for figures that hardly ever vary
		c.Tolerance = z*math.Sqrt(c.Tolerance) + rounding
		c.OK = math.Abs(c.Got-c.Want) <= c.Tolerance
	}
	return []SelfCheck{auc, tpr}, nil
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
