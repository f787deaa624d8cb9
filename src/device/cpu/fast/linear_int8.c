/* linear_int8.c - dense layers of 8-bit factors, the quantisation of those factors, and embeddings whose rows are
 * quantised, for every computing type. */
#include "device/cpu/convert.h"
#include "device/cpu/fast/call.h"
#include "device/cpu/fast/gemm_int8.h"
#include "layout/quantized.h"

/* Multiplications, and elements to quantise, that justify more than one thread; elements widened at a time. */
enum { ENOUGH = 1 << 20, ENOUGH_ELEMENTS = 1 << 14, PIECE = 1024 };

static void gemm(const tri_call *call, tri_int8_gemm g, int y) {
    if (g.m == 0 || g.n == 0) return;
    g.c = call->t[y].data;
    g.type = (tri_dtype)call->dtype[y];
    g.kernel = tri__int8_product();
    g.threads = threads_for(call, g.m * g.n * (g.k + 1), ENOUGH);
    tri__int8_gemm(&g);
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

/* n <= PIECE elements of operand x from `at` on as fp32: in place, or in `buffer`. */
static const float *wide(const tri_call *call, int x, int64_t at, int64_t n, float *buffer) {
    if (call->dtype[x] == TRI_F32) return f32(call, x) + at;
    tri__widen(call->dtype[x], n, (const uint16_t *)call->t[x].data + at, buffer);
    return buffer;
}

static int64_t piece_size(int64_t n, int64_t at) { return n - at < PIECE ? n - at : PIECE; }

static float larger(float most, float a) { return a > most || a != a ? a : most; }

/* Of row t of operand x; NaN if one is. */
static float row_largest(const tri_call *call, int x, int64_t t) {
    int64_t cols = call->t[x].cols;
    float most = 0, buffer[PIECE];
    for (int64_t c = 0; c < cols; c += PIECE) {
        int64_t n = piece_size(cols, c);
        most = larger(most, tri__simd()->largest(n, wide(call, x, t * cols + c, n, buffer)));
    }
    return most;
}

static void row_max(const tri_call *call) {
    OPERANDS(row_max);
    int64_t T = call->t[ARG(m)].rows;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, elements(call, ARG(x)), ENOUGH_ELEMENTS))
    for (int64_t t = 0; t < T; t++) f32(call, ARG(m))[t] = row_largest(call, ARG(x), t);
}

/* That of the row itself, or of the maxima m [M,1] of several ranks: m[t], m[t + T], ... */
static float largest_of(const tri_call *call, int x, int m, int64_t t) {
    if (!call->t[m].data) return row_largest(call, x, t);
    float most = 0;
    for (int64_t i = t; i < call->t[m].rows; i += call->t[x].rows) most = larger(most, f32(call, m)[i]);
    return most;
}

static void quantize_int8(const tri_call *call) {
    OPERANDS(quantize_int8);
    int64_t T = call->t[ARG(q)].rows, I = call->t[ARG(q)].cols;
    int8_t *q = call->t[ARG(q)].data; /* [T,I] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, T * I, ENOUGH_ELEMENTS))
    for (int64_t t = 0; t < T; t++) {
        float s = tri__quantized_scale(largest_of(call, ARG(x), ARG(m), t), TRI_INT8_MAX), buffer[PIECE];
        f32(call, ARG(s))[t] = s;
        for (int64_t c = 0; c < I; c += PIECE) {
            int64_t n = piece_size(I, c);
            tri__simd()->to_int8(n, wide(call, ARG(x), t * I + c, n, buffer), s ? 1 / s : 0, q + t * I + c);
        }
    }
}

/* Columns [c, c + n) of row `row` of a table, whose row is quantised with scale s, added to sum [n]. */
static void add_row(const tri_call *call, int table, int64_t row, float s, int64_t c, int64_t n, double *sum) {
    float buffer[PIECE];
    int8_t q[PIECE];
    int64_t at = row * call->t[table].cols + c;
    tri__simd()->to_int8(n, wide(call, table, at, n, buffer), s ? 1 / s : 0, q);
    for (int64_t i = 0; i < n; i++) sum[i] += (double)(s * (float)q[i]); /* the product is exact */
}

static void embed_int8(const tri_call *call) {
    OPERANDS(embed_int8);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, words = call->t[ARG(word)].rows;
    size_t size = tri__dtype_bytes((tri_dtype)call->dtype[ARG(y)]);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, T * H, ENOUGH_ELEMENTS))
    for (int64_t t = 0; t < T; t++) {
        int64_t word = (int64_t)ids[t] - call->attr->row0;
        const int64_t row[3] = {word >= 0 && word < words ? word : -1, call->t[ARG(position)].data ? pos[t] : -1,
                                call->t[ARG(type)].data ? 0 : -1};
        float s[3] = {0};
        for (int k = 0; k < 3; k++)
            if (row[k] >= 0) s[k] = tri__quantized_scale(row_largest(call, ARG(word) + k, row[k]), TRI_INT8_MAX);
        for (int64_t c = 0; c < H; c += PIECE) {
            int64_t n = piece_size(H, c);
            double sum[PIECE] = {0};
            float y[PIECE];
            for (int k = 0; k < 3; k++)
                if (row[k] >= 0) add_row(call, ARG(word) + k, row[k], s[k], c, n, sum);
            for (int64_t i = 0; i < n; i++) y[i] = (float)sum[i];
            char *to = call->t[ARG(y)].data; /* [T,H] */
            tri__narrow(call->dtype[ARG(y)], n, y, to + (size_t)(t * H + c) * size);
        }
    }
}

#define ROWS(op_) \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_}, {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = op_}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = op_}
const tri_kernel_row tri__cpu_quantized_fast[] = {
    ROWS(row_max), ROWS(quantize_int8), ROWS(linear_int8), ROWS(linear_gelu_int8), ROWS(embed_int8),
    {.run = NULL},
};
