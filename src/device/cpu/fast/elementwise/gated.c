/* gated.c - gated activations: every row is one work item. */
#include "device/cpu/fast/elementwise/simd_gated.h"
#include "device/cpu/fast/runtime/call.h"

enum { ENOUGH = 1 << 13 }; /* elements */

static void gated(const tri_call *call) {
    OPERANDS(gated);
    tri_activation act = (tri_activation)call->attr->act;
    int64_t rows = call->t[ARG(y)].rows, h = call->t[ARG(y)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t++) {
        const float *a = f32(call, ARG(x)) + t * 2 * h;
        simd_gated(act, h, a, a + h, f32(call, ARG(y)) + t * h);
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
        simd_gated_din(
            act, &(tri_gated_din){h, f32(call, ARG(dy)) + t * h, a, a + h, da, da + h, adds(call, ARG(dx))});
    }
}

TRI_FAST_ROWS(gated) = TRI_KERNEL_ROWS(TRI_KERNEL(gated), TRI_KERNEL(gated_din));
