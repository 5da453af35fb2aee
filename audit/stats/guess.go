package stats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/aviary-audit/aviary/audit"
)

// GuessRule says which canaries of a one-run game are guessed, and how the
// confidence pays for the choice.
type GuessRule interface {
	Name() string
	// Bound bounds ε from the scores of one game, and returns the guesses that
	// the bound rests on.
	Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error)
}

// Count guesses that the plus highest scores are members and the minus lowest
// are not. Where a tie crosses a cut, the correct guesses counted are the
// fewest that any way of breaking the tie could give: at most the count of
// every rule that does not see membership, so that what holds for such rules
// holds for this one.
func Count(s audit.Scores, plus, minus int) (Guesses, error) {
	r, err := rank(s)
	if err != nil {
		return Guesses{}, err
	}
	return r.count(plus, minus)
}

// ranking is a game's canaries from the highest score down and from the lowest
// up, so that several rules can be tried on one sort.
type ranking struct{ down, up side }

// side is canaries in the order in which they are guessed, with the counts that
// were asked for.
type side struct {
	score []float64
	right []bool // that they are on the side which is guessed
	known map[int]int
}

func rank(s audit.Scores) (ranking, error) {
	if err := s.Check(); err != nil {
		return ranking{}, err
	}
	if err := checkCoins(s); err != nil {
		return ranking{}, err
	}
	m := len(s.Value)
	order := make([]int, m)
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(a, b int) bool { return s.Value[order[a]] > s.Value[order[b]] })
	down := pick(s, order)
	up := side{slices.Clone(down.Value), make([]bool, m), map[int]int{}}
	slices.Reverse(up.score)
	for i, member := range down.Member {
		up.right[m-1-i] = !member
	}
	return ranking{side{down.Value, down.Member, map[int]int{}}, up}, nil
}

// count is Count of the ranked scores.
func (r ranking) count(plus, minus int) (Guesses, error) {
	m := len(r.down.score)
	switch {
	case plus < 0 || minus < 0 || plus+minus == 0:
		return Guesses{}, fmt.Errorf("stats: guesses: %d highest and %d lowest, expected 0 or more each and 1 or more together", plus, minus)
	case plus+minus > m:
		return Guesses{}, fmt.Errorf("stats: guesses: %d highest and %d lowest of %d canaries", plus, minus, m)
	}
	return Guesses{m, plus + minus, r.down.fewestRight(plus) + r.up.fewestRight(minus)}, nil
}

// fewestRight is how many of the first n are right, ties at the cut broken
// against them.
func (s side) fewestRight(n int) int {
	if right, ok := s.known[n]; ok {
		return right
	}
	fewest := 0
	for i := 0; i < n; {
		j, right := i, 0
		for ; j < len(s.score) && s.score[j] == s.score[i]; j++ {
			if s.right[j] {
				right++
			}
		}
		if j <= n {
			fewest += right
		} else {
			fewest += max(0, n-i-(j-i-right))
		}
		i = j
	}
	s.known[n] = fewest
	return fewest
}

// checkCoins refuses memberships that fair coins give less than once in 1e9.
func checkCoins(s audit.Scores) error {
	k, m := 0, len(s.Member)
	for _, in := range s.Member {
		if in {
			k++
		}
	}
	if p := 2 * min(binomialLower(k, m, .5), binomialUpper(k, m, .5)); p < 1e-9 {
		return fmt.Errorf("stats: members: %d of %d canaries, which fair coins do not give (p = %.1g): one-run bounds need a coin for each canary", k, m, p)
	}
	return nil
}

// FixedGuesses guesses the Plus highest and Minus lowest scores, numbers that
// were fixed before the scores were seen.
type FixedGuesses struct{ Plus, Minus int }

// DefaultGuesses is the tenth of m canaries with the highest and the tenth with
// the lowest scores: near the best for Gaussian signals, and known from m alone.
func DefaultGuesses(m int) FixedGuesses {
	k := max(1, m/10)
	return FixedGuesses{k, k}
}

// Name implements GuessRule.
func (FixedGuesses) Name() string { return "fixed" }

// Bound implements GuessRule.
func (f FixedGuesses) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	g, err := Count(s, f.Plus, f.Minus)
	if err != nil {
		return Bound{}, g, err
	}
	b, err := Conclude(e, g, alpha, "one look: number of guesses fixed in advance")
	return b, g, err
}

// largest is the largest bound over rules, each at level alpha; of equal ones
// the first.
func largest(s audit.Scores, e Estimator[Guesses], alpha float64, rules []FixedGuesses) (best Bound, at Guesses, choice FixedGuesses, err error) {
	none := func(err error) (Bound, Guesses, FixedGuesses, error) {
		return Bound{}, Guesses{}, FixedGuesses{}, err
	}
	ranked, err := rank(s)
	if err != nil {
		return none(err)
	}
	if len(rules) == 0 {
		return none(fmt.Errorf("stats: guesses: no rule to choose from"))
	}
	known := map[Guesses]Bound{}
	for i, f := range rules {
		g, err := ranked.count(f.Plus, f.Minus)
		if err != nil {
			return none(err)
		}
		b, ok := known[g]
		if !ok {
			if b, err = Conclude(e, g, alpha, ""); err != nil {
				return none(err)
			}
			known[g] = b
		}
		if i == 0 || b.Epsilon > best.Epsilon {
			best, at, choice = b, g, f
		}
	}
	return best, at, choice, nil
}

// GuessGrid takes the best of several rules that were declared in advance, and
// pays for each of them (Bonferroni).
type GuessGrid struct{ Rules []FixedGuesses }

// Name implements GuessRule.
func (GuessGrid) Name() string { return "grid" }

// Bound implements GuessRule.
func (r GuessGrid) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	if err := checkAlpha(alpha); err != nil {
		return Bound{}, Guesses{}, err
	}
	b, g, _, err := largest(s, e, alpha/float64(max(1, len(r.Rules))), r.Rules)
	if err != nil {
		return Bound{}, Guesses{}, err
	}
	b.Confidence = 1 - alpha
	b.Multiplicity = fmt.Sprintf("Bonferroni over %d declared numbers of guesses", len(r.Rules))
	return b, g, nil
}

// HalfSplit lets a half of the canaries, drawn by Seed, choose the number of
// guesses, and tests the other half as a game of its own.
type HalfSplit struct{ Seed uint64 }

// Name implements GuessRule.
func (HalfSplit) Name() string { return "half-split" }

// Bound implements GuessRule.
func (r HalfSplit) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	if err := s.Check(); err != nil {
		return Bound{}, Guesses{}, err
	}
	if err := checkCoins(s); err != nil {
		return Bound{}, Guesses{}, err
	}
	m := len(s.Value)
	perm := rand.New(rand.NewPCG(r.Seed, uint64(m))).Perm(m)
	choosing, tested := pick(s, perm[:m/2]), pick(s, perm[m/2:])
	// The default comes first, so that it is kept where no choice shows anything.
	rules := []FixedGuesses{DefaultGuesses(len(choosing.Value))}
	for k := 1; 2*k <= len(choosing.Value); k = max(k+1, k*4/3) {
		rules = append(rules, FixedGuesses{k, k})
	}
	_, _, f, err := largest(choosing, e, alpha, rules)
	if err != nil {
		return Bound{}, Guesses{}, fmt.Errorf("the choosing half: %w", err)
	}
	g, err := Count(tested, f.Plus, f.Minus)
	if err != nil {
		return Bound{}, g, fmt.Errorf("the tested half: %w", err)
	}
	b, err := Conclude(e, g, alpha, "one look: number of guesses chosen on the other half of the canaries")
	return b, g, err
}

// pick is the candidates with these indices.
func pick(s audit.Scores, index []int) audit.Scores {
	out := audit.Scores{Value: make([]float64, len(index)), Member: make([]bool, len(index))}
	for i, j := range index {
		out.Value[i], out.Member[i] = s.Value[j], s.Member[j]
	}
	return out
}

// PaperMaximum is the largest bound over a grid of numbers of guesses, without
// a correction: what papers seem to report, and no bound. On scores of noise
// alone it claims leakage several times as often as its level says.
type PaperMaximum struct{}

// Name implements GuessRule.
func (PaperMaximum) Name() string { return "paper" }

// Bound implements GuessRule. Its scope is Estimated whatever the estimator.
func (PaperMaximum) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	m := len(s.Value)
	var steps []int
	for _, share := range []float64{0, .005, .01, .02, .03, .05, .075, .1, .15, .2, .25, .3, .4, .5} {
		if k := int(share * float64(m)); len(steps) == 0 || k > steps[len(steps)-1] {
			steps = append(steps, k)
		}
	}
	var rules []FixedGuesses
	for _, plus := range steps {
		for _, minus := range steps {
			if plus+minus > 0 {
				rules = append(rules, FixedGuesses{plus, minus})
			}
		}
	}
	b, g, _, err := largest(s, e, alpha, rules)
	if err != nil {
		return Bound{}, Guesses{}, err
	}
	b.Scope = Estimated
	b.Multiplicity = fmt.Sprintf("none: the largest of %d looks, not valid", len(rules))
	return b, g, nil
}
