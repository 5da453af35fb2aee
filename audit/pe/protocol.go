package pe

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit/stats"
)

// Protocol is how trials are turned into bounds, as declared before any of them.
type Protocol struct {
	Trials   int     // in each world
	Canaries int     // independent ones for each attack, of which the best counts
	Alpha    float64 // that any of an attack's canaries has a bound above its ε
	Delta    float64
	// Bounds is 4 as in arXiv:2609.13499, whose budget pays for bounds on four
	// rates, or 2: with one threshold TNR = 1-FPR and FNR = 1-TPR, so that two
	// events are all there are.
	Bounds int
	// TwoThresholds locks another threshold for the reverse direction, TNR and FNR,
	// which is the case in which the budget of four bounds is needed.
	TwoThresholds bool `json:",omitempty"`
}

// Check refuses what cannot be done.
func (p Protocol) Check() error {
	switch {
	case p.Trials < 1 || p.Trials > 1_000_000_000_000:
		return fmt.Errorf("pe: trials: %d, expected 1 to 1e12", p.Trials)
	case p.Canaries < 1:
		return fmt.Errorf("pe: canaries: %d, expected 1 or more", p.Canaries)
	case !(p.Alpha > 0 && p.Alpha < 1):
		return fmt.Errorf("pe: alpha: %v, expected a number between 0 and 1", p.Alpha)
	case !(p.Delta >= 1e-9 && p.Delta < 1): // at 0 any attack on Gaussian noise has an infinite ε
		return fmt.Errorf("pe: delta: %v, expected a number from 1e-9 to below 1", p.Delta)
	case p.Bounds != 2 && p.Bounds != 4:
		return fmt.Errorf("pe: bounds: %d, expected 2 or 4", p.Bounds)
	case p.TwoThresholds && p.Bounds != 4:
		return fmt.Errorf("pe: two thresholds are four bounds, not %d", p.Bounds)
	}
	return nil
}

// Expected is what audits by the protocol print on average.
type Expected struct {
	Mean float64 // bound of one canary
	Best float64 // largest of the Canaries bounds, if canaries are alike
	High float64 // 95 % of largest bounds are below
}

// Expect is the law of the bound at the threshold τ, from the exact law of the
// statistic: of each count equally likely values are taken, fine enough for a
// thousandth of ε. Of two thresholds it is that of the first alone.
func (p Protocol) Expect(l Tails, tau float64) (Expected, error) {
	fpr, tpr := l.Rates(tau)
	t := p.claim(ForEach, 0)
	const nodes = 200
	each, is := t.estimator.(stats.ClopperPearson)
	if !is {
		return Expected{}, fmt.Errorf("pe: no expectation of bounds by %s", t.estimator.Name())
	}
	rows, err := each.LowerOfPairs(binomialNodes(t.trials, fpr, nodes), binomialNodes(t.trials, tpr, nodes), t.trials, t.trials, t.level)
	if err != nil {
		return Expected{}, err
	}
	bounds := slices.Concat(rows...)
	slices.Sort(bounds)
	var e Expected
	n, c := float64(len(bounds)), float64(p.Canaries)
	for i, b := range bounds {
		e.Mean += b / n
		e.Best += b * (math.Pow(float64(i+1)/n, c) - math.Pow(float64(i)/n, c))
	}
	e.High = bounds[min(len(bounds)-1, int(math.Pow(.95, 1/c)*n))]
	return e, nil
}

// binomialNodes are the (i+½)/nodes quantiles of a binomial law, by summing its
// probabilities outwards from the mode.
func binomialNodes(n int, p float64, nodes int) []int {
	if p <= 0 || p >= 1 {
		x := 0
		if p >= 1 {
			x = n
		}
		return slices.Repeat([]int{x}, nodes)
	}
	mode := min(n, int(float64(n+1)*p))
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	top := math.Exp(lg(n) - lg(mode) - lg(n-mode) + float64(mode)*math.Log(p) + float64(n-mode)*math.Log1p(-p))
	odds := p / (1 - p)
	// Below the mode, down to where nothing is left.
	var below []float64
	low := mode
	for v := top; low > 0 && v > 1e-18*top; low-- {
		v *= float64(low) / float64(n-low+1) / odds
		below = append(below, v)
	}
	total, high := top, mode
	for _, v := range below {
		total += v
	}
	for v := top; high < n && v > 1e-18*top; high++ {
		v *= float64(n-high) / float64(high+1) * odds
		total += v
	}
	var out []int
	sum, v := 0.0, 0.0
	for x := low; x <= high && len(out) < nodes; x++ {
		switch {
		case x < mode:
			v = below[mode-x-1]
		case x == mode:
			v = top
		default:
			v *= float64(n-x+1) / float64(x) * odds
		}
		sum += v
		for len(out) < nodes && sum >= total*(float64(len(out))+.5)/float64(nodes) {
			out = append(out, x)
		}
	}
	for len(out) < nodes {
		out = append(out, high)
	}
	return out
}

// best is what is expected at the best threshold.
func (p Protocol) best(l Tails) (Expected, error) {
	tau, _, err := p.Threshold(l, ForEach, 0)
	if err != nil {
		return Expected{}, err
	}
	return p.Expect(l, tau)
}
