/* linear.c - dense layers, y = x w^T + b with w stored [out, in], and their gradients; one dot product per element. */
#include "device/cpu/reference/reference.h"

/* Row t of x times row o of w, plus b[o] if there is a bias. */
static double element(const float *x, const float *w, const float *b, int64_t I, int64_t t, int64_t o) {
    double sum = b ? b[o] : 0;
    for (int64_t i = 0; i < I; i++) sum += (double)x[t * I + i] * w[o * I + i];
    return sum;
}

/* With an activation or without: then there is no h. */
static void linear(const tri_call *call) {
    OPERANDS(linear);
    const float *x = f32(call, ARG(x)), *w = f32(call, ARG(w)), *b = f32(call, ARG(b)); /* [T,I] [O,I] [O] */
    int64_t T = call->t[ARG(y)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t o = 0; o < O; o++) {
            double h = element(x, w, b, I, t, o);
            store(call, ARG(h), t * O + o, h);
            store(call, ARG(y), t * O + o, activated(call, h));
        }
}

static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    const float *dy = f32(call, ARG(dy)), *w = f32(call, ARG(w)); /* [T,O] [O,I] */
    int64_t T = call->t[ARG(dx)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++) sum += (double)dy[t * O + o] * w[o * I + i];
            store(call, ARG(dx), t * I + i, sum);
        }
}

static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,O] [T,I] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dw)].rows, I = call->t[ARG(dw)].cols;
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += (double)dy[t * O + o] * x[t * I + i];
            store(call, ARG(dw), o * I + i, sum);
        }
}

static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    sum_rows(call, ARG(db), f32(call, ARG(dy)), NULL, call->t[ARG(dy)].rows, call->t[ARG(db)].cols);
}

const tri_kernel_row tri__cpu_linear_reference[] = {
    {.op = TRI_OP_linear, .dtype = TRI_F32, .run = linear},
    {.op = TRI_OP_linear, .dtype = TRI_F32, .run = linear, .facts = TRI_FACT_ACT},
    {.op = TRI_OP_linear_din, .dtype = TRI_F32, .run = linear_din},
    {.op = TRI_OP_linear_dw, .dtype = TRI_F32, .run = linear_dw},
    {.op = TRI_OP_bias_dw, .dtype = TRI_F32, .run = bias_dw},
    {.run = NULL},
};
