// What the CPU device holds, and how operations share their work.
#ifndef AV_DEVICE_H
#define AV_DEVICE_H

#include <stddef.h>

#include "abi.h"
#include "pool.h"

struct av_cpu {
	av_pool *pool;
	int isa;
	float *pack_b;    // one block of B for gemm, shared by the workers
	float **pack_a;   // one block of A per worker
	double *partials; // first stage of long sums
	int64_t partials_cap;
};

// Work on elements or rows [begin, end).
typedef void (*av_range_task)(const void *arg, int64_t begin, int64_t end);

// Splits [0, n) into pieces of at least grain (but for the last) and at multiples
// of it. Results may not depend on where the cuts are: they vary with the pool.
void av_split(av_cpu *d, int64_t n, int64_t grain, av_range_task task, const void *arg);

// Room for n doubles, or NULL.
double *av_partials(av_cpu *d, int64_t n);

// A grain in rows that makes a piece about as long as 16 Ki elements.
int64_t av_row_grain(int64_t cols);

#endif
