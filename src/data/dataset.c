/* dataset.c - a table in memory as ids, numbers and labels. Rows are tokenised in blocks of a fixed size, each on its own,
 * and put together in order, so the result does not depend on the number of threads. */
#include "data/dataset.h"

#include "data/columns.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* rows */

/* The ids of one block of rows, one after the other. */
typedef struct block {
    int32_t *ids;     /* [used] */
    int64_t used, room;
    int failed;       /* out of memory */
} block;

static void tokenise_block(const tri_table *table, int column, const tri_tokenizer *tokenizer, int max_len, int64_t begin,
                           int64_t end, block *out, int64_t *lengths) {
    for (int64_t row = begin; row < end; row++) {
        if (out->room - out->used < max_len) {
            int64_t room = (out->room + max_len) * 2;
            int32_t *grown = realloc(out->ids, (size_t)room * sizeof *grown);
            if (!grown) {
                out->failed = 1;
                return;
            }
            out->ids = grown, out->room = room;
        }
        tri_field_text text = tri__table_field(table, row, column);
        lengths[row] = tri__tokenizer_encode(tokenizer, text.text, text.length, max_len, out->ids + out->used);
        out->used += lengths[row];
    }
}

/* start[row + 1] holds the row's length on the way in, then becomes an offset. */
static tri_status join_blocks(const tri_table *table, block *blocks, int64_t count, int64_t rows, tri_text_column *out) {
    int64_t total = 0;
    for (int64_t b = 0; b < count; b++) {
        if (blocks[b].failed) return tri__fail(TRI_RESOURCE, "%s: out of memory while tokenising", tri__table_path(table));
        total += blocks[b].used;
    }
    out->ids = malloc((size_t)(total ? total : 1) * sizeof *out->ids);
    if (!out->ids) return tri__fail(TRI_RESOURCE, "%s: out of memory for %lld tokens", tri__table_path(table), (long long)total);
    int32_t *to = out->ids;
    for (int64_t b = 0; b < count; b++) {
        if (blocks[b].used) memcpy(to, blocks[b].ids, (size_t)blocks[b].used * sizeof *to);
        to += blocks[b].used;
    }
    out->start[0] = 0;
    for (int64_t row = 0; row < rows; row++) out->start[row + 1] += out->start[row];
    return TRI_OK;
}

static tri_status tokenise(const tri_table *table, const char *name, const tri_tokenizer *tokenizer, int max_len, int threads,
                           tri_text_column *out) {
    int column;
    TRI_TRY(tri__table_find(table, name, &column));
    int64_t rows = tri__table_rows(table), count = (rows + BLOCK - 1) / BLOCK;
    out->start = calloc((size_t)rows + 1, sizeof *out->start);
    block *blocks = calloc((size_t)count + 1, sizeof *blocks);
    tri_status status = TRI_OK;
    if (!out->start || !blocks) {
        status = tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
        goto done;
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t b = 0; b < count; b++) {
        int64_t begin = b * BLOCK, end = begin + BLOCK < rows ? begin + BLOCK : rows;
        tokenise_block(table, column, tokenizer, max_len, begin, end, &blocks[b], out->start + 1);
    }
    status = join_blocks(table, blocks, count, rows, out);
done:
    for (int64_t b = 0; blocks && b < count; b++) free(blocks[b].ids);
    free(blocks);
    return status;
}

static tri_status read_numbers(const tri_table *table, const tri_preprocess *preprocess, tri_dataset *data) {
    if (!data->n_columns) return TRI_OK;
    data->numbers = malloc((size_t)(data->n ? data->n : 1) * (size_t)data->n_columns * sizeof *data->numbers);
    if (!data->numbers) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    for (int c = 0; c < data->n_columns; c++) {
        const tri_column_stats *stats = &preprocess->column[c];
        int column;
        TRI_TRY(tri__table_find(table, stats->name, &column));
        for (int64_t row = 0; row < data->n; row++) {
            double value = 0;
            int missing;
            TRI_TRY(tri__column_number(table, row, column, &value, &missing));
            if (missing) value = stats->fill;
            data->numbers[row * data->n_columns + c] = (float)((value - stats->mean) / stats->deviation);
        }
    }
    return TRI_OK;
}

/* Where labels are not needed, a table whose labels are absent, empty or unknown has none. */
static tri_status read_labels(const tri_table *table, const tri_preprocess *preprocess, int needed, tri_dataset *data) {
    int column;
    tri_status status = tri__table_find(table, preprocess->label_name, &column);
    if (status != TRI_OK) return needed ? status : TRI_OK;
    data->labels = malloc((size_t)(data->n ? data->n : 1) * sizeof *data->labels);
    if (!data->labels) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    for (int64_t row = 0; row < data->n && status == TRI_OK; row++)
        status = tri__labels_class(table, row, column, preprocess->label, preprocess->n_classes, &data->labels[row]);
    if (status == TRI_OK || needed) return status;
    free(data->labels);
    data->labels = NULL;
    return TRI_OK;
}

static tri_status load(const tri_table *table, const tri_preprocess *preprocess, tri_tokenizer *const tokenizer[2], int max_len,
                       int need_labels, int threads, tri_dataset *data) {
    data->n = tri__table_rows(table);
    data->n_texts = preprocess->secondary_name ? 2 : 1;
    data->n_columns = preprocess->n_columns;
    if (data->n > INT32_MAX)
        return tri__fail(TRI_DATA, "%s: %lld rows; at most %d are read", tri__table_path(table), (long long)data->n, INT32_MAX);
    TRI_TRY(read_labels(table, preprocess, need_labels, data));
    TRI_TRY(read_numbers(table, preprocess, data));
    const char *name[2] = {preprocess->primary_name, preprocess->secondary_name};
    for (int t = 0; t < data->n_texts; t++) {
        TRI_TRY(tokenise(table, name[t], tokenizer[t], max_len, threads, &data->text[t]));
        data->memory += (int64_t)sizeof(int64_t) * (data->n + 1) + (int64_t)sizeof(int32_t) * data->text[t].start[data->n];
    }
    data->memory += data->n * data->n_columns * (int64_t)sizeof(float) + (data->labels ? data->n * (int64_t)sizeof(int32_t) : 0);
    return TRI_OK;
}

tri_status tri__dataset_load(const tri_table *table, const tri_preprocess *preprocess, tri_tokenizer *const tokenizer[2],
                             int max_len, int need_labels, int threads, tri_dataset **out) {
    TRI_ASSERT(max_len >= 2 && threads >= 1);
    *out = NULL;
    tri_dataset *data = calloc(1, sizeof *data);
    if (!data) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    tri_status status = load(table, preprocess, tokenizer, max_len, need_labels, threads, data);
    if (status == TRI_OK) *out = data;
    else tri__dataset_free(data);
    return status;
}

void tri__dataset_free(tri_dataset *dataset) {
    if (!dataset) return;
    for (int t = 0; t < 2; t++) {
        free(dataset->text[t].start);
        free(dataset->text[t].ids);
    }
    free(dataset->numbers);
    free(dataset->labels);
    free(dataset);
}
