/* distance.h - the buckets in which encoders put the distances of tokens, as transformers' models do: near ones have
 * one each, far ones share them by their logarithm. Models were trained with float32's boundaries, so these are
 * computed in float32 too; only the logarithm is taken in double and rounded once, which is the same on every machine.
 */
#pragma once

#include "base/kernel_function.h"

#include <math.h>
#include <stdint.h>

/* T5's (MPNet): `distance` is key - query. Rows 0 .. buckets/2 - 1 are of keys at or before the query, the others of
 * keys behind it; distances from `reach` on share the last row of their half. */
TRI_KERNEL_FUNCTION int32_t tri__bucket_t5(int32_t distance, int32_t buckets, int32_t reach) {
    int32_t half = buckets / 2, exact = half / 2, base = distance > 0 ? half : 0;
    int32_t n = distance < 0 ? -distance : distance;
    if (n < exact) return base + n;
    float part = (float)log((double)((float)n / (float)exact));
    part = part / (float)log((double)reach / exact);
    part = part * (float)(half - exact);
    int32_t far = exact + (int32_t)part;
    return base + (far < half - 1 ? far : half - 1);
}

/* DeBERTa's: `distance` is query - key; rows are bucket + buckets/2, 0 .. buckets - 1. Distances below buckets/4 have a
 * row each, those up to `reach` share the others; with reach 0 each distance has its own. */
TRI_KERNEL_FUNCTION int32_t tri__bucket_log(int32_t distance, int32_t buckets, int32_t reach) {
    int32_t span = buckets / 2, mid = span / 2, n = distance < 0 ? -distance : distance;
    if (reach && n > mid) {
        float part = (float)log((double)((float)n / (float)mid));
        part = part / (float)log((double)(float)((double)(reach - 1) / mid));
        part = part * (float)(mid - 1);
        n = (int32_t)ceilf(part) + mid;
    }
    int32_t row = span + (distance < 0 ? -n : n);
    return row < 0 ? 0 : row < buckets ? row : buckets - 1;
}
