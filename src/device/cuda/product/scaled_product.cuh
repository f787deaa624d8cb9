/* scaled_product.cuh - products of 8-bit factors in one kernel, alone or with GELU, or its slope, and results of 8
 * bits. */
#pragma once

#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/product/fp8.cuh"

/* y [rows, cols] (+)= x [rows, in] w [cols, in]^T / (sx * sw) + b */
typedef struct scaled_layer {
    const void *x, *w, *b;   /* b [cols] or NULL */
    const float *sx, *sw;    /* [1] */
    void *y;
    int64_t rows, cols, in;
    int x_type, w_type, y_type, add;
    int tokens_in_sum;       /* 1: `in` counts tokens, else `rows` does */
    size_t taken;            /* bytes of the library's workspace that hold y */
} scaled_layer;

enum {
    ACT_PART_SUMS = 4,
    ACT_MOST_PARTS = ACT_PART_SUMS * COLUMN_SMS * COLUMN_EACH
}; /* in COLUMN_WORK(ACT_PART_SUMS) bytes of scratch */

/* These return 0 if shapes, types or the GPU are not supported, and nothing was done. */
int scaled_product(const tri_call *call, const scaled_layer *of, const char *where);
/* y, which may be NULL, is as rounded; `to` becomes the call's activation of it. */
int scaled_act_product(const tri_call *call, const scaled_layer *of, const fp8_tensor &to, const char *where);
/* y is what the activation's slope is computed from: `to` becomes the product, as rounded, times it. Returns the number
 * of parts of the columns' sums, [parts, cols] in `part`. */
int scaled_act_din_product(const tri_call *call, const scaled_layer *of, const fp8_tensor &to, float *part,
                           const char *where);
