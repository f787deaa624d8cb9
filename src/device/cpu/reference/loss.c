/* loss.c - class-weighted cross entropy. `inv` is 1 / the sum of the label weights of the whole global batch, so that
 * losses and gradients of microbatches and replicas simply add up. */
#include "device/cpu/reference/reference.h"

static void cross_entropy(const tri_call *call) {
    enum { LOSS, PROBS, LOGITS, LABELS, CW, INV };
    const float *logits = f32(call, LOGITS), *cw = f32(call, CW); /* [N,C] [C] */
    const int32_t *labels = i32(call, LABELS);                    /* [N] */
    int64_t N = call->t[PROBS].rows, C = call->t[PROBS].cols;
    double loss = 0;
    for (int64_t i = 0; i < N; i++) {
        double max = logits[i * C], sum = 0;
        for (int64_t c = 1; c < C; c++)
            if (logits[i * C + c] > max) max = logits[i * C + c];
        for (int64_t c = 0; c < C; c++) sum += exp(logits[i * C + c] - max);
        double lse = max + log(sum);
        for (int64_t c = 0; c < C; c++) store(call, PROBS, i * C + c, exp(logits[i * C + c] - lse));
        loss += cw[labels[i]] * (lse - logits[i * C + labels[i]]);
    }
    double *out = f64(call, LOSS); /* [1] */
    *out = (adds(call, LOSS) ? *out : 0) + *f64(call, INV) * loss;
}

static void cross_entropy_din(const tri_call *call) {
    enum { DLOGITS, PROBS, LABELS, CW, INV, SCALE };
    const float *probs = f32(call, PROBS), *cw = f32(call, CW); /* [N,C] [C] */
    const int32_t *labels = i32(call, LABELS);                  /* [N] */
    int64_t N = call->t[PROBS].rows, C = call->t[PROBS].cols;
    double factor = *f64(call, INV) * (f32(call, SCALE) ? *f32(call, SCALE) : 1);
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < C; c++)
            store(call, DLOGITS, i * C + c, factor * cw[labels[i]] * (probs[i * C + c] - (c == labels[i])));
}

const tri_kernel_row tri__cpu_loss_reference[] = {
    {.op = TRI_OP_cross_entropy, .dtype = TRI_F32, .run = cross_entropy},
    {.op = TRI_OP_cross_entropy_din, .dtype = TRI_F32, .run = cross_entropy_din},
    {.run = NULL},
};
