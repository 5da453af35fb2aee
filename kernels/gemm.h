// What gemm.c shares: the register tile and the packing of its operands, which
// are in gemm_tile.h, and the memory that blocks are packed into.
#ifndef AV_GEMM_H
#define AV_GEMM_H

#include "device.h"

enum {
	MAX_TILE_ROWS = 16,
	MAX_LANES = 16,
	PACK_B = 832000, // numbers in pack_b: a block of B
	PACK_A = 89600,  // numbers in each pack_a: a block of A
};

enum { TILE_LOAD = 1, TILE_RELU = 2 };

#define TILE_PARAMETERS                                                                                                \
	int64_t kc, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c, int64_t c_stride,          \
	    const float *bias, int flags
typedef void (*tile_fn)(TILE_PARAMETERS);

// The tiles of one instruction set: [width - 1][rows].
typedef struct {
	int lanes, block_k; // most of k in a block, so that a panel of B fits the first-level cache
	int max_rows[2];
	tile_fn packed[2][MAX_TILE_ROWS + 1];
	tile_fn by_rows[2][MAX_TILE_ROWS + 1];
} tile_set;

typedef void (*transpose_fn)(int64_t rows, int64_t kc, const float *src, int64_t ld, float *dst, int64_t stride);

// Those of the device's instruction set.
const tile_set *av_tiles(const av_cpu *d);
transpose_fn av_transpose(const av_cpu *d);

int av_gemm_open(av_cpu *d); // 0, or -1 without memory
void av_gemm_close(av_cpu *d);

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
