// Layer normalisation of a residual sum, row by row. A thread takes whole rows.
#include "device.h"

typedef struct {
	float *dst;
	const float *x, *y, *gain, *shift;
	int64_t cols;
	float stabilizer;
} layer_norm;

#define AV_TEMPLATE "layernorm_rows.h"
#include "each_isa.h"

void av_layer_norm(av_cpu *d, float *dst, const float *x, const float *y, const float *gain, const float *shift,
                   int64_t rows, int64_t cols, float stabilizer) {
	static const av_range_task tasks[] = AV_PICK(norm_rows);
	layer_norm t = {dst, x, y, gain, shift, cols, stabilizer};
	av_split(d, rows, av_row_grain(4 * cols), tasks[d->isa], &t);
}
