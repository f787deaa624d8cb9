/* activation.c - element by element: activations in both directions, addition and its gradient. */
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/runtime/call.h"

enum { CHUNK = 8192, ENOUGH = 1 << 14 }; /* elements */

static int64_t chunk_size(int64_t n, int64_t i) { return n - i < CHUNK ? n - i : CHUNK; }

static tri_activation act_of(const tri_call *call) { return (tri_activation)(call->attr->activation - 1); }

static void act(const tri_call *call) {
    OPERANDS(act);
    int64_t n = elements(call, ARG(x));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        simd_act(act_of(call), chunk_size(n, i), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i);
}

static void act_din(const tri_call *call) {
    OPERANDS(act_din);
    int64_t n = elements(call, ARG(dy));
    int at = call->t[ARG(x)].data ? ARG(x) : ARG(y);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK)
        simd_act_din(act_of(call), chunk_size(n, i), f32(call, ARG(dy)) + i, f32(call, at) + i,
                      f32(call, ARG(dx)) + i, adds(call, ARG(dx)));
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

TRI_FAST_ROWS(activation) = TRI_KERNEL_ROWS(
    {.op = TRI_OP_act, .dtype = TRI_F32, .run = act, .facts = TRI_FACT_ACT},
    {.op = TRI_OP_act_din, .dtype = TRI_F32, .run = act_din, .facts = TRI_FACT_ACT},
    TRI_KERNEL(add), TRI_KERNEL(add_din));
