// Sums along a row, in an order that is the same for every instruction set and
// thread count. Part of a template (each_isa.h).
//
// Element i of a chunk of SUM_CHUNK goes to lane i mod SUM_LANES; the lanes are
// added as a binary tree, and the chunks in ascending order, in double.
#ifndef AV_SUM_LANES
#define AV_SUM_LANES 32
#define AV_SUM_CHUNK 4096
#endif

AV_INLINE float AV_(lane_tree)(const vec *s) {
	float lanes[AV_SUM_LANES];
#pragma GCC unroll 8
	for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++) vec_store(lanes + v * AV_LANES, s[v]);
	for (int w = AV_SUM_LANES / 2; w > 0; w /= 2)
		for (int i = 0; i < w; i++) lanes[i] += lanes[i + w];
	return lanes[0];
}

// Σ x[i] y[i] over one chunk, or Σ x[i] where y is not used.
AV_INLINE float AV_(chunk_sum)(const int with_y, const float *x, const float *y, int64_t n) {
	vec s[AV_SUM_LANES / AV_LANES];
#pragma GCC unroll 8
	for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++) s[v] = vec_set(0);
	int64_t i = 0;
	for (; i + AV_SUM_LANES <= n; i += AV_SUM_LANES)
#pragma GCC unroll 8
		for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++) {
			vec a = vec_load(x + i + v * AV_LANES);
			s[v] = with_y ? vec_fma(a, vec_load(y + i + v * AV_LANES), s[v]) : s[v] + a;
		}
	if (i < n) {
		float xs[AV_SUM_LANES] = {0}, ys[AV_SUM_LANES] = {0};
		memcpy(xs, x + i, (size_t)(n - i) * sizeof *x);
		if (with_y) memcpy(ys, y + i, (size_t)(n - i) * sizeof *y);
#pragma GCC unroll 8
		for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++) {
			vec a = vec_load(xs + v * AV_LANES);
			s[v] = with_y ? vec_fma(a, vec_load(ys + v * AV_LANES), s[v]) : s[v] + a;
		}
	}
	return AV_(lane_tree)(s);
}

AV_TARGET static inline float AV_(chunk_dot)(const float *x, const float *y, int64_t n) {
	return y ? AV_(chunk_sum)(1, x, y, n) : AV_(chunk_sum)(0, x, x, n);
}

// Σ x[i] y[i], or Σ x[i] where y is NULL.
AV_TARGET static inline float AV_(row_dot)(const float *x, const float *y, int64_t n) {
	if (n <= AV_SUM_CHUNK) return AV_(chunk_dot)(x, y, n);
	double s = 0;
	for (int64_t i = 0; i < n; i += AV_SUM_CHUNK)
		s += (double)AV_(chunk_dot)(x + i, y ? y + i : y, n - i < AV_SUM_CHUNK ? n - i : AV_SUM_CHUNK);
	return (float)s;
}
