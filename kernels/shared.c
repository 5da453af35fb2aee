// Operations between an array and a smaller one whose elements rows or columns
// share: scale, shift, spread, and the sums that are their adjoints; and the
// squared norms of per-example gradients.
//
// Sums along rows run in 32 lanes and chunks of fixed size (row_sum.h). Sums
// down columns are chains in ascending rows, so that accumulating over
// microbatches gives the bits of one batch; threads split the columns.
#include "device.h"

enum { COLUMN_BLOCK = 32 };

typedef struct {
	float *dst;
	const float *x, *y, *s;
	int64_t rows, cols, y_cols;
	float alpha;
	int per_col, acc, bias;
	double *partials;
} shared;

#define AV_TEMPLATE "shared_loops.h"
#include "each_isa.h"

static const av_range_task scales[] = AV_PICK(scale_rows), shifts[] = AV_PICK(shift_rows),
                           spreads[] = AV_PICK(spread_rows), row_sums[] = AV_PICK(sum_rows),
                           chunk_sums[] = AV_PICK(sum_chunks), column_sums[] = AV_PICK(sum_columns),
                           sq_norms[] = AV_PICK(sq_norm_rows);

static void over_rows(av_cpu *d, const av_per *p, av_range_task task, shared *t) {
	t->rows = p->rows;
	t->cols = p->cols;
	t->per_col = p->per_col;
	av_split(d, p->batch * p->rows, av_row_grain(p->cols), task, t);
}

void av_scale_by(av_cpu *d, float *dst, const float *x, const float *s, const av_per *p, int acc) {
	shared t = {.dst = dst, .x = x, .s = s, .acc = acc};
	over_rows(d, p, scales[d->isa], &t);
}

void av_shift(av_cpu *d, float *dst, const float *x, const float *s, float alpha, const av_per *p) {
	shared t = {.dst = dst, .x = x, .s = s, .alpha = alpha};
	over_rows(d, p, shifts[d->isa], &t);
}

void av_spread(av_cpu *d, float *dst, const float *s, const av_per *p) {
	shared t = {.dst = dst, .s = s};
	over_rows(d, p, spreads[d->isa], &t);
}

// One long row: its chunks are spread over the threads, and added in order.
static int sum_long_row(av_cpu *d, shared *t) {
	int64_t chunks = (t->cols + AV_SUM_CHUNK - 1) / AV_SUM_CHUNK;
	t->partials = av_partials(d, chunks);
	if (!t->partials) return 0;
	av_split(d, chunks, 4, chunk_sums[d->isa], t);
	double s = 0;
	for (int64_t c = 0; c < chunks; c++) s += t->partials[c];
	t->dst[0] = t->acc ? t->dst[0] + (float)s : (float)s;
	return 1;
}

void av_sum_mul(av_cpu *d, float *dst, const float *x, const float *y, const av_per *p, int acc) {
	shared t = {.dst = dst, .x = x, .y = y, .rows = p->rows, .cols = p->cols, .acc = acc};
	if (!p->per_col) {
		int64_t rows = p->batch * p->rows;
		if (rows == 1 && p->cols > 8 * AV_SUM_CHUNK && sum_long_row(d, &t)) return;
		av_split(d, rows, av_row_grain(p->cols), row_sums[d->isa], &t);
		return;
	}
	int64_t blocks = (p->cols + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
	av_split(d, p->batch * blocks, av_row_grain(p->rows * COLUMN_BLOCK), column_sums[d->isa], &t);
}

void av_sq_norm_outer(av_cpu *d, float *dst, const float *x, const float *dy, int64_t rows, int64_t xcols,
                      int64_t dycols, int bias, int acc) {
	shared t = {.dst = dst, .x = x, .y = dy, .cols = xcols, .y_cols = dycols, .bias = bias, .acc = acc};
	av_split(d, rows, av_row_grain(xcols + dycols), sq_norms[d->isa], &t);
}
