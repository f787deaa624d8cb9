/* missing.c - empty lists for families whose file is not there yet. */
#include "device/cuda/cuda.h"

#define X(family) __attribute__((weak)) const tri_kernel_row tri__cuda_##family[] = {{0}};
TRI_CUDA_FAMILIES(X)
#undef X
