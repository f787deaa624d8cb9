/* gated.c - gated activations, and gates of branches: every row is one work item. */
#include "device/cpu/fast/runtime/call.h"

#include <math.h>

enum { ENOUGH = 1 << 13 }; /* elements */

static void gated(const tri_call *call) {
    OPERANDS(gated);
    tri_activation act = (tri_activation)call->attr->act;
    int64_t rows = call->t[ARG(y)].rows, h = call->t[ARG(y)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t++) {
        const float *a = f32(call, ARG(x)) + t * 2 * h;
        tri__simd()->gated(act, h, a, a + h, f32(call, ARG(y)) + t * h);
    }
}

static void gated_din(const tri_call *call) {
    OPERANDS(gated_din);
    tri_activation act = (tri_activation)call->attr->act;
    int64_t rows = call->t[ARG(dy)].rows, h = call->t[ARG(dy)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t++) {
        const float *a = f32(call, ARG(x)) + t * 2 * h;
        float *da = f32(call, ARG(dx)) + t * 2 * h;
        tri__simd()->gated_din(
            act, &(tri_gated_din){h, f32(call, ARG(dy)) + t * h, a, a + h, da, da + h, adds(call, ARG(dx))});
    }
}

static float logistic(float z) { return 1 / (1 + expf(-z)); }

static void gate(const tri_call *call) {
    OPERANDS(gate);
    int64_t n = elements(call, ARG(y));
    const float *x = f32(call, ARG(x)), *z = f32(call, ARG(z));
    float *y = f32(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * logistic(z[i]);
}

static void gate_din(const tri_call *call) {
    OPERANDS(gate_din);
    int64_t n = elements(call, ARG(dy));
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)), *z = f32(call, ARG(z));
    float *dx = f32(call, ARG(dx)), *dz = f32(call, ARG(dz));
    int adds_x = adds(call, ARG(dx)), adds_z = adds(call, ARG(dz));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i++) {
        float s = logistic(z[i]), to_x = dy[i] * s, to_z = dy[i] * x[i] * s * logistic(-z[i]);
        dx[i] = adds_x ? dx[i] + to_x : to_x;
        dz[i] = adds_z ? dz[i] + to_z : to_z;
    }
}

const tri_kernel_row tri__cpu_gated_fast[] = {
    {.op = TRI_OP_gated, .dtype = TRI_F32, .run = gated},
    {.op = TRI_OP_gated_din, .dtype = TRI_F32, .run = gated_din},
    {.op = TRI_OP_gate, .dtype = TRI_F32, .run = gate},
    {.op = TRI_OP_gate_din, .dtype = TRI_F32, .run = gate_din},
    {.run = NULL},
};
