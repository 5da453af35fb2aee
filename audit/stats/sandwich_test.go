package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// game is DP-SGD on one canary whose gradient is known: the attack sees the
// privacy losses of all steps and calls "member" where their sum is above
// threshold, which is fixed before anything is drawn.
type game struct {
	q, s             float64
	steps            int
	delta, threshold float64
	lower            float64 // the exact ε is at least this, and at most 2e-4 more
}

// randomGame takes δ large enough, and the threshold at ε, for the counts to say
// much: there P[loss > ε] - δ is e^ε times Q[loss > ε], so that their true
// proportions give ε itself and every upward error of a bound exceeds it.
func randomGame(t *testing.T, r *rand.Rand) game {
	t.Helper()
	g := game{
		q:     math.Exp(math.Log(0.1) * r.Float64()),
		s:     math.Exp(math.Log(0.5) + math.Log(8)*r.Float64()),
		steps: 1 + r.IntN(12), delta: math.Pow(10, -1.3-r.Float64()),
	}
	c, err := accounting.NewCurve(accounting.DPSGD(g.q, g.s, g.steps), g.delta)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Epsilon(g.delta)
	if err != nil {
		t.Fatal(err)
	}
	g.lower, g.threshold = v.Lower, v.Estimate
	return g
}

// play runs both worlds n times.
func (g game) play(r *rand.Rand, n int) Counts {
	keep, scale := 1-g.q, 1/(g.s*g.s)
	above := func(member bool) (count int) {
		for range n {
			loss := 1.0
			for range g.steps {
				x := g.s * r.NormFloat64()
				if member && r.Float64() < g.q {
					x++
				}
				loss *= keep + g.q*math.Exp((x-0.5)*scale)
			}
			if math.Log(loss) > g.threshold {
				count++
			}
		}
		return count
	}
	return Counts{FP: above(false), NonMembers: n, TP: above(true), Members: n}
}

// TestSampledSandwich: lower bounds from samples, at a level of 0.01, may exceed
// the exact ε in 10 of 200 games (a chance of 1e-5 if each is right). That the
// accountant's interval holds the exact ε is TestSandwich of package accounting.
// The planted fault takes proportions for bounds.
func TestSampledSandwich(t *testing.T) {
	const games, trials, alpha, allowed = 200, 4000, 0.01, 10
	r := rand.New(rand.NewPCG(3, 200))
	exceed, plain, telling := 0, 0, 0
	for range games {
		g := randomGame(t, r)
		c := g.play(r, trials)
		eps := func(p1, p0 float64) float64 { return math.Max(0, math.Log(math.Max(0, p1-g.delta)/p0)) }
		bound := eps(clopperPearsonLower(c.TP, c.Members, alpha/2), clopperPearsonUpper(c.FP, c.NonMembers, alpha/2))
		if !(bound <= g.lower) {
			exceed++
			t.Logf("%+v: %+v gives a bound of %g", g, c, bound)
		}
		if !(eps(float64(c.TP)/trials, float64(c.FP)/trials) <= g.lower) {
			plain++
		}
		if bound > 0.5*g.lower && g.lower > 0.1 {
			telling++
		}
	}
	if exceed > allowed {
		t.Errorf("%d of %d bounds exceed the exact ε, at most %d may", exceed, games, allowed)
	}
	if plain <= allowed {
		t.Errorf("planted fault: proportions exceed ε in %d of %d games, which is not noticed", plain, games)
	}
	// Bounds of nothing would pass.
	if telling < games/4 {
		t.Errorf("%d of %d bounds are above half of ε", telling, games)
	}
}
