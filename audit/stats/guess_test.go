package stats

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

// exactGuesses is the test that v of r guesses are right, each with probability
// e^eps/(1+e^eps): the sharpest for a game of independent canaries, so that the
// rules get no slack from it. It notes what it was asked.
type exactGuesses struct {
	known map[string]float64
	asked []Guesses
	level []float64
}

func (*exactGuesses) Name() string       { return "exact" }
func (*exactGuesses) Scope() Scope       { return ModelFree }
func (*exactGuesses) Assumption() string { return "independent canaries" }
func (*exactGuesses) AtDelta() float64   { return 0 }
func (*exactGuesses) PValue(g Guesses, eps float64) (float64, error) {
	if err := g.Check(); err != nil {
		return 0, err
	}
	return binomialUpper(g.Correct, g.Guessed, 1/(1+math.Exp(-eps))), nil
}
func (e *exactGuesses) Lower(g Guesses, alpha float64) (float64, error) {
	e.asked, e.level = append(e.asked, g), append(e.level, alpha)
	key := fmt.Sprint(g.Guessed, g.Correct, alpha)
	eps, ok := e.known[key]
	if !ok {
		var err error
		if eps, err = lowerByPValue(e, g, alpha); err != nil {
			return 0, err
		}
		if e.known == nil {
			e.known = map[string]float64{}
		}
		e.known[key] = eps
	}
	return eps, nil
}

// responseGame is a game of m fair coins whose scores have the member's sign
// with probability e^eps/(1+e^eps), whatever their size: guesses of the highest
// and the lowest are right with just that probability, and ε is eps. With ties
// the sizes are rounded to few values. Members come
// first, where a rule that heeds the file's order would claim the most.
func responseGame(r *rand.Rand, m int, eps float64, ties bool) audit.Scores {
	s := audit.Scores{Value: make([]float64, m), Member: make([]bool, m)}
	members := 0
	for range m {
		if r.IntN(2) == 1 {
			members++
		}
	}
	for i := range m {
		s.Member[i] = i < members
		size := math.Abs(r.NormFloat64())
		if ties {
			size = math.Ceil(size)
		}
		if (r.Float64() < 1/(1+math.Exp(-eps))) != s.Member[i] {
			size = -size
		}
		s.Value[i] = size
	}
	return s
}

// checkGuessRule plays 4,000 games of 200 canaries, and fails if more than 5 %
// of the bounds, and five standard errors, lie above eps.
func checkGuessRule(rule func(seed uint64) GuessRule, eps float64, ties bool) error {
	const games, alpha = 4000, .05
	r := rand.New(rand.NewPCG(11, 12))
	e := &exactGuesses{}
	above := 0
	for i := range games {
		e.asked, e.level = e.asked[:0], e.level[:0]
		b, _, err := rule(uint64(i)).Bound(responseGame(r, 200, eps, ties), e, alpha)
		if err != nil {
			return err
		}
		if b.Epsilon > eps {
			above++
		}
	}
	share := float64(above) / games
	if limit := alpha + 5*math.Sqrt(alpha*(1-alpha)/games); !(share <= limit) {
		return tooOften{share, limit}
	}
	return nil
}

// tooOften is the failure that the planted faults must bring about: no other
// error counts as their being noticed.
type tooOften struct{ share, limit float64 }

func (e tooOften) Error() string {
	return fmt.Sprintf("%.4f of the bounds lie above ε, at most %.4f may", e.share, e.limit)
}

// aGrid is a grid whose rules differ enough for a choice to matter.
var aGrid = []FixedGuesses{{5, 5}, {10, 10}, {20, 20}, {40, 40}, {80, 80}, {30, 0}, {0, 30}, {100, 100}}

func TestGuessRuleValidity(t *testing.T) {
	for name, rule := range map[string]func(seed uint64) GuessRule{
		"fixed":      func(uint64) GuessRule { return DefaultGuesses(200) },
		"half-split": func(seed uint64) GuessRule { return HalfSplit{seed} },
		"grid":       func(uint64) GuessRule { return GuessGrid{aGrid} },
	} {
		if got := rule(0).Name(); got != name {
			t.Errorf("name %q, want %q", got, name)
		}
		for _, eps := range []float64{0, 1} {
			for _, ties := range []bool{false, true} {
				if err := checkGuessRule(rule, eps, ties); err != nil {
					t.Errorf("%s, eps %v, ties %v: %v", name, eps, ties, err)
				}
			}
		}
	}
}

// fileOrder breaks ties by the order of the file: the earlier is the higher.
type fileOrder struct{ FixedGuesses }

func (f fileOrder) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	broken := audit.Scores{Value: make([]float64, len(s.Value)), Member: s.Member}
	for i, v := range s.Value {
		broken.Value[i] = v - 1e-6*float64(i)
	}
	return f.FixedGuesses.Bound(broken, e, alpha)
}

// unpaidGrid is a grid without Bonferroni's correction.
type unpaidGrid struct{ GuessGrid }

func (r unpaidGrid) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	return r.GuessGrid.Bound(s, e, alpha*float64(len(r.Rules)))
}

// testedChooses is a half-split whose tested half also chooses.
type testedChooses struct{ HalfSplit }

func (r testedChooses) Bound(s audit.Scores, e Estimator[Guesses], alpha float64) (Bound, Guesses, error) {
	m := len(s.Value)
	half := pick(s, rand.New(rand.NewPCG(r.Seed, uint64(m))).Perm(m)[m/2:])
	b, g, _, err := largest(half, e, alpha, []FixedGuesses{{1, 1}, {5, 5}, {6, 6}, {10, 10}, {20, 20}, {30, 30}, {40, 40}, {50, 50}})
	return b, g, err
}

func TestPlantedGuessFaults(t *testing.T) {
	for name, c := range map[string]struct {
		rule  GuessRule
		ties  bool
		least float64 // the share of false claims that is expected at least
	}{
		"the largest of many looks":          {PaperMaximum{}, false, .1},
		"ties by file order, members first":  {fileOrder{DefaultGuesses(200)}, true, .1},
		"a grid that pays nothing":           {unpaidGrid{GuessGrid{aGrid}}, false, 0},
		"a half that chooses and tests both": {testedChooses{}, false, 0},
	} {
		err := checkGuessRule(func(uint64) GuessRule { return c.rule }, 0, c.ties)
		if often, ok := err.(tooOften); !ok || !(often.share > c.least) {
			t.Errorf("%s: not noticed: %v", name, err)
		}
	}
}

// scoresOf reads scores from letters, highest first: M and o are a member and
// another, and each group has one score.
func scoresOf(groups string) audit.Scores {
	var s audit.Scores
	for i, group := range strings.Fields(groups) {
		for _, letter := range group {
			s.Value = append(s.Value, float64(-i))
			s.Member = append(s.Member, letter == 'M')
		}
	}
	return s
}

func TestCountByHand(t *testing.T) {
	for _, c := range []struct {
		groups      string
		plus, minus int
		want        int
	}{
		{"M M o o", 2, 2, 4},
		{"M M o o", 1, 0, 1},
		{"M M o o", 0, 1, 1},
		{"o o M M", 2, 2, 0},
		{"M o M o", 2, 2, 2},
		{"M Mo o", 2, 0, 1},     // the cut takes one of Mo: the o
		{"M Mo o", 0, 2, 1},     // the cut takes one of Mo: the M
		{"M MMo o", 3, 0, 2},    // two of MMo: one M at the least
		{"M Moo o", 0, 3, 2},    // two of Moo: one o at the least
		{"M Mo o", 3, 0, 2},     // the cut is at the block's end
		{"M Mo o", 2, 2, 2},     // the block crosses both cuts
		{"MMoo", 2, 2, 0},       // all in one block
		{"MMMo", 3, 1, 2},       // three of MMMo are two M and the o, then an M is left
		{"MMMo", 4, 0, 3},       // all of it, no cut inside
		{"Mooo", 1, 2, 1},       // one o is taken above; below the M and an o
		{"MM MMMo oo", 4, 3, 5}, // above 2 and an M besides the o, below 2
	} {
		s := scoresOf(c.groups)
		got, err := Count(s, c.plus, c.minus)
		if want := (Guesses{len(s.Value), c.plus + c.minus, c.want}); err != nil || got != want {
			t.Errorf("%s: %d highest, %d lowest: %v, %v; want %v", c.groups, c.plus, c.minus, got, err, want)
		}
	}
}

// leastCorrect tries all choices of plus canaries to be guessed members and
// minus others to be guessed none that some way of breaking ties gives.
func leastCorrect(s audit.Scores, plus, minus int) int {
	m := len(s.Value)
	least := m + 1
	// above reports whether nothing outside set scores higher than set's lowest.
	above := func(set uint, sign float64) bool {
		for i := range m {
			for j := range m {
				if set>>i&1 == 1 && set>>j&1 == 0 && sign*s.Value[j] > sign*s.Value[i] {
					return false
				}
			}
		}
		return true
	}
	for high := range uint(1) << m {
		if bits.OnesCount(high) != plus || !above(high, 1) {
			continue
		}
		for low := range uint(1) << m {
			if bits.OnesCount(low) != minus || low&high != 0 || !above(low, -1) {
				continue
			}
			correct := 0
			for i, member := range s.Member {
				if high>>i&1 == 1 && member || low>>i&1 == 1 && !member {
					correct++
				}
			}
			least = min(least, correct)
		}
	}
	return least
}

// TestCountIsLeast compares with all ways of breaking ties, those of one block
// that crosses both cuts included: the least of each side alone is possible
// jointly, for where the high guesses run out of others, members alone are left.
func TestCountIsLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	compared, crossed := 0, 0
	for compared < 600 {
		m, values := 2+r.IntN(6), 1+r.IntN(4)
		s := audit.Scores{Value: make([]float64, m), Member: make([]bool, m)}
		for i := range m {
			s.Value[i], s.Member[i] = float64(r.IntN(values)), r.IntN(2) == 1
		}
		plus := r.IntN(m + 1)
		minus := r.IntN(m - plus + 1)
		if s.Check() != nil || plus+minus == 0 {
			continue
		}
		compared++
		if values == 1 && plus > 0 && minus > 0 {
			crossed++
		}
		g, err := Count(s, plus, minus)
		if want := leastCorrect(s, plus, minus); err != nil || g != (Guesses{m, plus + minus, want}) {
			t.Errorf("%v: %d highest, %d lowest: %v, %v; want %d", s, plus, minus, g, err, want)
		}
	}
	if crossed < 20 {
		t.Errorf("%d blocks crossed both cuts", crossed)
	}
}

func TestDefaultGuesses(t *testing.T) {
	for m, want := range map[int]int{2: 1, 19: 1, 20: 2, 1000: 100} {
		if got := DefaultGuesses(m); got != (FixedGuesses{want, want}) {
			t.Errorf("%d canaries: %v", m, got)
		}
	}
}

// TestGuessRulesSay: what the rules say of their bounds, and what they ask.
func TestGuessRulesSay(t *testing.T) {
	s := responseGame(rand.New(rand.NewPCG(31, 32)), 201, 3, false)
	const alpha = .04
	for _, c := range []struct {
		rule         GuessRule
		name         string
		level        float64
		scope        Scope
		multiplicity string
	}{
		{FixedGuesses{20, 20}, "fixed", alpha, ModelFree, "fixed in advance"},
		{HalfSplit{5}, "half-split", alpha, ModelFree, "other half"},
		{GuessGrid{aGrid}, "grid", alpha / 8, ModelFree, "Bonferroni over 8 "},
		{PaperMaximum{}, "paper", alpha, Estimated, "not valid"},
	} {
		e := &exactGuesses{}
		b, g, err := c.rule.Bound(s, e, alpha)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.rule.Name() != c.name || b.Scope != c.scope || !strings.Contains(b.Multiplicity, c.multiplicity) || b.Confidence != 1-alpha || b.Estimator != "exact" {
			t.Errorf("%s: %+v", c.rule.Name(), b)
		}
		for _, level := range e.level {
			if level != c.level {
				t.Errorf("%s: asked at level %v, want %v", c.name, level, c.level)
			}
		}
		// The bound is that of the guesses returned.
		if eps, err := e.Lower(g, c.level); err != nil || eps != b.Epsilon || !(eps > 0) {
			t.Errorf("%s: %v gives %v, %v; the bound is %v", c.name, g, eps, err, b.Epsilon)
		}
		if again, g2, err := c.rule.Bound(s, e, alpha); err != nil || again != b || g2 != g {
			t.Errorf("%s: another bound the second time: %v, %v", c.name, again, err)
		}
		wantM := 201
		if c.name == "half-split" {
			wantM = 101
		}
		if g.Canaries != wantM {
			t.Errorf("%s: %d canaries, want %d", c.name, g.Canaries, wantM)
		}
		if c.name == "paper" && len(e.asked) < 100 {
			t.Errorf("paper: %d looks", len(e.asked))
		}
	}
	_, a, _ := HalfSplit{1}.Bound(s, &exactGuesses{}, alpha)
	if _, b, _ := (HalfSplit{2}).Bound(s, &exactGuesses{}, alpha); a == b {
		t.Errorf("seeds 1 and 2 both give %v", a)
	}
}

func TestGuessesRefuse(t *testing.T) {
	good := scoresOf("M M o o M o")
	biased := scoresOf(strings.Repeat("M ", 70) + strings.Repeat("o ", 12))
	// 2·P[Bin(41, 1/2) <= 1] = 3.8e-11 and 2·P[Bin(41, 1/2) <= 2] = 7.8e-10 are
	// refused, and 2·P[Bin(41, 1/2) <= 3] = 1.0e-8 is not.
	for few := range 5 {
		s := scoresOf(strings.Repeat("M ", few) + strings.Repeat("o ", 41-few))
		flipped := scoresOf(strings.Repeat("o ", few) + strings.Repeat("M ", 41-few))
		for _, s := range []audit.Scores{s, flipped} {
			if _, err := Count(s, 1, 1); (err == nil) != (few > 2) {
				t.Errorf("%d of 41: %v", few, err)
			}
		}
	}
	nan := scoresOf("M o")
	nan.Value[0] = math.NaN()
	for want, f := range map[string]func() error{
		"-1 highest":                    func() error { _, err := Count(good, -1, 2); return err },
		"-2 lowest":                     func() error { _, err := Count(good, 1, -2); return err },
		"0 highest and 0 lowest":        func() error { _, err := Count(good, 0, 0); return err },
		"4 highest and 3 lowest of 6":   func() error { _, err := Count(good, 4, 3); return err },
		"NaN":                           func() error { _, err := Count(nan, 1, 1); return err },
		"both sides are needed":         func() error { _, err := Count(scoresOf("M M"), 1, 1); return err },
		"70 of 82 canaries, which fair": func() error { _, err := Count(biased, 1, 1); return err },
		"no rule":                       func() error { return guessError(GuessGrid{}, good, .05) },
		"fair coins":                    func() error { return guessError(HalfSplit{1}, biased, .05) },
		"5 highest and 5 lowest of 6":   func() error { return guessError(GuessGrid{[]FixedGuesses{{1, 1}, {5, 5}}}, good, .05) },
		"alpha: 0 ":                     func() error { return guessError(GuessGrid{aGrid}, good, 0) },
		"alpha: 1 ":                     func() error { return guessError(FixedGuesses{1, 1}, good, 1) },
		"alpha: 2 ":                     func() error { return guessError(GuessGrid{[]FixedGuesses{{1, 1}, {2, 2}, {3, 3}}}, good, 2) },
		"half":                          func() error { return guessError(HalfSplit{1}, scoresOf("M o"), .05) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func guessError(r GuessRule, s audit.Scores, alpha float64) error {
	_, _, err := r.Bound(s, &exactGuesses{}, alpha)
	return err
}
