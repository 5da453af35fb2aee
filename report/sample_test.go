package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/audit/stats"
)

// sample makes a report of synthetic audits. The loss of a canary is
// log(1+exp(u)) with u normal; included canaries have a mean of u lower by
// gap[method].
func sample(t testing.TB, canaries, sets, audits int, gap map[string]float64) (*audit.Report, Loader) {
	t.Helper()
	r := &audit.Report{
		Schema: audit.Schema, Kind: "onerun", Version: "v0.0.0-test", Seed: 7, Data: "synthetic digits",
		Model: "mlp:784-256-10", Recipe: "SGD, lr 0.1, momentum 0.9, batch 256, 7 epochs", Device: "cpu (avx2, 2 threads)",
		Examples: 60000, Canaries: canaries, Sets: sets, Audits: audits,
		Notes:  []string{"These scores are synthetic."},
		Timing: map[string]float64{"total": 12.5, "train": 11.25},
		Delta:  onerun.DefaultDelta,
	}
	bounder := must(onerun.NewBounder(r.Delta))(t)
	files := map[string]audit.Scores{}
	for index, name := range []string{"random", "mislabeled"} {
		shift, ok := gap[name]
		if !ok {
			continue
		}
		m := audit.Method{Name: name}
		var setOf []int
		var bounds [][]onerun.AuditBound
		var auc, tpr, in, out, accuracy []float64
		for set := range sets {
			for n := range audits {
				rng := rand.New(rand.NewPCG(uint64(100*set+n), uint64(index)))
				var s audit.Scores
				run := audit.Run{Set: set, Audit: n, Scores: fmt.Sprintf("scores/%s-%d-%d.csv", name, set, n)}
				var sum [2]float64
				for range canaries {
					u := 3*rng.NormFloat64() - 8
					if name == "mislabeled" {
						u += 15
					}
					member := rng.IntN(2) == 1
					side := 0
					if member {
						u, side = u-shift, 1
						run.Members++
					}
					loss := math.Log1p(math.Exp(u))
					sum[side] += loss
					s.Value, s.Member = append(s.Value, -loss), append(s.Member, member)
				}
				for e := range 7 {
					a := 0.975 - 0.1*math.Exp(-float64(e)) + 0.002*rng.Float64()
					run.Curve = append(run.Curve, audit.Point{Epoch: float64(e + 1), Step: 31 * (e + 1), TrainLoss: 0.35/float64(e+1) + 0.01*rng.Float64(), TestAccuracy: &a})
				}
				run.AUC = must(stats.AUC(s))(t)
				run.TPR = must(stats.TPRAtFPR(s, 1, 20))(t)
				files[run.Scores] = s
				bounds = append(bounds, must(bounder.Bound(s))(t))
				m.Runs = append(m.Runs, run)
				setOf = append(setOf, set)
				auc, tpr = append(auc, run.AUC), append(tpr, run.TPR)
				in = append(in, sum[1]/float64(run.Members))
				out = append(out, sum[0]/float64(canaries-run.Members))
				accuracy = append(accuracy, *run.Curve[6].TestAccuracy)
			}
		}
		m.AUC = must(stats.Summarize(auc, setOf))(t)
		m.TPR = must(stats.Summarize(tpr, setOf))(t)
		m.LossIn = must(stats.Summarize(in, setOf))(t)
		m.LossOut = must(stats.Summarize(out, setOf))(t)
		a := must(stats.Summarize(accuracy, setOf))(t)
		m.TestAccuracy = &a
		m.Bounds = must(onerun.SummarizeBounds(bounds, setOf))(t)
		r.Methods = append(r.Methods, m)
	}
	r.Paired = must(onerun.Pair(r.Methods))(t)
	return r, func(run audit.Run) (audit.Scores, error) {
		s, ok := files[run.Scores]
		if !ok {
			return s, fmt.Errorf("no file %q", run.Scores)
		}
		return s, nil
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var leaky = map[string]float64{"random": 0, "mislabeled": 3.4}
