/* gemm.h - products of large matrices, in tiles fixed by shape; each element is summed by one thread in an order fixed
 * by the shape. An activation that follows is applied to a tile while it is in cache. */
#pragma once

#include "device/cpu/fast/runtime/isa.h"
#include "program/op.h"

/* c[m,n] = (add ? c : 0) + a[m,k] b[k,n] + bias */
typedef struct tri_gemm {
    int64_t m, n, k;
    const float *a, *b;     /* stored [m,k] and [k,n]; or [k,m], [n,k] if transposed */
    int a_transposed, b_transposed;
    /* NULL: 0, 1, 2, ... */
    const int32_t *rows;  /* [m] rows of a, which is not transposed, c and activated that take part, in rising order */
    const int32_t *terms; /* [k] rows of a, which is transposed, and b, which is not, that are summed, in this order */
    int64_t ld_a;           /* of a, if transposed; 0: m */
    const float *bias;      /* [n]; NULL: none */
    float *c;               /* [m,n] */
    int add;
    float *activated;       /* [m,n]: the activation of the result; may be c itself; NULL: none */
    tri_activation act;
    int threads;
    void *work;             /* TRI_GEMM_WORK bytes for an output [m,n] */
} tri_gemm;

enum { TRI_GEMM_BLOCK = 384 }; /* at most this much of k is packed at a time */
/* Packed rows and columns; the fixed part covers their padding. */
#define TRI_GEMM_WORK {.fixed = 64 * 4 * TRI_GEMM_BLOCK + 256, .row = 4 * TRI_GEMM_BLOCK, .col = 4 * TRI_GEMM_BLOCK}

#ifdef TRI_ISA
void PER_ISA(tri__gemm)(const tri_gemm *gemm);
#endif
