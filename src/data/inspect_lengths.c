/* inspect_lengths.c - how long texts are in tokens, and what padding them would waste. Trident packs tokens and pads nothing;
 * the waste says what that saves, and what other programs would pay. */
#include "data/inspect_parts.h"

#include <stdlib.h>

enum { ROWS_MAX = 100 * 1000, TOKENS_MAX = 1 << 16, BLOCK = 1 << 14 }; /* measured, at most; of one text; rows at a time */

static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static int measure(const tri_tokenizer *tokenizer, tri_field_text field, int32_t *ids) {
    int64_t pieces;
    if (tokenizer) return tri__tokenizer_encode(tokenizer, field.text, field.length, TOKENS_MAX, ids);
    tri__inspect_words(field, &pieces);
    return pieces + 2 < TOKENS_MAX ? (int)pieces + 2 : TOKENS_MAX;
}

/* Fills length [begin, end) with those of rows begin * step, (begin + 1) * step, ... Returns 0 when out of memory. */
static int measure_rows(const tri_inspector *in, int column, const tri_tokenizer *tokenizer, int64_t step, int64_t begin, int64_t end, int *length) {
    int failed = 0, threads = in->spec->threads > 0 ? in->spec->threads : 1;
    (void)threads; /* of a build without OpenMP */
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        int32_t *ids = malloc(TOKENS_MAX * sizeof *ids);
        failed |= ids == NULL;
#pragma omp for schedule(dynamic, 256)
        for (int64_t i = begin; i < end; i++) {
            length[i] = ids ? measure(tokenizer, tri__inspect_field(in, in->out->base, i * step, column), ids) : 0;
            failed |= length[i] < 0;
        }
        free(ids);
    }
    tri__table_done(in->table[in->out->base], begin * step, (end - begin - 1) * step + 1);
    return !failed;
}

/* length [n] in the rows' order; sorted when this returns. */
static void summarise(int *length, int64_t n, tri_inspect_lengths *out) {
    double tokens = 0, batch_slots = 0, long_slots = 0, kept = 0;
    for (int64_t begin = 0; begin < n; begin += TRI_INSPECT_BATCH) {
        int64_t end = begin + TRI_INSPECT_BATCH < n ? begin + TRI_INSPECT_BATCH : n;
        int longest = 0;
        for (int64_t i = begin; i < end; i++) {
            tokens += length[i];
            kept += length[i] < TRI_INSPECT_LONG ? length[i] : TRI_INSPECT_LONG;
            out->n_long += length[i] > TRI_INSPECT_LONG;
            longest = length[i] > longest ? length[i] : longest;
        }
        batch_slots += (double)(end - begin) * longest;
        long_slots += (double)(end - begin) * TRI_INSPECT_LONG;
    }
    qsort(length, (size_t)n, sizeof *length, by_size);
    out->rows = n;
    out->median = length[(n - 1) / 2];
    out->p95 = length[(n - 1) * 95 / 100];
    out->max = length[n - 1];
    out->waste_batch = 1 - tokens / batch_slots;
    out->waste_long = 1 - kept / long_slots;
}

tri_status tri__inspect_lengths(tri_inspector *in) {
    tri_inspection *out = in->out;
    int64_t rows = out->split[out->base].rows, step = (rows + ROWS_MAX - 1) / ROWS_MAX;
    if (rows == 0) return TRI_OK;
    int64_t n = (rows + step - 1) / step;
    int *length = malloc((size_t)n * sizeof *length);
    if (!length) return tri__fail(TRI_RESOURCE, "%s: out of memory", out->split[out->base].path);
    int good = 1;
    for (int c = 0; c < out->n_columns && good; c++) {
        tri_inspect_column *column = &out->column[c];
        if (column->kind != TRI_INSPECT_TEXT && c != out->primary && c != out->secondary) continue;
        const tri_tokenizer *tokenizer = in->spec->tokenizer[c == out->secondary && in->spec->tokenizer[1] ? 1 : 0];
        column->lengths.estimated = tokenizer == NULL;
        for (int64_t begin = 0; begin < n && good; begin += BLOCK)
            good = measure_rows(in, c, tokenizer, step, begin, begin + BLOCK < n ? begin + BLOCK : n, length);
        if (good) summarise(length, n, &column->lengths);
    }
    free(length);
    return good ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", out->split[out->base].path);
}
