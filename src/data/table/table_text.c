/* table_text.c - tables of text: where it begins and ends, and the text of rows, which is read in blocks of 64 rows on
 * first use, decoded in place, and kept until the caller releases it. */
#include "data/table/table_parts.h"

enum { GAP = 4096 }; /* gaps of up to so many bytes between rows are read too */

/* The part of the file's end that was read: text[size] ends at byte `end`. */
typedef struct tail {
    uint64_t end;
    size_t size;
    char text[4096];
} tail;

/* The byte before byte `at`; 0 at the start of the rows. */
static tri_status byte_before(const tri_table *table, tail *tail, uint64_t at, char *byte) {
    *byte = 0;
    if (at == table->begin) return TRI_OK;
    if (tail->size == 0 || at <= tail->end - tail->size) {
        uint64_t left = at - table->begin;
        tail->end = at, tail->size = left < sizeof tail->text ? (size_t)left : sizeof tail->text;
        TRI_TRY(tri__source_read(table, at - tail->size, tail->text, tail->size));
    }
    *byte = tail->text[tail->size - 1 - (size_t)(tail->end - at)];
    return TRI_OK;
}

tri_status tri__table_trim(const tri_table *table, uint64_t *end) {
    tail tail = {0};
    for (uint64_t at = table->source.size;; *end = at) {
        char byte;
        TRI_TRY(byte_before(table, &tail, at, &byte));
        if (byte != '\n') return TRI_OK;
        TRI_TRY(byte_before(table, &tail, --at, &byte));
        if (byte == '\r') at--;
    }
}

tri_status tri__text_begin(tri_table *table) {
    char mark[3];
    if (table->source.size >= 3) {
        TRI_TRY(tri__source_read(table, 0, mark, 3));
        if (!memcmp(mark, "\xEF\xBB\xBF", 3)) table->top = 3;
    }
    table->begin = table->top, table->end = table->source.size, table->line = (tri_table_line){1, table->top};
    if (table->begin == table->end)
        return tri__table_fail(table, table->begin, "the file is empty; %s", table->format->expected);
    return tri__table_form(table);
}

/* Reads rows [first, end) of a block, packed; small gaps between rows are read too. */
static tri_status load_rows(const tri_table *table, int64_t first, int64_t end, char *to, char **row) {
    for (int64_t next; first < end; first = next) {
        uint64_t from = table->row[first], stop = from + table->format->length(table, first);
        row[first % TRI_TABLE_BLOCK] = to;
        for (next = first + 1; next < end && table->row[next] - stop <= GAP; next++) {
            row[next % TRI_TABLE_BLOCK] = to + (table->row[next] - from);
            stop = table->row[next] + table->format->length(table, next);
        }
        TRI_TRY(tri__source_read(table, from, to, (size_t)(stop - from)));
        to += stop - from;
    }
    return tri__source_check(table);
}

/* Reads and decodes a block. */
static tri_status load(const tri_table *table, int64_t index) {
    int64_t first = index * TRI_TABLE_BLOCK, end = first + TRI_TABLE_BLOCK;
    if (end > table->rows) end = table->rows;
    size_t bytes = 1;
    for (int64_t row = first; row < end; row++) {
        uint64_t gap = row + 1 < end ? table->row[row + 1] - table->row[row] - table->format->length(table, row) : 0;
        bytes += table->format->length(table, row) + (gap <= GAP ? (size_t)gap : 0);
    }
    TRI_OWNED(tri__free_at) char **row = malloc(TRI_TABLE_BLOCK * sizeof *row + bytes);
    if (!row) return tri__table_no_memory(table);
    TRI_TRY(load_rows(table, first, end, (char *)(row + TRI_TABLE_BLOCK), row));
    for (int64_t i = first; i < end; i++) table->format->decode(table, i, row[i - first]);
    table->block[index].row = TRI_GIVE(row);
    atomic_store_explicit(&table->block[index].state, 1, memory_order_release);
    return TRI_OK;
}

/* The text of a row's block, read if necessary; NULL if that fails. */
static char **rows_of(const tri_table *table, int64_t index) {
    tri_table_block *block = &table->block[index];
    int state = atomic_load_explicit(&block->state, memory_order_acquire);
    if (state == 0) {
        pthread_mutex_t *lock = (pthread_mutex_t *)&table->lock;
        TRI_LOCKED(lock);
        state = atomic_load_explicit(&block->state, memory_order_relaxed);
        if (state == 0 && load(table, index) != TRI_OK) atomic_store((_Atomic int *)&table->lost, 1);
        state = atomic_load_explicit(&block->state, memory_order_relaxed);
    }
    return state ? block->row : NULL;
}

/* Allocates blocks for the rows; reads all of a small file now. */
tri_status tri__text_ready(tri_table *table) {
    int64_t n = (table->rows + TRI_TABLE_BLOCK - 1) / TRI_TABLE_BLOCK;
    table->block = calloc((size_t)n + 1, sizeof *table->block);
    if (!table->block) return tri__table_no_memory(table);
    if (table->source.size > table->options.keep) return tri__source_check(table);
    int failed = 0;
#pragma omp parallel for schedule(static) num_threads(table->options.threads) reduction(|: failed)
    for (int64_t i = 0; i < n; i++) failed |= load(table, i) != TRI_OK;
    for (int64_t i = 0; failed && i < n; i++)
        if (!atomic_load(&table->block[i].state)) TRI_TRY(load(table, i));
    return TRI_OK;
}

tri_field_text tri__table_text(const char *text, size_t length) {
    if (length < 2 || text[0] != '"') return (tri_field_text){text, length, 0};
    if (text[length - 1]) return (tri_field_text){text + 1, length - 2, 0};
    while (length > 1 && !text[length - 1]) length--;
    return (tri_field_text){text + 1, length - 1, 0};
}

tri_field_text tri__text_field(const tri_table *table, int64_t row, int column) {
    uint32_t begin, end;
    if (!table->format->span(table, row, column, &begin, &end)) return (tri_field_text){"", 0, 0};
    char **rows = rows_of(table, row / TRI_TABLE_BLOCK);
    if (!rows) return (tri_field_text){"", 0, 0};
    const char *text = rows[row % TRI_TABLE_BLOCK] + begin;
    tri_field_text field = tri__table_text(text, end - begin);
    field.number = table->format->objects && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    return field;
}

tri_status tri__text_check(const tri_table *table) {
    if (!atomic_load((_Atomic int *)&table->lost)) return TRI_OK;
    return tri__fail(TRI_IO, "%s has changed or could not be read again; start again when it is complete", table->path);
}

void tri__text_done(const tri_table *table, int64_t first, int64_t count) {
    if (table->source.size <= table->options.keep) return;
    int64_t end = first + count == table->rows ? table->rows + TRI_TABLE_BLOCK - 1 : first + count;
    for (int64_t i = (first + TRI_TABLE_BLOCK - 1) / TRI_TABLE_BLOCK; i < end / TRI_TABLE_BLOCK; i++) {
        char **rows = table->block[i].row;
        if (!atomic_exchange(&table->block[i].state, 0)) continue;
        table->block[i].row = NULL;
        free(rows);
    }
}

void tri__text_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at) {
    uint32_t begin, end;
    if (!table->format->span(table, row, column, &begin, &end)) begin = 0;
    uint64_t byte = table->row[row] + begin;
    tri_table_line found = {1, table->top};
    /* If the file can no longer be read, the row's number replaces the line. */
    if (tri__source_line(table, byte, &found) != TRI_OK) found = (tri_table_line){row + 1, byte};
    *line = found.number;
    *at = (int64_t)(byte - found.begin) + 1;
}

void tri__text_close(tri_table *table) {
    for (int64_t i = 0; table->block && i * TRI_TABLE_BLOCK < table->rows; i++) free(table->block[i].row);
    TRI_FREE(table->block, table->row, table->first_value, table->value);
    tri__keys_free(&table->keys);
}
