package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// newBinomialDraws draws the counts of n runs of each world by inverting the
// distribution functions.
func newBinomialDraws(n int, p0, p1 float64) func(r *rand.Rand) Counts {
	table := func(p float64) []float64 {
		cdf, sum := make([]float64, n+1), 0.0
		for k := range cdf {
			sum += math.Exp(logBinomialPMF(k, n, p))
			cdf[k] = sum
		}
		return cdf
	}
	invert := func(cdf []float64, u float64) int {
		low, high := 0, n
		for low < high {
			if mid := (low + high) / 2; cdf[mid] < u {
				low = mid + 1
			} else {
				high = mid
			}
		}
		return low
	}
	t0, t1 := table(p0), table(p1)
	return func(r *rand.Rand) Counts {
		return Counts{invert(t0, r.Float64()), n, invert(t1, r.Float64()), n}
	}
}

// twoWorlds is a mechanism seen through one call of members: its rates, and the
// ε and δ with which they lie on p1 = e^ε p0 + δ, so that no mechanism which
// leads to them has less ε.
type twoWorlds struct {
	name               string
	p0, p1, eps, delta float64
}

// sampledRates are those of one Poisson-sampled Gaussian release at a threshold
// in standard deviations of its noise.
func sampledRates(q, sigma, at float64) (p0, p1 float64) {
	p0 = normalBelow(-at)
	return p0, (1-q)*p0 + q*normalBelow(1/sigma-at)
}

// bestCall is where one Poisson-sampled Gaussian release has the privacy loss eps.
func bestCall(q, sigma, eps float64) float64 {
	return sigma*math.Log((math.Exp(eps)-(1-q))/q) + .5/sigma
}

func someWorlds(t *testing.T) []twoWorlds {
	const delta, q, sigma = 1e-3, .1, 1
	right := 1 / (1 + math.Exp(-1))
	gaussian := func(name string, at float64) twoWorlds {
		p0, p1 := gaussianRates(1, at)
		return twoWorlds{name, p0, p1, math.Log((p1 - delta) / p0), delta}
	}
	sampled := twoWorlds{name: "sampled gaussian", eps: exactRelease(t, q, sigma, delta), delta: delta}
	sampled.p0, sampled.p1 = sampledRates(q, sigma, bestCall(q, sigma, sampled.eps))
	if on := math.Exp(sampled.eps)*sampled.p0 + delta; !(math.Abs(sampled.p1/on-1) <= 1e-6) {
		t.Fatalf("%+v is not on its line, %v", sampled, on)
	}
	return []twoWorlds{
		{"response", 1 - right, right, 1, 0},
		gaussian("gaussian", 2.5),
		// One canary of the channel that others share, called where its bit is 1:
		// alone it is a Gaussian's.
		gaussian("shared", .5),
		sampled,
		{"null", .01, .01, 0, 0},
		{"all of δ", .01, .02, 0, .01},
	}
}

// aboveTruth claims where the bound exceeds eps, which is where the p-value at
// eps is below alpha, at a fraction of the cost.
func aboveTruth(e Estimator[Counts], eps, alpha float64) func(c Counts) (bool, error) {
	return func(c Counts) (bool, error) {
		low, err := e.Lower(c, alpha)
		return low > eps, err
	}
}

// jointClaims is the decision of Joint's p-value, without its digits.
func jointClaims(delta, eps, alpha float64) func(c Counts) (bool, error) {
	return func(c Counts) (bool, error) { return Joint{delta}.rejects(c, eps, alpha, jointBoos), nil }
}

func drawnCounts(audits, n int, p0, p1 float64) []Counts {
	r := rand.New(rand.NewPCG(21, 22))
	draw := newBinomialDraws(n, p0, p1)
	out := make([]Counts, audits)
	for i := range out {
		out[i] = draw(r)
	}
	return out
}

// swap takes members for the others.
func swap(c Counts) Counts {
	return Counts{FP: c.TP, NonMembers: c.Members, TP: c.FP, Members: c.NonMembers}
}

// TestTwoWorldModelFree: at the true ε, false claims in at most the level's share
// of 10,000 audits of 10,000 runs in each world. That δ was forgotten, or the
// directions were mixed, must be seen.
func TestTwoWorldModelFree(t *testing.T) {
	const audits, n, alpha = 10_000, 10_000, .05
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/audits)
	for _, w := range someWorlds(t) {
		outcomes := drawnCounts(audits, n, w.p0, w.p1)
		for name, claims := range map[string]func(c Counts) (bool, error){
			"cp-4":  aboveTruth(ClopperPearson{w.delta, 4}, w.eps, alpha),
			"cp-2":  aboveTruth(ClopperPearson{w.delta, 2}, w.eps, alpha),
			"joint": jointClaims(w.delta, w.eps, alpha),
		} {
			share := claimedOf(t, outcomes, claims)
			if !(share <= limit) {
				t.Errorf("%s on %s: %v false claims, limit %v", name, w.name, share, limit)
			}
		}
	}
	const small, delta = .01, .01
	right := 1 / (1 + math.Exp(-1))
	for _, o := range []struct {
		name   string
		p0, p1 float64
		eps    float64
		seen   func(c Counts) Counts
	}{
		{"δ forgotten", small, small + delta, 0, func(c Counts) Counts { return c }},
		{"directions mixed", right, 1 - right, .5, swap},
	} {
		outcomes := drawnCounts(1000, n, o.p0, o.p1)
		for i, c := range outcomes {
			outcomes[i] = o.seen(c)
		}
		for name, claims := range map[string]func(c Counts) (bool, error){
			"cp-4":  aboveTruth(ClopperPearson{0, 4}, o.eps, alpha),
			"cp-2":  aboveTruth(ClopperPearson{0, 2}, o.eps, alpha),
			"joint": jointClaims(0, o.eps, alpha),
		} {
			if share := claimedOf(t, outcomes, claims); !(share > limit) {
				t.Errorf("%s, %s: only %v false claims", name, o.name, share)
			}
		}
	}
}

// TestAboveTruth: bounds above ε and p-values below the level are the same.
func TestAboveTruth(t *testing.T) {
	const alpha, eps, delta, q = .05, .25, 1e-3, .1
	p0, p1 := sampledRates(q, 1, 2)
	for _, e := range []Estimator[Counts]{ClopperPearson{delta, 4}, ClopperPearson{delta, 2}, SubsampledGaussian{q, delta}} {
		claimed := 0
		for _, c := range drawnCounts(200, 3000, p0, p1) {
			above, err := aboveTruth(e, eps, alpha)(c)
			if err != nil {
				t.Fatal(err)
			}
			p, err := e.PValue(c, eps)
			if err != nil || above != (p < alpha) {
				t.Errorf("%s of %+v: p %v, %v; above the truth: %v", e.Name(), c, p, err, above)
			}
			if above {
				claimed++
			}
		}
		if claimed == 0 || claimed == 200 {
			t.Errorf("%s: %d of 200 claim", e.Name(), claimed)
		}
	}
}

// TestSampledGaussianFamily: on members of its family, called where the family's
// bound says most, where the mechanism has its ε, and further out. A rate taken
// for half of what it is must be seen, and one that is forgotten: a Gaussian
// which explains the rare calls of a sampled one has more ε than that.
func TestSampledGaussianFamily(t *testing.T) {
	const audits, n, alpha, delta = 10_000, 10_000, .05, .01
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/audits)
	share := func(n int, q, sigma, at, rate float64) float64 {
		p0, p1 := sampledRates(q, sigma, at)
		eps := exactRelease(t, q, sigma, delta)
		return claimedOf(t, drawnCounts(audits, n, p0, p1), aboveTruth(SubsampledGaussian{rate, delta}, eps, alpha))
	}
	for _, o := range [][2]float64{{.1, 1}, {.5, 1}, {.1, .5}} {
		q, sigma := o[0], o[1]
		for _, at := range []float64{1.82, bestCall(q, sigma, exactRelease(t, q, sigma, delta)), 3.5} {
			got := share(n, q, sigma, at, q)
			if !(got <= limit) {
				t.Errorf("%v at %v: %v false claims, limit %v", o, at, got, limit)
			}
		}
	}
	if got := share(n, .5, 1, 1.82, .25); !(got > limit) {
		t.Errorf("half the rate: only %v false claims", got)
	}
	if got := share(10*n, .1, .5, 3.5, 1); !(got > limit) {
		t.Errorf("no sampling: only %v false claims", got)
	}
}
