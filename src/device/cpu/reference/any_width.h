/* any_width.h - elements of operands of any float type, for rows that take every width of the computing type. */
#pragma once

#include "device/cpu/reference/reference.h"
#include "numbers/float16.h"

/* Element i of an operand of the computing type, or of any float type. */
static inline float load(const tri_call *call, int k, int64_t i) {
    if (call->dtype[k] == TRI_BF16) return tri__from_bf16(((const uint16_t *)call->t[k].data)[i]);
    if (call->dtype[k] == TRI_F16) return tri__from_f16(((const uint16_t *)call->t[k].data)[i]);
    return f32(call, k)[i];
}

/* Writes, or adds to, element i; rounds once. Does nothing if the operand is absent. */
static inline void save(const tri_call *call, int k, int64_t i, double value) {
    if (!call->t[k].data) return;
    if (adds(call, k)) value += load(call, k, i);
    if (call->dtype[k] == TRI_BF16) ((uint16_t *)call->t[k].data)[i] = tri__to_bf16((float)value);
    else if (call->dtype[k] == TRI_F16) ((uint16_t *)call->t[k].data)[i] = tri__to_f16((float)value);
    else f32(call, k)[i] = (float)value;
}
