/* linear_int8.c - dense layers of 8-bit factors, for every computing type. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/product/gemm_int8.h"

enum { ENOUGH = 1 << 20 }; /* multiplications that justify more than one thread */

/* h[T,O] = q[T,I] w[O,I]^T * (s * ws) + b, stored if present; y = h or f(h rounded) */
static void linear_int8(const tri_call *call) {
    OPERANDS(linear);
    const tri_tensor *y = &call->t[ARG(y)], *q = &call->t[ARG(x)];
    tri_int8_gemm g = {.m = y->rows, .n = y->cols, .k = q->cols, .a = q->data, .b = call->t[ARG(w)].data,
                       .a_scale = f32(call, ARG(s)), .b_scale = f32(call, ARG(ws)), .bias = call->t[ARG(b)].data,
                       .c = y->data, .h = call->t[ARG(h)].data, .activation = call->attr->activation,
                       .type = (tri_dtype)call->dtype[ARG(y)], .kernel = tri__int8_product()};
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    if (g.m && g.n) PER_ISA(tri__int8_gemm)(&g);
}

TRI_FAST_ROWS(linear_int8) = TRI_KERNEL_ROWS(
    TRI_WIDTH_ROWS(linear, linear_int8, TRI_FACT_QUANT),
    TRI_WIDTH_ROWS(linear, linear_int8, TRI_FACT_QUANT | TRI_FACT_ACT));
