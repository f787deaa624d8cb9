/* linear.c - dense layers and their gradients: all are products of large matrices, with a bias and an activation on
 * top. */
#include "device/cpu/fast/call.h"
#include "device/cpu/fast/gemm.h"

enum { ENOUGH = 1 << 18 }; /* multiplications that are worth more than one thread */

static void gemm(const tri_call *call, tri_gemm g) {
    if (g.m == 0 || g.n == 0) return;
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    g.work = call->work;
    g.simd = tri__simd();
    (g.simd->tile_rows ? tri__gemm_packed : tri__gemm_blas)(&g);
}

/* y[T,O] = x[T,I] w[O,I]^T + b */
static void linear(const tri_call *call) {
    enum { Y, X, W, B };
    gemm(call, (tri_gemm){.m = call->t[X].rows, .n = call->t[W].rows, .k = call->t[X].cols, .a = f32(call, X),
                          .b = f32(call, W), .b_turned = 1, .bias = f32(call, B), .c = f32(call, Y)});
}

/* h as above, kept where wanted; y = gelu(h) */
static void linear_gelu(const tri_call *call) {
    enum { Y, H, X, W, B };
    gemm(call, (tri_gemm){.m = call->t[X].rows, .n = call->t[W].rows, .k = call->t[X].cols, .a = f32(call, X),
                          .b = f32(call, W), .b_turned = 1, .bias = f32(call, B),
                          .c = f32(call, H) ? f32(call, H) : f32(call, Y), .activated = f32(call, Y)});
}

/* dx[T,I] = dy[T,O] w[O,I] */
static void linear_din(const tri_call *call) {
    enum { DX, DY, W };
    gemm(call, (tri_gemm){.m = call->t[DY].rows, .n = call->t[W].cols, .k = call->t[DY].cols, .a = f32(call, DY),
                          .b = f32(call, W), .c = f32(call, DX), .add = adds(call, DX)});
}

/* dw[O,I] = dy[T,O]^T x[T,I] */
static void linear_dw(const tri_call *call) {
    enum { DW, DY, X };
    gemm(call, (tri_gemm){.m = call->t[DY].cols, .n = call->t[X].cols, .k = call->t[DY].rows, .a = f32(call, DY),
                          .a_turned = 1, .b = f32(call, X), .c = f32(call, DW), .add = adds(call, DW)});
}

const tri_kernel_row tri__cpu_linear_fast[] = {
    {.op = TRI_OP_linear, .dtype = TRI_F32, .run = linear, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_gelu, .dtype = TRI_F32, .run = linear_gelu, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_din, .dtype = TRI_F32, .run = linear_din, .work = TRI_GEMM_WORK},
    {.op = TRI_OP_linear_dw, .dtype = TRI_F32, .run = linear_dw, .work = TRI_GEMM_WORK},
    {.run = NULL},
};
