// Opening and closing of the CPU device, and the split of plain loops.
#include "device.h"

#include <stdlib.h>

#include "gemm.h"

int av_best_isa(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return AV_PORTABLE;
#if defined(AV_EMULATE_AVX512)
	return AV_AVX512;
#endif
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		return AV_AVX512;
	return AV_AVX2;
#else
	return AV_PORTABLE;
#endif
}

av_cpu *av_open(int threads, int isa) {
	av_cpu *d = calloc(1, sizeof *d);
	if (!d) return NULL;
	d->isa = isa;
	d->pool = av_pool_open(threads);
	if (!d->pool || av_gemm_open(d) != 0) {
		av_close(d);
		return NULL;
	}
	return d;
}

void av_close(av_cpu *d) {
	if (d->pool) {
		av_gemm_close(d);
		av_pool_close(d->pool);
	}
	free(d->partials);
	free(d);
}

typedef struct {
	av_range_task task;
	const void *arg;
	int64_t n, piece;
} split;

static void run_piece(const void *arg, int64_t chunk, int worker) {
	const split *s = arg;
	(void)worker;
	int64_t begin = chunk * s->piece, end = begin + s->piece;
	s->task(s->arg, begin, end < s->n ? end : s->n);
}

void av_split(av_cpu *d, int64_t n, int64_t grain, av_range_task task, const void *arg) {
	if (n <= 0) return;
	// Four pieces per thread even out what other programs take from a core.
	int64_t grains = (n + grain - 1) / grain, pieces = 4 * (int64_t)av_pool_threads(d->pool);
	int64_t per = (grains + pieces - 1) / pieces;
	split s = {task, arg, n, per * grain};
	av_pool_run(d->pool, (n + s.piece - 1) / s.piece, run_piece, &s);
}

double *av_partials(av_cpu *d, int64_t n) {
	if (n > d->partials_cap) {
		double *p = realloc(d->partials, (size_t)n * sizeof *p);
		if (!p) return NULL;
		d->partials = p;
		d->partials_cap = n;
	}
	return d->partials;
}

int64_t av_row_grain(int64_t cols) { return cols >= 16384 ? 1 : 16384 / (cols > 0 ? cols : 1); }
