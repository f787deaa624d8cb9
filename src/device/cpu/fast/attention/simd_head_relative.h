/* simd_head_relative.h - attention of one head whose scores depend on distances. What they have beside q_i k_j is a
 * matrix that head and head_din add to their products. Bias is the same on each diagonal: one row of numbers, of which
 * each query reads its own stretch. Products with a distance's query and key are computed for all distances that a row
 * meets, side by side; written with a stride one longer than a row, every number lands in its column. The gradients go
 * the same way back. A bucket's row is used for each of its distances. */
#pragma once

#include "device/cpu/fast/attention/simd_head_din.h"

enum { MARGIN = HR + MR }; /* columns on either side of a square, for tiles that begin or end outside of it */

/* Floats of a square [len,len] with margins, and of a row. */
INLINE int64_t square_row(int64_t len) { return tri__round_up(len, 4) + 2 * MARGIN; }
INLINE int64_t square_size(int64_t len) { return tri__round_up(len, MR) * square_row(len) + MARGIN + SLACK; }
INLINE int64_t distances(int64_t len) { return 2 * len - 1; }

/* Parts of the scratch space beside head_din's. */
enum {
    SQUARE,             /* what is added to scores, then score gradients */
    STRIP,              /* [MR,len] with margins */
    TOKENS,             /* panels of queries or keys, over d */
    TRANSPOSED,         /* the same over tokens */
    ENTRIES,            /* panels of HR distances' queries or keys, over d */
    ENTRIES_TRANSPOSED, /* the same over distances, in panels of MR features */
    FEW,                /* [HR,d] */
    SKEWED,             /* a panel of score gradients, by distance */
    RESULT,             /* [d,HR] */
    LIST,               /* int32 [distances] */
    RELATIVE_PARTS
};

static void relative_sizes(int64_t len, int64_t d, int64_t size[RELATIVE_PARTS]) {
    int64_t span = tri__round_up(distances(len), TRI_KERNEL_STEP) + TRI_KERNEL_STEP;
    size[SQUARE] = square_size(len);
    size[STRIP] = MR * square_row(len) + SLACK;
    size[TOKENS] = panels(len, MR, d);
    size[TRANSPOSED] = panels(d, MR, len);
    size[ENTRIES] = panels(span, HR, d);
    size[ENTRIES_TRANSPOSED] = panels(d, MR, span);
    size[FEW] = HR * d + SLACK;
    size[SKEWED] = panels(HR, HR, span);
    size[RESULT] = panels(HR, HR, tri__round_up(d, MR));
    size[LIST] = span;
    for (int i = 0; i < RELATIVE_PARTS; i++) size[i] = tri__round_up(size[i], 16);
}

SIMD int64_t simd_head_relative_work(int64_t len, int64_t d) {
    int64_t size[RELATIVE_PARTS], total = 0;
    relative_sizes(len, d, size);
    for (int i = 0; i < RELATIVE_PARTS; i++) total += size[i];
    return total + simd_head_din_work(len, d);
}

static void relative_parts(const tri_head *h, const tri_relative *r, float *w[RELATIVE_PARTS]) {
    int64_t size[RELATIVE_PARTS];
    relative_sizes(h->len, h->d, size);
    w[0] = r->work;
    for (int i = 1; i < RELATIVE_PARTS; i++) w[i] = w[i - 1] + size[i - 1];
}

/* Row m of `list` is that of distance sign * (m - (len - 1)). */
INLINE const int32_t *list_rows(const tri_relative *r, int64_t len, int sign, float *list) {
    int32_t *out = (int32_t *)(void *)list;
    for (int64_t m = 0; m < distances(len); m++) out[m] = r->row[sign * (m - (len - 1))];
    return out;
}

/* The step between n rows that are listed, if it is one: 1 or -1; else 0. */
INLINE int64_t step_of(const int32_t *rows, int64_t n) {
    int64_t step = n > 1 ? rows[1] - rows[0] : 1;
    for (int64_t i = 1; i < n; i++)
        if (rows[i] - rows[i - 1] != step) return 0;
    return step == 1 || step == -1 ? step : 0;
}

/* Listed rows of x [.,d] as panels of HR. */
static void pack_listed(float *to, const float *x, int64_t ld, const int32_t *rows, int64_t count, int64_t d,
                        float scale, float *few) {
    int64_t depth = tri__round_up(d, TRI_KERNEL_STEP);
    for (int64_t m = 0; m < count; m += HR) {
        int64_t n = count - m < HR ? count - m : HR, step = step_of(rows + m, n);
        for (int64_t i = 0; i < n && !step; i++) memcpy(few + i * d, x + rows[m + i] * ld, (size_t)d * sizeof *few);
        if (step) tri__pack_rows(to + m * depth, HR, x + rows[m] * ld, step * ld, n, d, depth, scale);
        else tri__pack_rows(to + m * depth, HR, few, d, n, d, depth, scale);
    }
}

/* Products of MR tokens, the first of which is number t, with all distances that they meet: out[i,c] of token t + i and
 * distance m = c - (t + i) + len - 1, for c from 0 to len - 1; others are written to the margins. */
static void product_diagonals(int64_t len, int64_t d, int64_t t, const float *tokens, const float *entries, float *out,
                              int64_t ld) {
    int64_t depth = tri__round_up(d, TRI_KERNEL_STEP), first = len - 1 - (t + MR - 1), last = 2 * (len - 1) - t;
    for (int64_t m = (first > 0 ? first : 0) / HR * HR; m <= last; m += HR)
        product_tile(depth, tokens + t * depth, entries + m * depth, NULL, 0, out + m + t - (len - 1), ld + 1);
}

/* to[c,t + i] = (add ? to[c,t + i] : 0) + from[i,c] for i < MR and c < len. */
static void turn_strip(const float *from, int64_t ld, int64_t len, int64_t t, float *to, int add) {
    for (int64_t c = 0; c < len; c += 4)
        for (int i = 0; i < MR; i += 4) {
            tri_vec4 r[4];
            for (int u = 0; u < 4; u++) r[u] = *(const tri_vec4_any *)(from + (i + u) * ld + c);
            tri__transpose4(r);
            for (int u = 0; u < 4 && c + u < len; u++) {
                tri_vec4_any *at = (tri_vec4_any *)(to + (c + u) * ld + t + i);
                if (add) r[u] += *at;
                *at = r[u];
            }
        }
}

/* The square's rows are x, its columns z: each x_r meets `own` of distance sign * (c - r), each z_c `other`. */
static const float *relative_square(const tri_head *h, const tri_relative *r, float *const w[RELATIVE_PARTS], int sign,
                                    const float *x, const float *own, const float *z, const float *other) {
    int64_t len = h->len, d = h->d, ld = square_row(len);
    float *square = w[SQUARE] + MARGIN, *strip = w[STRIP] + MARGIN, scale = log2_e / root_of(h);
    if (own) {
        pack_listed(w[ENTRIES], own, r->ld, list_rows(r, len, sign, w[LIST]), distances(len), d, scale, w[FEW]);
        pack_tokens(w[TOKENS], MR, x, h->ld, len, d);
        for (int64_t t = 0; t < len; t += MR)
            product_diagonals(len, d, t, w[TOKENS], w[ENTRIES], square + t * ld, ld);
    }
    if (!other) return square;
    pack_listed(w[ENTRIES], other, r->ld, list_rows(r, len, -sign, w[LIST]), distances(len), d, scale, w[FEW]);
    pack_tokens(w[TOKENS], MR, z, h->ld, len, d);
    for (int64_t t = 0; t < len; t += MR) {
        product_diagonals(len, d, t, w[TOKENS], w[ENTRIES], strip, ld);
        turn_strip(strip, ld, len, t, square, own != NULL);
    }
    return square;
}

/* Bias of distance sign * m, from m = -(len + MARGIN) to len + MARGIN, in powers of 2; the pointer is to m = 0. */
static const float *bias_line(const tri_head *h, const tri_relative *r, float *const w[RELATIVE_PARTS], int sign) {
    float *line = w[ENTRIES] + h->len + MARGIN;
    for (int64_t m = -(h->len + MARGIN); m < h->len + MARGIN; m++)
        line[m] = m > -h->len && m < h->len ? r->bias[r->row[sign * m] * r->ld] * log2_e : 0;
    return line;
}

SIMD void simd_head_relative(const tri_head *head_, const tri_relative *r) {
    tri_head h = *head_;
    float *w[RELATIVE_PARTS];
    relative_parts(&h, r, w);
    if (r->bias) h.added = bias_line(&h, r, w, 1), h.ld_added = -1; /* row j, column i: distance i - j */
    else h.added = relative_square(&h, r, w, 1, h.k, r->q, h.q, r->k), h.ld_added = square_row(h.len);
    simd_head(&h);
}

/* Score gradients of a query, or in the transposed square of a key, times the rows that it met, are added to dx; times
 * the queries or keys x they are added to the rows' own gradients. Row t meets distances m = c - t + len - 1. */
static void rows_din(const tri_head *h, const tri_relative *r, float *const w[RELATIVE_PARTS], const int32_t *rows,
                     const float *entries, const float *scale, float *dx) {
    int64_t len = h->len, d = h->d, ld = square_row(len), span = distances(len);
    int64_t stride = tri__round_up(span, TRI_KERNEL_STEP) + TRI_KERNEL_STEP;
    tri__pack_columns(w[ENTRIES_TRANSPOSED], MR, MR * stride, entries, r->ld, rows, d, span, stride);
    for (int64_t t = 0; t < len; t += HR) {
        int64_t n = len - t < HR ? len - t : HR, first = len - t - n, count = len + n - 1;
        int64_t depth = tri__round_up(count, TRI_KERNEL_STEP);
        tri__pack_rows(w[SKEWED], HR, w[SQUARE] + MARGIN + t * ld + t + first - (len - 1), ld + 1, n, count, depth, 1);
        for (int64_t c = 0; c < d; c += MR)
            product_head(depth, w[ENTRIES_TRANSPOSED] + c * stride + first * MR, w[SKEWED], NULL, w[RESULT] + c * HR);
        turn_back(w[RESULT], n, d, scale, dx + t * h->ld, h->ld, 1);
    }
}

/* Lanes of out [d,HR] are added to listed rows. */
static void add_listed(const float *out, int64_t n, int64_t d, const int32_t *rows, const float *scale, float *to,
                       int64_t ld) {
    int64_t step = step_of(rows, n);
    if (step) {
        turn_back(out, n, d, scale, to + rows[0] * ld, step * ld, 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) turn_back(out + i, 1, d, scale, to + rows[i] * ld, ld, 1);
}

static void entries_din(const tri_head *h, const tri_relative *r, float *const w[RELATIVE_PARTS], const int32_t *rows,
                        const float *x, const float *scale, float *d_entries) {
    int64_t len = h->len, d = h->d, ld = square_row(len), span = distances(len);
    int64_t stride = tri__round_up(len, TRI_KERNEL_STEP);
    pack_features(w[TRANSPOSED], x, h->ld, len, d);
    for (int64_t m = 0; m < span; m += HR) {
        int64_t n = span - m < HR ? span - m : HR, first = len - 1 - (m + HR - 1), end = 2 * len - 1 - m;
        if (first < 0) first = 0;
        if (end > len) end = len;
        int64_t depth = tri__round_up(end - first, TRI_KERNEL_STEP);
        if (first + depth > stride) first = stride - depth;
        for (int64_t t = first; t < first + depth; t++)
            for (int j = 0; j < HR; j += VEC)
                store(w[SKEWED] + (t - first) * HR + j,
                      t < len ? load(w[SQUARE] + MARGIN + t * ld + m + t - (len - 1) + j) : all(0));
        for (int64_t c = 0; c < d; c += MR)
            product_head(depth, w[TRANSPOSED] + c * stride + first * MR, w[SKEWED], NULL, w[RESULT] + c * HR);
        add_listed(w[RESULT], n, d, rows + m, scale, d_entries, r->ld);
    }
}

/* Zeroes what is not of the square [len,len]: margins, and rows up to a multiple of 4. */
static void clear_margins(float *w, int64_t len) {
    int64_t ld = square_row(len);
    memset(w, 0, MARGIN * sizeof *w);
    for (int64_t t = 0; t < len; t++) memset(w + t * ld + MARGIN + len, 0, (size_t)(ld - len) * sizeof *w);
    memset(w + len * ld, 0, (size_t)((tri__round_up(len, 4) - len) * ld) * sizeof *w);
}

/* In place. */
static void turn_square(float *square, int64_t len) {
    int64_t ld = square_row(len);
    for (int64_t i = 0; i < len; i += 4)
        for (int64_t j = i; j < len; j += 4) {
            tri_vec4 a[4], b[4];
            for (int u = 0; u < 4; u++) {
                a[u] = *(const tri_vec4_any *)(square + (i + u) * ld + j);
                b[u] = *(const tri_vec4_any *)(square + (j + u) * ld + i);
            }
            tri__transpose4(a);
            tri__transpose4(b);
            for (int u = 0; u < 4; u++) {
                *(tri_vec4_any *)(square + (i + u) * ld + j) = b[u];
                *(tri_vec4_any *)(square + (j + u) * ld + i) = a[u];
            }
        }
}

/* Sums of diagonals in float, of buckets in double. */
static void bias_din(const tri_head *h, const tri_relative *r, float *const w[RELATIVE_PARTS]) {
    int64_t len = h->len, ld = square_row(len);
    float *sum = w[ENTRIES]; /* [distances], of keys behind the query last */
    memset(sum, 0, (size_t)(distances(len) + VEC) * sizeof *sum);
    for (int64_t t = 0; t < len; t++) {
        const float *slope = w[SQUARE] + MARGIN + t * ld;
        float *to = sum + len - 1 - t;
        BY_VECTORS(len, put(to + i, left, get(to + i, left) + get(slope + i, left)));
    }
    for (int64_t m = 0; m < distances(len); m++) r->dbias[r->row[len - 1 - m]] += (double)sum[m];
}

SIMD void simd_head_relative_din(const tri_head *head_, const tri_relative *r) {
    tri_head h = *head_;
    float *w[RELATIVE_PARTS], scale[HR];
    relative_parts(&h, r, w);
    for (int j = 0; j < HR; j++) scale[j] = 1 / root_of(&h);
    if (r->bias) h.added = bias_line(&h, r, w, -1), h.ld_added = -1; /* row i, column j */
    else h.added = relative_square(&h, r, w, -1, h.q, r->k, h.k, r->q), h.ld_added = square_row(h.len);
    h.slope = w[SQUARE] + MARGIN, h.ld_slope = square_row(h.len);
    simd_head_din(&h);
    if (r->bias) {
        bias_din(&h, r, w);
        return;
    }
    clear_margins(w[SQUARE], h.len);
    if (r->k) {
        const int32_t *rows = list_rows(r, h.len, -1, w[LIST]);
        rows_din(&h, r, w, rows, r->k, scale, h.dq);
        entries_din(&h, r, w, rows, h.q, scale, r->dk);
    }
    if (!r->q) return;
    turn_square(w[SQUARE] + MARGIN, h.len);
    const int32_t *rows = list_rows(r, h.len, 1, w[LIST]);
    rows_din(&h, r, w, rows, r->q, scale, h.dk);
    entries_din(&h, r, w, rows, h.k, scale, r->dq);
}
