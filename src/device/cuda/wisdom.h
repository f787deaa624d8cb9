/* wisdom.h - which of cuBLASLt's algorithms multiplies matrices of a shape: looked up once, and timed where that is asked for. */
#ifndef TRI_DEVICE_CUDA_WISDOM_H
#define TRI_DEVICE_CUDA_WISDOM_H

#include <cublasLt.h>
#include <stdint.h>

enum { TRI_CUDA_SHAPES = 4096 };

/* D[m,n] = A B (+ D), column-major; what an algorithm is chosen by. Zeroed before it is filled: keys are compared as bytes. */
typedef struct tri_cuda_shape {
    int64_t m, n, k;
    int32_t a_turned, b_turned;        /* 1: transposed */
    int32_t type, out;                 /* cudaDataType of A and B, of D */
    int32_t bias;                      /* 1: a vector is added to each column */
    int32_t align;                     /* bytes: the least of all operands */
} tri_cuda_shape;

typedef struct tri_cuda_wisdom {
    int timing; /* 1: shapes not seen before are timed, which waits for the device; 0: the library's first guess */
    struct {
        tri_cuda_shape shape; /* m = 0: empty */
        cublasLtMatmulAlgo_t algo;
        float ms;             /* as timed; 0: not timed */
    } at[TRI_CUDA_SHAPES];
} tri_cuda_wisdom;

#endif
