/* scale.c - a factor for all elements, and gates of branches, element by element. */
#include "device/cpu/fast/runtime/call.h"

enum { CHUNK = 8192, ENOUGH = 1 << 14, ENOUGH_GATES = 1 << 13 }; /* elements */

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
        scale_one(n - i < CHUNK ? n - i : CHUNK, *f32(call, ARG(s)), f32(call, ARG(x)) + i, f32(call, ARG(y)) + i,
                  adds(call, ARG(y)));
}

static float logistic(float z) { return 1 / (1 + expf(-z)); }

static void gate(const tri_call *call) {
    OPERANDS(gate);
    int64_t n = elements(call, ARG(y));
    const float *x = f32(call, ARG(x)), *z = f32(call, ARG(z));
    float *y = f32(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH_GATES))
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * logistic(z[i]);
}

static void gate_din(const tri_call *call) {
    OPERANDS(gate_din);
    int64_t n = elements(call, ARG(dy));
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)), *z = f32(call, ARG(z));
    float *dx = f32(call, ARG(dx)), *dz = f32(call, ARG(dz));
    int adds_x = adds(call, ARG(dx)), adds_z = adds(call, ARG(dz));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH_GATES))
    for (int64_t i = 0; i < n; i++) {
        float s = logistic(z[i]), to_x = dy[i] * s, to_z = dy[i] * x[i] * s * logistic(-z[i]);
        dx[i] = adds_x ? dx[i] + to_x : to_x;
        dz[i] = adds_z ? dz[i] + to_z : to_z;
    }
}

TRI_FAST_ROWS(scale) = TRI_KERNEL_ROWS(TRI_KERNEL(scale), TRI_KERNEL(gate), TRI_KERNEL(gate_din));
