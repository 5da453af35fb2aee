// exp, log, tanh, erfc and the standard normals in single precision, from additions,
// multiplications and fma only, so that every device and instruction set gives
// the same bits. The polynomials are our own Chebyshev fits.
//
// The functions are written over a type `real`, which may be float or a vector
// of floats, and its unsigned twin `word`. Whoever includes this header defines
// first (and it may be included again for another type):
//
//	FM_FN          the qualifiers of a function (static inline, __device__, …)
//	FM_(name)      the name of this instance of a function
//	real, word     the types
//	FM_REAL(c)     a constant as a real        FM_WORD(c)  as a word
//	FM_FMA(a,b,c)  a b + c, rounded once       FM_SQRT(a)  correctly rounded
//	FM_BITS(r)     the bits of a real          FM_FROM_BITS(w)  and back
//	FM_PICK(m,a,b) a where the comparison m holds, else b
//	FM_FROM_UINT(w)   the integer w < 2^24 as a real
//	FM_MULTIPLY(a,b,hi,lo)  the halves of the 64-bit products, into *hi and *lo
//
// Compile without contraction and without fast-math.

// exp(x) within 2 ulp, 0 and inf where it leaves the range, NaN for NaN.
FM_FN real FM_(exp)(real x) {
	x = FM_PICK(x < FM_REAL(-110.0f), FM_REAL(-110.0f), x);
	x = FM_PICK(x > FM_REAL(90.0f), FM_REAL(90.0f), x);
	// Adding 1.5 2^23 rounds to an integer n and leaves it in the low bits.
	real shifted = FM_FMA(x, FM_REAL(1.44269504088896341f), FM_REAL(12582912.0f));
	real n = shifted - FM_REAL(12582912.0f);
	real r = FM_FMA(n, FM_REAL(-0.693145751953125f), x); // x - n ln 2 in two steps
	r = FM_FMA(n, FM_REAL(-1.42860677e-6f), r);
	real p = FM_FMA(FM_REAL(1.3933650911e-3f), r, FM_REAL(8.3631798625e-3f));
	p = FM_FMA(p, r, FM_REAL(4.1666466743e-2f));
	p = FM_FMA(p, r, FM_REAL(0.16666576266f));
	p = FM_FMA(p, r, FM_REAL(0.5f));
	p = FM_FMA(p * r, r, r) + FM_REAL(1.0f);
	// 2^n in two factors, each a normal number, for results near either end.
	// The low bits of shifted are n + 2^22 (mod 2^23); biased they stay positive.
	word biased = (FM_BITS(shifted) & FM_WORD(0x7fffffu)) - FM_WORD(0x400000u) + FM_WORD(254u);
	word half = biased >> 1;
	return p * FM_FROM_BITS(half << 23) * FM_FROM_BITS((biased - half) << 23);
}

// log(m 2^k) for f = m - 1 in [-1/3, 1/3): k ln 2 + log(1 + f).
FM_FN real FM_(log_parts)(real k, real f) {
	real p = FM_FMA(FM_REAL(-0.12429866195f), f, FM_REAL(0.13433773816f));
	p = FM_FMA(p, f, FM_REAL(-0.12287236750f));
	p = FM_FMA(p, f, FM_REAL(0.14116978645f));
	p = FM_FMA(p, f, FM_REAL(-0.16673398018f));
	p = FM_FMA(p, f, FM_REAL(0.20003835857f));
	p = FM_FMA(p, f, FM_REAL(-0.24999943376f));
	p = FM_FMA(p, f, FM_REAL(0.33333319426f));
	p = FM_FMA(p, f, FM_REAL(-0.5f));
	p = FM_FMA(p, f * f, f);
	return FM_FMA(k, FM_REAL(0.693147182f), p);
}

// Splits a normal a > 0 into m 2^k with m in [2/3, 4/3): the bits of 2^k are
// 0x3f800000 + *scale, and k is returned.
FM_FN real FM_(exponent)(real a, word *scale) {
	*scale = (FM_BITS(a) - FM_WORD(0x3f2aaaabu)) & FM_WORD(0xff800000u);
	// Biased by 256 the exponent is a small natural number, which converts exactly.
	return FM_FROM_UINT(((*scale >> 23) + FM_WORD(256u)) & FM_WORD(0x1ffu)) - FM_REAL(256.0f);
}

// log(a) within 2 ulp for normal a > 0; inf and NaN pass through.
FM_FN real FM_(log)(real a) {
	word scale;
	real k = FM_(exponent)(a, &scale);
	real m = FM_FROM_BITS(FM_BITS(a) - scale);
	real r = FM_(log_parts)(k, m - FM_REAL(1.0f));
	return FM_PICK(a <= FM_REAL(3.402823466e38f), r, a);
}

// tanh(x) within 4 ulp: odd polynomial near 0, by exp(2|x|) elsewhere.
FM_FN real FM_(tanh)(real x) {
	real s = x * x;
	real p = FM_FMA(FM_REAL(-0.006104948006f), s, FM_REAL(0.02100364122f));
	p = FM_FMA(p, s, FM_REAL(-0.05385249747f));
	p = FM_FMA(p, s, FM_REAL(0.1333278226f));
	p = FM_FMA(p, s, FM_REAL(-0.333333291f));
	real small = FM_FMA(x * s, p, x);
	word sign = FM_BITS(x) & FM_WORD(0x80000000u);
	real a = FM_FROM_BITS(FM_BITS(x) ^ sign); // |x|
	real large = FM_REAL(1.0f) - FM_REAL(2.0f) / (FM_(exp)(a + a) + FM_REAL(1.0f));
	large = FM_FROM_BITS(FM_BITS(large) ^ sign);
	return FM_PICK(a < FM_REAL(0.625f), small, large);
}

// erfc(|t|) within 2^-23, absolutely: an odd polynomial for erf near 0, the
// exponential of a polynomial elsewhere. 0 beyond 10.5, NaN for NaN.
FM_FN real FM_(erfc_abs)(real t) {
	t = FM_FROM_BITS(FM_BITS(t) & FM_WORD(0x7fffffffu));
	real s = t * t;
	real p = FM_FMA(FM_REAL(7.882497109e-05f), s, FM_REAL(-0.0008018854992f));
	p = FM_FMA(p, s, FM_REAL(0.005189311943f));
	p = FM_FMA(p, s, FM_REAL(-0.0268543288f));
	p = FM_FMA(p, s, FM_REAL(0.1128359746f));
	p = FM_FMA(p, s, FM_REAL(-0.376126269f));
	p = FM_FMA(p, s, FM_REAL(0.1283791659f));
	real small = FM_REAL(1.0f) - FM_FMA(t, p, t);
	real a = FM_PICK(t > FM_REAL(4.5f), FM_REAL(4.5f), t); // log(erfc(t)) + t^2 changes little from there on
	real q = FM_FMA(FM_REAL(1.376698469e-06f), a, FM_REAL(-4.079091868e-05f));
	q = FM_FMA(q, a, FM_REAL(0.0005514524165f));
	q = FM_FMA(q, a, FM_REAL(-0.004542896229f));
	q = FM_FMA(q, a, FM_REAL(0.02579410284f));
	q = FM_FMA(q, a, FM_REAL(-0.1089572798f));
	q = FM_FMA(q, a, FM_REAL(0.3669610463f));
	q = FM_FMA(q, a, FM_REAL(-1.129511701f));
	q = FM_FMA(q, a, FM_REAL(0.0001391283342f));
	return FM_PICK(t < FM_REAL(1.0f), small, FM_(exp)(q - s));
}

// Box-Muller: two independent standard normals from two random words,
//	sqrt(-2 ln u) cos(2 pi v) and … sin(2 pi v), u = (⌊a/2⁸⌋ + ½) 2⁻²⁴, v = ⌊b/2⁸⌋ 2⁻²⁴.
FM_FN void FM_(normal_pair)(word a, word b, real *cosine, real *sine) {
	const real ulp = FM_REAL(5.9604644775390625e-8f); // 2^-24
	word i = a >> 8;
	real u = (FM_FROM_UINT(i) + FM_REAL(0.5f)) * ulp;
	word scale;
	real k = FM_(exponent)(u, &scale);
	real f = FM_FROM_BITS(FM_BITS(u) - scale) - FM_REAL(1.0f);
	// Above 1/2, u is rounded, and near 1 that would be all of log u: there
	// f = u - 1 is computed from the integer, exactly.
	real exact = (FM_FROM_UINT(FM_WORD(0xffffffu) - i) + FM_REAL(0.5f)) * (FM_REAL(0.0f) - ulp);
	f = FM_PICK(i > FM_WORD(0xaaaaabu), exact, f);
	k = FM_PICK(i > FM_WORD(0xaaaaabu), FM_REAL(0.0f), k);
	real radius = FM_SQRT(FM_REAL(-2.0f) * FM_(log_parts)(k, f));

	// The angle in quarter turns: the nearest quadrant and the rest, |rest| <= 1/8.
	real v = FM_FROM_UINT(b >> 8) * ulp;
	real shifted = FM_FMA(v, FM_REAL(4.0f), FM_REAL(12582912.0f));
	real quarter = shifted - FM_REAL(12582912.0f);
	word q = FM_BITS(shifted);
	real r = FM_FMA(quarter, FM_REAL(-0.25f), v) * FM_REAL(6.283185307f);
	real r2 = r * r;
	real s = FM_FMA(r2, FM_REAL(-1.9515296e-4f), FM_REAL(8.3321609e-3f));
	s = FM_FMA(s, r2, FM_REAL(-1.6666655e-1f));
	s = FM_FMA(s * r2, r, r);
	real c = FM_FMA(r2, FM_REAL(2.4433157e-5f), FM_REAL(-1.3887316e-3f));
	c = FM_FMA(c, r2, FM_REAL(4.1666646e-2f));
	c = FM_FMA(c, r2, FM_REAL(-0.5f));
	c = FM_FMA(c, r2, FM_REAL(1.0f));
	real sin_abs = FM_PICK((q & FM_WORD(1u)) != FM_WORD(0u), c, s);
	real cos_abs = FM_PICK((q & FM_WORD(1u)) != FM_WORD(0u), s, c);
	// Quadrants 2 and 3 turn the sine over, 1 and 2 the cosine.
	*sine = radius * FM_FROM_BITS(FM_BITS(sin_abs) ^ ((q & FM_WORD(2u)) << 30));
	*cosine = radius * FM_FROM_BITS(FM_BITS(cos_abs) ^ (((q + FM_WORD(1u)) & FM_WORD(2u)) << 30));
}

// Philox4x32-10 (Salmon et al., SC 2011) on `sets` counters with the key k0, k1.
// Two sets at once hide the latency of the multiplications on a CPU.
FM_FN void FM_(philox)(const int sets, word c[][4], unsigned k0, unsigned k1) {
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < sets; i++) {
			word hi0, lo0, hi1, lo1;
			FM_MULTIPLY(c[i][0], FM_WORD(0xd2511f53u), &hi0, &lo0);
			FM_MULTIPLY(c[i][2], FM_WORD(0xcd9e8d57u), &hi1, &lo1);
			c[i][0] = hi1 ^ c[i][1] ^ FM_WORD(k0);
			c[i][1] = lo1;
			c[i][2] = hi0 ^ c[i][3] ^ FM_WORD(k1);
			c[i][3] = lo0;
		}
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
}
