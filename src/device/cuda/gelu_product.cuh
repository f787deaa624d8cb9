/* gelu_product.cuh - linear_gelu and linear_gelu_din in one kernel each. Both return 0, having done nothing, if shapes,
 * types or the GPU are not supported. */
#ifndef TRI_DEVICE_CUDA_GELU_PRODUCT_CUH
#define TRI_DEVICE_CUDA_GELU_PRODUCT_CUH

#include "device/cuda/columns.cuh"

enum {
    PART_SUMS = 3,
    MOST_PARTS = PART_SUMS * COLUMN_SMS * COLUMN_EACH
}; /* of gelu_din_product, in COLUMN_WORK(PART_SUMS) bytes of scratch */

int gelu_product(const tri_call *call);
int gelu_din_product(const tri_call *call);

#endif
