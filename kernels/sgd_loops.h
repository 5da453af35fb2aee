// The loops of sgd.c, once per instruction set (each_isa.h).
#include "fmath_vec.h"

// Stores a[0] b[0] c[0] d[0] a[1] b[1] …
AV_INLINE void AV_(store_interleaved)(float *dst, vec a, vec b, vec c, vec d) {
#if AV_LEVEL == 2
	__m512 ab0 = _mm512_unpacklo_ps((__m512)a, (__m512)b), ab1 = _mm512_unpackhi_ps((__m512)a, (__m512)b);
	__m512 cd0 = _mm512_unpacklo_ps((__m512)c, (__m512)d), cd1 = _mm512_unpackhi_ps((__m512)c, (__m512)d);
	__m512d ab0d = _mm512_castps_pd(ab0), ab1d = _mm512_castps_pd(ab1);
	__m512d cd0d = _mm512_castps_pd(cd0), cd1d = _mm512_castps_pd(cd1);
	// q[j]: quads 4m + j in 128-bit lane m
	__m512 q0 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab0d, cd0d)), q1 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab0d, cd0d));
	__m512 q2 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab1d, cd1d)), q3 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab1d, cd1d));
	__m512 lo01 = _mm512_shuffle_f32x4(q0, q1, 0x44), lo23 = _mm512_shuffle_f32x4(q2, q3, 0x44);
	__m512 hi01 = _mm512_shuffle_f32x4(q0, q1, 0xee), hi23 = _mm512_shuffle_f32x4(q2, q3, 0xee);
	_mm512_storeu_ps(dst, _mm512_shuffle_f32x4(lo01, lo23, 0x88));
	_mm512_storeu_ps(dst + 16, _mm512_shuffle_f32x4(lo01, lo23, 0xdd));
	_mm512_storeu_ps(dst + 32, _mm512_shuffle_f32x4(hi01, hi23, 0x88));
	_mm512_storeu_ps(dst + 48, _mm512_shuffle_f32x4(hi01, hi23, 0xdd));
#elif AV_LEVEL == 1
	__m256 ab0 = _mm256_unpacklo_ps((__m256)a, (__m256)b), ab1 = _mm256_unpackhi_ps((__m256)a, (__m256)b);
	__m256 cd0 = _mm256_unpacklo_ps((__m256)c, (__m256)d), cd1 = _mm256_unpackhi_ps((__m256)c, (__m256)d);
	// q[j]: quads j and 4 + j
	__m256 q0 = _mm256_shuffle_ps(ab0, cd0, 0x44), q1 = _mm256_shuffle_ps(ab0, cd0, 0xee);
	__m256 q2 = _mm256_shuffle_ps(ab1, cd1, 0x44), q3 = _mm256_shuffle_ps(ab1, cd1, 0xee);
	_mm256_storeu_ps(dst, _mm256_permute2f128_ps(q0, q1, 0x20));
	_mm256_storeu_ps(dst + 8, _mm256_permute2f128_ps(q2, q3, 0x20));
	_mm256_storeu_ps(dst + 16, _mm256_permute2f128_ps(q0, q1, 0x31));
	_mm256_storeu_ps(dst + 24, _mm256_permute2f128_ps(q2, q3, 0x31));
#else
	for (int i = 0; i < AV_LANES; i++) {
		dst[4 * i] = a[i];
		dst[4 * i + 1] = b[i];
		dst[4 * i + 2] = c[i];
		dst[4 * i + 3] = d[i];
	}
#endif
}

// NOISE_BLOCK normals from number `first`, a multiple of NOISE_BLOCK. A lane
// computes the four normals of one Philox counter.
AV_INLINE void AV_(noise_block)(float *z, uint64_t first, uint64_t seed, uint64_t step) {
	enum { SETS = 2, SET = 4 * AV_LANES };
	for (int i = 0; i < NOISE_BLOCK; i += SETS * SET) {
		uvec c[SETS][4];
		for (int j = 0; j < SETS; j++) {
			uint64_t counter = (first + (uint64_t)(i + j * SET)) / 4; // its low half does not wrap within a vector
			c[j][0] = uvec_set((uint32_t)counter) + uvec_iota();
			c[j][1] = uvec_set((uint32_t)(counter >> 32));
			c[j][2] = uvec_set((uint32_t)step);
			c[j][3] = uvec_set((uint32_t)(step >> 32));
		}
		AV_(fm_philox)(SETS, c, (uint32_t)seed, (uint32_t)(seed >> 32));
		for (int j = 0; j < SETS; j++) {
			vec z0, z1, z2, z3;
			AV_(fm_normal_pair)(c[j][0], c[j][1], &z0, &z1);
			AV_(fm_normal_pair)(c[j][2], c[j][3], &z2, &z3);
			AV_(store_interleaved)(z + i + j * SET, z0, z1, z2, z3);
		}
	}
}

// Elements [begin, end); z belongs to begin, NULL for none.
AV_INLINE void AV_(update)(const int with_m, const int with_e, const int with_z, const sgd *t, int64_t begin,
                           int64_t end, const float *z) {
	const float *g = t->g;
	float *p = t->p, *m = t->m, *e = t->e;
	float scale = t->s->scale, noise = t->s->noise, decay = t->s->decay, momentum = t->s->momentum;
	float minus_lr = -t->s->lr, gain = t->s->one_minus_ema;
	AV_INDEPENDENT
	for (int64_t i = begin; i < end; i++) {
		float d = scale * g[i], w = p[i];
		if (with_z) d = AV_FMAF(noise, z[i - begin], d);
		d = AV_FMAF(decay, w, d);
		if (with_m) {
			d = AV_FMAF(momentum, m[i], d);
			m[i] = d;
		}
		w = AV_FMAF(minus_lr, d, w);
		p[i] = w;
		if (with_e) e[i] = AV_FMAF(gain, w - e[i], e[i]);
	}
}

AV_INLINE void AV_(update_range)(const int with_m, const int with_e, const sgd *t, int64_t begin, int64_t end) {
	if (t->s->noise == 0) {
		AV_(update)(with_m, with_e, 0, t, begin, end, NULL);
		return;
	}
	for (int64_t i = begin; i < end; i += NOISE_BLOCK) {
		float z[NOISE_BLOCK] __attribute__((aligned(64)));
		AV_(noise_block)(z, (uint64_t)i, t->s->seed, t->s->step);
		AV_(update)(with_m, with_e, 1, t, i, end - i < NOISE_BLOCK ? end : i + NOISE_BLOCK, z);
	}
}

AV_TARGET static void AV_(sgd_range)(const void *arg, int64_t begin, int64_t end) {
	const sgd *t = arg;
	if (t->m && t->e) AV_(update_range)(1, 1, t, begin, end);
	else if (t->m) AV_(update_range)(1, 0, t, begin, end);
	else if (t->e) AV_(update_range)(0, 1, t, begin, end);
	else AV_(update_range)(0, 0, t, begin, end);
}

AV_TARGET static void AV_(normal_range)(const void *arg, int64_t begin, int64_t end) {
	const sgd *t = arg;
	for (int64_t i = begin; i < end; i += NOISE_BLOCK) {
		float z[NOISE_BLOCK] __attribute__((aligned(64)));
		AV_(noise_block)(z, (uint64_t)i, t->s->seed, t->s->step);
		memcpy(t->p + i, z, (size_t)(end - i < NOISE_BLOCK ? end - i : NOISE_BLOCK) * sizeof *z);
	}
}
