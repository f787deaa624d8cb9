/* quantized.c - 8-bit factors and their products. All rows take every width of the computing type: factors are exact
 * integers or e4m3 numbers whatever surrounds them, and results are rounded once to their own type. */
#include "device/cpu/reference/any_width.h"
#include "device/activation.h"
#include "numbers/float8.h"
#include "numbers/quantized.h"

#include <math.h>

/* The largest |x| of row t of operand k; NaN if one is. */
static float row_largest(const tri_call *call, int k, int64_t t) {
    float largest = 0;
    for (int64_t i = 0; i < call->t[k].cols; i++) {
        float a = fabsf(load(call, k, t * call->t[k].cols + i));
        if (a > largest || a != a) largest = a;
    }
    return largest;
}

static void row_max(const tri_call *call) {
    OPERANDS(row_max);
    for (int64_t t = 0; t < call->t[ARG(m)].rows; t++) f32(call, ARG(m))[t] = row_largest(call, ARG(x), t);
}

/* That of the row itself, or of the maxima m [M,1] of several ranks: m[t], m[t + T], ... */
static float largest_of(const tri_call *call, int x, int m, int64_t t) {
    if (!call->t[m].data) return row_largest(call, x, t);
    float largest = 0;
    for (int64_t i = t; i < call->t[m].rows; i += call->t[x].rows)
        if (f32(call, m)[i] > largest || f32(call, m)[i] != f32(call, m)[i]) largest = f32(call, m)[i];
    return largest;
}

static void quantize_int8(const tri_call *call) {
    OPERANDS(quantize_int8);
    int8_t *q = call->t[ARG(q)].data; /* [T,I] */
    int64_t T = call->t[ARG(q)].rows, I = call->t[ARG(q)].cols;
    for (int64_t t = 0; t < T; t++) {
        float s = tri__quantized_scale(largest_of(call, ARG(x), ARG(m), t), TRI_INT8_MAX);
        f32(call, ARG(s))[t] = s;
        for (int64_t i = 0; i < I; i++) q[t * I + i] = tri__to_int8(load(call, ARG(x), t * I + i), s);
    }
}

static void quantize_fp8(const tri_call *call) {
    OPERANDS(quantize_fp8);
    uint8_t *q = call->t[ARG(q)].data; /* [T,I] e4m3 */
    int64_t T = call->t[ARG(q)].rows, I = call->t[ARG(q)].cols;
    for (int64_t t = 0; t < T; t++) {
        float s = tri__quantized_scale(largest_of(call, ARG(x), ARG(m), t), TRI_E4M3_MAX), inverse = s ? 1 / s : 0;
        f32(call, ARG(s))[t] = s;
        for (int64_t i = 0; i < I; i++) q[t * I + i] = tri__to_e4m3(load(call, ARG(x), t * I + i) * inverse);
    }
}

static void quantize_din(const tri_call *call) {
    OPERANDS(quantize_din);
    int64_t n = call->t[ARG(dx)].rows * call->t[ARG(dx)].cols;
    for (int64_t i = 0; i < n; i++) save(call, ARG(dx), i, load(call, ARG(dq), i));
}

/* s * q of element i of a row of a table, whose largest |x| is `largest`. */
static double dequantized(const tri_call *call, int k, int64_t i, float largest) {
    float s = tri__quantized_scale(largest, TRI_INT8_MAX);
    return (double)s * tri__to_int8(load(call, k, i), s);
}

static void embed_int8(const tri_call *call) {
    OPERANDS(embed);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t t = 0; t < T; t++) {
        int64_t word = (int64_t)ids[t] - call->attr->row0, n = call->t[ARG(word)].rows;
        const int64_t row[3] = {word >= 0 && word < n ? word : -1, call->t[ARG(position)].data ? pos[t] : -1,
                                call->t[ARG(type)].data ? 0 : -1};
        float largest[3] = {0};
        for (int k = 0; k < 3; k++)
            if (row[k] >= 0) largest[k] = row_largest(call, ARG(word) + k, row[k]);
        for (int64_t c = 0; c < H; c++) {
            double sum = 0;
            for (int k = 0; k < 3; k++)
                if (row[k] >= 0) sum += dequantized(call, ARG(word) + k, row[k] * H + c, largest[k]);
            save(call, ARG(y), t * H + c, sum);
        }
    }
}

static float product_int8(const int8_t *a, const int8_t *b, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return (float)sum;
}

static float product_fp8(const uint8_t *a, const uint8_t *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)tri__from_e4m3(a[i]) * tri__from_e4m3(b[i]);
    return (float)sum;
}

/* y[T,O], and h[T,O] or -1. Three operations, each rounded to fp32. */
static void linear_quantized(const tri_call *call, int y, int h, int q, int s, int w, int ws, int b, int gelu) {
    int64_t T = call->t[q].rows, O = call->t[w].rows, I = call->t[q].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t o = 0; o < O; o++) {
            const uint8_t *row = (const uint8_t *)call->t[q].data + t * I,
                          *column = (const uint8_t *)call->t[w].data + o * I;
            float sum = call->dtype[q] == TRI_I8 ? product_int8((const int8_t *)row, (const int8_t *)column, I)
                                                 : product_fp8(row, column, I);
            float scale = f32(call, s)[t] * f32(call, ws)[o], value = sum * scale;
            __asm__("" : "+m"(value)); /* not contracted with the sum to one operation, which gcc may do */
            if (call->t[b].data) value += load(call, b, o);
            if (h >= 0) save(call, h, t * O + o, value);
            if (!gelu) save(call, y, t * O + o, value);
            else
                save(call, y, t * O + o,
                     activation_at(TRI_ACTIVATION_GELU, tri__rounded((tri_dtype)call->dtype[y], value)));
        }
}

#define PRODUCT(op, h, gelu)                                                                                         \
    static void op(const tri_call *call) {                                                                           \
        linear_quantized(call, TRI_ARG(op, y), h, TRI_ARG(op, q), TRI_ARG(op, s), TRI_ARG(op, w), TRI_ARG(op, ws),   \
                         TRI_ARG(op, b), gelu);                                                                      \
    }
PRODUCT(linear_int8, -1, 0)
PRODUCT(linear_gelu_int8, TRI_ARG(linear_gelu_int8, h), 1)
PRODUCT(linear_fp8, -1, 0)
PRODUCT(linear_gelu_fp8, TRI_ARG(linear_gelu_fp8, h), 1)

static void linear_int8_din(const tri_call *call) {
    OPERANDS(linear_int8_din);
    const int8_t *w = call->t[ARG(w)].data;   /* [O,I] */
    const float *ws = f32(call, ARG(ws));     /* [O] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++) sum += (double)load(call, ARG(dy), t * O + o) * (ws[o] * w[o * I + i]);
            save(call, ARG(dq), t * I + i, sum);
        }
}

static void linear_int8_dw(const tri_call *call) {
    OPERANDS(linear_int8_dw);
    const int8_t *q = call->t[ARG(q)].data; /* [T,I] */
    const float *s = f32(call, ARG(s));     /* [T] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dw)].rows, I = call->t[ARG(dw)].cols;
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += (double)load(call, ARG(dy), t * O + o) * (s[t] * q[t * I + i]);
            save(call, ARG(dw), o * I + i, sum);
        }
}

#define ROWS(op_) TRI_WIDTH_ROWS(TRI_OP_##op_, op_, 0)
const tri_kernel_row tri__cpu_quantized_reference[] = {
    TRI_WIDTH_ROWS(TRI_OP_embed, embed_int8, TRI_FACT_INT8), ROWS(row_max), ROWS(quantize_int8), ROWS(quantize_din),
    ROWS(linear_int8), ROWS(linear_gelu_int8),
    ROWS(linear_int8_din), ROWS(linear_int8_dw), ROWS(quantize_fp8), ROWS(linear_fp8), ROWS(linear_gelu_fp8),
    {.run = NULL},
};
