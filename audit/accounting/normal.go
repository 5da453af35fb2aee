package accounting

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// upperTail is P[N(0,1) > x], to full relative precision.
func upperTail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// upperQuantile is the x with upperTail(x) = p.
func upperQuantile(p float64) float64 { return -mathext.NormalQuantile(p) }

// logUpperTail is ln P[N(0,1) > x], also where the probability underflows: the
// first terms of the asymptotic series, Abramowitz & Stegun 7.1.23.
func logUpperTail(x float64) float64 {
	if x < 30 {
		return math.Log(upperTail(x))
	}
	y := 1 / (x * x)
	return -x*x/2 - math.Log(x*math.Sqrt(2*math.Pi)) + math.Log1p(-y*(1-3*y*(1-5*y)))
}

// logAdd is ln(e^a + e^b).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
