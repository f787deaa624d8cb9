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
    cross_entropy_kernel<T><<<1, THREADS, 0, stream(call)>>>(
        call->t[ARG(probs)].rows, call->t[ARG(probs)].cols, data<double>(call, ARG(loss)),
        data<float>(call, ARG(probs)), data<T>(call, ARG(logits)), data<int32_t>(call, ARG(labels)),
        data<float>(call, ARG(cw)), data<double>(call, ARG(inv)), data<float>(call, ARG(rw)), call->attr->smoothing,
        call->attr->gamma, adds(call, ARG(loss)));
    launched(call, "cross_entropy");
}

template <typename T> static void cross_entropy_din(const tri_call *call) {
    OPERANDS(cross_entropy_din);
    int64_t n = elements(call, ARG(dlogits));
    if (n == 0) return;
    cross_entropy_din_kernel<T><<<blocks_for(n, THREADS), THREADS, 0, stream(call)>>>(
        call->t[ARG(dlogits)].rows, call->t[ARG(dlogits)].cols, data<T>(call, ARG(dlogits)),
        data<float>(call, ARG(probs)), data<int32_t>(call, ARG(labels)), data<float>(call, ARG(cw)),
        data<double>(call, ARG(inv)), data<float>(call, ARG(rw)), data<float>(call, ARG(scale)),
        call->attr->smoothing, call->attr->gamma, adds(call, ARG(dlogits)));
    launched(call, "cross_entropy_din");
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
    regress_kernel<T><<<1, THREADS, 0, stream(call)>>>(
        call->t[ARG(values)].rows, call->t[ARG(values)].cols, data<double>(call, ARG(loss)),
        data<float>(call, ARG(values)), data<T>(call, ARG(logits)), data<float>(call, ARG(targets)),
        call->t[ARG(targets)].cols > 1, data<float>(call, ARG(levels)), data<double>(call, ARG(inv)),
        data<float>(call, ARG(rw)), call->attr->loss, call->attr->delta,
        adds(call, ARG(loss)));
    launched(call, "regress");
}

template <typename T> static void regress_din(const tri_call *call) {
    OPERANDS(regress_din);
    int64_t n = elements(call, ARG(dlogits));
    if (n == 0) return;
    regress_din_kernel<T><<<blocks_for(n, THREADS), THREADS, 0, stream(call)>>>(
        call->t[ARG(dlogits)].rows, call->t[ARG(dlogits)].cols, data<T>(call, ARG(dlogits)),
        data<float>(call, ARG(values)), data<float>(call, ARG(targets)), call->t[ARG(targets)].cols > 1,
        data<float>(call, ARG(levels)), data<double>(call, ARG(inv)), data<float>(call, ARG(rw)),
        data<float>(call, ARG(scale)), call->attr->loss, call->attr->delta, adds(call, ARG(dlogits)));
    launched(call, "regress_din");
}

TRI_CUDA_FAMILY(loss) = {
    TRI_CUDA_ROWS(TRI_OP_cross_entropy, cross_entropy, {}),
    TRI_CUDA_ROWS(TRI_OP_cross_entropy_din, cross_entropy_din, {}),
    TRI_CUDA_ROWS(TRI_OP_regress, regress, {}),
    TRI_CUDA_ROWS(TRI_OP_regress_din, regress_din, {}),
    {},
};
