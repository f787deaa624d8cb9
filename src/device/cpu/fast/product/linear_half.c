/* linear_half.c - dense layers and their gradients in bf16, on CPUs that multiply bf16. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/runtime/fast.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/pack.h"

enum { ENOUGH = 1 << 19 }; /* multiplications that justify more than one thread */

/* Panels use the scratch space that the fallback needs for fp32 copies of the operands. Products whose panels are
 * mostly padding do not fit. */
static int fits(const tri_call *call, const tri_half_gemm *g) {
    int64_t space = 0;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (call->t[k].data && tri__dtype_bytes((tri_dtype)call->dtype[k]) == 2) space += 4 * elements(call, k);
    return tri__half_gemm_work(g) <= space;
}

/* The same for a forward pass, whatever the number of its rows, m: a row has the same bits however many there are. One
 * row fits, and the space of each further row (4 bytes for each element of x and of y) holds its panel. */
static int fits_any(tri_half_gemm g) {
    int64_t of_row = 4 * (g.k + g.n), of_weights = 4 * g.k * g.n;
    g.m = 1;
    return tri__half_gemm_work(&g) <= of_row + of_weights &&
           2 * tri__round_up(g.k, tri__half_product()->step) <= of_row;
}

/* 0: the fallback has computed the whole operation. */
static int gemm(const tri_call *call, tri_half_gemm g, int a, int b) {
    if (g.m == 0 || g.n == 0) return 1;
    int forward = tri__call_row(call)->phase == TRI_PHASE_F;
    if (call->dtype[a] != TRI_BF16 || call->dtype[b] != TRI_BF16 || !(forward ? fits_any(g) : fits(call, &g))) {
        tri__cpu_half_row(call);
        return 0;
    }
    g.a = call->t[a].data, g.b = call->t[b].data;
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    g.work = call->work;
    tri__half_gemm(&g);
    return 1;
}

/* y[T,O] = x[T,I] w[O,I]^T + b */
static void linear(const tri_call *call) {
    OPERANDS(linear);
    gemm(call,
         (tri_half_gemm){.m = call->t[ARG(x)].rows,
                         .n = call->t[ARG(w)].rows,
                         .k = call->t[ARG(x)].cols,
                         .b_turned = 1,
                         .bias = call->t[ARG(b)].data,
                         .c = call->t[ARG(y)].data},
         ARG(x), ARG(w));
}

/* h as above, stored if present; y = gelu(h rounded) */
static void linear_gelu(const tri_call *call) {
    OPERANDS(linear_gelu);
    gemm(call,
         (tri_half_gemm){.m = call->t[ARG(x)].rows,
                         .n = call->t[ARG(w)].rows,
                         .k = call->t[ARG(x)].cols,
                         .b_turned = 1,
                         .bias = call->t[ARG(b)].data,
                         .c = call->t[ARG(h)].data,
                         .activated = call->t[ARG(y)].data},
         ARG(x), ARG(w));
}

/* dx[T,I] = dy[T,O] w[O,I] */
static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    gemm(call,
         (tri_half_gemm){.m = call->t[ARG(dy)].rows,
                         .n = call->t[ARG(w)].cols,
                         .k = call->t[ARG(dy)].cols,
                         .c = call->t[ARG(dx)].data,
                         .add = adds(call, ARG(dx))},
         ARG(dy), ARG(w));
}

/* dx[T,I] = gelu_din(dy[T,O] w[O,I], x); db = bias_dw(dx) */
static void linear_gelu_din(const tri_call *call) {
    OPERANDS(linear_gelu_din);
    if (!gemm(call,
              (tri_half_gemm){.m = call->t[ARG(dy)].rows,
                              .n = call->t[ARG(w)].cols,
                              .k = call->t[ARG(dy)].cols,
                              .c = call->t[ARG(dx)].data,
                              .slope_at = call->t[ARG(x)].data},
              ARG(dy), ARG(w)))
        return;
    tri_call sums = {.t = {call->t[ARG(db)], call->t[ARG(dx)]}, .dtype = {call->dtype[ARG(db)], call->dtype[ARG(dx)]},
                     .op = TRI_OP_bias_dw, .table = call->table, .acc = (unsigned)adds(call, ARG(db)),
                     .attr = call->attr, .threads = call->threads, .work = call->work};
    tri__kernel(call->table, TRI_OP_bias_dw, call->attr, TRI_BF16)(&sums);
}

/* dw[O,I] = dy[T,O]^T x[T,I] */
static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    gemm(call,
         (tri_half_gemm){.m = call->t[ARG(dy)].cols,
                         .n = call->t[ARG(x)].cols,
                         .k = call->t[ARG(dy)].rows,
                         .a_turned = 1,
                         .c = call->t[ARG(dw)].data,
                         .wide = call->dtype[ARG(dw)] == TRI_F32,
                         .add = adds(call, ARG(dw))},
         ARG(dy), ARG(x));
}

void tri__cpu_fast_half_rows(tri_kernel_table *table) {
    if (!tri__simd()) return;
    tri__cpu_norm_half(table);
    tri__cpu_sums_half(table);
    tri__cpu_optimizer_half(table);
    if (!tri__half_product()) return;
    tri__kernel_table_run(table, TRI_OP_linear, 0, TRI_BF16, linear);
    tri__kernel_table_run(table, TRI_OP_linear_gelu, 0, TRI_BF16, linear_gelu);
    tri__kernel_table_run(table, TRI_OP_linear_din, 0, TRI_BF16, linear_din);
    tri__kernel_table_run(table, TRI_OP_linear_dw, 0, TRI_BF16, linear_dw);
    tri__kernel_table_run(table, TRI_OP_linear_gelu_din, 0, TRI_BF16, linear_gelu_din);
    tri__cpu_linear_experts_half(table);
    tri__cpu_attention_half(table);
}
