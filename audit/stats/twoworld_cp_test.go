package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// TestFamilyAtKnownDistance: d = .9733 at q = .1 and δ = 1e-5 is worth 1.586.
func TestFamilyAtKnownDistance(t *testing.T) {
	remove, add, err := accounting.SingleRelease(accounting.PoissonSampledGaussian{SampleRate: .1, NoiseMultiplier: 1 / .9733}, 1e-5)
	if got := math.Max(remove, add); err != nil || !(math.Abs(got-1.586) <= 1e-3) {
		t.Errorf("%v, %v, want 1.586", got, err)
	}
}

// rolesMixed takes the false positives for the true ones.
type rolesMixed struct{ ClopperPearson }

func (e rolesMixed) PValue(c Counts, eps float64) (float64, error) {
	return e.ClopperPearson.PValue(Counts{FP: c.TP, NonMembers: c.Members, TP: c.FP, Members: c.NonMembers}, eps)
}

// falseClaimsOfCounts is the share of audits of n runs in each world that reject eps.
func falseClaimsOfCounts(t *testing.T, e Estimator[Counts], p0, p1, eps, alpha float64, n, audits int) float64 {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	cdf := func(p float64) []float64 {
		f, sum := make([]float64, n+1), 0.0
		for k := range f {
			sum += math.Exp(logBinomialPMF(k, n, p))
			f[k] = sum
		}
		return f
	}
	draw := func(f []float64) int {
		u, low, high := r.Float64(), 0, n
		for low < high {
			if mid := (low + high) / 2; f[mid] < u {
				low = mid + 1
			} else {
				high = mid
			}
		}
		return low
	}
	f0, f1 := cdf(p0), cdf(p1)
	claims, known := 0, map[Counts]bool{}
	for range audits {
		c := Counts{FP: draw(f0), NonMembers: n, TP: draw(f1), Members: n}
		claim, ok := known[c]
		if !ok {
			p, err := e.PValue(c, eps)
			if err != nil {
				t.Fatal(err)
			}
			claim = p <= alpha
			known[c] = claim
		}
		if claim {
			claims++
		}
	}
	return float64(claims) / float64(audits)
}

// TestClopperPearsonValidity: at the true ε, false claims in at most the
// level's share of 10,000 audits; planted faults are seen.
func TestClopperPearsonValidity(t *testing.T) {
	const audits, n, alpha, delta = 10000, 1000, .05, 1e-3
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/audits)
	q := 1 / (1 + math.Exp(-1))
	truth, err := gaussianEps(1, delta)
	if err != nil {
		t.Fatal(err)
	}
	p0, p1 := normalBelow(-.5), normalBelow(.5)
	// A mechanism of ε = 0 and δ = .2 that reveals membership with probability δ.
	const big, base = .2, .1
	for _, bounds := range []int{4, 2} {
		for _, o := range []struct {
			name        string
			e           Estimator[Counts]
			p0, p1, eps float64
			holds       bool
		}{
			{"response", ClopperPearson{0, bounds}, 1 - q, q, 1, true},
			{"gaussian", ClopperPearson{delta, bounds}, p0, p1, truth, true},
			{"gaussian on its line", ClopperPearson{delta, bounds}, p0, p1, math.Log((p1 - delta) / p0), true},
			{"reveals", ClopperPearson{big, bounds}, base, base + big, 0, true},
			{"δ forgotten", ClopperPearson{0, bounds}, base, base + big, 0, false},
			{"roles mixed", rolesMixed{ClopperPearson{0, bounds}}, q, 1 - q, .5, false},
		} {
			share := falseClaimsOfCounts(t, o.e, o.p0, o.p1, o.eps, alpha, n, audits)
			if o.holds != (share <= limit) {
				t.Errorf("cp-%d, %s: %v false claims, limit %v", bounds, o.name, share, limit)
			}
		}
	}
}
