// Includes the header named by AV_TEMPLATE once per instruction set of this
// architecture. A template writes each function as
//
//	AV_TARGET static void AV_(name)(...) { ... }
//
// and gets name_portable, name_avx2 and name_avx512. The instruction set is set
// per function by an attribute, since clang ignores the pragma for it.
// No include guard: every family of operations includes it for its template.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF // gcc does not contract under -std=c11
#endif

// The iterations of the loop that follows touch different elements, even where
// the output is the input.
#if defined(__clang__)
#define AV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define AV_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define AV_LEVEL 0
#include "simd.h"
#include AV_TEMPLATE
#include "simd_end.h"

#if defined(__x86_64__)
#define AV_LEVEL 1
#include "simd.h"
#include AV_TEMPLATE
#include "simd_end.h"

#define AV_LEVEL 2
#include "simd.h"
#include AV_TEMPLATE
#include "simd_end.h"

#define AV_PICK(name) {name##_portable, name##_avx2, name##_avx512}
#else
#define AV_PICK(name) {name##_portable, name##_portable, name##_portable}
#endif
