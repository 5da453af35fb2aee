package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/audit/stats"
)

// boundMethod makes one row of a game at a level.
type boundMethod func(s audit.Scores, alpha float64) (boundRow, error)

// boundScores bounds every game of a score file, and all of them together.
func (s *boundSettings) boundScores(ctx context.Context, stderr io.Writer, flags *pflag.FlagSet, kind evidenceKind) (*boundAnswer, error) {
	rows, err := s.readScores(stderr, kind)
	if err != nil {
		return nil, err
	}
	a := &boundAnswer{}
	var methods []boundMethod
	if kind == twoWorldScores {
		a.Games = s.worlds(rows)
		methods = s.twoWorldMethods(flags)
		if s.pool && sharedRun(rows) {
			a.warn("%s: several canaries share a set and audit: --two-world takes every row for a run of its own", s.scores)
		}
	} else {
		a.Games = runs(rows)
		if methods, err = s.oneRunMethods(flags); err != nil {
			return nil, err
		}
	}
	step, end := slowly(stderr, "bound", len(a.Games)*(1+len(methods)))
	defer end()
	for i := range a.Games {
		if err := a.Games[i].describe(); err != nil {
			return nil, s.gameError(&a.Games[i], err)
		}
		if split := !flags.Changed("threshold") && !flags.Changed("thresholds"); split && kind == twoWorldScores {
			if err := a.Games[i].checkSplit(); err != nil {
				return nil, s.gameError(&a.Games[i], err)
			}
		}
		step()
	}
	for _, m := range methods {
		if err := s.boundGames(ctx, a, m, step); err != nil {
			return nil, err
		}
	}
	s.warn(a)
	return a, nil
}

func (s *boundSettings) readScores(stderr io.Writer, kind evidenceKind) ([]scoreio.Row, error) {
	columns := s.columns
	columns.Runs = kind == twoWorldScores
	step, end := slowly(stderr, "reading", 1)
	defer end()
	rows, err := columns.ReadScores(s.scores)
	if err == nil {
		step()
	}
	if errors.Is(err, scoreio.ErrPlaceTwice) && !columns.Runs {
		return nil, &failure{exitUsage, err, "if every row is a training run of its own, with the record or without it, add --two-world"}
	}
	return rows, inputError(err)
}

// boundGames adds m's row to every game, each at the full level, and to the
// answer the largest over games, each at its share of the level.
func (s *boundSettings) boundGames(ctx context.Context, a *boundAnswer, m boundMethod, step func()) error {
	n := len(a.Games)
	var best *boundRow
	values := make([]float64, n)
	for i := range a.Games {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := &a.Games[i]
		own, err := m(g.scores, s.alpha)
		if err != nil {
			return s.gameError(g, err)
		}
		g.Bounds = append(g.Bounds, own)
		values[i] = float64(own.Epsilon)
		share := own
		if n > 1 {
			if share, err = m(g.scores, s.alpha/float64(n)); err != nil {
				return s.gameError(g, err)
			}
		}
		if best == nil || share.Epsilon > best.Epsilon {
			best = &share
		}
		step()
	}
	if n > 1 {
		best.Confidence = 1 - s.alpha
		best.Multiplicity += fmt.Sprintf("; the largest of %d games, each at level %s", n, formatFloat(s.alpha/float64(n)))
		mean, sd := meanSD(values)
		best.Mean, best.SD = &mean, &sd
	}
	a.Bounds = append(a.Bounds, *best)
	return nil
}

func (s *boundSettings) gameError(g *boundGame, err error) error {
	return inputError(fmt.Errorf("%s: %s: %w", s.scores, g.name(), statsError(err)))
}

// meanSD is the mean and the sample standard deviation.
func meanSD(values []float64) (mean, sd number) {
	n := float64(len(values))
	m, sum := 0.0, 0.0
	for _, v := range values {
		m += v / n
	}
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return number(m), number(math.Sqrt(sum / (n - 1)))
}

// grouped splits rows into games by key, in the order of the keys, each with its
// highest score first. It sorts rows in place.
func grouped(rows []scoreio.Row, key func(scoreio.Row) [2]int, game func(key [2]int, scores audit.Scores) boundGame) []boundGame {
	of := map[[2]int][]scoreio.Row{}
	for i := 0; i < len(rows); {
		k, j := key(rows[i]), i+1
		for ; j < len(rows) && key(rows[j]) == k; j++ {
		}
		if of[k] == nil {
			of[k] = rows[i:j:j] // of most files, all that there are
		} else {
			of[k] = append(of[k], rows[i:j]...)
		}
		i = j
	}
	keys := slices.SortedFunc(maps.Keys(of), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	games := make([]boundGame, len(keys))
	for i, k := range keys {
		// All that is done with scores begins by sorting them, which takes no
		// time once they are sorted.
		slices.SortFunc(of[k], func(a, b scoreio.Row) int { return cmp.Compare(b.Score, a.Score) })
		scores := scoreio.Scores(of[k])
		games[i] = game(k, scores)
		games[i].scores = scores
		games[i].Set = k[0]
	}
	return games
}

// runs are the games of a file of one-run scores: one for each set and audit.
func runs(rows []scoreio.Row) []boundGame {
	return grouped(rows, func(r scoreio.Row) [2]int { return [2]int{r.Set, r.Audit} },
		func(k [2]int, scores audit.Scores) boundGame {
			return boundGame{Audit: &k[1], Canaries: len(scores.Value)}
		})
}

// worlds are the games of a file with a run in every row: one for each canary
// of each set, or one for each set if canaries are pooled.
func (s *boundSettings) worlds(rows []scoreio.Row) []boundGame {
	if s.pool {
		return grouped(rows, func(r scoreio.Row) [2]int { return [2]int{r.Set, 0} },
			func(k [2]int, scores audit.Scores) boundGame { return boundGame{Runs: len(scores.Value)} })
	}
	return grouped(rows, func(r scoreio.Row) [2]int { return [2]int{r.Set, r.Canary} },
		func(k [2]int, scores audit.Scores) boundGame {
			return boundGame{Canary: &k[1], Runs: len(scores.Value)}
		})
}

// sharedRun reports whether two rows are of one set and audit, which makes
// them of one training run in files that number their audits.
func sharedRun(rows []scoreio.Row) bool {
	runs := make([]uint64, len(rows)) // both numbers are below 2³²
	for i, r := range rows {
		runs[i] = uint64(r.Set)<<32 | uint64(r.Audit)
	}
	slices.Sort(runs)
	return len(slices.Compact(runs)) < len(rows)
}

// describe fills in what is told of a game beside its bounds.
func (g *boundGame) describe() (err error) {
	for _, m := range g.scores.Member {
		if m {
			g.Members++
		}
	}
	if g.Canary != nil && (g.Members == 0 || g.Members == g.Runs) {
		return fmt.Errorf("%d of %d runs are with the canary; both worlds are needed (--pool takes the canaries of a set together)", g.Members, g.Runs)
	}
	if g.AUC, err = stats.AUC(g.scores); err != nil {
		return err
	}
	if g.Members > 1 && g.size()-g.Members > 1 {
		auc, err := stats.DeLong(g.scores, 1-stats.Level)
		if err != nil {
			return err
		}
		g.AUCRange = &[2]float64{auc.Low, auc.High}
	}
	if g.TPR, err = stats.TPRAtFPR(g.scores, 1, 20); err != nil {
		return err
	}
	if g.Tied, err = stats.Tied(g.scores); err != nil {
		return err
	}
	g.Advantage = g.advantage()
	return nil
}

// checkSplit refuses runs of which no half could choose a threshold for the
// other.
func (g *boundGame) checkSplit() error {
	with, without := g.Members, g.Runs-g.Members
	if min(with, without) >= 2 {
		return nil
	}
	return fmt.Errorf("%d runs with the record and %d without: where half of them choose the threshold for the other half, 2 of each are needed (--threshold T says one in advance)", with, without)
}

// advantage is the largest true positive rate less false positive rate of any
// threshold. The scores are sorted, and both sides are there.
func (g *boundGame) advantage() float64 {
	best, tp, fp := 0.0, 0, 0
	for i, v := range g.scores.Value {
		if g.scores.Member[i] {
			tp++
		} else {
			fp++
		}
		if i+1 == g.size() || g.scores.Value[i+1] != v { // no threshold parts a tie
			best = max(best, float64(tp)/float64(g.Members)-float64(fp)/float64(g.size()-g.Members))
		}
	}
	return best
}

func (g *boundGame) size() int { return len(g.scores.Value) }

// warn says what is strange about the scores.
func (s *boundSettings) warn(a *boundAnswer) {
	n := float64(len(a.Games))
	sum, wrong, tied, all := 0.0, 0, 0, 0
	auc := 0.0
	for _, g := range a.Games {
		z := aucZ(g.AUC, g.Members, g.size()-g.Members)
		sum += z / math.Sqrt(n)
		auc += g.AUC / n
		if normalTail(z) < wrongWay/n {
			wrong++
		}
		tied, all = tied+g.Tied, all+g.size()
	}
	seem := "higher scores seem to mean non-members"
	advice := "nothing was flipped; losses are told by --loss-column"
	if s.columns.Loss != "" {
		seem, advice = "lower losses seem to mean non-members", "nothing was flipped; of scores, tell the column by --score-column"
	}
	switch p := normalTail(sum); {
	case p < wrongWay:
		what := "AUC"
		if n > 1 {
			what = "mean AUC"
		}
		a.warn("%s: the %s is %.3f, below one half by more than chance (p = %.1g): %s; %s", s.scores, what, auc, p, seem, advice)
	case wrong > 0:
		a.warn("%s: the AUC is below one half by more than chance in %d of %d games: %s there; %s", s.scores, wrong, len(a.Games), seem, advice)
	}
	if 10*tied >= all {
		a.warn("%s: %d of %d scores are tied with another of their game: ties hide what scores could tell", s.scores, tied, all)
	}
}
