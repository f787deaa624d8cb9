/* kernel_double_attention.c - see kernel_double_attention.h. */
#include "tests/lib/kernel_double_attention.h"

#include "numbers/distance.h"

/* The key blocks that a query of a head attends to, by its place in its sequence. */
static void double_present(const kernel_call *k, int64_t h, int64_t query, uint8_t present[static KERNEL_LONGEST]) {
    const tri_pattern *p = k->at.pattern;
    if (!k->at.blocks) return;
    int layout = (int)((k->attr.head0 + h) % tri__pattern_layouts(p, KERNEL_HEADS));
    tri__pattern_row(p, layout, tri__pattern_rows(p, KERNEL_LONGEST), query / p->block, present);
}

/* The score of a query and a key [d] of head h, `distance` apart. */
static double double_score(const kernel_call *k, double *const *v, int64_t h, const double *query, const double *key,
                           int64_t distance) {
    int64_t H = extent(k, 'H'), d = H / extent(k, 'A'), B = extent(k, 'B'), terms = 0, row = 0;
    const tri_attr *attr = &k->attr;
    if (attr->score == TRI_SCORE_DISENTANGLED) {
        terms = attr->terms;
        row = tri__bucket_log((int32_t)distance, attr->buckets, attr->reach) - (attr->buckets - B) / 2;
    }
    double score = 0;
    for (int64_t c = 0; c < d; c++) {
        score += query[c] * key[c];
        if (terms & 1) score += query[c] * v[REL][row * 3 * H + H + h * d + c];
        if (terms & 2) score += key[c] * v[REL][row * 3 * H + h * d + c];
    }
    score /= sqrt((double)(d * (terms == 3 ? 3 : terms ? 2 : 1)));
    if (attr->score != TRI_SCORE_BIASED) return score;
    return score + v[REL][tri__bucket_t5((int32_t)-distance, attr->buckets, attr->reach) * extent(k, 'A') + h];
}

/* One query row of one head, into row `to`: scores without subtracting the maximum, as they are small here. */
static void double_attend(const kernel_call *k, double *const *v, int64_t h, int64_t begin, int64_t end, int64_t row,
                          int64_t to) {
    int64_t H = extent(k, 'H'), heads = extent(k, 'A'), d = H / heads, at = h * d;
    const double *query = v[QKV] + row * 3 * H + at, *keys = v[kernel_arg(k, "key")];
    double sum = 0;
    uint8_t present[KERNEL_LONGEST];
    double_present(k, h, row - begin, present);
    for (int64_t c = 0; c < d; c++) v[CTX][to * H + at + c] = 0;
    for (int64_t t = begin; t < end; t++) {
        if (k->at.blocks && !present[(t - begin) / k->at.pattern->block]) continue;
        if (k->attr.window && llabs(t - row) > k->attr.window) continue;
        const double *other = v[QKV] + t * 3 * H + H + at, *value = other + H;
        double score = double_score(k, v, h, query, other, row - t);
        int64_t feature = (k->attr.head0 + h) * k->attr.max_len + (int64_t)keys[2 * t + 1];
        double factor = mask_factor(k, (int64_t)keys[2 * row], (int64_t)keys[2 * row + 1], feature);
        sum += exp(score);
        for (int64_t c = 0; c < d; c++) v[CTX][to * H + at + c] += exp(score) * factor * value[c];
    }
    for (int64_t c = 0; c < d; c++) v[CTX][to * H + at + c] /= sum;
    v[LSE][to * heads + h] = log(sum);
}

void double_attend_all(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, CTX); i++) v[CTX][i] = 0; /* rows of no sequence stay 0 */
    for (int64_t i = 0; i < operand_count(k, LSE); i++) v[LSE][i] = 0;
    const double *seq = v[SEQ];
    for (int64_t s = 0; s < extent(k, 'N'); s++)
        for (int64_t row = (int64_t)seq[s]; row < (int64_t)seq[s + 1]; row++)
            for (int64_t h = 0; h < extent(k, 'A'); h++)
                double_attend(k, v, h, (int64_t)seq[s], (int64_t)seq[s + 1], row, row);
}

void double_attend_first(const kernel_call *k, double *const *v) {
    for (int64_t s = 0; s < extent(k, 'N'); s++)
        for (int64_t h = 0; h < extent(k, 'A'); h++)
            double_attend(k, v, h, (int64_t)v[SEQ][s], (int64_t)v[SEQ][s + 1], (int64_t)v[SEQ][s], s);
}

void double_mask(const kernel_call *k, double *bits) {
    int64_t heads = extent(k, 'A'), tiles = (k->attr.max_len + 63) / 64, first = 0;
    for (int64_t i = 0; i < operand_count(k, TRI_ARG(attention, bits)); i++) bits[i] = -1;
    for (int64_t s = 0; s < extent(k, 'N') && k->attr.p > 0; first += k->at.lengths[s++])
        for (int64_t query = 0; query < k->at.lengths[s]; query += 16)
            for (int64_t i = 0; i < heads * ((k->at.lengths[s] + 63) / 64) * 32; i++) {
                int64_t h = i / 32 % heads, tile = i / 32 / heads, w = i % 32;
                uint32_t word = 0;
                for (int64_t bit = 0; bit < 32; bit++) {
                    int64_t place = query + w % 16 / 2 + bit % 8 / 4 * 8;
                    int64_t other = tile * 64 + bit % 16 / 8 * 32 + w / 16 * 16 + w % 2 * 8 + bit % 4 * 2 + bit / 16;
                    int64_t feature = (k->attr.head0 + h) * k->attr.max_len + other;
                    if (!mask_drops(k, 100 + s, place, feature)) word |= (uint32_t)1 << bit;
                }
                bits[(((first / 16 + s + query / 16) * heads + h) * tiles + tile) * 32 + w] = (int32_t)word;
            }
}

void double_table(const kernel_call *k, double *const *v) {
    int64_t first = (extent(k, 'V') - extent(k, 'B')) / 2;
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][first * extent(k, 'H') + i];
}

/* Where token `place` of sequence s is: its run, and its row there. */
static int64_t double_row(const kernel_call *k, const double *seq, int64_t s, int64_t place, int64_t *run) {
    int64_t ring = extent(k, 'J'), first = (int64_t)seq[s], length = (int64_t)seq[s + 1] - first;
    *run = (first + place) / extent(k, 'T');
    if (!ring) return (first + place) % extent(k, 'T');
    *run = place * ring / ((length + ring - 1) / ring * ring);
    return first / ring + s + place % ((length + ring - 1) / ring);
}

static void double_first(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), run;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int64_t t = double_row(k, v[2], i / H, 0, &run);
        v[0][i] = run == k->attr.part ? v[1][t * H + i % H] : 0;
    }
}

static void double_mean(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), run;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int64_t length = (int64_t)(v[2][i / H + 1] - v[2][i / H]);
        v[0][i] = 0;
        for (int64_t place = 0; place < length; place++) {
            int64_t t = double_row(k, v[2], i / H, place, &run);
            if (run == k->attr.part) v[0][i] += v[1][t * H + i % H] / (double)length;
        }
    }
}

void double_pool(const kernel_call *k, double *const *v) { (k->attr.mean ? double_mean : double_first)(k, v); }

void double_kv_part(const kernel_call *k, double *const *v) {
    int64_t D = extent(k, 'D'), G = extent(k, 'G');
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i / G * D + (D - G) + i % G];
}

/* One query of head h, `query` [d], at row `asks` of all runs: the context [d], and its lse. keys, values: rows of run
 * attr.part, `ld` apart. */
static double double_attend_run(const kernel_call *k, const double *seq, int64_t s, int64_t h, const double *query,
                                int64_t asks, const double *keys, const double *values, int64_t ld, const double *key,
                                double *out) {
    int64_t d = extent(k, 'H') / extent(k, 'A'), length = (int64_t)(seq[s + 1] - seq[s]), run;
    double sum = 0;
    uint8_t present[KERNEL_LONGEST];
    double_present(k, h, (int64_t)key[2 * asks + 1], present);
    for (int64_t c = 0; c < d; c++) out[c] = 0;
    for (int64_t place = 0; place < length; place++) {
        int64_t t = double_row(k, seq, s, place, &run);
        if (run != k->attr.part || (k->at.blocks && !present[place / k->at.pattern->block])) continue;
        if (k->attr.window && llabs(place - (int64_t)key[2 * asks + 1]) > k->attr.window) continue;
        double score = 0;
        for (int64_t c = 0; c < d; c++) score += query[c] * keys[t * ld + c] / sqrt((double)d);
        double factor = mask_factor(k, (int64_t)key[2 * asks], (int64_t)key[2 * asks + 1],
                                    (k->attr.head0 + h) * k->attr.max_len + place);
        sum += exp(score);
        for (int64_t c = 0; c < d; c++) out[c] += exp(score) * factor * values[t * ld + c];
    }
    for (int64_t c = 0; c < d && sum > 0; c++) out[c] /= sum;
    return sum > 0 ? log(sum) : -1e30;
}

static void double_all_part(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), A = extent(k, 'A'), T = extent(k, 'T'), d = H / A, run;
    const double *seq = v[PART_SEQ], *kv = v[PART_KV];
    for (int64_t i = 0; i < T * H; i++) v[0][i] = 0;
    for (int64_t i = 0; i < T * A; i++) v[PART_LSE][i] = 0;
    for (int64_t s = 0; s < extent(k, 'N'); s++)
        for (int64_t i = 0; i < (int64_t)(seq[s + 1] - seq[s]) * A; i++) {
            int64_t h = i % A, t = double_row(k, seq, s, i / A, &run);
            if (run != k->attr.run) continue;
            v[PART_LSE][t * A + h] =
                double_attend_run(k, seq, s, h, v[PART_QKV] + t * 3 * H + h * d, run * T + t, kv + h * d,
                                  kv + H + h * d, 2 * H, v[kernel_arg(k, "key")], v[0] + t * H + h * d);
        }
}

static void double_first_part(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), A = extent(k, 'A'), d = H / A, G = extent(k, 'G'), run;
    const double *seq = v[PART_SEQ], *qkv = v[PART_QKV];
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = 0;
    for (int64_t i = 0; i < extent(k, 'N') * A; i++) {
        int64_t s = i / A, h = i % A, t = double_row(k, seq, s, 0, &run);
        double *y = v[0] + s * G + k->attr.part * (H + A);
        y[H + h] = double_attend_run(k, seq, s, h, v[PART_Q] + s * 3 * H + h * d, t, qkv + H + h * d,
                                     qkv + 2 * H + h * d, 3 * H, v[kernel_arg(k, "key")], y + h * d);
    }
}

void double_attention_part(const kernel_call *k, double *const *v) {
    (k->attr.first ? double_first_part : double_all_part)(k, v);
}

void double_attention_join(const kernel_call *k, double *const *v) {
    int64_t A = extent(k, 'A'), d = extent(k, 'H') / A;
    for (int64_t i = 0; i < operand_count(k, 1); i++) {
        double w = exp(v[1][i]), more = exp(v[3][i]);
        for (int64_t c = i * d; c < (i + 1) * d; c++) v[0][c] = (w * v[0][c] + more * v[2][c]) / (w + more);
        v[1][i] = log(w + more);
    }
}

void double_attention_first_join(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), A = extent(k, 'A'), d = H / A, each = H + A;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int64_t s = i / H, h = i % H / d;
        const double *y = v[2] + s * extent(k, 'G');
        double sum = 0, total = 0;
        for (int64_t r = 0; r < extent(k, 'J'); r++)
            sum += exp(y[r * each + H + h]), total += exp(y[r * each + H + h]) * y[r * each + i % H];
        v[0][i] = total / sum, v[1][s * A + h] = log(sum);
    }
}

/* Element i of the narrow matrix, in the wide one. */
static int64_t double_wide_at(const kernel_call *k, int64_t i) {
    int64_t G = extent(k, 'G'), each = G / k->attr.groups, row = i / G, group = i % G / each;
    int64_t rank = row / extent(k, 'R'), t = row % extent(k, 'R');
    return t * extent(k, 'D') + (group * k->attr.members + rank) * each + i % each;
}

void double_heads(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++)
        *(k->attr.join ? &v[0][double_wide_at(k, i)] : &v[0][i]) = v[1][k->attr.join ? i : double_wide_at(k, i)];
}

void double_heads_own(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), C = extent(k, 'C');
    for (int64_t i = 0; i < operand_count(k, 0); i++)
        v[0][i] = i % H / C == k->attr.part ? v[1][i / H * C + i % H % C] : 0;
}
