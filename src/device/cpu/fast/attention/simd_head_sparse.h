/* simd_head_sparse.h - attention of one head over present blocks alone. Panels of HR queries are those of simd_head.h
 * and need not end where blocks do: a panel walks the key blocks that any of its queries attends to, and lanes that do
 * not attend to one are masked. So that no lane is wasted, whatever HR and the block are. */
#pragma once

#include "device/cpu/fast/attention/simd_head.h"

/* Tokens of a block that some lanes of a panel attend to: bit k: those of the panel's k-th own block. They begin at a
 * multiple of 16, and are one, but for the last. */
typedef struct listed {
    int32_t begin, n;
    uint32_t own;
} listed;

/* The listed blocks of a panel of n tokens from p0. */
typedef struct panel_list {
    listed *at;
    int64_t count, tokens;     /* tokens: of all listed */
    int64_t p0, n;
    uint32_t all;              /* bits of the panel's own blocks */
} panel_list;

/* Adjacent listed blocks: tokens [begin, begin + n) of the sequence, rows [row, row + n) of the panel's scores. */
typedef struct block_run {
    int64_t begin, n, row, next; /* next: the listed block after it */
} block_run;

enum { MOST_OWN = 8 }; /* blocks that a panel or a stretch of keys touches */

/* Adds the tokens of a block that are near enough: a window leaves the others out, as far as tiles allow. */
static void list_block(const tri_head *h, int32_t block, uint32_t own, panel_list *out) {
    int64_t begin = block * h->blocks->block, end = begin + h->blocks->block;
    if (h->window) {
        int64_t first = (out->p0 - h->window) / 16 * 16, last = tri__round_up(out->p0 + out->n + h->window, 16);
        if (begin < first) begin = first;
        if (end > last) end = last;
    }
    if (end > h->len) end = h->len;
    if (begin >= end) return;
    out->at[out->count++] = (listed){(int32_t)begin, (int32_t)(end - begin), own};
    out->tokens += end - begin;
}

/* Merges the lists of the panel's own blocks. */
static void list_panel(const tri_head *h, tri_block_lists lists, int64_t p0, int64_t n, panel_list *out) {
    int64_t block = h->blocks->block, blocks = (h->len + block - 1) / block, first = p0 / block;
    int32_t at[MOST_OWN], end[MOST_OWN];
    int own = (int)((p0 + n - 1) / block - first + 1);
    out->p0 = p0, out->n = n, out->count = out->tokens = 0, out->all = (1u << own) - 1;
    for (int k = 0; k < own; k++) at[k] = lists.at[first + k], end[k] = tri__blocks_end(lists, first + k, blocks);
    for (;;) {
        int32_t next = INT32_MAX;
        uint32_t bits = 0;
        for (int k = 0; k < own; k++)
            if (at[k] < end[k] && lists.of[at[k]] < next) next = lists.of[at[k]];
        if (next == INT32_MAX) return;
        for (int k = 0; k < own; k++)
            if (at[k] < end[k] && lists.of[at[k]] == next) bits |= 1u << k, at[k]++;
        list_block(h, next, bits, out);
    }
}

/* The run that begins at listed block `run->next`; 0: there is none. Zeroed, *run gives the first. */
INLINE int next_run(const panel_list *list, block_run *run) {
    int64_t i = run->next;
    if (i >= list->count) return 0;
    run->row += run->n;
    run->begin = list->at[i].begin;
    for (i++; i < list->count && list->at[i].begin == list->at[i - 1].begin + list->at[i - 1].n; i++) continue;
    run->n = list->at[i - 1].begin + list->at[i - 1].n - run->begin;
    run->next = i;
    return 1;
}

/* Lanes of the panel whose own block is among `own`: all ones; tokens that do not exist have `beyond`. */
INLINE void lanes_of(const tri_head *h, const panel_list *list, uint32_t own, int32_t beyond, vi lanes[HV]) {
    int32_t lane[HR];
    int64_t block = h->blocks->block, first = list->p0 / block;
    for (int64_t j = 0; j < HR; j++)
        lane[j] = j >= list->n ? beyond : own >> ((list->p0 + j) / block - first) & 1 ? -1 : 0;
    EACH(j, HV) lanes[j] = (vi)*(const vu_any *)(lane + j * VEC);
}

/* out[rows,HR] = (add ? out : 0) + a b over `run`: a has panels of MR rows over all tokens, [rows / MR][len][MR]. */
INLINE void multiply_run(const tri_head *h, const float *a, int64_t rows, const block_run *run, const float *b,
                         float *out) {
    int64_t stride = tri__round_up(h->len, TRI_KERNEL_STEP), depth = tri__round_up(run->n, TRI_KERNEL_STEP);
    for (int64_t i = 0; i < rows; i += MR) {
        float *c = out + i * HR;
        product_head(depth, a + i * stride + run->begin * MR, b + run->row * HR, run->row ? c : NULL, c);
    }
}

/* Whether the token is in the window of all tokens of the panel. */
INLINE int is_near(const tri_head *h, const panel_list *list, int64_t token) {
    return !h->window || (token >= list->p0 + list->n - 1 - h->window && token <= list->p0 + h->window);
}

/* Scores of keys that a query does not attend to become -inf. */
static void mask_scores(const tri_head *h, const panel_list *list, float *s) {
    for (int64_t i = 0, row = 0; i < list->count; row += list->at[i++].n) {
        vi block[HV], lanes[HV];
        if (list->at[i].own == list->all && !h->window) continue;
        lanes_of(h, list, list->at[i].own, -1, block);
        for (int64_t r = 0; r < list->at[i].n; r++) {
            int64_t token = list->at[i].begin + r;
            if (is_near(h, list, token) && list->at[i].own == list->all) continue;
            EACH(j, HV) lanes[j] = block[j];
            if (!is_near(h, list, token)) near_lanes(list->p0 - token, list->n, h->window, lanes);
            mask_row(s + (row + r) * HR, lanes);
        }
    }
}

static void soften_sparse(const tri_head *h, const panel_list *list, float *s, float factor[HR]) {
    vf max[HV], sum[HV] = {{0}};
    largest_scores(s, list->tokens, max);
    if (h->drop.threshold)
        for (block_run run = {0}; next_run(list, &run);)
            soften_dropped(&h->drop, s + run.row * HR, 1, h->feature0 + run.begin, run.n, list->p0, list->n, max,
                           sum);
    else soften_all(s, 1, list->tokens, max, sum);
    end_softmax(h, list->p0, list->n, max, sum, factor);
}

/* Floats for the listed blocks of a panel of a sequence: blocks have at least 16 tokens. */
INLINE int64_t list_size(int64_t len) { return (int64_t)(sizeof(listed) / sizeof(float)) * (len / 16 + 1) + 16; }

/* Parts of the scratch space: keys, values, a panel of queries, scores, the result of a panel, listed blocks. */
SIMD int64_t simd_head_sparse_work(int64_t len, int64_t d) { return simd_head_work(len, d) + list_size(len); }

SIMD void simd_head_sparse(const tri_head *h) {
    int64_t len = h->len, d = h->d, depth = tri__round_up(d, TRI_KERNEL_STEP);
    float *k = h->work, *v = k + panels(len, MR, d), *q = v + panels(d, MR, len), *s = q + panels(HR, HR, d);
    float *out = s + panels(HR, HR, tri__round_up(len, MR)), factor[HR] = {0};
    panel_list list = {.at = (listed *)(void *)(out + panels(HR, HR, tri__round_up(d, MR)))};
    float scale = log2_e / sqrtf((float)d);
    pack_tokens(k, MR, h->k, h->ld, len, d);
    pack_features(v, h->v, h->ld, len, d);
    for (int64_t q0 = 0; q0 < len; q0 += HR) {
        int64_t n = len - q0 < HR ? len - q0 : HR;
        list_panel(h, h->blocks->keys, q0, n, &list);
        tri__pack_rows(q, HR, h->q + q0 * h->ld, h->ld, n, d, depth, scale);
        for (block_run run = {0}; next_run(&list, &run);)
            multiply(k + run.begin * depth, run.n, q, d, s + run.row * HR, 0);
        mask_scores(h, &list, s);
        soften_sparse(h, &list, s, factor);
        memset(s + list.tokens * HR, 0,
               (size_t)(tri__round_up(list.tokens, TRI_KERNEL_STEP) - list.tokens) * HR * sizeof *s);
        for (block_run run = {0}; next_run(&list, &run);) multiply_run(h, v, d, &run, s, out);
        turn_back(out, n, d, factor, h->ctx + q0 * h->ld_ctx, h->ld_ctx, 0);
    }
}
