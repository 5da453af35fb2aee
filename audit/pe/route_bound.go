package pe

import "math"

// bound is what scores of a bank may be off by. A score of a query q with a
// candidate b is q·b - |b|²/2, so that |q-b|² = |q|² - 2 score; the device's is
// computed from rounded numbers.
//
// In float32 with u = 2⁻²⁴ a sum of D products is off by at most D·u·|q||b| and
// higher orders, in any order (Higham 2002, section 3.1); the bias and its addition
// round once more each. That is below (D+3) u (|q||b| + |b|²).
//
// Bytes: with q = q' + e and b = b' + f, the device has the exact q'·b' from
// integers, and
//
//	|q·b - q'·b'| ≤ |q'||f| + |e||b| ≤ (|q|+|e|)|f| + |e||b|.
//
// Turning the integer into a float32, two scales, the bias and its addition round
// once each: again below (D+3) u (|q'||b'| + |b|²).
type bound struct {
	dim  int
	norm float64 // of the longest candidate
	off  float64 // |f|, the largest
}

// queryBound is a bound for one query.
type queryBound struct {
	square float64 // |q|²
	off    float64 // of twice a score, and of distances in float64
}

// of is the bound for a query of this length, and its |e|.
func (b bound) of(size, off float64) queryBound {
	d := float64(b.dim)
	long, longest := size+off, b.norm+b.off // |q'| and |b'| at most
	product := long*longest + longest*longest
	rounding := 1.01 * (d + 3) * 0x1p-24 * product // 1.01: higher orders, D ≤ 2¹⁴
	// Products in float32 vanish below 2⁻¹²⁶ on a device that flushes them.
	rounding += (d + 3) * 0x1p-126
	e := long*b.off + off*b.norm + rounding
	// Distances, norms and these bounds themselves are float64 sums of D terms, which
	// the longest possible distance bounds.
	exact := 8 * (d + 8) * 0x1p-53 * (long + longest) * (long + longest)
	q := queryBound{size * size, 2*e*(1+0x1p-30) + exact}
	// Nothing may overflow on the device: sums of bytes are scaled in two steps.
	if !(product < math.MaxFloat32/4 && long*128*math.Sqrt(d) < math.MaxFloat32/4) {
		q.off = math.Inf(1)
	}
	return q
}

// farther says whether a candidate with at most this score is certain to be
// farther than dist, as sqDist computes both.
func (q queryBound) farther(score float32, dist float64) bool {
	return q.square-2*float64(score)-q.off > dist
}
