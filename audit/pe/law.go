package pe

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// Law is the exact law of a Channel without the canary's part, by inversion of
// its characteristic function
//
//	φ(t) = e^{i t Shift - (t Noise)²/2} Π_u (1 - q + q e^{i t x_u})
//
// (Gil-Pelaez 1951), with the sum at the odd multiples of half a step whose error
// Davies (1973) bounds:
//
//	P(ℓ > τ) = ½ + (1/π) Σ_j Im(e^{-itτ} φ(t)) / (j+½),  t = (j+½) step.
//
// Nothing is rounded to a grid. Error bounds what is left: the tails beyond half
// a period, which a Chernoff bound on a sum of bounded variables keeps below 1e-19,
// the terms left out, which the noise makes smaller than that, and the rounding of
// angles, products and sums in float64 (see rounding).
type Law struct {
	ch    *Channel
	mean  float64
	sd    float64
	width float64 // P(|ℓ - mean| > width) < 1e-19
	step  float64
	re    []float64 // of φ(t) e^{-it mean} / (j+½) / π
	im    []float64
	Error float64 // of all probabilities, absolute
}

// NewLaw computes the law. It takes a few milliseconds for 1000 users.
func NewLaw(c *Channel) (*Law, error) {
	if !(c.Noise > 0) || math.IsInf(c.Noise, 0) || !(c.Rate >= 0 && c.Rate <= 1) {
		return nil, fmt.Errorf("pe: a law with noise %v and rate %v", c.Noise, c.Rate)
	}
	q := c.Rate
	l := &Law{ch: c, mean: c.Shift}
	variance := c.Noise * c.Noise
	largest := 0.0
	for _, x := range c.X {
		l.mean += q * x
		variance += q * (1 - q) * x * x
		largest = math.Max(largest, math.Abs(x))
	}
	if math.IsNaN(variance) || math.IsInf(variance, 0) || math.IsNaN(l.mean) {
		return nil, fmt.Errorf("pe: users' parts are not finite numbers")
	}
	l.sd = math.Sqrt(variance)
	// P(|ℓ - mean| > w) <= 2 exp(-w²/2/(variance + largest w/3)) (Bernstein; the
	// noise satisfies it too). Half a period is 2w from any point within w.
	const least = 45.0 // e^-45 = 3e-20
	w := least*largest/3 + math.Sqrt(least*largest/3*(least*largest/3)+2*least*variance)
	l.width = w
	l.step = 2 * math.Pi / (2 * w)
	// φ is at most e^{-(t noise)²/2}: terms beyond e^-45 are left out.
	n := int(math.Ceil(math.Sqrt(2*least)/c.Noise/l.step)) + 1
	if n > 1<<22 {
		return nil, fmt.Errorf("pe: the users' parts are %.3g times the noise: their law would take %d terms", l.sd/c.Noise, n)
	}
	l.re, l.im = make([]float64, n), make([]float64, n)
	_ = parallel((n+255)/256, func(chunk int) error {
		for j := chunk * 256; j < min(n, (chunk+1)*256); j++ {
			l.re[j], l.im[j] = l.term(j)
		}
		return nil
	})
	l.Error = l.rounding() + 1e-18
	return l, nil
}

// rounding bounds the float64 errors of Above, to first order in u = 2^-53. Sine
// and cosine are taken to be right to 4u, and a complex product to 3u.
//
//   - Each factor of φ is at most 1 and off by u (2q|t x_u| + 10), of which the
//     first part is the angle's; with its product 3u more. The Gaussian factor G,
//     whose exponent is at most 45, is off by 250u G, the shift's angle by
//     3u t|Shift - mean|. So that term j is off by no more than
//     u G (13N + 260 + 5t Σ q|x_u|)/π/(j+½).
//   - In Above the angle (j+½)a, |a| <= π, is off by 3u π (j+½), and its sine and
//     cosine after 64 rotations by 510u more, for a term of at most G/π/(j+½).
//   - Sums of n terms round n times, and τ - Step, which the noise turns into a
//     probability, once.
func (l *Law) rounding() float64 {
	const u = 0x1p-53
	spread := 0.0
	for _, x := range l.ch.X {
		spread += l.ch.Rate * math.Abs(x)
	}
	total, terms := 0.0, 0.0
	for j := range l.re {
		half := float64(j) + .5
		t := half * l.step
		g := math.Exp(-t * t * l.ch.Noise * l.ch.Noise / 2)
		total += g * ((13*float64(len(l.ch.X))+770+5*t*spread)/math.Pi/half + 3)
		terms += math.Hypot(l.re[j], l.im[j])
	}
	total += float64(len(l.re)) * (1 + terms)
	total += 2 * (math.Abs(l.mean) + l.width + math.Abs(l.ch.Step)) / l.ch.Noise
	return u * total
}

// term is φ(t) e^{-it mean} / (j+½) / π at t = (j+½) step.
func (l *Law) term(j int) (re, im float64) {
	t := (float64(j) + .5) * l.step
	q := l.ch.Rate
	re, im = math.Exp(-t*t*l.ch.Noise*l.ch.Noise/2), 0
	angle := t * (l.ch.Shift - l.mean)
	s, c := math.Sincos(angle)
	re, im = re*c, re*s
	for _, x := range l.ch.X {
		s, c := math.Sincos(t * x)
		a, b := 1-q+q*c, q*s
		re, im = re*a-im*b, re*b+im*a
	}
	scale := 1 / (math.Pi * (float64(j) + .5))
	return re * scale, im * scale
}

// Above is P(ℓ > τ) without the canary's part, within Error.
func (l *Law) Above(tau float64) float64 {
	x := tau - l.mean
	// e^{-i(j+½)a}, a = step·x, by rotation, set right every 64 terms.
	a := l.step * x
	if math.Abs(a) > math.Pi { // further than half a period: nothing is there
		if x > 0 {
			return 0
		}
		return 1
	}
	sum := .5
	rs, rc := math.Sincos(-a)
	var s, c float64
	for j := range l.re {
		if j%64 == 0 {
			s, c = math.Sincos(-a * (float64(j) + .5))
		}
		sum += l.re[j]*s + l.im[j]*c
		s, c = s*rc+c*rs, c*rc-s*rs
	}
	return math.Min(1, math.Max(0, sum))
}

// Rates are the error-free rates of calling releases with ℓ >= τ members: FPR
// without the canary, and TPR where it takes part with probability q, as
//
//	TPR = (1-q) FPR + q P(ℓ + Step > τ).
func (l *Law) Rates(tau float64) (fpr, tpr float64) {
	fpr = l.Above(tau)
	q := l.ch.Rate
	return fpr, (1-q)*fpr + q*l.Above(tau-l.ch.Step)
}

// Bounds are Rates with the error on either side.
func (l *Law) Bounds(tau float64) (fpr, tpr accounting.Interval) {
	f, t := l.Rates(tau)
	return around(f, l.Error), around(t, l.Error)
}

func around(p, off float64) accounting.Interval {
	return accounting.Interval{Lower: math.Max(0, p-off), Estimate: p, Upper: math.Min(1, p+off)}
}

// Range is an interval of τ outside of which there is a probability of less than
// 1e-18 in either world.
func (l *Law) Range() (low, high float64) {
	return l.mean - l.width + math.Min(0, l.ch.Step), l.mean + l.width + math.Max(0, l.ch.Step)
}
