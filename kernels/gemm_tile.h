// The register tile of gemm.c and the packing of its operands, once per
// instruction set (each_isa.h).
//
// A tile is rows x (width * AV_LANES) numbers of C held in registers while k
// runs: per k, `width` vectors of B are loaded and each of the rows' numbers of A
// is broadcast and multiplied into them. AVX-512 has 32 registers: 14 x 2
// accumulators, 2 of B, 1 broadcast. AVX2 has 16: 6 x 2, 2 and 1. Tiles one
// vector wide serve narrow matrices, and may have more rows.
//
// Each number of C is the chain s = fma(a, b, s) in ascending k, so its bits do
// not depend on the shape of the tile.

#if AV_LEVEL == 2
#define AV_ROWS2 14 // rows of a tile two vectors wide
#define AV_ROWS1 16 // rows of a tile one vector wide
#define AV_BLOCK_K 256
#else
#define AV_ROWS2 6
#define AV_ROWS1 12
#define AV_BLOCK_K 400
#endif

// tile computes
//	c[i, :] = relu?( (flags & TILE_LOAD ? c[i, :] : 0) + Σ_k a(i, k) b[k, :] + bias )
// for i < rows. Packed A is a[k * rows + i], else a[i * a_stride + k].
AV_INLINE void AV_(tile)(const int rows, const int width, const int packed, int64_t kc, const float *a,
                         int64_t a_stride, const float *b, int64_t b_stride, float *c, int64_t c_stride,
                         const float *bias, int flags) {
	vec s[AV_ROWS1][2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < width; j++) s[i][j] = vec_set(0);
	if (flags & TILE_LOAD) {
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
			for (int j = 0; j < width; j++) s[i][j] = vec_load(c + i * c_stride + j * AV_LANES);
	}
#pragma GCC unroll 2
	for (int64_t k = 0; k < kc; k++) {
		vec bk[2];
#pragma GCC unroll 2
		for (int j = 0; j < width; j++) bk[j] = vec_load(b + j * AV_LANES);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec x = vec_broadcast(packed ? a + i : a + i * a_stride);
#pragma GCC unroll 2
			for (int j = 0; j < width; j++) s[i][j] = vec_fma(x, bk[j], s[i][j]);
		}
		a += packed ? rows : 1;
		b += b_stride;
	}
	if (bias) {
#pragma GCC unroll 2
		for (int j = 0; j < width; j++) {
			vec t = vec_load(bias + j * AV_LANES);
#pragma GCC unroll 16
			for (int i = 0; i < rows; i++) s[i][j] += t;
		}
	}
	if (flags & TILE_RELU) { // keeps NaN, so that a diverged network shows
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
			for (int j = 0; j < width; j++) s[i][j] = vec_pick((uvec)(s[i][j] <= vec_set(0)), vec_set(0), s[i][j]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < width; j++) vec_store(c + i * c_stride + j * AV_LANES, s[i][j]);
}

// One function per number of rows, so that the accumulators stay in registers.
#define TILE(width, rows)                                                                                              \
	AV_TARGET static void AV_(tile_packed_##width##_##rows)(TILE_PARAMETERS) {                                           \
		AV_(tile)(rows, width, 1, kc, a, a_stride, b, b_stride, c, c_stride, bias, flags);                                 \
	}                                                                                                                    \
	AV_TARGET static void AV_(tile_rows_##width##_##rows)(TILE_PARAMETERS) {                                             \
		AV_(tile)(rows, width, 0, kc, a, a_stride, b, b_stride, c, c_stride, bias, flags);                                 \
	}
#define TILES_TO_6(w) TILE(w, 1) TILE(w, 2) TILE(w, 3) TILE(w, 4) TILE(w, 5) TILE(w, 6)
#define TILES_TO_12(w) TILES_TO_6(w) TILE(w, 7) TILE(w, 8) TILE(w, 9) TILE(w, 10) TILE(w, 11) TILE(w, 12)
#define NAMES_TO_6(p, w)                                                                                               \
	0, AV_(p##_##w##_1), AV_(p##_##w##_2), AV_(p##_##w##_3), AV_(p##_##w##_4), AV_(p##_##w##_5), AV_(p##_##w##_6)
#define NAMES_TO_12(p, w)                                                                                              \
	NAMES_TO_6(p, w), AV_(p##_##w##_7), AV_(p##_##w##_8), AV_(p##_##w##_9), AV_(p##_##w##_10), AV_(p##_##w##_11),        \
	    AV_(p##_##w##_12)
#define NAMES_TO_14(p, w) NAMES_TO_12(p, w), AV_(p##_##w##_13), AV_(p##_##w##_14)
#define NAMES_TO_16(p, w) NAMES_TO_14(p, w), AV_(p##_##w##_15), AV_(p##_##w##_16)

TILES_TO_12(1)
#if AV_LEVEL == 2
TILE(1, 13) TILE(1, 14) TILE(1, 15) TILE(1, 16)
TILES_TO_12(2) TILE(2, 13) TILE(2, 14)
static const tile_set AV_(tiles) = {
    .lanes = AV_LANES,
    .block_k = AV_BLOCK_K,
    .max_rows = {AV_ROWS1, AV_ROWS2},
    .packed = {{NAMES_TO_16(tile_packed, 1)}, {NAMES_TO_14(tile_packed, 2)}},
    .by_rows = {{NAMES_TO_16(tile_rows, 1)}, {NAMES_TO_14(tile_rows, 2)}},
};
#else
TILES_TO_6(2)
static const tile_set AV_(tiles) = {
    .lanes = AV_LANES,
    .block_k = AV_BLOCK_K,
    .max_rows = {AV_ROWS1, AV_ROWS2},
    .packed = {{NAMES_TO_12(tile_packed, 1)}, {NAMES_TO_6(tile_packed, 2)}},
    .by_rows = {{NAMES_TO_12(tile_rows, 1)}, {NAMES_TO_6(tile_rows, 2)}},
};
#endif

// transpose_block: dst[k * stride + i] = src[i * ld + k] for i < rows, k < AV_LANES.
// The AVX2 one writes whole vectors, zeros after the rows, in ascending k.
#if AV_LEVEL == 2
AV_INLINE void AV_(transpose_block)(const int rows, const float *src, int64_t ld, float *dst, int64_t stride) {
	__m512 r[16], t[16];
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) r[i] = i < rows ? _mm512_loadu_ps(src + i * ld) : _mm512_setzero_ps();
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
		t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) // r[4i+j]: column j of each 128-bit lane, rows 4i..4i+3
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			__m512d lo = _mm512_castps_pd(t[4 * i + h]), hi = _mm512_castps_pd(t[4 * i + 2 + h]);
			r[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
			r[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
		}
	__mmask16 mask = (__mmask16)((1u << rows) - 1);
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88), b = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
		__m512 c = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88), d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
		_mm512_mask_storeu_ps(dst + j * stride, mask, _mm512_shuffle_f32x4(a, c, 0x88));
		_mm512_mask_storeu_ps(dst + (4 + j) * stride, mask, _mm512_shuffle_f32x4(b, d, 0x88));
		_mm512_mask_storeu_ps(dst + (8 + j) * stride, mask, _mm512_shuffle_f32x4(a, c, 0xdd));
		_mm512_mask_storeu_ps(dst + (12 + j) * stride, mask, _mm512_shuffle_f32x4(b, d, 0xdd));
	}
}
#elif AV_LEVEL == 1
AV_INLINE void AV_(transpose_block)(const int rows, const float *src, int64_t ld, float *dst, int64_t stride) {
	__m256 r[8], t[8];
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) r[i] = i < rows ? _mm256_loadu_ps(src + i * ld) : _mm256_setzero_ps();
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
		t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
	}
#pragma GCC unroll 2
	for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			r[4 * i + 2 * h] = _mm256_shuffle_ps(t[4 * i + h], t[4 * i + 2 + h], 0x44);
			r[4 * i + 2 * h + 1] = _mm256_shuffle_ps(t[4 * i + h], t[4 * i + 2 + h], 0xee);
		}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) _mm256_storeu_ps(dst + j * stride, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) _mm256_storeu_ps(dst + (4 + j) * stride, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
}
#else
AV_INLINE void AV_(transpose_block)(const int rows, const float *src, int64_t ld, float *dst, int64_t stride) {
	for (int k = 0; k < AV_LANES; k++)
		for (int i = 0; i < rows; i++) dst[k * stride + i] = src[i * ld + k];
}
#endif

// transpose: dst[k * stride + i] = src[i * ld + k] for i < rows, k < kc. Up to
// AV_LANES numbers after the last may be overwritten. The blocks are compiled for
// the heights that occur most.
#define BLOCKS(n)                                                                                                      \
	for (; k + AV_LANES <= kc; k += AV_LANES) AV_(transpose_block)(n, s + k, ld, d + k * stride, stride)
AV_TARGET static void AV_(transpose)(int64_t rows, int64_t kc, const float *src, int64_t ld, float *dst, int64_t stride) {
	for (int64_t i = 0; i < rows; i += AV_LANES) {
		const float *s = src + i * ld;
		float *d = dst + i;
		int n = rows - i < AV_LANES ? (int)(rows - i) : AV_LANES;
		int64_t k = 0;
		// A whole vector may be stored if it ends in this row of dst, or if what it
		// runs over is written later.
		if (i == 0 || i + AV_LANES <= stride) {
			if (n == AV_LANES) BLOCKS(AV_LANES);
			else if (n == AV_ROWS2 % AV_LANES) BLOCKS(AV_ROWS2 % AV_LANES);
			else BLOCKS(n);
		}
		for (; k < kc; k++)
			for (int r = 0; r < n; r++) d[k * stride + r] = s[r * ld + k];
	}
}

// copy_panels: panel p of dst takes columns p*width … of src, kc rows of them:
// dst[(p*kc + k) * width + i] = src[k * ld + p*width + i]. All panels go side by
// side, so that src is read along its rows; the last may have fewer columns, n in
// all, and its other columns are not written.
#define COPY(w)                                                                                                        \
	for (int64_t k = 0; k < kc; k++)                                                                                     \
		for (int64_t p = 0; p < full; p++) memcpy(dst + (p * kc + k) * (w), src + k * ld + p * (w), (w) * sizeof *dst)
AV_TARGET static void AV_(copy_panels)(int64_t n, int64_t width, int64_t kc, const float *src, int64_t ld, float *dst) {
	int64_t full = n / width, rest = n % width;
	if (width == 2 * AV_LANES) COPY(2 * AV_LANES);
	else if (width == AV_LANES) COPY(AV_LANES);
	else if (width == AV_ROWS2) COPY(AV_ROWS2);
	else COPY(width);
	dst += full * kc * width;
	src += full * width;
	for (int64_t k = 0; k < kc && rest > 0; k++)
		for (int64_t i = 0; i < rest; i++) dst[k * width + i] = src[k * ld + i];
}

#undef BLOCKS
#undef COPY
#undef AV_BLOCK_K
#undef AV_ROWS1
#undef AV_ROWS2
#undef TILE
#undef TILES_TO_6
#undef TILES_TO_12
#undef NAMES_TO_6
#undef NAMES_TO_12
#undef NAMES_TO_14
#undef NAMES_TO_16
