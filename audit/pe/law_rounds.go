package pe

import (
	"fmt"
	"math"
	"sort"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// RoundsLaw is the exact law of the statistic of several releases,
//
//	Λ_t = Σ_{s<=t} ln((1-q) + q e^ℓ_s),
//
// the log-likelihood ratio of all of them where it is unknown which ones the canary
// takes part in (arXiv:2609.13499, section 2.1): it draws a coin for each.
//
// A term is at least ln(1-q). It is rounded down to ln(1-q) + whole steps, with
// probabilities from the law of ℓ_s, and the whole steps are summed by Fourier
// transforms. So Λ_t is no less than the rounded sum, and above it by less than t
// steps: a tail of the rounded sum, and the one t steps further, enclose the exact
// one.
type RoundsLaw struct {
	releases int
	step     float64
	base     float64   // where the rounded sum is 0 steps
	without  []float64 // P(rounded sum >= i steps), without the canary
	with     []float64 // and with it, which takes part by its coins
	Error    float64   // of these, absolute: of the terms' laws, of rounding, of what lies beyond the window
}

// roundsPoints is the length of the transform: with it bounds of ε after six
// releases are about .002 apart.
const roundsPoints = 1 << 18

// NewRoundsLaw computes the laws of Λ_1, …, Λ_T for T releases.
func NewRoundsLaw(channels []*Channel) ([]*RoundsLaw, error) {
	if len(channels) == 0 {
		return nil, fmt.Errorf("pe: the law of no releases")
	}
	var terms []mixtureTerm
	for t, c := range channels {
		l, err := NewLaw(c)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", t+1, err)
		}
		terms = append(terms, newMixtureTerm(l))
	}
	end, beyond := window(terms)
	step := end / float64(roundsPoints-2-len(terms)) // rounding up needs a few more
	without, with := make([][]float64, len(terms)), make([][]float64, len(terms))
	for t, m := range terms {
		without[t], with[t] = m.masses(step)
	}
	sum0, sum1, rounding, err := accounting.PairSums(without, with, roundsPoints)
	if err != nil {
		return nil, err
	}
	var laws []*RoundsLaw
	base, wrong := 0.0, 0.0
	for t, m := range terms {
		base += m.base
		wrong += m.law.Error + 1e-18 // and what is beyond the range of ℓ
		laws = append(laws, &RoundsLaw{releases: t + 1, step: step, base: base,
			without: upperTails(sum0[t]), with: upperTails(sum1[t]), Error: wrong + rounding + beyond})
	}
	return laws, nil
}

// upperTails sums from the end, and keeps probabilities between 0 and 1.
func upperTails(p []float64) []float64 {
	sum := 0.0
	for i := len(p) - 1; i >= 0; i-- {
		sum += p[i]
		p[i] = math.Min(1, math.Max(0, sum))
	}
	return p
}

// mixtureTerm is ln((1-q) + q e^ℓ) of one release, as base and something >= 0.
type mixtureTerm struct {
	law   *Law
	base  float64 // ln(1-q), or where ℓ begins if everybody takes part
	reach float64 // of what there is above base
}

func newMixtureTerm(l *Law) mixtureTerm {
	low, high := l.Range()
	m := mixtureTerm{law: l, base: low}
	if q := l.ch.Rate; q < 1 {
		m.base = math.Log1p(-q)
	}
	m.reach = Mixture(l.ch.Rate, high) - m.base
	return m
}

// rates of the term being at least base + z, z >= 0. With q < 1 that is
//
//	ℓ >= ln((1-q)/q) + ln(e^z - 1).
func (m mixtureTerm) rates(z float64) (without, with float64) {
	q := m.law.ch.Rate
	switch {
	case z == 0:
		return 1, 1
	case q == 1:
		return m.law.Rates(m.base + z)
	case z < 1:
		return m.law.Rates(math.Log((1-q)/q) + math.Log(math.Expm1(z)))
	}
	return m.law.Rates(math.Log((1-q)/q) + z + math.Log1p(-math.Exp(-z)))
}

// masses are the probabilities of base + [i, i+1) steps.
func (m mixtureTerm) masses(step float64) (without, with []float64) {
	n := min(int(math.Ceil(m.reach/step))+1, roundsPoints)
	without, with = make([]float64, n), make([]float64, n)
	const chunk = 1 << 12
	_ = parallel((n+chunk-1)/chunk, func(c int) error {
		for i := c * chunk; i < min(n, (c+1)*chunk); i++ {
			without[i], with[i] = m.rates(float64(i) * step)
		}
		return nil
	})
	for _, p := range [][]float64{without, with} {
		// Tails of a law do not grow; what is within its error of them may.
		for i := 1; i < n; i++ {
			p[i] = math.Min(p[i], p[i-1])
		}
		for i := range n - 1 {
			p[i] -= p[i+1]
		}
	}
	return without, with
}

// window is an end that no Λ_t - base exceeds but with a probability of beyond, in
// either world, by Chernoff's bound on terms that are rounded up to 1000 values.
func window(terms []mixtureTerm) (end, beyond float64) {
	const tail, cells = 1e-16, 1000
	all := 0.0
	type rounded struct{ value, without, with []float64 }
	var laws []rounded
	for _, m := range terms {
		all += m.reach
		var r rounded
		last0, last1 := 1.0, 1.0
		for i := range cells {
			z := m.reach * float64(i+1) / cells
			p0, p1 := m.rates(z)
			if i == cells-1 {
				p0, p1 = 0, 0
			}
			r.value = append(r.value, z)
			r.without, r.with = append(r.without, math.Max(0, last0-p0)), append(r.with, math.Max(0, last1-p1))
			last0, last1 = p0, p1
		}
		laws = append(laws, r)
	}
	end = all
	for lambda := .25; lambda < 1000; lambda *= 1.5 {
		least := 0.0 // the end by this λ
		moment := [2]float64{}
		for _, r := range laws {
			for w, p := range [2][]float64{r.without, r.with} {
				moment[w] += logMoment(r.value, p, lambda)
			}
		}
		for _, m := range moment {
			least = math.Max(least, (m-math.Log(tail))/lambda)
		}
		if least < end {
			end, beyond = least, tail
		}
	}
	return end, beyond
}

// logMoment is ln Σ p e^(λ value), the largest term apart so that none overflows.
func logMoment(value, p []float64, lambda float64) float64 {
	top := math.Inf(-1)
	for i, z := range value {
		if p[i] > 0 {
			top = math.Max(top, lambda*z+math.Log(p[i]))
		}
	}
	sum := 0.0
	for i, z := range value {
		if p[i] > 0 {
			sum += p[i] * math.Exp(lambda*z-top)
		}
	}
	return top + math.Log(sum)
}

// at is the tail of the rounded sum from i steps on.
func (l *RoundsLaw) at(i int) (without, with float64) {
	switch {
	case i <= 0:
		return 1, 1
	case i >= len(l.without):
		return 0, 0
	}
	return l.without[i], l.with[i]
}

// Rates implements Tails: the fractions that were rounded down are taken to be half
// a step each, and tails to be straight between steps.
func (l *RoundsLaw) Rates(tau float64) (fpr, tpr float64) {
	x := (tau-l.base)/l.step - float64(l.releases)/2 + .5
	if !(math.Abs(x) < roundsPoints) {
		x = math.Copysign(roundsPoints, x)
	}
	i := int(math.Floor(x))
	f := x - float64(i)
	a0, a1 := l.at(i)
	b0, b1 := l.at(i + 1)
	return (1-f)*a0 + f*b0, (1-f)*a1 + f*b1
}

// Bounds implements Tails.
func (l *RoundsLaw) Bounds(tau float64) (fpr, tpr accounting.Interval) {
	const tie = 1e-6 // steps, far more than τ is rounded by
	x := math.Max(-roundsPoints, math.Min(roundsPoints, (tau-l.base)/l.step))
	fpr.Estimate, tpr.Estimate = l.Rates(tau)
	fpr.Lower, tpr.Lower = l.at(int(math.Ceil(x + tie)))
	fpr.Upper, tpr.Upper = l.at(int(math.Floor(x-float64(l.releases)-tie)) + 1)
	for _, p := range []*accounting.Interval{&fpr, &tpr} {
		// Sums of tails round as often as they have terms.
		p.Lower = math.Max(0, p.Lower*(1-roundsPoints*0x1p-53)-l.Error)
		p.Upper = math.Min(1, p.Upper*(1+roundsPoints*0x1p-53)+l.Error)
		p.Estimate = math.Min(p.Upper, math.Max(p.Lower, p.Estimate))
	}
	return fpr, tpr
}

// Range implements Tails.
func (l *RoundsLaw) Range() (low, high float64) {
	const nothing = 1e-15
	first := sort.Search(len(l.without), func(i int) bool { return l.without[i] < 1-nothing })
	last := sort.Search(len(l.with), func(i int) bool { return l.with[i] < nothing && l.without[i] < nothing })
	return l.base + l.step*float64(first-1), l.base + l.step*float64(last+l.releases)
}
