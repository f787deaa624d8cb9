/* linear.c - dense layers, y = x w^T + b with w stored [out, in], and their gradients; one dot product per element. The
 * rows of experts are in runs of the members, whose weights are [members * out, in]; a layer alone is the only one. */
#include "device/cpu/reference/reference.h"

/* The expert of row t of `rows`; -1: the row has no token. All have one where nothing says which. */
static int64_t expert_of_row(const tri_call *call, const int32_t *from, int64_t t, int64_t rows) {
    int64_t members = call->attr->members, groups = call->attr->groups ? call->attr->groups : 1;
    if (!call->attr->experts) return 0;
    return from && from[t] < 0 ? -1 : t / (rows / (groups * members)) % members;
}

/* Row t of x times row o of w, plus b[o] if there is a bias. */
static double element(const float *x, const float *w, const float *b, int64_t I, int64_t t, int64_t o) {
    double sum = b ? b[o] : 0;
    for (int64_t i = 0; i < I; i++) sum += (double)x[t * I + i] * w[o * I + i];
    return sum;
}

/* With an activation or without: then there is no h. */
static void linear(const tri_call *call) {
    OPERANDS(linear);
    const float *x = f32(call, ARG(x)), *w = f32(call, ARG(w)), *b = f32(call, ARG(b)); /* [T,I] [C*O,I] [C,O] */
    int64_t T = call->t[ARG(y)].rows, O = call->t[ARG(y)].cols, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++) {
        int64_t e = expert_of_row(call, i32(call, ARG(from)), t, T);
        for (int64_t o = 0; o < O; o++) {
            double h = e < 0 ? 0 : element(x, w, b, I, t, e * O + o);
            store(call, ARG(h), t * O + o, h);
            store(call, ARG(y), t * O + o, activated(call, h));
        }
    }
}

static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    const float *dy = f32(call, ARG(dy)), *w = f32(call, ARG(w)); /* [T,O] [C*O,I] */
    int64_t T = call->t[ARG(dx)].rows, O = call->t[ARG(dy)].cols, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++) {
        int64_t e = expert_of_row(call, i32(call, ARG(from)), t, T);
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O && e >= 0; o++) sum += (double)dy[t * O + o] * w[(e * O + o) * I + i];
            store(call, ARG(dx), t * I + i, sum);
        }
    }
}

static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,O] [T,I] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dy)].cols, I = call->t[ARG(dw)].cols;
    for (int64_t row = 0; row < call->t[ARG(dw)].rows; row++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++)
                if (expert_of_row(call, i32(call, ARG(from)), t, T) == row / O)
                    sum += (double)dy[t * O + row % O] * x[t * I + i];
            store(call, ARG(dw), row * I + i, sum);
        }
}

static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    const float *dy = f32(call, ARG(dy)); /* [T,O] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dy)].cols;
    for (int64_t row = 0; row < call->t[ARG(db)].rows * call->t[ARG(db)].cols; row++) {
        double sum = 0;
        for (int64_t t = 0; t < T; t++)
            if (expert_of_row(call, i32(call, ARG(from)), t, T) == row / O) sum += dy[t * O + row % O];
        store(call, ARG(db), row, sum);
    }
}

/* Of a layer alone, and of experts. */
#define ROWS(op_, facts_)                                                                                   \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_, .facts = (facts_)},                                  \
        {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_, .facts = (facts_) | TRI_FACT_EXPERTS}
const tri_kernel_row tri__cpu_linear_reference[] = TRI_KERNEL_ROWS(
    ROWS(linear, 0), ROWS(linear, TRI_FACT_ACT), ROWS(linear_din, 0), ROWS(linear_dw, 0), ROWS(bias_dw, 0));
