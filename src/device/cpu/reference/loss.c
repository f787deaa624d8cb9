/* loss.c - class-weighted cross entropy, with smoothed labels (Szegedy et al. 2016; as PyTorch's CrossEntropyLoss),
 * focal loss (Lin et al. 2017), and losses of numbers. `inv` is 1 / the sum of the label weights of the whole global
 * batch, so that losses and gradients of microbatches and replicas simply add up. */
#include "device/cpu/reference/reference.h"
#include "numbers/number_loss.h"

/* Of one sample: logits [C], cw [C]. 1 - p is summed from the other classes, so that it keeps its digits where p is
 * near 1. */
static double sample_loss(const tri_attr *attr, const float *logits, const float *cw, int32_t label, int64_t C,
                          double lse) {
    double loss = cw[label] * (lse - logits[label]), others = 0, all = 0;
    if (attr->gamma > 0) {
        for (int64_t c = 0; c < C; c++)
            if (c != label) others += exp(logits[c] - lse);
        return pow(others, (double)attr->gamma) * loss;
    }
    if (attr->smoothing == 0) return loss;
    for (int64_t c = 0; c < C; c++) all += cw[c] * (lse - logits[c]);
    return (1 - (double)attr->smoothing) * loss + (double)attr->smoothing / (double)C * all;
}

/* What the gradient of a sample's cross entropy is multiplied by in focal loss; probs [C]. The second term's limits are
 * 0 at both ends. */
static double focal_factor(double gamma, const float *probs, int32_t label, int64_t C) {
    double p = probs[label], others = 0;
    for (int64_t c = 0; c < C; c++)
        if (c != label) others += probs[c];
    if (others == 0 || p == 0) return pow(others, gamma);
    double log_p = others < 0.5 ? log1p(-others) : log(p);
    return pow(others, gamma) - gamma * p * pow(others, gamma - 1) * log_p;
}

static void cross_entropy(const tri_call *call) {
    OPERANDS(cross_entropy);
    const float *logits = f32(call, ARG(logits)), *cw = f32(call, ARG(cw)); /* [N,C] [C] */
    const int32_t *labels = i32(call, ARG(labels));                         /* [N] */
    const float *rw = f32(call, ARG(rw));                                     /* [N]; NULL: all 1 */
    int64_t N = call->t[ARG(probs)].rows, C = call->t[ARG(probs)].cols;
    double loss = 0;
    for (int64_t i = 0; i < N; i++) {
        double max = logits[i * C], sum = 0;
        for (int64_t c = 1; c < C; c++)
            if (logits[i * C + c] > max) max = logits[i * C + c];
        for (int64_t c = 0; c < C; c++) sum += exp(logits[i * C + c] - max);
        double lse = max + log(sum);
        for (int64_t c = 0; c < C; c++) store(call, ARG(probs), i * C + c, exp(logits[i * C + c] - lse));
        loss += (rw ? rw[i] : 1) * sample_loss(call->attr, logits + i * C, cw, labels[i], C, lse);
    }
    double *out = f64(call, ARG(loss)); /* [1] */
    *out = (adds(call, ARG(loss)) ? *out : 0) + *f64(call, ARG(inv)) * loss;
}

static void cross_entropy_din(const tri_call *call) {
    OPERANDS(cross_entropy_din);
    const float *probs = f32(call, ARG(probs)), *cw = f32(call, ARG(cw)); /* [N,C] [C] */
    const int32_t *labels = i32(call, ARG(labels));                       /* [N] */
    const float *rw = f32(call, ARG(rw));                                   /* [N]; NULL: all 1 */
    int64_t N = call->t[ARG(probs)].rows, C = call->t[ARG(probs)].cols;
    double whole = *f64(call, ARG(inv)) * (f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1);
    double smoothing = call->attr->smoothing, gamma = call->attr->gamma, weights = 0; /* of all classes */
    for (int64_t c = 0; c < C; c++) weights += cw[c];
    for (int64_t i = 0; i < N; i++) {
        double factor = whole * (rw ? rw[i] : 1), own = factor * cw[labels[i]];
        if (gamma > 0) own *= focal_factor(gamma, probs + i * C, labels[i], C);
        for (int64_t c = 0; c < C; c++) {
            double d = own * (probs[i * C + c] - (c == labels[i]));
            if (smoothing > 0)
                d = (1 - smoothing) * d + factor * smoothing / (double)C * (weights * probs[i * C + c] - cw[c]);
            store(call, ARG(dlogits), i * C + c, d);
        }
    }
}

static void regress(const tri_call *call) {
    OPERANDS(regress);
    const float *logits = f32(call, ARG(logits)), *levels = f32(call, ARG(levels));   /* [N,C] [C] */
    const float *targets = f32(call, ARG(targets)), *rw = f32(call, ARG(rw));         /* [N,J] [N]; rw NULL: all 1 */
    int64_t N = call->t[ARG(values)].rows, C = call->t[ARG(values)].cols, J = call->t[ARG(targets)].cols;
    double loss = 0;
    for (int64_t i = 0; i < N; i++) {
        double own = 0;
        for (int64_t c = 0; c < C; c++) {
            double y = logits[i * C + c];
            store(call, ARG(values), i * C + c, tri__number_value(call->attr->loss, y));
            own += tri__number_loss(call->attr->loss, call->attr->delta, levels[c], y,
                                    targets[J > 1 ? i * J + c : i]);
        }
        loss += (rw ? rw[i] : 1) * own / (double)C;
    }
    double *out = f64(call, ARG(loss)); /* [1] */
    *out = (adds(call, ARG(loss)) ? *out : 0) + *f64(call, ARG(inv)) * loss;
}

static void regress_din(const tri_call *call) {
    OPERANDS(regress_din);
    const float *values = f32(call, ARG(values)), *levels = f32(call, ARG(levels));   /* [N,C] [C] */
    const float *targets = f32(call, ARG(targets)), *rw = f32(call, ARG(rw));         /* [N,J] [N]; rw NULL: all 1 */
    int64_t N = call->t[ARG(values)].rows, C = call->t[ARG(values)].cols, J = call->t[ARG(targets)].cols;
    double whole = *f64(call, ARG(inv)) * (f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1) / (double)C;
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < C; c++)
            store(call, ARG(dlogits), i * C + c,
                  whole * (rw ? rw[i] : 1) *
                      tri__number_slope(call->attr->loss, call->attr->delta, levels[c], values[i * C + c],
                                        targets[J > 1 ? i * J + c : i]));
}

const tri_kernel_row tri__cpu_loss_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(cross_entropy), TRI_KERNEL(cross_entropy_din), TRI_KERNEL(regress), TRI_KERNEL(regress_din));
