// The rows of softmax.c, once per instruction set (each_isa.h).
#include "fmath_vec.h"
#include "row_sum.h"

// The largest of n numbers; NaN loses, and shows in the sum of exponentials.
AV_INLINE float AV_(row_max)(const float *z, int64_t n) {
	float best = -INFINITY;
	int64_t i = 0;
	if (n >= AV_LANES) {
		vec m = vec_load(z);
		for (i = AV_LANES; i + AV_LANES <= n; i += AV_LANES) {
			vec v = vec_load(z + i);
			m = vec_pick((uvec)(v > m), v, m);
		}
		float lanes[AV_LANES];
		vec_store(lanes, m);
		for (int l = 0; l < AV_LANES; l++) best = lanes[l] > best ? lanes[l] : best;
	}
	for (; i < n; i++) best = z[i] > best ? z[i] : best;
	return best;
}

AV_TARGET static void AV_(softmax_rows)(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	int64_t cols = t->cols;
	for (int64_t r = begin; r < end; r++) {
		const float *z = t->x + r * cols;
		float *p = t->dst + r * cols;
		vec max = vec_set(AV_(row_max)(z, cols));
		int64_t c = 0;
		for (; c + AV_LANES <= cols; c += AV_LANES) vec_store(p + c, AV_(fm_exp)(vec_load(z + c) - max));
		if (c < cols) vec_store_part(p + c, AV_(fm_exp)(vec_load_part(z + c, cols - c) - max), cols - c);
		float sum = AV_(row_dot)(p, NULL, cols);
		AV_INDEPENDENT
		for (c = 0; c < cols; c++) p[c] = p[c] / sum;
	}
}

AV_TARGET static void AV_(tangent_rows)(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	int64_t cols = t->cols;
	for (int64_t r = begin; r < end; r++) {
		const float *p = t->x + r * cols, *dz = t->dz + r * cols;
		float *dst = t->dst + r * cols, mean = AV_(row_dot)(p, dz, cols);
		AV_INDEPENDENT
		for (int64_t c = 0; c < cols; c++) dst[c] = p[c] * (dz[c] - mean);
	}
}

// Σ exp(z - max), in lanes as in row_sum.h; absent lanes add exp(-inf) = 0.
AV_INLINE float AV_(sum_exp)(const float *z, int64_t n, float max) {
	vec s[AV_SUM_LANES / AV_LANES];
#pragma GCC unroll 8
	for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++) s[v] = vec_set(0);
	for (int64_t i = 0; i < n; i += AV_SUM_LANES) {
		float pad[AV_SUM_LANES];
		const float *p = z + i;
		if (n - i < AV_SUM_LANES) {
			for (int l = 0; l < AV_SUM_LANES; l++) pad[l] = -INFINITY;
			memcpy(pad, p, (size_t)(n - i) * sizeof *p);
			p = pad;
		}
#pragma GCC unroll 8
		for (int v = 0; v < AV_SUM_LANES / AV_LANES; v++)
			if (v * AV_LANES < n - i) s[v] += AV_(fm_exp)(vec_load(p + v * AV_LANES) - vec_set(max));
	}
	return AV_(lane_tree)(s);
}

AV_TARGET static void AV_(loss_rows)(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	for (int64_t r = begin; r < end; r++) {
		const float *z = t->x + r * t->cols;
		float max = AV_(row_max)(z, t->cols);
		vec log_sum = AV_(fm_log)(vec_set(AV_(sum_exp)(z, t->cols, max)));
		t->dst[r] = log_sum[0] + (max - z[t->y[r]]);
	}
}

AV_TARGET static void AV_(loss_tangent_rows)(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	for (int64_t r = begin; r < end; r++) {
		const float *dz = t->dz + r * t->cols;
		t->dst[r] = AV_(row_dot)(t->x + r * t->cols, dz, t->cols) - dz[t->y[r]];
	}
}
