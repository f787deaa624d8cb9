/* coded.c - numbers on their way between ranks in fewer bits (layout/coded.h), and the optimizers' momentum in that
 * form. Rows take every width of what is coded or decoded. Every operation on fp32 is rounded by itself: products are
 * exact in double, and so is what a sum of two needs to be rounded right, so a compiler may not contract them to one.
 * Coded bytes and errors are therefore the same on every device. */
#include "device/cpu/convert.h"
#include "device/cpu/reference/reference.h"
#include "layout/coded.h"
#include "layout/float8.h"
#include "layout/quantized.h"

#include <math.h>

enum { BLOCK = TRI_CODE_BLOCK };
static const float least_momentum = 0x1p-100f;

static float product(float a, float b) { return (float)((double)a * b); }
static float sum(float a, float b) { return (float)((double)a + b); }

/* The largest integer, or e4m3 number, of a code. */
static float most_of(tri_code code) {
    return code == TRI_CODE_INT8 ? TRI_INT8_MAX : code == TRI_CODE_INT4 ? 7 : TRI_E4M3_MAX;
}

/* The scale of n elements, of which those with a mask of 0 are 0. */
static float scale_of(tri_code code, int64_t n, const float *t, const float *mask) {
    double total = 0, count = 0;
    float largest = 0, scale;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(t[i]);
        if (size > largest || size != size) largest = size;
        total += size;
        count += !mask || mask[i] != 0;
    }
    if (code == TRI_CODE_BF16) return 1;
    if (code == TRI_CODE_SIGNS) scale = count ? (float)(total / count) : 0;
    else scale = tri__quantized_scale(largest, most_of(code));
    return scale == scale ? scale : tri__float_of_bits(0x7FC00000);
}

/* x / scale as an integer of -7 .. 7, in 4 bits. */
static int to_int4(float x, float scale) {
    int q = tri__to_int8(x, scale);
    return (q > 7 ? 7 : q < -7 ? -7 : q) & 15;
}

/* Element i of a block, in a payload that was zeros. */
static void encode(tri_code code, uint8_t *payload, int64_t i, float t, float scale) {
    switch (code) {
    case TRI_CODE_BF16: ((uint16_t *)(void *)payload)[i] = tri__to_bf16(t); break;
    case TRI_CODE_INT8: payload[i] = (uint8_t)tri__to_int8(t, scale); break;
    case TRI_CODE_INT4: payload[i % 128] |= (uint8_t)(to_int4(t, scale) << (i < 128 ? 0 : 4)); break;
    case TRI_CODE_FP8: payload[i] = tri__to_e4m3(product(t, scale ? 1 / scale : 0)); break;
    default: payload[i / 8] |= (uint8_t)((t < 0) << i % 8);
    }
}

static float decode(tri_code code, const uint8_t *payload, int64_t i, float scale) {
    switch (code) {
    case TRI_CODE_BF16: return tri__from_bf16(((const uint16_t *)(const void *)payload)[i]);
    case TRI_CODE_INT8: return product(scale, (int8_t)payload[i]);
    case TRI_CODE_INT4: return product(scale, (float)(((payload[i % 128] >> (i < 128 ? 0 : 4) & 15) ^ 8) - 8));
    case TRI_CODE_FP8: return product(scale, tri__from_e4m3(payload[i]));
    default: return tri__float_of_bits(tri__bits_of_float(scale) ^ (uint32_t)(payload[i / 8] >> i % 8 & 1) << 31);
    }
}

/* Row k of q [M,B]: blocks' payloads, and their scales (none in bf16). */
typedef struct coded_row {
    tri_code code;
    uint8_t *payload;
    float *scale;
} coded_row;

static coded_row row_of(const tri_call *call, int q, int64_t k) {
    tri_code code = (tri_code)call->attr->code;
    uint8_t *row = (uint8_t *)call->t[q].data + k * call->t[q].cols;
    return (coded_row){code, row, (float *)(void *)(row + tri__coded_scales(code, call->t[q].cols))};
}

/* Element i of the row. */
static float element(const coded_row *row, int64_t i) {
    int64_t block = i / BLOCK;
    return decode(row->code, row->payload + block * tri__code_payload(row->code), i % BLOCK,
                  row->code == TRI_CODE_BF16 ? 1 : row->scale[block]);
}

/* An operand may be left out, which stands for apply = 1. */
static int applies(const tri_call *call, int apply) { return !call->t[apply].data || *i32(call, apply); }

static float load(const tri_call *call, int k, int64_t i) {
    float value;
    tri__widen(call->dtype[k], 1, (char *)call->t[k].data + i * (int64_t)tri__dtype_bytes(call->dtype[k]), &value);
    return value;
}

static void save(const tri_call *call, int k, int64_t i, float value) {
    tri__narrow(call->dtype[k], 1, &value, (char *)call->t[k].data + i * (int64_t)tri__dtype_bytes(call->dtype[k]));
}

/* Codes elements `at` to at + n - 1, a block of the row or its end. */
static void pack_block(const tri_call *call, const coded_row *row, int64_t block, int64_t at, int64_t n) {
    OPERANDS(pack);
    float *e = f32(call, ARG(e)), *mask = f32(call, ARG(mask)), t[BLOCK], left[BLOCK]; /* e, mask [K] */
    float factor = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1;
    uint8_t *payload = row->payload + block * tri__code_payload(row->code);
    int finite = 1;
    for (int64_t i = 0; i < n; i++) {
        t[i] = call->t[ARG(x)].data ? load(call, ARG(x), at + i) : 0;
        if (e) t[i] = sum(t[i], product(factor, e[at + i]));
        if (mask && mask[at + i] == 0) t[i] = 0;
    }
    float scale = scale_of(row->code, n, t, mask ? mask + at : NULL);
    if (row->code != TRI_CODE_BF16) row->scale[block] = scale;
    if (row->code != TRI_CODE_BF16 && row->code != TRI_CODE_SIGNS) finite = isfinite(scale * most_of(row->code));
    for (int64_t i = 0; i < n; i++) {
        encode(row->code, payload, i, t[i], scale);
        float value = decode(row->code, payload, i, scale);
        finite = finite && isfinite(value);
        left[i] = mask && mask[at + i] == 0 ? 0 : product(sum(t[i], -value), 1 / factor);
    }
    for (int64_t i = 0; e && finite && i < n; i++) e[at + i] = left[i];
}

static void pack(const tri_call *call) {
    OPERANDS(pack);
    const tri_tensor *q = &call->t[ARG(q)];
    int present = call->t[ARG(x)].data ? ARG(x) : ARG(e);
    int64_t K = call->t[present].rows * call->t[present].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t k = 0; k < q->rows; k++) {
        coded_row row = row_of(call, ARG(q), k);
        tri_range part = tri__shard(K, (int)q->rows, (int)k);
        for (int64_t i = 0; i < q->cols; i++) row.payload[i] = 0;
        for (int64_t at = part.begin; at < part.end; at += BLOCK)
            pack_block(call, &row, (at - part.begin) / BLOCK, at, part.end - at < BLOCK ? part.end - at : BLOCK);
    }
}

static void unpack(const tri_call *call) {
    OPERANDS(unpack);
    int64_t K = call->t[ARG(y)].rows * call->t[ARG(y)].cols, M = call->t[ARG(q)].rows;
    for (int64_t k = 0; k < M; k++) {
        coded_row row = row_of(call, ARG(q), k);
        tri_range part = tri__shard(K, (int)M, (int)k);
        for (int64_t i = part.begin; i < part.end; i++) save(call, ARG(y), i, element(&row, i - part.begin));
    }
}

static void unpack_sum(const tri_call *call) {
    OPERANDS(unpack_sum);
    int64_t K = call->t[ARG(y)].rows * call->t[ARG(y)].cols, M = call->t[ARG(q)].rows;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++) {
        float total = 0;
        for (int64_t k = 0; k < M; k++) {
            coded_row row = row_of(call, ARG(q), k);
            total = k ? sum(total, element(&row, i)) : element(&row, i);
        }
        save(call, ARG(y), i, adds(call, ARG(y)) ? sum(load(call, ARG(y), i), total) : total);
    }
}

/* A momentum that decays never becomes 0: the element would stay masked for good. */
static float kept_apart(float m) { return fabsf(m) < least_momentum ? copysignf(least_momentum, m) : m; }

static void momentum(const tri_call *call) {
    OPERANDS(momentum);
    float *m = f32(call, ARG(m)); /* [K] */
    double kept = call->attr->beta1, fresh = (1 - kept) * *f32(call, ARG(coef));
    int64_t K = call->t[ARG(m)].rows * call->t[ARG(m)].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++)
        if (m[i] != 0) m[i] = kept_apart((float)(kept * m[i] + fresh * load(call, ARG(g), i)));
}

static void momentum_in(const tri_call *call) {
    OPERANDS(momentum_in);
    float *e = f32(call, ARG(e)), *m = f32(call, ARG(m)); /* [K] */
    double kept = (double)call->attr->beta1 / call->attr->members,
           fresh = (1 - (double)call->attr->beta1) * *f32(call, ARG(coef));
    int64_t K = call->t[ARG(e)].rows * call->t[ARG(e)].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++)
        if (m[i] != 0) e[i] = (float)(e[i] + (kept * m[i] + fresh * load(call, ARG(g), i)));
}

static void momentum_out(const tri_call *call) {
    OPERANDS(momentum_out);
    float *m = f32(call, ARG(m)); /* [K] */
    int64_t K = call->t[ARG(m)].rows * call->t[ARG(m)].cols, M = call->t[ARG(q)].rows;
    if (!applies(call, ARG(apply))) return;
    for (int64_t k = 0; k < M; k++) {
        coded_row row = row_of(call, ARG(q), k);
        tri_range part = tri__shard(K, (int)M, (int)k);
        for (int64_t i = part.begin; i < part.end; i++)
            if (m[i] != 0) m[i] = kept_apart(element(&row, i - part.begin));
    }
}

static void adamw_frozen(const tri_call *call) {
    OPERANDS(adamw_frozen);
    if (!applies(call, ARG(apply))) return;
    float *p = f32(call, ARG(p));                                                                         /* [K] */
    const float *m = f32(call, ARG(m)), *v = f32(call, ARG(v)), *hyper = f32(call, ARG(hyper)); /* [K] [K] [4] */
    double lr = hyper[0], c1 = hyper[1], c2 = hyper[2];
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double step = m[i] != 0 ? lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + call->attr->eps) : 0;
        p[i] = (float)(p[i] * (1 - lr * call->attr->decay) - step);
    }
}

#define ROWS(op_) \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_}, {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = op_}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = op_}
const tri_kernel_row tri__cpu_coded_reference[] = {
    ROWS(pack),        ROWS(unpack),       ROWS(unpack_sum),   ROWS(momentum),
    ROWS(momentum_in), ROWS(momentum_out), ROWS(adamw_frozen), {.run = NULL},
};
