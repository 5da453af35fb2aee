package pe

import (
	"math"
	"math/bits"

	"github.com/aviary-audit/aviary/audit/records"
)

// rotation moves and turns vectors, which changes no distance, so that bytes hold
// them well: the bank's mean comes to 0, which makes vectors shorter, and a large
// number among small ones, for which all steps would be coarse, is spread over
// many: numbers get random signs and go through Walsh-Hadamard transforms of as
// many as are a power of two (Ailon and Chazelle 2009, section 2).
type rotation struct {
	mean []float64
	sign []float64 // ±1/√n, n the length of the number's transform
}

func newRotation(bank *records.Matrix) rotation {
	d := bank.Dim()
	r := rotation{make([]float64, d), make([]float64, d)}
	for i := range bank.Len() {
		for j, v := range bank.Row(i) {
			r.mean[j] += float64(v)
		}
	}
	for j := range r.mean {
		r.mean[j] /= float64(bank.Len())
	}
	for from := 0; from < d; {
		n := transformLength(d - from)
		for j := from; j < from+n; j++ {
			r.sign[j] = 1 / math.Sqrt(float64(n))
			// The signs are fixed: any will do that no data were made against.
			if bits.OnesCount64(uint64(j+1)*0x9e3779b97f4a7c15>>32)%2 == 1 {
				r.sign[j] = -r.sign[j]
			}
		}
		from += n
	}
	return r
}

// transformLength is the largest power of two that is at most n.
func transformLength(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// apply puts x, moved and turned, into y.
func (r rotation) apply(y []float64, x []float32) {
	mean, sign := r.mean[:len(x)], r.sign[:len(x)]
	y = y[:len(x)]
	for j, v := range x {
		y[j] = (float64(v) - mean[j]) * sign[j]
	}
	for len(y) > 0 {
		n := transformLength(len(y))
		hadamard(y[:n])
		y = y[n:]
	}
}

// hadamard is the transform of a power of two of numbers, in place, times √n.
func hadamard(y []float64) {
	half := 1
	for ; 4*half <= len(y); half *= 4 { // two stages at once
		for i := 0; i < len(y); i += 4 * half {
			a, b := y[i:i+half], y[i+half:i+2*half]
			c, d := y[i+2*half:i+3*half], y[i+3*half:i+4*half]
			b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
			for j := range a {
				s, t, u, v := a[j]+b[j], a[j]-b[j], c[j]+d[j], c[j]-d[j]
				a[j], b[j], c[j], d[j] = s+u, t+v, s-u, t-v
			}
		}
	}
	if half < len(y) {
		a, b := y[:half], y[half:]
		for j := range a {
			a[j], b[j] = a[j]+b[j], a[j]-b[j]
		}
	}
}
