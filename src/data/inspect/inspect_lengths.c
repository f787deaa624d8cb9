/* inspect_lengths.c - lengths of texts in tokens, and the share of padding if they were padded. Trident packs tokens
 * without padding; the figure shows what that saves. */
#include "data/dataset/field_values.h"
#include "data/inspect/inspect_parts.h"

/* Most rows measured; most tokens of a text; rows at a time. */
enum { ROWS_MAX = 100 * 1000, TOKENS_MAX = 1 << 16, BLOCK = 1 << 14 };

static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static int measure(const tri_tokenizer *tokenizer, tri_field_text field, int32_t *ids) {
    int64_t pieces;
    if (tokenizer) return tri__tokenizer_encode(tokenizer, field.text, field.length, TOKENS_MAX, ids);
    tri__inspect_words(field, &pieces);
    return pieces + 2 < TOKENS_MAX ? (int)pieces + 2 : TOKENS_MAX;
}

/* A text: one column, or several that are joined. */
typedef struct source {
    const int *columns; /* [n] of base */
    int n;
    const tri_tokenizer *tokenizer; /* NULL: estimated */
} source;

/* Fills length [begin, end) with those of rows begin * step, (begin + 1) * step, ... Returns 0 if out of memory. */
static int measure_rows(const tri_inspector *in, const source *of, int64_t step, int64_t begin, int64_t end,
                        int *length) {
    const tri_table *table = in->table[in->out->base];
    int failed = 0, threads = in->spec->threads > 0 ? in->spec->threads : 1;
    (void)threads; /* of a build without OpenMP */
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        int32_t *ids = malloc(TOKENS_MAX * sizeof *ids);
        tri_joined joined = {0};
        failed |= ids == NULL;
#pragma omp for schedule(dynamic, 256)
        for (int64_t i = begin; i < end; i++) {
            tri_field_text field = tri__fields_join(table, i * step, of->columns, of->n, &joined);
            length[i] = ids && field.text ? measure(of->tokenizer, tri__field_trim(field), ids) : -1;
            failed |= length[i] < 0;
        }
        TRI_FREE(joined.at, ids);
    }
    tri__table_done(table, begin * step, (end - begin - 1) * step + 1);
    return !failed;
}

/* length [n] in row order; sorted on return. */
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
    out->rows = n, out->max = length[n - 1];
    out->median = length[(n - 1) / 2], out->p95 = length[(n - 1) * 95 / 100];
    out->waste_batch = 1 - tokens / batch_slots, out->waste_long = 1 - kept / long_slots;
}

static int is_further(const tri_inspection *out, int column) {
    for (int i = 0; i < out->n_further; i++)
        if (out->further[i] == column) return 1;
    return 0;
}

tri_status tri__inspect_lengths(tri_inspector *in) {
    tri_inspection *out = in->out;
    int64_t rows = out->split[out->base].rows, step = (rows + ROWS_MAX - 1) / ROWS_MAX;
    if (rows == 0) return TRI_OK;
    int64_t n = (rows + step - 1) / step;
    TRI_OWNED(tri__free_at) int *length = malloc((size_t)n * sizeof *length);
    TRI_OWNED(tri__free_at) int *columns = malloc((size_t)(out->n_further + 1) * sizeof *columns);
    if (!length || !columns) return tri__inspect_no_memory(in);
    if (out->n_further) memcpy(columns + 1, out->further, (size_t)out->n_further * sizeof *columns);
    for (int c = 0; c < out->n_columns; c++) {
        tri_inspect_column *column = &out->column[c];
        int second = c == out->secondary;
        int is_text = column->kind == TRI_INSPECT_TEXT || c == out->primary || column->role == TRI_INSPECT_FURTHER;
        if (!(is_text || second) || is_further(out, c)) continue;
        columns[0] = c;
        source of = {columns, second ? 1 + out->n_further : 1,
                     in->spec->tokenizer[second && in->spec->tokenizer[1] ? 1 : 0]};
        column->lengths.estimated = of.tokenizer == NULL;
        for (int64_t begin = 0; begin < n; begin += BLOCK)
            if (!measure_rows(in, &of, step, begin, begin + BLOCK < n ? begin + BLOCK : n, length))
                return tri__inspect_no_memory(in);
        summarise(length, n, &column->lengths);
    }
    return TRI_OK;
}
