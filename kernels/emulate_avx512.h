// The AVX-512 intrinsics that the kernels use, on a machine without AVX-512:
// `make avx512` defines AV_EMULATE_AVX512 and so runs the AVX-512 paths, bit for
// bit and slowly, through SIMDe (Debian: libsimde-dev). Not part of a build.
#ifndef AV_EMULATE_AVX512_H
#define AV_EMULATE_AVX512_H

#include <simde/x86/avx512.h>

#define __m512 simde__m512
#define __m512d simde__m512d
#define __m512i simde__m512i
#define __mmask16 simde__mmask16

#define _mm512_castpd_ps simde_mm512_castpd_ps
#define _mm512_castps_pd simde_mm512_castps_pd
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_madd_epi16 simde_mm512_madd_epi16
#define _mm512_mask_blend_epi32 simde_mm512_mask_blend_epi32
#define _mm512_mask_blend_ps simde_mm512_mask_blend_ps
#define _mm512_movepi32_mask simde_mm512_movepi32_mask
#define _mm512_mul_epu32 simde_mm512_mul_epu32
#define _mm512_setzero_ps simde_mm512_setzero_ps
#define _mm512_shuffle_f32x4 simde_mm512_shuffle_f32x4
#define _mm512_slli_epi64 simde_mm512_slli_epi64
#define _mm512_sqrt_ps simde_mm512_sqrt_ps
#define _mm512_srli_epi64 simde_mm512_srli_epi64
#define _mm512_storeu_ps simde_mm512_storeu_ps
#define _mm512_unpackhi_pd simde_mm512_unpackhi_pd
#define _mm512_unpackhi_ps simde_mm512_unpackhi_ps
#define _mm512_unpacklo_pd simde_mm512_unpacklo_pd
#define _mm512_unpacklo_ps simde_mm512_unpacklo_ps

// SIMDe rounds twice here where the compiler was not given an fma.
__attribute__((target("avx2,fma"))) static inline __m512 emulate_fmadd(__m512 a, __m512 b, __m512 c) {
	typedef float lanes __attribute__((vector_size(64)));
	lanes x = (lanes)a, y = (lanes)b, z = (lanes)c;
	for (int i = 0; i < 16; i++) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
	return (__m512)z;
}

// SIMDe lacks these two.
static inline void emulate_mask_storeu(float *p, __mmask16 mask, __m512 v) {
	float lanes[16];
	simde_mm512_storeu_ps(lanes, v);
	for (int i = 0; i < 16; i++)
		if (mask >> i & 1) p[i] = lanes[i];
}
static inline __m512 emulate_maskz_loadu(__mmask16 mask, const float *p) {
	float lanes[16] = {0};
	for (int i = 0; i < 16; i++)
		if (mask >> i & 1) lanes[i] = p[i];
	return simde_mm512_loadu_ps(lanes);
}
#define _mm512_fmadd_ps emulate_fmadd
#define _mm512_mask_storeu_ps emulate_mask_storeu
#define _mm512_maskz_loadu_ps emulate_maskz_loadu

#endif
