/* update.c - the end of a step: the gradients' norm, and clipping. */
#include "device/cpu/reference/any_width.h"

/* skip has its operands in this order, too. */
static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    float *y = f32(call, ARG(y));       /* [K] */
    const float *x = f32(call, ARG(x)); /* [K] */
    int64_t K = call->t[ARG(y)].rows * call->t[ARG(y)].cols;
    for (int64_t i = 0; i < K; i++) y[i] = adds(call, ARG(y)) ? y[i] + x[i] : x[i];
}

static void commit(const tri_call *call) {
    OPERANDS(commit);
    float *y = f32(call, ARG(y));       /* [K] */
    const float *x = f32(call, ARG(x)); /* [K] */
    if (!*i32(call, ARG(apply))) return;
    for (int64_t i = 0; i < call->t[ARG(y)].cols; i++) y[i] = x[i];
}

/* Of any type. */
static void zero(const tri_call *call) {
    OPERANDS(zero);
    const tri_tensor *y = &call->t[ARG(y)];
    memset(y->data, 0, (size_t)(y->rows * y->cols) * tri__dtype_bytes((tri_dtype)call->dtype[ARG(y)]));
}

static void sumsq(const tri_call *call) {
    OPERANDS(sumsq);
    const float *x = f32(call, ARG(x)); /* [K] */
    int64_t K = call->t[ARG(x)].rows * call->t[ARG(x)].cols;
    double sum = 0, *out = f64(call, ARG(sum));
    for (int64_t i = 0; i < K; i++) sum += (double)x[i] * x[i];
    *out = (adds(call, ARG(sum)) ? *out : 0) + sum;
}

static void clip(const tri_call *call) {
    OPERANDS(clip);
    const double *sums = f64(call, ARG(sums)); /* [K] */
    double sum = 0, scale = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1, max_norm = call->attr->max_norm;
    for (int64_t i = 0; i < call->t[ARG(sums)].cols; i++) sum += sums[i];
    double norm = sqrt(sum) / scale;
    *f32(call, ARG(coef)) = (float)((max_norm > 0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1) / scale);
    *(int32_t *)call->t[ARG(apply)].data = isfinite(norm);
    *f64(call, ARG(norm)) = norm;
}

const tri_kernel_row tri__cpu_update_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(accumulate), TRI_KERNEL(commit),
    {.op = TRI_OP_skip, .dtype = TRI_F32, .run = accumulate},
    TRI_WIDTH_ROWS(zero, zero, 0),
    TRI_KERNEL(sumsq), TRI_KERNEL(clip));
