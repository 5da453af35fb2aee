// The scan of topk.c, once per instruction set (each_isa.h).

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
