package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// beta is the beta law with parameters a, b > 0. It is written in the log odds
// t = ln(x/y), y = 1-x, where its density is the weight
//
//	w(t) = x^a y^b / B(a, b),  d ln w / dt = a - (a+b)x,
//
// and a point is passed as x and y, so that neither loses digits near 0.
type beta struct {
	a, b float64
	// scale is ln w where x = a/(a+b), the mode in t.
	scale float64
}

func newBeta(a, b float64) beta {
	return beta{a, b, (math.Log(a)+math.Log(b/(a+b))-math.Log(2*math.Pi))/2 + stirling(a+b) - stirling(a) - stirling(b)}
}

// regIncBeta is the regularised incomplete beta function I_x(a, b), the share
// of the beta law below x, for a, b > 0; NaN if an argument is NaN.
func regIncBeta(a, b, x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	}
	return newBeta(a, b).below(x, 1-x)
}

// below is the share of the law below x = 1-y.
func (l beta) below(x, y float64) float64 {
	slope := l.slope(x, y)
	weight := math.Exp(l.logWeight(x, y, slope))
	if slope >= 0 {
		return weight * l.ratio(x, y, slope)
	}
	return 1 - weight*beta{a: l.b, b: l.a}.ratio(y, x, -slope)
}

// slope is a - (a+b)x, the distance from the mode, rounded once: of two large
// numbers it is the small difference that every tail depends on.
func (l beta) slope(x, y float64) float64 {
	if x <= y {
		return minusProduct(l.a, l.a+l.b, x)
	}
	return -minusProduct(l.b, l.a+l.b, y)
}

// minusProduct is c - m·p as if the product were exact.
func minusProduct(c, m, p float64) float64 {
	high := m * p
	return (c - high) - math.FMA(m, p, -high)
}

// logWeight is ln w, in the saddle-point form of Loader, "Fast and accurate
// computation of binomial probabilities" (2000): the value at the mode less two
// deviances. No term is larger than the result.
func (l beta) logWeight(x, y, slope float64) float64 {
	n := l.a + l.b
	return l.scale - deviance(l.a, n*x, slope) - deviance(l.b, n*y, -slope)
}

// deviance is c ln(c/m) + m - c >= 0 for m > 0 and c = m+d, without
// cancellation where d is small beside m.
func deviance(c, m, d float64) float64 {
	u := d / m
	if math.Abs(u) > .4 {
		return c*math.Log(c/m) - d
	}
	// With s = u/(2+u), ln(c/m) = 2 artanh s = 2(s + s³/3 + s⁵/5 + …).
	s := u / (2 + u)
	s2 := s * s
	sum := 0.0
	for k := 2*seriesLength(s2) + 1; k >= 3; k -= 2 {
		sum = sum*s2 + 1/float64(k)
	}
	return 2 * m / (1 - s) * s2 * (1 + (1+s)*s*sum)
}

// seriesLength is how many terms of the series of artanh s leave a remainder
// below 2⁻⁵³, for s² = s2 <= 1/16.
func seriesLength(s2 float64) int {
	switch {
	case s2 < 1e-8:
		return 2
	case s2 < 1e-4:
		return 4
	}
	return 13
}

// stirling is ln Γ(x) - ln(√(2π/x) (x/e)^x), the error of Stirling's formula
// (Abramowitz & Stegun 6.1.40 or, where that is not exact, the definition).
func stirling(x float64) float64 {
	if x < 16 {
		lg, _ := math.Lgamma(x)
		return lg - (x-.5)*math.Log(x) + x - math.Log(2*math.Pi)/2
	}
	y := 1 / (x * x)
	return (1./12 - y*(1./360-y*(1./1260-y*(1./1680-y*(1./1188-y*691./360360))))) / x
}

// ratio is I_x(a, b) / w for slope >= 0: the continued fraction of DiDonato and
// Morris, "Significant digit computation of the incomplete beta function
// ratios", ACM TOMS 18 (1992). For integer b it ends; up to the b-th all
// terms are positive. It takes some √(a+b) steps at the mode and fewer below.
func (l beta) ratio(x, y, slope float64) float64 {
	const maxSteps = 1 << 22 // enough at the mode for a+b = 1e13
	a, b := l.a, l.b
	// Convergents p/q by the forward recurrence, scaled so that q stays 1.
	p0, q0 := 0.0, 1.0
	q1 := a / (a + 1) * (slope + 1)
	p1 := 1 / q1
	q0 /= q1
	for i := 1.0; i < maxSteps; i++ {
		s := a + 2*i
		w := i * (b - i) * x / (s - 1)
		alpha := w * x * (a + i - 1) * (a + b + i - 1) / (s - 1)
		gamma := i + w + (a+i)/(s+1)*(slope+1+i*(1+y))
		p, q := gamma*p1+alpha*p0, gamma+alpha*q0
		scale := 1 / q
		p0, q0, p = p1*scale, scale, p*scale
		if !(math.Abs(p-p1) > 0x1p-53*math.Abs(p)) {
			return p
		}
		p1 = p
	}
	return p1
}

// quantile is the x with share alpha of the law below it, and y = 1-x, both to
// full relative precision; 0 < alpha < 1. Halley's method on the logarithm of
// the share, as a function of the log odds, where all derivatives come free.
func (l beta) quantile(alpha float64) (x, y float64) {
	const maxSteps = 200 // bisection alone takes fewer
	logAlpha := math.Log(alpha)
	low, high := -750.0, 750.0 // e^±750 leaves the range of float64
	t := l.start(alpha)
	for range maxSteps {
		x, y = 1/(1+math.Exp(-t)), 1/(1+math.Exp(t))
		slope := l.slope(x, y)
		logW := l.logWeight(x, y, slope)
		var excess, rate float64 // ln share - ln alpha, and its derivative
		if slope >= 0 {
			r := l.ratio(x, y, slope)
			excess, rate = logW+math.Log(r)-logAlpha, 1/r
		} else {
			w := math.Exp(logW)
			share := 1 - w*beta{a: l.b, b: l.a}.ratio(y, x, -slope)
			excess, rate = math.Log(share)-logAlpha, w/share
		}
		if excess > 0 {
			high = t
		} else {
			low = t
		}
		// The second derivative is rate·(slope - rate).
		step := -excess / (rate - excess*(slope-rate)/2)
		next := t + step
		// An error e in the logarithm of the share becomes one of the order e³.
		if math.Abs(step)*rate < 1e-5 {
			t = next
			break
		}
		if !(next > low && next < high) { // also where step is NaN
			next = low + (high-low)/2
			if next == low || next == high {
				break
			}
		}
		t = next
	}
	return 1 / (1 + math.Exp(-t)), 1 / (1 + math.Exp(t))
}

// start is a first guess of the quantile's log odds: Abramowitz & Stegun
// 26.5.22, for a, b > 1/2.
func (l beta) start(alpha float64) float64 {
	z := -mathext.NormalQuantile(alpha)
	u, v := 1/(2*l.a-1), 1/(2*l.b-1)
	h := 2 / (u + v)
	c := (z*z - 3) / 6
	w := z*math.Sqrt(h+c)/h - (v-u)*(c+5./6-2/(3*h))
	if t := math.Log(l.a/l.b) - 2*w; math.Abs(t) < 700 {
		return t
	}
	return math.Log(l.a / l.b) // where the formula does not apply
}
