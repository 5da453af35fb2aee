// Moving rows and pixels: gather, and the crop-and-flip of images with its
// adjoint. Runs of memory are copied whole where they keep their order.
#include <string.h>

#include "device.h"

typedef struct {
	float *dst;
	const float *src;
	const int32_t *index;
	int64_t cols;
} gather;

static void gather_rows(const void *arg, int64_t begin, int64_t end) {
	const gather *g = arg;
	for (int64_t r = begin; r < end; r++)
		memcpy(g->dst + r * g->cols, g->src + g->index[r] * g->cols, (size_t)g->cols * sizeof *g->dst);
}

int64_t av_gather(av_cpu *d, float *dst, const float *src, const int32_t *index, int64_t rows, int64_t cols,
                  int64_t src_rows) {
	for (int64_t r = 0; r < rows; r++)
		if (index[r] < 0 || index[r] >= src_rows) return r;
	gather g = {dst, src, index, cols};
	av_split(d, rows, av_row_grain(cols), gather_rows, &g);
	return -1;
}

typedef struct {
	float *dst;
	const float *src;
	const int32_t *move;
	av_image im;
	int adjoint;
} crop_flip;

// Pixels [from, to) of a row come from pixel from+shift on.
static void shifted_row(float *dst, const float *src, int64_t width, int64_t channels, int64_t shift) {
	int64_t from = shift < 0 ? -shift : 0, to = shift > 0 ? width - shift : width;
	if (from > width) from = width;
	if (to < from) to = from;
	memset(dst, 0, (size_t)(from * channels) * sizeof *dst);
	if (to > from) memcpy(dst + from * channels, src + (from + shift) * channels, (size_t)((to - from) * channels) * sizeof *dst);
	memset(dst + to * channels, 0, (size_t)((width - to) * channels) * sizeof *dst);
}

// Pixel w of a row comes from pixel mirror-w.
static void mirrored_row(float *dst, const float *src, int64_t width, int64_t channels, int64_t mirror) {
	for (int64_t w = 0; w < width; w++, dst += channels) {
		int64_t from = mirror - w;
		if (from < 0 || from >= width) memset(dst, 0, (size_t)channels * sizeof *dst);
		else memcpy(dst, src + from * channels, (size_t)channels * sizeof *dst);
	}
}

// Rows of pixels [begin, end) of all images. Where the forward move reads pixel
// w + dx (or W-1-w + dx), the adjoint reads w - dx (or W-1-w + dx again: a
// mirrored move is its own inverse).
static void crop_flip_rows(const void *arg, int64_t begin, int64_t end) {
	const crop_flip *t = arg;
	int64_t height = t->im.h, row = t->im.w * t->im.c;
	for (int64_t r = begin; r < end; r++) {
		int64_t image = r / height, h = r % height;
		const int32_t *move = t->move + 3 * image;
		int64_t dy = move[0], dx = move[1], from = t->adjoint ? h - dy : h + dy;
		float *dst = t->dst + r * row;
		if (from < 0 || from >= height) {
			memset(dst, 0, (size_t)row * sizeof *dst);
			continue;
		}
		const float *src = t->src + (image * height + from) * row;
		if (move[2]) mirrored_row(dst, src, t->im.w, t->im.c, t->im.w - 1 + dx);
		else shifted_row(dst, src, t->im.w, t->im.c, t->adjoint ? -dx : dx);
	}
}

void av_crop_flip(av_cpu *d, float *dst, const float *src, const int32_t *move, const av_image *im, int adjoint) {
	crop_flip t = {dst, src, move, *im, adjoint};
	av_split(d, im->b * im->h, av_row_grain(im->w * im->c), crop_flip_rows, &t);
}
