/* quantize.c - rows as int8 numbers with a scale, and embeddings by rows so quantised, for every computing type. */
#include "device/cpu/convert.h"
#include "device/cpu/fast/product/simd_quantized.h"
#include "device/cpu/fast/runtime/call.h"
#include "numbers/quantized.h"

enum { ENOUGH = 1 << 14, PIECE = 1024 }; /* elements that justify more than one thread; elements at a time */

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
        most = larger(most, simd_largest(n, wide(call, x, t * cols + c, n, buffer)));
    }
    return most;
}

static void row_max(const tri_call *call) {
    OPERANDS(row_max);
    int64_t T = call->t[ARG(m)].rows;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, elements(call, ARG(x)), ENOUGH))
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
    OPERANDS(quantize);
    int64_t T = call->t[ARG(q)].rows, I = call->t[ARG(q)].cols;
    int8_t *q = call->t[ARG(q)].data; /* [T,I] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, T * I, ENOUGH))
    for (int64_t t = 0; t < T; t++) {
        float s = tri__quantized_scale(largest_of(call, ARG(x), ARG(m), t), TRI_INT8_MAX), buffer[PIECE];
        f32(call, ARG(s))[t] = s;
        for (int64_t c = 0; c < I; c += PIECE) {
            int64_t n = piece_size(I, c);
            simd_to_int8(n, wide(call, ARG(x), t * I + c, n, buffer), s ? 1 / s : 0, q + t * I + c);
        }
    }
}

/* sum[n] += s * q of columns c to c + n - 1 of a row, whose scale is s: exact in fp32, summed in double. */
static void add_quantized(const tri_call *call, int table, int64_t row, int64_t c, int64_t n, float s, double *sum) {
    float buffer[PIECE];
    int8_t q[PIECE];
    const float *x = wide(call, table, row * call->t[table].cols + c, n, buffer);
    simd_to_int8(n, x, s ? 1 / s : 0, q);
    for (int64_t i = 0; i < n; i++) sum[i] += (double)(s * (float)q[i]);
}

/* y[t], of three tables' rows; row -1: none. */
static void embed_row(const tri_call *call, int64_t t, const int64_t row[3]) {
    OPERANDS(embed);
    int64_t H = call->t[ARG(y)].cols;
    float scale[3] = {0};
    for (int k = 0; k < 3; k++)
        if (row[k] >= 0) scale[k] = tri__quantized_scale(row_largest(call, ARG(word) + k, row[k]), TRI_INT8_MAX);
    for (int64_t c = 0; c < H; c += PIECE) {
        int64_t n = piece_size(H, c);
        double sum[PIECE] = {0};
        float y[PIECE];
        for (int k = 0; k < 3; k++)
            if (row[k] >= 0) add_quantized(call, ARG(word) + k, row[k], c, n, scale[k], sum);
        for (int64_t i = 0; i < n; i++) y[i] = (float)sum[i];
        size_t at = (size_t)(t * H + c) * tri__dtype_bytes((tri_dtype)call->dtype[ARG(y)]);
        tri__narrow(call->dtype[ARG(y)], n, y, (char *)call->t[ARG(y)].data + at);
    }
}

static void embed_int8(const tri_call *call) {
    OPERANDS(embed);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    int64_t T = call->t[ARG(y)].rows;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, elements(call, ARG(y)), ENOUGH))
    for (int64_t t = 0; t < T; t++) {
        int64_t word = (int64_t)ids[t] - call->attr->row0;
        embed_row(call, t, (int64_t[]){word >= 0 && word < call->t[ARG(word)].rows ? word : -1,
                                       call->t[ARG(position)].data ? pos[t] : -1, call->t[ARG(type)].data ? 0 : -1});
    }
}

TRI_FAST_ROWS(quantize) = TRI_KERNEL_ROWS(
    TRI_WIDTH_ROWS(row_max, row_max, 0), TRI_WIDTH_ROWS(quantize, quantize_int8, TRI_FACT_QUANT),
    TRI_WIDTH_ROWS(embed, embed_int8, TRI_FACT_INT8));
