package stats

import (
	"math"
	"strings"
	"testing"
)

const jointRuns = 1_000_000

// TestJointOracle: values of a grid search over p0, to which the bound over
// cells is at most a little below.
func TestJointOracle(t *testing.T) {
	c := Counts{136, jointRuns, 573, jointRuns}
	for alpha, want := range map[float64]float64{.01: 1.19889, .05: 1.26294} {
		if got := lowerOf[Counts](t, Joint{1e-5}, c, alpha); !(math.Abs(got-want) <= 1e-3) {
			t.Errorf("level %v: %v, want %v", alpha, got, want)
		}
	}
}

// TestJointBeatsIntervals: the bound of two Clopper-Pearson intervals is lower.
func TestJointBeatsIntervals(t *testing.T) {
	const alpha, delta = .01, 1e-5
	for _, o := range [][2]int{{573, 136}, {830, 233}, {378, 88}, {1742, 577}} {
		joint := lowerOf[Counts](t, Joint{delta}, Counts{o[1], jointRuns, o[0], jointRuns}, alpha)
		two := math.Log((clopperPearsonLower(o[0], jointRuns, alpha/2) - delta) / clopperPearsonUpper(o[1], jointRuns, alpha/2))
		if !(joint >= two) {
			t.Errorf("%v: joint %v, two intervals %v", o, joint, two)
		}
	}
}

// TestJointDefinition: the p-value against the definition on a fine grid, and
// no value inside a cell above the cell's bound, with and without n0 = n1.
func TestJointDefinition(t *testing.T) {
	for _, o := range []struct {
		c          Counts
		eps, delta float64
	}{
		{Counts{3, 30, 14, 40}, .4, .01}, {Counts{0, 25, 9, 25}, 1, 0}, {Counts{5, 40, 12, 20}, .3, .05}, {Counts{12, 20, 39, 40}, .2, 0}, {Counts{2, 40, 10, 40}, 0, 0},
	} {
		test, ok := newJointTest(o.c, o.eps, o.delta)
		if !ok {
			t.Fatalf("%+v: S is not positive", o)
		}
		n0, n1, last := o.c.NonMembers, o.c.Members, 0
		region := make([][]bool, n0+1)
		for y0 := range region {
			region[y0] = make([]bool, n1+1)
			least := n1 + 1
			for y1 := n1; y1 >= 0; y1-- {
				if region[y0][y1] = test.statistic(float64(y0), float64(y1)) >= test.s; region[y0][y1] {
					least = y1
				}
			}
			if got := test.critical(y0); got != least || got < last {
				t.Errorf("%+v: critical value at %d is %d, want %d, at least %d", o, y0, got, least, last)
			}
			last = least
		}
		brute := func(p0 float64) float64 {
			p1, sum := math.Min(1, math.Exp(o.eps)*p0+o.delta), 0.0
			for y0 := range region {
				for y1, in := range region[y0] {
					if in {
						sum += math.Exp(logBinomialPMF(y0, n0, p0) + logBinomialPMF(y1, n1, p1))
					}
				}
			}
			return sum
		}
		low, high := clopperPearsonLower(o.c.FP, n0, jointBoos/2), clopperPearsonUpper(o.c.FP, n0, jointBoos/2)
		sup := 0.0
		for i := range 2001 {
			sup = math.Max(sup, brute(low+(high-low)*float64(i)/2000))
		}
		p, err := Joint{o.delta}.PValue(o.c, o.eps)
		if err != nil || !(p >= math.Min(1, sup+jointBoos) && p <= (sup+jointBoos)*1.002) {
			t.Errorf("%+v: p %v, %v, want a little above %v", o, p, err, sup+jointBoos)
		}
		cells := test.cover(jointBoos)
		for range 20 {
			cells = test.split(cells, worst(cells))
		}
		for _, cell := range cells {
			for i := range 11 {
				if p0 := cell.a + (cell.b-cell.a)*float64(i)/10; !(brute(p0) <= cell.bound) {
					t.Errorf("%+v at %v in [%v, %v]: %v above the bound %v", o, p0, cell.a, cell.b, brute(p0), cell.bound)
				}
			}
		}
	}
}

// TestJointBlocks: blocks give the sum over each value, or a little more.
func TestJointBlocks(t *testing.T) {
	c := Counts{40_000, jointRuns, 101_000, jointRuns}
	test, _ := newJointTest(c, .91, 1e-5)
	const a = .04
	p1 := test.k*a + test.delta
	exact, blocks := test.values(a, p1, 38_000, 42_000), test.blocks(a, p1, 38_000, 42_000)
	if !(blocks >= exact && blocks <= exact*1.2 && exact > 1e-3) {
		t.Errorf("blocks %v, each value %v", blocks, exact)
	}
}

// TestJointGrows: p with ε; at the bound it is about the level, of which Lower
// spends another part on the interval.
func TestJointGrows(t *testing.T) {
	c := Counts{20, 1000, 150, 1200}
	last := 0.0
	for eps := 0.0; eps < 4; eps += .1 {
		p, err := Joint{1e-3}.PValue(c, eps)
		if err != nil || !(p >= last*(1-2e-3) && p <= 1) {
			t.Errorf("at %v: %v, %v after %v", eps, p, err, last)
		}
		last = p
	}
	low := lowerOf[Counts](t, Joint{1e-3}, c, .05)
	if p, err := (Joint{1e-3}).PValue(c, low); err != nil || !(math.Abs(p-.05) <= 3e-3) {
		t.Errorf("p at the bound %v is %v, %v", low, p, err)
	}
}

// TestJointLarge: the cost is bounded.
func TestJointLarge(t *testing.T) {
	const n, n9 = 100_000_000, 1_000_000_000
	c := Counts{13_600, n, 57_300, n}
	if got := lowerOf[Counts](t, Joint{1e-5}, c, .01); !(got >= 1.397 && got <= 1.399) {
		t.Errorf("%+v: %v, want about 1.3983, cp-2 being 1.3876", c, got)
	}
	for _, c := range []Counts{{n / 10, n, 3 * n / 10, n}, {n9 / 10, n9, 3 * n9 / 10, n9}} {
		// One-sided at 2.5 deviations of the estimated ε, about .006.
		eps := math.Log(3-1e-4) - 2.5*math.Sqrt((.9/.1+.7/.3)/float64(c.Members))
		if p, err := (Joint{1e-5}).PValue(c, eps); err != nil || !(p > .006 && p < .0072) {
			t.Errorf("%+v: %v, %v", c, p, err)
		}
	}
	if got := lowerOf[Counts](t, Joint{1e-5}, Counts{5, 1000, 3 * n, n9}, .01); !(got > 1.5 && got < 3.1) {
		t.Errorf("few non-members: %v", got)
	}
}

// TestJointPooled: the same value, and no bound.
func TestJointPooled(t *testing.T) {
	c := Counts{136, million, 573, million}
	b, err := Conclude[Counts](JointPooled{Joint{1e-5}}, c, .05, "one look")
	if want := lowerOf[Counts](t, Joint{1e-5}, c, .05); err != nil || b.Epsilon != want || b.Scope.Sound() || b.Estimator == (Joint{}).Name() {
		t.Errorf("%+v, %v, want %v that is no bound", b, err, want)
	}
}

func TestJointRefuses(t *testing.T) {
	good := Counts{10, 100, 50, 100}
	for _, o := range []struct {
		e    Joint
		c    Counts
		want string
	}{
		{Joint{1}, good, "delta: 1"},
		{Joint{-1}, good, "delta: -1"},
		{Joint{math.NaN()}, good, "delta: NaN"},
		{Joint{}, Counts{1, 0, 1, 1}, "non-members: 0"},
		{Joint{}, Counts{1, 1, 1, 0}, "members: 0"},
		{Joint{}, Counts{2, 1, 1, 1}, "false positives: 2"},
		{Joint{}, Counts{1, 1, -1, 1}, "true positives: -1"},
	} {
		_, err := o.e.PValue(o.c, 1)
		_, err2 := o.e.Lower(o.c, .05)
		for _, err := range []error{err, err2} {
			if err == nil || !strings.Contains(err.Error(), o.want) {
				t.Errorf("%+v of %+v: %v does not say %q", o.e, o.c, err, o.want)
			}
		}
	}
	if _, err := (Joint{}).PValue(good, math.NaN()); err == nil || !strings.Contains(err.Error(), "eps: NaN") {
		t.Errorf("ε NaN: %v", err)
	}
	if _, err := (Joint{}).Lower(good, 1); err == nil || !strings.Contains(err.Error(), "alpha: 1") {
		t.Errorf("level 1: %v", err)
	}
}
