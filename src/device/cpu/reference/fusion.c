/* fusion.c - concatenates the branches: columns of up to three matrices; and the reverse. Gates that scale
 * them. */
#include "device/cpu/reference/reference.h"

static int64_t width(const tri_call *call, int k) { return call->t[k].data ? call->t[k].cols : 0; }

static void concat(const tri_call *call) {
    OPERANDS(concat);
    int64_t N = call->t[ARG(a)].rows, at = 0;
    int64_t cols = call->t[ARG(y)].rows * call->t[ARG(y)].cols / (N ? N : 1); /* of all, whatever y's rows */
    for (int k = ARG(a); k <= ARG(c); at += width(call, k), k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t c = 0; c < width(call, k); c++)
                store(call, ARG(y), i * cols + at + c, f32(call, k)[i * width(call, k) + c]);
}

/* A part without a gradient still occupies columns of dy, so its width must be given. */
static void concat_din(const tri_call *call) {
    OPERANDS(concat_din);
    const float *dy = f32(call, ARG(dy)); /* [N,cols], whatever its rows */
    int64_t cols = call->t[ARG(da)].cols + call->t[ARG(db)].cols + call->t[ARG(dc)].cols, at = 0;
    int64_t N = call->t[ARG(dy)].rows * call->t[ARG(dy)].cols / cols;
    for (int k = ARG(da); k <= ARG(dc); at += call->t[k].cols, k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t c = 0; c < call->t[k].cols; c++)
                store(call, k, i * call->t[k].cols + c, dy[i * cols + at + c]);
}

static void gate(const tri_call *call) {
    OPERANDS(gate);
    const float *x = f32(call, ARG(x)), *z = f32(call, ARG(z)); /* [T,H] */
    for (int64_t i = 0; i < call->t[ARG(y)].rows * call->t[ARG(y)].cols; i++)
        store(call, ARG(y), i, x[i] * logistic_at(z[i]));
}

static void gate_din(const tri_call *call) {
    OPERANDS(gate_din);
    const float *x = f32(call, ARG(x)), *z = f32(call, ARG(z)), *dy = f32(call, ARG(dy)); /* [T,H] */
    for (int64_t i = 0; i < call->t[ARG(dy)].rows * call->t[ARG(dy)].cols; i++) {
        double s = logistic_at(z[i]);
        store(call, ARG(dx), i, dy[i] * s);
        store(call, ARG(dz), i, dy[i] * x[i] * s * logistic_at(-z[i]));
    }
}

const tri_kernel_row tri__cpu_fusion_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(concat), TRI_KERNEL(concat_din), TRI_KERNEL(gate), TRI_KERNEL(gate_din));
