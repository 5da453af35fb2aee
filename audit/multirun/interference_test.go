package multirun

import (
	"math"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

func toggles(m, toggled, subsets int) Interference {
	return Interference{Set: 0, Canaries: m, Toggled: toggled, Subsets: subsets, Seed: 5}
}

func measure(t *testing.T, s *sum, f Interference) *Measured {
	t.Helper()
	losses := run(t, job(t.TempDir(), s, canaries(f.Canaries), Design{Interference: &f}))
	m, err := f.Measure(losses)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNoInterference: gaps that do not depend on the others have no variance,
// and noise that is the same in all trainings, as all share their seed, cancels.
func TestNoInterference(t *testing.T) {
	m := measure(t, &sum{gap: 2, noise: 3}, toggles(8, 5, 6))
	for _, c := range m.Canaries {
		if len(c.Gaps) != 6 || math.Abs(c.Mean-2) > 1e-12 || !(c.Variance < 1e-24) {
			t.Errorf("canary %d: %+v, expected gaps of 2", c.Canary, c)
		}
	}
	if len(m.Canaries) != 5 || !(math.Abs(m.MeanGap-2) < 1e-12) || m.Ratio.Value == nil || !(*m.Ratio.Value < 1e-24) {
		t.Errorf("%+v", m)
	}
}

// TestKnownInterference: Δ(z, S) = gap + couple Σ_{c ∈ S \ z} (c+1), exactly for
// each subset, so that a gap with the wrong sign, of the wrong canary or of a
// toggle that changed something else would show.
func TestKnownInterference(t *testing.T) {
	f := toggles(10, 10, 400)
	s := &sum{gap: 20, couple: .1}
	m := measure(t, s, f)
	trials := f.Trials()
	for j, c := range m.Canaries {
		for k, gap := range c.Gaps {
			want := 20.0
			for o, in := range trials[k*(1+f.Toggled)].In {
				if in && o != c.Canary {
					want += .1 * float64(o+1)
				}
			}
			if !(math.Abs(gap-want) < 1e-12) {
				t.Fatalf("canary %d, subset %d: gap %v, expected %v", c.Canary, k, gap, want)
			}
		}
		// Var_S = couple² Σ_{c≠z} (c+1)² / 4; the sample variance of 400 nearly
		// normal values has a relative standard deviation of √(2/399) = .07.
		want := 0.0
		for o := range 10 {
			if o != c.Canary {
				want += .01 * float64((o+1)*(o+1)) / 4
			}
		}
		if !(math.Abs(c.Variance/want-1) < .35) {
			t.Errorf("canary %d: variance %v, expected about %v", c.Canary, c.Variance, want)
		}
		if j > 0 && c.Canary <= m.Canaries[j-1].Canary {
			t.Error("canaries are not ascending")
		}
	}
	if r := m.Ratio; r.Low == nil || r.High == nil || !(*r.Low <= *r.Value && *r.Value <= *r.High && *r.Low < *r.High) {
		t.Errorf("interval %+v", r)
	}
}

// TestToggles: sides of a pair differ in one place of the training data, in all
// else they are the same, and so are their seeds.
func TestToggles(t *testing.T) {
	f := toggles(6, 4, 3)
	s := &sum{gap: 1}
	measure(t, s, f)
	if len(s.jobs) != 3*5 {
		t.Fatalf("%d trainings, expected 15", len(s.jobs))
	}
	pixels := func(j audit.Job) []float32 {
		var list []float32
		var x [1]float32
		for i := range j.Train.Len() {
			j.Train.Example(i, x[:])
			list = append(list, x[0])
		}
		return list
	}
	watched := f.Watched()
	bases := map[string]bool{}
	for k := range 3 {
		base := pixels(s.jobs[5*k])
		bases[string(boolBytes(f.Trials()[5*k].In))] = true
		for j, z := range watched {
			other := pixels(s.jobs[5*k+1+j])
			if len(other) != len(base) || s.jobs[5*k].Seed != s.jobs[5*k+1+j].Seed {
				t.Fatal("a pair has sets of different lengths or seeds")
			}
			differ := 0
			for i := range base {
				if base[i] != other[i] {
					differ++
					if zp := -float32(z + 1); base[i] != zp && other[i] != zp {
						t.Errorf("toggling canary %d changed %v to %v", z, base[i], other[i])
					}
				}
			}
			if differ != 1 {
				t.Errorf("toggling canary %d changed %d places, expected 1", z, differ)
			}
		}
		for _, p := range base {
			if p > 0 && int(p)%2 == 0 && p <= 12 {
				t.Errorf("example %v is displaced, but in the training data", p)
			}
		}
	}
	if len(bases) < 2 {
		t.Error("all subsets are the same")
	}
}

func boolBytes(v []bool) []byte {
	var b []byte
	for _, x := range v {
		if x {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// TestGapOfZero: what has no ratio says nothing rather than NaN.
func TestGapOfZero(t *testing.T) {
	m := measure(t, &sum{}, toggles(4, 3, 2))
	if m.Ratio.Value != nil || m.Ratio.High != nil || m.Canaries[0].Ratio != nil {
		t.Errorf("%+v", m)
	}
}

func TestInterferenceRefuses(t *testing.T) {
	for _, f := range []Interference{
		{Canaries: 1, Toggled: 1, Subsets: 2}, {Canaries: 4, Toggled: 5, Subsets: 2}, {Canaries: 4, Toggled: 0, Subsets: 2},
		{Canaries: 4, Toggled: 1, Subsets: 1}, {Set: -1, Canaries: 4, Toggled: 1, Subsets: 2},
	} {
		if _, err := job(t.TempDir(), &sum{}, canaries(4), Design{Interference: &f}).Run(t.Context()); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
	f := toggles(4, 2, 2)
	if _, err := f.Measure(make([][]float64, 5)); err == nil {
		t.Error("losses of too few trials: no error")
	}
	if slices.Contains(f.Watched(), 4) {
		t.Error("watches a canary that is not there")
	}
}
