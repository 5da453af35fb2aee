package stats

import (
	"math"
	"sort"
)

// Joint is the exact test of p1 <= e^ε p0 + δ on independent runs, where p1 and
// p0 are the rates at which members and non-members are called. With κ = e^ε
// n1/n0 it looks at
//
//	S(y0, y1) = (y1 - κ y0 - n1 δ) / √(y1 + κ² y0 + max(1, n1/n0)²),
//
// and takes the largest probability of an S as large as the one observed over
// all p0 in a Clopper-Pearson interval, whose level is added (Berger and Boos
// 1994). The rest of the level is not spent on a rectangle of two intervals,
// which is why the bound exceeds ClopperPearson's.
//
// The largest probability is bounded over cells of p0, not searched on points.
// S grows with y1 and falls with y0, so that on a cell [a, b] it is at most that
// of Y0 ~ Bin(n0, a) and Y1 ~ Bin(n1, min(1, e^ε b + δ)). Narrow cells have a
// closer bound: with I = n0/(p0(1-p0)) + e^2ε n1/(p1(1-p1)), the information of
// p0, a probability P of any event has |d asin√P / dp0| <= √I/2 and
// a second derivative of at most √(2P(1-P)) I by the inequality of Cauchy and
// Schwarz, since that of the likelihood, over the likelihood, has a variance of
// at most 2I²; and P exceeds the larger of its values at the ends by at most an
// eighth of (b-a)² times the largest second derivative.
//
// P-values grow with ε in all tests, to within the slack of the bound; it is not
// proven, since the region in which S is as large changes with ε.
type Joint struct{ Delta float64 }

// Name implements Estimator.
func (Joint) Name() string { return "joint" }

// Scope implements Estimator.
func (Joint) Scope() Scope { return ModelFree }

// Assumption implements Estimator.
func (Joint) Assumption() string { return "runs of the two worlds are independent" }

// AtDelta implements Estimator.
func (e Joint) AtDelta() float64 { return e.Delta }

// JointPooled is Joint on the pooled counts of several canaries. Unlike rates
// make the counts other than binomial: that the test keeps its level then is
// observed in small cases, not proven, so that it is an estimate.
type JointPooled struct{ Joint }

// Name implements Estimator.
func (JointPooled) Name() string { return "joint-pooled" }

// Scope implements Estimator.
func (JointPooled) Scope() Scope { return Estimated }

// Assumption implements Estimator.
func (JointPooled) Assumption() string { return "independent runs; canaries alike in their rates" }

const (
	// jointBoos is the part of a p-value that the interval of p0 costs.
	jointBoos = 1e-4
	// jointCells is how often cells are split before the bound is taken as it is.
	jointCells = 1000
	// jointBlocks is how many values of Y0 are summed, or blocks of them.
	jointBlocks = 400
	// jointTol is to what share ε is found, well below the slack of its bounds.
	jointTol = 1e-6
	// jointMaxEps is where the search for ε ends.
	jointMaxEps = 50
)

// PValue implements Estimator. It is at least jointBoos, fixed in advance.
func (e Joint) PValue(c Counts, eps float64) (float64, error) {
	if err := checkCounts(c, e.Delta, eps); err != nil {
		return 0, err
	}
	t, ok := newJointTest(c, eps, e.Delta)
	if !ok {
		return 1, nil
	}
	cells := t.cover(jointBoos)
	best := 0.0
	for _, c := range cells {
		best = math.Max(best, c.ends())
	}
	for range jointCells {
		w := worst(cells)
		if cells[w].bound <= best*(1+t.slack) {
			break
		}
		cells = t.split(cells, w)
		best = math.Max(best, cells[w].pb)
	}
	return math.Min(1, jointBoos+cells[worst(cells)].bound), nil
}

// Lower implements Estimator.
func (e Joint) Lower(c Counts, alpha float64) (float64, error) {
	if err := checkCounts(c, e.Delta, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	return largestRejected(jointMaxEps, jointTol, func(eps float64) (bool, error) {
		return e.rejects(c, eps, alpha, alpha/100), nil
	})
}

// rejects reports whether the p-value whose interval costs boos is at most
// alpha, which takes far less than the p-value itself.
func (e Joint) rejects(c Counts, eps, alpha, boos float64) bool {
	t, ok := newJointTest(c, eps, e.Delta)
	return ok && t.atMost(alpha-boos, boos)
}

// jointTest is the test of one ε on one outcome.
type jointTest struct {
	c            Counts
	k, kappa     float64 // e^ε, and times n1/n0
	delta, shift float64 // δ, n1 δ
	one          float64 // keeps the deviation from 0 where there are no false positives
	s            float64 // S observed
	slack        float64 // the share by which a bound may exceed the largest value
}

// newJointTest is not ok where S is not positive, so that nothing speaks
// against ε.
func newJointTest(c Counts, eps, delta float64) (jointTest, bool) {
	k := math.Exp(eps)
	t := jointTest{c: c, k: k, kappa: k * float64(c.Members) / float64(c.NonMembers), delta: delta, shift: float64(c.Members) * delta}
	t.one = math.Pow(math.Max(1, t.kappa/k), 2)
	// A share of 1e-4 over the deviation of the estimated ε moves ε by less
	// than 1e-4 at the usual levels.
	t.slack = math.Min(.02, math.Max(1e-3, 1e-4/math.Sqrt(1/float64(max(c.FP, 1))+1/float64(max(c.TP, 1)))))
	t.s = t.statistic(float64(c.FP), float64(c.TP))
	return t, t.s > 0
}

func (t jointTest) statistic(y0, y1 float64) float64 {
	return (y1 - t.kappa*y0 - t.shift) / math.Sqrt(y1+t.kappa*t.kappa*y0+t.one)
}

// critical is the least y1 with S(y0, y1) >= S observed, n1+1 if there is none.
// It grows with y0: where S is positive, more y0 lower its numerator and raise
// its denominator, and more y1 raise it.
func (t jointTest) critical(y0 int) int {
	y := float64(y0)
	a := t.kappa*y + t.shift
	b := a + t.kappa*t.kappa*y + t.one
	s2 := t.s * t.s
	v := math.Ceil(a + (s2+math.Sqrt(s2*s2+4*s2*b))/2)
	if !(v <= float64(t.c.Members)+1) {
		return t.c.Members + 1
	}
	// The closed form may be one off by rounding; the observed outcome must be
	// in its own rejection region.
	at := int(v)
	for at > 0 && t.statistic(y, float64(at-1)) >= t.s {
		at--
	}
	for at <= t.c.Members && t.statistic(y, float64(at)) < t.s {
		at++
	}
	return at
}

// probability is that of S at least as large as observed for Y0 ~ Bin(n0, a)
// and Y1 ~ Bin(n1, min(1, k b + δ)), or a little more: Y0 beyond eight standard
// deviations counts in full, and where there are many values of Y0 they are
// taken in blocks, each with the critical value of its lowest.
func (t jointTest) probability(a, b float64) float64 {
	n0, n1 := t.c.NonMembers, t.c.Members
	p1 := t.k*b + t.delta
	if p1 >= 1 { // Y1 = n1
		outside := sort.Search(n0+1, func(y0 int) bool { return t.critical(y0) > n1 })
		return math.Min(1, binomialLower(outside-1, n0, a)*(1+1e-9))
	}
	mean := float64(n0) * a
	spread := 8*math.Sqrt(mean*(1-a)) + 30
	low, high := int(math.Max(0, mean-spread)), int(math.Min(float64(n0), math.Ceil(mean+spread)))
	// Nor is it worth summing where Y1 is out of reach: what is above counts with
	// the tail of Y1 there, which is far below rounding.
	mean1 := float64(n1) * p1
	reach := mean1 + 15*math.Sqrt(mean1*(1-p1)) + 150
	high = low + sort.Search(high-low, func(i int) bool { return float64(t.critical(low+i)) > reach })
	sum := 0.0
	if low > 0 {
		sum = binomialLower(low-1, n0, a)
	}
	if high-low >= 10*jointBlocks || t.critical(high)-t.critical(low) >= 80*jointBlocks {
		sum += t.blocks(a, p1, low, high)
	} else {
		sum += t.values(a, p1, low, high)
	}
	// Rounding: each recurrence loses at most some 1e-16 a step.
	return math.Min(1, sum*(1+1e-9))
}

// blocks sums over Y0 from low up. With F the distribution function of Y0 at
// the blocks' ends and T the tail of Y1 in them, which falls, Σ (F_j - F_{j-1})
// T_j is summed as Σ F_j (T_j - T_{j+1}), so that no mass is a difference; F
// below the first block is counted with it.
func (t jointTest) blocks(a, p1 float64, low, high int) float64 {
	n0, n1 := t.c.NonMembers, t.c.Members
	size := (high-low)/jointBlocks + 1
	sum, tail := 0.0, binomialUpper(t.critical(low), n1, p1)
	for y0 := low; ; y0 += size {
		end := y0 + size - 1
		if end >= high {
			return sum + tail // all of Y0 above counts with the last block
		}
		next := math.Min(tail, binomialUpper(t.critical(end+1), n1, p1))
		sum += binomialLower(end, n0, a) * (tail - next)
		tail = next
	}
}

// values sums over each Y0 from above, so that the tail of Y1 only grows.
func (t jointTest) values(a, p1 float64, low, high int) float64 {
	n0, n1 := t.c.NonMembers, t.c.Members
	critical := t.critical(high)
	tail := binomialUpper(critical, n1, p1)
	sum := 0.0
	if high < n0 {
		sum += binomialUpper(high+1, n0, a) * tail
	}
	mass0 := math.Exp(logBinomialPMF(high, n0, a))
	mass1 := math.Exp(logBinomialPMF(critical, n1, p1))
	for y0 := high; ; y0-- {
		next := t.critical(y0)
		for critical > next && tail < 1 {
			critical--
			if critical == n1 || mass1 < 1e-290 {
				mass1 = math.Exp(logBinomialPMF(critical, n1, p1))
			} else {
				mass1 *= float64(critical+1) / float64(n1-critical) * (1 - p1) / p1
			}
			if tail += mass1; tail > 1-1e-15 {
				tail = 1
			}
		}
		sum += mass0 * tail
		if y0 == low {
			return sum
		}
		if mass0 < 1e-290 {
			mass0 = math.Exp(logBinomialPMF(y0-1, n0, a))
		} else {
			mass0 *= float64(y0) / float64(n0-y0+1) * (1 - a) / a
		}
	}
}

// cell is a range of p0, the probability at its ends, and the most that it can
// be between them.
type cell struct{ a, b, pa, pb, bound float64 }

func (c cell) mid() float64 { return c.a + (c.b-c.a)/2 }

func (c cell) ends() float64 { return math.Max(c.pa, c.pb) }

func (t jointTest) cell(a, b, pa, pb float64) cell {
	c := cell{a: a, b: b, pa: pa, pb: pb, bound: 1}
	top := c.ends()
	// Convex in p0, so that its largest value is at an end.
	info := math.Max(t.information(a), t.information(b))
	if w := b - a; w*w*info < 1 {
		most := math.Asin(math.Sqrt(top)) + w*math.Sqrt(info)/2
		variance := .25
		if most < math.Pi/4 {
			p := math.Sin(most) * math.Sin(most)
			variance = p * (1 - p)
		}
		c.bound = math.Min(1, top+w*w/8*math.Sqrt(2*variance)*info)
	}
	if c.bound > 1.05*top {
		c.bound = math.Min(c.bound, t.probability(a, b))
	}
	return c
}

// information is that of p0, infinite where a rate is 0 or 1.
func (t jointTest) information(p0 float64) float64 {
	p1 := t.k*p0 + t.delta
	if !(p0 > 0 && p0 < 1 && p1 < 1) {
		return math.Inf(1)
	}
	return float64(t.c.NonMembers)/(p0*(1-p0)) + t.k*t.k*float64(t.c.Members)/(p1*(1-p1))
}

// cover is cells for all p0 in the interval of level boos.
func (t jointTest) cover(boos float64) []cell {
	const first = 16
	low := clopperPearsonLower(t.c.FP, t.c.NonMembers, boos/2)
	high := clopperPearsonUpper(t.c.FP, t.c.NonMembers, boos/2)
	cells := make([]cell, 0, first)
	a, pa := low, t.probability(low, low)
	for i := range first {
		b := low + (high-low)*float64(i+1)/first
		if i == first-1 {
			b = high
		}
		pb := t.probability(b, b)
		cells = append(cells, t.cell(a, b, pa, pb))
		a, pa = b, pb
	}
	return cells
}

// split halves a cell; the left half takes its place.
func (t jointTest) split(cells []cell, i int) []cell {
	c, m := cells[i], cells[i].mid()
	p := t.probability(m, m)
	cells[i] = t.cell(c.a, m, c.pa, p)
	return append(cells, t.cell(m, c.b, p, c.pb))
}

// worst is the cell of the largest bound.
func worst(cells []cell) int {
	w := 0
	for i := range cells {
		if cells[i].bound > cells[w].bound {
			w = i
		}
	}
	return w
}

// atMost reports whether the probability is at most level for all p0 of the
// interval: yes once the cells' bounds are; no once some p0 exceeds it, or comes
// within the slack of it, or the cells are too many.
func (t jointTest) atMost(level, boos float64) bool {
	near := level / (1 + t.slack)
	at := float64(t.c.FP) / float64(t.c.NonMembers)
	if t.probability(at, at) > near {
		return false
	}
	cells := t.cover(boos)
	for _, c := range cells {
		if c.ends() > near {
			return false
		}
	}
	for range jointCells {
		w := worst(cells)
		if cells[w].bound <= level {
			return true
		}
		cells = t.split(cells, w)
		if cells[w].pb > near {
			return false
		}
	}
	return false
}
