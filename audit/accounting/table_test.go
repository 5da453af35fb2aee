package accounting

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// row is one mechanism with the numbers that public accountants give for it
// (testdata/README.md).
type row struct {
	Q     float64    `json:"q"`
	S     float64    `json:"s"`
	T     int        `json:"T"`
	D     float64    `json:"d"`
	Lower float64    `json:"lo"`
	Est   float64    `json:"est"`
	Upper float64    `json:"up"`
	Fine  []float64  `json:"fine"` // Opacus at a tenth of its usual error
	RDP   [2]float64 `json:"rdp"`  // ε, order
	Mu    float64    `json:"mu"`
	GDP   float64    `json:"geps"`
}

func (r row) String() string {
	return fmt.Sprintf("q %g, noise %g, %d steps, delta %g", r.Q, r.S, r.T, r.D)
}

// tolerance is 1e-6, and 5e-6 for many steps: Opacus finds the mean loss by
// quadrature, off by some 2e-10 a step.
func (r row) tolerance() float64 {
	if r.T <= 10 {
		return 1e-6
	}
	return 5e-6
}

func load[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

// differ reports got if it is not within tol of want; NaN never is.
func differ(got, want, tol float64) error {
	if !(math.Abs(got-want) <= tol) {
		return fmt.Errorf("%.12g, want %.12g within %g", got, want, tol)
	}
	return nil
}

func tight(e Event, delta float64) (Interval, error) {
	c, err := NewCurve(e, delta)
	if err != nil {
		return Interval{}, err
	}
	return c.Epsilon(delta)
}

// checkTight says where an accountant of DP-SGD differs from the table.
func checkTight(rows []row, account func(q, s float64, steps int, delta float64) (Interval, error)) error {
	for _, r := range rows {
		v, err := account(r.Q, r.S, r.T, r.D)
		if err != nil {
			return fmt.Errorf("%v: %v", r, err)
		}
		if err := differ(v.Estimate, r.Fine[1], r.tolerance()); err != nil {
			return fmt.Errorf("%v: estimate %v", r, err)
		}
		if !(v.Lower <= v.Estimate && v.Estimate <= v.Upper && v.Upper-v.Lower <= MaxWidth) {
			return fmt.Errorf("%v: interval %+v", r, v)
		}
		if !(v.Lower <= r.Fine[1]+r.tolerance() && v.Upper >= r.Fine[1]-r.tolerance()) {
			return fmt.Errorf("%v: %+v misses %v", r, v, r.Fine[1])
		}
	}
	return nil
}

func TestTightTable(t *testing.T) {
	err := checkTight(load[row](t, "prv_table.json"), func(q, s float64, steps int, delta float64) (Interval, error) {
		return tight(DPSGD(q, s, steps), delta)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTightTableFaults plants the classic mistakes; the table must notice each.
func TestTightTableFaults(t *testing.T) {
	rows := load[row](t, "prv_table.json")[:8]
	faults := map[string]func(q, s float64, steps int, delta float64) (Interval, error){
		"delta forgotten": func(q, s float64, steps int, _ float64) (Interval, error) {
			return tight(DPSGD(q, s, steps), minDelta)
		},
		"one step too many": func(q, s float64, steps int, delta float64) (Interval, error) {
			return tight(DPSGD(q, s, steps+1), delta)
		},
		"one step too few": func(q, s float64, steps int, delta float64) (Interval, error) {
			return tight(DPSGD(q, s, steps-1), delta)
		},
		"add direction only": func(q, s float64, steps int, delta float64) (Interval, error) {
			c, err := NewCurve(DPSGD(q, s, steps), delta)
			if err != nil {
				return Interval{}, err
			}
			c.halves[0] = c.halves[1]
			return c.Epsilon(delta)
		},
		"P of one direction, Q of the other": func(q, s float64, steps int, delta float64) (Interval, error) {
			c, err := NewCurve(DPSGD(q, s, steps), delta)
			if err != nil {
				return Interval{}, err
			}
			c.halves[0][0].guess.q, c.halves[0][0].upper.q = c.halves[1][0].guess.q, c.halves[1][0].upper.q
			return c.Epsilon(delta)
		},
		"noise variance for deviation": func(q, s float64, steps int, delta float64) (Interval, error) {
			return tight(DPSGD(q, s*s, steps), delta)
		},
	}
	for name, fault := range faults {
		if name == "noise variance for deviation" {
			rows = rows[3:]
		}
		if checkTight(rows, fault) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestOpacusTable(t *testing.T) {
	for _, r := range load[row](t, "prv_table.json") {
		v, err := Opacus(DPSGD(r.Q, r.S, r.T), r.D)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]float64{{v.Lower, r.Lower}, {v.Estimate, r.Est}, {v.Upper, r.Upper}} {
			if err := differ(pair[0], pair[1], r.tolerance()); err != nil {
				t.Errorf("%v: %v", r, err)
			}
		}
	}
}

// TestOpacusPrinted has the budgets that a paper on Private Evolution prints.
func TestOpacusPrinted(t *testing.T) {
	want := map[string]Event{"1.695": DPSGD(.1, 1, 1)}
	for i, s := range []string{"1.345", "1.540", "1.682", "1.800", "1.905", "2.000"} {
		want[s] = DPSGD(.1, 1.1088, i+1)
	}
	for s, e := range want {
		v, err := Opacus(e, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.3f", v.Upper); got != s {
			t.Errorf("%s: %s, want %s", e.Name(), got, s)
		}
	}
}

func TestOpacusSweep(t *testing.T) {
	noises := []float64{.5, .7, 1, 1.5, 2, 4}
	for q, want := range map[float64][]float64{
		.01: {3.035832, .861935, .209556, .066077, .038286, .018490},
		.05: {5.527351, 2.662497, 1.042974, .359469, .190502, .061707},
		.1:  {6.586093, 3.577888, 1.694768, .685393, .379102, .120444},
		.2:  {7.630881, 4.508674, 2.457459, 1.175348, .702914, .237140},
		.5:  {8.991932, 5.738681, 3.544240, 2.027677, 1.363688, .545705},
	} {
		for i, s := range noises {
			v, err := Opacus(DPSGD(q, s, 1), 1e-5)
			if err != nil {
				t.Fatal(err)
			}
			if err := differ(v.Upper, want[i], 1e-6); err != nil {
				t.Errorf("q %g, noise %g: %v", q, s, err)
			}
		}
	}
}

// TestOpacusElsewhere has cases that are in no table: phases, q = 1, and the
// values of Opacus' own tests.
func TestOpacusElsewhere(t *testing.T) {
	for _, c := range []struct {
		e           Event
		delta, want float64
		tol         float64
	}{
		{Composed{DPSGD(.1, 1, 3), DPSGD(.05, 2, 10)}, 1e-5, 2.1166332434, 1e-6},
		{DPSGD(1, 1, 1), 1e-5, 4.3874137880, 1e-6},
		{DPSGD(1, 5, 10), 1e-5, 2.6045363755, 1e-6},
		{DPSGD(.04, 1.5, 2249), 1e-5, 6.7773957, 5e-6},
		{DPSGD(.001, .8, 100), 1e-6, .2704033645, 5e-6},
		{DPSGD(.05, 1.5, 1000), 1e-6, 6.2099692356, 5e-6},
		{DPSGD(.2, 3, 100), 1e-6, 3.3812205111, 5e-6},
		{DPSGD(.001, 2, 50000), 1e-6, .4913547699, 5e-6},
	} {
		v, err := Opacus(c.e, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(v.Upper, c.want, c.tol); err != nil {
			t.Errorf("%s: %v", c.e.Name(), err)
		}
	}
}

func TestOpacusMesh(t *testing.T) {
	for _, c := range []struct {
		q, s         float64
		steps        int
		one, all, dt float64
	}{
		{.1, 1, 1, 3.7829316210, 3.6656483265, .00309302770797095},
		{.1, 1.1088, 6, 3.4183761646, 4.1309831714, .0012627232741365},
		{.01, 1, 10000, 2.9512341007, 9.0121141059, 3.09302770797095e-05},
	} {
		f, err := flatten(DPSGD(c.q, c.s, c.steps))
		if err != nil {
			t.Fatal(err)
		}
		half, dt := f.opacusMesh(1e-8)
		if err := differ(half, math.Max(c.one, c.all)+3, 1e-9); err != nil {
			t.Errorf("q %g, noise %g: reach %v", c.q, c.s, err)
		}
		if err := differ(dt, c.dt, 1e-15); err != nil {
			t.Errorf("q %g, noise %g: step %v", c.q, c.s, err)
		}
	}
}

func TestRDPTable(t *testing.T) {
	for _, r := range load[row](t, "prv_table.json") {
		eps, order, err := RDPEpsilon(DPSGD(r.Q, r.S, r.T), r.D)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(eps, r.RDP[0], 1e-9); err != nil || order != r.RDP[1] {
			t.Errorf("%v: order %g, want %g: %v", r, order, r.RDP[1], err)
		}
	}
	for _, c := range []struct{ q, s, order, want float64 }{
		{.1, 1, 1.1, .00809856846721}, {.1, 1, 1.5, .0117345921965},
		{.1, 1, 2, math.Log1p(.01 * math.Expm1(1))}, {.1, 1, 2, .0170368632362},
		{.1, 1, 3, .0317123003034}, {.1, 1, 6, .371094353076}, {.1, 1, 10.9, 2.91532955649},
		{.1, 1, 32, 13.6231379685}, {.1, 1, 63, 29.1602764378},
		{.04, 1.5, 1.5, .000663111694056}, {.04, 1.5, 2, .000894996966874},
		{.04, 1.5, 6, .00299704137107}, {.04, 1.5, 32, 3.78842631431},
		{.04, .6, 1.8, .0185017717}, {1, 2, 7, 7. / 8},
	} {
		got, err := RDP(DPSGD(c.q, c.s, 1), c.order)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(got, c.want, 1e-10*(1+c.want)); err != nil {
			t.Errorf("q %g, noise %g, order %g: %v", c.q, c.s, c.order, err)
		}
	}
	// The sum of integer orders and the integral of all orders agree.
	for _, g := range []sampledGaussian{{.1, 1}, {.004, .7}, {.5, 3}, {.01, .3}} {
		for _, a := range []int{2, 5, 17, 40} {
			want := g.logMomentInteger(a)
			if err := differ(g.logMomentFraction(float64(a)), want, 1e-12*(1+want)); err != nil {
				t.Errorf("%+v, order %d: %v", g, a, err)
			}
		}
	}
}

func TestGDPTable(t *testing.T) {
	for _, r := range load[row](t, "prv_table.json") {
		g, err := GDPEpsilon(DPSGD(r.Q, r.S, r.T), r.D)
		if err != nil {
			t.Fatal(err)
		}
		if differ(g.Mu, r.Mu, 1e-12) != nil || differ(g.Epsilon, r.GDP, 1e-9) != nil || !g.Approximate {
			t.Errorf("%v: %+v, want mu %g, epsilon %g", r, g, r.Mu, r.GDP)
		}
	}
	for mu, want := range map[float64]float64{.1: .3406693647, .25: .9263415040, .5: 1.9930914044, 1: 4.3771780957,
		1.5: 7.0514132238, 2: 9.9972561464, 3: 16.6754944028} {
		g, err := GDPEpsilon(Gaussian{NoiseMultiplier: 1 / mu}, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(g.Epsilon, want, 1e-9); err != nil || g.Approximate {
			t.Errorf("mu %g: %v", mu, err)
		}
	}
}

func TestSingleRelease(t *testing.T) {
	for _, c := range []struct{ q, s, remove, add float64 }{
		{.1, 1, 1.68454381433, .09960939945}, {.1, 1.1088, 1.33468186114, .09778396622},
		{.1, .5, 6.57553980628, .10486744886}, {.1, .7, 3.56751814575, .10351077335},
		{.1, 1.5, .67528746785, .09037759598}, {.1, 2, .36903669029, .08071381470},
		{.1, 4, .11038558260, .05289774756}, {.05, 1, 1.03279067566, .04799509002},
		{.2, 1, 2.44721880466, .21254423185}, {.5, 1, 3.53399798545, .66256086207},
		{.01, 1, .19945044780, .00905419966},
	} {
		remove, add, err := SingleRelease(PoissonSampledGaussian{SampleRate: c.q, NoiseMultiplier: c.s}, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		// The table has ten or eleven decimals.
		if err := differ(remove, c.remove, 6e-11); err != nil {
			t.Errorf("q %g, noise %g: remove %v", c.q, c.s, err)
		}
		if err := differ(add, c.add, 6e-11); err != nil {
			t.Errorf("q %g, noise %g: add %v", c.q, c.s, err)
		}
	}
}
