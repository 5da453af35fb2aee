package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// All tolerances of the suite. u is the unit roundoff of the device: 2⁻²⁴ for
// float32, so that one rounding of x changes it by at most u|x|. The reference
// computes in float64 on the same, rounded inputs; its own error is neglected
// for float32 devices and within the same bounds for float64 ones.

// sumTol bounds the error of a sum of n terms whose absolute values add up to
// abs, in any order. Each of about n additions and n products errs by at most
// u times a partial sum, so by at most u·abs; taken as independent with mean 0
// and variance (u·abs)²/3, 2n of them have a standard deviation of
// sqrt(2n/3) u·abs. 8 sqrt(n) is ten of those.
func sumTol(u float64, n int, abs float64) float64 {
	return 8 * math.Sqrt(float64(n)) * u * abs
}

// roundTol bounds k roundings of intermediate results no larger than abs, to
// first order; the last term is one rounding among subnormal float32.
func roundTol(u float64, k int, abs float64) float64 {
	return float64(k)*u*abs + 0x1p-149
}

// What a device's own exp, log, sine and cosine must reach, in units of u. An
// ulp is up to 2u. The polynomials measured in the prototypes err by 1.5 u for
// exp and 1.4 u for log (relative) and 1.4 u for sine and cosine (absolute); 4
// is a bound that also a library's function of 2 ulp meets.
const (
	expTol    = 4 // relative
	logTol    = 4 // relative
	sincosTol = 4 // absolute
)

// tanhTol is relative. As (1-e)/(1+e) with e = exp(-2|x|), tanh moves by
// 2e/(1-e²) of the relative error of e: by less than its 4 u for |x| > 0.45
// (e < 0.41). The operations around it add 3 u. Nearer to 0 a device needs a
// polynomial, which a few roundings suffice for.
const tanhTol = expTol + 3

// smallest is where float32 exp may have become 0: results below the smallest
// normal number may be flushed.
const smallest = 0x1p-125

// softmaxTol bounds, for each c, the relative error of exp(z[c]-m)/Σ exp(z-m).
// The difference z[c]-m is off by u|z[c]-m|, which is the relative error it
// causes in exp(z[c]-m); exp itself adds expTol. The sum has the p-weighted mean
// of these and n additions; the quotient one rounding.
func softmaxTol(u float64, z, p []float64) func(c int) float64 {
	m := largest(z)
	sum := expSumTol(u, z, p)
	return func(c int) float64 {
		return u*(math.Abs(z[c]-m)+expTol+2) + sum
	}
}

// expSumTol bounds the relative error of Σ exp(z-m).
func expSumTol(u float64, z, p []float64) float64 {
	m := largest(z)
	mean := 0.0
	for c := range z {
		if p[c] > 0 {
			mean += p[c] * math.Abs(z[c]-m)
		}
	}
	return u*(mean+expTol) + sumTol(u, len(z), 1)
}

// crossEntropyTol: log(sum) moves by the relative error of the sum, and errs by
// logTol; then come two additions of log(sum), m and z[y] in either order.
func crossEntropyTol(u float64, z, p []float64, y int) float64 {
	m := largest(z)
	logSum := -math.Log(p[argmax(z)])
	return expSumTol(u, z, p) + u*logTol*math.Abs(logSum) +
		2*u*(math.Abs(logSum)+math.Abs(m)+math.Abs(z[y]))
}

// loss64Tol is relative. The device works in double precision (unit v = 2⁻⁵³)
// whatever its elements are. u = m + log Σ exp(d-m), d = z[c]-z[y]: each d-m errs by
// 2v(|d|+|m|), exp and log by an ulp (2v), the sum as sumTol, the addition by
// v|u|. As d loss/du ≤ loss for the form exp(u), and less for the other, this is
// also the relative error of the loss, up to the last two operations.
func loss64Tol(z []float64, y int) float64 {
	const v = 0x1p-53
	spread := 0.0
	for _, x := range z {
		spread = max(spread, math.Abs(x-z[y]))
	}
	return v*(8*spread+8) + sumTol(v, len(z), 1) + 4*v
}

// normalTol bounds the error of z = sqrt(L) cos(2πv), L = -2 ln u. Rounding u
// is allowed where it moves L by no more than 3 roundings of L, as it does
// below ⅔; nearer to 1, where float32 has no room for the half in ⌊u0/2⁸⌋+½, the
// device must compute 1-u. The root halves the relative error of L; then come
// the angle, the root's own rounding and the product's.
func normalTol(unit, u float64) float64 {
	radius := math.Sqrt(-2 * math.Log(u))
	return unit * radius * ((logTol+3)/2.0 + sincosTol + 2)
}

func largest(z []float64) float64 { return z[argmax(z)] }

func argmax(z []float64) int {
	best := 0
	for c := range z {
		if z[c] > z[best] {
			best = c
		}
	}
	return best
}

// geluTol is in units of u|x|. With z = |x|/√2, rounding z and z² moves erfc(z) by
// 3u z·2/√π exp(-z²) ≤ 1.5 u, the exponent of a device's exp, off by a few u where
// erfc ≤ 0.16, and exp itself by less than 1 u; a polynomial near 0 by 2 u; half of
// that enters, and the last three operations round once each.
const geluTol = 6

// layerNormTol bounds the error for each c. Deviations h-m err by δ: the sum x+y, the
// mean and the difference. The variance errs by 2δ E|h-m| + δ² and by its own sum,
// which enters the result as half of its relative error; rounding the quotient by
// n, the root, its inverse and three products adds 7 u.
func layerNormTol(u float64, x, y, gain, shift []float64, stabilizer float64) func(c int) float64 {
	n := float64(len(x))
	h := append([]float64(nil), x...)
	most, abs, mean := 0.0, 0.0, 0.0
	for c := range h {
		size := math.Abs(h[c])
		if y != nil {
			size += math.Abs(y[c])
			h[c] += y[c]
		}
		most = max(most, size)
		abs += size
		mean += h[c] / n
	}
	variance, deviation, far := 0.0, 0.0, 0.0
	for _, v := range h {
		variance += (v - mean) * (v - mean) / n
		deviation += math.Abs(v-mean) / n
		far = max(far, math.Abs(v-mean))
	}
	delta := u*most + sumTol(u, len(x), abs)/n + u*math.Abs(mean) + u*far
	moved := 2*delta*deviation + delta*delta + sumTol(u, len(x), variance)
	relative := moved/(2*(variance+stabilizer)) + 7*u
	if variance == 0 { // the deviations may be nothing but their errors
		relative = 7 * u
	}
	scale := 1 / math.Sqrt(variance+stabilizer)
	return func(c int) float64 {
		y := gain[c] * scale
		return math.Abs(y)*delta*(1+relative) + math.Abs(y*(h[c]-mean))*relative + roundTol(u, 2, math.Abs(shift[c])+math.Abs(y*(h[c]-mean)))
	}
}

// attentionTol bounds the error of each element of dst. A score errs by es: its sum
// of products, the scale, the bias. The exponentials err, as in softmaxTol, by the
// score's distance from the largest, expTol and 2 es (the maximum is a score too);
// the sum of all of them by as much and its additions, the sum of values likewise.
func attentionTol(u float64, qkv, offsets, bias []float64, a kernels.Attention) []float64 {
	tol := make([]float64, a.Tokens*a.Heads*a.Dim)
	at := func(token, which, head int) []float64 { return row(qkv, (token*3+which)*a.Heads+head, a.Dim) }
	for s := range a.Sequences {
		from, to := int(offsets[s]), int(offsets[s+1])
		n := to - from
		for i := from; i < to; i++ {
			for h := range a.Heads {
				z, p := make([]float64, n), make([]float64, n)
				es := 0.0
				for j := range z {
					abs := 0.0
					for d, k := range at(from+j, 1, h) {
						z[j] += a.Scale * at(i, 0, h)[d] * k
						abs += a.Scale * math.Abs(at(i, 0, h)[d]*k)
					}
					e := sumTol(u, a.Dim, abs) + 2*u*abs
					if bias != nil {
						b := bias[h*(2*a.Longest-1)+a.Longest-1+from+j-i]
						z[j] += b
						e += 2 * u * (math.Abs(b) + abs)
					}
					es = max(es, e)
				}
				ref.Softmax(p, z, 1, n)
				m := largest(z)
				mean := 0.0
				relative := make([]float64, n)
				for j := range z {
					relative[j] = math.Expm1(2*es) + u*(math.Abs(z[j]-m)+expTol+2)
					if p[j] > 0 {
						mean += p[j] * relative[j]
					}
				}
				mean += sumTol(u, n, 1) + u
				for d := range a.Dim {
					abs, moved := 0.0, 0.0
					for j := range z {
						v := math.Abs(at(from+j, 2, h)[d])
						abs += p[j] * v
						if p[j] > 0 {
							moved += p[j] * v * relative[j]
						}
						moved += smallest * v
					}
					tol[(i*a.Heads+h)*a.Dim+d] = moved + abs*mean + sumTol(u, n, abs) + roundTol(u, 2, abs)
				}
			}
		}
	}
	return tol
}
