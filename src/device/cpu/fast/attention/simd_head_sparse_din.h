/* simd_head_sparse_din.h - the gradient of attention over present blocks, HR keys at a time, as simd_head_din.h: a
 * panel of keys walks the query blocks that attend to any of its keys. For dq the score gradients of a short stretch of
 * keys are kept, transposed, for the queries that attend to any of them. */
#pragma once

#include "device/cpu/fast/attention/simd_head_sparse.h"
#include "device/cpu/fast/attention/simd_head_din.h"

enum {
    SHORT = (64 / HR > 0 ? 64 / HR : 1) * HR, /* keys of a stretch: whole panels, about a block */
    SHORT_DECISIONS = SHORT + 16 + 8 * VEC
};

/* Parts of the scratch space beyond those of simd_head_din.h, of which stretches are shorter. */
enum { PANEL_LIST = PARTS, STRETCH_LIST, SPARSE_PARTS };

static void sparse_sizes(int64_t len, int64_t d, int64_t size[SPARSE_PARTS]) {
    din_sizes(len, d, size);
    size[K_TRANSPOSED] = tri__round_up(panels(d, MR, SHORT), 16);
    size[SLOPE_TRANSPOSED] = tri__round_up((len + HR - 1) / HR * SHORT * HR + SLACK, 16);
    size[DECISION] = tri__round_up((len * SHORT_DECISIONS + 1) / 2, 16);
    size[PANEL_LIST] = size[STRETCH_LIST] = tri__round_up(list_size(len), 16);
}

SIMD int64_t simd_head_sparse_din_work(int64_t len, int64_t d) {
    int64_t size[SPARSE_PARTS], total = 0;
    sparse_sizes(len, d, size);
    for (int i = 0; i < SPARSE_PARTS; i++) total += size[i];
    return total;
}

/* Turns scores, in powers of 2, into weights after dropout, and dp into score gradients; 0 where a query does not
 * attend to a key. */
static void sparse_slopes(const tri_head *h, float *const w[SPARSE_PARTS], const panel_list *list,
                          const uint16_t *decision) {
    int64_t row = 0, depth = tri__round_up(list->tokens, TRI_KERNEL_STEP);
    uint32_t threshold = h->drop.threshold;
    for (int64_t k = 0; k < list->count; k++) {
        int64_t i = list->at[k].begin, end = i + list->at[k].n;
        vi exists[HV], lanes[HV];
        lanes_of(h, list, list->at[k].own, 0, exists);
        while (i < end) {
            if (i + 2 <= end && is_near(h, list, i) && is_near(h, list, i + 1)) {
                slope_rows(h, w[WEIGHT] + row * HR, w[SLOPE] + row * HR, w[MEAN], i, 2, exists, threshold, decision,
                           SHORT_DECISIONS);
                i += 2, row += 2;
                continue;
            }
            EACH(j, HV) lanes[j] = exists[j];
            if (!is_near(h, list, i)) near_lanes(list->p0 - i, list->n, h->window, lanes);
            slope_rows(h, w[WEIGHT] + row * HR, w[SLOPE] + row * HR, w[MEAN], i, 1, lanes, threshold, decision,
                       SHORT_DECISIONS);
            i++, row++;
        }
    }
    memset(w[WEIGHT] + row * HR, 0, (size_t)(depth - row) * HR * sizeof(float));
    memset(w[SLOPE] + row * HR, 0, (size_t)(depth - row) * HR * sizeof(float));
}

/* One panel of keys from k0: its dk and dv, and its part of the stretch's score gradients. */
static void sparse_panel_din(const tri_head *h, float *const w[SPARSE_PARTS], int64_t k0, int64_t in_stretch,
                             const uint16_t *decision, const float *scale, const float *kept_scale) {
    int64_t n = h->len - k0 < HR ? h->len - k0 : HR, depth = tri__round_up(h->d, TRI_KERNEL_STEP);
    panel_list list = {.at = (listed *)(void *)w[PANEL_LIST]};
    list_panel(h, h->blocks->queries, k0, n, &list);
    tri__pack_rows(w[KEY], HR, h->k + k0 * h->ld, h->ld, n, h->d, depth, scale[0] * log2_e);
    tri__pack_rows(w[VALUE], HR, h->v + k0 * h->ld, h->ld, n, h->d, depth, kept_scale[0]);
    for (block_run run = {0}; next_run(&list, &run);) {
        multiply(w[Q] + run.begin * depth, run.n, w[KEY], h->d, w[WEIGHT] + run.row * HR, 0);
        multiply(w[DCTX] + run.begin * depth, run.n, w[VALUE], h->d, w[SLOPE] + run.row * HR, 0);
    }
    sparse_slopes(h, w, &list, decision);
    if (!list.count) memset(w[OUT], 0, (size_t)(tri__round_up(h->d, MR) * HR) * sizeof(float));
    for (block_run run = {0}; next_run(&list, &run);)
        multiply_run(h, w[DCTX_TRANSPOSED], h->d, &run, w[WEIGHT], w[OUT]);
    turn_back(w[OUT], n, h->d, kept_scale, h->dv + k0 * h->ld, h->ld, h->acc);
    for (block_run run = {0}; next_run(&list, &run);) {
        multiply_run(h, w[Q_TRANSPOSED], h->d, &run, w[SLOPE], w[OUT]);
        turn_slopes(run.begin, run.n, w[SLOPE] + run.row * HR, w[SLOPE_TRANSPOSED], in_stretch, SHORT);
    }
    turn_back(w[OUT], n, h->d, scale, h->dk + k0 * h->ld, h->ld, h->acc);
}

/* What a stretch of keys adds to dq, of the queries that attend to any of them. Groups of HR queries that two runs
 * share are multiplied once. */
static void sparse_dq(const tri_head *h, float *const w[SPARSE_PARTS], const panel_list *list) {
    int64_t columns = tri__round_up(h->d, MR), next = 0;
    pack_features(w[K_TRANSPOSED], h->k + list->p0 * h->ld, h->ld, list->n, h->d);
    for (block_run run = {0}; next_run(list, &run);)
        for (next = next > run.begin / HR ? next : run.begin / HR; next * HR < run.begin + run.n; next++)
            multiply(w[K_TRANSPOSED], h->d, w[SLOPE_TRANSPOSED] + next * SHORT * HR, list->n,
                     w[DQ] + next * columns * HR, 1);
}

/* Decisions of the queries that attend to a stretch of keys, and zeros where its score gradients go: of the queries of
 * a group of HR not all attend. Returns the first key's decision of query 0. */
static const uint16_t *open_stretch(const tri_head *h, const philox_keys *rounds, float *const w[SPARSE_PARTS],
                                    const panel_list *list) {
    int64_t first = h->feature0 + list->p0, depth = tri__round_up(list->n, TRI_KERNEL_STEP);
    uint16_t *decision = (uint16_t *)(void *)w[DECISION];
    for (block_run run = {0}; next_run(list, &run);) {
        for (int64_t i = run.begin; i < run.begin + run.n && h->drop.threshold; i++)
            decide(&h->drop, rounds, h->drop.key + 2 * i, (uint32_t)(first / 8), (first % 8 + list->n + 7) / 8,
                   decision + i * SHORT_DECISIONS);
        for (int64_t group = run.begin / HR; group * HR < run.begin + run.n; group++)
            memset(w[SLOPE_TRANSPOSED] + group * SHORT * HR, 0, (size_t)(depth * HR) * sizeof(float));
    }
    return decision + first % 8;
}

SIMD void simd_head_sparse_din(const tri_head *h) {
    int64_t len = h->len, d = h->d, size[SPARSE_PARTS], columns = tri__round_up(d, MR), groups = (len + HR - 1) / HR;
    float *w[SPARSE_PARTS], scale[HR], kept_scale[HR];
    sparse_sizes(len, d, size);
    w[0] = h->work;
    for (int i = 1; i < SPARSE_PARTS; i++) w[i] = w[i - 1] + size[i - 1];
    philox_keys rounds = keys_of(&h->drop);
    for (int j = 0; j < HR; j++) scale[j] = 1 / sqrtf((float)d), kept_scale[j] = h->drop.scale;
    pack_tokens(w[Q], MR, h->q, h->ld, len, d);
    pack_tokens(w[DCTX], MR, h->dctx, h->ld_ctx, len, d);
    pack_features(w[Q_TRANSPOSED], h->q, h->ld, len, d);
    pack_features(w[DCTX_TRANSPOSED], h->dctx, h->ld_ctx, len, d);
    memset(w[DQ], 0, (size_t)(groups * columns * HR) * sizeof(float));
    for (int64_t i = 0; i < len; i++) w[MEAN][i] = dot(h->dctx + i * h->ld_ctx, h->ctx + i * h->ld_ctx, d);
    for (int64_t k0 = 0; k0 < len; k0 += SHORT) {
        panel_list list = {.at = (listed *)(void *)w[STRETCH_LIST]};
        list_panel(h, h->blocks->queries, k0, len - k0 < SHORT ? len - k0 : SHORT, &list);
        const uint16_t *decision = open_stretch(h, &rounds, w, &list);
        for (int64_t j = 0; j < list.n; j += HR)
            sparse_panel_din(h, w, k0 + j, j, decision + j, scale, kept_scale);
        sparse_dq(h, w, &list);
    }
    for (int64_t i = 0; i < len; i += HR)
        turn_back(w[DQ] + i * columns, len - i < HR ? len - i : HR, d, scale, h->dq + i * h->ld, h->ld, h->acc);
}
