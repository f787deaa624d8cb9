/* gelu_product.cuh - linear_gelu and linear_gelu_din in one kernel each. Both return 0 where shapes, types or the GPU do not allow it, and have
 * then done nothing. */
#ifndef TRI_DEVICE_CUDA_GELU_PRODUCT_CUH
#define TRI_DEVICE_CUDA_GELU_PRODUCT_CUH

#include "device/cuda/common.cuh"

int gelu_product(const tri_call *call);
int gelu_din_product(const tri_call *call);

#endif
