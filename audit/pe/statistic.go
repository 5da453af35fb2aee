package pe

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/audit/mechanism"
)

// Moments are mean and covariance of a release at the observed slots, without
// the canary (arXiv:2609.13499, appendix E): with c_u what user u adds if it takes
// part, by an independent coin of probability q,
//
//	mean = q Σ_u c_u,  Cov = q (1-q) Σ_u c_u c_uᵀ + (σC)² I.
type Moments struct {
	Mean []float64     // [R]
	Cov  *mat.SymDense // [R, R]
}

// NewMoments are the moments of users eligible users, estimated from those of c:
// both sums are scaled by users/c.Users().
func NewMoments(h mechanism.Histogram, c *Contributions, users int) (*Moments, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	n, r := c.Users(), len(c.Slots)
	if n == 0 || users < 1 {
		return nil, fmt.Errorf("pe: moments of %d users from %d", users, n)
	}
	scale := float64(users) / float64(n)
	m := &Moments{make([]float64, r), mat.NewSymDense(r, nil)}
	for u := range n {
		row := c.Of(u)
		m.Cov.SymRankOne(m.Cov, scale*h.Rate*(1-h.Rate), mat.NewVecDense(r, row))
		for i, v := range row {
			m.Mean[i] += scale * h.Rate * v
		}
	}
	noise := h.Noise * h.Clip
	for i := range r {
		m.Cov.SetSym(i, i, m.Cov.At(i, i)+noise*noise)
	}
	return m, nil
}

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
	s := &Statistic{A: a.RawVector().Data, Rate: h.Rate}
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
func (s *Statistic) Channel(c *Contributions, v []float64) *Channel {
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
	return ch
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
