/* scaled_product.cuh - products of 8-bit factors with GELU, or its slope, and results of 8 bits, in one kernel. */
#ifndef TRI_DEVICE_CUDA_SCALED_PRODUCT_CUH
#define TRI_DEVICE_CUDA_SCALED_PRODUCT_CUH

#include "device/cuda/columns.cuh"
#include "device/cuda/fp8.cuh"

/* v [rows, cols] = x [rows, in] w [cols, in]^T / (sx * sw) + b, rounded. Forward: h = v, `to` is gelu(v). Gradient:
 * `to` is v * gelu'(h). */
typedef struct gelu_layer {
    fp8_tensor to;
    const void *x, *w, *b; /* b [cols]; NULL in the gradient */
    const float *sx, *sw;  /* [1] */
    void *h;               /* [rows, cols]; of the forward pass it may be NULL */
    int64_t in;
    int type;              /* tri_dtype of b and h */
} gelu_layer;

enum {
    GELU_PART_SUMS = 4,
    GELU_MOST_PARTS = GELU_PART_SUMS * COLUMN_SMS * COLUMN_EACH
}; /* in COLUMN_WORK(GELU_PART_SUMS) bytes of scratch */

/* 0: nothing was done, since shapes, types or the GPU are not supported. */
int scaled_gelu_product(const tri_call *call, const gelu_layer *of, const char *where);
/* `part`: scratch. Returns the number of parts of the columns' sums that it has [parts, cols]; 0 as above. */
int scaled_gelu_din_product(const tri_call *call, const gelu_layer *of, float *part, const char *where);

#endif
