// Self-attention within sequences that lie one after the other, without padding.
//
// One piece of work is one head of one sequence. Its keys are packed into panels
// once, as gemm.c packs B. Then a tile of queries at a time, the height of a
// register tile: its scores with all keys, their softmax in place, and the product
// with the values. The scores of a tile stay in the nearest caches; a matrix of all
// scores never exists. Scores and sums of values are chains of fma in ascending
// order, as in gemm.c, and exponentials are added as in row_sum.h, so that bits
// depend on nothing but the sequence.
#include <math.h>
#include <string.h>

#include "gemm.h"

typedef struct {
	av_cpu *d;
	const av_attention_shape *s;
	float *dst;
	const float *qkv, *bias;
	const int32_t *offsets;
	float *scratch; // room for each worker
	int64_t room;
	int64_t panel; // columns in a tile
	int64_t rows;  // queries in a tile
} attention;

#define AV_TEMPLATE "attention_rows.h"
#include "each_isa.h"

static int64_t round_up(int64_t n, int64_t to) { return div_up(n, to) * to; }

// Columns [from, …) of n values, a panel of them, zeros beyond the last column.
static void pack_values(const attention *t, const float *v, int64_t stride, int64_t n, int64_t from, float *dst) {
	int64_t cols = min64(t->panel, t->s->dim - from);
	for (int64_t i = 0; i < n; i++, dst += t->panel) {
		memcpy(dst, v + i * stride + from, (size_t)cols * sizeof *dst);
		memset(dst + cols, 0, (size_t)(t->panel - cols) * sizeof *dst);
	}
}

static void attend(const void *arg, int64_t chunk, int worker) {
	static float (*const softmaxes[])(float *, int64_t, int64_t, float, const float *) = AV_PICK(scores_to_weights);
	static void (*const divides[])(float *, const float *, int64_t, float) = AV_PICK(divide);
	const attention *t = arg;
	const av_attention_shape *s = t->s;
	int64_t head = chunk % s->heads, token0 = t->offsets[chunk / s->heads], n = t->offsets[chunk / s->heads + 1] - token0;
	int64_t stride = 3 * s->heads * s->dim, width = s->heads * s->dim, padded = round_up(n, t->panel);
	const float *q = t->qkv + token0 * stride + head * s->dim, *k = q + width, *v = k + width;
	tile_fn const *tiles = av_tiles(t->d)->by_rows[1];
	int isa = t->d->isa;

	float *keys = t->scratch + worker * t->room, *scores = keys + padded * s->dim;
	float *values = scores + t->rows * padded, *out = values + padded * t->panel;
	for (int64_t j = 0; j < n; j += t->panel) {
		int64_t cols = min64(t->panel, n - j);
		float *panel = keys + j * s->dim;
		if (cols < t->panel) memset(panel, 0, (size_t)(t->panel * s->dim) * sizeof *panel);
		av_transpose(t->d)(cols, s->dim, k + j * stride, stride, panel, t->panel);
	}
	// The last columns of the values, if they do not fill a panel.
	int64_t whole = s->dim / t->panel * t->panel;
	if (whole < s->dim) pack_values(t, v, stride, n, whole, values);

	for (int64_t i = 0; i < n; i += t->rows) {
		int64_t rows = min64(t->rows, n - i);
		for (int64_t j = 0; j < n; j += t->panel)
			tiles[rows](s->dim, q + i * stride, stride, keys + j * s->dim, t->panel, scores + j, padded, NULL, 0);
		float sums[MAX_TILE_ROWS];
		for (int64_t r = 0; r < rows; r++) {
			const float *bias = t->bias ? t->bias + head * (2 * s->longest - 1) + s->longest - 1 - (i + r) : NULL;
			sums[r] = softmaxes[isa](scores + r * padded, n, padded, s->scale, bias);
		}
		for (int64_t j = 0; j < s->dim; j += t->panel) {
			int in_place = j < whole;
			tiles[rows](n, scores, padded, in_place ? v + j : values, in_place ? stride : t->panel, out, t->panel, NULL, 0);
			for (int64_t r = 0; r < rows; r++)
				divides[isa](t->dst + (token0 + i + r) * width + head * s->dim + j, out + r * t->panel,
				             min64(t->panel, s->dim - j), sums[r]);
		}
	}
}

int64_t av_attention(av_cpu *d, float *dst, const float *qkv, const int32_t *offsets, const float *bias,
                     const av_attention_shape *s) {
	int64_t longest = 0;
	for (int64_t i = 0; i <= s->sequences; i++) {
		int64_t from = i > 0 ? offsets[i - 1] : 0, n = offsets[i] - from;
		int last = i == s->sequences;
		if (n < 0 || (i == 0 && n > 0) || n > s->longest || offsets[i] > s->tokens || (last && offsets[i] != s->tokens)) return i;
		if (n > longest) longest = n;
	}
	if (s->tokens == 0 || s->heads == 0 || s->dim == 0) return -1;
	attention t = {
	    .d = d,
	    .s = s,
	    .dst = dst,
	    .qkv = qkv,
	    .bias = bias,
	    .offsets = offsets,
	    .panel = 2 * av_tiles(d)->lanes,
	    .rows = av_tiles(d)->max_rows[1],
	};
	int64_t padded = round_up(longest, t.panel);
	t.room = round_up(padded * (s->dim + t.rows + t.panel) + t.rows * t.panel + MAX_LANES, MAX_LANES);
	float *p = (float *)av_partials(d, t.room * av_pool_threads(d->pool) / 2 + MAX_LANES);
	if (!p) return AV_NO_MEMORY;
	t.scratch = p + (-(uintptr_t)p / sizeof *p) % MAX_LANES; // a vector begins at a cache line
	av_pool_run(d->pool, s->sequences * s->heads, attend, &t);
	return -1;
}
