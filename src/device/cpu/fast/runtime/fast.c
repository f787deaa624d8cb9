/* fast.c - chooses the instruction set and lists the fast rows. */
#include "device/cpu/fast/runtime/fast.h"

#include "device/cpu/fast/runtime/call.h"

const tri_simd *tri__simd(void) {
#if defined(__x86_64__)
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return &tri__simd_avx512_bf16;
    if (avx512) return &tri__simd_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tri__simd_avx2;
    return &tri__simd_sse;
#elif defined(__aarch64__)
    return &tri__simd_neon;
#else
    return NULL;
#endif
}

void tri__cpu_fast_rows(tri_kernel_table *table) {
    if (!tri__simd()) return;
#define X(family) tri__kernel_table_add(table, tri__cpu_##family##_fast);
    TRI_FAST_FAMILIES(X)
#undef X
}

const char *tri__cpu_fast_name(void) { return tri__simd() ? tri__simd()->name : "plain C"; }
