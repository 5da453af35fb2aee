package onerun

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/mechanism"
)

func TestSelfTest(t *testing.T) {
	checks, err := SelfTest(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]int{}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
		planted[c.Planted]++
	}
	// 2 figures and 2 sound bounds of 6 mechanisms, 3 of which tell so much that
	// both bounds must be above 0; each fault is seen by both figures and bounds.
	if len(planted) != 3 || planted[""] != 6*4+3*2 || planted["sign of the scores flipped"] != 4 || planted["coins leaked into the scores"] != 4 {
		t.Errorf("%d checks by fault: %v, want 30 honest ones and two faults of 4 each", len(checks), planted)
	}
	again, err := SelfTest(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(checks, again) {
		t.Error("the same seed gave another result")
	}
}

// TestNullGame plays the whole game, random canaries of a data set included,
// against a trainer that looks at nothing, over many seeds: AUC must be 1/2 on
// average and TPR what the beta-binomial law says for each audit's coins
// (26/501 at 500 non-members).
func TestNullGame(t *testing.T) {
	if err := checkNull(blind{}); err != nil {
		t.Error(err)
	}
}

// TestPlantedLeakInNullGame: a slight leak of the coin into the losses must
// break the null.
func TestPlantedLeakInNullGame(t *testing.T) {
	if checkNull(hint{}) == nil {
		t.Error("the null check does not notice losses that depend on the coin")
	}
}

func checkNull(trainer audit.Trainer) error {
	const games, m = 60, 1000
	law := mechanism.Gaussian{Mu: 0}
	var auc, tpr, aucVar, tprVar float64 // sums of differences from the law, and their variances
	for seed := range uint64(games) {
		rep, err := Game{
			Data: toyData(1500), Trainer: trainer, Selectors: []audit.Selector{Random()},
			NumCanaries: m, Sets: 1, Audits: 2, Seed: seed,
		}.Run(context.Background())
		if err != nil {
			return err
		}
		for _, r := range rep.Methods[0].Runs {
			a, p := law.AUC(r.Members, m-r.Members), law.TPRAtFPR(r.Members, m-r.Members, 5, 100)
			auc, aucVar = auc+r.AUC-a.Mean, aucVar+a.SD*a.SD
			tpr, tprVar = tpr+r.TPR-p.Mean, tprVar+p.SD*p.SD
		}
	}
	// Five standard errors, exact ones.
	if tol := 5 * math.Sqrt(aucVar); !(math.Abs(auc) <= tol) {
		return errors.New("mean AUC is not 1/2")
	}
	if tol := 5 * math.Sqrt(tprVar); !(math.Abs(tpr) <= tol) {
		return errors.New("mean TPR is not that of the null")
	}
	return nil
}
