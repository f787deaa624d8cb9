/* simd_head_half.h - attention of one head in bf16, HR queries at a time, as simd_head.h: scores [keys,HR] are sums of
 * bf16 products in fp32, softmax is fp32. Weights, up to their row's factor, are rounded to bf16 for the product with
 * the values; the row's sum is of what they were before. */
#pragma once

#include "device/cpu/fast/attention/simd_head.h"
#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/product/gemm_half.h"

/* bf16 numbers of a panel of `width` rows and depth k, as floats of scratch space. */
INLINE int64_t half_panel(int64_t width, int64_t k) { return tri__round_up(width * k, 32) / 2; }

INLINE int64_t depth_of(const tri_half_product *product, int64_t k) { return tri__round_up(k, product->step); }

/* x [n,d], or its transpose, as panels of A of depth `k`: tokens or features. */
static void pack_half(const tri_half_product *product, const uint16_t *x, int64_t ld, int64_t n, int64_t d,
                      int transposed, uint16_t *to) {
    int64_t rows = transposed ? d : n, k = transposed ? n : d, padded = depth_of(product, k);
    for (int64_t i = 0; i < rows; i += product->mr) {
        int64_t exist = rows - i < product->mr ? rows - i : product->mr;
        tri__half_pack(product,
                       &(tri_half_panel){.transposed = transposed, .from = transposed ? x + i : x + i * ld, .ld = ld,
                                         .n = exist, .k = k, .padded = padded},
                       to + i * padded);
    }
}

/* n <= HR rows of x [n,d] as a panel of B. */
static void pack_half_columns(const tri_half_product *product, const uint16_t *x, int64_t ld, int64_t n, int64_t d,
                              uint16_t *to) {
    tri__half_pack(product,
                   &(tri_half_panel){.is_b = 1, .from = x, .ld = ld, .n = n, .k = d, .padded = depth_of(product, d)},
                   to);
}

/* out[rows,HR] = a b, a in panels; k is the depth. */
INLINE void multiply_half(const tri_half_product *product, const uint16_t *a, int64_t rows, const uint16_t *b,
                          int64_t k, float *out) {
    int64_t depth = depth_of(product, k);
    for (int64_t i = 0; i < rows; i += product->mr)
        product->run(depth / product->step, a + i * depth, b, out + i * HR, HR, 0);
}

/* Rows i and i + 1, i even, of a panel of B: HV vectors each, in bf16 in the upper halves of lanes. */
INLINE void put_pair(uint16_t *panel, int64_t i, const vu *even, const vu *odd) {
    EACH(j, HV) {
        vu pair = even[j] >> 16 | (odd[j] & 0xFFFF0000u);
        if (HEAD_GROUP == 2) {
            *(vu_any *)(panel + i * HR + 2 * j * VEC) = pair;
        } else {
            uint16_t *to = panel + i / HEAD_GROUP * HEAD_GROUP * HR + i % HEAD_GROUP + j * VEC * HEAD_GROUP;
            for (int u = 0; u < VEC; u++) memcpy(to + u * HEAD_GROUP, (const char *)&pair + 4 * u, 4);
        }
    }
}

/* The upper halves are v in bf16. A NaN keeps its upper half, which alone can be set: factors are bf16. */
INLINE vu round_half(vf v) { return (vu)v + 0x7FFFu + ((vu)v << 15 >> 31); }

/* Rows s [n,HR] as a panel of B of this depth. */
static void round_rows(const float *s, int64_t n, int64_t depth, uint16_t *panel) {
    for (int64_t i = 0; i < depth; i += 2) {
        vu row[2][HV] = {{{0}}};
        for (int u = 0; u < 2 && i + u < n; u++) EACH(j, HV) row[u][j] = round_half(load(s + (i + u) * HR + j * VEC));
        put_pair(panel, i, row[0], row[1]);
    }
}

#ifdef TRI_SIMD_OWN_TRANSPOSE
/* turn_back_half where d is a multiple of 2 VEC, by whole vectors in registers. */
INLINE void turn_back_whole(const float *from, int64_t n, int64_t d, const float *factor, uint16_t *to, int64_t ld,
                            int acc) {
    for (int64_t i = 0; i < n; i += VEC)
        for (int64_t c = 0; c < d; c += 2 * VEC) {
            vf r[2][VEC];
            for (int half = 0; half < 2; half++) {
                for (int u = 0; u < VEC; u++) r[half][u] = load(from + (c + half * VEC + u) * HR + i);
                vec_transpose(r[half]);
            }
            for (int64_t u = 0; u < VEC && i + u < n; u++) {
                uint16_t *at = to + (i + u) * ld + c;
                vf row[2] = {rounded(r[0][u] * factor[i + u]), rounded(r[1][u] * factor[i + u])}, old[2];
                if (acc) {
                    get_bf16(at, old);
                    row[0] = old[0] + row[0], row[1] = old[1] + row[1];
                }
                put_rounded(at, row);
            }
        }
}
#endif

/* to[i,c] = (acc ? to[i,c] : 0) + factor[i] * from[c,i] for i < n <= HR, c < d; work [HR,d] */
static void turn_back_half(const float *from, int64_t n, int64_t d, const float *factor, uint16_t *to, int64_t ld,
                           int acc, float *work) {
#ifdef TRI_SIMD_OWN_TRANSPOSE
    if (d % (2 * VEC) == 0) {
        turn_back_whole(from, n, d, factor, to, ld, acc);
        return;
    }
#endif
    turn_back(from, n, d, factor, work, d, 0);
    for (int64_t i = 0; i < n; i++) {
        if (acc) simd_widen_add(d, to + i * ld, work + i * d);
        simd_narrow(d, work + i * d, to + i * ld);
    }
}

/* Turns scores s [len,HR] of queries from q0 into weights, except for the factor. */
static void soften_half(const tri_head_half *h, float *s, int64_t q0, float factor[HR]) {
    int64_t n = h->len - q0 < HR ? h->len - q0 : HR;
    float scale = log2_e / sqrtf((float)h->d), top[HR], total[HR];
    vf max[HV], sum[HV] = {{0}};
    largest_scores(s, h->len, max);
    EACH(j, HV) max[j] *= scale;
    if (h->drop.threshold) soften_dropped(&h->drop, s, scale, h->feature0, h->len, q0, n, max, sum);
    else soften_all(s, scale, h->len, max, sum);
    EACH(j, HV) store(top + j * VEC, max[j]), store(total + j * VEC, sum[j]);
    for (int64_t i = 0; i < n; i++) {
        factor[i] = h->drop.scale / total[i];
        if (h->lse) h->lse[(q0 + i) * h->ld_lse] = top[i] * (1 / log2_e) + logf(total[i]);
    }
}

/* Keys and values, panels of queries and weights, scores, the result of a panel, and its transpose. */
int64_t PER_ISA(tri__head_half_work)(const tri_half_product *product, int64_t len, int64_t d) {
    int64_t keys = tri__round_up(len, product->mr), columns = tri__round_up(d, product->mr);
    int64_t deep = depth_of(product, d), longer = depth_of(product, len);
    return half_panel(keys, deep) + half_panel(columns, longer) + half_panel(HR, deep) + half_panel(HR, longer) +
           keys * HR + columns * HR + HR * d;
}

void PER_ISA(tri__head_half)(const tri_head_half *h) {
    const tri_half_product *product = h->product;
    int64_t len = h->len, d = h->d, keys = tri__round_up(len, product->mr), columns = tri__round_up(d, product->mr);
    int64_t deep = depth_of(product, d), longer = depth_of(product, len);
    float *k = h->work, *v = k + half_panel(keys, deep), *q = v + half_panel(columns, longer);
    float *p = q + half_panel(HR, deep), *s = p + half_panel(HR, longer), *out = s + keys * HR;
    float *transposed = out + columns * HR, factor[HR] = {0};
    pack_half(product, h->k, h->ld, len, d, 0, (uint16_t *)(void *)k);
    pack_half(product, h->v, h->ld, len, d, 1, (uint16_t *)(void *)v);
    if (product->begin) product->begin();
    for (int64_t q0 = 0; q0 < len; q0 += HR) {
        int64_t n = len - q0 < HR ? len - q0 : HR;
        pack_half_columns(product, h->q + q0 * h->ld, h->ld, n, d, (uint16_t *)(void *)q);
        multiply_half(product, (uint16_t *)(void *)k, len, (uint16_t *)(void *)q, d, s);
        soften_half(h, s, q0, factor);
        round_rows(s, len, longer, (uint16_t *)(void *)p);
        multiply_half(product, (uint16_t *)(void *)v, d, (uint16_t *)(void *)p, len, out);
        turn_back_half(out, n, d, factor, h->ctx + q0 * h->ld_ctx, h->ld_ctx, 0, transposed);
    }
    if (product->end) product->end();
}
