package pe

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/audit/mechanism"
)

// Statistic is the log-likelihood ratio of a release with the canary's part v
// against one without, for Gaussian releases (arXiv:2609.13499, section 2.1):
//
//	ℓ(Y) = aᵀ(Y - mean - v/2),  a = Cov⁻¹ v,  μ = √(vᵀ Cov⁻¹ v).
type Statistic struct {
	A      []float64 // [R]
	Mu     float64   // μ_eff
	Offset float64   // κ = aᵀmean + μ²/2, so that ℓ = aᵀY - κ
	Noise  float64   // standard deviation σC‖a‖ of aᵀ(noise)
	Rate   float64   // q
	Clip   float64   // C
	// Norm is ‖v‖/C: 1 if all that the canary adds is observed, and clipped.
	Norm float64
}

// NewStatistic makes the statistic for the canary's row v [R].
func NewStatistic(h mechanism.Histogram, m *Moments, v []float64) (*Statistic, error) {
	r := len(m.Mean)
	if len(v) != r {
		return nil, fmt.Errorf("pe: the canary adds to %d slots, %d are observed", len(v), r)
	}
	var factor mat.Cholesky
	if !factor.Factorize(m.Cov) {
		return nil, fmt.Errorf("pe: the covariance of the release is not positive definite")
	}
	a := mat.NewVecDense(r, nil)
	if err := factor.SolveVecTo(a, mat.NewVecDense(r, v)); err != nil {
		return nil, fmt.Errorf("pe: covariance of the release: %w", err)
	}
	s := &Statistic{A: a.RawVector().Data, Rate: h.Rate, Clip: h.Clip}
	var mean, square, norm float64
	for i, x := range s.A {
		mean += x * m.Mean[i]
		square += x * v[i]
		norm += v[i] * v[i]
	}
	s.Mu = math.Sqrt(math.Max(0, square))
	s.Offset = mean + square/2
	s.Noise = h.Noise * h.Clip * mat.Norm(a, 2)
	s.Norm = math.Sqrt(norm) / h.Clip
	if !(s.Noise > 0) || math.IsInf(s.Noise, 0) {
		return nil, fmt.Errorf("pe: the canary's votes miss all observed slots: there is nothing to detect")
	}
	// The canary, too, is clipped: with more than C the audit would be of another
	// mechanism than the one whose ε it is compared with.
	if !(s.Norm <= 1+clipSlack) {
		return nil, fmt.Errorf("pe: the canary adds a vector of norm %v, expected at most the clip %v", s.Norm*h.Clip, h.Clip)
	}
	return s, nil
}

// Of is ℓ of a release at the observed slots.
func (s *Statistic) Of(y []float64) float64 {
	l := -s.Offset
	for i, a := range s.A {
		l += a * y[i]
	}
	return l
}

// Channel is ℓ as a sum of independent parts, exactly, for these users:
//
//	ℓ = Σ_u b_u x_u + Noise z + Shift + J Step
//
// with b_u coins of probability Rate, z standard normal, and J whether the canary
// takes part.
type Channel struct {
	X     []float64 // x_u = aᵀc_u of the users where that is not 0
	Rate  float64
	Noise float64
	Shift float64
	Step  float64 // aᵀv
}

// Channel is the law of ℓ with the users of c around the canary, which adds v.
func (s *Statistic) Channel(c *Contributions, v []float64) (*Channel, error) {
	if len(v) != len(s.A) || len(c.Slots) != len(s.A) {
		return nil, fmt.Errorf("pe: users add to %d slots and the canary to %d, the statistic looks at %d", len(c.Slots), len(v), len(s.A))
	}
	if err := c.check(s.Clip); err != nil {
		return nil, err
	}
	ch := &Channel{Rate: s.Rate, Noise: s.Noise, Shift: -s.Offset}
	for u := range c.Users() {
		x := 0.0
		for i, w := range c.Of(u) {
			x += s.A[i] * w
		}
		if x != 0 {
			ch.X = append(ch.X, x)
		}
	}
	for i, a := range s.A {
		ch.Step += a * v[i]
	}
	return ch, nil
}

// Mixture is the log-likelihood ratio when it is unknown whether the canary took
// part in this release: ln((1-q) + q e^ℓ). It grows with ℓ, so that in one release
// it decides nothing else; over several they are added.
func Mixture(q, l float64) float64 {
	if q == 1 {
		return l
	}
	if l > 0 {
		return l + math.Log(q+(1-q)*math.Exp(-l))
	}
	return math.Log1p(q * math.Expm1(l))
}
