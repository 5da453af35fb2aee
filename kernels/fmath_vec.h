// fmath.h over the vectors of simd.h. Included inside a template.
#ifndef FM_FN
#define FM_FN AV_INLINE
#define FM_(name) AV_(fm_##name)
#define real vec
#define word uvec
#define FM_REAL(c) vec_set(c)
#define FM_WORD(c) uvec_set(c)
#define FM_FMA(a, b, c) vec_fma(a, b, c)
#define FM_SQRT(a) vec_sqrt(a)
#define FM_BITS(r) ((uvec)(r))
#define FM_FROM_BITS(w) ((vec)(w))
#define FM_PICK(m, a, b) vec_pick((uvec)(m), a, b)
#define FM_FROM_UINT(w) vec_from_uint(w)
#define FM_MULTIPLY(a, b, hi, lo) uvec_multiply(a, b, hi, lo)
#endif
#include "fmath.h"
