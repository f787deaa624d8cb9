/* call.h - reading a call: operands, and how many threads its work justifies. */
#ifndef TRI_DEVICE_CPU_FAST_RUNTIME_CALL_H
#define TRI_DEVICE_CPU_FAST_RUNTIME_CALL_H

#include "base/random.h"
#include "device/cpu/fast/runtime/simd.h"
#include "device/device.h"
#include "device/operands.h"

static inline float *f32(const tri_call *call, int k) { return call->t[k].data; }
static inline const int32_t *i32(const tri_call *call, int k) { return call->t[k].data; }
static inline double *f64(const tri_call *call, int k) { return call->t[k].data; }
static inline int adds(const tri_call *call, int k) { return call->acc >> k & 1; }
static inline int64_t elements(const tri_call *call, int k) { return call->t[k].rows * call->t[k].cols; }

/* A thread takes part for at least `enough` work: waking it takes about 5 us, and much longer where other processes
 * want its core. */
static inline int threads_for(const tri_call *call, int64_t work, int64_t enough) {
    int64_t most = work / enough;
    return most < 1 ? 1 : most < call->threads ? (int)most : call->threads;
}

/* The mask that the call's attributes and random-number state describe. */
static inline tri_drop drop_of(const tri_call *call, int key) {
    uint32_t threshold = tri__random_threshold(call->attr->p);
    return (tri_drop){.seed = call->seed, .id = call->attr->id, .step = call->step, .threshold = threshold,
                      .scale = tri__random_scale(threshold), .key = i32(call, key)};
}

/* Row families, each a list that ends with an empty row. */
#define TRI_FAST_FAMILIES(X) \
    X(linear) X(linear_experts) X(experts) X(activation) X(gated) X(rope) X(norm) X(sums) X(embed) X(attention) \
    X(attention_part) X(heads) X(update) X(optimizer) X(outer) X(coded) X(quantize) X(linear_int8) X(linear_int8_din) \
    X(linear_scaled) X(columns)
#define X(family) extern const tri_kernel_row tri__cpu_##family##_fast[];
TRI_FAST_FAMILIES(X)
#undef X

#endif
