package accounting

import (
	"errors"
	"fmt"
	"math"
)

// MaxWidth is how wide the interval around an ε may be, unless a grid that fine
// would take more than 1 GB: some 10^7 steps and more, or ε in the hundreds.
// There it is as narrow as the largest grid makes it, and still encloses ε.
const MaxWidth = 2e-4

// Interval holds an exact value between bounds. Upper is what may be promised;
// Estimate is the best guess, far closer to the exact value than either bound.
type Interval struct {
	Lower    float64 `json:"lower"`
	Estimate float64 `json:"estimate"`
	Upper    float64 `json:"upper"`
}

// Curve is what a mechanism costs: ε(δ), δ(ε), and the trade-off between the
// errors of a test for one record. Both directions are in it.
type Curve struct {
	halves [2][]*half // remove and add; empty for a Gaussian, which is exact
	mu     float64
	// exposed is the chance that something is released without noise, which
	// makes the rest of no importance if δ is smaller; 0 if all have noise.
	exposed float64
	generic bool // replace, by way of removing and adding
	wide    bool // the largest grid leaves more than MaxWidth
}

// NewCurve accounts e so that Epsilon(delta) has a width of at most MaxWidth (see
// there for the extremes where it is wider); the curve may be read at any other δ, with bounds that hold but may be wider.
//
// Releases of Gaussians alone are exact. All else is composed as numbers on a
// grid, once from above and once from below, by fast Fourier transform (Koskela,
// Jälkö and Honkela 2020; Gopi, Lee and Wutschitz 2021), the grid refined until
// the two agree.
//
// Under Replace, Gaussian and Laplace cost as much as with half the noise, which
// is exact. A Poisson-sampled Gaussian has no such rule: replacing is removing
// and adding, so (ε, δ) under add/remove gives (2ε, (1+e^ε)δ) (group privacy,
// Dwork and Roth 2014, theorem 2.2); Method says so, and Lower is that under
// add/remove, to which the replacement of a record that adds nothing comes down.
//
// An error names the parameter that is out of range or the event that is unknown.
func NewCurve(e Event, delta float64) (*Curve, error) {
	f, err := flatten(e)
	if err != nil {
		return nil, err
	}
	if err := checkDelta(delta); err != nil {
		return nil, err
	}
	if f.noiseless {
		return exposedCurve(f, delta)
	}
	if mu, all := f.gaussians(); all {
		return &Curve{mu: mu}, nil
	}
	return newGridCurve(f, delta)
}

// newGridCurve composes on a grid that is refined until the bounds agree, or
// until it has as many points as are allowed.
func newGridCurve(f flat, delta float64) (c *Curve, err error) {
	c = &Curve{}
	relation := f.relation
	if relation == Replace && f.sampled() {
		c.generic, relation = true, AddRemove
	}
	dt := firstStep(f, relation, delta)
	for last := math.Inf(1); ; {
		dt, err = fitting(dt, f.atom(relation), func(dt float64) error { return c.compose(f, relation, dt, delta) })
		if err != nil {
			return nil, err
		}
		v := c.addRemove(delta)
		width := v.Upper - v.Lower
		// The width falls with the square of the step.
		next := dt * math.Max(0.1, math.Min(0.7, 0.9*math.Sqrt(MaxWidth/width)))
		finest := dt * c.points() / maxPoints * 1.02
		switch {
		case width <= MaxWidth:
			return c, nil
		case next < finest && finest > 0.9*dt && width <= widest:
			c.wide = true
			return c, nil
		case next < finest && finest > 0.9*dt:
			return nil, fmt.Errorf("accounting: %s: too many steps or too little noise: on the finest grid that is allowed, of %d points, epsilon is between %g and %g",
				f.phases[0].event.Name(), maxPoints, v.Lower, v.Upper)
		case width > 0.9*last, math.IsInf(v.Upper, 1):
			// A finer grid did not help: what is left is rounding.
			return nil, fmt.Errorf("accounting: delta: %g is too small for so many releases in float64: epsilon is between %g and %g", delta, v.Lower, v.Upper)
		}
		last = width
		dt = align(math.Max(next, finest), f.atom(relation))
	}
}

// widest is the widest interval that is an answer at all.
const widest = 0.1

// fitting calls compose with a step dt, and with larger ones if the grid is too
// fine, and returns the step at last. Larger steps have an atom on a node, too.
func fitting(dt, atom float64, compose func(dt float64) error) (float64, error) {
	for {
		err := compose(dt)
		var fine *tooFine
		if !errors.As(err, &fine) || math.IsInf(fine.points, 1) {
			return dt, err
		}
		if dt *= 1.02 * fine.points / maxPoints; dt > 1 {
			return dt, err // the loss is not to be seen on such a grid
		}
		if atom > nearStep*dt {
			dt = atom / (nearStep * math.Floor(atom/dt/nearStep))
		}
	}
}

// compose sets c's curves anew, on a grid of step dt, good at delta.
func (c *Curve) compose(f flat, relation Relation, dt, delta float64) error {
	c.halves = [2][]*half{}
	add := func(g grid) error {
		halves, err := compose(f.phases, relation, g)
		for d, h := range halves {
			c.halves[d] = append(c.halves[d], h)
		}
		return err
	}
	g := grid{dt: dt, tail: delta * 1e-8}
	err := add(g)
	// Rounding costs ε as much as slack costs δ, in relation.
	if err == nil && c.halves[0][0].slack > 1e-5*delta {
		g.tilt = delta
		err = add(g)
	}
	return err
}

// points is the number of points of the largest window.
func (c *Curve) points() float64 {
	n := 0
	for _, halves := range c.halves {
		for _, h := range halves {
			n = max(n, h.points)
		}
	}
	return float64(n)
}

// exposedCurve is for releases some of which have no noise.
func exposedCurve(f flat, delta float64) (*Curve, error) {
	hidden, noisy := 1.0, false
	for _, p := range f.phases {
		switch e := p.event.(type) {
		case Gaussian:
			if e.NoiseMultiplier == 0 {
				hidden = 0
			}
		case Laplace:
			if e.Scale == 0 {
				hidden = 0
			}
		case PoissonSampledGaussian:
			if e.NoiseMultiplier == 0 {
				hidden *= math.Pow(1-e.SampleRate, float64(p.count))
			}
		}
		noisy = noisy || hidden == 1
	}
	if noisy || len(f.phases) > 1 || f.relation == Replace && hidden > 0 {
		if !(delta < 1-hidden) {
			return nil, fmt.Errorf("accounting: noise multiplier: 0 for some phases, and delta %g is not below the chance %g that they release the record", delta, 1-hidden)
		}
	}
	return &Curve{exposed: 1 - hidden}, nil
}

func (f flat) sampled() bool {
	for _, p := range f.phases {
		if e, ok := p.event.(PoissonSampledGaussian); ok && e.SampleRate < 1 {
			return true
		}
	}
	return false
}

// firstStep guesses a grid step that gives half of MaxWidth: sharing a cell's
// mass between its ends adds up to dt²/6 a release to the variance of the loss,
// which moves ε by about 1/2 + z/(2·sd) times that.
func firstStep(f flat, relation Relation, delta float64) float64 {
	half := 1.0
	if relation == Replace {
		half = 0.5
	}
	variance, releases, span := 0.0, 0.0, 0.0
	for _, p := range f.phases {
		n := float64(p.count)
		releases += n
		switch e := p.event.(type) {
		case Gaussian:
			variance += n / (half * half * e.NoiseMultiplier * e.NoiseMultiplier)
		case PoissonSampledGaussian:
			s := e.NoiseMultiplier * half
			variance += n * math.Min(1/(s*s), e.SampleRate*e.SampleRate*math.Expm1(1/(s*s)))
		case Laplace:
			b := e.Scale * half
			variance += n * math.Min(1, 1/b) / b
		}
		if l, err := lawOf(p.event, relation); err == nil {
			low, high := l.span(delta * 1e-8 / n)
			span = math.Max(span, high-low)
		}
	}
	sd := math.Sqrt(variance)
	z := math.Max(1, upperQuantile(math.Min(delta, 0.1)))
	dt := math.Sqrt(MaxWidth / 2 * 4 / releases / (0.5 + z/(2*sd)))
	dt = math.Min(dt, math.Max(span, 16*sd)/minPoints)
	return align(dt, f.atom(relation))
}

// align makes a step a little smaller, so that a mass point at atom, if there is
// one, lies on a node, where it is kept as it is.
func align(dt, atom float64) float64 {
	if !(atom > dt) { // many a step of its own: no need
		return dt
	}
	return atom / (nearStep * math.Ceil(atom/dt/nearStep))
}

// atom is the loss at which some phase has a mass point, or 0.
func (f flat) atom(relation Relation) float64 {
	for _, p := range f.phases {
		if l, err := lawOf(p.event, relation); err == nil {
			if l, ok := l.(laplace); ok {
				return 1 / l.b
			}
		}
	}
	return 0
}

// Epsilon is the smallest ε for which the mechanism is (ε, delta)-DP.
func (c *Curve) Epsilon(delta float64) (Interval, error) {
	if err := checkDelta(delta); err != nil {
		return Interval{}, err
	}
	switch {
	case c.exposed > 0:
		if delta >= c.exposed {
			return Interval{}, nil
		}
		return Interval{math.Inf(1), math.Inf(1), math.Inf(1)}, nil
	case c.halves[0] == nil:
		eps := gaussianEpsilon(c.mu, delta)
		return Interval{eps, eps, eps}, nil
	case c.generic:
		upper := c.replaceEpsilon(delta)
		return Interval{c.addRemove(delta).Lower, upper, upper}, nil
	}
	return c.addRemove(delta), nil
}

// addRemove is ε(δ): the greater of the two directions'.
func (c *Curve) addRemove(delta float64) Interval {
	var v Interval
	for _, halves := range c.halves {
		upper, lower, near := halves[0].above, halves[0].below, halves[0].near
		if len(halves) == 2 { // both hold; the tilted one is the better guess
			upper = func(eps float64) float64 { return math.Min(halves[0].above(eps), halves[1].above(eps)) }
			lower = func(eps float64) float64 { return math.Max(halves[0].below(eps), halves[1].below(eps)) }
			near = halves[1].near
		}
		v.Upper = math.Max(v.Upper, solve(delta, upper))
		v.Lower = math.Max(v.Lower, solve(delta, lower))
		v.Estimate = math.Max(v.Estimate, solve(delta, near))
	}
	v.Estimate = math.Max(v.Lower, math.Min(v.Upper, v.Estimate))
	return v
}

// replaceEpsilon is the smallest 2ε with (1 + e^ε) δ(ε) <= delta.
func (c *Curve) replaceEpsilon(delta float64) float64 {
	ok := func(eps float64) bool { return (1+math.Exp(eps))*c.addRemoveDelta(eps).Upper <= delta }
	low, high := 0.0, 1.0
	if ok(0) {
		return 0
	}
	for !ok(high) {
		if high *= 2; high > maxLoss {
			return math.Inf(1)
		}
	}
	for high-low > 1e-9 {
		if mid := (low + high) / 2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return 2 * high
}

// Delta is the smallest δ for which the mechanism is (eps, δ)-DP.
func (c *Curve) Delta(eps float64) (Interval, error) {
	if !(eps >= 0) {
		return Interval{}, fmt.Errorf("accounting: epsilon: %g is not a number from 0 up", eps)
	}
	switch {
	case c.exposed > 0:
		return Interval{c.exposed, c.exposed, c.exposed}, nil
	case c.halves[0] == nil:
		d := gaussianDelta(c.mu, eps)
		return Interval{d, d, d}, nil
	case c.generic:
		upper := math.Min(1, (1+math.Exp(eps/2))*c.addRemoveDelta(eps/2).Upper)
		return Interval{c.addRemoveDelta(eps).Lower, upper, upper}, nil
	}
	return c.addRemoveDelta(eps), nil
}

func (c *Curve) addRemoveDelta(eps float64) Interval {
	var v Interval
	for _, halves := range c.halves {
		upper, lower, near := 1.0, 0.0, 0.0
		for _, h := range halves {
			upper, lower, near = math.Min(upper, h.above(eps)), math.Max(lower, h.below(eps)), h.near(eps)
		}
		v.Upper, v.Lower, v.Estimate = math.Max(v.Upper, upper), math.Max(v.Lower, lower), math.Max(v.Estimate, near)
	}
	v.Estimate = math.Max(v.Lower, math.Min(v.Upper, v.Estimate))
	return v
}

// Method names the accountant in words, and what kind of bound it gives.
func (c *Curve) Method() string {
	if c.wide {
		return c.method() + fmt.Sprintf(", on the largest grid: bounds more than %g apart", MaxWidth)
	}
	return c.method()
}

func (c *Curve) method() string {
	switch {
	case c.exposed > 0:
		return "released without noise"
	case c.halves[0] == nil:
		return "exact Gaussian"
	case c.generic:
		return "PRV for add/remove; generic bound (2ε, (1+e^ε)δ) for replace, not tight"
	}
	return "PRV"
}

// TradeOff is a lower bound on the false negative rate of any test for a record
// whose false positive rate is fpr: the greatest convex function below those of
// both directions, but for the grid (Dong, Roth and Su 2022). It falls from at
// most 1 at 0 to 0 at 1.
func (c *Curve) TradeOff(fpr float64) (float64, error) {
	if !(fpr >= 0 && fpr <= 1) {
		return 0, fmt.Errorf("accounting: false positive rate: %g is not a probability, from 0 to 1", fpr)
	}
	switch {
	case c.exposed > 0:
		return math.Max(0, 1-c.exposed-fpr), nil
	case c.halves[0] == nil:
		return gaussianTradeOff(c.mu, fpr), nil
	}
	best := 0.0
	// f(α) is the supremum over ε of max(1-δ-e^ε α, e^-ε (1-δ-α)), proposition
	// 2.5 there: each is concave in e^ε or e^-ε, and each ε gives a valid bound.
	for _, line := range []func(eps, delta float64) float64{
		func(eps, delta float64) float64 {
			if fpr == 0 { // 0 times an infinite e^ε is 0
				return 1 - delta
			}
			return 1 - delta - math.Exp(eps)*fpr
		},
		func(eps, delta float64) float64 { return math.Exp(-eps) * (1 - delta - fpr) },
	} {
		at := func(eps float64) float64 {
			if c.generic {
				return line(eps, math.Min(1, (1+math.Exp(eps/2))*c.addRemoveDelta(eps/2).Upper))
			}
			return line(eps, c.addRemoveDelta(eps).Upper)
		}
		low, high := 0.0, c.top()
		for range 100 {
			left, right := low+(high-low)/3, high-(high-low)/3
			if at(left) >= at(right) {
				high = right
			} else {
				low = left
			}
		}
		// At 0, all there is of δ counts, even where δ is 1 for all the search sees.
		best = math.Max(best, math.Max(at((low+high)/2), at(c.top())))
	}
	return best, nil
}

// top is an ε at which nothing is left of δ but its slack.
func (c *Curve) top() float64 {
	top := 0.0
	for _, halves := range c.halves {
		top = math.Max(top, float64(len(halves[0].upper.p))*halves[0].dt)
	}
	if c.generic {
		top *= 2
	}
	return top
}

// HockeyStick is sup over events S of p(S) - e^eps q(S), for two distributions
// over the same finite set: the least δ at eps in the direction from p to q.
func HockeyStick(p, q []float64, eps float64) (float64, error) {
	if len(p) != len(q) {
		return 0, fmt.Errorf("accounting: %d probabilities against %d", len(p), len(q))
	}
	if math.IsNaN(eps) {
		return 0, fmt.Errorf("accounting: epsilon: %g is not a number", eps)
	}
	k, sum := math.Exp(eps), 0.0
	for i, v := range p {
		if !(v >= 0 && q[i] >= 0) {
			return 0, fmt.Errorf("accounting: outcome %d: %g and %g are not probabilities", i, v, q[i])
		}
		if q[i] == 0 { // 0 times an infinite k is 0
			sum += v
		} else {
			sum += math.Max(0, v-k*q[i])
		}
	}
	return sum, nil
}
