package ibis

import (
	"math"
	"slices"
)

// byHand is a refinement of an MLP with one hidden layer, written out in loops
// by the formulas of the forward R-operator, without clipping of gradients or
// augmentation. It shares nothing with the code under test but which examples a
// step sees.
type byHand struct {
	in, hidden, out int
	star, theta, v  []float64 // W1 [in, hidden], b1, W2 [hidden, out], b2
	rest, canaries  *numbers
	cfg             Refinement
	sum             []float64 // Σ_C ∇θ ℓ, of the last outer step
	points          []TracePoint
}

// layer is parameters by name.
type layer struct{ w1, b1, w2, b2 []float64 }

func (h *byHand) of(flat []float64) layer {
	a, b := h.in*h.hidden, h.hidden*h.out
	return layer{flat[:a], flat[a : a+h.hidden], flat[a+h.hidden : a+h.hidden+b], flat[a+h.hidden+b:]}
}

// one adds example (x, y)'s gradient to grad and H v to hv, and returns its loss,
// the gradient by x, and the derivative of that along v. phi is the hidden layer.
func (h *byHand) one(theta, v, x []float64, y int, grad, hv []float64) (loss float64, dx, mixed, phi []float64) {
	p, q := h.of(theta), h.of(v)
	a, ra := make([]float64, h.hidden), make([]float64, h.hidden)
	for j := range a {
		a[j], ra[j] = p.b1[j], q.b1[j]
		for i := range x {
			a[j] += x[i] * p.w1[i*h.hidden+j]
			ra[j] += x[i] * q.w1[i*h.hidden+j]
		}
		if a[j] <= 0 {
			a[j], ra[j] = 0, 0
		}
	}
	z, rz := make([]float64, h.out), make([]float64, h.out)
	total := 0.0
	for k := range z {
		z[k], rz[k] = p.b2[k], q.b2[k]
		for j := range a {
			z[k] += a[j] * p.w2[j*h.out+k]
			rz[k] += ra[j]*p.w2[j*h.out+k] + a[j]*q.w2[j*h.out+k]
		}
		total += math.Exp(z[k])
	}
	loss = math.Log(total) - z[y]
	d, rd := make([]float64, h.out), make([]float64, h.out)
	along := 0.0
	for k := range z {
		d[k] = math.Exp(z[k]) / total
		along += d[k] * rz[k]
	}
	for k := range z {
		rd[k] = d[k] * (rz[k] - along)
	}
	d[y]--
	g, hg := h.of(grad), h.of(hv)
	d1, rd1 := make([]float64, h.hidden), make([]float64, h.hidden)
	for k := range d {
		g.b2[k] += d[k]
		hg.b2[k] += rd[k]
		for j := range a {
			g.w2[j*h.out+k] += a[j] * d[k]
			hg.w2[j*h.out+k] += ra[j]*d[k] + a[j]*rd[k]
			if a[j] > 0 {
				d1[j] += p.w2[j*h.out+k] * d[k]
				rd1[j] += p.w2[j*h.out+k]*rd[k] + q.w2[j*h.out+k]*d[k]
			}
		}
	}
	dx, mixed = make([]float64, h.in), make([]float64, h.in)
	for j := range d1 {
		g.b1[j] += d1[j]
		hg.b1[j] += rd1[j]
		for i := range x {
			g.w1[i*h.hidden+j] += x[i] * d1[j]
			hg.w1[i*h.hidden+j] += x[i] * rd1[j]
			dx[i] += p.w1[i*h.hidden+j] * d1[j]
			mixed[i] += p.w1[i*h.hidden+j]*rd1[j] + q.w1[i*h.hidden+j]*d1[j]
		}
	}
	return loss, dx, mixed, a
}

// regulariserAt is R, and its gradient by the pixels of canary i, from the
// cosines.
func (h *byHand) regulariserAt(phis [][]float64) (r float64, dphi [][]float64) {
	norm := func(a []float64) float64 {
		s := 0.0
		for _, x := range a {
			s += x * x
		}
		return math.Sqrt(s)
	}
	for i, a := range phis {
		d := make([]float64, len(a))
		for j, b := range phis {
			if i == j {
				continue
			}
			cos := 0.0
			for k := range a {
				cos += a[k] * b[k]
			}
			cos /= norm(a) * norm(b)
			r += h.cfg.Lambda * cos * cos
			for k := range a { // both orders of the pair
				d[k] += 4 * h.cfg.Lambda * cos * (b[k]/norm(b) - cos*a[k]/norm(a)) / norm(a)
			}
		}
		dphi = append(dphi, d)
	}
	return r, dphi
}

// step is one step on a batch of rows of D and of C.
func (h *byHand) step(t int, rest, canaries []int) {
	n, m := float64(h.rest.Len()+h.canaries.Len()), h.canaries.Len()
	zeros := make([]float64, len(h.theta))
	gx := make([]float64, len(h.canaries.x))
	outer := t%h.cfg.Every == 0
	if outer {
		h.sum = slices.Clone(zeros)
		var phis [][]float64
		point := TracePoint{Step: t}
		for i := range m {
			x, y := h.canaries.x[i*h.in:(i+1)*h.in], h.canaries.y[i]
			loss, dx, mixed, _ := h.one(h.theta, h.v, x, y, h.sum, slices.Clone(zeros))
			lossStar, dxStar, _, phi := h.one(h.star, zeros, x, y, slices.Clone(zeros), slices.Clone(zeros))
			phis = append(phis, slices.Clone(phi))
			for k := range x {
				gx[i*h.in+k] = dx[k] - dxStar[k] - mixed[k]/n
			}
			point.Loss += loss / float64(m)
			point.LossStar += lossStar / float64(m)
		}
		r, dphi := h.regulariserAt(phis)
		w1 := h.of(h.star).w1
		for i, d := range dphi {
			for j, dj := range d {
				if phis[i][j] > 0 {
					for k := range h.in {
						gx[i*h.in+k] += w1[k*h.hidden+j] * dj
					}
				}
			}
		}
		point.R, point.V, point.GX = r, norm2(h.v), norm2(gx)
		h.points = append(h.points, point)
	}
	grad, hv := slices.Clone(zeros), slices.Clone(zeros)
	for _, i := range rest {
		h.one(h.theta, h.v, h.rest.x[i*h.in:(i+1)*h.in], h.rest.y[i], grad, hv)
	}
	for _, i := range canaries {
		h.one(h.theta, h.v, h.canaries.x[i*h.in:(i+1)*h.in], h.canaries.y[i], grad, hv)
	}
	b := float64(len(rest) + len(canaries))
	for i := range h.theta {
		h.v[i] -= h.cfg.Eta * (hv[i]/b - h.sum[i])
		h.theta[i] -= h.cfg.Eta * grad[i] / b
	}
	for i := range gx {
		if outer {
			h.canaries.x[i] -= h.cfg.Rho * gx[i]
			if h.cfg.ClipPixels {
				h.canaries.x[i] = min(max(h.canaries.x[i], 0), 1)
			}
		}
	}
}

func norm2(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s)
}
