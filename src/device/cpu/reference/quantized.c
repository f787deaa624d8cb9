/* quantized.c - 8-bit factors and their products. All rows take every width of the computing type: factors are exact
 * integers or e4m3 numbers whatever surrounds them, and results are rounded once to their own type. */
#include "device/cpu/reference/any_width.h"
#include "numbers/float8.h"
#include "numbers/quantized.h"

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

static void quantize(const tri_call *call) {
    OPERANDS(quantize);
    int8_t *q = call->t[ARG(q)].data; /* [T,I] */
    uint8_t *e4m3 = call->t[ARG(q)].data;
    int64_t T = call->t[ARG(q)].rows, I = call->t[ARG(q)].cols;
    int fp8 = call->attr->factors == TRI_FACTORS_FP8;
    for (int64_t t = 0; t < T; t++) {
        float s = tri__quantized_scale(largest_of(call, ARG(x), ARG(m), t), fp8 ? TRI_E4M3_MAX : TRI_INT8_MAX);
        float inverse = s ? 1 / s : 0;
        f32(call, ARG(s))[t] = s;
        for (int64_t i = t * I; i < (t + 1) * I; i++) {
            if (fp8) e4m3[i] = tri__to_e4m3(load(call, ARG(x), i) * inverse);
            else q[i] = tri__to_int8(load(call, ARG(x), i), s);
        }
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

/* y[T,O], and h[T,O] of a layer with an activation. Three operations, each rounded to fp32. */
static void linear_quantized(const tri_call *call) {
    OPERANDS(linear);
    const tri_tensor *q = &call->t[ARG(x)], *w = &call->t[ARG(w)];
    int64_t T = q->rows, O = w->rows, I = q->cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t o = 0; o < O; o++) {
            const uint8_t *row = (const uint8_t *)q->data + t * I, *column = (const uint8_t *)w->data + o * I;
            float sum = call->dtype[ARG(x)] == TRI_I8 ? product_int8((const int8_t *)row, (const int8_t *)column, I)
                                                      : product_fp8(row, column, I);
            float scale = f32(call, ARG(s))[t] * f32(call, ARG(ws))[o], value = sum * scale;
            __asm__("" : "+m"(value)); /* not contracted with the sum to one operation, which gcc may do */
            if (call->t[ARG(b)].data) value += load(call, ARG(b), o);
            if (call->t[ARG(h)].data) save(call, ARG(h), t * O + o, value);
            if (!call->attr->activation) save(call, ARG(y), t * O + o, value);
            else
                save(call, ARG(y), t * O + o,
                     activated(call, tri__rounded((tri_dtype)call->dtype[ARG(y)], value)));
        }
}

static void linear_int8_din(const tri_call *call) {
    OPERANDS(linear_din);
    const int8_t *w = call->t[ARG(w)].data;   /* [O,I] */
    const float *ws = f32(call, ARG(ws));     /* [O] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++) sum += (double)load(call, ARG(dy), t * O + o) * (ws[o] * w[o * I + i]);
            save(call, ARG(dx), t * I + i, sum);
        }
}

static void linear_int8_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    const int8_t *q = call->t[ARG(x)].data; /* [T,I] */
    const float *s = f32(call, ARG(s));     /* [T] */
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dw)].rows, I = call->t[ARG(dw)].cols;
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += (double)load(call, ARG(dy), t * O + o) * (s[t] * q[t * I + i]);
            save(call, ARG(dw), o * I + i, sum);
        }
}

const tri_kernel_row tri__cpu_quantized_reference[] = TRI_KERNEL_ROWS(
    TRI_WIDTH_ROWS(embed, embed_int8, TRI_FACT_INT8),
    TRI_WIDTH_ROWS(row_max, row_max, 0),
    TRI_WIDTH_ROWS(quantize, quantize, TRI_FACT_QUANT),
    TRI_WIDTH_ROWS(quantize, quantize, TRI_FACT_QUANT | TRI_FACT_FP8),
    TRI_WIDTH_ROWS(quantize_din, quantize_din, 0),
    TRI_WIDTH_ROWS(linear, linear_quantized, TRI_FACT_QUANT),
    TRI_WIDTH_ROWS(linear, linear_quantized, TRI_FACT_QUANT | TRI_FACT_ACT),
    TRI_WIDTH_ROWS(linear, linear_quantized, TRI_FACT_QUANT | TRI_FACT_FP8),
    TRI_WIDTH_ROWS(linear, linear_quantized, TRI_FACT_QUANT | TRI_FACT_FP8 | TRI_FACT_ACT),
    TRI_WIDTH_ROWS(linear_din, linear_int8_din, TRI_FACT_QUANT),
    TRI_WIDTH_ROWS(linear_dw, linear_int8_dw, TRI_FACT_QUANT));
