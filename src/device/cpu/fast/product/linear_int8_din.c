/* linear_int8_din.c - gradients of dense layers of 8-bit factors: fp32 products with blocks of the factors as floats,
 * scale * q, which are exact. A block is as deep as the packed product's own blocks of k, so that results are written
 * no more often. */
#include "device/cpu/convert.h"
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/product/gemm.h"

/* Rows of a block; multiplications, and elements, that justify more than one thread; elements at a time. */
enum { BLOCK = TRI_GEMM_BLOCK, ENOUGH = 1 << 18, ENOUGH_ELEMENTS = 1 << 15, PIECE = 2048, ALIGN = 64 };

/* to[i,c] = scale[i] * q[i,c] */
static void dequantize(const tri_call *call, int64_t rows, int64_t cols, const int8_t *q, const float *scale,
                       float *to) {
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * cols, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) to[i * cols + c] = scale[i] * (float)q[i * cols + c];
}

/* Columns [first, first + n) of a matrix of any float type as fp32 [rows,n]. */
static void copy_columns(const tri_call *call, int k, int64_t first, int64_t n, float *to) {
    int64_t rows = call->t[k].rows, cols = call->t[k].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * n, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < rows; i++)
        tri__widen(call->dtype[k], n, at_element(call, k, i * cols + first), to + i * n);
}

/* Scratch: factors as floats, [BLOCK,cols] and [rows,BLOCK]; results of 16 bits in fp32; the product's own. */
typedef struct scratch {
    float *factor, *gradient, *sum;
    void *gemm;
} scratch;

static scratch divide(const tri_call *call, int out) {
    int64_t rows = call->t[out].rows, cols = call->t[out].cols;
    scratch s = {.factor = call->work};
    s.gradient = s.factor + BLOCK * cols;
    s.sum = s.gradient + BLOCK * rows;
    s.gemm = s.sum;
    if (call->dtype[out] == TRI_F32) s.sum = f32(call, out);
    else s.gemm = s.sum + (rows * cols + ALIGN - 1) / ALIGN * ALIGN;
    return s;
}

/* 16-bit results are summed in fp32: what they are added to comes first, the rounding last. */
static void begin_sum(const tri_call *call, int out, const scratch *s) {
    if (call->dtype[out] != TRI_F32 && adds(call, out)) copy_columns(call, out, 0, call->t[out].cols, s->sum);
}

static void end_sum(const tri_call *call, int out, const scratch *s) {
    int64_t rows = call->t[out].rows, cols = call->t[out].cols;
    if (call->dtype[out] == TRI_F32) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * cols, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < rows; i++)
        tri__narrow(call->dtype[out], cols, s->sum + i * cols, at_element(call, out, i * cols));
}

static void multiply(const tri_call *call, int out, const scratch *s, int64_t k, int transposed, int add) {
    tri_gemm g = {.m = call->t[out].rows, .n = call->t[out].cols, .k = k, .a = s->gradient,
                  .a_transposed = transposed, .b = s->factor, .c = s->sum, .add = add, .work = s->gemm};
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    PER_ISA(tri__gemm)(&g);
}

/* dq[T,I] = dy[T,O] (ws * w)[O,I] */
static void linear_int8_din(const tri_call *call) {
    OPERANDS(linear_din);
    const int8_t *w = call->t[ARG(w)].data; /* [O,I] */
    int64_t O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    scratch s = divide(call, ARG(dx));
    if (elements(call, ARG(dx)) == 0) return;
    begin_sum(call, ARG(dx), &s);
    for (int64_t o = 0; o == 0 || o < O; o += BLOCK) {
        int64_t k = O - o < BLOCK ? O - o : BLOCK;
        dequantize(call, k, I, w + o * I, f32(call, ARG(ws)) + o, s.factor);
        copy_columns(call, ARG(dy), o, k, s.gradient);
        multiply(call, ARG(dx), &s, k, 0, o > 0 || adds(call, ARG(dx)));
    }
    end_sum(call, ARG(dx), &s);
}

/* dw[O,I] = dy[T,O]^T (s * q)[T,I] */
static void linear_int8_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    const int8_t *q = call->t[ARG(x)].data; /* [T,I] */
    int64_t T = call->t[ARG(x)].rows, I = call->t[ARG(x)].cols, O = call->t[ARG(dy)].cols;
    scratch s = divide(call, ARG(dw));
    if (elements(call, ARG(dw)) == 0) return;
    begin_sum(call, ARG(dw), &s);
    for (int64_t t = 0; t == 0 || t < T; t += BLOCK) {
        int64_t k = T - t < BLOCK ? T - t : BLOCK;
        scratch block = s;
        dequantize(call, k, I, q + t * I, f32(call, ARG(s)) + t, s.factor);
        if (call->dtype[ARG(dy)] == TRI_F32) block.gradient = f32(call, ARG(dy)) + t * O;
        else tri__widen(call->dtype[ARG(dy)], k * O, at_element(call, ARG(dy), t * O), s.gradient);
        multiply(call, ARG(dw), &block, k, 1, t > 0 || adds(call, ARG(dw)));
    }
    end_sum(call, ARG(dw), &s);
}

static void quantize_din(const tri_call *call) {
    OPERANDS(quantize_din);
    int64_t n = elements(call, ARG(dx));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH_ELEMENTS))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t size = n - i < PIECE ? n - i : PIECE;
        float from[PIECE], to[PIECE];
        tri__widen(call->dtype[ARG(dq)], size, at_element(call, ARG(dq), i), from);
        if (adds(call, ARG(dx))) {
            tri__widen(call->dtype[ARG(dx)], size, at_element(call, ARG(dx), i), to);
            for (int64_t c = 0; c < size; c++) from[c] += to[c];
        }
        tri__narrow(call->dtype[ARG(dx)], size, from, at_element(call, ARG(dx), i));
    }
}

/* Blocks, and TRI_GEMM_WORK; with fp32 sums for 16-bit results. */
#define WORK(sum) \
    {.fixed = 64 * 4 * BLOCK + 256 + 4 * ALIGN, .row = 8 * BLOCK, .col = 8 * BLOCK, .row_cols = sum}
#define ROWS(op_, run_)                                                                                   \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = run_, .work = WORK(0), .facts = TRI_FACT_QUANT},        \
    {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = run_, .work = WORK(4), .facts = TRI_FACT_QUANT},       \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = run_, .work = WORK(4), .facts = TRI_FACT_QUANT}
TRI_FAST_ROWS(linear_int8_din) = TRI_KERNEL_ROWS(
    ROWS(linear_din, linear_int8_din), ROWS(linear_dw, linear_int8_dw),
    TRI_WIDTH_ROWS(quantize_din, quantize_din, 0));
