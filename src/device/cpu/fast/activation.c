/* activation.c - element by element: GELU in both directions, tanh, addition and its gradient, scaling. */
#include "device/cpu/fast/call.h"

#include <string.h>

enum { CHUNK = 8192, ENOUGH = 1 << 14 }; /* elements */

static int64_t chunk_size(int64_t n, int64_t i) { return n - i < CHUNK ? n - i : CHUNK; }

static void gelu(const tri_call *call) {
    OPERANDS(gelu);
    const tri_simd *simd = tri__simd();
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) simd->gelu(chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i);
}

static void gelu_din(const tri_call *call) {
    OPERANDS(gelu_din);
    const tri_simd *simd = tri__simd();
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        simd->gelu_din(chunk_size(n, i), f32(call, ARG(dy)) + i, f32(call, ARG(x)) + i, f32(call, ARG(dx)) + i,
                       adds(call, ARG(dx)));
}

static void hyperbolic_tangent(const tri_call *call) {
    OPERANDS(tanh);
    const tri_simd *simd = tri__simd();
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) simd->tanh(chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i);
}

static void sum_two(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void add(const tri_call *call) {
    OPERANDS(add);
    int64_t n = elements(call, ARG(a));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        sum_two(chunk_size(n, i), f32(call, ARG(a)) + i, f32(call, ARG(b)) + i, f32(call, ARG(y)) + i);
}

static void add_din(const tri_call *call) {
    OPERANDS(add_din);
    int64_t n = elements(call, ARG(dy));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        for (int k = ARG(da); k <= ARG(db); k++) {
            if (!f32(call, k)) continue;
            float *to = f32(call, k) + i;
            if (adds(call, k))
                sum_two(chunk_size(n, i), to, f32(call, ARG(dy)) + i, to);
            else
                memmove(to, f32(call, ARG(dy)) + i, (size_t)chunk_size(n, i) * 4);
        }
}

static void scale_one(int64_t n, float s, const float *x, float *y, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) y[i] += s * x[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = s * x[i];
}

/* Both directions: y = s * x, dx = s * dy. */
static void scale(const tri_call *call) {
    OPERANDS(scale);
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        scale_one(chunk_size(n, i), *f32(call, ARG(s)), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i,
                  adds(call, ARG(y)));
}

const tri_kernel_row tri__cpu_activation_fast[] = {
    {.op = TRI_OP_gelu, .dtype = TRI_F32, .run = gelu},
    {.op = TRI_OP_gelu_din, .dtype = TRI_F32, .run = gelu_din},
    {.op = TRI_OP_tanh, .dtype = TRI_F32, .run = hyperbolic_tangent},
    {.op = TRI_OP_add, .dtype = TRI_F32, .run = add},
    {.op = TRI_OP_add_din, .dtype = TRI_F32, .run = add_din},
    {.op = TRI_OP_scale, .dtype = TRI_F32, .run = scale},
    {.op = TRI_OP_scale_din, .dtype = TRI_F32, .run = scale},
    {.run = NULL},
};
