package stats

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// binomialQuantile is the least k with P[X <= k] >= u.
func binomialQuantile(n int, p, u float64) int {
	mean := float64(n) * p
	sd := math.Sqrt(mean * (1 - p))
	guess := mean + mathext.NormalQuantile(u)*sd
	low, high := int(math.Max(0, guess-sd-30)), int(math.Min(float64(n), guess+sd+30))
	for low < high {
		if mid := (low + high) / 2; binomialLower(mid, n, p) >= u {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// countLattice is m outcomes of n runs in each world, evenly over the quantiles
// of both counts: what m random audits would be, without the noise. The step is
// odd and near m/φ, m a power of two, so that each quantile of either count
// appears once, and neighbours of one are far apart in the other.
func countLattice(n, m int, p0, p1 float64) []Counts {
	at0, at1 := make([]int, m), make([]int, m)
	for i := range m {
		u := (float64(i) + .5) / float64(m)
		at0[i], at1[i] = binomialQuantile(n, p0, u), binomialQuantile(n, p1, u)
	}
	step := int(float64(m)/math.Phi) | 1
	out := make([]Counts, m)
	for i := range out {
		out[i] = Counts{at0[i], n, at1[i*step%m], n}
	}
	return out
}

// audits are the bounds that equally likely outcomes give.
type audits []float64

func auditAll(t *testing.T, e Estimator[Counts], alpha float64, outcomes []Counts) audits {
	t.Helper()
	out := make(audits, len(outcomes))
	for i, c := range outcomes {
		out[i] = lowerOf(t, e, c, alpha)
	}
	slices.Sort(out)
	return out
}

func (a audits) mean() float64 {
	sum := 0.0
	for _, v := range a {
		sum += v
	}
	return sum / float64(len(a))
}

// meanMax is the mean of the largest of k: the i-th of n values is the largest
// with probability (i/n)^k - ((i-1)/n)^k.
func (a audits) meanMax(k float64) float64 {
	sum, n := 0.0, float64(len(a))
	for i, v := range a {
		sum += v * (math.Pow(float64(i+1)/n, k) - math.Pow(float64(i)/n, k))
	}
	return sum
}

// The table of the audit with q = .1, σ = 1 and δ = 1e-5: mean bounds, and the
// mean of the largest of five, at the best threshold. It was simulated by 800
// groups of five, and printed to three digits.
const (
	powerRate, powerDelta = .1, 1e-5
	powerGroups           = 800
	powerPrinted          = .0005
)

// powerTolerance is three standard errors of the mean of n draws, the printed
// digits, and a thousandth for the lattice: from 1,024 points to 4,096 means move
// by 1e-4 at most, and those of the largest of five by 6e-4.
func powerTolerance(sd float64, n int) float64 {
	return 3*sd/math.Sqrt(float64(n)) + powerPrinted + .001
}

func TestPowerOfIntervals(t *testing.T) {
	for _, o := range []struct {
		n             int
		alpha, at     float64
		e             Estimator[Counts]
		mean, sd, max float64 // max of five; 0 if not known
	}{
		{1_000_000, .01, 3.64, ClopperPearson{powerDelta, 4}, .993, .090, 1.098},
		{1_000_000, .01, 3.68, ClopperPearson{powerDelta, 2}, 1.021, .095, 1.132},
		{5_000_000, .05, 4.01, ClopperPearson{powerDelta, 4}, 1.317, .083, 0},
		{5_000_000, .05, 4.04, ClopperPearson{powerDelta, 2}, 1.350, .090, 0},
		{5_000_000, .01, 3.95, ClopperPearson{powerDelta, 4}, 1.256, .072, 1.341},
		{10_000_000, .01, 4.04, ClopperPearson{powerDelta, 4}, 1.351, .064, 1.426},
		{100_000_000, .01, 4.22, ClopperPearson{powerDelta, 4}, 1.556, .030, 1.592},
		{1_000_000_000, .01, 4.28, ClopperPearson{powerDelta, 4}, 1.641, .011, 1.654},
		{1_000_000, .01, 1.82, SubsampledGaussian{powerRate, powerDelta}, 1.533, .042, 1.582},
	} {
		p0, p1 := sampledRates(powerRate, 1, o.at)
		all := auditAll(t, o.e, o.alpha, countLattice(o.n, 1024, p0, p1))
		if !(math.Abs(all.mean()-o.mean) <= powerTolerance(o.sd, 5*powerGroups)) {
			t.Errorf("%s of %d runs: mean %v, want %v", o.e.Name(), o.n, all.mean(), o.mean)
		}
		// The largest of five varies less than one.
		if o.max > 0 && !(math.Abs(all.meanMax(5)-o.max) <= powerTolerance(o.sd, powerGroups)) {
			t.Errorf("%s of %d runs: largest of five %v, want %v", o.e.Name(), o.n, all.meanMax(5), o.max)
		}
		// Planted: a level that was not divided.
		each, ok := o.e.(ClopperPearson)
		if !ok {
			continue
		}
		fault := auditAll(t, each, o.alpha*float64(each.Bounds), countLattice(o.n, 1024, p0, p1)).mean()
		if math.Abs(fault-o.mean) <= powerTolerance(o.sd, 5*powerGroups) {
			t.Errorf("%s of %d runs: undivided level not noticed, mean %v", o.e.Name(), o.n, fault)
		}
	}
}

// TestPowerOfJoint: the means of the joint test. Its difference from cp-2 hardly
// varies, so that a few outcomes give it, and cp-2 has the mean of many: 16
// outcomes for 8 move the sum by less than 2e-4.
//
// The table has 1.462 for ten million runs at 4.15, where this gives 1.4545. That
// is left out: there the estimate of ε, ln((966-100)/166) = 1.652, has a standard
// deviation of √(1/166 + 966/866²) = .0855, and 2.326 of them below it, with .002
// for the curvature, is 1.455.
func TestPowerOfJoint(t *testing.T) {
	for _, o := range []struct {
		n                   int
		alpha, at, mean, sd float64
	}{
		{1_000_000, .01, 3.80, 1.153, .124}, {5_000_000, .05, 4.10, 1.453, .103}, {5_000_000, .01, 4.10, 1.380, .103},
	} {
		p0, p1 := sampledRates(powerRate, 1, o.at)
		two, few := ClopperPearson{powerDelta, 2}, countLattice(o.n, 8, p0, p1)
		more := auditAll(t, Joint{powerDelta}, o.alpha, few).mean() - auditAll(t, two, o.alpha, few).mean()
		mean := auditAll(t, two, o.alpha, countLattice(o.n, 1024, p0, p1)).mean() + more
		if !(math.Abs(mean-o.mean) <= powerTolerance(o.sd, 5*powerGroups)) {
			t.Errorf("%d runs at %v: mean %v, want %v", o.n, o.at, mean, o.mean)
		}
	}
}

// TestJointAboveIntervals: at the expected counts of each row of the table the
// joint test rejects what cp-2 does and more, up to a billion runs.
func TestJointAboveIntervals(t *testing.T) {
	for _, o := range []struct {
		n         int
		alpha, at float64
	}{
		{1_000_000, .01, 3.64}, {1_000_000, .01, 3.68}, {1_000_000, .01, 3.80}, {1_000_000, .01, 1.82},
		{5_000_000, .05, 4.01}, {5_000_000, .05, 4.04}, {5_000_000, .05, 4.10}, {5_000_000, .01, 3.95}, {5_000_000, .01, 4.10},
		{10_000_000, .01, 4.04}, {10_000_000, .01, 4.15}, {100_000_000, .01, 4.22}, {1_000_000_000, .01, 4.28},
	} {
		p0, p1 := sampledRates(powerRate, 1, o.at)
		c := Counts{int(p0 * float64(o.n)), o.n, int(p1 * float64(o.n)), o.n}
		two := lowerOf[Counts](t, ClopperPearson{powerDelta, 2}, c, o.alpha)
		// Five hundredths of the way to the estimate of ε besides, so that a test
		// which is no better is seen.
		estimate := logRatio(float64(c.TP)/float64(c.Members)-powerDelta, float64(c.FP)/float64(c.NonMembers))
		at := two + .05*(estimate-two)
		if !(two > 0) || !(Joint{powerDelta}).rejects(c, at, o.alpha, o.alpha/100) {
			t.Errorf("%d runs at %v: %v is not rejected, cp-2 being %v", o.n, o.at, at, two)
		}
	}
}

// TestThresholdScan: cp-4 at the expected counts of a million runs, which are no
// whole numbers, as the table has them: to its last digit. At the next whole
// numbers, .4 of a count away, bounds differ by up to .033 where few are called.
func TestThresholdScan(t *testing.T) {
	const n, gamma = 1_000_000, .01 / 4
	for _, o := range []struct{ at, want, tol float64 }{
		{2.5, .619, .0005}, {3, .823, .0005}, {3.25, .915, .0005}, {3.5, .9785, .00005}, {3.64, .9904, .00005}, {3.75, .9807, .00005}, {4, .8545, .00005}, {4.3, .286, .0005},
	} {
		p0, p1 := sampledRates(powerRate, 1, o.at)
		x0, x1 := p0*n, p1*n
		tpr, _ := newBeta(x1, n-x1+1).quantile(gamma)
		_, fpr := newBeta(n-x0, x0+1).quantile(gamma)
		if got := logRatio(tpr-powerDelta, fpr); !(math.Abs(got-o.want) <= o.tol*1.01) {
			t.Errorf("at %v: %v, want %v", o.at, got, o.want)
		}
		c := Counts{int(math.Round(x0)), n, int(math.Round(x1)), n}
		if got := lowerOf[Counts](t, ClopperPearson{powerDelta, 4}, c, .01); !(math.Abs(got-o.want) <= .034) {
			t.Errorf("at %v: %v at %+v, want about %v", o.at, got, c, o.want)
		}
	}
}

func (a audits) sd() float64 {
	mean, sum := a.mean(), 0.0
	for _, v := range a {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(a)))
}
