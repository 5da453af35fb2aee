// The loops of elementwise.c, once per instruction set (each_isa.h).
#include "fmath_vec.h"

AV_TARGET static void AV_(fill)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	for (int64_t i = begin; i < end; i++) e->dst[i] = e->alpha;
}

AV_TARGET static void AV_(add)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	float *dst = e->dst, alpha = e->alpha, beta = e->beta;
	const float *x = e->x, *y = e->y;
	if (!y) {
		AV_INDEPENDENT
		for (int64_t i = begin; i < end; i++) dst[i] = alpha * x[i];
		return;
	}
	AV_INDEPENDENT
	for (int64_t i = begin; i < end; i++) dst[i] = AV_FMAF(alpha, x[i], beta * y[i]);
}

AV_TARGET static void AV_(mul)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	float *dst = e->dst;
	const float *x = e->x, *y = e->y;
	if (e->acc) {
		AV_INDEPENDENT
		for (int64_t i = begin; i < end; i++) dst[i] = AV_FMAF(x[i], y[i], dst[i]);
		return;
	}
	AV_INDEPENDENT
	for (int64_t i = begin; i < end; i++) dst[i] = x[i] * y[i];
}

AV_TARGET static void AV_(keep)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	float *dst = e->dst;
	const float *x = e->x, *mask = e->y;
	AV_INDEPENDENT
	for (int64_t i = begin; i < end; i++) {
		float v = x[i];
		dst[i] = mask[i] <= 0 ? 0 : v; // a NaN in the mask keeps v
	}
}

AV_TARGET static void AV_(tanh_all)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	int64_t i = begin;
	for (; i + AV_LANES <= end; i += AV_LANES) vec_store(e->dst + i, AV_(fm_tanh)(vec_load(e->x + i)));
	if (i < end) vec_store_part(e->dst + i, AV_(fm_tanh)(vec_load_part(e->x + i, end - i)), end - i);
}

AV_INLINE vec AV_(gelu_one)(vec x) {
	vec half = AV_(fm_erfc_abs)(x * vec_set(0.70710678118654752f)) * vec_set(0.5f);
	return x * vec_pick((uvec)(x < vec_set(0)), half, vec_set(1) - half);
}

AV_TARGET static void AV_(gelu_all)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	int64_t i = begin;
	for (; i + AV_LANES <= end; i += AV_LANES) vec_store(e->dst + i, AV_(gelu_one)(vec_load(e->x + i)));
	if (i < end) vec_store_part(e->dst + i, AV_(gelu_one)(vec_load_part(e->x + i, end - i)), end - i);
}

// NaN stays NaN.
AV_TARGET static void AV_(clip_factor)(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	for (int64_t i = begin; i < end; i++) {
		float f = e->x[i] == 0 ? 1 : e->alpha / sqrtf(e->x[i]);
		e->dst[i] = f > 1 ? 1 : f;
	}
}
