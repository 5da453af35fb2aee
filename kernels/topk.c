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
// av_top_k computes the numbers of gemm.c to the bit: one chain of fma in
// ascending k, and the bias last. av_top_k_bytes adds products of bytes up in
// integers, which is exact in any order, and then rounds alike everywhere: a
// processor with the instruction for it multiplies 64 bytes where it multiplies
// 16 floats. Few scores get into a list, so nearly all work is the product's.
#include <math.h>
#include <string.h>

#include "gemm.h"

enum {
	QUERY_ROWS = 112, // most queries in a block
	PACK_PANELS = 4,  // panels of the bank that one thread packs at once
};

typedef struct top_k top_k;
struct top_k {
	av_cpu *d;
	transpose_fn transpose;
	const av_top_k_shape *s;
	const float *q, *bank; // of words: floats, or four bytes each
	const float *q_scale, *scale, *bias;
	float *score;
	int32_t *slot;
	int64_t words;  // in a row
	int64_t n0, nc; // the block of the bank
	int64_t panel;  // candidates in a panel
	int64_t rows;   // queries in a tile
	int64_t block;  // queries in a block, whole tiles

	// Packs rows queries into a tile, or scores it: out [rows, panel] of candidates
	// j on of the block.
	void (*pack)(const top_k *t, int64_t row, int64_t rows, float *pack);
	void (*tile)(const top_k *t, int64_t row, int64_t rows, const float *pack, int64_t j, float *out, int part);
	int parts; // into which a tile's k is cut, so that a panel's part stays in the cache
	int pack_words; // in a packed query, for each of its words
	uint32_t flip;  // bits of the bank's words that are packed flipped
	void (*scan)(const float *tiles, int64_t rows, int64_t k, int32_t first, float *least, float *score, int32_t *slot);
};

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

// The scales and biases of the packed candidates follow the panels.
static float *packed_scale(const top_k *t) { return t->d->pack_b + div_up(t->nc, t->panel) * t->panel * t->words; }
static float *packed_bias(const top_k *t) { return packed_scale(t) + div_up(t->nc, t->panel) * t->panel; }

static void flip_words(float *x, int64_t n, uint32_t bits) {
	for (int64_t i = 0; i < n; i++) {
		uint32_t w;
		memcpy(&w, x + i, sizeof w);
		w ^= bits;
		memcpy(x + i, &w, sizeof w);
	}
}

#define AV_TEMPLATE "topk_tile.h"
#include "each_isa.h"

// Packs PACK_PANELS panels: pack[(panel * words + k) * width + j]. Beyond the last
// candidate there are zeros, with a bias that keeps them out of every list.
static void pack_bank(const void *arg, int64_t chunk, int worker) {
	const top_k *t = arg;
	(void)worker;
	for (int64_t j = chunk * PACK_PANELS * t->panel; j < min64((chunk + 1) * PACK_PANELS * t->panel, t->nc); j += t->panel) {
		int64_t n = min64(t->panel, t->nc - j), at = t->n0 + j;
		float *dst = t->d->pack_b + j * t->words, *scale = packed_scale(t) + j, *bias = packed_bias(t) + j;
		if (n < t->panel) memset(dst, 0, (size_t)(t->panel * t->words) * sizeof *dst);
		t->transpose(n, t->words, t->bank + at * t->words, t->words, dst, t->panel);
		if (t->flip) flip_words(dst, t->panel * t->words, t->flip);
		for (int64_t i = 0; i < t->panel; i++) {
			scale[i] = i < n && t->scale ? t->scale[at + i] : 0;
			bias[i] = i < n ? t->bias ? t->bias[at + i] : 0 : -INFINITY;
		}
	}
}

static void pack_floats(const top_k *t, int64_t row, int64_t rows, float *pack) {
	t->transpose(rows, t->words, t->q + row * t->words, t->words, pack, rows);
}

static void float_tile(const top_k *t, int64_t row, int64_t rows, const float *pack, int64_t j, float *out, int part) {
	int64_t k0 = t->words * part / t->parts, kc = t->words * (part + 1) / t->parts - k0;
	(void)row;
	av_tiles(t->d)->packed[1][rows](kc, pack + k0 * rows, 0, t->d->pack_b + j * t->words + k0 * t->panel, t->panel, out,
	                                t->panel, part + 1 == t->parts ? packed_bias(t) + j : NULL, part > 0 ? TILE_LOAD : 0);
}

// One block of queries with the block of the bank.
static void top_block(const void *arg, int64_t chunk, int worker) {
	const top_k *t = arg;
	int64_t k = t->s->k, row0 = chunk * t->block, n = min64(t->block, t->s->queries - row0), wide = t->words * t->pack_words;
	float *score = t->score + row0 * k, *pack = t->d->pack_a[worker];
	int32_t *slot = t->slot + row0 * k;
	float tiles[QUERY_ROWS * 2 * MAX_LANES], least[QUERY_ROWS];
	for (int64_t i = 0; i < n; i += t->rows) t->pack(t, row0 + i, min64(t->rows, n - i), pack + i * wide);
	for (int64_t i = 0; i < n; i++) {
		if (t->n0 == 0 && !t->s->acc)
			for (int64_t j = 0; j < k; j++) {
				score[i * k + j] = -INFINITY;
				slot[i * k + j] = -1;
			}
		least[i] = score[i * k + k - 1];
	}
	for (int64_t j = 0; j < t->nc; j += t->panel) {
		for (int part = 0; part < t->parts; part++)
			for (int64_t i = 0; i < n; i += t->rows)
				t->tile(t, row0 + i, min64(t->rows, n - i), pack + i * wide, j, tiles + i * t->panel, part);
		t->scan(tiles, n, k, (int32_t)(t->s->first + t->n0 + j), least, score, slot);
	}
}

static void search(top_k *t) {
	static void (*const scans[])(const float *, int64_t, int64_t, int32_t, float *, float *, int32_t *) = AV_PICK(scan);
	av_cpu *d = t->d;
	const av_top_k_shape *s = t->s;
	if (s->queries == 0) return;
	t->transpose = av_transpose(d);
	t->scan = scans[d->isa];
	t->panel = 2 * av_tiles(d)->lanes;
	t->rows = av_tiles(d)->max_rows[1];
	// Whole tiles, as many as the packed block has room for (a transpose may write
	// MAX_LANES further), and no more than leave a few pieces to each thread.
	int64_t wide = t->words * t->pack_words, room = (PACK_A - MAX_LANES) / (wide > 0 ? wide : 1);
	int64_t pieces = 4 * (int64_t)av_pool_threads(d->pool);
	t->rows = min64(t->rows, room);
	t->block = min64(min64(QUERY_ROWS, room) / t->rows, div_up(div_up(s->queries, t->rows), pieces)) * t->rows;
	int64_t most = PACK_B / (t->words + 2) / t->panel * t->panel;
	// An empty bank still empties the lists.
	for (t->n0 = 0; t->n0 < s->bank || t->n0 == 0; t->n0 += most) {
		t->nc = min64(most, s->bank - t->n0);
		av_pool_run(d->pool, div_up(t->nc, PACK_PANELS * t->panel), pack_bank, t);
		av_pool_run(d->pool, div_up(s->queries, t->block), top_block, t);
	}
}

void av_top_k(av_cpu *d, float *score, int32_t *slot, const float *q, const float *bank, const float *bias,
              const av_top_k_shape *s) {
	int64_t parts = div_up(s->dim, av_tiles(d)->block_k);
	top_k t = {
	    .d = d,
	    .s = s,
	    .q = q,
	    .bank = bank,
	    .bias = bias,
	    .score = score,
	    .slot = slot,
	    .words = s->dim,
	    .pack = pack_floats,
	    .tile = float_tile,
	    .parts = parts > 0 ? (int)parts : 1,
	    .pack_words = 1,
	};
	search(&t);
}

// The words are moved as floats and never computed with.
void av_top_k_bytes(av_cpu *d, float *score, int32_t *slot, const int32_t *q, const int32_t *bank, const float *q_scale,
                    const float *scale, const float *bias, const av_top_k_shape *s) {
	static void (*const packs[])(const top_k *, int64_t, int64_t, float *) = AV_PICK(pack_bytes);
	static void (*const tiles[])(const top_k *, int64_t, int64_t, const float *, int64_t, float *, int) = AV_PICK(byte_tile);
	top_k t = {
	    .d = d,
	    .s = s,
	    .q = (const float *)q,
	    .bank = (const float *)bank,
	    .q_scale = q_scale,
	    .scale = scale,
	    .bias = bias,
	    .score = score,
	    .slot = slot,
	    .words = s->dim / 4,
	    .pack = packs[d->isa],
	    .tile = tiles[d->isa],
	    .parts = 1,
	    .pack_words = 2,
	};
#if defined(__x86_64__) && !defined(AV_EMULATE_AVX512)
	if (d->isa == AV_AVX512 && __builtin_cpu_supports("avx512vnni")) {
		t.pack = pack_vnni;
		t.tile = vnni_tile;
		t.flip = 0x80808080;
	}
#endif
	search(&t);
}
