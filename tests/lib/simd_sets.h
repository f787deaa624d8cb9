/* simd_sets.h - the sets of vector instructions that this processor has, of those that were compiled (Makefile: ISAS),
 * and what files compiled for one export. */
#ifndef TESTS_SIMD_SETS_H
#define TESTS_SIMD_SETS_H

#include "device/cpu/fast/attention/head.h"
#include "device/cpu/fast/product/gemm.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/gemm_int8.h"
#include "device/cpu/fast/runtime/isa.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct simd_set {
    const char *name;
    void (*gemm)(const tri_gemm *gemm);
    void (*int8_gemm)(const tri_int8_gemm *gemm);
    void (*finish_half)(const tri_half_row *row, int64_t n, const float *sum);
    int64_t (*head_half_work)(const tri_half_product *product, int64_t len, int64_t d);
    void (*head_half)(const tri_head_half *head);
    int64_t (*head_half_din_work)(const tri_half_product *product, int64_t len, int64_t d);
    void (*head_half_din)(const tri_head_half *head);
    const tri_kernel_row *const *lists; /* of rows; end with NULL */
} simd_set;

#define X(isa) \
    void tri__gemm_##isa(const tri_gemm *gemm); \
    void tri__int8_gemm_##isa(const tri_int8_gemm *gemm); \
    void tri__finish_half_##isa(const tri_half_row *row, int64_t n, const float *sum); \
    int64_t tri__head_half_work_##isa(const tri_half_product *product, int64_t len, int64_t d); \
    void tri__head_half_##isa(const tri_head_half *head); \
    int64_t tri__head_half_din_work_##isa(const tri_half_product *product, int64_t len, int64_t d); \
    void tri__head_half_din_##isa(const tri_head_half *head); \
    extern const tri_kernel_row *const tri__cpu_fast_lists_##isa[];
TRI_ISAS(X)
#undef X

/* Finds the sets, the best one last; returns how many. A program without any is skipped. */
enum { SIMD_SETS_MOST = 4 };
static inline int find_sets(simd_set sets[SIMD_SETS_MOST]) {
    int n = 0;
#define X(isa) \
    if (HAS_##isa) \
        sets[n++] = (simd_set){#isa, tri__gemm_##isa, tri__int8_gemm_##isa, tri__finish_half_##isa, \
                               tri__head_half_work_##isa, tri__head_half_##isa, tri__head_half_din_work_##isa, \
                               tri__head_half_din_##isa, tri__cpu_fast_lists_##isa};
    TRI_ISAS(X)
#undef X
    if (!n) puts("this build has no vector instructions (ISAS=)"), exit(77);
    return n;
}

#endif
