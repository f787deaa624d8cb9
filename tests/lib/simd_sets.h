/* simd_sets.h - the sets of vector instructions that this processor has. */
#ifndef TESTS_SIMD_SETS_H
#define TESTS_SIMD_SETS_H

#include "device/cpu/fast/runtime/simd.h"

static const tri_simd *sets[5]; /* ends with NULL */

/* The set-up of a group of tests. */
static int find_sets(void **state) {
    (void)state;
    int n = 0;
#if defined(__x86_64__)
    sets[n++] = &tri__simd_sse;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets[n++] = &tri__simd_avx2;
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    if (avx512) sets[n++] = &tri__simd_avx512;
    if (avx512 && __builtin_cpu_supports("avx512bf16")) sets[n++] = &tri__simd_avx512_bf16;
#elif defined(__aarch64__)
    sets[n++] = &tri__simd_neon;
#endif
    sets[n] = NULL;
    return 0;
}

#endif
