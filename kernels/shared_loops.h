// The loops of shared.c, once per instruction set (each_isa.h).
#include "row_sum.h"

// Rows [begin, end) of batch*rows; with PerCol every row has its batch's vector.
AV_TARGET static void AV_(scale_rows)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	int64_t cols = t->cols;
	for (int64_t r = begin; r < end; r++) {
		float *dst = t->dst + r * cols;
		const float *x = t->x + r * cols, *s = t->s + (t->per_col ? r / t->rows * cols : r);
		if (t->per_col && t->acc) {
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = AV_FMAF(x[c], s[c], dst[c]);
		} else if (t->per_col) {
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = x[c] * s[c];
		} else if (t->acc) {
			float f = *s;
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = AV_FMAF(x[c], f, dst[c]);
		} else {
			float f = *s;
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = x[c] * f;
		}
	}
}

AV_TARGET static void AV_(shift_rows)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	int64_t cols = t->cols;
	float alpha = t->alpha;
	for (int64_t r = begin; r < end; r++) {
		float *dst = t->dst + r * cols;
		const float *x = t->x + r * cols, *s = t->s + (t->per_col ? r / t->rows * cols : r);
		if (t->per_col) {
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = AV_FMAF(alpha, s[c], x[c]);
		} else {
			float f = *s;
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = AV_FMAF(alpha, f, x[c]);
		}
	}
}

AV_TARGET static void AV_(spread_rows)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	int64_t cols = t->cols;
	for (int64_t r = begin; r < end; r++) {
		float *dst = t->dst + r * cols;
		if (t->per_col) {
			memcpy(dst, t->s + r / t->rows * cols, (size_t)cols * sizeof *dst);
		} else {
			float f = t->s[r];
			for (int64_t c = 0; c < cols; c++) dst[c] = f;
		}
	}
}

AV_TARGET static void AV_(sum_rows)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	for (int64_t r = begin; r < end; r++) {
		float s = AV_(row_dot)(t->x + r * t->cols, t->y ? t->y + r * t->cols : NULL, t->cols);
		t->dst[r] = t->acc ? t->dst[r] + s : s;
	}
}

// Chunks [begin, end) of one long row: the first stage of its sum.
AV_TARGET static void AV_(sum_chunks)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	for (int64_t c = begin; c < end; c++) {
		int64_t i = c * AV_SUM_CHUNK, n = t->cols - i < AV_SUM_CHUNK ? t->cols - i : AV_SUM_CHUNK;
		t->partials[c] = (double)AV_(chunk_dot)(t->x + i, t->y ? t->y + i : NULL, n);
	}
}

// Column sums of x (or x*y) for a block of columns: each column is one chain in
// ascending rows, from dst if it accumulates.
AV_INLINE void AV_(sum_column_block)(const int with_y, const shared *t, int64_t batch, int64_t col) {
	const float *x = t->x + batch * t->rows * t->cols + col;
	const float *y = with_y ? t->y + batch * t->rows * t->cols + col : x;
	float *dst = t->dst + batch * t->cols + col;
	int64_t n = t->cols - col;
	if (n >= COLUMN_BLOCK) {
		vec s[COLUMN_BLOCK / AV_LANES];
#pragma GCC unroll 8
		for (int v = 0; v < COLUMN_BLOCK / AV_LANES; v++) s[v] = t->acc ? vec_load(dst + v * AV_LANES) : vec_set(0);
		for (int64_t r = 0; r < t->rows; r++, x += t->cols, y += t->cols)
#pragma GCC unroll 8
			for (int v = 0; v < COLUMN_BLOCK / AV_LANES; v++) {
				vec a = vec_load(x + v * AV_LANES);
				s[v] = with_y ? vec_fma(a, vec_load(y + v * AV_LANES), s[v]) : s[v] + a;
			}
#pragma GCC unroll 8
		for (int v = 0; v < COLUMN_BLOCK / AV_LANES; v++) vec_store(dst + v * AV_LANES, s[v]);
		return;
	}
	float s[COLUMN_BLOCK];
	for (int64_t c = 0; c < n; c++) s[c] = t->acc ? dst[c] : 0;
	for (int64_t r = 0; r < t->rows; r++, x += t->cols, y += t->cols)
		for (int64_t c = 0; c < n; c++) s[c] = with_y ? AV_FMAF(x[c], y[c], s[c]) : s[c] + x[c];
	for (int64_t c = 0; c < n; c++) dst[c] = s[c];
}

AV_TARGET static void AV_(sum_columns)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	int64_t blocks = (t->cols + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
	for (int64_t i = begin; i < end; i++) {
		if (t->y) AV_(sum_column_block)(1, t, i / blocks, i % blocks * COLUMN_BLOCK);
		else AV_(sum_column_block)(0, t, i / blocks, i % blocks * COLUMN_BLOCK);
	}
}

// x and y are the layer's input and the gradient of its output.
AV_TARGET static void AV_(sq_norm_rows)(const void *arg, int64_t begin, int64_t end) {
	const shared *t = arg;
	for (int64_t r = begin; r < end; r++) {
		const float *x = t->x + r * t->cols, *dy = t->y + r * t->y_cols;
		float s = AV_(row_dot)(dy, dy, t->y_cols) * (AV_(row_dot)(x, x, t->cols) + (t->bias ? 1.0f : 0.0f));
		t->dst[r] = t->acc ? t->dst[r] + s : s;
	}
}
