package pe

import (
	"fmt"
	"math"
	"slices"

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
	if err := c.check(h.Clip); err != nil {
		return nil, err
	}
	n, r := c.Users(), len(c.Slots)
	if users < 1 {
		return nil, fmt.Errorf("pe: moments of %d users, expected 1 or more", users)
	}
	scale := float64(users) / float64(n)
	m := &Moments{make([]float64, r), mat.NewSymDense(r, nil)}
	for u := range n {
		row := c.Of(u)
		if !slices.ContainsFunc(row, func(v float64) bool { return v != 0 }) {
			continue // most users of a bank with probes
		}
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

// clipSlack is how much a norm may exceed the clip by rounding, relatively.
const clipSlack = 1e-9

// check refuses rows that the mechanism cannot have made.
func (c *Contributions) check(clip float64) error {
	if r := len(c.Slots); r == 0 || len(c.Row) == 0 || len(c.Row)%r != 0 {
		return fmt.Errorf("pe: users' rows have %d numbers for %d observed slots, expected as many for each user, and a user", len(c.Row), r)
	}
	for u := range c.Users() {
		square := 0.0
		for _, v := range c.Of(u) {
			square += v * v
		}
		if norm := math.Sqrt(square); !(norm <= clip*(1+clipSlack)) {
			return fmt.Errorf("pe: user %d adds a vector of norm %v, expected at most the clip %v", u, norm, clip)
		}
	}
	return nil
}

// Gap is how far two estimates of the moments are apart.
type Gap struct {
	Cov  float64 `json:"covariance"` // Frobenius norm of the difference, relative
	Mean float64 `json:"mean"`       // shift of ℓ, in its standard deviations
}

// gap compares m with another estimate of the same.
func (m *Moments) gap(o *Moments, s *Statistic) Gap {
	var difference, size, shift, variance float64
	for i := range m.Mean {
		shift += s.A[i] * (o.Mean[i] - m.Mean[i])
		for j := range m.Mean {
			d := o.Cov.At(i, j) - m.Cov.At(i, j)
			difference += d * d
			size += m.Cov.At(i, j) * m.Cov.At(i, j)
			variance += s.A[i] * m.Cov.At(i, j) * s.A[j]
		}
	}
	return Gap{math.Sqrt(difference / size), shift / math.Sqrt(variance)}
}
