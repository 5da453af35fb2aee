// Softmax and cross-entropy, their tangents, and argmax, row by row. A thread
// takes whole rows, so the order within a row never depends on threads.
#include "device.h"

#include <math.h>
#include <string.h>

typedef struct {
	float *dst;
	double *loss;
	int32_t *index;
	const float *x, *dz;
	const int32_t *y;
	int64_t cols;
} softmax;

#define AV_TEMPLATE "softmax_rows.h"
#include "each_isa.h"

static const av_range_task softmaxes[] = AV_PICK(softmax_rows), tangents[] = AV_PICK(tangent_rows),
                           losses[] = AV_PICK(loss_rows), loss_tangents[] = AV_PICK(loss_tangent_rows);

// An exponential costs about as much as eight plain elements.
static int64_t exp_grain(int64_t cols) { return av_row_grain(cols * 8); }

// The first row whose label is not a column, or -1.
static int64_t bad_label(const int32_t *y, int64_t rows, int64_t cols) {
	for (int64_t r = 0; r < rows; r++)
		if (y[r] < 0 || y[r] >= cols) return r;
	return -1;
}

void av_softmax(av_cpu *d, float *prob, const float *z, int64_t rows, int64_t cols) {
	softmax t = {.dst = prob, .x = z, .cols = cols};
	av_split(d, rows, exp_grain(cols), softmaxes[d->isa], &t);
}

void av_softmax_tangent(av_cpu *d, float *dst, const float *p, const float *dz, int64_t rows, int64_t cols) {
	softmax t = {.dst = dst, .x = p, .dz = dz, .cols = cols};
	av_split(d, rows, av_row_grain(cols), tangents[d->isa], &t);
}

int64_t av_cross_entropy(av_cpu *d, float *loss, const float *z, const int32_t *y, int64_t rows, int64_t cols) {
	int64_t bad = bad_label(y, rows, cols);
	if (bad >= 0) return bad;
	softmax t = {.dst = loss, .x = z, .y = y, .cols = cols};
	av_split(d, rows, exp_grain(cols), losses[d->isa], &t);
	return -1;
}

int64_t av_cross_entropy_tangent(av_cpu *d, float *dst, const float *p, const float *dz, const int32_t *y,
                                 int64_t rows, int64_t cols) {
	int64_t bad = bad_label(y, rows, cols);
	if (bad >= 0) return bad;
	softmax t = {.dst = dst, .x = p, .dz = dz, .y = y, .cols = cols};
	av_split(d, rows, av_row_grain(cols), loss_tangents[d->isa], &t);
	return -1;
}

static void sub_one_hot_rows(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	float *dst = t->dst + begin * t->cols;
	const float *p = t->x + begin * t->cols;
	if (dst != p) memcpy(dst, p, (size_t)((end - begin) * t->cols) * sizeof *dst);
	for (int64_t r = begin; r < end; r++) t->dst[r * t->cols + t->y[r]] -= 1;
}

int64_t av_sub_one_hot(av_cpu *d, float *dst, const float *p, const int32_t *y, int64_t rows, int64_t cols) {
	int64_t bad = bad_label(y, rows, cols);
	if (bad >= 0) return bad;
	softmax t = {.dst = dst, .x = p, .y = y, .cols = cols};
	av_split(d, rows, av_row_grain(cols), sub_one_hot_rows, &t);
	return -1;
}

// u = log Σ_{c≠y} exp(z[c] - z[y]); the loss is log(1 + exp(u)).
static double loss_without_ties(const float *z, int32_t y, int64_t cols) {
	double max = -INFINITY, sum = 0;
	for (int64_t c = 0; c < cols; c++)
		if (c != y && z[c] > max) max = z[c];
	if (max == -INFINITY) max = 0; // nothing but the label: the sum below is 0, or NaN
	for (int64_t c = 0; c < cols; c++)
		if (c != y) sum += exp((double)z[c] - max);
	double u = log(sum) + (max - (double)z[y]);
	if (u < -30) return exp(u);
	return u > 0 ? u + log1p(exp(-u)) : log1p(exp(u));
}

static void loss64_rows(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	for (int64_t r = begin; r < end; r++) t->loss[r] = loss_without_ties(t->x + r * t->cols, t->y[r], t->cols);
}

int64_t av_loss64(av_cpu *d, double *loss, const float *z, const int32_t *y, int64_t rows, int64_t cols) {
	int64_t bad = bad_label(y, rows, cols);
	if (bad >= 0) return bad;
	softmax t = {.loss = loss, .x = z, .y = y, .cols = cols};
	av_split(d, rows, exp_grain(cols * 4), loss64_rows, &t);
	return -1;
}

static void argmax_rows(const void *arg, int64_t begin, int64_t end) {
	const softmax *t = arg;
	for (int64_t r = begin; r < end; r++) {
		const float *z = t->x + r * t->cols;
		int32_t best = 0;
		for (int64_t c = 1; c < t->cols; c++)
			if (z[c] > z[best]) best = (int32_t)c;
		t->index[r] = best;
	}
}

void av_argmax(av_cpu *d, int32_t *dst, const float *z, int64_t rows, int64_t cols) {
	softmax t = {.index = dst, .x = z, .cols = cols};
	av_split(d, rows, av_row_grain(cols), argmax_rows, &t);
}
