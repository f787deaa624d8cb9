/* loss.cu - class-weighted cross entropy, with smoothed labels, focal loss, and losses of numbers. `inv` is 1 / the sum
 * of the label weights of the whole global batch, so that losses and gradients of microbatches and replicas simply add
 * up. */
#include "device/cuda/runtime/common.cuh"
#include "numbers/number_loss.h"

enum { THREADS = 256 };

/* The same as the reference, device/cpu/reference/loss.c: of one sample, logits [classes], cw [classes]. */
template <typename T>
static __device__ double sample_loss(double smoothing, double gamma, const T *logits, const float *cw, int32_t label,
                                     int64_t classes, double lse) {
    double loss = cw[label] * (lse - wide(logits[label])), others = 0, all = 0;
    if (gamma > 0) {
        for (int64_t c = 0; c < classes; c++)
            if (c != label) others += exp(wide(logits[c]) - lse);
        return pow(others, gamma) * loss;
    }
    if (smoothing == 0) return loss;
    for (int64_t c = 0; c < classes; c++) all += cw[c] * (lse - wide(logits[c]));
    return (1 - smoothing) * loss + smoothing / (double)classes * all;
}

/* What the gradient of a sample's cross entropy is multiplied by in focal loss; probs [classes]. */
static __device__ double focal_factor(double gamma, const float *probs, int32_t label, int64_t classes) {
    double p = probs[label], others = 0;
    for (int64_t c = 0; c < classes; c++)
        if (c != label) others += probs[c];
    if (others == 0 || p == 0) return pow(others, gamma);
    double log_p = others < 0.5 ? log1p(-others) : log(p);
    return pow(others, gamma) - gamma * p * pow(others, gamma - 1) * log_p;
}

/* One block: a thread handles every 256th sample, and the threads' sums are added in a fixed order. */
template <typename T>
static __global__ void cross_entropy_kernel(int64_t n, int64_t classes, double *loss, float *probs, const T *logits,
                                            const int32_t *labels, const float *cw, const double *inv,
                                            const float *rw, float smoothing, float gamma, int add) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const T *row = logits + i * classes; /* [classes] */
        double max = wide(row[0]), total = 0;
        for (int64_t c = 1; c < classes; c++) max = fmax(max, (double)wide(row[c]));
        for (int64_t c = 0; c < classes; c++) total += exp(wide(row[c]) - max);
        double lse = max + log(total);
        for (int64_t c = 0; c < classes; c++) probs[i * classes + c] = (float)exp(wide(row[c]) - lse);
        sum += (rw ? rw[i] : 1.0f) * sample_loss(smoothing, gamma, row, cw, labels[i], classes, lse);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *loss = (add ? *loss : 0) + *inv * sum;
}

template <typename T>
static __global__ void cross_entropy_din_kernel(int64_t n, int64_t classes, T *dlogits, const float *probs,
                                                const int32_t *labels, const float *cw, const double *inv,
                                                const float *rw, const float *scale, float smoothing, float gamma,
                                                int add) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = at / classes;
    if (at >= n * classes) return;
    double scaled = *inv * (scale ? *scale : 1.0f) * (rw ? rw[i] : 1.0f);
    float factor = (float)scaled * cw[labels[i]];
    float value = factor * (probs[at] - (at % classes == labels[i] ? 1.0f : 0.0f));
    if (gamma > 0) value = (float)(value * focal_factor(gamma, probs + i * classes, labels[i], classes));
    if (smoothing > 0) {
        double weights = 0;
        for (int64_t c = 0; c < classes; c++) weights += cw[c];
        value = (float)((1 - (double)smoothing) * value +
                        scaled * smoothing / (double)classes * (weights * probs[at] - cw[at % classes]));
    }
    dlogits[at] = narrow<T>(value + (add ? wide(dlogits[at]) : 0.0f));
}

template <typename T> static void cross_entropy(const tri_call *call) {
    OPERANDS(cross_entropy);
    queue(call, "cross_entropy", cross_entropy_kernel<T>, 1, THREADS, call->t[ARG(probs)].rows,
          call->t[ARG(probs)].cols, GIVEN(loss), GIVEN(probs), GIVEN(logits), GIVEN(labels), GIVEN(cw), GIVEN(inv),
          GIVEN(rw), call->attr->smoothing, call->attr->gamma, adds(call, ARG(loss)));
}

template <typename T> static void cross_entropy_din(const tri_call *call) {
    OPERANDS(cross_entropy_din);
    int64_t n = elements(call, ARG(dlogits));
    if (n == 0) return;
    queue(call, "cross_entropy_din", cross_entropy_din_kernel<T>, blocks_for(n, THREADS), THREADS,
          call->t[ARG(dlogits)].rows, call->t[ARG(dlogits)].cols, GIVEN(dlogits), GIVEN(probs), GIVEN(labels),
          GIVEN(cw), GIVEN(inv), GIVEN(rw), GIVEN(scale), call->attr->smoothing, call->attr->gamma,
          adds(call, ARG(dlogits)));
}

/* One block, as above. */
template <typename T>
static __global__ void regress_kernel(int64_t n, int64_t outputs, double *loss, float *values, const T *logits,
                                      const float *targets, int several, const float *levels, const double *inv,
                                      const float *rw, int kind, float delta, int add) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        double own = 0;
        for (int64_t c = 0; c < outputs; c++) {
            double y = wide(logits[i * outputs + c]);
            values[i * outputs + c] = (float)tri__number_value(kind, y);
            own += tri__number_loss(kind, delta, levels[c], y, targets[several ? i * outputs + c : i]);
        }
        sum += (rw ? rw[i] : 1.0f) * own / (double)outputs;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *loss = (add ? *loss : 0) + *inv * sum;
}

template <typename T>
static __global__ void regress_din_kernel(int64_t n, int64_t outputs, T *dlogits, const float *values,
                                          const float *targets, int several, const float *levels,
                                          const double *inv, const float *rw, const float *scale, int kind,
                                          float delta, int add) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = at / outputs;
    if (at >= n * outputs) return;
    double whole = *inv * (scale ? *scale : 1.0f) * (rw ? rw[i] : 1.0f) / (double)outputs;
    float value = (float)(whole * tri__number_slope(kind, delta, levels[at % outputs], values[at],
                                                    targets[several ? at : i]));
    dlogits[at] = narrow<T>(value + (add ? wide(dlogits[at]) : 0.0f));
}

template <typename T> static void regress(const tri_call *call) {
    OPERANDS(regress);
    queue(call, "regress", regress_kernel<T>, 1, THREADS, call->t[ARG(values)].rows, call->t[ARG(values)].cols,
          GIVEN(loss), GIVEN(values), GIVEN(logits), GIVEN(targets), call->t[ARG(targets)].cols > 1, GIVEN(levels),
          GIVEN(inv), GIVEN(rw), call->attr->loss, call->attr->delta, adds(call, ARG(loss)));
}

template <typename T> static void regress_din(const tri_call *call) {
    OPERANDS(regress_din);
    int64_t n = elements(call, ARG(dlogits));
    if (n == 0) return;
    queue(call, "regress_din", regress_din_kernel<T>, blocks_for(n, THREADS), THREADS, call->t[ARG(dlogits)].rows,
          call->t[ARG(dlogits)].cols, GIVEN(dlogits), GIVEN(values), GIVEN(targets), call->t[ARG(targets)].cols > 1,
          GIVEN(levels), GIVEN(inv), GIVEN(rw), GIVEN(scale), call->attr->loss, call->attr->delta,
          adds(call, ARG(dlogits)));
}

TRI_CUDA_FAMILY(loss) = {
    TRI_CUDA_ROWS(TRI_OP_cross_entropy, cross_entropy, {}),
    TRI_CUDA_ROWS(TRI_OP_cross_entropy_din, cross_entropy_din, {}),
    TRI_CUDA_ROWS(TRI_OP_regress, regress, {}),
    TRI_CUDA_ROWS(TRI_OP_regress_din, regress_din, {}),
    {},
};
