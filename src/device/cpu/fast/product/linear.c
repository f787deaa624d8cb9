/* linear.c - dense layers and their gradients: products of large matrices, with a bias and an activation fused. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/product/gemm.h"

enum { ENOUGH = 1 << 18 }; /* multiplications that justify more than one thread */

static void gemm(const tri_call *call, tri_gemm g) {
    if (g.m == 0 || g.n == 0) return;
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    g.work = call->work;
    g.simd = tri__simd();
    int gradient = tri__call_row(call)->phase != TRI_PHASE_F;
    (g.simd->slow && gradient ? tri__gemm_blas : tri__gemm_packed)(&g);
}

/* y[T,O] = x[T,I] w[O,I]^T + b */
static void linear(const tri_call *call) {
    OPERANDS(linear);
    gemm(call, (tri_gemm){.m = call->t[ARG(x)].rows,
                          .n = call->t[ARG(w)].rows,
                          .k = call->t[ARG(x)].cols,
                          .a = f32(call, ARG(x)),
                          .b = f32(call, ARG(w)),
                          .b_turned = 1,
                          .bias = f32(call, ARG(b)),
                          .c = f32(call, ARG(y))});
}

/* h as above, stored if present; y = gelu(h) */
static void linear_gelu(const tri_call *call) {
    OPERANDS(linear_gelu);
    gemm(call, (tri_gemm){.m = call->t[ARG(x)].rows,
                          .n = call->t[ARG(w)].rows,
                          .k = call->t[ARG(x)].cols,
                          .a = f32(call, ARG(x)),
                          .b = f32(call, ARG(w)),
                          .b_turned = 1,
                          .bias = f32(call, ARG(b)),
                          .c = f32(call, ARG(h)) ? f32(call, ARG(h)) : f32(call, ARG(y)),
                          .activated = f32(call, ARG(y))});
}

/* dx[T,I] = dy[T,O] w[O,I] */
static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    gemm(call, (tri_gemm){.m = call->t[ARG(dy)].rows,
                          .n = call->t[ARG(w)].cols,
                          .k = call->t[ARG(dy)].cols,
                          .a = f32(call, ARG(dy)),
                          .b = f32(call, ARG(w)),
                          .c = f32(call, ARG(dx)),
                          .add = adds(call, ARG(dx))});
}

/* dw[O,I] = dy[T,O]^T x[T,I] */
static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    gemm(call, (tri_gemm){.m = call->t[ARG(dy)].cols,
                          .n = call->t[ARG(x)].cols,
                          .k = call->t[ARG(dy)].rows,
                          .a = f32(call, ARG(dy)),
                          .a_turned = 1,
                          .b = f32(call, ARG(x)),
                          .c = f32(call, ARG(dw)),
                          .add = adds(call, ARG(dw))});
}

const tri_kernel_row tri__cpu_linear_fast[] = {
    {.op = TRI_OP_linear, .dtype = TRI_F32, .run = linear, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_gelu, .dtype = TRI_F32, .run = linear_gelu, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_din, .dtype = TRI_F32, .run = linear_din, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_dw, .dtype = TRI_F32, .run = linear_dw, .work = TRI_GEMM_WORK},
    {.run = NULL},
};
