// Vectors of AV_LANES floats for the instruction set AV_LEVEL (0 portable, 1
// AVX2, 2 AVX-512): a few functions over the compiler's vector types, on which
// + - * / and comparisons work as they are. Included by each_isa.h.
//
// Every level computes the same operations in the same order, so that the bits
// agree wherever there is a hardware fma. The portable level has one if the
// compiler says so (NEON); plain x86-64 has none and rounds twice there.
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(AV_EMULATE_AVX512)
#include "emulate_avx512.h"
#endif
#endif

#if AV_LEVEL == 2
#define AV_(name) name##_avx512
#if defined(AV_EMULATE_AVX512)
#define AV_TARGET __attribute__((target("avx2,fma")))
#else
#define AV_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#endif
#define AV_LANES 16
#elif AV_LEVEL == 1
#define AV_(name) name##_avx2
#define AV_TARGET __attribute__((target("avx2,fma")))
#define AV_LANES 8
#else
#define AV_(name) name##_portable
#define AV_TARGET
#define AV_LANES 4
#endif
#if AV_LEVEL > 0 || defined(__FP_FAST_FMAF)
#define AV_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define AV_FMAF(a, b, c) ((a) * (b) + (c))
#endif
#define AV_INLINE AV_TARGET static inline __attribute__((always_inline, unused))

#define vec AV_(vec_t)
#define uvec AV_(uvec_t)
#define vec_load AV_(vec_load)
#define vec_store AV_(vec_store)
#define vec_set AV_(vec_set)
#define uvec_set AV_(uvec_set)
#define vec_fma AV_(vec_fma)
#define vec_sqrt AV_(vec_sqrt)
#define vec_pick AV_(vec_pick)
#define vec_from_uint AV_(vec_from_uint)
#define vec_broadcast AV_(vec_broadcast)
#define uvec_multiply AV_(uvec_multiply)
#define uvec_iota AV_(uvec_iota)
#define vec_load_part AV_(vec_load_part)
#define vec_store_part AV_(vec_store_part)

typedef float vec __attribute__((vector_size(4 * AV_LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * AV_LANES)));

// Unaligned loads and stores: memcpy of a known size is one instruction.
AV_INLINE vec vec_load(const float *p) {
	vec v;
	memcpy(&v, p, sizeof v);
	return v;
}

AV_INLINE void vec_store(float *p, vec v) { memcpy(p, &v, sizeof v); }

// The first n lanes; the others are 0.
AV_INLINE vec vec_load_part(const float *p, int64_t n) {
#if AV_LEVEL == 2
	return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
	float lanes[AV_LANES] = {0};
	for (int i = 0; i < AV_LANES; i++)
		if (i < n) lanes[i] = p[i];
	return vec_load(lanes);
#endif
}

AV_INLINE void vec_store_part(float *p, vec v, int64_t n) {
#if AV_LEVEL == 2
	_mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
	float lanes[AV_LANES];
	vec_store(lanes, v);
	for (int i = 0; i < AV_LANES; i++)
		if (i < n) p[i] = lanes[i];
#endif
}

AV_INLINE vec vec_set(float x) { return (vec){0} + x; }

AV_INLINE uvec uvec_set(uint32_t x) { return (uvec){0} + x; }

// A number from memory in every lane. The assembly keeps gcc from folding the
// load into the two multiplications that follow, where it would run twice.
AV_INLINE vec vec_broadcast(const float *p) {
#if AV_LEVEL == 2 && !defined(AV_EMULATE_AVX512)
	__m512 v;
	__asm__("vbroadcastss %1, %0" : "=v"(v) : "m"(*p));
	return (vec)v;
#elif AV_LEVEL == 1
	return (vec)_mm256_broadcast_ss(p);
#else
	return vec_set(*p);
#endif
}

AV_INLINE vec vec_fma(vec a, vec b, vec c) {
#if AV_LEVEL == 2
	return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif AV_LEVEL == 1
	return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FP_FAST_FMAF)
	for (int i = 0; i < AV_LANES; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
	return c;
#else
	return a * b + c;
#endif
}

AV_INLINE vec vec_sqrt(vec a) {
#if AV_LEVEL == 2
	return (vec)_mm512_sqrt_ps((__m512)a);
#elif AV_LEVEL == 1
	return (vec)_mm256_sqrt_ps((__m256)a);
#elif defined(__SSE__)
	return (vec)_mm_sqrt_ps((__m128)a);
#else
	for (int i = 0; i < AV_LANES; i++) a[i] = sqrtf(a[i]);
	return a;
#endif
}

// yes where the comparison that made mask holds, else no.
AV_INLINE vec vec_pick(uvec mask, vec yes, vec no) {
#if AV_LEVEL == 2
	return (vec)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)no, (__m512)yes);
#elif AV_LEVEL == 1
	return (vec)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
	return (vec)(((uvec)yes & mask) | ((uvec)no & ~mask));
#endif
}

// Exact for x < 2^24.
AV_INLINE vec vec_from_uint(uvec x) {
	typedef int32_t ivec __attribute__((vector_size(4 * AV_LANES)));
	return __builtin_convertvector((ivec)x, vec);
}

// The upper and lower halves of the 64-bit products a*b.
AV_INLINE void uvec_multiply(uvec a, uvec b, uvec *hi, uvec *lo) {
#if AV_LEVEL == 2
	__m512i even = _mm512_mul_epu32((__m512i)a, (__m512i)b);
	__m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), _mm512_srli_epi64((__m512i)b, 32));
	*hi = (uvec)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
	*lo = (uvec)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#elif AV_LEVEL == 1
	__m256i even = _mm256_mul_epu32((__m256i)a, (__m256i)b);
	__m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), _mm256_srli_epi64((__m256i)b, 32));
	*hi = (uvec)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
	*lo = (uvec)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#else
	uvec h = {0};
	for (int i = 0; i < AV_LANES; i++) h[i] = (uint32_t)(((uint64_t)a[i] * b[i]) >> 32);
	*hi = h;
	*lo = a * b;
#endif
}

// 0, 1, 2, …
AV_INLINE uvec uvec_iota(void) {
	uvec v = {0};
	for (int i = 0; i < AV_LANES; i++) v[i] = (uint32_t)i;
	return v;
}
