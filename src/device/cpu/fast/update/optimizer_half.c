/* optimizer_half.c - AdamW of fp32 masters with bf16 weights: one pass, by pieces that stay in a thread's cache between
 * the update and the rounded copy. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/runtime/fast.h"
#include "device/cpu/fast/elementwise/rows_half.h"
#include "numbers/trust.h"

enum { PIECE = 2048, ENOUGH = 1 << 14 }; /* elements */

static void adamw_copy(const tri_call *call) {
    OPERANDS(adamw_copy);
    const tri_simd *simd = tri__simd();
    const tri_attr *attr = call->attr;
    const float *hyper = f32(call, ARG(hyper)); /* [4] */
    int64_t n = elements(call, ARG(p));
    int type = call->dtype[ARG(g)];
    if (!*i32(call, ARG(apply))) return;
    if (call->dtype[ARG(copy)] != TRI_BF16 || (type != TRI_BF16 && type != TRI_F32)) {
        tri__cpu_half_row(call);
        return;
    }
    const tri_update_run all = {.coef = *f32(call, ARG(coef)), .lr = hyper[0] * tri__rate_factor(attr), .c1 = hyper[1],
                                .c2 = hyper[2], .beta1 = attr->beta1, .beta2 = attr->beta2, .eps = attr->eps,
                                .decay = attr->decay};
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t size = n - i < PIECE ? n - i : PIECE;
        float wide[PIECE];
        tri_update_run run = all;
        run.p = f32(call, ARG(p)) + i, run.m = f32(call, ARG(m)) + i, run.v = f32(call, ARG(v)) + i;
        run.g = wide;
        if (type == TRI_BF16) simd->widen(size, bf16(call, ARG(g)) + i, wide);
        else run.g = f32(call, ARG(g)) + i;
        simd->adamw(&run, size);
        simd->narrow(size, run.p, bf16(call, ARG(copy)) + i);
    }
}

void tri__cpu_optimizer_half(tri_kernel_table *table) {
    tri__kernel_table_run(table, TRI_OP_adamw_copy, 0, TRI_BF16, adamw_copy);
}
