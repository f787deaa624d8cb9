/* update.c - the end of a step: sums of squares in double over blocks that the length fixes, and AdamW. */
#include "device/cpu/fast/call.h"

#include <string.h>

enum { BLOCKS = 64, CHUNK = 16384, ENOUGH = 1 << 14 }; /* floats */

static void accumulate(const tri_call *call) {
    enum { Y, X };
    int64_t n = elements(call, Y);
    int add = adds(call, Y);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) {
        float *y = f32(call, Y) + i;       /* [end] */
        const float *x = f32(call, X) + i; /* [end] */
        int64_t end = n - i < CHUNK ? n - i : CHUNK;
        if (add)
            for (int64_t k = 0; k < end; k++) y[k] += x[k];
        else
            memcpy(y, x, (size_t)end * sizeof *y);
    }
}

static void sumsq(const tri_call *call) {
    enum { SUM, X };
    const tri_simd *simd = tri__simd();
    int64_t n = elements(call, X), size = (n + BLOCKS - 1) / BLOCKS;
    double *part = call->work, total = adds(call, SUM) ? *f64(call, SUM) : 0; /* part [BLOCKS] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < BLOCKS; i++) {
        int64_t begin = i * size < n ? i * size : n, end = n - begin < size ? n : begin + size;
        part[i] = simd->sumsq(end - begin, f32(call, X) + begin);
    }
    for (int64_t i = 0; i < BLOCKS; i++) total += part[i];
    *f64(call, SUM) = total;
}

static void adamw(const tri_call *call) {
    enum { P, M, V, G, HYPER, COEF, APPLY };
    if (!*i32(call, APPLY)) return;
    const tri_simd *simd = tri__simd();
    const tri_attr *attr = call->attr;
    const float *hyper = f32(call, HYPER);
    int64_t n = elements(call, P);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) {
        tri_adamw a = {.p = f32(call, P) + i, .m = f32(call, M) + i, .v = f32(call, V) + i, .g = f32(call, G) + i,
                       .coef = *f32(call, COEF), .lr = hyper[0], .c1 = hyper[1], .c2 = hyper[2], .beta1 = attr->beta1,
                       .beta2 = attr->beta2, .eps = attr->eps, .decay = attr->decay};
        simd->adamw(&a, n - i < CHUNK ? n - i : CHUNK);
    }
}

const tri_kernel_row tri__cpu_update_fast[] = {
    {.op = TRI_OP_accumulate, .dtype = TRI_F32, .run = accumulate},
    {.op = TRI_OP_sumsq, .dtype = TRI_F32, .run = sumsq, .work = {.fixed = BLOCKS * 8}},
    {.op = TRI_OP_adamw, .dtype = TRI_F32, .run = adamw},
    {.run = NULL},
};
