package onerun

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

func selected(t *testing.T, s audit.Selector, d audit.Dataset, m, set int, seed uint64) *audit.CanarySet {
	t.Helper()
	c, err := s.Select(context.Background(), d, m, set, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkCanaries(c, d, m); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSelectors: random canaries are training examples as they are; mislabeled
// ones are the same examples with another label; sets differ, calls do not.
func TestSelectors(t *testing.T) {
	const n, m = 100, 40
	d := toyData(n)
	c := selected(t, Random(), d, m, 0, 7)
	wrong := selected(t, Mislabeled(), d, m, 0, 7)
	var x [4]float32
	for i := range m {
		y := d.Example(c.Removed[i], x[:])
		if int(c.Y[i]) != y || !slices.Equal(c.X[i*4:i*4+4], x[:]) {
			t.Errorf("random canary %d is not example %d", i, c.Removed[i])
		}
		if int(wrong.Y[i]) == y || wrong.Y[i] < 0 || int(wrong.Y[i]) >= d.Classes() {
			t.Errorf("mislabeled canary %d has label %d, the original %d", i, wrong.Y[i], y)
		}
	}
	if !slices.Equal(c.Removed, wrong.Removed) || !slices.Equal(c.X, wrong.X) {
		t.Error("the two methods took different examples")
	}
	if again := selected(t, Mislabeled(), d, m, 0, 7); !slices.Equal(again.Y, wrong.Y) {
		t.Error("the same seed gave other labels")
	}
	if next := selected(t, Random(), d, m, 1, 7); slices.Equal(next.Removed, c.Removed) {
		t.Error("two sets are the same")
	}
	if all := selected(t, Random(), d, n, 0, 7); len(all.Removed) != n {
		t.Error("all examples as canaries")
	}
}

// TestWrongLabelsAreUniform: over many canaries, each wrong label is as
// frequent as the others.
func TestWrongLabelsAreUniform(t *testing.T) {
	const m = 12000
	c := selected(t, Mislabeled(), toyData(m), m, 0, 3)
	var count [4][4]int // true, wrong
	for i, y := range c.Y {
		count[c.Removed[i]%4][y]++
	}
	// 3000 canaries of each class, 1000 per wrong label, binomial; with 12 such
	// counts five standard errors are crossed once in 100,000 seeds.
	tol := 5 * math.Sqrt(3000./3*(2./3))
	for y := range count {
		for z, k := range count[y] {
			if y == z && k != 0 {
				t.Errorf("%d canaries of class %d kept their label", k, y)
			}
			if y != z && !(math.Abs(float64(k)-1000) <= tol) {
				t.Errorf("class %d became %d %d times, want 1000 ± %.0f", y, z, k, tol)
			}
		}
	}
}

func TestSelectorsRefuse(t *testing.T) {
	for _, s := range []audit.Selector{Random(), Mislabeled()} {
		for _, m := range []int{-1, 0, 1, 11} {
			_, err := s.Select(context.Background(), toyData(10), m, 0, 1)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint(m)) {
				t.Errorf("%s of 10 examples, %d canaries: error %v", s.Name(), m, err)
			}
		}
	}
	one := &audit.CanarySet{Size: []int{1}, X: make([]float32, 4), Y: make([]int32, 4), Removed: make([]int, 4), K: 1}
	if _, err := Mislabeled().Select(context.Background(), one, 2, 0, 1); err == nil {
		t.Error("mislabeled canaries where there is one class")
	}
}

// compose is what newTrainingSet must look like.
type compose func(d audit.Dataset, c *audit.CanarySet, coins []bool) audit.Dataset

// checkComposition: the training data are the examples that no canary
// displaces, in order, and then the canaries that are in, and nothing else.
func checkComposition(f compose) error {
	d := toyData(50)
	c, err := Mislabeled().Select(context.Background(), d, 20, 0, 1)
	if err != nil {
		return err
	}
	c.Removed[3] = -1 // a canary that displaces nothing
	in := coins(1, 0, 0, c.Len())
	var want, got []string
	var x [4]float32
	for i := range d.Len() {
		if !slices.Contains(c.Removed, i) {
			y := d.Example(i, x[:])
			want = append(want, fmt.Sprint(x, y))
		}
	}
	for i, isIn := range in {
		if isIn {
			y := c.Example(i, x[:])
			want = append(want, fmt.Sprint(x, y))
		}
	}
	s := f(d, c, in)
	for i := range s.Len() {
		y := s.Example(i, x[:])
		got = append(got, fmt.Sprint(x, y))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%d examples, want %d others", len(got), len(want))
	}
	if !slices.Equal(s.Shape(), d.Shape()) || s.Classes() != d.Classes() {
		return fmt.Errorf("shape %v, %d classes", s.Shape(), s.Classes())
	}
	return nil
}

func honest(d audit.Dataset, c *audit.CanarySet, in []bool) audit.Dataset {
	return newTrainingSet(d, c, in)
}

func TestComposition(t *testing.T) {
	if err := checkComposition(honest); err != nil {
		t.Error(err)
	}
}

func TestPlantedCompositions(t *testing.T) {
	for name, f := range map[string]compose{
		"originals stay": func(d audit.Dataset, c *audit.CanarySet, in []bool) audit.Dataset {
			blind := *c
			blind.Removed = slices.Repeat([]int{-1}, c.Len())
			return newTrainingSet(d, &blind, in)
		},
		"only originals of members go": func(d audit.Dataset, c *audit.CanarySet, in []bool) audit.Dataset {
			some := *c
			some.Removed = slices.Clone(c.Removed)
			for i := range in {
				if !in[i] {
					some.Removed[i] = -1
				}
			}
			return newTrainingSet(d, &some, in)
		},
		"coins turned": func(d audit.Dataset, c *audit.CanarySet, in []bool) audit.Dataset {
			turned := slices.Clone(in)
			for i := range turned {
				turned[i] = !turned[i]
			}
			return newTrainingSet(d, c, turned)
		},
		"all canaries in": func(d audit.Dataset, c *audit.CanarySet, in []bool) audit.Dataset {
			return newTrainingSet(d, c, slices.Repeat([]bool{true}, len(in)))
		},
	} {
		if checkComposition(f) == nil {
			t.Errorf("nobody notices: %s", name)
		}
	}
}

// toss is what coins must look like.
type toss func(seed uint64, set, aud, m int) []bool

// checkCoins: fair, and independent between seeds, sets, audits and
// neighbouring canaries, each within five standard errors.
func checkCoins(f toss) error {
	const m = 20000
	tol := 5 * math.Sqrt(m) / 2
	base := f(1, 0, 0, m)
	agree := func(a, b []bool) float64 {
		n := 0.0
		for i := range a {
			if a[i] == b[i] {
				n++
			}
		}
		return n
	}
	for name, got := range map[string]float64{
		"heads":                    agree(base, slices.Repeat([]bool{true}, m)),
		"agreement with audit 1":   agree(base, f(1, 0, 1, m)),
		"agreement with set 1":     agree(base, f(1, 1, 0, m)),
		"sets and audits swapped":  agree(f(1, 0, 1, m), f(1, 1, 0, m)),
		"agreement with seed 2":    agree(base, f(2, 0, 0, m)),
		"agreement with neighbour": agree(base, append(slices.Clone(base[1:]), base[0])),
	} {
		if !(math.Abs(got-m/2) <= tol) {
			return fmt.Errorf("%s: %v of %d, want %d ± %.0f", name, got, m, m/2, tol)
		}
	}
	if !slices.Equal(base, f(1, 0, 0, m)) {
		return fmt.Errorf("the same coins came out differently")
	}
	return nil
}

func TestCoins(t *testing.T) {
	if err := checkCoins(coins); err != nil {
		t.Error(err)
	}
}

func TestPlantedCoins(t *testing.T) {
	for name, f := range map[string]toss{
		"the same in all audits": func(seed uint64, set, _, m int) []bool { return coins(seed, set, 0, m) },
		"the same in all sets":   func(seed uint64, _, aud, m int) []bool { return coins(seed, 0, aud, m) },
		"set and audit added up": func(seed uint64, set, aud, m int) []bool { return coins(seed, set+aud, 0, m) },
		"the seed left out":      func(_ uint64, set, aud, m int) []bool { return coins(0, set, aud, m) },
		"alternating":            func(_ uint64, _, _, m int) []bool { return slices.Repeat([]bool{true, false}, m/2) },
		"exactly half, one block": func(_ uint64, _, _, m int) []bool {
			return append(make([]bool, m/2), slices.Repeat([]bool{true}, m/2)...)
		},
	} {
		if checkCoins(f) == nil {
			t.Errorf("nobody notices coins that are %s", name)
		}
	}
}

func TestDigest(t *testing.T) {
	base := Digest(toyData(20))
	c := selected(t, Random(), toyData(20), 20, 0, 1)
	all := Digest(c)
	c.X[7]++
	pixel := Digest(c)
	c.X[7]--
	c.Y[2] ^= 1
	label := Digest(c)
	got := []string{base, all, pixel, label, Digest(toyData(21)), Digest(nil)}
	slices.Sort(got)
	if len(slices.Compact(got)) != 6 || base != Digest(toyData(20)) {
		t.Errorf("digests %v, want six different ones", got)
	}
}
