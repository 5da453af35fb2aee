package stats

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

// TestPlanGuesses: the expected counts and bounds for μ = 1 and 1,000 canaries.
func TestPlanGuesses(t *testing.T) {
	ctx, signal := context.Background(), Signal(1)
	var rules []FixedGuesses
	want := []struct {
		k, correct              int
		steinke, gdp, gdp01, xi float64
	}{
		{10, 19, 1.2682, 1.6174, 1.0462, 1.8790}, {25, 46, 1.5498, 2.1777, 1.6737, 2.6435}, {50, 90, 1.6261, 2.4564, 1.9821, 3.1645},
		{100, 174, 1.5431, 2.4807, 2.0322, 3.5529}, {250, 397, 1.1629, 2.0164, 1.6321, 3.7557}, {500, 691, .6902, 1.2967, 1.0147, 3.6700},
	}
	for _, w := range want {
		rules = append(rules, FixedGuesses{w.k, w.k})
	}
	const delta = 1e-5
	for _, o := range []struct {
		e     Estimator[Guesses]
		alpha float64
		eps   func(i int) float64
		best  int
	}{
		{Steinke{delta}, .05, func(i int) float64 { return want[i].steinke }, 2},
		{MahloujifarGDP{delta}, .05, func(i int) float64 { return want[i].gdp }, 3},
		{MahloujifarGDP{delta}, .01, func(i int) float64 { return want[i].gdp01 }, 3},
		{XiangIID{delta}, .05, func(i int) float64 { return want[i].xi }, 4},
	} {
		p, err := PlanGuesses(ctx, o.e, 1000, signal, o.alpha, rules)
		if err != nil || len(p.Rows) != len(rules) {
			t.Fatalf("%s: %+v, %v", o.e.Name(), p, err)
		}
		for i, row := range p.Rows {
			if row.Rule != rules[i] || row.Guesses != (Guesses{1000, 2 * want[i].k, want[i].correct}) || !(math.Abs(row.Epsilon-o.eps(i)) <= 1e-4) {
				t.Errorf("%s: %+v, want %+v with %v", o.e.Name(), row, want[i], o.eps(i))
			}
		}
		if p.Best != p.Rows[o.best] {
			t.Errorf("%s: best %+v, want %+v", o.e.Name(), p.Best, p.Rows[o.best])
		}
	}
}

// TestExpectedCorrect: one side's are those of the other, all guessed is the
// accuracy Φ(μ/2) of the middle, and simulated games agree.
func TestExpectedCorrect(t *testing.T) {
	const m, k = 1000, 70
	s := Signal(.8)
	plus, minus, both := s.Correct(m, FixedGuesses{k, 0}), s.Correct(m, FixedGuesses{0, k}), s.Correct(m, FixedGuesses{k, k})
	if plus != minus || both != plus+minus {
		t.Errorf("%v above, %v below, %v together", plus, minus, both)
	}
	if all, want := s.Correct(m, FixedGuesses{m / 2, m / 2}), m*normalBelow(.4); !(math.Abs(all-want) <= 1e-9) {
		t.Errorf("all guessed: %v, want %v", all, want)
	}
	sum, games := 0, 500
	for _, g := range drawnGuesses(t, games, m, coinsGaussian(.8), FixedGuesses{k, k}, Count) {
		sum += g.Correct
	}
	// Four standard errors of a binomial count, and one canary for the limit.
	if mean := float64(sum) / float64(games); !(math.Abs(mean-both) <= 1+4*math.Sqrt(float64(2*k)/4/float64(games))) {
		t.Errorf("games give %v right, expected %v", mean, both)
	}
}

func TestSignals(t *testing.T) {
	for _, mu := range []float64{.05, .328, 1, 3} {
		s := Signal(mu)
		a, err1 := SignalOfAUC(s.AUC())
		b, err2 := SignalOfTPR(s.TPR(.05), .05)
		if err1 != nil || err2 != nil || !(math.Abs(float64(a)-mu) <= 1e-9) || !(math.Abs(float64(b)-mu) <= 1e-9) {
			t.Errorf("μ %v: %v, %v by the AUC, %v, %v by the TPR", mu, a, err1, b, err2)
		}
	}
	if got := Signal(.328).TPR(.05); !(math.Abs(got-.0940) <= 1e-4) {
		t.Errorf("TPR %v", got)
	}
}

func TestUsualGuesses(t *testing.T) {
	for _, m := range []int{2, 3, 10, 50, 1000, 1_000_000} {
		rules := UsualGuesses(m)
		last := 0
		for i, f := range rules {
			if f.Plus+f.Minus > m || f.Plus < 1 || (i%2 == 0) != (f.Minus == 0) || i%2 == 1 && f.Minus != f.Plus || f.Plus < last {
				t.Errorf("%d canaries: %+v", m, rules)
			}
			last = f.Plus
		}
		if len(rules) == 0 || 2*last < m-1 {
			t.Errorf("%d canaries: %+v", m, rules)
		}
	}
}

// planCeilings are the table of ceilings for five million runs, cp-4 at .01 and
// δ = 1e-5: the exact ε, the mean bound at the best threshold, and the mean of
// the largest of five.
var planCeilings = []struct{ q, sigma, exact, mean, max float64 }{
	{.01, .5, 3.025, 1.998, 2.184}, {.01, .7, .852, .478, .554}, {.01, 1, .199, .075, .095}, {.01, 1.5, .056, .013, .018}, {.01, 2, .028, .004, .007}, {.01, 4, .008, 0, 0},
	{.05, .5, 5.517, 3.811, 4.046}, {.05, .7, 2.652, 1.927, 2.065}, {.05, 1, 1.033, .707, .774}, {.05, 1.5, .349, .208, .234}, {.05, 2, .180, .097, .111}, {.05, 4, .052, .021, .025},
	{.1, .5, 6.576, 4.549, 4.795}, {.1, .7, 3.568, 2.669, 2.833}, {.1, 1, 1.685, 1.256, 1.343}, {.1, 1.5, .675, .470, .510}, {.1, 2, .369, .241, .265}, {.1, 4, .110, .060, .068},
	{.2, .5, 7.620, 5.270, 5.520}, {.2, .7, 4.498, 3.406, 3.582}, {.2, 1, 2.447, 1.910, 2.012}, {.2, 1.5, 1.165, .892, .947}, {.2, 2, .693, .512, .547}, {.2, 4, .227, .150, .163},
	{.5, .5, 8.982, 6.210, 6.466}, {.5, .7, 5.728, 4.365, 4.555}, {.5, 1, 3.534, 2.841, 2.965}, {.5, 1.5, 2.018, 1.647, 1.720}, {.5, 2, 1.354, 1.096, 1.149}, {.5, 4, .536, .411, .434},
}

// TestPlanCeilings: at the threshold that is planned the mean bound is that of the
// table, which was simulated, and the ceiling is a little less than the mean:
// false positives come in whole numbers around x with a deviation of √x, and
// -ln has the second derivative 1/x², so that by half of x/x² = 1/2x at most.
func TestPlanCeilings(t *testing.T) {
	const trials, alpha, delta = 5_000_000, .01, 1e-5
	for _, o := range planCeilings {
		e := ClopperPearson{delta, 4}
		p, err := TrialPlanner{o.q, o.sigma, e, alpha}.Ceiling(context.Background(), trials)
		if err != nil {
			t.Fatal(err)
		}
		// The table's are an accountant's, up to 1e-4 above.
		if !(math.Abs(p.Exact-o.exact) <= powerPrinted+1e-4) {
			t.Errorf("q %v, σ %v: exact %v, want %v", o.q, o.sigma, p.Exact, o.exact)
		}
		fpr, tpr := sampledRates(o.q, o.sigma, p.Threshold)
		if p.Trials != trials || !(math.Abs(fpr/p.FPR-1) <= 1e-9) || !(math.Abs(tpr/p.TPR-1) <= 1e-9) {
			t.Errorf("q %v, σ %v: %+v, want rates %v and %v", o.q, o.sigma, p, fpr, tpr)
		}
		all := auditAll(t, e, alpha, countLattice(trials, 1024, fpr, tpr))
		if sd := all.sd(); !(math.Abs(all.mean()-o.mean) <= powerTolerance(sd, 5*powerGroups)) || !(math.Abs(all.meanMax(5)-o.max) <= powerTolerance(sd, powerGroups)) {
			t.Errorf("q %v, σ %v at %v: mean %v, want %v; largest of five %v, want %v", o.q, o.sigma, p.Threshold, all.mean(), o.mean, all.meanMax(5), o.max)
		}
		// Again a thousandth for the lattice, and for bounds that end at 0.
		if less := all.mean() - p.Ceiling; !(less >= -.001 && less <= .001+1/(2*fpr*trials)) {
			t.Errorf("q %v, σ %v: mean %v, ceiling %v", o.q, o.sigma, all.mean(), p.Ceiling)
		}
	}
}

// TestPlanOfAMillion: cp-4's threshold is 3.64 with a bound of .9904, flat around
// there; that of the exact ε, 4.304, would show little; and the joint test's bound
// is the table's mean at 3.80, 1.153, but for half of 1/70.
func TestPlanOfAMillion(t *testing.T) {
	const trials, delta = 1_000_000, 1e-5
	ctx := context.Background()
	planner := TrialPlanner{.1, 1, ClopperPearson{delta, 4}, .01}
	p, err := planner.Ceiling(ctx, trials)
	if err != nil || !(math.Abs(p.Exact-1.68454381433) <= 1e-9) || !(math.Abs(p.Threshold-3.64) <= .02) || !(math.Abs(p.Ceiling-.9904) <= 3e-4) {
		t.Errorf("%+v, %v", p, err)
	}
	if share := p.Ceiling / p.Exact; p.Share() != share {
		t.Errorf("share %v, want %v", p.Share(), share)
	}
	far, err := planner.at(normalBelow(-4.304)*trials, trials, p.Exact)
	if err != nil || !(math.Abs(far.Threshold-4.304) <= 1e-6) || !(far.Ceiling < .35) {
		t.Errorf("at the threshold of the exact ε: %+v, %v", far, err)
	}
	planner.Estimator = Joint{delta}
	joint, err := planner.Ceiling(ctx, trials)
	if err != nil || !(math.Abs(joint.Threshold-3.80) <= .04) || !(math.Abs(joint.Ceiling-1.153) <= 1./140) {
		t.Errorf("joint: %+v, %v", joint, err)
	}
}

// TestPlanLeast: the plan reaches the share, and one with the next fewer runs of
// two digits does not; nine tenths of ε = 1.68 take tens of millions.
func TestPlanLeast(t *testing.T) {
	ctx := context.Background()
	for _, o := range []struct {
		p         TrialPlanner
		share     float64
		low, high int
	}{
		{TrialPlanner{.1, 1, ClopperPearson{1e-5, 4}, .01}, .6, 1_000_000, 1_200_000},
		{TrialPlanner{.1, 1, ClopperPearson{1e-5, 2}, .05}, .9, 20_000_000, 40_000_000},
		{TrialPlanner{.1, 1, ClopperPearson{1e-5, 2}, .05}, .01, 10, 100_000},
		{TrialPlanner{1, 2, ClopperPearson{1e-5, 2}, .05}, .9, 1_000_000, 10_000_000},
		{TrialPlanner{.5, 1, ClopperPearson{1e-3, 2}, .05}, .8, 1000, 100_000},
		{TrialPlanner{.5, 1, Joint{1e-3}, .05}, .6, 100, 10_000},
	} {
		p, err := o.p.Least(ctx, o.share)
		if err != nil || !(p.Share() >= o.share) || p.Trials < o.low || p.Trials > o.high {
			t.Errorf("%+v: %+v, %v, share %v", o, p, err, p.Share())
			continue
		}
		if again, err := o.p.Ceiling(ctx, p.Trials); err != nil || again != p {
			t.Errorf("%+v: %+v, but the ceiling of %d is %+v, %v", o, p, p.Trials, again, err)
		}
		i := 0
		for rung(i+1) < p.Trials {
			i++
		}
		fewer, err := o.p.Ceiling(ctx, rung(i))
		if err != nil || !(fewer.Share() < o.share) || rung(i+1) != p.Trials {
			t.Errorf("%+v: %d, but %d runs have %v, %v", o, p.Trials, rung(i), fewer.Share(), err)
		}
	}
}

func TestRungs(t *testing.T) {
	for i, want := range map[int]int{0: 10, 1: 11, 89: 99, 90: 100, 91: 110, 180: 1000, rungs - 1: 990_000_000_000} {
		if got := rung(i); got != want {
			t.Errorf("rung %d is %d, want %d", i, got, want)
		}
	}
}

func TestPlansRefuse(t *testing.T) {
	ctx, stopped := context.Background(), context.Background()
	stopped, stop := context.WithCancel(stopped)
	stop()
	guesses := func(ctx context.Context, m int, signal Signal, alpha float64, rules ...FixedGuesses) error {
		_, err := PlanGuesses(ctx, Steinke{1e-5}, m, signal, alpha, rules)
		return err
	}
	good := TrialPlanner{.1, 1, ClopperPearson{1e-5, 2}, .05}
	with := func(change func(p *TrialPlanner)) error {
		p := good
		change(&p)
		_, err := p.Ceiling(ctx, 1000)
		_, err2 := p.Least(ctx, .5)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Errorf("%+v: %v, but %v", p, err, err2)
		}
		return err
	}
	ceiling := func(ctx context.Context, trials int) error { _, err := good.Ceiling(ctx, trials); return err }
	least := func(ctx context.Context, share float64) error { _, err := good.Least(ctx, share); return err }
	auc := func(v float64) error { _, err := SignalOfAUC(v); return err }
	tpr := func(tpr, fpr float64) error { _, err := SignalOfTPR(tpr, fpr); return err }
	nan, inf := math.NaN(), math.Inf(1)
	for _, o := range []struct {
		err  error
		want string
	}{
		{auc(.5), "AUC: 0.5"}, {auc(1), "AUC: 1"}, {auc(nan), "AUC: NaN"},
		{tpr(.05, .05), "TPR: 0.05"}, {tpr(1, .05), "TPR: 1"}, {tpr(nan, .05), "TPR: NaN"}, {tpr(.5, 0), "FPR: 0"}, {tpr(.5, nan), "FPR: NaN"},
		{guesses(ctx, 1, 1, .05, FixedGuesses{1, 0}), "canaries: 1"},
		{guesses(ctx, 10, 0, .05, FixedGuesses{1, 0}), "signal: 0"},
		{guesses(ctx, 10, Signal(nan), .05, FixedGuesses{1, 0}), "signal: NaN"},
		{guesses(ctx, 10, Signal(inf), .05, FixedGuesses{1, 0}), "signal: +Inf"},
		{guesses(ctx, 10, 1, .05), "no rule"},
		{guesses(ctx, 10, 1, .05, FixedGuesses{6, 5}), "6 highest and 5 lowest"},
		{guesses(ctx, 10, 1, .05, FixedGuesses{-1, 5}), "-1 highest"},
		{guesses(ctx, 10, 1, 1, FixedGuesses{1, 0}), "alpha: 1"},
		{guesses(stopped, 10, 1, .05, FixedGuesses{1, 0}), "canceled"},
		{with(func(p *TrialPlanner) { p.Estimator = nil }), "estimator"},
		{with(func(p *TrialPlanner) { p.SampleRate = 0 }), "sample rate: 0"},
		{with(func(p *TrialPlanner) { p.SampleRate = 1.5 }), "sample rate: 1.5"},
		{with(func(p *TrialPlanner) { p.SampleRate = nan }), "sample rate: NaN"},
		{with(func(p *TrialPlanner) { p.NoiseMultiplier = 0 }), "noise multiplier: 0"},
		{with(func(p *TrialPlanner) { p.NoiseMultiplier = inf }), "noise multiplier: +Inf"},
		{with(func(p *TrialPlanner) { p.Alpha = 0 }), "alpha: 0"},
		{with(func(p *TrialPlanner) { p.Estimator = ClopperPearson{0, 2} }), "delta: 0"},
		{with(func(p *TrialPlanner) { p.Estimator = ClopperPearson{1, 2} }), "delta: 1"},
		{with(func(p *TrialPlanner) { p.Estimator = ClopperPearson{1e-5, 3} }), "bounds: 3"},
		{ceiling(ctx, 0), "trials: 0"}, {ceiling(ctx, MaxTrials+1), "trials: 1000000000001"}, {ceiling(stopped, 1000), "canceled"},
		{least(ctx, 0), "share: 0"}, {least(ctx, 1), "share: 1"}, {least(ctx, nan), "share: NaN"}, {least(ctx, .999999), "share: 0.999999"}, {least(stopped, .5), "canceled"},
	} {
		if o.err == nil || !strings.Contains(o.err.Error(), o.want) {
			t.Errorf("%v does not say %q", o.err, o.want)
		}
	}
	if err := least(ctx, .999999); !errors.Is(err, ErrTooManyTrials) {
		t.Errorf("%v", err)
	}
	// No ε to show.
	none := TrialPlanner{.1, 1, ClopperPearson{.05, 2}, .05}
	if p, err := none.Ceiling(ctx, 1000); err != nil || p.Exact != 0 || p.Share() != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := none.Least(ctx, .5); err == nil || !strings.Contains(err.Error(), "ε = 0") {
		t.Errorf("a share of nothing: %v", err)
	}
	// Few runs are planned too.
	for _, n := range []int{1, 2, 10} {
		if p, err := good.Ceiling(ctx, n); err != nil || p.Trials != n || !(p.Ceiling >= 0) || math.IsNaN(p.Threshold) {
			t.Errorf("%d runs: %+v, %v", n, p, err)
		}
	}
}
