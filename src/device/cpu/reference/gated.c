/* gated.c - gated activations (Shazeer, 2020): one half of the columns, through an activation, times the other half. */
#include "device/cpu/reference/gelu.h"
#include "device/cpu/reference/reference.h"

static double relu_at(double x) { return x < 0 ? 0 : x; }
static double relu_slope(double x) { return x > 0; }

/* By tri_activation. */
static double (*const at[])(double) = {gelu_at, gelu_tanh_at, relu_at, silu_at};
static double (*const slope[])(double) = {gelu_slope, gelu_tanh_slope, relu_slope, silu_slope};

static void gated(const tri_call *call) {
    OPERANDS(gated);
    const float *x = f32(call, ARG(x)); /* [T,2H] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t i = 0; i < T * H; i++) {
        const float *a = x + i / H * 2 * H + i % H;
        store(call, ARG(y), i, at[call->attr->act](a[0]) * a[H]);
    }
}

static void gated_din(const tri_call *call) {
    OPERANDS(gated_din);
    const float *x = f32(call, ARG(x)), *dy = f32(call, ARG(dy)); /* [T,2H] [T,H] */
    int64_t T = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols;
    for (int64_t i = 0; i < T * H; i++) {
        int64_t to = i / H * 2 * H + i % H;
        store(call, ARG(dx), to, dy[i] * slope[call->attr->act](x[to]) * x[to + H]);
        store(call, ARG(dx), to + H, dy[i] * at[call->attr->act](x[to]));
    }
}

const tri_kernel_row tri__cpu_gated_reference[] = {
    {.op = TRI_OP_gated, .dtype = TRI_F32, .run = gated},
    {.op = TRI_OP_gated_din, .dtype = TRI_F32, .run = gated_din},
    {.run = NULL},
};
