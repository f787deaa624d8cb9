/* coded.c - numbers on their way between ranks in fewer bits (numbers/coded.h), and the optimizers' momentum in that
 * form. Rows take every width of what is coded or decoded. */
#include "device/cpu/coded.h"
#include "device/cpu/reference/any_width.h"

enum { BLOCK = TRI_CODE_BLOCK };

/* Element i of the row. */
static float element(const tri_coded_row *row, int64_t i) {
    int64_t block = i / BLOCK;
    return tri__decode(row->code, tri__coded_payload(row, block), i % BLOCK, tri__coded_scale(row, block));
}

/* What is coded of elements `at` to at + n - 1; returns how many are not masked. */
static int64_t gather_block(const tri_call *call, int64_t at, int64_t n, float *t) {
    OPERANDS(pack);
    float *e = f32(call, ARG(e)), *mask = f32(call, ARG(mask)); /* [K] */
    float factor = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1;
    int64_t count = n;
    for (int64_t i = 0; i < n; i++) {
        t[i] = call->t[ARG(x)].data ? load(call, ARG(x), at + i) : 0;
        if (e) t[i] += tri__product(factor, e[at + i]);
        if (mask && mask[at + i] == 0) t[i] = 0, count--;
    }
    return count;
}

/* Codes these elements, a block of the row or its end. */
static void pack_block(const tri_call *call, const tri_coded_row *row, int64_t block, int64_t at, int64_t n) {
    OPERANDS(pack);
    float *e = f32(call, ARG(e)), *mask = f32(call, ARG(mask)), t[BLOCK], largest = 0; /* e, mask [K] */
    float factor = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1, scale = 1;
    uint8_t *payload = tri__coded_payload(row, block);
    int64_t count = gather_block(call, at, n, t);
    double sums[16] = {0};
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(t[i]);
        if (size > largest || size != size) largest = size;
        sums[i % 16] += size;
    }
    if (row->code == TRI_CODE_SIGNS) scale = tri__code_mean(sums, (double)count);
    else if (row->code != TRI_CODE_BF16) scale = tri__code_scale(row->code, largest);
    if (row->code != TRI_CODE_BF16) row->scale[block] = scale;
    for (int64_t i = 0; i < n; i++) tri__encode(row->code, payload, i, t[i], scale);
    for (int64_t i = 0; e && i < n && tri__code_finite(row->code, largest, scale); i++) {
        float left = t[i] - tri__decode(row->code, payload, i, scale);
        e[at + i] = mask && mask[at + i] == 0 ? 0 : tri__product(left, 1 / factor);
    }
}

static void pack(const tri_call *call) {
    OPERANDS(pack);
    const tri_tensor *q = &call->t[ARG(q)];
    int present = call->t[ARG(x)].data ? ARG(x) : ARG(e);
    int64_t K = call->t[present].rows * call->t[present].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t k = 0; k < q->rows; k++) {
        tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
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
        tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
        tri_range part = tri__shard(K, (int)M, (int)k);
        for (int64_t i = part.begin; i < part.end; i++) save(call, ARG(y), i, element(&row, i - part.begin));
    }
}

static void unpack_sum(const tri_call *call) {
    OPERANDS(unpack);
    int64_t K = call->t[ARG(y)].rows * call->t[ARG(y)].cols, M = call->t[ARG(q)].rows;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++) {
        float total = 0;
        for (int64_t k = 0; k < M; k++) {
            tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
            total = k ? total + element(&row, i) : element(&row, i);
        }
        save(call, ARG(y), i, total);
    }
}

static float kept_apart(float m) { return fabsf(m) < TRI_LEAST_MOMENTUM ? copysignf(TRI_LEAST_MOMENTUM, m) : m; }

/* With e, a copy's own, whose gradient stands for that of all copies. */
static void momentum(const tri_call *call) {
    OPERANDS(momentum);
    float *e = f32(call, ARG(e)), *m = f32(call, ARG(m)); /* [K]; e may be NULL */
    double kept = call->attr->beta1, members = e ? call->attr->members : 1, share = e ? f32(call, ARG(hyper))[3] : 0,
           fresh = (1 - kept) * members * *f32(call, ARG(coef));
    int64_t K = call->t[ARG(m)].rows * call->t[ARG(m)].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++) {
        if (m[i] == 0) continue;
        m[i] = kept_apart((float)(kept * m[i] + fresh * load(call, ARG(g), i)));
        if (e) e[i] = (float)(e[i] + share * m[i] / members); /* the product is exact */
    }
}

/* The unit of a momentum: 1 without a variance. */
static float unit_of(const tri_call *call, const float *v, int64_t i) {
    return v ? sqrtf(v[i]) + call->attr->eps : 1;
}

static void momentum_in(const tri_call *call) {
    OPERANDS(momentum);
    float *e = f32(call, ARG(e)), *m = f32(call, ARG(m)), *v = f32(call, ARG(v)); /* [K] each; v may be NULL */
    double kept = (double)call->attr->beta1 / call->attr->members,
           fresh = (1 - (double)call->attr->beta1) * *f32(call, ARG(coef));
    int64_t K = call->t[ARG(e)].rows * call->t[ARG(e)].cols;
    if (!applies(call, ARG(apply))) return;
    for (int64_t i = 0; i < K; i++)
        if (m[i] != 0)
            e[i] = (float)(e[i] + (kept * m[i] + fresh * load(call, ARG(g), i)) / (double)unit_of(call, v, i));
}

static void momentum_out(const tri_call *call) {
    OPERANDS(momentum_out);
    float *m = f32(call, ARG(m)), *v = f32(call, ARG(v)); /* [K] each; v may be NULL */
    int64_t K = call->t[ARG(m)].rows * call->t[ARG(m)].cols, M = call->t[ARG(q)].rows;
    if (!applies(call, ARG(apply))) return;
    for (int64_t k = 0; k < M; k++) {
        tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
        tri_range part = tri__shard(K, (int)M, (int)k);
        for (int64_t i = part.begin; i < part.end; i++)
            if (m[i] != 0) m[i] = kept_apart(element(&row, i - part.begin) * unit_of(call, v, i));
    }
}

static void adamw_frozen(const tri_call *call) {
    OPERANDS(adamw_frozen);
    int meets = call->attr->meet;
    float *p = f32(call, meets ? ARG(anchor) : ARG(p));                                         /* [K] */
    const float *m = f32(call, ARG(m)), *v = f32(call, ARG(v)), *hyper = f32(call, ARG(hyper)); /* [K] [K] [4] */
    double lr = hyper[0] * tri__rate_factor(call->attr), c1 = hyper[1], c2 = hyper[2];
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    if (!applies(call, ARG(apply))) return;
    if (meets) lr /= hyper[3];
    for (int64_t i = 0; i < K; i++) {
        double step = m[i] != 0 ? m[i] / c1 / (sqrt(v[i]) / sqrt(c2) + call->attr->eps) : 0;
        p[i] = (float)(p[i] * (1 - lr * call->attr->decay) - lr * fmin(fmax(step, -1), 1));
    }
    if (meets) memcpy(f32(call, ARG(p)), p, (size_t)K * sizeof *p);
}

#define ROWS(op_) TRI_WIDTH_ROWS(op_, op_, 0)
const tri_kernel_row tri__cpu_coded_reference[] = TRI_KERNEL_ROWS(
    ROWS(pack), ROWS(unpack), TRI_WIDTH_ROWS(unpack, unpack_sum, TRI_FACT_SUM), ROWS(momentum),
    TRI_WIDTH_ROWS(momentum, momentum_in, TRI_FACT_SENT),
    TRI_WIDTH_ROWS(momentum, momentum, TRI_FACT_SENT | TRI_FACT_OWN), ROWS(momentum_out), ROWS(adamw_frozen));
