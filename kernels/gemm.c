// Matrix products: dst = act((acc ? dst : 0) + op(a) op(b) + bias).
//
// Blocking. B is packed, a block of block_k x BLOCK_N at a time, into panels as
// wide as a register tile, by all threads together. Blocks of rows of A are then
// handed to the threads; each packs its rows into tiles (so that a tile reads A
// with stride one) and multiplies them with every panel. One panel (block_k x 16
// or 32 numbers, 25 to 32 KB) stays in the first-level cache while the tiles of A
// stream past it from the second level at 4 bytes a cycle; the packed rows of A
// (at most BLOCK_M) take about half of a second level of 512 KB.
//
// The bit rule. Each number of C is one chain s = fma(a, b, s) in ascending k,
// from 0 or from dst. A later block of k loads C as the start of its chain, which
// is exact; a partial sum is never added afterwards. So neither the blocks, nor
// the threads, nor accumulating over microbatches change a bit.
//
// Narrow C (at most NARROW columns, the logits of a network) would waste most of
// a tile two vectors wide, and packing A costs as much as multiplying it. If A is
// stored by rows its tiles are read in place. If it is stored by columns (the
// weight gradient) the product is computed transposed: vectors run along the
// rows of C, which are contiguous in A, and the few columns of B are broadcast.
#define _GNU_SOURCE // madvise
#include "gemm.h"

#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

enum {
	BLOCK_M = 192,   // most rows in a block of A
	BLOCK_N = 2048,  // most columns in a block of B
	MAX_BLOCK_K = 400,
	NARROW = 16,     // most columns of a narrow product
	PACK_PANELS = 4, // panels of B that one thread packs side by side
	HUGE_PAGE = 2 << 20,
	PARALLEL_WORK = 1 << 17, // multiplications below which waking a worker does not pay
};
_Static_assert(MAX_BLOCK_K * (BLOCK_N + 2 * MAX_LANES) <= PACK_B, "a block of B");
_Static_assert(MAX_BLOCK_K * (BLOCK_M + 2 * MAX_TILE_ROWS) <= PACK_A, "a block of A");

#define AV_TEMPLATE "gemm_tile.h"
#include "each_isa.h"

typedef void (*copy_fn)(int64_t n, int64_t width, int64_t kc, const float *src, int64_t ld, float *dst);

#if defined(__x86_64__)
static const tile_set *const tile_sets[] = {&tiles_portable, &tiles_avx2, &tiles_avx512};
#else
static const tile_set *const tile_sets[] = {&tiles_portable, &tiles_portable, &tiles_portable};
#endif
static const transpose_fn transposes[] = AV_PICK(transpose);
static const copy_fn panel_copies[] = AV_PICK(copy_panels);

// One product under way: the operands, and the block that the threads share.
typedef struct {
	av_cpu *d;
	const tile_set *tiles;
	transpose_fn transpose;
	copy_fn copy_panels;
	const av_gemm_shape *s;
	const float *a, *b, *bias;
	float *c;
	int64_t k0, kc; // the block of k
	int64_t n0, nc; // the block of columns
	int width;      // vectors in a tile
	int panel;      // columns in a panel of B: width * lanes
	int64_t rows;   // of A in a tile
	int64_t row_tiles, row_blocks;
	int64_t groups; // of panels
	int flags; // of this block's tiles
} product;

const tile_set *av_tiles(const av_cpu *d) { return tile_sets[d->isa]; }
transpose_fn av_transpose(const av_cpu *d) { return transposes[d->isa]; }

// The packed blocks lie together in huge pages if the system has them: they are
// streamed through over and over, and a small page ends every prefetch.
int av_gemm_open(av_cpu *d) {
	size_t threads = (size_t)av_pool_threads(d->pool);
	size_t b_size = PACK_B, a_size = PACK_A;
	size_t bytes = (b_size + threads * a_size) * sizeof(float);
	bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	d->pack_b = aligned_alloc(HUGE_PAGE, bytes);
	d->pack_a = calloc(threads, sizeof *d->pack_a);
	if (!d->pack_b || !d->pack_a) return -1;
#if defined(__linux__)
	madvise(d->pack_b, bytes, MADV_HUGEPAGE); // refusing it is no failure
#endif
	for (size_t i = 0; i < threads; i++) d->pack_a[i] = d->pack_b + b_size + i * a_size;
	return 0;
}

void av_gemm_close(av_cpu *d) {
	free(d->pack_a);
	free(d->pack_b);
}

// Packs PACK_PANELS panels from number chunk*PACK_PANELS on:
// pack[(panel * kc + k) * width + j], zeros beyond the last column.
static void pack_panels(const void *arg, int64_t chunk, int worker) {
	const product *p = arg;
	(void)worker;
	int64_t j = chunk * PACK_PANELS * p->panel, n = min64(PACK_PANELS * p->panel, p->nc - j), col = p->n0 + j;
	float *dst = p->d->pack_b + j * p->kc;
	int64_t rest = n % p->panel;
	if (rest) memset(dst + (n - rest) * p->kc, 0, (size_t)(p->panel * p->kc) * sizeof *dst);
	if (!p->s->trans_b) {
		p->copy_panels(n, p->panel, p->kc, p->b + p->k0 * p->s->n + col, p->s->n, dst);
		return;
	}
	for (int64_t i = 0; i < n; i += p->panel)
		p->transpose(min64(p->panel, n - i), p->kc, p->b + (col + i) * p->s->k + p->k0, p->s->k, dst + i * p->kc, p->panel);
}

// A tile at the right edge: through a copy as wide as the tile.
static void edge_tile(const product *p, tile_fn f, int64_t rows, int64_t cols, const float *a, int64_t a_stride,
                      const float *b, float *c, const float *bias) {
	float wide[MAX_TILE_ROWS * 2 * MAX_LANES], wide_bias[2 * MAX_LANES] = {0};
	int64_t ld = p->s->n;
	if (p->flags & TILE_LOAD) {
		memset(wide, 0, sizeof wide);
		for (int64_t i = 0; i < rows; i++) memcpy(wide + i * p->panel, c + i * ld, (size_t)cols * sizeof *c);
	}
	if (bias) memcpy(wide_bias, bias, (size_t)cols * sizeof *bias);
	f(p->kc, a, a_stride, b, p->panel, wide, p->panel, bias ? wide_bias : NULL, p->flags);
	for (int64_t i = 0; i < rows; i++) memcpy(c + i * ld, wide + i * p->panel, (size_t)cols * sizeof *c);
}

// Multiplies rows [row0, row1) with panels [panel0, panel1). packed is the rows'
// A, or NULL.
static void multiply_tiles(const product *p, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                           const float *packed) {
	int64_t last_block = p->k0 + p->kc == p->s->k, n = p->s->n;
	tile_fn const *tiles = packed ? p->tiles->packed[p->width - 1] : p->tiles->by_rows[p->width - 1];
	for (int64_t j = panel0 * p->panel; j < panel1 * p->panel; j += p->panel) {
		int64_t col = p->n0 + j, cols = min64(p->panel, p->nc - j);
		const float *b = p->d->pack_b + j * p->kc;
		const float *bias = p->bias && last_block ? p->bias + col : NULL;
		for (int64_t row = row0; row < row1; row += p->rows) {
			int64_t rows = min64(p->rows, row1 - row);
			float *c = p->c + row * n + col;
			for (int64_t i = rows; i < 2 * rows && row + i < row1; i++) __builtin_prefetch(c + i * n); // the next tile's C
			const float *a = packed ? packed + (row - row0) * p->kc : p->a + row * p->s->k + p->k0;
			if (cols == p->panel) tiles[rows](p->kc, a, p->s->k, b, p->panel, c, n, bias, p->flags);
			else edge_tile(p, tiles[rows], rows, cols, a, p->s->k, b, c, bias);
		}
	}
}

// One block of rows with one group of panels. Packs the rows of A, unless they are
// read in place.
static void multiply_block(const void *arg, int64_t chunk, int worker) {
	const product *p = arg;
	int64_t block = chunk % p->row_blocks, group = chunk / p->row_blocks, panels = div_up(p->nc, p->panel);
	int64_t row0 = p->row_tiles * block / p->row_blocks * p->rows;
	int64_t row1 = min64(p->row_tiles * (block + 1) / p->row_blocks * p->rows, p->s->m);
	float *pack = p->d->pack_a[worker];
	if (p->s->trans_a) {
		int64_t n = row1 - row0, rest = n % p->rows;
		const float *a = p->a + p->k0 * p->s->m + row0;
		p->copy_panels(n - rest, p->rows, p->kc, a, p->s->m, pack);
		if (rest) p->copy_panels(rest, rest, p->kc, a + n - rest, p->s->m, pack + (n - rest) * p->kc);
	} else if (p->s->n > NARROW) {
		for (int64_t row = row0; row < row1; row += p->rows) {
			int64_t rows = min64(p->rows, row1 - row);
			p->transpose(rows, p->kc, p->a + row * p->s->k + p->k0, p->s->k, pack + (row - row0) * p->kc, rows);
		}
	} else {
		pack = NULL;
	}
	multiply_tiles(p, row0, row1, panels * group / p->groups, panels * (group + 1) / p->groups, pack);
}

// Runs one job on the pool, or here if the whole product is small.
static void run(const product *p, int64_t chunks, av_task task) {
	if (p->s->m * p->s->n * p->s->k >= PARALLEL_WORK) {
		av_pool_run(p->d->pool, chunks, task, p);
		return;
	}
	for (int64_t c = 0; c < chunks; c++) task(p, c, 0);
}

// Moves on to block number kb of k.
static void take_block(product *p, int64_t kb, int64_t k_blocks) {
	int64_t k = p->s->k;
	p->k0 = k * kb / k_blocks;
	p->kc = k * (kb + 1) / k_blocks - p->k0;
	p->flags = p->k0 > 0 || p->s->acc ? TILE_LOAD : 0;
	if (p->s->relu && p->k0 + p->kc == k) p->flags |= TILE_RELU;
}

static void by_blocks(product *p) {
	const av_gemm_shape *s = p->s;
	int64_t threads = av_pool_threads(p->d->pool);
	p->width = s->n <= p->tiles->lanes ? 1 : 2;
	p->panel = p->width * p->tiles->lanes;
	p->rows = p->tiles->max_rows[p->width - 1];
	p->row_tiles = div_up(s->m, p->rows);
	// A few pieces for each thread, the same number for each, so that one which loses
	// its core delays the others little; too few rows for that are split by columns.
	int64_t most_tiles = BLOCK_M / p->rows;
	p->row_blocks = div_up(p->row_tiles, most_tiles);
	p->groups = 1;
	if (threads > 1) {
		int64_t pieces = threads * (1 + div_up(p->row_blocks, threads));
		p->row_blocks = min64(p->row_tiles, pieces);
		p->groups = min64(div_up(pieces, p->row_blocks), div_up(min64(s->n, BLOCK_N), p->panel));
	}
	int64_t k_blocks = s->k > 0 ? div_up(s->k, p->tiles->block_k) : 1;
	for (p->n0 = 0; p->n0 < s->n; p->n0 += BLOCK_N) {
		p->nc = min64(BLOCK_N, s->n - p->n0);
		for (int64_t kb = 0; kb < k_blocks; kb++) {
			take_block(p, kb, k_blocks);
			run(p, div_up(p->nc, PACK_PANELS * p->panel), pack_panels);
			run(p, p->row_blocks * p->groups, multiply_block);
		}
	}
}

// Rows [chunk * panel, …) of a narrow C, computed as a tile of its transpose:
// the tile's rows are C's columns, its vectors run along C's rows.
static void multiply_transposed(const void *arg, int64_t chunk, int worker) {
	const product *p = arg;
	const av_gemm_shape *s = p->s;
	int64_t row = chunk * p->panel, rows = min64(p->panel, s->m - row);
	const float *a = p->a + p->k0 * s->m + row;
	int64_t a_stride = s->m;
	if (rows < p->panel) { // the last rows: a vector would read past the end
		float *pad = p->d->pack_a[worker];
		memset(pad, 0, (size_t)(p->kc * p->panel) * sizeof *pad);
		p->copy_panels(rows, p->panel, p->kc, a, a_stride, pad);
		a = pad;
		a_stride = p->panel;
	}
	float *c = p->c + row * s->n, tile[MAX_TILE_ROWS * 2 * MAX_LANES];
	int64_t tiles = div_up(s->n, p->tiles->max_rows[p->width - 1]);
	for (int64_t t = 0; t < tiles; t++) {
		int64_t col = s->n * t / tiles, cols = s->n * (t + 1) / tiles - col;
		if (p->flags & TILE_LOAD) {
			memset(tile, 0, sizeof tile);
			for (int64_t i = 0; i < rows; i++)
				for (int64_t j = 0; j < cols; j++) tile[j * p->panel + i] = c[i * s->n + col + j];
		}
		p->tiles->packed[p->width - 1][cols](p->kc, p->d->pack_b + col * p->kc, 0, a, a_stride, tile, p->panel, NULL,
		                                     p->flags & TILE_LOAD);
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < cols; j++) {
				float v = tile[j * p->panel + i];
				if (p->bias && p->k0 + p->kc == s->k) v += p->bias[col + j];
				c[i * s->n + col + j] = (p->flags & TILE_RELU) && v <= 0 ? 0 : v;
			}
	}
}

static void by_transposed(product *p) {
	const av_gemm_shape *s = p->s;
	// One vector and all columns at once if the registers suffice for them.
	p->width = s->n <= p->tiles->max_rows[1] ? 2 : 1;
	p->panel = p->width * p->tiles->lanes;
	int64_t tiles = div_up(s->n, p->tiles->max_rows[p->width - 1]);
	int64_t k_blocks = s->k > 0 ? div_up(s->k, p->tiles->block_k) : 1;
	for (int64_t kb = 0; kb < k_blocks; kb++) {
		take_block(p, kb, k_blocks);
		for (int64_t t = 0; t < tiles; t++) {
			int64_t col = s->n * t / tiles, cols = s->n * (t + 1) / tiles - col;
			float *dst = p->d->pack_b + col * p->kc;
			if (s->trans_b) p->transpose(cols, p->kc, p->b + col * s->k + p->k0, s->k, dst, cols);
			else p->copy_panels(cols, cols, p->kc, p->b + p->k0 * s->n + col, s->n, dst);
		}
		run(p, div_up(s->m, p->panel), multiply_transposed);
	}
}

void av_gemm(av_cpu *d, float *dst, const float *a, const float *b, const float *bias, const av_gemm_shape *s) {
	if (s->m == 0 || s->n == 0) return;
	product p = {
	    .d = d,
	    .tiles = tile_sets[d->isa],
	    .transpose = transposes[d->isa],
	    .copy_panels = panel_copies[d->isa],
	    .s = s,
	    .a = a,
	    .b = b,
	    .bias = bias,
	    .c = dst,
	};
	if (s->trans_a && s->n <= NARROW && s->m >= 2 * NARROW) by_transposed(&p);
	else by_blocks(&p);
}
