/* table.c - tables of any format: opening, names, and the text of rows, which is read in blocks of 64 rows on first
 * use, decoded in place, and kept until the caller releases it. */
#include "base/text.h"
#include "data/table/arrow.h"
#include "data/table/packed.h"
#include "data/table/parquet.h"
#include "data/table/parts.h"
#include "data/table/table_parts.h"

#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP = 64 << 20,  /* files of up to so many bytes are kept in memory */
    GAP = 4096        /* gaps of up to so many bytes between rows are read too */
};

tri_status tri__table_no_memory(const tri_table *table) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory while reading a table of %llu bytes", table->path,
                     (unsigned long long)table->source.size);
}

tri_status tri__table_fail(const tri_table *table, uint64_t at, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tri_table_line line = {1, table->top};
    TRI_TRY(tri__source_line(&table->source, table->path, at, &line));
    return tri__fail(TRI_DATA, "%s:%lld:%lld: %s", table->path, (long long)line.number,
                     (long long)(at - line.begin) + 1, text);
}

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
        TRI_TRY(tri__source_read(&table->source, table->path, at - tail->size, tail->text, tail->size));
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

/* Formats by their endings; a file with any other is CSV. `open` finds the rows of a binary format. */
static const struct form {
    const char *ending;
    const tri_format *format;
    char delimiter;          /* 0: to be detected */
    tri_status (*open)(tri_table *table);
} forms[] = {{"", &tri__format_csv, 0, NULL},
             {".tsv", &tri__format_csv, '\t', NULL},
             {".jsonl", &tri__format_jsonl, 0, NULL},
             {".ndjson", &tri__format_jsonl, 0, NULL},
             {".json", &tri__format_jsonl, 0, NULL},
             {".arrow", NULL, 0, tri__arrow_open},
             {".feather", NULL, 0, tri__arrow_open},
             {".parquet", NULL, 0, tri__parquet_open},
             {".pq", NULL, 0, tri__parquet_open}};

/* By the first `length` bytes of a name. */
static const struct form *form_of(const char *path, size_t length) {
    for (size_t i = 1; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i].ending);
        if (length >= n && !memcmp(path + length - n, forms[i].ending, n)) return &forms[i];
    }
    return &forms[0];
}

static tri_status check_unchanged(const tri_table *table) {
    if (!tri__source_changed(&table->source)) return TRI_OK;
    return tri__fail(TRI_IO, "%s has changed while it was read; start again when it is complete", table->path);
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
        TRI_TRY(tri__source_read(&table->source, table->path, from, to, (size_t)(stop - from)));
        to += stop - from;
    }
    return check_unchanged(table);
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
    char **row = malloc(TRI_TABLE_BLOCK * sizeof *row + bytes);
    if (!row) return tri__table_no_memory(table);
    tri_status status = load_rows(table, first, end, (char *)(row + TRI_TABLE_BLOCK), row);
    if (status != TRI_OK) {
        free(row);
        return status;
    }
    for (int64_t i = first; i < end; i++) table->format->decode(table, i, row[i - first]);
    table->block[index].row = row;
    atomic_store_explicit(&table->block[index].state, 1, memory_order_release);
    return TRI_OK;
}

/* The text of a row's block, read if necessary; NULL if that fails. */
static char **rows_of(const tri_table *table, int64_t index) {
    tri_table_block *block = &table->block[index];
    int state = atomic_load_explicit(&block->state, memory_order_acquire);
    if (state == 0) {
        pthread_mutex_t *lock = (pthread_mutex_t *)&table->lock;
        pthread_mutex_lock(lock);
        state = atomic_load_explicit(&block->state, memory_order_relaxed);
        if (state == 0 && load(table, index) != TRI_OK) atomic_store((_Atomic int *)&table->lost, 1);
        state = atomic_load_explicit(&block->state, memory_order_relaxed);
        pthread_mutex_unlock(lock);
    }
    return state ? block->row : NULL;
}

/* Allocates blocks for the rows; reads all of a small file now. */
static tri_status make_blocks(tri_table *table) {
    int64_t n = (table->rows + TRI_TABLE_BLOCK - 1) / TRI_TABLE_BLOCK;
    table->block = calloc((size_t)n + 1, sizeof *table->block);
    if (!table->block) return tri__table_no_memory(table);
    if (table->source.size > table->options.keep) return check_unchanged(table);
    int failed = 0;
#pragma omp parallel for schedule(static) num_threads(table->options.threads) reduction(|: failed)
    for (int64_t i = 0; i < n; i++) failed |= load(table, i) != TRI_OK;
    for (int64_t i = 0; failed && i < n; i++)
        if (!atomic_load(&table->block[i].state)) TRI_TRY(load(table, i));
    return TRI_OK;
}

static tri_status open_table(tri_table *table) {
    size_t stem;
    if (!table->source.memory && tri__parts_named(table->path)) return tri__parts_open(table);
    tri_packer packer = tri__packed_name(table->path, &stem);
    const struct form *form = form_of(table->path, stem);
    if (!table->source.memory) TRI_TRY(tri__source_open(&table->source, table->path));
    if (form->open && packer != TRI_PACKERS)
        return tri__fail(TRI_DATA, "%s: of compressed tables only text is read; unpack it: %s", table->path,
                         tri__packed_program(packer));
    if (form->open) {
        TRI_TRY(form->open(table));
        int64_t most = tri__table_most(table, table->columns);
        table->cut = table->rows > most;
        if (table->cut) table->rows = most;
        return TRI_OK;
    }
    if (packer != TRI_PACKERS) TRI_TRY(tri__packed_open(table, packer));
    table->format = form->format, table->delimiter = form->delimiter;
    if (table->options.separator && table->format == &tri__format_csv) table->delimiter = table->options.separator;
    char mark[3];
    if (table->source.size >= 3) {
        TRI_TRY(tri__source_read(&table->source, table->path, 0, mark, 3));
        if (!memcmp(mark, "\xEF\xBB\xBF", 3)) table->top = 3;
    }
    table->begin = table->top, table->end = table->source.size, table->line = (tri_table_line){1, table->top};
    if (table->begin == table->end)
        return tri__table_fail(table, table->begin, "the file is empty; %s", table->format->expected);
    TRI_TRY(tri__table_form(table));
    if (!table->delimiter && table->format == &tri__format_csv) TRI_TRY(tri__table_separate(table));
    TRI_TRY(table->format->open(table));
    TRI_TRY(tri__table_read(table));
    if (table->format->close) TRI_TRY(table->format->close(table));
    return make_blocks(table);
}

static tri_status open_source(const char *path, const tri_source *source, const tri_table_options *options,
                              tri_table **out) {
    *out = NULL;
    tri_table *table = calloc(1, sizeof *table);
    if (!table || !(table->path = strdup(path))) {
        free(table);
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    if (options) table->options = *options;
    if (table->options.threads < 1) table->options.threads = 1;
    if (!table->options.keep) table->options.keep = KEEP;
    table->source = *source;
    pthread_mutex_init(&table->lock, NULL);
    tri_status status = open_table(table);
    if (status == TRI_OK) *out = table;
    else tri__table_close(table);
    return status;
}

tri_status tri__table_open(const char *path, const tri_table_options *options, tri_table **out) {
    return open_source(path, &(tri_source){.fd = -1}, options, out);
}

tri_status tri__table_open_bytes(const char *name, const void *bytes, size_t size, const tri_table_options *options,
                                 tri_table **out) {
    return open_source(name, &(tri_source){.fd = -1, .size = size, .memory = bytes}, options, out);
}

void tri__table_close(tri_table *table) {
    if (!table) return;
    if (table->kind) table->kind->close(table);
    for (int64_t i = 0; table->block && i * TRI_TABLE_BLOCK < table->rows; i++) free(table->block[i].row);
    free(table->block);
    for (int c = 0; table->name && c < table->columns; c++) free(table->name[c]);
    free(table->name);
    for (int c = 0; table->unread && c < table->columns; c++) free(table->unread[c]);
    free(table->unread);
    free(table->type);
    free(table->row);
    free(table->first_value);
    free(table->value);
    tri__keys_free(&table->keys);
    for (int i = 0; i < table->described; i++) free((char *)table->bad_row[i].why);
    free(table->bad_row);
    free(table->bad_after);
    pthread_mutex_destroy(&table->lock);
    tri__source_close(&table->source);
    free(table->path);
    free(table);
}

const char *tri__table_path(const tri_table *table) { return table->path; }
int64_t tri__table_rows(const tri_table *table) { return table->rows; }
int tri__table_cut(const tri_table *table) { return table->cut; }

static size_t cost_of(const tri_table *table, int columns) {
    return table->options.row_cost + (size_t)columns * table->options.column_cost;
}

size_t tri__table_cost(const tri_table *table) { return (size_t)table->rows * cost_of(table, table->columns); }

int64_t tri__table_most(const tri_table *table, int columns) {
    size_t cost = cost_of(table, columns);
    if (!table->options.budget || !cost) return INT64_MAX;
    return (int64_t)(table->options.budget / cost) + 1;
}
char tri__table_separator(const tri_table *table) { return table->delimiter; }
int tri__table_recognised(const tri_table *table) { return table->recognised; }
int tri__table_columns(const tri_table *table) { return table->columns; }

const char *tri__table_name(const tri_table *table, int column) {
    TRI_ASSERT(column >= 0 && column < table->columns);
    return table->name[column];
}

const char *tri__table_unread(const tri_table *table, int column) {
    TRI_ASSERT(column >= 0 && column < table->columns);
    return table->unread ? table->unread[column] : NULL;
}

tri_status tri__table_find(const tri_table *table, const char *name, int *column) {
    for (int c = 0; c < table->columns; c++)
        if (!strcmp(table->name[c], name)) {
            *column = c;
            const char *why = tri__table_unread(table, c);
            return why ? tri__fail(TRI_DATA, "%s: column \"%.80s\" %s", table->path, name, why) : TRI_OK;
        }
    enum { SHOWN = 30 };
    char list[1200] = "none";
    int used = 0, c = 0;
    for (; c < table->columns && c < SHOWN && used < (int)sizeof list - 120; c++)
        used += snprintf(list + used, sizeof list - (size_t)used, "%s%.60s", c ? ", " : "", table->name[c]);
    if (c < table->columns) snprintf(list + used, sizeof list - (size_t)used, " and %d more", table->columns - c);
    const char *nearest = tri__text_nearest(name, (const char *const *)table->name, table->columns);
    return tri__fail(TRI_DATA, "%s: there is no column \"%.80s\"%s%.80s%s; its columns are: %s", table->path, name,
                     nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "", list);
}

tri_field_text tri__table_text(const char *text, size_t length) {
    if (length < 2 || text[0] != '"') return (tri_field_text){text, length, 0};
    if (text[length - 1]) return (tri_field_text){text + 1, length - 2, 0};
    while (length > 1 && !text[length - 1]) length--;
    return (tri_field_text){text + 1, length - 1, 0};
}

/* Whether the values of a binary file's column are numbers, by the words for its type. */
static int is_number(const char *type) {
    return type && (!strcmp(type, "integers") || !strcmp(type, "floating-point numbers") || !strcmp(type, "decimals"));
}

tri_field_text tri__table_field(const tri_table *table, int64_t row, int column) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    if (table->kind) {
        tri_field_text field = table->kind->field(table, row, column);
        field.number |= table->type && is_number(table->type[column]);
        return field;
    }
    uint32_t begin, end;
    if (!table->format->span(table, row, column, &begin, &end)) return (tri_field_text){"", 0, 0};
    char **rows = rows_of(table, row / TRI_TABLE_BLOCK);
    if (!rows) return (tri_field_text){"", 0, 0};
    const char *text = rows[row % TRI_TABLE_BLOCK] + begin;
    tri_field_text field = tri__table_text(text, end - begin);
    field.number = table->format == &tri__format_jsonl && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    return field;
}

tri_table_cell tri__table_number(const tri_table *table, int64_t row, int column, double *value) {
    double number;
    if (!tri__table_numbers(table, row, 1, column, &number) || isinf(number)) return TRI_CELL_TEXT;
    if (isnan(number)) return TRI_CELL_EMPTY;
    *value = number;
    return TRI_CELL_NUMBER;
}

int tri__table_numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    TRI_ASSERT(first >= 0 && count >= 0 && count <= table->rows - first && column >= 0 && column < table->columns);
    return table->kind && table->kind->numbers(table, first, count, column, value);
}

tri_status tri__table_check(const tri_table *table) {
    if (table->kind) return table->kind->check(table);
    if (!atomic_load((_Atomic int *)&table->lost)) return TRI_OK;
    return tri__fail(TRI_IO, "%s has changed or could not be read again; start again when it is complete", table->path);
}

void tri__table_done(const tri_table *table, int64_t first, int64_t count) {
    TRI_ASSERT(first >= 0 && count >= 0 && count <= table->rows - first);
    if (table->kind) {
        table->kind->done(table, first, count);
        return;
    }
    if (table->source.size <= table->options.keep) return;
    int64_t end = first + count == table->rows ? table->rows + TRI_TABLE_BLOCK - 1 : first + count;
    for (int64_t i = (first + TRI_TABLE_BLOCK - 1) / TRI_TABLE_BLOCK; i < end / TRI_TABLE_BLOCK; i++) {
        char **rows = table->block[i].row;
        if (!atomic_exchange(&table->block[i].state, 0)) continue;
        table->block[i].row = NULL;
        free(rows);
    }
}

void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    if (table->kind) {
        table->kind->where(table, row, column, line, at);
        return;
    }
    uint32_t begin, end;
    if (!table->format->span(table, row, column, &begin, &end)) begin = 0;
    uint64_t byte = table->row[row] + begin;
    tri_table_line found = {1, table->top};
    /* If the file can no longer be read, the row's number replaces the line. */
    if (tri__source_line(&table->source, table->path, byte, &found) != TRI_OK) found = (tri_table_line){row + 1, byte};
    *line = found.number;
    *at = (int64_t)(byte - found.begin) + 1;
}

const char *tri__table_place(const tri_table *table, int64_t row, int column, char out[static TRI_PLACE_BYTES]) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    int64_t line, at;
    if (table->kind) {
        table->kind->place(table, row, column, out);
        return out;
    }
    tri__table_where(table, row, column, &line, &at);
    snprintf(out, TRI_PLACE_BYTES, "%s:%lld:%lld", table->path, (long long)line, (long long)at);
    return out;
}

int64_t tri__table_record(const tri_table *table, int64_t row) {
    TRI_ASSERT(row >= 0 && row < table->rows);
    int64_t low = 0, high = table->bad; /* bad rows before it */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (table->bad_after[middle] <= row) low = middle + 1;
        else high = middle;
    }
    return row + low + 1;
}

int64_t tri__table_bad(const tri_table *table, const tri_bad_row **rows, int *described) {
    *rows = table->bad_row, *described = table->described;
    return table->bad;
}
