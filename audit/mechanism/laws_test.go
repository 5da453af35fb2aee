package mechanism

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// Known values: Φ(1/√2) from tables, the null from the beta-binomial law.
func TestClosedForms(t *testing.T) {
	near := func(name string, got, want, tol float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tol) {
			t.Errorf("%s is %.12f, want %.12f ± %g", name, got, want, tol)
		}
	}
	near("gaussian AUC, mu 1", Gaussian{1}.AUC(500, 500).Mean, 0.7602499389, 5e-11)
	null := Gaussian{0}
	near("null AUC", null.AUC(500, 500).Mean, .5, 1e-15)
	near("null AUC sd", null.AUC(400, 600).SD, math.Sqrt(1001./(12*400*600)), 1e-12)
	near("null TPR", null.TPRAtFPR(500, 500, 5, 100).Mean, 26./501, 1e-12)
	near("null TPR sd", null.TPRAtFPR(500, 500, 5, 100).SD, .01401, 5e-6) // printed with 5 decimals
	near("null TPR, one non-member allowed", null.TPRAtFPR(10, 20, 5, 100).Mean, 2./21, 1e-12)
	near("everything allowed", null.TPRAtFPR(10, 20, 1, 1).Mean, 1, 0)
	near("many candidates", Gaussian{1}.TPRAtFPR(100000, 100000, 5, 100).Mean, 0.2595, 2e-4) // Φ(1-1.6448536)
	// Densities integrate to one however narrow they are: with no signal the
	// mean is (k+1)/(n0+1) again.
	// The density's logarithm is a difference of numbers near 10⁶: 10⁶·2⁻⁵³
	// relative for each of three, times .05.
	near("narrow density", null.TPRAtFPR(10, 100000, 5, 100).Mean, 5001./100001, 3*1e6*0x1p-53*.05)

	rr := RandomizedResponse{math.Log(3)} // p = 3/4
	near("randomized response AUC", rr.AUC(7, 9).Mean, .75, 1e-15)
	near("randomized response TPR", rr.TPRAtFPR(500, 500, 5, 100).Mean, 0, 1e-12)
	near("randomized response TPR at 1/2", rr.TPRAtFPR(500, 500, 1, 2).Mean, .75, 1e-12)
}

// law is a mechanism with known laws.
type law interface {
	audit.Trainer
	AUC(n1, n0 int) Law
	TPRAtFPR(n1, n0, num, den int) Law
}

// checkLaws runs a mechanism many times on 60 members and 40 non-members and
// compares means and standard deviations with the laws of want.
func checkLaws(m audit.Trainer, want law) error {
	const runs, n1, n0 = 3000, 60, 40
	canaries, err := Coordinates().Select(context.Background(), Points(1), n1+n0, 0, 0)
	if err != nil {
		return err
	}
	member := make([]bool, n1+n0)
	train := &audit.CanarySet{Size: canaries.Size, K: 1}
	for _, i := range rand.New(rand.NewPCG(1, 9)).Perm(n1 + n0)[:n1] {
		member[i] = true
		train.X, train.Y = append(train.X, canaries.X[i]), append(train.Y, 0)
	}
	var auc, tpr []float64
	for seed := range uint64(runs) {
		r, err := m.Train(context.Background(), audit.Job{Seed: seed, Train: train, Canaries: canaries})
		if err != nil {
			return err
		}
		s := audit.Scores{Member: member}
		for _, loss := range r.Losses {
			s.Value = append(s.Value, -loss)
		}
		a, err := stats.AUC(s)
		if err != nil {
			return err
		}
		p, err := stats.TPRAtFPR(s, 1, 10)
		if err != nil {
			return err
		}
		auc, tpr = append(auc, a), append(tpr, p)
	}
	if err := agrees("AUC", auc, want.AUC(n1, n0)); err != nil {
		return err
	}
	return agrees("TPR", tpr, want.TPRAtFPR(n1, n0, 1, 10))
}

// agrees compares the mean and the standard deviation of draws with a law,
// within five standard errors. The variance's is estimated from the draws'
// fourth moment, which makes no assumption about their shape.
func agrees(name string, x []float64, law Law) error {
	n := float64(len(x))
	var mean, m2, m4 float64
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		d := (v - law.Mean) * (v - law.Mean)
		m2 += d / n
		m4 += d * d / n
	}
	const rounding = 1e-12 // for figures that never vary
	if tol := 5*law.SD/math.Sqrt(n) + rounding; !(math.Abs(mean-law.Mean) <= tol) {
		return fmt.Errorf("%s: mean %v, want %v ± %v", name, mean, law.Mean, tol)
	}
	if tol := 5*math.Sqrt((m4-m2*m2)/n) + rounding; !(math.Abs(m2-law.SD*law.SD) <= tol) {
		return fmt.Errorf("%s: variance %v, want %v ± %v", name, m2, law.SD*law.SD, tol)
	}
	return nil
}

func TestMechanismsFollowTheirLaws(t *testing.T) {
	for _, m := range []law{Gaussian{0}, Gaussian{.5}, Gaussian{2}, RandomizedResponse{1}, RandomizedResponse{2}, RandomizedResponse{4}} {
		if err := checkLaws(m, m); err != nil {
			t.Errorf("%T%v: %v", m, m, err)
		}
	}
}

// TestPlantedMechanisms: a mechanism a little off its law must be seen.
func TestPlantedMechanisms(t *testing.T) {
	for _, c := range []struct {
		name string
		is   audit.Trainer
		says law
	}{
		{"5 % less noise", Gaussian{1.05}, Gaussian{1}},
		{"signal in the null", Gaussian{.05}, Gaussian{0}},
		{"eps 5 % higher", RandomizedResponse{1.05}, RandomizedResponse{1}},
		{"noise used again for every run", sameSeed{Gaussian{1}}, Gaussian{1}},
	} {
		if checkLaws(c.is, c.says) == nil {
			t.Errorf("nobody notices: %s", c.name)
		}
	}
}

type sameSeed struct{ Gaussian }

func (s sameSeed) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	job.Seed = 1
	return s.Gaussian.Train(ctx, job)
}

func TestSameSeedSameRelease(t *testing.T) {
	canaries, err := Coordinates().Select(context.Background(), Points(1), 10, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	job := audit.Job{Seed: 5, Train: Points(3), Canaries: canaries}
	for _, m := range []audit.Trainer{Gaussian{1}, RandomizedResponse{1}} {
		var losses [3][]float64
		for i, seed := range []uint64{5, 5, 6} {
			job.Seed = seed
			r, err := m.Train(context.Background(), job)
			if err != nil {
				t.Fatal(err)
			}
			losses[i] = r.Losses
		}
		if !slices.Equal(losses[0], losses[1]) || slices.Equal(losses[0], losses[2]) {
			t.Errorf("%T: seeds 5, 5, 6 gave %v", m, losses)
		}
	}
}

func TestRefuses(t *testing.T) {
	ctx := context.Background()
	canaries, err := Coordinates().Select(ctx, Points(1), 4, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []int{-1, 0, 1, maxPoints + 1} {
		if _, err := Coordinates().Select(ctx, Points(1), m, 0, 0); err == nil {
			t.Errorf("took %d canaries", m)
		}
	}
	job := audit.Job{Train: Points(2), Canaries: canaries}
	for _, m := range []audit.Trainer{Gaussian{-1}, Gaussian{math.NaN()}, Gaussian{math.Inf(1)}, RandomizedResponse{-1}, RandomizedResponse{math.NaN()}} {
		if _, err := m.Train(ctx, job); err == nil {
			t.Errorf("%T%v trained", m, m)
		}
	}
	twice := audit.Job{Train: canaries, Canaries: &audit.CanarySet{Size: []int{1}, X: []float32{1, 1}, Y: []int32{0, 0}, K: 1}}
	if _, err := (Gaussian{1}).Train(ctx, twice); err == nil {
		t.Error("took two canaries with one coordinate")
	}
}
