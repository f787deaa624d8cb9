/* update.c - the end of a step: the gradients' norm, clipping, and AdamW (Loshchilov and Hutter, 2019) in the order of
 * PyTorch's: decay, moments, step. A step whose norm is not finite changes nothing. */
#include "device/cpu/reference/reference.h"

static void accumulate(const tri_call *call) {
    enum { Y, X };
    float *y = f32(call, Y);       /* [K] */
    const float *x = f32(call, X); /* [K] */
    int64_t K = call->t[Y].rows * call->t[Y].cols;
    for (int64_t i = 0; i < K; i++) y[i] = adds(call, Y) ? y[i] + x[i] : x[i];
}

static void sumsq(const tri_call *call) {
    enum { SUM, X };
    const float *x = f32(call, X); /* [K] */
    int64_t K = call->t[X].rows * call->t[X].cols;
    double sum = 0, *out = f64(call, SUM);
    for (int64_t i = 0; i < K; i++) sum += (double)x[i] * x[i];
    *out = (adds(call, SUM) ? *out : 0) + sum;
}

static void clip(const tri_call *call) {
    enum { COEF, APPLY, NORM, SUMS, SCALE };
    const double *sums = f64(call, SUMS); /* [K] */
    double sum = 0, scale = f32(call, SCALE) ? *f32(call, SCALE) : 1, max_norm = call->attr->max_norm;
    for (int64_t i = 0; i < call->t[SUMS].cols; i++) sum += sums[i];
    double norm = sqrt(sum) / scale;
    *f32(call, COEF) = (float)((max_norm > 0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1) / scale);
    *(int32_t *)call->t[APPLY].data = isfinite(norm);
    *f64(call, NORM) = norm;
}

static void adamw(const tri_call *call) {
    enum { P, M, V, G, HYPER, COEF, APPLY };
    if (!*i32(call, APPLY)) return;
    float *p = f32(call, P), *m = f32(call, M), *v = f32(call, V); /* [K] */
    const float *g = f32(call, G), *hyper = f32(call, HYPER);      /* [K] [4] */
    const tri_attr *attr = call->attr;
    double lr = hyper[0], c1 = hyper[1], c2 = hyper[2], b1 = attr->beta1, b2 = attr->beta2, coef = *f32(call, COEF);
    int64_t K = call->t[P].rows * call->t[P].cols;
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
