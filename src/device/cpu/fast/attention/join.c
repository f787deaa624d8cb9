/* join.c - what surrounds attention in parts: results of two sets of keys joined, and the keys and values of a run. */
#include "device/cpu/fast/attention/join.h"
#include "device/cpu/fast/runtime/call.h"

enum { ENOUGH = 1 << 14 }; /* elements */

void tri__join_keys(float *restrict ctx, float *lse, const float *restrict more, float logs, int64_t d) {
    float max = *lse > logs ? *lse : logs, w = expf(*lse - max), v = expf(logs - max), sum = w + v;
    *lse = max + logf(sum);
    w /= sum, v /= sum;
    for (int64_t c = 0; c < d; c++) ctx[c] = w * ctx[c] + v * more[c];
}

static void attention_join(const tri_call *call) {
    OPERANDS(attention_join);
    int64_t n = elements(call, ARG(lse)), d = call->t[ARG(ctx)].cols / call->attr->heads;
    float *lse = f32(call, ARG(lse));
    const float *logs = f32(call, ARG(logs));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n * d, ENOUGH))
    for (int64_t i = 0; i < n; i++)
        tri__join_keys(f32(call, ARG(ctx)) + i * d, &lse[i], f32(call, ARG(more)) + i * d, logs[i], d);
}

static void kv_part_din(const tri_call *call) {
    OPERANDS(kv_part);
    int64_t T = call->t[ARG(y)].rows, D = call->t[ARG(y)].cols, G = call->t[ARG(x)].cols;
    int add = adds(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, T * G, ENOUGH))
    for (int64_t t = 0; t < T; t++) {
        float *restrict dx = f32(call, ARG(y)) + t * D + D - G;
        const float *restrict dy = f32(call, ARG(x)) + t * G;
        if (!add) memset(dx - (D - G), 0, (size_t)D * sizeof(float));
        for (int64_t c = 0; c < G; c++) dx[c] += dy[c];
    }
}

static void kv_part(const tri_call *call) {
    OPERANDS(kv_part);
    if (call->attr->back) {
        kv_part_din(call);
        return;
    }
    int64_t T = call->t[ARG(y)].rows, G = call->t[ARG(y)].cols, D = call->t[ARG(x)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, T * G, ENOUGH))
    for (int64_t t = 0; t < T; t++)
        memcpy(f32(call, ARG(y)) + t * G, f32(call, ARG(x)) + t * D + D - G, (size_t)G * sizeof(float));
}

TRI_FAST_ROWS(join) = TRI_KERNEL_ROWS(TRI_KERNEL(kv_part), TRI_KERNEL(attention_join));
