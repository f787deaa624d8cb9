/* kernel_function.h - functions that kernels of both CPUs and GPUs call. */
#pragma once

#ifdef __CUDACC__
#define TRI_KERNEL_FUNCTION static __host__ __device__ inline
#else
#define TRI_KERNEL_FUNCTION static inline
#endif
