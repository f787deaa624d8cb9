/* normal.c - normal random numbers with the baseline instruction set and, if the machine has it, with a wider one. */
#include "base/normal.h"

static inline void roots(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i++) x[i] = sqrt(x[i]);
}

int64_t tri__normal_plain(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out) {
    return draw(seed, id, deviation, group, out, roots);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx2,fma")))

AVX2 static inline void roots_avx2(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i += 4) _mm256_storeu_pd(x + i, _mm256_sqrt_pd(_mm256_loadu_pd(x + i)));
}

AVX2 int64_t tri__normal_avx2(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out) {
    return draw(seed, id, deviation, group, out, roots_avx2);
}

AVX512 static inline void roots_avx512(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i += 8) _mm512_storeu_pd(x + i, _mm512_sqrt_pd(_mm512_loadu_pd(x + i)));
}

AVX512 int64_t tri__normal_avx512(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out) {
    return draw(seed, id, deviation, group, out, roots_avx512);
}
#endif
