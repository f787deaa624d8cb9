/* call.h - reading a call: operands, and how many threads its work justifies. */
#pragma once

#include "device/device.h"
#include "device/operands.h"

#ifdef _OPENMP
#include <omp.h>
#else /* one thread */
static inline int omp_get_thread_num(void) { return 0; }
#endif

static inline float *f32(const tri_call *call, int k) { return call->t[k].data; }
static inline uint16_t *bf16(const tri_call *call, int k) { return call->t[k].data; }
static inline const int32_t *i32(const tri_call *call, int k) { return call->t[k].data; }
static inline double *f64(const tri_call *call, int k) { return call->t[k].data; }
static inline int adds(const tri_call *call, int k) { return call->acc >> k & 1; }
static inline int64_t elements(const tri_call *call, int k) { return call->t[k].rows * call->t[k].cols; }

/* Element i of an operand of any width. */
static inline void *at_element(const tri_call *call, int k, int64_t i) {
    return (char *)call->t[k].data + (size_t)i * tri__dtype_bytes((tri_dtype)call->dtype[k]);
}

/* Whether an operand has a 16-bit type. */
static inline int has_half(const tri_call *call) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (call->t[k].data && tri__dtype_bytes((tri_dtype)call->dtype[k]) == 2) return 1;
    return 0;
}

/* A thread takes part for at least `enough` work: waking it takes about 5 us, and much longer where other processes
 * want its core. */
static inline int threads_for(const tri_call *call, int64_t work, int64_t enough) {
    int64_t most = work / enough;
    return most < 1 ? 1 : most < call->threads ? (int)most : call->threads;
}

/* Which values dropout keeps: a function of (seed, id, step), the row's key and the feature (base/random.h). */
typedef struct tri_drop {
    uint32_t seed, id, step;
    uint32_t threshold;  /* 0: nothing is dropped */
    float scale;         /* factor of kept values */
    const int32_t *key;  /* [T,2] */
} tri_drop;

/* The mask that the call's attributes and random-number state describe. */
static inline tri_drop drop_of(const tri_call *call, int key) {
    uint32_t threshold = tri__random_threshold(call->attr->p);
    return (tri_drop){.seed = call->seed, .id = call->attr->id, .step = call->step, .threshold = threshold,
                      .scale = tri__random_scale(threshold), .key = i32(call, key)};
}

/* The scratch space of a 16-bit row that replaces one of half.c, on which it may fall back: the same. */
#define TRI_AS_HALF {.half = sizeof(float)}
/* The rows of a function for fp32, with this scratch space, and for bf16. */
#define TRI_HALF_ROWS(op_, run_, facts_, ...)                                                    \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = run_, .work = __VA_ARGS__, .facts = facts_},   \
    {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = run_, .work = TRI_AS_HALF, .facts = facts_}

/* A file's list of rows: TRI_FAST_ROWS(norm) = TRI_KERNEL_ROWS(...). The Makefile finds it by this name. */
#ifdef TRI_ISA
#define TRI_FAST_ROWS(family) const tri_kernel_row PER_ISA(tri__cpu_##family##_fast)[]
#else
#define TRI_FAST_ROWS(family) const tri_kernel_row tri__cpu_##family##_fast[]
#endif
