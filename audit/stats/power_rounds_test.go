package stats

import (
	"math"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// TestPowerOfRounds: mean bounds of five million runs of cp-4 at .01, and the mean
// of the largest of five, for one to six rounds with q = .1 and σ = 1.1088, called
// where the sum of the rounds' privacy losses is above τ. With δ(ε) the
// accountant's curve the rates there are
//
//	FPR = -dδ/de^ε at ε = τ,  TPR = δ(τ) + e^τ FPR,
//
// and the chord over τ ± h has the slope to h²/6.
func TestPowerOfRounds(t *testing.T) {
	const trials, alpha, delta, h = 5_000_000, .01, 1e-5, .01
	for i, o := range []struct{ exact, tau, mean, max float64 }{
		{1.3347, 1.098, .982, 1.054}, {1.5299, 1.279, 1.156, 1.231}, {1.6717, 1.407, 1.280, 1.359},
		{1.7902, 1.512, 1.382, 1.462}, {1.8947, 1.607, 1.472, 1.557}, {1.9898, 1.690, 1.555, 1.638},
	} {
		c, err := accounting.NewCurve(accounting.DPSGD(.1, 1.1088, i+1), delta)
		if err != nil {
			t.Fatal(err)
		}
		at := func(eps float64) float64 {
			d, err := c.Delta(eps)
			if err != nil {
				t.Fatal(err)
			}
			return d.Estimate
		}
		fpr := (at(o.tau-h) - at(o.tau+h)) / (math.Exp(o.tau+h) - math.Exp(o.tau-h))
		tpr := at(o.tau) + math.Exp(o.tau)*fpr
		all := auditAll(t, ClopperPearson{delta, 4}, alpha, countLattice(trials, 1024, fpr, tpr))
		v, err := c.Epsilon(delta)
		if err != nil || !(math.Abs(v.Estimate-o.exact) <= 1e-4) {
			t.Errorf("%d rounds: ε %v, %v, want %v", i+1, v, err, o.exact)
		}
		if !(math.Abs(all.mean()-o.mean) <= powerTolerance(all.sd(), 5*powerGroups)) || !(math.Abs(all.meanMax(5)-o.max) <= powerTolerance(all.sd(), powerGroups)) {
			t.Errorf("%d rounds: mean %v, want %v; largest of five %v, want %v", i+1, all.mean(), o.mean, all.meanMax(5), o.max)
		}
	}
}
