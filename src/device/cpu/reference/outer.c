/* outer.c - copies of the model that step alone: how far a copy went, Nesterov's step along the mean of all (DiLoCo,
 * Douillard et al., 2023; momentum as in PyTorch), and taking it. Beside them, averages of weights. */
#include "device/cpu/reference/reference.h"

static void local_delta(const tri_call *call) {
    OPERANDS(local_delta);
    float *d = f32(call, ARG(d));                                                 /* [K] */
    const float *anchor = f32(call, ARG(anchor)), *p = f32(call, ARG(p));         /* [K] */
    for (int64_t i = 0; i < call->t[ARG(d)].cols; i++) d[i] = anchor[i] - p[i];
}

static void outer_step(const tri_call *call) {
    OPERANDS(outer_step);
    if (!applies(call, ARG(apply))) return;
    float *m = f32(call, ARG(m)), *d = f32(call, ARG(d)); /* [K] */
    double beta = call->attr->beta1, rate = call->attr->rate, members = call->attr->members;
    for (int64_t i = 0; i < call->t[ARG(m)].cols; i++) {
        double x = d[i] / members;
        m[i] = (float)(beta * m[i] + x);
        d[i] = (float)(rate * (call->attr->nesterov ? x + beta * m[i] : m[i]));
    }
}

static void outer_take(const tri_call *call) {
    OPERANDS(outer_take);
    if (!applies(call, ARG(apply))) return;
    float *anchor = f32(call, ARG(anchor)), *p = f32(call, ARG(p)); /* [K] */
    const float *d = f32(call, ARG(d));                             /* [K] */
    for (int64_t i = 0; i < call->t[ARG(p)].cols; i++) p[i] = anchor[i] -= d[i];
}

static void swap(const tri_call *call) {
    OPERANDS(swap);
    float *a = f32(call, ARG(a)), *b = f32(call, ARG(b)); /* [K] */
    for (int64_t i = 0; i < call->t[ARG(a)].cols; i++) {
        float was = a[i];
        a[i] = b[i], b[i] = was;
    }
}

/* As torch.lerp: exact for a factor of 0 and of 1. */
static void average(const tri_call *call) {
    OPERANDS(average);
    float *y = f32(call, ARG(y));       /* [K] */
    const float *p = f32(call, ARG(p)); /* [K] */
    double factor = *f32(call, ARG(factor));
    if (!applies(call, ARG(apply)) || factor == 0) return;
    for (int64_t i = 0; i < call->t[ARG(y)].cols; i++) {
        double way = (double)p[i] - y[i];
        y[i] = (float)(factor < 0.5 ? y[i] + factor * way : p[i] - (1 - factor) * way);
    }
}

const tri_kernel_row tri__cpu_outer_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(average), TRI_KERNEL(local_delta), TRI_KERNEL(outer_step), TRI_KERNEL(outer_take), TRI_KERNEL(swap));
