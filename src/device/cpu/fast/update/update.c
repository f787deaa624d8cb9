/* update.c - the end of a step: sums of squares in double over blocks fixed by the length. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/update/simd_update.h"

#include <string.h>

enum { BLOCKS = 64, CHUNK = 16384, ENOUGH = 1 << 14 }; /* floats */

/* skip and skip_din have their operands in this order, too. */
static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    int64_t n = elements(call, ARG(y));
    int add = adds(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) {
        float *y = f32(call, ARG(y)) + i;       /* [end] */
        const float *x = f32(call, ARG(x)) + i; /* [end] */
        int64_t end = n - i < CHUNK ? n - i : CHUNK;
        if (add)
            for (int64_t k = 0; k < end; k++) y[k] += x[k];
        else
            memcpy(y, x, (size_t)end * sizeof *y);
    }
}

static void commit(const tri_call *call) {
    OPERANDS(commit);
    int64_t n = elements(call, ARG(y));
    if (!*i32(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        memcpy(f32(call, ARG(y)) + i, f32(call, ARG(x)) + i,
               (size_t)(n - i < CHUNK ? n - i : CHUNK) * sizeof(float));
}

static void zero(const tri_call *call) {
    OPERANDS(zero);
    int64_t n = elements(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        memset(f32(call, ARG(y)) + i, 0, (size_t)(n - i < CHUNK ? n - i : CHUNK) * sizeof(float));
}

static void sumsq(const tri_call *call) {
    OPERANDS(sumsq);
    int64_t n = elements(call, ARG(x)), size = (n + BLOCKS - 1) / BLOCKS;
    double *part = call->work, total = adds(call, ARG(sum)) ? *f64(call, ARG(sum)) : 0; /* part [BLOCKS] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < BLOCKS; i++) {
        int64_t begin = i * size < n ? i * size : n, end = n - begin < size ? n : begin + size;
        part[i] = simd_sumsq(end - begin, f32(call, ARG(x)) + begin);
    }
    for (int64_t i = 0; i < BLOCKS; i++) total += part[i];
    *f64(call, ARG(sum)) = total;
}

TRI_FAST_ROWS(update) = {
    {.op = TRI_OP_accumulate, .dtype = TRI_F32, .run = accumulate},
    {.op = TRI_OP_commit, .dtype = TRI_F32, .run = commit},
    {.op = TRI_OP_skip, .dtype = TRI_F32, .run = accumulate},
    {.op = TRI_OP_skip_din, .dtype = TRI_F32, .run = accumulate},
    {.op = TRI_OP_zero, .dtype = TRI_F32, .run = zero},
    {.op = TRI_OP_sumsq, .dtype = TRI_F32, .run = sumsq, .work = {.fixed = BLOCKS * 8}},
    {.run = NULL},
};
