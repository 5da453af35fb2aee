package stats

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/accounting"
)

// coinsPlay is one game of m canaries.
type coinsPlay func(r *rand.Rand, m int) audit.Scores

// drawnGuesses plays games of m canaries and guesses by rule.
func drawnGuesses(t *testing.T, games, m int, play coinsPlay, rule FixedGuesses, count func(s audit.Scores, plus, minus int) (Guesses, error)) []Guesses {
	t.Helper()
	r := rand.New(rand.NewPCG(71, 72))
	out := make([]Guesses, games)
	for i := range out {
		g, err := count(play(r, m), rule.Plus, rule.Minus)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = g
	}
	return out
}

// claimedOf is shareClaimed of outcomes drawn before.
func claimedOf[D comparable](t *testing.T, outcomes []D, claims func(d D) (bool, error)) float64 {
	t.Helper()
	next := -1
	return shareClaimed(t, len(outcomes), func() D { next++; return outcomes[next] }, claims)
}

// countForMembers is Count with ties broken by membership: members are the
// higher.
func countForMembers(s audit.Scores, plus, minus int) (Guesses, error) {
	for i, member := range s.Member {
		if member {
			s.Value[i] += 1e-9
		}
	}
	return Count(s, plus, minus)
}

// TestOneRunModelFree: whatever the mechanism, and with ties or none, a fifth of
// the canaries guessed from their scores leads to false claims at the true ε in
// at most the level's share of 10,000 games.
func TestOneRunModelFree(t *testing.T) {
	// Of 60 guesses, both on coins and on randomised response of ε = 1 some number
	// is right, or more, with a probability just below .05 (.046): no slack of
	// whole numbers hides a fault.
	const games, m, alpha, delta = 10_000, 300, .05, 1e-5
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/games)
	response := func(r *rand.Rand, m int) audit.Scores { return lossGame(r, m, 1) }
	null := func(r *rand.Rand, m int) audit.Scores { return gaussianGame(r, m, 0) }
	gaussian := func(r *rand.Rand, m int) audit.Scores { return gaussianGame(r, m, 1) }
	sampled := func(r *rand.Rand, m int) audit.Scores { return dpsgdGame(r, m, .5, .5, 1) }
	shared := func(r *rand.Rand, m int) audit.Scores { return sharedGaussianGame(r, m, .5) }
	pure := []Estimator[Guesses]{Steinke{}, MahloujifarEpsDelta{}, Steinke{delta}, MahloujifarEpsDelta{delta}}
	atDelta := pure[2:]
	for _, o := range []struct {
		name string
		eps  float64
		play coinsPlay
		e    []Estimator[Guesses]
	}{
		{"response", 1, response, pure},
		{"response with ties", 1, rounded(response, 20), pure},
		{"null", 0, null, pure},
		{"null with ties", 0, rounded(null, 20), pure},
		{"null with seven scores", 0, rounded(null, 1), pure},
		{"null, all scores alike", 0, rounded(null, .01), pure},
		{"gaussian", gaussianEpsOf(t, 1, delta), gaussian, atDelta},
		{"gaussian with ties", gaussianEpsOf(t, 1, delta), rounded(gaussian, 20), atDelta},
		{"sampled gaussian", exactRelease(t, .5, .5, delta), sampled, atDelta},
		{"shared", gaussianEpsOf(t, .5, delta), shared, atDelta},
	} {
		outcomes := drawnGuesses(t, games, m, o.play, DefaultGuesses(m), Count)
		for _, e := range o.e {
			share := claimedOf(t, outcomes, atLevel(e, o.eps, alpha))
			if !(share <= limit) {
				t.Errorf("%s on %s: %v false claims, limit %v", e.Name(), o.name, share, limit)
			}
		}
	}
	// Planted: ties broken by what is to be guessed.
	outcomes := drawnGuesses(t, games, m, rounded(null, 1), DefaultGuesses(m), countForMembers)
	for _, e := range pure {
		if share := claimedOf(t, outcomes, atLevel(e, 0, alpha)); !(share > limit) {
			t.Errorf("%s, ties split: only %v false claims, limit %v", e.Name(), share, limit)
		}
	}
}

// leastTelling is the least number of correct guesses that is rejected at level
// alpha, where more are never less telling.
func leastTelling(m, r int, alpha float64, below func(x float64) float64) int {
	return sort.Search(r+1, func(v int) bool { return rejectsTradeOff(Guesses{m, r, v}, alpha, below) })
}

// familyGames are members of a family: games with the curve below, guessed by
// rule.
type familyGames struct {
	name string
	play coinsPlay
	rule FixedGuesses
}

// claims is the share of 10,000 games that are rejected at level alpha.
func (g familyGames) claims(t *testing.T, m int, alpha float64, below func(x float64) float64) float64 {
	t.Helper()
	telling := leastTelling(m, g.rule.Plus+g.rule.Minus, alpha, below)
	outcomes := drawnGuesses(t, 10_000, m, g.play, g.rule, Count)
	return claimedOf(t, outcomes, func(g Guesses) (bool, error) { return g.Correct >= telling, nil })
}

// checkDecision: the p-value at eps is at most alpha just where the curve is
// rejected, if all are guessed.
func checkDecision(t *testing.T, e Estimator[Guesses], m int, eps, alpha float64, below func(x float64) float64) {
	t.Helper()
	telling := leastTelling(m, m, alpha, below)
	for v, claims := range map[int]bool{telling: true, telling - 1: false} {
		if p, err := e.PValue(Guesses{m, m, v}, eps); err != nil || (p <= alpha) != claims {
			t.Errorf("%s: p of %d correct at %v is %v, %v", e.Name(), v, eps, p, err)
		}
	}
}

const familyCanaries = 250

var (
	guessFifth = DefaultGuesses(familyCanaries)
	guessAll   = FixedGuesses{familyCanaries / 2, familyCanaries / 2}
)

// TestGDPOnItsFamily: on Gaussians of the canaries' own, a fifth guessed, and on
// one that all share, which leaves the test little to spare. Noise taken for
// twice of what it is must be seen.
func TestGDPOnItsFamily(t *testing.T) {
	const m, alpha, delta, mu = familyCanaries, .05, 1e-5, 1.
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/10_000)
	checkDecision(t, MahloujifarGDP{delta}, m, gaussianEpsOf(t, mu, delta), alpha, gaussianCurve(mu))
	own := func(r *rand.Rand, m int) audit.Scores { return gaussianGame(r, m, mu) }
	shared := func(r *rand.Rand, m int) audit.Scores { return sharedGaussianGame(r, m, mu) }
	for _, g := range []familyGames{
		{"own", own, guessFifth}, {"own, with ties", rounded(own, 20), guessFifth}, {"shared", shared, guessFifth}, {"shared", shared, guessAll},
	} {
		if share := g.claims(t, m, alpha, gaussianCurve(mu)); !(share <= limit) {
			t.Errorf("%s: %v false claims, limit %v", g.name, share, limit)
		}
	}
	if share := (familyGames{"shared", shared, guessAll}).claims(t, m, alpha, gaussianCurve(mu/2)); !(share > limit) {
		t.Errorf("noise twice too large: only %v false claims", share)
	}
}

// TestDPSGDOnItsFamily: as with Gaussians, on one and on ten steps of DP-SGD,
// whose ε and curve come from the accountant. The faults are noise that is twice
// too large, and the curve of one step for that of ten with the same ε.
func TestDPSGDOnItsFamily(t *testing.T) {
	const m, alpha, delta, q, sigma = familyCanaries, .05, 1e-5, .1, 1.
	limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/10_000)
	curve := func(sigma float64, steps int) (f tradeOff, eps float64) {
		t.Helper()
		e := MahloujifarDPSGD{q, steps, delta}
		c, err := e.account(sigma)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Epsilon(delta)
		if err != nil {
			t.Fatal(err)
		}
		if f, err = newTradeOff(c); err != nil {
			t.Fatal(err)
		}
		return f, v.Lower
	}
	for _, steps := range []int{1, 10} {
		f, eps := curve(sigma, steps)
		checkDecision(t, MahloujifarDPSGD{q, steps, delta}, m, eps, alpha, f.below)
		own := func(r *rand.Rand, m int) audit.Scores { return dpsgdGame(r, m, q, sigma, steps) }
		for _, g := range []familyGames{{"own", own, guessFifth}, {"shared", sharedCurveGame(f), guessAll}} {
			if share := g.claims(t, m, alpha, f.below); !(share <= limit) {
				t.Errorf("%d steps, %s: %v false claims, limit %v", steps, g.name, share, limit)
			}
		}
	}
	ten, eps := curve(sigma, 10)
	less, _ := curve(2*sigma, 10)
	alike, err := accounting.Noise{SampleRate: q, Steps: 1, Delta: delta}.Calibrate(eps)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := curve(alike, 1)
	for name, fault := range map[string]tradeOff{"noise twice too large": less, "one step for ten": one} {
		if share := (familyGames{"shared", sharedCurveGame(ten), guessAll}).claims(t, m, alpha, fault.below); !(share > limit) {
			t.Errorf("%s: only %v false claims", name, share)
		}
	}
}
