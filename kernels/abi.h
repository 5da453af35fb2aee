// The plain-C contract between the Go face (cpu.go) and the kernels.
//
// Pointers are to dense row-major arrays of the caller's; nothing is kept after
// a call returns. Sizes and kinds have been checked by the caller (check.go).
// Scalars arrive rounded to float. Functions that can meet bad data return -1,
// or the number of the first row whose label or index is out of range; the
// others cannot fail. The formula of every operation is in ops.go.
#ifndef AV_ABI_H
#define AV_ABI_H

#include <stdint.h>

typedef struct av_cpu av_cpu;

enum { AV_PORTABLE = 0, AV_AVX2 = 1, AV_AVX512 = 2 };

// The best instruction set that this machine and its operating system offer.
int av_best_isa(void);

// A device with its own worker pool; NULL when memory or threads are refused.
av_cpu *av_open(int threads, int isa);
void av_close(av_cpu *d);

typedef struct {
	int64_t m, n, k;
	int trans_a, trans_b, acc, relu;
} av_gemm_shape;

// bias may be NULL.
void av_gemm(av_cpu *d, float *dst, const float *a, const float *b, const float *bias, const av_gemm_shape *s);

void av_fill(av_cpu *d, float *dst, int64_t n, float value);
void av_copy(av_cpu *d, float *dst, const float *x, int64_t n);
// y may be NULL.
void av_add(av_cpu *d, float *dst, const float *x, const float *y, int64_t n, float alpha, float beta);
void av_mul(av_cpu *d, float *dst, const float *x, const float *y, int64_t n, int acc);
void av_keep(av_cpu *d, float *dst, const float *x, const float *mask, int64_t n);
void av_tanh(av_cpu *d, float *dst, const float *x, int64_t n);
void av_gelu(av_cpu *d, float *dst, const float *x, int64_t n);
void av_clip_factor(av_cpu *d, float *dst, const float *sq, int64_t n, float clip);

typedef struct {
	int64_t batch, rows, cols;
	int per_col; // else per row
} av_per;

void av_scale_by(av_cpu *d, float *dst, const float *x, const float *s, const av_per *p, int acc);
void av_shift(av_cpu *d, float *dst, const float *x, const float *s, float alpha, const av_per *p);
void av_spread(av_cpu *d, float *dst, const float *s, const av_per *p);
// y may be NULL: plain sums.
void av_sum_mul(av_cpu *d, float *dst, const float *x, const float *y, const av_per *p, int acc);
void av_sq_norm_outer(av_cpu *d, float *dst, const float *x, const float *dy, int64_t rows, int64_t xcols,
                      int64_t dycols, int bias, int acc);

void av_softmax(av_cpu *d, float *prob, const float *z, int64_t rows, int64_t cols);
void av_softmax_tangent(av_cpu *d, float *dst, const float *p, const float *dz, int64_t rows, int64_t cols);
int64_t av_cross_entropy(av_cpu *d, float *loss, const float *z, const int32_t *y, int64_t rows, int64_t cols);
int64_t av_cross_entropy_tangent(av_cpu *d, float *dst, const float *p, const float *dz, const int32_t *y,
                                 int64_t rows, int64_t cols);
int64_t av_sub_one_hot(av_cpu *d, float *dst, const float *p, const int32_t *y, int64_t rows, int64_t cols);
int64_t av_loss64(av_cpu *d, double *loss, const float *z, const int32_t *y, int64_t rows, int64_t cols);
void av_argmax(av_cpu *d, int32_t *dst, const float *z, int64_t rows, int64_t cols);

// y may be NULL.
void av_layer_norm(av_cpu *d, float *dst, const float *x, const float *y, const float *gain, const float *shift,
                   int64_t rows, int64_t cols, float stabilizer);

typedef struct {
	int64_t tokens, sequences, heads, dim, longest;
	float scale;
} av_attention_shape;

enum { AV_NO_MEMORY = -2 };

// bias may be NULL. Returns -1, the number of a wrong offset, or AV_NO_MEMORY.
int64_t av_attention(av_cpu *d, float *dst, const float *qkv, const int32_t *offsets, const float *bias,
                     const av_attention_shape *s);

typedef struct {
	int64_t queries, bank, dim, k, first;
	int acc;
} av_top_k_shape;

// bias may be NULL.
void av_top_k(av_cpu *d, float *score, int32_t *slot, const float *q, const float *bank, const float *bias,
              const av_top_k_shape *s);
void av_top_k_bytes(av_cpu *d, float *score, int32_t *slot, const int32_t *q, const int32_t *bank, const float *q_scale,
                    const float *scale, const float *bias, const av_top_k_shape *s);

int64_t av_gather(av_cpu *d, float *dst, const float *src, const int32_t *index, int64_t rows, int64_t cols,
                  int64_t src_rows);

typedef struct {
	int64_t b, h, w, c;
} av_image;

void av_crop_flip(av_cpu *d, float *dst, const float *src, const int32_t *move, const av_image *im, int adjoint);

typedef struct {
	float lr, momentum, decay, scale, one_minus_ema, noise;
	uint64_t seed, step;
} av_sgd_step;

// m and e may be NULL.
void av_sgd(av_cpu *d, float *p, float *m, float *e, const float *g, int64_t n, const av_sgd_step *s);
void av_normal(av_cpu *d, float *dst, int64_t n, uint64_t seed, uint64_t step);

#endif
