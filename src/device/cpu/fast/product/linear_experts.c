/* linear_experts.c - dense layers of experts and their gradients: for each expert the product of a dense layer, over
 * those of its rows that have a token. Of the rows that have none, results are 0 and are not computed. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/product/expert_rows.h"
#include "device/cpu/fast/product/gemm.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/pack.h"
#include "device/cpu/fast/elementwise/simd_norm.h"

/* Multiplications, and elements, that justify more than one thread; rows of a gradient of weights computed together,
 * which bounds the space of their panels; blocks of an expert's rows that are summed apart. */
enum { ENOUGH = 1 << 18, ENOUGH_HALF = 1 << 19, ENOUGH_ELEMENTS = 1 << 14, MOST_ROWS = 1024, BLOCKS = 4 };

/* c[T,n] = a[T,k] b[k,n] + bias, an expert's; activated = the call's activation of c, which then need not be there. All
 * are operands; -1: none. */
typedef struct layer {
    int c, a, b, b_transposed, bias, activated, from;
} layer;

static void *data_of(const tri_call *call, int k) { return k < 0 ? NULL : call->t[k].data; }

static int is_bf16(const tri_call *call, int a, int b, int c) {
    return tri__half_product() && call->dtype[a] == TRI_BF16 && call->dtype[b] == TRI_BF16 &&
           call->dtype[c] == TRI_BF16;
}

/* Bytes of the list of an expert's rows, ahead of panels: in the space of the fp32 row. */
static int64_t list_bytes(const tri_expert_rows *of) { return tri__round_up(4 * of->groups * of->each, 64); }

/* The product `g` for the rows of each expert: a and c are those of all, b and bias those of the first expert. Scratch:
 * the list of an expert's rows, then the product's. */
static void each_f32(const tri_call *call, const tri_expert_rows *of, tri_gemm g) {
    int32_t *list = call->work; /* [rows] */
    const tri_gemm first = g;
    g.rows = list, g.work = (char *)call->work + list_bytes(of);
    for (int64_t e = 0; e < call->attr->members; e++) {
        g.m = tri__expert_rows_list(of, e, &(int64_t){0}, INT64_MAX, list);
        g.b = first.b + e * g.k * g.n, g.bias = first.bias ? first.bias + e * g.n : NULL;
        g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
        if (g.m && g.n) PER_ISA(tri__gemm)(&g);
    }
}

static void each_bf16(const tri_call *call, const tri_expert_rows *of, tri_half_gemm g) {
    int32_t *list = call->work; /* [rows] */
    const tri_half_gemm first = g;
    g.rows = list, g.work = (char *)call->work + list_bytes(of);
    for (int64_t e = 0; e < call->attr->members; e++) {
        g.m = tri__expert_rows_list(of, e, &(int64_t){0}, INT64_MAX, list);
        g.b = first.b + e * g.k * g.n, g.bias = first.bias ? first.bias + e * g.n : NULL;
        g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH_HALF);
        if (g.m && g.n) PER_ISA(tri__half_gemm)(&g);
    }
}

static void multiply(const tri_call *call, layer l) {
    const tri_tensor *a = &call->t[l.a];
    int result = l.activated < 0 ? l.c : l.activated, wide = !has_half(call);
    tri_activation act = (tri_activation)(call->attr->activation - 1);
    int64_t n = call->t[result].cols, k = a->cols;
    tri_expert_rows of = tri__expert_rows(call, a->rows, l.from);
    tri_half_gemm half = {.n = n, .k = k, .a = a->data, .b = call->t[l.b].data, .b_transposed = l.b_transposed,
                          .bias = data_of(call, l.bias), .c = call->t[l.c].data, .add = adds(call, l.c),
                          .activated = data_of(call, l.activated), .act = act};
    if (!wide && (!is_bf16(call, l.a, l.b, result) || !PER_ISA(tri__half_gemm_fits_any)(&half))) {
        tri__cpu_half_row(call);
        return;
    }
    tri__expert_rows_clear(call, l.c, &of, wide ? sizeof(float) : sizeof(uint16_t));
    if (l.activated >= 0) tri__expert_rows_clear(call, l.activated, &of, wide ? sizeof(float) : sizeof(uint16_t));
    if (wide)
        each_f32(call, &of,
                 (tri_gemm){.n = n, .k = k, .a = a->data, .b = f32(call, l.b), .b_transposed = l.b_transposed,
                            .bias = data_of(call, l.bias), .c = f32(call, l.c) ? f32(call, l.c) : f32(call, result),
                            .add = adds(call, l.c), .activated = data_of(call, l.activated), .act = act});
    else each_bf16(call, &of, half);
}

/* y[T,O] = x[T,I] w[O,I]^T + b, an expert's */
static void linear_experts(const tri_call *call) {
    OPERANDS(linear);
    multiply(call, (layer){ARG(y), ARG(x), ARG(w), 1, ARG(b), -1, ARG(from)});
}

/* h as above, stored if present; y = f(h rounded) */
static void linear_experts_act(const tri_call *call) {
    OPERANDS(linear);
    multiply(call, (layer){ARG(h), ARG(x), ARG(w), 1, ARG(b), ARG(y), ARG(from)});
}

/* dx[T,I] = dy[T,O] w[O,I], an expert's */
static void linear_experts_din(const tri_call *call) {
    OPERANDS(linear_din);
    multiply(call, (layer){ARG(dx), ARG(dy), ARG(w), 0, -1, -1, ARG(from)});
}

/* dw[O,I] = dy[T,O]^T x[T,I], an expert's. The scratch space has 4 bytes for each element of dy and x, and so at least
 * those of the expert's panels, unless they are mostly padding; and those of its list. */
static void experts_dw_bf16(const tri_call *call) {
    OPERANDS(linear_dw);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(dy)].cols, T = call->t[ARG(dy)].rows;
    tri_expert_rows of = tri__expert_rows(call, T, ARG(from));
    size_t bytes = call->dtype[ARG(dw)] == TRI_F32 ? sizeof(float) : sizeof(uint16_t);
    tri_half_gemm g = {.m = O, .n = I, .k = of.groups * of.each, .a = call->t[ARG(dy)].data, .a_transposed = 1,
                       .b = call->t[ARG(x)].data, .wide = bytes == sizeof(float), .add = adds(call, ARG(dw))};
    if (!is_bf16(call, ARG(dy), ARG(x), ARG(x)) ||
        list_bytes(&of) + PER_ISA(tri__half_gemm_work)(&g) > 4 * T * (O + I)) {
        tri__cpu_half_row(call);
        return;
    }
    int32_t *list = call->work; /* [rows] */
    for (int64_t e = 0; e < call->attr->members && O && I; e++) {
        g.k = tri__expert_rows_list(&of, e, &(int64_t){0}, INT64_MAX, list);
        g.terms = list;
        g.c = (char *)call->t[ARG(dw)].data + (size_t)(e * O * I) * bytes;
        g.work = (char *)call->work + list_bytes(&of);
        g.threads = threads_for(call, O * I * (g.k + 1), ENOUGH_HALF);
        PER_ISA(tri__half_gemm)(&g);
    }
}

/* dw[O,I] = dy[T,O]^T x[T,I], an expert's: rows in equal blocks, and those of dw some at a time. */
static void linear_experts_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    if (has_half(call)) {
        experts_dw_bf16(call);
        return;
    }
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(dy)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(dy)].rows, ARG(from));
    int32_t list[TRI_GEMM_BLOCK];
    for (int64_t e = 0; e < call->attr->members; e++) {
        int64_t count = tri__expert_rows_count(&of, e), next = 0;
        int64_t blocks = count ? (count + TRI_GEMM_BLOCK - 1) / TRI_GEMM_BLOCK : 1,
                most = (count + blocks - 1) / blocks;
        for (int64_t block = 0; block < blocks; block++) {
            int64_t k = tri__expert_rows_list(&of, e, &next, most, list);
            for (int64_t o = 0; o < O && I; o += MOST_ROWS) {
                int64_t m = O - o < MOST_ROWS ? O - o : MOST_ROWS;
                PER_ISA(tri__gemm)(&(tri_gemm){.m = m, .n = I, .k = k,
                                             .a = f32(call, ARG(dy)) + o, .a_transposed = 1, .ld_a = O,
                                             .b = f32(call, ARG(x)), .terms = list,
                                             .c = f32(call, ARG(dw)) + (e * O + o) * I,
                                             .add = block || adds(call, ARG(dw)),
                                             .work = call->work,
                                             .threads = threads_for(call, m * I * (k + 1), ENOUGH)});
            }
        }
    }
}

/* sum [O] = the rows of dy [T,O] that have a token among the begin-th to the last before `end` of an expert's runs. */
static void sum_some(const tri_expert_rows *of, int64_t e, int64_t begin, int64_t end, const float *dy, int64_t O,
                     double *sum) {
    memset(sum, 0, (size_t)O * sizeof *sum);
    for (int64_t i = begin; i < end;) {
        int64_t run = i / of->each, row = run * of->stride + e * of->each - run * of->each; /* of i: row + i */
        int64_t stop = (run + 1) * of->each < end ? (run + 1) * of->each : end, first = i;
        while (i < stop && (!of->from || of->from[row + i] >= 0)) i++;
        simd_column_sums(row + first, row + i, O, dy, NULL, sum, NULL, 1);
        while (i < stop && of->from && of->from[row + i] < 0) i++;
    }
}

/* Scratch: doubles [members,BLOCKS,O]. */
static void bias_experts_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    int64_t O = call->t[ARG(dy)].cols, members = call->attr->members;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(dy)].rows, ARG(from));
    int64_t rows = of.groups * of.each, size = (rows + BLOCKS - 1) / BLOCKS;
    float *db = f32(call, ARG(db)); /* [members,O] */
#pragma omp parallel num_threads(threads_for(call, members * rows * O, ENOUGH_ELEMENTS))
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < members * BLOCKS; i++) {
            int64_t begin = i % BLOCKS * size < rows ? i % BLOCKS * size : rows;
            sum_some(&of, i / BLOCKS, begin, begin + size < rows ? begin + size : rows, f32(call, ARG(dy)), O,
                     (double *)call->work + i * O);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < members * O; i++) {
            const double *part = (const double *)call->work + i / O * BLOCKS * O + i % O;
            double total = adds(call, ARG(db)) ? db[i] : 0;
            for (int64_t b = 0; b < BLOCKS; b++) total += part[b * O];
            db[i] = (float)total;
        }
    }
}

#define ROWS_WORK {.fixed = 64 * 4 * TRI_GEMM_BLOCK + 512, .row = 4 * TRI_GEMM_BLOCK + 4, .col = 4 * TRI_GEMM_BLOCK}

#define ROWS(op_, run_, facts_, ...) TRI_HALF_ROWS(op_, run_, TRI_FACT_EXPERTS | facts_, __VA_ARGS__)
TRI_FAST_ROWS(linear_experts) = TRI_KERNEL_ROWS(
    ROWS(linear, linear_experts, 0, ROWS_WORK), ROWS(linear, linear_experts_act, TRI_FACT_ACT, ROWS_WORK),
    ROWS(linear_din, linear_experts_din, 0, ROWS_WORK),
    ROWS(linear_dw, linear_experts_dw, 0,
         {.fixed = (MOST_ROWS + 64) * 4 * TRI_GEMM_BLOCK + 256, .col = 4 * TRI_GEMM_BLOCK}),
    {.op = TRI_OP_bias_dw, .dtype = TRI_F32, .run = bias_experts_dw, .work = {.row_cols = 8 * BLOCKS},
     .facts = TRI_FACT_EXPERTS});
