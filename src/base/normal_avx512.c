/* normal_avx512.c - normal random numbers with AVX-512, if the machine has it. */
#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif
#include "base/normal.h"

static inline void roots(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i += 8) _mm512_storeu_pd(x + i, _mm512_sqrt_pd(_mm512_loadu_pd(x + i)));
}

int64_t tri__normal_avx512(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out) {
    return draw(seed, id, deviation, group, out);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
