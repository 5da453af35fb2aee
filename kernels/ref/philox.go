package ref

import "math"

// Philox4x32 is Philox4x32-10, the counter-based generator of Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten
// rounds of
//
//	(c0, c1, c2, c3) = (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))
//
// with the key raised by the Weyl constants after each round.
func Philox4x32(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		m0, m1 = 0xD2511F53, 0xCD9E8D57
		w0, w1 = 0x9E3779B9, 0xBB67AE85
	)
	c, k := counter, key
	for range 10 {
		p0, p1 := uint64(m0)*uint64(c[0]), uint64(m1)*uint64(c[2])
		c = [4]uint32{
			uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1),
			uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0),
		}
		k[0] += w0
		k[1] += w1
	}
	return c
}

// Uniforms are the two numbers that normal i of the stream (seed, step) is made
// of, u in (0, 1) and v in [0, 1): with q = i/4 and
//
//	(u0, u1, u2, u3) = Philox4x32-10(counter (q low, q high, step low, step high), key (seed low, seed high))
//
// u = (⌊a/2⁸⌋ + ½) 2⁻²⁴ and v = ⌊b/2⁸⌋ 2⁻²⁴, where (a, b) is (u0, u1) for
// i mod 4 in {0, 1} and (u2, u3) for {2, 3}.
func Uniforms(i, seed, step uint64) (u, v float64) {
	q := i / 4
	x := Philox4x32(
		[4]uint32{uint32(q), uint32(q >> 32), uint32(step), uint32(step >> 32)},
		[2]uint32{uint32(seed), uint32(seed >> 32)})
	pair := i % 4 / 2 * 2
	return (float64(x[pair]>>8) + 0.5) * 0x1p-24, float64(x[pair+1]>>8) * 0x1p-24
}

// NormalAt is normal number i of the stream (seed, step), by Box and Muller:
//
//	z = sqrt(-2 ln u) cos(2π v) for even i, sqrt(-2 ln u) sin(2π v) for odd i
func NormalAt(i, seed, step uint64) float64 {
	u, v := Uniforms(i, seed, step)
	radius := math.Sqrt(-2 * math.Log(u))
	sin, cos := math.Sincos(2 * math.Pi * v)
	if i%2 == 0 {
		return radius * cos
	}
	return radius * sin
}

// Normal: dst[i] = NormalAt(i, seed, step).
func Normal(dst []float64, seed, step uint64) {
	for i := range dst {
		dst[i] = NormalAt(uint64(i), seed, step)
	}
}
