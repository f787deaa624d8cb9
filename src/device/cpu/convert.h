/* convert.h - n numbers of a float type as fp32 and back, rounded once, to nearest. */
#pragma once

#include "layout/dtype.h"
#include "numbers/float16.h"

#include <string.h>

static inline void tri__widen(int dtype, int64_t n, const void *from, float *to) {
    const uint16_t *half = from; /* [n] */
    if (dtype == TRI_F32) memmove(to, from, (size_t)n * sizeof *to);
    else if (dtype == TRI_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = tri__from_bf16(half[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = tri__from_f16(half[i]);
}

static inline void tri__narrow(int dtype, int64_t n, const float *from, void *to) {
    uint16_t *half = to; /* [n] */
    if (dtype == TRI_F32) memmove(to, from, (size_t)n * sizeof *from);
    else if (dtype == TRI_BF16)
        for (int64_t i = 0; i < n; i++) half[i] = tri__to_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++) half[i] = tri__to_f16(from[i]);
}
