/* linear.c - dense layers and their gradients: products of large matrices, with a bias and an activation fused. Those
 * of bf16 are multiplied where the CPU has instructions for it. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/product/gemm.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/runtime/call.h"

enum { ENOUGH = 1 << 18, ENOUGH_HALF = 1 << 19 }; /* multiplications that justify more than one thread */

/* c[m,n] = a[m,k] b[k,n] + bias; activated = the call's activation of c, which then need not be there; or c = c times
 * its slope, computed from slope_at. All are operands; -1: none. */
typedef struct layer {
    int c, a, b, a_transposed, b_transposed, bias, activated, slope_at;
} layer;

static void *data_of(const tri_call *call, int k) { return k < 0 ? NULL : call->t[k].data; }
static tri_activation act_of(const tri_call *call) { return (tri_activation)(call->attr->activation - 1); }

/* Panels use the scratch space that the fallback needs for fp32 copies of the operands. Products whose panels are
 * mostly padding do not fit. */
static int fits(const tri_call *call, const tri_half_gemm *g) {
    int64_t space = 0;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (call->t[k].data && tri__dtype_bytes((tri_dtype)call->dtype[k]) == 2) space += 4 * elements(call, k);
    return PER_ISA(tri__half_gemm_work)(g) <= space;
}

static void in_f32(const tri_call *call, const layer *l, int64_t m, int64_t n, int64_t k) {
    PER_ISA(tri__gemm)(&(tri_gemm){.m = m, .n = n, .k = k,
                                   .a = f32(call, l->a), .a_transposed = l->a_transposed,
                                   .b = f32(call, l->b), .b_transposed = l->b_transposed,
                                   .bias = data_of(call, l->bias),
                                   .c = f32(call, l->c) ? f32(call, l->c) : data_of(call, l->activated),
                                   .add = adds(call, l->c),
                                   .activated = data_of(call, l->activated), .act = act_of(call),
                                   .threads = threads_for(call, m * n * (k + 1), ENOUGH),
                                   .work = call->work});
}

/* 0: the fallback has computed the whole operation. */
static int multiply(const tri_call *call, layer l) {
    const tri_tensor *a = &call->t[l.a], *b = &call->t[l.b];
    int64_t m = l.a_transposed ? a->cols : a->rows, k = l.a_transposed ? a->rows : a->cols,
            n = l.b_transposed ? b->rows : b->cols;
    if (m == 0 || n == 0) return 1;
    if (!has_half(call)) {
        in_f32(call, &l, m, n, k);
        return 1;
    }
    tri_half_gemm g = {.m = m, .n = n, .k = k, .a = a->data, .a_transposed = l.a_transposed, .b = b->data,
                       .b_transposed = l.b_transposed, .bias = data_of(call, l.bias), .c = call->t[l.c].data,
                       .wide = call->t[l.c].data && call->dtype[l.c] == TRI_F32, .add = adds(call, l.c),
                       .activated = data_of(call, l.activated), .slope_at = data_of(call, l.slope_at),
                       .act = act_of(call),
                       .threads = threads_for(call, m * n * (k + 1), ENOUGH_HALF), .work = call->work};
    int forward = tri__call_row(call)->phase == TRI_PHASE_F;
    if (!tri__half_product() || call->dtype[l.a] != TRI_BF16 || call->dtype[l.b] != TRI_BF16 ||
        !(forward ? PER_ISA(tri__half_gemm_fits_any)(&g) : fits(call, &g))) {
        tri__cpu_half_row(call);
        return 0;
    }
    PER_ISA(tri__half_gemm)(&g);
    return 1;
}

/* y[T,O] = x[T,I] w[O,I]^T + b */
static void linear(const tri_call *call) {
    OPERANDS(linear);
    multiply(call, (layer){ARG(y), ARG(x), ARG(w), .b_transposed = 1, ARG(b), -1, -1});
}

/* h as above, stored if present; y = f(h rounded) */
static void linear_act(const tri_call *call) {
    OPERANDS(linear);
    multiply(call, (layer){ARG(h), ARG(x), ARG(w), .b_transposed = 1, ARG(b), ARG(y), -1});
}

/* dx[T,I] = dy[T,O] w[O,I] */
static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    multiply(call, (layer){ARG(dx), ARG(dy), ARG(w), 0, 0, -1, -1, -1});
}

/* dx[T,I] = act_din(dy[T,O] w[O,I], h); db = bias_dw(dx): bf16 alone */
static void linear_act_din(const tri_call *call) {
    OPERANDS(linear_din);
    if (!multiply(call, (layer){ARG(dx), ARG(dy), ARG(w), 0, 0, -1, -1, ARG(h)})) return;
    tri_attr none = {0};
    tri_call sums = {.t = {call->t[ARG(db)], call->t[ARG(dx)]}, .dtype = {call->dtype[ARG(db)], call->dtype[ARG(dx)]},
                     .op = TRI_OP_bias_dw, .table = call->table, .acc = (unsigned)adds(call, ARG(db)),
                     .attr = &none, .threads = call->threads, .work = call->work};
    tri__kernel(call->table, TRI_OP_bias_dw, &none, TRI_BF16)(&sums);
}

/* dw[O,I] = dy[T,O]^T x[T,I] */
static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    multiply(call, (layer){ARG(dw), ARG(dy), ARG(x), .a_transposed = 1, 0, -1, -1, -1});
}

#define ROWS(op_, run_, facts_) TRI_HALF_ROWS(op_, run_, facts_, TRI_GEMM_WORK)
TRI_FAST_ROWS(linear) = TRI_KERNEL_ROWS(
    ROWS(linear, linear, 0), ROWS(linear, linear_act, TRI_FACT_ACT), ROWS(linear_din, linear_din, 0),
    ROWS(linear_dw, linear_dw, 0),
    {.op = TRI_OP_linear_din, .dtype = TRI_BF16, .run = linear_act_din, .work = TRI_AS_HALF, .facts = TRI_FACT_ACT});
