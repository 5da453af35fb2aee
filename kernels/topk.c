// The k largest of each row.
#include "device.h"

#include <math.h>

typedef struct {
	float *score;
	int32_t *slot;
	const float *z;
	int64_t cols, k, first;
	int acc;
} top_k;

// Puts x before all that are smaller, and drops the last. Places that hold
// nothing have slot -1 and count as smaller than -Inf.
static void top_insert(float *score, int32_t *slot, int64_t k, float x, int32_t at) {
	int64_t j = k - 1;
	for (; j > 0 && (slot[j - 1] < 0 || score[j - 1] < x); j--) {
		score[j] = score[j - 1];
		slot[j] = slot[j - 1];
	}
	score[j] = x;
	slot[j] = at;
}

#define AV_TEMPLATE "topk_rows.h"
#include "each_isa.h"

static const av_range_task tops[] = AV_PICK(top_k_rows);

void av_top_k(av_cpu *d, float *score, int32_t *slot, const float *z, int64_t rows, int64_t cols, int64_t k,
              int64_t first, int acc) {
	top_k t = {score, slot, z, cols, k, first, acc};
	av_split(d, rows, av_row_grain(cols + k), tops[d->isa], &t);
}
