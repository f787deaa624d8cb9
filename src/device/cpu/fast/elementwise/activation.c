/* activation.c - element by element: activations in both directions, tanh, addition and its gradient. */
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/runtime/call.h"

#include <string.h>

enum { CHUNK = 8192, ENOUGH = 1 << 14 }; /* elements */

static int64_t chunk_size(int64_t n, int64_t i) { return n - i < CHUNK ? n - i : CHUNK; }

/* y = f(x) and dx = dy * f'(x), by the vector functions of these names. */
#define ACTIVATION(name) \
    static void name(const tri_call *call) { \
        OPERANDS(name); \
        int64_t n = elements(call, ARG(x)); \
        _Pragma("omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))") \
        for (int64_t i = 0; i < n; i += CHUNK) \
            simd_##name(chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i); \
    } \
    static void name##_din(const tri_call *call) { \
        OPERANDS(name##_din); \
        int64_t n = elements(call, ARG(x)); \
        _Pragma("omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))") \
        for (int64_t i = 0; i < n; i += CHUNK) \
            simd_##name##_din(chunk_size(n, i), f32(call, ARG(dy)) + i, f32(call, ARG(x)) + i, f32(call, ARG(dx)) + i, \
                             adds(call, ARG(dx))); \
    }
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(silu)
#undef ACTIVATION

/* NaN stays NaN. */
static void relu_some(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu(const tri_call *call) {
    OPERANDS(relu);
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) relu_some(chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i);
}

static void relu_din_some(int64_t n, const float *dy, const float *y, float *dx, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) dx[i] += y[i] > 0 ? dy[i] : 0;
    else
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

static void relu_din(const tri_call *call) {
    OPERANDS(relu_din);
    int64_t n = elements(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        relu_din_some(chunk_size(n, i), f32(call, ARG(dy)) + i, f32(call, ARG(y)) + i, f32(call, ARG(dx)) + i,
                      adds(call, ARG(dx)));
}

static void hyperbolic_tangent(const tri_call *call) {
    OPERANDS(tanh);
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) simd_tanh(chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i);
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

TRI_FAST_ROWS(activation) = {
    {.op = TRI_OP_gelu, .dtype = TRI_F32, .run = gelu},
    {.op = TRI_OP_gelu_din, .dtype = TRI_F32, .run = gelu_din},
    {.op = TRI_OP_gelu_tanh, .dtype = TRI_F32, .run = gelu_tanh},
    {.op = TRI_OP_gelu_tanh_din, .dtype = TRI_F32, .run = gelu_tanh_din},
    {.op = TRI_OP_silu, .dtype = TRI_F32, .run = silu},
    {.op = TRI_OP_silu_din, .dtype = TRI_F32, .run = silu_din},
    {.op = TRI_OP_relu, .dtype = TRI_F32, .run = relu},
    {.op = TRI_OP_relu_din, .dtype = TRI_F32, .run = relu_din},
    {.op = TRI_OP_tanh, .dtype = TRI_F32, .run = hyperbolic_tangent},
    {.op = TRI_OP_add, .dtype = TRI_F32, .run = add},
    {.op = TRI_OP_add_din, .dtype = TRI_F32, .run = add_din},
    {.run = NULL},
};
