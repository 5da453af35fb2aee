// Operations on each element: fill, copy, add, mul, keep, tanh, GELU, clip factor.
// They are bound by memory; a piece of GRAIN elements takes several microseconds,
// below which a second thread does not pay.
#include <string.h>

#include "device.h"

enum { GRAIN = 1 << 14 };

typedef struct {
	float *dst;
	const float *x, *y;
	float alpha, beta;
	int acc;
} elementwise;

#define AV_TEMPLATE "elementwise_loops.h"
#include "each_isa.h"

static const av_range_task fills[] = AV_PICK(fill), adds[] = AV_PICK(add), muls[] = AV_PICK(mul),
                           keeps[] = AV_PICK(keep), tanhs[] = AV_PICK(tanh_all), gelus[] = AV_PICK(gelu_all),
                           clip_factors[] = AV_PICK(clip_factor);

void av_fill(av_cpu *d, float *dst, int64_t n, float value) {
	elementwise e = {.dst = dst, .alpha = value};
	av_split(d, n, GRAIN, fills[d->isa], &e);
}

static void copy(const void *arg, int64_t begin, int64_t end) {
	const elementwise *e = arg;
	memcpy(e->dst + begin, e->x + begin, (size_t)(end - begin) * sizeof *e->dst);
}

void av_copy(av_cpu *d, float *dst, const float *x, int64_t n) {
	elementwise e = {.dst = dst, .x = x};
	av_split(d, n, GRAIN, copy, &e);
}

void av_add(av_cpu *d, float *dst, const float *x, const float *y, int64_t n, float alpha, float beta) {
	elementwise e = {.dst = dst, .x = x, .y = y, .alpha = alpha, .beta = beta};
	av_split(d, n, GRAIN, adds[d->isa], &e);
}

void av_mul(av_cpu *d, float *dst, const float *x, const float *y, int64_t n, int acc) {
	elementwise e = {.dst = dst, .x = x, .y = y, .acc = acc};
	av_split(d, n, GRAIN, muls[d->isa], &e);
}

void av_keep(av_cpu *d, float *dst, const float *x, const float *mask, int64_t n) {
	elementwise e = {.dst = dst, .x = x, .y = mask};
	av_split(d, n, GRAIN, keeps[d->isa], &e);
}

void av_tanh(av_cpu *d, float *dst, const float *x, int64_t n) {
	elementwise e = {.dst = dst, .x = x};
	av_split(d, n, GRAIN / 4, tanhs[d->isa], &e);
}

void av_gelu(av_cpu *d, float *dst, const float *x, int64_t n) {
	elementwise e = {.dst = dst, .x = x};
	av_split(d, n, GRAIN / 4, gelus[d->isa], &e);
}

void av_clip_factor(av_cpu *d, float *dst, const float *sq, int64_t n, float clip) {
	elementwise e = {.dst = dst, .x = sq, .alpha = clip};
	av_split(d, n, GRAIN / 4, clip_factors[d->isa], &e);
}
