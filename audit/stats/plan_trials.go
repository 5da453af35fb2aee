package stats

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// TrialPlanner plans an audit of one Poisson-sampled Gaussian release: as many
// independent runs with a record as without it. The score is the output's
// projection on the record's effect, in standard deviations of the noise: N(0, 1)
// without the record, and N(1/σ, 1) in a share q of the runs with it. That is the
// best that an audit can see; a weaker one needs more runs.
type TrialPlanner struct {
	SampleRate      float64           // q
	NoiseMultiplier float64           // σ, in units of the record's effect
	Estimator       Estimator[Counts] // bounds ε at its own δ
	Alpha           float64           // with which a bound may be wrong
}

// TrialPlan is what a number of runs can show, and the threshold to lock for it.
type TrialPlan struct {
	Trials    int     // runs in each world
	Exact     float64 // the mechanism's ε, of both directions the larger
	Ceiling   float64 // the bound at the expected counts
	Threshold float64 // at or above which runs are called members
	FPR, TPR  float64 // there
}

// Share is Ceiling as a share of Exact, 0 where there is no ε to show.
func (p TrialPlan) Share() float64 {
	if !(p.Exact > 0) {
		return 0
	}
	return p.Ceiling / p.Exact
}

// MaxTrials is the largest number of runs that is planned.
const MaxTrials = 1_000_000_000_000

// ErrTooManyTrials says that a share of ε takes more than MaxTrials runs.
var ErrTooManyTrials = errors.New("more than MaxTrials runs")

// Ceiling is the best plan of this many runs in each world.
//
// Thresholds are compared by the bound at their expected counts, interpolated
// between whole numbers: with rounded counts the search would stop where rounding
// is kind. The mean of the bounds over audits is a little more, since rare counts
// are skewed: by .002 where 200 false positives are expected, by .025 where ten
// are. Thresholds near the best are nearly as good.
func (p TrialPlanner) Ceiling(ctx context.Context, trials int) (TrialPlan, error) {
	exact, err := p.exact()
	if err != nil {
		return TrialPlan{}, err
	}
	return p.ceiling(ctx, trials, exact)
}

// exact checks the planner, and is the mechanism's ε.
func (p TrialPlanner) exact() (float64, error) {
	switch {
	case p.Estimator == nil:
		return 0, fmt.Errorf("stats: estimator: none to plan for")
	case !(p.SampleRate > 0 && p.SampleRate <= 1):
		return 0, fmt.Errorf("stats: sample rate: %v is not above 0 and at most 1", p.SampleRate)
	case !(p.NoiseMultiplier > 0) || math.IsInf(p.NoiseMultiplier, 1):
		return 0, fmt.Errorf("stats: noise multiplier: %v, expected a finite number above 0", p.NoiseMultiplier)
	}
	if err := checkAlpha(p.Alpha); err != nil {
		return 0, err
	}
	delta := p.Estimator.AtDelta()
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	if err := checkFamilyDelta(delta); err != nil {
		return 0, err
	}
	return sampledEps(p.SampleRate, p.NoiseMultiplier, delta)
}

// rates are those of calling scores at or above t.
func (p TrialPlanner) rates(t float64) (fpr, tpr float64) {
	fpr = normalBelow(-t)
	return fpr, (1-p.SampleRate)*fpr + p.SampleRate*normalBelow(1/p.NoiseMultiplier-t)
}

// at is the plan whose expected false positives are fp, or the whole number next
// to it where that makes no difference: then there is less to ask.
func (p TrialPlanner) at(fp float64, trials int, exact float64) (TrialPlan, error) {
	n := float64(trials)
	if fp >= 10 {
		fp = math.Round(fp)
	}
	plan := TrialPlan{Trials: trials, Exact: exact, Threshold: -mathext.NormalQuantile(fp / n)}
	plan.FPR, plan.TPR = p.rates(plan.Threshold)
	var err error
	plan.Ceiling, err = AtExpected(p.Estimator, fp, plan.TPR*n, trials, p.Alpha)
	return plan, err
}

// AtExpected is the bound at these expected counts of as many runs in each world,
// interpolated between whole numbers: rounded counts would let a search for a
// threshold stop where rounding is kind.
func AtExpected(e Estimator[Counts], fp, tp float64, trials int, alpha float64) (float64, error) {
	bound := 0.0
	for _, a := range between(fp, trials) {
		for _, b := range between(tp, trials) {
			eps, err := e.Lower(Counts{FP: a.count, NonMembers: trials, TP: b.count, Members: trials}, alpha)
			if err != nil {
				return 0, err
			}
			bound += a.weight * b.weight * eps
		}
	}
	return bound, nil
}

// weighted is a whole number near an expected count, and its part of it.
type weighted struct {
	count  int
	weight float64
}

// between is the whole numbers, up to n, on either side of x.
func between(x float64, n int) []weighted {
	low := math.Floor(x)
	if rest := x - low; rest > 0 && int(low) < n {
		return []weighted{{int(low), 1 - rest}, {int(low) + 1, rest}}
	}
	return []weighted{{min(int(low), n), 1}}
}

func (p TrialPlanner) ceiling(ctx context.Context, trials int, exact float64) (TrialPlan, error) {
	if trials < 1 || trials > MaxTrials {
		return TrialPlan{}, fmt.Errorf("stats: trials: %d, expected 1 to %d", trials, MaxTrials)
	}
	// cp-2 takes microseconds, and the best threshold of others is not far.
	near := p
	near.Estimator = ClopperPearson{p.Estimator.AtDelta(), 2}
	best, err := near.scan(ctx, trials, exact, 8./7)
	if err != nil {
		return TrialPlan{}, err
	}
	if best.Ceiling > 0 {
		return p.climb(ctx, best.FPR*float64(trials), trials, exact)
	}
	return p.scan(ctx, trials, exact, 2)
}

// leastFP is the least number of expected false positives that is looked at.
const leastFP = 1. / 8

// scan is the best plan among all numbers of expected false positives, a factor
// apart; of equal ones the first.
func (p TrialPlanner) scan(ctx context.Context, trials int, exact, factor float64) (best TrialPlan, err error) {
	for fp := leastFP; fp <= float64(trials)/2; fp *= factor {
		if err := ctx.Err(); err != nil {
			return TrialPlan{}, err
		}
		plan, err := p.at(fp, trials, exact)
		if err != nil {
			return TrialPlan{}, err
		}
		if best.Trials == 0 || plan.Ceiling > best.Ceiling {
			best = plan
		}
	}
	return best, nil
}

// climb is the best plan around fp expected false positives: it goes both ways by
// sevenths until it has twice found none that is better.
func (p TrialPlanner) climb(ctx context.Context, fp float64, trials int, exact float64) (TrialPlan, error) {
	best, err := p.at(fp, trials, exact)
	if err != nil {
		return TrialPlan{}, err
	}
	for _, factor := range []float64{7. / 8, 8. / 7} {
		for at, worse := fp*factor, 0; worse < 2 && at >= leastFP && at <= float64(trials)/2; at *= factor {
			if err := ctx.Err(); err != nil {
				return TrialPlan{}, err
			}
			plan, err := p.at(at, trials, exact)
			if err != nil {
				return TrialPlan{}, err
			}
			worse++
			if plan.Ceiling > best.Ceiling {
				best, worse = plan, 0
			}
		}
	}
	return best, nil
}

// Least is the plan of the least number of runs, of two digits and zeros, whose
// ceiling is at least this share of the exact ε; an error that wraps
// ErrTooManyTrials if MaxTrials are not enough.
func (p TrialPlanner) Least(ctx context.Context, share float64) (TrialPlan, error) {
	if !(share > 0 && share < 1) {
		return TrialPlan{}, fmt.Errorf("stats: share: %v, expected above 0 and below 1", share)
	}
	exact, err := p.exact()
	if err != nil {
		return TrialPlan{}, err
	}
	if !(exact > 0) {
		return TrialPlan{}, fmt.Errorf("stats: share: the mechanism has ε = 0 at δ = %v, nothing to show a share of", p.Estimator.AtDelta())
	}
	// Where cp-2 gets there is not far, and takes a moment to find.
	near := p
	near.Estimator = ClopperPearson{p.Estimator.AtDelta(), 2}
	start, _, err := near.leastRung(ctx, share, exact, rungs/2)
	if err != nil {
		return TrialPlan{}, err
	}
	i, plan, err := p.leastRung(ctx, share, exact, min(start, rungs-1))
	if err == nil && i == rungs {
		err = fmt.Errorf("stats: share: %v of ε takes %w", share, ErrTooManyTrials)
	}
	return plan, err
}

// leastRung is the first rung that shows the share, and its plan; rungs if none
// does. It steps away from start, ever further, until it has one that does and
// one that does not, and halves between.
func (p TrialPlanner) leastRung(ctx context.Context, share, exact float64, start int) (int, TrialPlan, error) {
	var least TrialPlan
	low, high := -1, rungs // does not, does
	for at, step := start, 8; high-low > 1; {
		plan, err := p.ceiling(ctx, rung(at), exact)
		if err != nil {
			return 0, TrialPlan{}, err
		}
		if plan.Share() >= share {
			high, least = at, plan
		} else {
			low = at
		}
		switch {
		case low == -1:
			at, step = max(0, high-step), 2*step
		case high == rungs:
			at, step = min(rungs-1, low+step), 2*step
		default:
			at = (low + high) / 2
		}
	}
	return high, least, nil
}

// rungs is how many there are below MaxTrials.
const rungs = 11 * 90

// rung counts through the numbers of two digits and zeros: 10, 11, …, 99, 100,
// 110, …
func rung(i int) int {
	n := 10 + i%90
	for range i / 90 {
		n *= 10
	}
	return n
}
