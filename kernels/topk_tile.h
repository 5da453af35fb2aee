// The tiles of bytes and the scan of topk.c, once per instruction set
// (each_isa.h).

#if AV_LEVEL == 2
#define AV_TILE_ROWS 14
#else
#define AV_TILE_ROWS 6
#endif

// A bit for each lane in which the comparison that made m holds.
AV_INLINE uint32_t AV_(top_bits)(uvec m) {
#if AV_LEVEL == 2
	return _mm512_movepi32_mask((__m512i)m);
#elif AV_LEVEL == 1
	return (uint32_t)_mm256_movemask_ps((__m256)m);
#else
	uint32_t bits = 0;
	for (int i = 0; i < AV_LANES; i++) bits |= (m[i] >> 31) << i;
	return bits;
#endif
}

// scan puts into the rows' lists what belongs there of tile [rows, 2*AV_LANES],
// whose columns are slots from first on. least is the last score of each list.
AV_TARGET static void AV_(scan)(const float *tile, int64_t rows, int64_t k, int32_t first, float *least, float *score,
                                int32_t *slot) {
	for (int64_t r = 0; r < rows; r++, tile += 2 * AV_LANES) {
		vec bar = vec_set(least[r]);
		uint32_t bits = AV_(top_bits)((uvec)(vec_load(tile) > bar)) |
		                AV_(top_bits)((uvec)(vec_load(tile + AV_LANES) > bar)) << AV_LANES;
		if (__builtin_expect(bits == 0, 1)) continue;
		float *s = score + r * k;
		for (; bits; bits &= bits - 1) {
			int c = __builtin_ctz(bits);
			if (tile[c] > s[k - 1]) top_insert(s, slot + r * k, k, tile[c], first + c);
		}
		least[r] = s[k - 1];
	}
}

// Tiles of bytes. A word of a query is four bytes; they are spread to two words
// of two 16-bit numbers, bytes 0 and 2 and bytes 1 and 3, as the tile does with the
// bank's, so that one instruction multiplies and adds pairs of them.
AV_TARGET static void AV_(pack_bytes)(const top_k *t, int64_t row, int64_t rows, float *pack) {
	for (int64_t k = 0; k < t->words; k++)
		for (int64_t i = 0; i < rows; i++) {
			int8_t b[4];
			memcpy(b, t->q + (row + i) * t->words + k, sizeof b);
			int16_t even[2] = {b[0], b[2]}, odd[2] = {b[1], b[3]};
			memcpy(pack + (k * rows + i) * 2, even, sizeof even);
			memcpy(pack + (k * rows + i) * 2 + 1, odd, sizeof odd);
		}
}

#define pairs AV_(pairs_t)   // 16-bit numbers
#define ivec AV_(sum_ivec_t) // 32-bit sums
typedef int16_t pairs __attribute__((vector_size(4 * AV_LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * AV_LANES)));

// A word from memory in every lane, whatever number it would be as a float.
AV_INLINE uvec AV_(word_everywhere)(const float *p) {
#if AV_LEVEL == 2 && !defined(AV_EMULATE_AVX512) || AV_LEVEL == 1
	return (uvec)vec_broadcast(p);
#else
	uint32_t w;
	memcpy(&w, p, sizeof w);
	return uvec_set(w);
#endif
}

// Sums of two products each.
AV_INLINE ivec AV_(pair_products)(pairs a, pairs b) {
#if AV_LEVEL == 2
	return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif AV_LEVEL == 1
	return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
	return (ivec)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
	ivec s;
	for (int i = 0; i < AV_LANES; i++) s[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
	return s;
#endif
}

// The score from the sum: each step rounds, and nothing is fused, so that all
// devices agree.
AV_INLINE void AV_(byte_scores)(const top_k *t, ivec sum, float q_scale, int64_t j, float *out) {
	vec s = __builtin_convertvector(sum, vec) * vec_set(q_scale);
	vec_store(out, s * vec_load(packed_scale(t) + j) + vec_load(packed_bias(t) + j));
}

AV_INLINE void AV_(byte_rows)(const int rows, const top_k *t, int64_t row, const float *pack, int64_t j, float *out) {
	const float *b = t->d->pack_b + j * t->words;
	ivec s[AV_TILE_ROWS][2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) s[i][0] = s[i][1] = (ivec){0};
	for (int64_t k = 0; k < t->words; k++, b += 2 * AV_LANES, pack += 2 * rows) {
		pairs even[2], odd[2];
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			pairs w = (pairs)vec_load(b + h * AV_LANES);
			even[h] = (w << 8) >> 8;
			odd[h] = w >> 8;
		}
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			pairs x = (pairs)AV_(word_everywhere)(pack + 2 * i), y = (pairs)AV_(word_everywhere)(pack + 2 * i + 1);
#pragma GCC unroll 2
			for (int h = 0; h < 2; h++) s[i][h] += AV_(pair_products)(even[h], x) + AV_(pair_products)(odd[h], y);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++)
			AV_(byte_scores)(t, s[i][h], t->q_scale[row + i], j + h * AV_LANES, out + (2 * i + h) * AV_LANES);
}

// The tile is compiled for its usual height, and row by row for what is left.
AV_TARGET static void AV_(byte_tile)(const top_k *t, int64_t row, int64_t rows, const float *pack, int64_t j, float *out,
                                     int part) {
	(void)part;
	switch (rows) {
#define ROWS(n)                                                                                                        \
	case n: AV_(byte_rows)(n, t, row, pack, j, out); return;
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if AV_LEVEL == 2
		ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#endif
#undef ROWS
	}
}

#if AV_LEVEL == 2 && !defined(AV_EMULATE_AVX512)
#define AV_VNNI __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma")))

static int32_t byte_sum(const int8_t *x, int64_t n) {
	int32_t s = 0;
	for (int64_t i = 0; i < n; i++) s += x[i];
	return s;
}

// The instruction multiplies unsigned with signed bytes. The bank's are taken as
// unsigned by adding 128 (av_top_k_bytes has the highest bit flipped), and 128 Σ q
// is subtracted.
AV_VNNI static void pack_vnni(const top_k *t, int64_t row, int64_t rows, float *pack) {
	t->transpose(rows, t->words, t->q + row * t->words, t->words, pack, rows);
	int32_t *start = (int32_t *)(pack + rows * t->words);
	for (int64_t i = 0; i < rows; i++) {
		int32_t s = -128 * byte_sum((const int8_t *)(t->q + (row + i) * t->words), 4 * t->words);
		memcpy(start + i, &s, sizeof s);
	}
}

AV_VNNI static inline __attribute__((always_inline)) void vnni_rows(const int rows, const top_k *t, int64_t row,
                                                                    const float *pack, int64_t j, float *out) {
	const float *b = t->d->pack_b + j * t->words, *start = pack + rows * t->words;
	ivec s[14][2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) s[i][h] = (ivec)vec_broadcast(start + i);
	for (int64_t k = 0; k < t->words; k++, b += 32, pack += rows) {
		vec w[2];
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) w[h] = vec_load(b + 16 * h);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec x = vec_broadcast(pack + i);
			// Not the intrinsic: gcc 12 copies the sums around it, and spills them.
#pragma GCC unroll 2
			for (int h = 0; h < 2; h++) __asm__("vpdpbusd %2, %1, %0" : "+v"(s[i][h]) : "v"(w[h]), "v"(x));
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++)
			AV_(byte_scores)(t, s[i][h], t->q_scale[row + i], j + 16 * h, out + 32 * i + 16 * h);
}

AV_VNNI static void vnni_tile(const top_k *t, int64_t row, int64_t rows, const float *pack, int64_t j, float *out, int part) {
	(void)part;
	switch (rows) {
#define ROWS(n)                                                                                                        \
	case n: vnni_rows(n, t, row, pack, j, out); return;
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#undef ROWS
	}
}
#undef AV_VNNI
#endif

#undef pairs
#undef ivec
#undef AV_TILE_ROWS
