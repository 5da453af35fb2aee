// The rows of topk.c, once per instruction set (each_isa.h).

// A bit for each lane in which the comparison that made m holds.
AV_INLINE uint32_t AV_(top_bits)(uvec m) {
#if AV_LEVEL == 2 && !defined(AV_EMULATE_AVX512)
	return _mm512_movepi32_mask((__m512i)m);
#elif AV_LEVEL == 1
	return (uint32_t)_mm256_movemask_ps((__m256)m);
#else
	uint32_t bits = 0;
	for (int i = 0; i < AV_LANES; i++) bits |= (m[i] >> 31) << i;
	return bits;
#endif
}

// Columns [from, to) one by one.
AV_INLINE void AV_(top_scan)(const top_k *t, const float *z, int64_t from, int64_t to, float *score, int32_t *slot) {
	int64_t k = t->k;
	for (int64_t c = from; c < to; c++)
		if (z[c] > score[k - 1] || (slot[k - 1] < 0 && z[c] == z[c])) top_insert(score, slot, k, z[c], (int32_t)(t->first + c));
}

AV_TARGET static void AV_(top_k_rows)(const void *arg, int64_t begin, int64_t end) {
	const top_k *t = arg;
	int64_t k = t->k, cols = t->cols;
	for (int64_t r = begin; r < end; r++) {
		const float *z = t->z + r * cols;
		float *score = t->score + r * k;
		int32_t *slot = t->slot + r * k;
		if (!t->acc)
			for (int64_t j = 0; j < k; j++) {
				score[j] = -INFINITY;
				slot[j] = -1;
			}
		// Until the list is full anything but a NaN belongs in it; from then on
		// few do, and vectors are passed over at once.
		int64_t c = 0;
		while (c < cols && slot[k - 1] < 0) {
			AV_(top_scan)(t, z, c, c + 1, score, slot);
			c++;
		}
		for (; c + 2 * AV_LANES <= cols; c += 2 * AV_LANES) {
			vec least = vec_set(score[k - 1]);
			uvec m0 = (uvec)(vec_load(z + c) > least), m1 = (uvec)(vec_load(z + c + AV_LANES) > least);
			uint32_t bits = AV_(top_bits)(m0 | m1);
			if (bits) AV_(top_scan)(t, z, c, c + 2 * AV_LANES, score, slot);
		}
		AV_(top_scan)(t, z, c, cols, score, slot);
	}
}
