/* update.c - the end of a step: sums of squares in double over blocks fixed by the length. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/runtime/simd.h"

enum { BLOCKS = 64, CHUNK = 16384, ENOUGH = 1 << 14 }; /* floats */

/* skip has its operands in this order, too. */
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
    int64_t n = elements(call, ARG(y)), size = (int64_t)tri__dtype_bytes((tri_dtype)call->dtype[ARG(y)]);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        memset((char *)call->t[ARG(y)].data + i * size, 0, (size_t)((n - i < CHUNK ? n - i : CHUNK) * size));
}

SIMD double simd_sumsq(int64_t n, const float *x) {
    vd low[2] = {{0}}, high[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC)
#pragma GCC unroll 2
        for (int u = 0; u < 2; u++) {
            vf v = load(x + i + u * VEC);
            vd v_low = vec_low_double(v), v_high = vec_high_double(v);
            low[u] += v_low * v_low;
            high[u] += v_high * v_high;
        }
    double sum = 0, part[VEC / 2];
    store_d(part, (low[0] + low[1]) + (high[0] + high[1]));
    for (int u = 0; u < VEC / 2; u++) sum += part[u];
    for (; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
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

TRI_FAST_ROWS(update) = TRI_KERNEL_ROWS(
    TRI_KERNEL(accumulate), TRI_KERNEL(commit),
    {.op = TRI_OP_skip, .dtype = TRI_F32, .run = accumulate},
    TRI_WIDTH_ROWS(zero, zero, 0),
    {.op = TRI_OP_sumsq, .dtype = TRI_F32, .run = sumsq, .work = {.fixed = BLOCKS * 8}});
