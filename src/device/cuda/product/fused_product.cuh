/* fused_product.cuh - dense layers in one kernel, with what follows the product. */
#pragma once

#include "device/cuda/product/cluster.cuh"

/* A dense layer's call: y [T,O] = x [T,I] w [O,I]^T + b [O]; with 8-bit factors, of a scale each: (x w^T) * (s [T] * ws
 * [O]) + b. With an activation, h is that, if not NULL, and y the activation of it as rounded. */

/* What kernels get. */
typedef struct layer_args {
    void *y, *h;         /* [rows, cols]; h may be NULL */
    const float *s, *ws; /* [rows] [cols], of 8-bit factors */
    const void *b;       /* [cols] or NULL */
    int64_t rows;
    int cols, steps;     /* steps: of 128 bytes of the summed dimension */
    int act;             /* a tri_activation, or NO_ACT */
} layer_args;

/* By type of the factors. */
template <typename F> struct factor {
    typedef float sum;
    enum { SCALED = sizeof(F) == 1, STEP = ROW_BYTES / sizeof(F) }; /* STEP: of the summed dimension */
};
template <> struct factor<int8_t> {
    typedef uint32_t sum; /* an int32 */
    enum { SCALED = 1, STEP = ROW_BYTES };
};
/* run(F(), T()) with the types of a call's factors and of its result, which has 16 bits. */
template <class F> static void by_factors(const tri_call *call, F run) {
    OPERANDS(linear);
    by_half(call->dtype[ARG(y)], [&](auto t) {
        if (call->dtype[ARG(x)] == TRI_I8) run(int8_t(), t);
        else if (call->dtype[ARG(x)] == TRI_F8_E4M3) run(e4m3(), t);
        else run(t, t);
    });
}
static __device__ __forceinline__ float number(float sum) { return sum; }
static __device__ __forceinline__ float number(uint32_t sum) { return __int2float_rn((int)sum); }

/* Whether types, alignment and the GPU suit our kernels; fills `a` then. */
int layer_fits(const tri_call *call, layer_args *a);
/* Many rows. 0: nothing was done, since shapes, types or the GPU are not supported. */
int fused_product(const tri_call *call, const char *where);
/* The same for few rows (narrow_product.cu). */
int narrow_product(const tri_call *call, const char *where);
