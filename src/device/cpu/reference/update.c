/* update.c - the end of a step: the gradients' norm, clipping, and AdamW (Loshchilov and Hutter, 2019) in PyTorch's
 * order: decay, moments, step. A step whose norm is not finite changes nothing. */
#include "device/cpu/reference/reference.h"

static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    float *y = f32(call, ARG(y));       /* [K] */
    const float *x = f32(call, ARG(x)); /* [K] */
    int64_t K = call->t[ARG(y)].rows * call->t[ARG(y)].cols;
    for (int64_t i = 0; i < K; i++) y[i] = adds(call, ARG(y)) ? y[i] + x[i] : x[i];
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
    double norm = sqrt((call->attr->members ? call->attr->members : 1) * sum) / scale;
    *f32(call, ARG(coef)) = (float)((max_norm > 0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1) / scale);
    *(int32_t *)call->t[ARG(apply)].data = isfinite(norm);
    *f64(call, ARG(norm)) = norm;
}

static void adamw(const tri_call *call) {
    OPERANDS(adamw);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)), *v = f32(call, ARG(v)); /* [K] */
    const float *g = f32(call, ARG(g)), *hyper = f32(call, ARG(hyper));           /* [K] [4] */
    const tri_attr *attr = call->attr;
    double lr = hyper[0], c1 = hyper[1], c2 = hyper[2], b1 = attr->beta1, b2 = attr->beta2,
           coef = *f32(call, ARG(coef));
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double gradient = g[i] * coef;
        double decayed = p[i] * (1 - lr * attr->decay);
        m[i] = (float)(b1 * m[i] + (1 - b1) * gradient);
        v[i] = (float)(b2 * v[i] + (1 - b2) * gradient * gradient);
        p[i] = (float)(decayed - lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + attr->eps));
    }
}

const tri_kernel_row tri__cpu_update_reference[] = {
    {.op = TRI_OP_accumulate, .dtype = TRI_F32, .run = accumulate},
    {.op = TRI_OP_sumsq, .dtype = TRI_F32, .run = sumsq},
    {.op = TRI_OP_clip, .dtype = TRI_F32, .run = clip},
    {.op = TRI_OP_adamw, .dtype = TRI_F32, .run = adamw},
    {.run = NULL},
};
