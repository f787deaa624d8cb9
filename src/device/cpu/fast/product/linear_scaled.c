/* linear_scaled.c - dense layers of FP8 training and their gradients: fp32 products with blocks of the 8-bit factors as
 * floats, which are exact. In all three both factors are contiguous along the dim that is summed. A block is as deep as
 * the packed product's own blocks of k. */
#include "device/cpu/convert.h"
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/product/gemm.h"
#include "numbers/float8.h"

/* Bytes of a row in a block; multiplications, and elements, that justify more than one thread; bytes. */
enum { BLOCK = TRI_GEMM_BLOCK, ENOUGH = 1 << 18, ENOUGH_ELEMENTS = 1 << 15, ALIGN = 64 };

/* c[m,n] = (adds ? c : 0) + a[m,k] b[n,k]^T / (sa * sb) + bias */
typedef struct product {
    const tri_call *call;
    int c, a, b, sa, sb, bias; /* operands; bias -1: none */
    int64_t m, n, k;
} product;

/* Bytes [first, first + n) of each of `rows` rows of k as floats [rows,n], times a power of two. */
static void decode(const tri_call *call, int operand, int64_t rows, int64_t k, int64_t first, int64_t n, float times,
                   float *to) {
    const uint8_t *from = call->t[operand].data; /* [rows,k] */
    float value[256];
    for (int code = 0; code < 256; code++)
        value[code] = times * (call->dtype[operand] == TRI_F8_E5M2 ? tri__from_e5m2((uint8_t)code)
                                                                    : tri__from_e4m3((uint8_t)code));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * n, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) to[i * n + j] = value[from[i * k + first + j]];
}

static void *at_row(const tri_call *call, int k, int64_t row) {
    return (char *)call->t[k].data + (size_t)(row * call->t[k].cols) * tri__dtype_bytes((tri_dtype)call->dtype[k]);
}

/* Results of 16 bits are summed in fp32: what they are added to comes first, bias and rounding last. */
static void begin_sum(const product *p, float *sum) {
    if (p->call->dtype[p->c] == TRI_F32 || !adds(p->call, p->c)) return;
    for (int64_t i = 0; i < p->m; i++)
        tri__widen(p->call->dtype[p->c], p->n, at_row(p->call, p->c, i), sum + i * p->n);
}

static void end_sum(const product *p, float *sum, float *bias) {
    const tri_call *call = p->call;
    int has_bias = p->bias >= 0 && call->t[p->bias].data != NULL, narrows = call->dtype[p->c] != TRI_F32;
    if (has_bias) tri__widen(call->dtype[p->bias], p->n, call->t[p->bias].data, bias);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, p->m * p->n, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < p->m; i++) {
        float *row = sum + i * p->n;
        for (int64_t j = 0; j < p->n && has_bias; j++) row[j] += bias[j];
        if (narrows) tri__narrow(call->dtype[p->c], p->n, row, at_row(call, p->c, i));
    }
}

/* Scratch: factors as floats, [m,BLOCK] and [n,BLOCK]; the bias [n]; results of 16 bits in fp32; the product's own. */
static void multiply(const product *p) {
    const tri_call *call = p->call;
    int is_wide = call->dtype[p->c] == TRI_F32;
    float *a = call->work, *b = a + BLOCK * p->m, *bias = b + BLOCK * p->n;
    float *after = bias + (p->n + ALIGN - 1) / ALIGN * ALIGN, *sum = is_wide ? f32(call, p->c) : after;
    float inverse = 1 / (*f32(call, p->sa) * *f32(call, p->sb));
    if (p->m * p->n == 0) return;
    begin_sum(p, sum);
    for (int64_t first = 0; first == 0 || first < p->k; first += BLOCK) {
        int64_t k = p->k - first < BLOCK ? p->k - first : BLOCK;
        decode(call, p->a, p->m, p->k, first, k, inverse, a);
        decode(call, p->b, p->n, p->k, first, k, 1, b);
        tri_gemm g = {.m = p->m, .n = p->n, .k = k, .a = a, .b = b, .b_transposed = 1, .c = sum,
                      .add = first > 0 || adds(call, p->c),
                      .work = is_wide ? after : after + (p->m * p->n + ALIGN - 1) / ALIGN * ALIGN};
        g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
        PER_ISA(tri__gemm)(&g);
    }
    end_sum(p, sum, bias);
}

static void linear_scaled(const tri_call *call) {
    OPERANDS(linear);
    multiply(&(product){call, ARG(y), ARG(x), ARG(w), ARG(sx), ARG(sw), ARG(b), call->t[ARG(x)].rows,
                        call->t[ARG(w)].rows, call->t[ARG(w)].cols});
}

static void linear_scaled_din(const tri_call *call) {
    OPERANDS(linear_din);
    multiply(&(product){call, ARG(dx), ARG(dy), ARG(w), ARG(sdy), ARG(sw), -1, call->t[ARG(dy)].rows,
                        call->t[ARG(w)].cols, call->t[ARG(w)].rows});
}

static void linear_scaled_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    multiply(&(product){call, ARG(dw), ARG(dy), ARG(x), ARG(sdy), ARG(sx), -1, call->t[ARG(dw)].rows,
                        call->t[ARG(dw)].cols, call->t[ARG(dy)].rows});
}

/* Blocks, bias, and TRI_GEMM_WORK; with fp32 sums for 16-bit results. */
#define WORK(sum) \
    {.fixed = 64 * 4 * BLOCK + 256 + 8 * ALIGN, .row = 8 * BLOCK, .col = 8 * BLOCK + 4, .row_cols = sum}
#define ROWS(op_, run_)                                                                                    \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = run_, .work = WORK(0), .facts = TRI_FACT_SCALED},        \
    {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = run_, .work = WORK(4), .facts = TRI_FACT_SCALED},       \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = run_, .work = WORK(4), .facts = TRI_FACT_SCALED}
TRI_FAST_ROWS(linear_scaled) = TRI_KERNEL_ROWS(
    ROWS(linear, linear_scaled), ROWS(linear_din, linear_scaled_din), ROWS(linear_dw, linear_scaled_dw));
