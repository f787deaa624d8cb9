/* linear_int8.c - dense layers of 8-bit factors, for every computing type. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/product/gemm_int8.h"

enum { ENOUGH = 1 << 20 }; /* multiplications that justify more than one thread */

static void gemm(const tri_call *call, tri_int8_gemm g, int y) {
    if (g.m == 0 || g.n == 0) return;
    g.c = call->t[y].data;
    g.type = (tri_dtype)call->dtype[y];
    g.kernel = tri__int8_product();
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    PER_ISA(tri__int8_gemm)(&g);
}

#define FACTORS                                                                                              \
    .m = call->t[ARG(y)].rows, .n = call->t[ARG(y)].cols, .k = call->t[ARG(q)].cols, .a = call->t[ARG(q)].data,     \
    .b = call->t[ARG(w)].data, .a_scale = f32(call, ARG(s)), .b_scale = f32(call, ARG(ws)), .bias = call->t[ARG(b)].data

/* y[T,O] = q[T,I] w[O,I]^T * (s * ws) + b */
static void linear_int8(const tri_call *call) {
    OPERANDS(linear_int8);
    gemm(call, (tri_int8_gemm){FACTORS}, ARG(y));
}

/* h as above, stored if present; y = gelu(h rounded) */
static void linear_gelu_int8(const tri_call *call) {
    OPERANDS(linear_gelu_int8);
    gemm(call, (tri_int8_gemm){FACTORS, .h = call->t[ARG(h)].data, .gelu = 1}, ARG(y));
}

#define ROWS(op_) \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_}, {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = op_}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = op_}
TRI_FAST_ROWS(linear_int8) = {
    ROWS(linear_int8), ROWS(linear_gelu_int8),
    {.run = NULL},
};
