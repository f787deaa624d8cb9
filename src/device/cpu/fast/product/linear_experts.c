/* linear_experts.c - dense layers of experts and their gradients: for each expert the product of a dense layer, over
 * those of its rows that have a token. Of the rows that have none, results are 0 and are not computed. */
#include "device/cpu/fast/product/expert_rows.h"
#include "device/cpu/fast/product/gemm.h"
#include "device/cpu/fast/product/pack.h"
#include "device/cpu/fast/elementwise/simd_norm.h"

#include <string.h>

/* Multiplications, and elements, that justify more than one thread; rows of a gradient of weights computed together,
 * which bounds the space of their panels; blocks of an expert's rows that are summed apart. */
enum { ENOUGH = 1 << 18, ENOUGH_ELEMENTS = 1 << 14, MOST_ROWS = 1024, BLOCKS = 4 };

/* The product `g` for the rows of each expert: a and c are those of all, b and bias those of the first expert, with
 * `weights` and `biases` elements an expert. Scratch: the list of an expert's rows, then the product's. */
static void by_rows(const tri_call *call, const tri_expert_rows *of, tri_gemm g, int64_t weights, int64_t biases) {
    int32_t *list = call->work; /* [rows] */
    const tri_gemm first = g;
    for (int64_t e = 0; e < call->attr->members; e++) {
        g.m = tri__expert_rows_list(of, e, &(int64_t){0}, INT64_MAX, list);
        if (g.m == 0 || g.n == 0) continue;
        g.b = first.b + e * weights;
        g.bias = first.bias ? first.bias + e * biases : NULL;
        g.rows = list;
        g.work = list + tri__round_up(of->groups * of->each, 16);
        g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
        PER_ISA(tri__gemm)(&g);
    }
}

/* y[T,O] = x[T,I] w[O,I]^T + b, an expert's */
static void linear_experts(const tri_call *call) {
    OPERANDS(linear_experts);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(y)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(x)].rows, ARG(from));
    tri__expert_rows_clear(call, ARG(y), &of, sizeof(float));
    by_rows(call, &of,
            (tri_gemm){.n = O, .k = I, .a = f32(call, ARG(x)), .b = f32(call, ARG(w)), .b_turned = 1,
                       .bias = f32(call, ARG(b)), .c = f32(call, ARG(y))},
            O * I, O);
}

/* h as above, stored if present; y = gelu(h) */
static void linear_experts_gelu(const tri_call *call) {
    OPERANDS(linear_experts_gelu);
    int64_t I = call->t[ARG(x)].cols, O = call->t[ARG(y)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(x)].rows, ARG(from));
    tri__expert_rows_clear(call, ARG(y), &of, sizeof(float));
    tri__expert_rows_clear(call, ARG(h), &of, sizeof(float));
    by_rows(call, &of,
            (tri_gemm){.n = O, .k = I, .a = f32(call, ARG(x)), .b = f32(call, ARG(w)), .b_turned = 1,
                       .bias = f32(call, ARG(b)), .c = f32(call, ARG(h)) ? f32(call, ARG(h)) : f32(call, ARG(y)),
                       .activated = f32(call, ARG(y))},
            O * I, O);
}

/* dx[T,I] = dy[T,O] w[O,I], an expert's */
static void linear_experts_din(const tri_call *call) {
    OPERANDS(linear_experts_din);
    int64_t I = call->t[ARG(dx)].cols, O = call->t[ARG(dy)].cols;
    tri_expert_rows of = tri__expert_rows(call, call->t[ARG(dy)].rows, ARG(from));
    tri__expert_rows_clear(call, ARG(dx), &of, sizeof(float));
    by_rows(call, &of,
            (tri_gemm){.n = I, .k = O, .a = f32(call, ARG(dy)), .b = f32(call, ARG(w)), .c = f32(call, ARG(dx)),
                       .add = adds(call, ARG(dx))},
            O * I, 0);
}

/* dw[O,I] = dy[T,O]^T x[T,I], an expert's: rows in equal blocks, and those of dw some at a time. */
static void linear_experts_dw(const tri_call *call) {
    OPERANDS(linear_experts_dw);
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
                                             .a = f32(call, ARG(dy)) + o, .a_turned = 1, .ld_a = O,
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
    OPERANDS(bias_experts_dw);
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

TRI_FAST_ROWS(linear_experts) = {
    {.op = TRI_OP_linear_experts, .dtype = TRI_F32, .run = linear_experts, .work = ROWS_WORK},
    {.op = TRI_OP_linear_experts_gelu, .dtype = TRI_F32, .run = linear_experts_gelu, .work = ROWS_WORK},
    {.op = TRI_OP_linear_experts_din, .dtype = TRI_F32, .run = linear_experts_din, .work = ROWS_WORK},
    {.op = TRI_OP_linear_experts_dw, .dtype = TRI_F32, .run = linear_experts_dw,
     .work = {.fixed = (MOST_ROWS + 64) * 4 * TRI_GEMM_BLOCK + 256, .col = 4 * TRI_GEMM_BLOCK}},
    {.op = TRI_OP_bias_experts_dw, .dtype = TRI_F32, .run = bias_experts_dw, .work = {.row_cols = 8 * BLOCKS}},
    {.run = NULL},
};
