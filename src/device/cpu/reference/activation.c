/* activation.c - activations and gated ones (Shazeer, 2020: one half of the columns, through an activation, times the
 * other half), element by element. */
#include "device/cpu/reference/reference.h"

static int64_t count(const tri_call *call) { return call->t[0].rows * call->t[0].cols; }
static tri_activation act_of(const tri_call *call) { return (tri_activation)(call->attr->activation - 1); }

static void act(const tri_call *call) {
    OPERANDS(act);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, activation_at(act_of(call), x[i]));
}

static void act_din(const tri_call *call) {
    OPERANDS(act_din);
    const float *dy = f32(call, ARG(dy)), *at = f32(call, ARG(x)); /* [T,H] */
    if (!at) at = f32(call, ARG(y));
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, activation_din(act_of(call), dy[i], at[i]));
    if (f32(call, ARG(db)))
        sum_rows(call, ARG(db), f32(call, ARG(dx)), NULL, call->t[ARG(dx)].rows, call->t[ARG(dx)].cols);
}

/* The derivative at x, whatever it is computed from. */
static double slope_at(tri_activation act, double x) {
    return activation_din(act, 1, activation_by_result(act) ? activation_at(act, x) : x);
}

static void gated(const tri_call *call) {
    OPERANDS(gated);
    tri_activation f = (tri_activation)call->attr->act;
    const float *x = f32(call, ARG(x)); /* [T,2H] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t i = 0; i < T * H; i++) {
        const float *a = x + i / H * 2 * H + i % H;
        store(call, ARG(y), i, activation_at(f, a[0]) * a[H]);
    }
}

static void gated_din(const tri_call *call) {
    OPERANDS(gated_din);
    tri_activation f = (tri_activation)call->attr->act;
    const float *x = f32(call, ARG(x)), *dy = f32(call, ARG(dy)); /* [T,2H] [T,H] */
    int64_t T = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols;
    for (int64_t i = 0; i < T * H; i++) {
        int64_t to = i / H * 2 * H + i % H;
        store(call, ARG(dx), to, dy[i] * slope_at(f, x[to]) * x[to + H]);
        store(call, ARG(dx), to + H, dy[i] * activation_at(f, x[to]));
    }
}

const tri_kernel_row tri__cpu_activation_reference[] = TRI_KERNEL_ROWS(
    {.op = TRI_OP_act, .dtype = TRI_F32, .run = act, .facts = TRI_FACT_ACT},
    {.op = TRI_OP_act_din, .dtype = TRI_F32, .run = act_din, .facts = TRI_FACT_ACT},
    {.op = TRI_OP_act_din, .dtype = TRI_F32, .run = act_din, .facts = TRI_FACT_ACT | TRI_FACT_DB},
    TRI_KERNEL(gated), TRI_KERNEL(gated_din));
