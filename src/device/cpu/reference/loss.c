/* loss.c - class-weighted cross entropy. `inv` is 1 / the sum of the label weights of the whole global batch, so that
 * losses and gradients of microbatches and replicas simply add up. */
#include "device/cpu/reference/reference.h"

static void cross_entropy(const tri_call *call) {
    OPERANDS(cross_entropy);
    const float *logits = f32(call, ARG(logits)), *cw = f32(call, ARG(cw)); /* [N,C] [C] */
    const int32_t *labels = i32(call, ARG(labels));                         /* [N] */
    int64_t N = call->t[ARG(probs)].rows, C = call->t[ARG(probs)].cols;
    double loss = 0;
    for (int64_t i = 0; i < N; i++) {
        double max = logits[i * C], sum = 0;
        for (int64_t c = 1; c < C; c++)
            if (logits[i * C + c] > max) max = logits[i * C + c];
        for (int64_t c = 0; c < C; c++) sum += exp(logits[i * C + c] - max);
        double lse = max + log(sum);
        for (int64_t c = 0; c < C; c++) store(call, ARG(probs), i * C + c, exp(logits[i * C + c] - lse));
        loss += cw[labels[i]] * (lse - logits[i * C + labels[i]]);
    }
    double *out = f64(call, ARG(loss)); /* [1] */
    *out = (adds(call, ARG(loss)) ? *out : 0) + *f64(call, ARG(inv)) * loss;
}

static void cross_entropy_din(const tri_call *call) {
    OPERANDS(cross_entropy_din);
    const float *probs = f32(call, ARG(probs)), *cw = f32(call, ARG(cw)); /* [N,C] [C] */
    const int32_t *labels = i32(call, ARG(labels));                       /* [N] */
    int64_t N = call->t[ARG(probs)].rows, C = call->t[ARG(probs)].cols;
    double factor = *f64(call, ARG(inv)) * (f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1);
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < C; c++)
            store(call, ARG(dlogits), i * C + c, factor * cw[labels[i]] * (probs[i * C + c] - (c == labels[i])));
}

const tri_kernel_row tri__cpu_loss_reference[] = {
    {.op = TRI_OP_cross_entropy, .dtype = TRI_F32, .run = cross_entropy},
    {.op = TRI_OP_cross_entropy_din, .dtype = TRI_F32, .run = cross_entropy_din},
    {.run = NULL},
};
