/* optimizer.c - the optimizers, in PyTorch's order of operations: AdamW (Loshchilov and Hutter, 2019), Adam (Kingma and
 * Ba, 2015), SGD with momentum, LAMB (You et al., 2020), 1-bit LAMB (Li et al., 2021). A step whose gradients are not
 * finite changes nothing. */
#include "device/cpu/reference/reference.h"
#include "numbers/trust.h"

/* m and v of an element take up a gradient. */
static void take_up(const tri_attr *attr, double gradient, float *m, float *v) {
    double b1 = attr->beta1, b2 = attr->beta2;
    *m = (float)(b1 * *m + (1 - b1) * gradient);
    *v = (float)(b2 * *v + (1 - b2) * gradient * gradient);
}

/* hyper [4] */
static float rate_of(const tri_call *call, const float *hyper) { return hyper[0] * tri__rate_factor(call->attr); }

/* m / c1 / (sqrt(v / c2) + eps); hyper [4] */
static double direction(const tri_attr *attr, const float *hyper, float m, float v) {
    return m / (double)hyper[1] / (sqrt(v) / sqrt(hyper[2]) + attr->eps);
}

static void adamw(const tri_call *call) {
    OPERANDS(adamw);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)), *v = f32(call, ARG(v)); /* [K] */
    const float *g = f32(call, ARG(g)), *hyper = f32(call, ARG(hyper));           /* [K] [4] */
    const tri_attr *attr = call->attr;
    double lr = rate_of(call, hyper), c1 = hyper[1], c2 = hyper[2], coef = *f32(call, ARG(coef));
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double decayed = p[i] * (1 - lr * attr->decay);
        take_up(attr, g[i] * coef, &m[i], &v[i]);
        p[i] = (float)(decayed - lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + attr->eps));
    }
}

static void adam(const tri_call *call) {
    OPERANDS(adamw);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)), *v = f32(call, ARG(v)); /* [K] */
    const float *g = f32(call, ARG(g)), *hyper = f32(call, ARG(hyper));           /* [K] [4] */
    double coef = *f32(call, ARG(coef));
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        take_up(call->attr, g[i] * coef + (double)call->attr->decay * p[i], &m[i], &v[i]);
        p[i] = (float)(p[i] - rate_of(call, hyper) * direction(call->attr, hyper, m[i], v[i]));
    }
}

static void sgd(const tri_call *call) {
    OPERANDS(sgd);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)); /* [K]; m may be NULL */
    const float *g = f32(call, ARG(g));                   /* [K] */
    double lr = rate_of(call, f32(call, ARG(hyper))), coef = *f32(call, ARG(coef)), b1 = call->attr->beta1;
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double step = g[i] * coef + (double)call->attr->decay * p[i];
        if (m) {
            m[i] = (float)(b1 * m[i] + step);
            step = call->attr->nesterov ? step + b1 * m[i] : m[i];
        }
        p[i] = (float)(p[i] - lr * step);
    }
}

static void lamb_moments(const tri_call *call) {
    OPERANDS(lamb_moments);
    float *m = f32(call, ARG(m)), *v = f32(call, ARG(v));               /* [K] */
    const float *p = f32(call, ARG(p)), *g = f32(call, ARG(g)), *hyper = f32(call, ARG(hyper)); /* [K] [K] [4] */
    double coef = *f32(call, ARG(coef)), squares[2] = {0}, *sums = f64(call, ARG(sums)); /* [2]; may be NULL */
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        if (*i32(call, ARG(apply))) take_up(call->attr, g[i] * coef, &m[i], &v[i]);
        double r = direction(call->attr, hyper, m[i], v[i]) + (double)call->attr->decay * p[i];
        squares[0] += (double)p[i] * p[i], squares[1] += r * r;
    }
    for (int i = 0; i < 2 && sums; i++) sums[i] = (adds(call, ARG(sums)) ? sums[i] : 0) + squares[i];
}

static double within(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

static void lamb_step(const tri_call *call) {
    OPERANDS(lamb_step);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p));                                                               /* [K] */
    const float *m = f32(call, ARG(m)), *v = f32(call, ARG(v)), *hyper = f32(call, ARG(hyper)); /* [K] [K] [4] */
    const double *sums = f64(call, ARG(sums)); /* [2], may be NULL; frozen: [3] */
    int frozen = call->attr->frozen;
    double ratio = frozen ? tri__frozen_ratio(*f32(call, ARG(average)), *f32(call, ARG(factor)), sums)
                          : sums && sums[0] > 0 && sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 1;
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double r = direction(call->attr, hyper, m[i], v[i]);
        if (frozen) r = within(r, -1, 1);
        p[i] = (float)(p[i] - rate_of(call, hyper) * ratio * (r + (double)call->attr->decay * p[i]));
    }
}

static void lamb_average(const tri_call *call) {
    OPERANDS(lamb_average);
    if (!*i32(call, ARG(apply))) return;
    float *average = f32(call, ARG(average));  /* [K] */
    const double *sums = f64(call, ARG(sums)); /* [K,2] */
    for (int64_t k = 0; k < call->t[ARG(sums)].rows; k++, sums += 2) {
        if (!(sums[0] > 0 && sums[1] > 0)) continue;
        double ratio = sqrt(sums[0] / sums[1]);
        average[k] = (float)(average[k] != 0 ? TRI_RATIO_KEPT * average[k] + (1 - TRI_RATIO_KEPT) * ratio : ratio);
    }
}

static void lamb_refresh(const tri_call *call) {
    OPERANDS(lamb_refresh);
    const tri_attr *attr = call->attr;
    float *fresh = f32(call, ARG(fresh));                                                       /* [K] */
    const float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)), *old = f32(call, ARG(old));     /* [K] each */
    const float *v = f32(call, ARG(v)), *hyper = f32(call, ARG(hyper));                         /* [K] [4] */
    double most = 0, squares[3] = {0}, *sums = f64(call, ARG(sums)), b1 = attr->beta1, b2 = attr->beta2;
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double g = (m[i] - b1 * old[i]) / (1 - b1);
        if (*i32(call, ARG(apply))) fresh[i] = (float)(b2 * fresh[i] + (1 - b2) * g * g);
        double root = sqrt(v[i]) / sqrt(hyper[2]) + attr->eps, now = sqrt(fresh[i]) / sqrt(hyper[3]) + attr->eps;
        double r = within(m[i] / (double)hyper[1] / root, -1, 1), step = r + (double)attr->decay * p[i];
        squares[0] += r * r, squares[1] += step * step, squares[2] += (double)p[i] * p[i];
        if (m[i] != 0 && root / now > most) most = root / now;
    }
    *f64(call, ARG(most)) = most;
    for (int i = 0; i < 3 && sums; i++) sums[i] = (adds(call, ARG(sums)) ? sums[i] : 0) + squares[i];
}

static void lamb_factor(const tri_call *call) {
    OPERANDS(lamb_factor);
    if (!*i32(call, ARG(apply))) return;
    float *factor = f32(call, ARG(factor));                                         /* [K] */
    const double *sums = f64(call, ARG(sums)), *most = f64(call, ARG(most));        /* [K,3] [K] */
    for (int64_t k = 0; k < call->t[ARG(sums)].rows; k++, sums += 3) {
        double part = sums[1] > 0 ? fmin(1, sqrt(sums[0] / sums[1])) : 0, last = factor[k] != 0 ? factor[k] : 1;
        double x = within(part * most[k] + (1 - part), TRI_FACTOR_LEAST, TRI_FACTOR_MOST);
        factor[k] = (float)within(x, last * (1 - TRI_FACTOR_CHANGE), last * (1 + TRI_FACTOR_CHANGE));
    }
}

const tri_kernel_row tri__cpu_optimizer_reference[] = TRI_KERNEL_ROWS(
    {.op = TRI_OP_adamw, .dtype = TRI_F32, .run = adam, .facts = TRI_FACT_COUPLED},
    TRI_KERNEL(adamw), TRI_KERNEL(sgd), TRI_KERNEL(lamb_moments), TRI_KERNEL(lamb_step), TRI_KERNEL(lamb_average),
    TRI_KERNEL(lamb_refresh), TRI_KERNEL(lamb_factor));
