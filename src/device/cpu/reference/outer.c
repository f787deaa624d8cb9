/* outer.c - copies of the model that step alone: how far a copy went, Nesterov's step along the mean of all (DiLoCo,
 * Douillard et al., 2023; momentum as in PyTorch), and taking it. */
#include "device/cpu/reference/reference.h"

static int applies(const tri_call *call, int k) { return !call->t[k].data || *i32(call, k); }

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

const tri_kernel_row tri__cpu_outer_reference[] = {
    {.op = TRI_OP_local_delta, .dtype = TRI_F32, .run = local_delta},
    {.op = TRI_OP_outer_step, .dtype = TRI_F32, .run = outer_step},
    {.op = TRI_OP_outer_take, .dtype = TRI_F32, .run = outer_take},
    {.op = TRI_OP_swap, .dtype = TRI_F32, .run = swap},
    {.run = NULL},
};
