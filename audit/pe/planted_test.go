package pe

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/mechanism"
)

// Faults that audits have had, each of which a check of this package sees. Two more
// are elsewhere: TestThresholdOnTestUsers, and TestDoubleCounted for a canary that
// is also among the users.

// crowd is an audit whose background is about as wide as its noise: many users, all
// their votes where the canary's are.
func crowd(t *testing.T) (mechanism.Histogram, *Contributions, []float64) {
	t.Helper()
	h := mechanism.Histogram{Slots: 8, K: 1, Cap: 64, Clip: .1, Noise: 1, Rate: .1}
	r := rand.New(rand.NewPCG(30, 3))
	c := &Contributions{Slots: []int32{0, 1, 2, 3}}
	for range 100 {
		for range 4 {
			c.Row = append(c.Row, .05*r.Float64())
		}
	}
	return h, c, []float64{.05, .05, .05, .05}
}

// TestPlantedNoise: releases whose noise has the standard deviation σ, and not σC, or a
// tenth more, are not those of the exact law; nor are releases of exactly qN users. At
// two thresholds counts are more than 5 standard deviations off, where those of
// right releases are not.
func TestPlantedNoise(t *testing.T) {
	h, c, v := crowd(t)
	set := settingOf(t, h, c, v)
	s, l := set.s, set.l
	const n = 200_000
	r := rand.New(rand.NewPCG(31, 3))
	off := func(noise float64, fixed bool) (worst float64) {
		y := make([]float64, len(v))
		taus := []float64{l.mean - 2*l.sd, l.mean + 2*l.sd}
		above := make([]int, len(taus))
		for range n {
			clear(y)
			order := []int(nil)
			if fixed {
				order = r.Perm(c.Users())[:int(h.Rate*float64(c.Users()))]
			} else {
				for u := range c.Users() {
					if r.Float64() < h.Rate {
						order = append(order, u)
					}
				}
			}
			for _, u := range order {
				for i, w := range c.Of(u) {
					y[i] += w
				}
			}
			for i := range y {
				y[i] += noise * r.NormFloat64()
			}
			x := s.Of(y)
			for i, tau := range taus {
				if x >= tau {
					above[i]++
				}
			}
		}
		for i, tau := range taus {
			p, _ := l.Rates(tau)
			worst = math.Max(worst, math.Abs(float64(above[i])-n*p)/math.Sqrt(n*p*(1-p)))
		}
		return worst
	}
	if d := off(h.Noise*h.Clip, false); !(d <= 5) {
		t.Errorf("right releases are %.1f standard deviations off", d)
	}
	for what, d := range map[string]float64{
		"noise σ": off(h.Noise, false), "noise 1.1 σC": off(1.1*h.Noise*h.Clip, false), "qN users, always": off(h.Noise*h.Clip, true),
	} {
		if !(d > 5) {
			t.Errorf("%s: %.1f standard deviations off, not seen", what, d)
		}
	}
}

// TestPlantedClip: votes that are not clipped, or clipped one slot at a time, are
// refused by whoever meets them: moments, statistic, channel.
func TestPlantedClip(t *testing.T) {
	h, c, v := crowd(t)
	m, err := NewMoments(h, c, 1000)
	if err != nil {
		t.Fatal(err)
	}
	each := []float64{h.Clip, h.Clip, h.Clip, h.Clip}
	if _, err := NewStatistic(h, m, each); err == nil || !strings.Contains(err.Error(), "norm 0.2, expected at most the clip 0.1") {
		t.Errorf("a canary clipped slot by slot: %v", err)
	}
	s, err := NewStatistic(h, m, v)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Digest()
	copy(c.Of(7), each)
	if c.Digest() == before {
		t.Error("other rows, the same digest")
	}
	if _, err := NewMoments(h, c, 1000); err == nil || !strings.Contains(err.Error(), "user 7") {
		t.Errorf("moments: %v", err)
	}
	if _, err := s.Channel(c, v); err == nil || !strings.Contains(err.Error(), "user 7") {
		t.Errorf("channel: %v", err)
	}
	c.Row = c.Row[:9]
	if _, err := s.Channel(c, v); err == nil || !strings.Contains(err.Error(), "9 numbers") {
		t.Errorf("rows that are cut off: %v", err)
	}
	if _, err := s.Channel(&Contributions{}, v); err == nil {
		t.Error("no rows: no error")
	}
}

// TestPlantedDouble: a canary whose part is added twice shows more than the
// mechanism has, with a bound that is wrong with probability .01.
func TestPlantedDouble(t *testing.T) {
	remove, add, err := accounting.SingleRelease(accounting.PoissonSampledGaussian{SampleRate: .1, NoiseMultiplier: 1}, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	p := published
	p.Trials = 8 * Block
	l, err := NewLaw(perfect(.1, 1))
	if err != nil {
		t.Fatal(err)
	}
	tau, _, err := p.Threshold(l, ForEach, 0)
	if err != nil {
		t.Fatal(err)
	}
	bound := func(c *Channel) float64 {
		counts, _, err := NewSampler(c).Simulate(t.Context(), 2, nil, p.Trials, [][]float64{{tau}}, Run{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.claim(ForEach, 0).lower(counts[0])
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	twice := perfect(.1, 1)
	twice.Step *= 2
	right, wrong, eps := bound(perfect(.1, 1)), bound(twice), math.Max(remove, add)
	if !(right > .5 && right < eps && wrong > eps) {
		t.Errorf("ε is %v; bounds %v, and %v of a canary that is added twice", eps, right, wrong)
	}
}
