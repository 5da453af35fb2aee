// The rows of layernorm.c, once per instruction set (each_isa.h).
#include "row_sum.h"

// The sum, and then the deviations, are kept in dst, which may be x or y. The
// variance is that of the deviations: E h² - (E h)² would cancel.
AV_TARGET static void AV_(norm_rows)(const void *arg, int64_t begin, int64_t end) {
	const layer_norm *t = arg;
	int64_t cols = t->cols;
	const float *gain = t->gain, *shift = t->shift;
	for (int64_t r = begin; r < end; r++) {
		float *dst = t->dst + r * cols;
		const float *x = t->x + r * cols, *y = t->y ? t->y + r * cols : NULL;
		float sum;
		if (y) {
			AV_INDEPENDENT
			for (int64_t c = 0; c < cols; c++) dst[c] = x[c] + y[c];
			sum = AV_(row_dot)(dst, NULL, cols);
		} else {
			sum = AV_(row_dot)(x, NULL, cols);
			if (dst != x) memcpy(dst, x, (size_t)cols * sizeof *dst);
		}
		float mean = sum / (float)cols;
		AV_INDEPENDENT
		for (int64_t c = 0; c < cols; c++) dst[c] = dst[c] - mean;
		float variance = AV_(row_dot)(dst, dst, cols) / (float)cols;
		float scale = 1.0f / sqrtf(variance + t->stabilizer);
		AV_INDEPENDENT
		for (int64_t c = 0; c < cols; c++) dst[c] = AV_FMAF(dst[c] * scale, gain[c], shift[c]);
	}
}
