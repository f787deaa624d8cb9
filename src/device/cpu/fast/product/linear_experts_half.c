/* linear_experts_half.c - dense layers of experts and their gradients in bf16, on CPUs that multiply bf16: as
 * linear_experts.c. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/product/expert_rows.h"
#include "device/cpu/fast/runtime/fast.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/pack.h"

enum { ENOUGH = 1 << 19 }; /* multiplications that justify more than one thread */

/* Bytes of the list of an expert's rows, ahead of panels. */
static int64_t list_bytes(const tri_expert_rows *of) { return tri__round_up(4 * of->groups * of->each, 64); }

/* A product of some rows, whatever their number, has the same bits for each: panels of one row fit in the scratch space
 * of one row and of an expert's weights (4 bytes an element), and those of each further row in its own. The list is in
 * the space of the fp32 row. */
static int fits_any(tri_half_gemm g) {
    int64_t of_row = 4 * (g.k + g.n), of_weights = 4 * g.k * g.n;
    g.m = 1;
    return tri__half_gemm_work(&g) <= of_row + of_weights &&
           2 * tri__round_up(g.k, tri__half_product()->step) <= of_row;
}

static int all_bf16(const tri_call *call, int a, int b, int c) {
    return call->dtype[a] == TRI_BF16 && call->dtype[b] == TRI_BF16 && call->dtype[c] == TRI_BF16;
}

/* As in linear_experts.c. */
static void by_rows(const tri_call *call, const tri_expert_rows *of, tri_half_gemm g, int64_t weights, int64_t biases) {
    int32_t *list = call->work; /* [rows] */
    const tri_half_gemm first = g;
    for (int64_t e = 0; e < call->attr->members; e++) {
        g.m = tri__expert_rows_list(of, e, &(int64_t){0}, INT64_MAX, list);
        if (g.m == 0 || g.n == 0) continue;
        g.b = first.b + e * weights;
        g.bias = first.bias ? first.bias + e * biases : NULL;
        g.rows = list;
        g.work = (char *)call->work + list_bytes(of);
        g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
        tri__half_gemm(&g);
    }
}

/* y[T,O] = x[T,I] w[O,I]^T + b, an expert's */
static void linear_experts(const tri_call *call) {
    OPERANDS(linear_experts);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(y)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(x)].rows, ARG(from));
    tri_half_gemm g = {.n = O, .k = I, .a = call->t[ARG(x)].data, .b = call->t[ARG(w)].data, .b_turned = 1,
                       .bias = call->t[ARG(b)].data, .c = call->t[ARG(y)].data};
    if (!fits_any(g) || !all_bf16(call, ARG(x), ARG(w), ARG(y))) {
        tri__cpu_half_row(call);
        return;
    }
    tri__expert_rows_clear(call, ARG(y), &of, sizeof(uint16_t));
    by_rows(call, &of, g, O * I, O);
}

/* h as above, stored if present; y = gelu(h rounded) */
static void linear_experts_gelu(const tri_call *call) {
    OPERANDS(linear_experts_gelu);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(y)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(x)].rows, ARG(from));
    tri_half_gemm g = {.n = O, .k = I, .a = call->t[ARG(x)].data, .b = call->t[ARG(w)].data, .b_turned = 1,
                       .bias = call->t[ARG(b)].data, .c = call->t[ARG(h)].data, .activated = call->t[ARG(y)].data};
    if (!fits_any(g) || !all_bf16(call, ARG(x), ARG(w), ARG(y))) {
        tri__cpu_half_row(call);
        return;
    }
    tri__expert_rows_clear(call, ARG(y), &of, sizeof(uint16_t));
    tri__expert_rows_clear(call, ARG(h), &of, sizeof(uint16_t));
    by_rows(call, &of, g, O * I, O);
}

/* dx[T,I] = dy[T,O] w[O,I], an expert's */
static void linear_experts_din(const tri_call *call) {
    OPERANDS(linear_experts_din);
    int64_t I = call->t[ARG(dx)].cols, O = call->t[ARG(dy)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(dy)].rows, ARG(from));
    tri_half_gemm g = {.n = I, .k = O, .a = call->t[ARG(dy)].data, .b = call->t[ARG(w)].data,
                       .c = call->t[ARG(dx)].data, .add = adds(call, ARG(dx))};
    if (!fits_any(g) || !all_bf16(call, ARG(dy), ARG(w), ARG(dx))) {
        tri__cpu_half_row(call);
        return;
    }
    tri__expert_rows_clear(call, ARG(dx), &of, sizeof(uint16_t));
    by_rows(call, &of, g, O * I, 0);
}

/* dw[O,I] = dy[T,O]^T x[T,I], an expert's. The scratch space has 4 bytes for each element of dy and x, and so at least
 * those of the expert's panels, unless they are mostly padding; and those of its list. */
static void linear_experts_dw(const tri_call *call) {
    OPERANDS(linear_experts_dw);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(dy)].cols, T = call->t[ARG(dy)].rows;
    tri_expert_rows of = tri__expert_rows(call, T, ARG(from));
    size_t bytes = call->dtype[ARG(dw)] == TRI_F32 ? sizeof(float) : sizeof(uint16_t);
    tri_half_gemm g = {.m = O, .n = I, .k = of.groups * of.each, .a = call->t[ARG(dy)].data, .a_turned = 1,
                       .b = call->t[ARG(x)].data, .wide = bytes == sizeof(float), .add = adds(call, ARG(dw))};
    if (list_bytes(&of) + tri__half_gemm_work(&g) > 4 * T * (O + I) || !all_bf16(call, ARG(dy), ARG(x), ARG(x))) {
        tri__cpu_half_row(call);
        return;
    }
    int32_t *list = call->work; /* [rows] */
    for (int64_t e = 0; e < call->attr->members && O && I; e++) {
        g.k = tri__expert_rows_list(&of, e, &(int64_t){0}, INT64_MAX, list);
        g.terms = list;
        g.c = (char *)call->t[ARG(dw)].data + (size_t)(e * O * I) * bytes;
        g.work = (char *)call->work + list_bytes(&of);
        g.threads = threads_for(call, O * I * (g.k + 1), ENOUGH);
        tri__half_gemm(&g);
    }
}

void tri__cpu_linear_experts_half(tri_kernel_table *table) {
    tri__kernel_table_run(table, TRI_OP_linear_experts, 0, TRI_BF16, linear_experts);
    tri__kernel_table_run(table, TRI_OP_linear_experts_gelu, 0, TRI_BF16, linear_experts_gelu);
    tri__kernel_table_run(table, TRI_OP_linear_experts_din, 0, TRI_BF16, linear_experts_din);
    tri__kernel_table_run(table, TRI_OP_linear_experts_dw, 0, TRI_BF16, linear_experts_dw);
}
