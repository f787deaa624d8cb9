/* embed.c - embeddings and their gradients. A gradient table is split by columns: each thread adds all tokens, in
 * order, to its columns. */
#include "device/cpu/fast/runtime/call.h"

enum { COLUMNS = 64, ROWS = 16, CLEAR = 1 << 16, ENOUGH = 1 << 14 }; /* of a work item; floats; elements */

/* The row of a word in this table; NULL: not in it. */
static float *word_at(const tri_call *call, int table, int32_t id, int64_t h) {
    int64_t row = (int64_t)id - call->attr->row0;
    return row >= 0 && row < call->t[table].rows ? f32(call, table) + row * h : NULL;
}

/* y[h] = sum of the tables' rows that are present, in this order */
static void add_rows(int64_t h, const float *word, const float *position, const float *type, float *restrict y) {
    if (word && position && type) {
        for (int64_t j = 0; j < h; j++) y[j] = word[j] + position[j] + type[j];
        return;
    }
    const float *const rows[] = {word, position, type};
    memset(y, 0, (size_t)h * sizeof *y);
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; rows[i] && j < h; j++) y[j] += rows[i][j];
}

static void embed(const tri_call *call) {
    OPERANDS(embed);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos));            /* [T] */
    const float *positions = f32(call, ARG(position)), *type = f32(call, ARG(type)); /* [P,H], [Y,H] or NULL */
    int64_t rows = call->t[ARG(y)].rows, h = call->t[ARG(y)].cols;
#pragma omp parallel for schedule(static, ROWS) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t++)
        add_rows(h, word_at(call, ARG(word), ids[t], h), positions ? positions + pos[t] * h : NULL, type,
                 f32(call, ARG(y)) + t * h);
}

static void clear(const tri_call *call, int k) {
    if (adds(call, k)) return;
    int64_t n = elements(call, k);
    float *to = f32(call, k);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n; i += CLEAR) memset(to + i, 0, (size_t)(n - i < CLEAR ? n - i : CLEAR) * 4);
}

/* Columns j to j + n - 1 of all tables; padding rows receive no gradient. */
static void scatter(const tri_call *call, int64_t j, int64_t n) {
    OPERANDS(embed_dw);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos));
    int64_t rows = call->t[ARG(dy)].rows, h = call->t[ARG(dy)].cols;
    float *restrict dtype = f32(call, ARG(dtype)), *dpositions = f32(call, ARG(dposition)); /* or NULL */
    for (int64_t t = 0; t < rows; t++) {
        const float *restrict dy = f32(call, ARG(dy)) + t * h + j;
        float *restrict dword = ids[t] + 1 == call->attr->pad ? NULL : word_at(call, ARG(dword), ids[t], h);
        int positioned = dpositions && pos[t] + 1 != call->attr->pad_position;
        float *restrict dposition = positioned ? dpositions + pos[t] * h + j : NULL;
        for (int64_t i = 0; dword && i < n; i++) dword[j + i] += dy[i];
        for (int64_t i = 0; dposition && i < n; i++) dposition[i] += dy[i];
        for (int64_t i = 0; dtype && i < n; i++) dtype[j + i] += dy[i];
    }
}

static void embed_dw(const tri_call *call) {
    OPERANDS(embed_dw);
    int64_t h = call->t[ARG(dy)].cols;
#pragma omp parallel num_threads(threads_for(call, elements(call, ARG(dy)) + elements(call, ARG(dword)), ENOUGH))
    {
        for (int k = ARG(dword); k <= ARG(dtype); k++)
            if (call->t[k].data) clear(call, k);
#pragma omp for schedule(static)
        for (int64_t j = 0; j < h; j += COLUMNS) scatter(call, j, h - j < COLUMNS ? h - j : COLUMNS);
    }
}

TRI_FAST_ROWS(embed) = TRI_KERNEL_ROWS(TRI_KERNEL(embed), TRI_KERNEL(embed_dw));
