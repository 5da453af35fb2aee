// The loops of attention.c, once per instruction set (each_isa.h).
#include "fmath_vec.h"
#include "row_sum.h"

// Turns n scores s into exp(scale s + bias - max) and returns their sum. The row
// has room for padded numbers, whole vectors; those after the n become 0.
AV_TARGET static float AV_(scores_to_weights)(float *s, int64_t n, int64_t padded, float scale, const float *bias) {
	vec most = vec_set(-INFINITY);
	for (int64_t c = 0; c < padded; c += AV_LANES) {
		vec v = vec_load(s + c), b = vec_set(0);
		int64_t rest = n - c;
		if (rest >= AV_LANES) {
			if (bias) b = vec_load(bias + c);
			v = vec_fma(v, vec_set(scale), b);
		} else {
			if (rest < 0) rest = 0;
			if (bias && rest > 0) b = vec_load_part(bias + c, rest);
			v = vec_pick((uvec)(uvec_iota() < uvec_set((uint32_t)rest)), vec_fma(v, vec_set(scale), b), vec_set(-INFINITY));
		}
		vec_store(s + c, v);
		most = vec_pick((uvec)(v > most), v, most);
	}
	float lanes[AV_LANES], max = -INFINITY;
	vec_store(lanes, most);
	for (int l = 0; l < AV_LANES; l++) max = lanes[l] > max ? lanes[l] : max;
	for (int64_t c = 0; c < padded; c += AV_LANES) vec_store(s + c, AV_(fm_exp)(vec_load(s + c) - vec_set(max)));
	return AV_(row_dot)(s, NULL, n);
}

// dst[c] = x[c] / by
AV_TARGET static void AV_(divide)(float *dst, const float *x, int64_t n, float by) {
	for (int64_t c = 0; c < n; c++) dst[c] = x[c] / by;
}
