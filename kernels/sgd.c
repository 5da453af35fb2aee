// One step of SGD with momentum, decay, an exponential average of the parameters,
// and Gaussian noise, in one pass over memory; and the noise by itself.
//
// The noise is counter-based: normal number i depends on (seed, step, i) alone,
// so that neither threads nor the instruction set change it. It is made NOISE_BLOCK
// numbers at a time in a small buffer that never leaves the first-level cache.
#include <string.h>

#include "device.h"

enum { NOISE_BLOCK = 128, SGD_GRAIN = 1 << 13 }; // the grain is a multiple of the block

typedef struct {
	float *p, *m, *e;
	const float *g;
	const av_sgd_step *s;
} sgd;

#define AV_TEMPLATE "sgd_loops.h"
#include "each_isa.h"

static const av_range_task sgds[] = AV_PICK(sgd_range), normals[] = AV_PICK(normal_range);

void av_sgd(av_cpu *d, float *p, float *m, float *e, const float *g, int64_t n, const av_sgd_step *s) {
	sgd t = {p, m, e, g, s};
	av_split(d, n, SGD_GRAIN, sgds[d->isa], &t);
}

void av_normal(av_cpu *d, float *dst, int64_t n, uint64_t seed, uint64_t step) {
	av_sgd_step s = {.seed = seed, .step = step};
	sgd t = {.p = dst, .s = &s};
	av_split(d, n, SGD_GRAIN, normals[d->isa], &t);
}
