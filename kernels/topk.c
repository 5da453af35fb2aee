// The k largest products of each query with a bank: tiles of queries times bank
// as in gemm.c, looked through while they are in the first-level cache, so that
// the matrix of all products never exists.
//
// A block of the bank is packed into panels, the whole of k at once, by all
// threads together. Blocks of queries are then handed to the threads; each packs
// its queries, and takes one panel after the other, in ascending order, past all
// of them. A query's list is therefore filled by one thread in ascending order of
// slots, whatever the blocks are, and an equal score never displaces an earlier one.
//
// The numbers are those of gemm.c to the bit: one chain of fma in ascending k,
// and the bias last. Few of them get into a list, so nearly all work is the
// product's.
#include <math.h>
#include <string.h>

#include "gemm.h"

enum {
	QUERY_ROWS = 112, // most queries in a block
	PACK_PANELS = 4,  // panels of the bank that one thread packs at once
};

typedef struct {
	av_cpu *d;
	const tile_set *tiles;
	transpose_fn transpose;
	void (*scan)(const float *tile, int64_t rows, int64_t k, int32_t first, float *least, float *score, int32_t *slot);
	const av_top_k_shape *s;
	const float *q, *bank, *bias;
	float *score;
	int32_t *slot;
	int64_t n0, nc;   // the block of the bank
	int64_t panel;    // candidates in a panel
	int64_t rows;     // queries in a tile
	int64_t block;    // queries in a block, whole tiles
	int64_t k_blocks; // into which dim is cut, so that a panel's part stays in the cache
} top_k;

// Puts x before all that are smaller, and drops the last.
static void top_insert(float *score, int32_t *slot, int64_t k, float x, int32_t at) {
	int64_t j = k - 1;
	for (; j > 0 && score[j - 1] < x; j--) {
		score[j] = score[j - 1];
		slot[j] = slot[j - 1];
	}
	score[j] = x;
	slot[j] = at;
}

#define AV_TEMPLATE "topk_scan.h"
#include "each_isa.h"

// The packed biases follow the panels.
static float *packed_bias(const top_k *t) { return t->d->pack_b + div_up(t->nc, t->panel) * t->panel * t->s->dim; }

// Packs PACK_PANELS panels: pack[(panel * dim + k) * width + j]. Beyond the last
// candidate there are zeros, with a bias that keeps them out of every list.
static void pack_bank(const void *arg, int64_t chunk, int worker) {
	const top_k *t = arg;
	(void)worker;
	int64_t dim = t->s->dim;
	for (int64_t j = chunk * PACK_PANELS * t->panel; j < min64((chunk + 1) * PACK_PANELS * t->panel, t->nc); j += t->panel) {
		int64_t n = min64(t->panel, t->nc - j);
		float *dst = t->d->pack_b + j * dim, *bias = packed_bias(t) + j;
		if (n < t->panel) memset(dst, 0, (size_t)(t->panel * dim) * sizeof *dst);
		t->transpose(n, dim, t->bank + (t->n0 + j) * dim, dim, dst, t->panel);
		for (int64_t i = 0; i < t->panel; i++) bias[i] = i < n ? t->bias ? t->bias[t->n0 + j + i] : 0 : -INFINITY;
	}
}

// One block of queries with the block of the bank.
static void top_block(const void *arg, int64_t chunk, int worker) {
	const top_k *t = arg;
	int64_t dim = t->s->dim, k = t->s->k, row0 = chunk * t->block, n = min64(t->block, t->s->queries - row0);
	float *score = t->score + row0 * k, *pack = t->d->pack_a[worker];
	int32_t *slot = t->slot + row0 * k;
	float tiles[QUERY_ROWS * 2 * MAX_LANES], least[QUERY_ROWS];
	for (int64_t i = 0; i < n; i += t->rows) {
		int64_t rows = min64(t->rows, n - i);
		t->transpose(rows, dim, t->q + (row0 + i) * dim, dim, pack + i * dim, rows);
	}
	for (int64_t i = 0; i < n; i++) {
		if (t->n0 == 0 && !t->s->acc)
			for (int64_t j = 0; j < k; j++) {
				score[i * k + j] = -INFINITY;
				slot[i * k + j] = -1;
			}
		least[i] = score[i * k + k - 1];
	}
	for (int64_t j = 0; j < t->nc; j += t->panel) {
		const float *panel = t->d->pack_b + j * dim;
		for (int64_t b = 0; b < t->k_blocks; b++) {
			int64_t k0 = dim * b / t->k_blocks, kc = dim * (b + 1) / t->k_blocks - k0;
			const float *bias = b + 1 == t->k_blocks ? packed_bias(t) + j : NULL;
			for (int64_t i = 0; i < n; i += t->rows) {
				int64_t rows = min64(t->rows, n - i);
				t->tiles->packed[1][rows](kc, pack + i * dim + k0 * rows, 0, panel + k0 * t->panel, t->panel, tiles + i * t->panel,
				                          t->panel, bias, b > 0 ? TILE_LOAD : 0);
			}
		}
		t->scan(tiles, n, k, (int32_t)(t->s->first + t->n0 + j), least, score, slot);
	}
}

void av_top_k(av_cpu *d, float *score, int32_t *slot, const float *q, const float *bank, const float *bias,
              const av_top_k_shape *s) {
	if (s->queries == 0) return;
	static void (*const scans[])(const float *, int64_t, int64_t, int32_t, float *, float *, int32_t *) = AV_PICK(scan);
	top_k t = {
	    .d = d,
	    .tiles = av_tiles(d),
	    .transpose = av_transpose(d),
	    .scan = scans[d->isa],
	    .s = s,
	    .q = q,
	    .bank = bank,
	    .bias = bias,
	    .score = score,
	    .slot = slot,
	};
	t.panel = 2 * t.tiles->lanes;
	t.rows = t.tiles->max_rows[1];
	t.k_blocks = s->dim > 0 ? div_up(s->dim, t.tiles->block_k) : 1;
	// Whole tiles, as many as the packed block has room for (its transposes may
	// write MAX_LANES further), and no more than leave a few pieces to each thread.
	int64_t room = (PACK_A - MAX_LANES) / (s->dim > 0 ? s->dim : 1), pieces = 4 * (int64_t)av_pool_threads(d->pool);
	if (room < t.rows) t.rows = room;
	int64_t most = min64(min64(QUERY_ROWS, room) / t.rows, div_up(div_up(s->queries, t.rows), pieces));
	t.block = most * t.rows;
	int64_t wide = (PACK_B - MAX_LANES) / (s->dim + 1) / t.panel * t.panel;
	// An empty bank still empties the lists.
	for (t.n0 = 0; t.n0 < s->bank || t.n0 == 0; t.n0 += wide) {
		t.nc = min64(wide, s->bank - t.n0);
		av_pool_run(d->pool, div_up(t.nc, PACK_PANELS * t.panel), pack_bank, &t);
		av_pool_run(d->pool, div_up(s->queries, t.block), top_block, &t);
	}
}
