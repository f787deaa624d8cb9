/* table.c - tables of any format: opening, names, and what their format is asked for. */
#include "data/table/formats.h"
#include "data/table/memory.h"
#include "data/table/parts.h"

enum { KEEP = 64 << 20 }; /* files of up to so many bytes are kept in memory */

tri_status tri__table_no_memory(const tri_table *table) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory while reading a table of %llu bytes", table->path,
                     (unsigned long long)table->source.size);
}

tri_status tri__table_fail(const tri_table *table, uint64_t at, const char *format, ...) {
    char text[512];
    TRI_FORMAT(text, sizeof text, format);
    tri_table_line line = {1, table->top};
    TRI_TRY(tri__source_line(table, at, &line));
    return tri__fail(TRI_DATA, "%s:%lld:%lld: %s", table->path, (long long)line.number,
                     (long long)(at - line.begin) + 1, text);
}

tri_status tri__table_make_columns(tri_table *table, size_t n) {
    table->name = calloc(n + 1, sizeof *table->name);
    table->unread = calloc(n + 1, sizeof *table->unread);
    table->type = calloc(n + 1, sizeof *table->type);
    return table->name && table->unread && table->type ? TRI_OK : tri__table_no_memory(table);
}

tri_status tri__table_add_column(tri_table *table, const char *name, size_t length) {
    if (!(table->name[table->columns] = strndup(name, length))) return tri__table_no_memory(table);
    table->columns++;
    return TRI_OK;
}

tri_status tri__table_take_keys(tri_table *table, const tri_keys *keys) {
    TRI_TRY(tri__table_make_columns(table, (size_t)keys->n));
    for (int i = 0; i < keys->n; i++)
        TRI_TRY(tri__table_add_column(table, keys->text + keys->key[i].at, keys->key[i].length));
    return TRI_OK;
}

tri_status tri__table_check_names(const tri_table *table, const char *advice) {
    TRI_OWNED(tri__keys_free) tri_keys keys = {0};
    for (int c = 0; c < table->columns; c++) {
        int number = tri__keys_add(&keys, table->name[c], strlen(table->name[c]));
        if (number < 0) return tri__table_no_memory(table);
        else if (number != c)
            return tri__fail(TRI_DATA, "%s: two columns are named \"%.80s\"%s", table->path, table->name[c], advice);
    }
    return TRI_OK;
}

/* A table in memory: an Arrow stream. */
static tri_status open_memory(tri_table *table, const char *name) {
    table->format = tri__format_of(".arrow", sizeof ".arrow" - 1);
    TRI_TRY(tri__memory_find(table->options.tables, name, &table->source.image));
    table->source.size = table->source.image->size;
    return TRI_OK;
}

static tri_status open_file(tri_table *table) {
    size_t stem;
    tri_packer packer = tri__packed_name(table->path, &stem);
    table->format = tri__format_of(table->path, stem);
    if (!table->source.memory) TRI_TRY(tri__source_open(&table->source, table->path));
    if (packer != TRI_PACKERS && !table->format->parse)
        return tri__fail(TRI_DATA, "%s: of compressed tables only text is read; unpack it: %s", table->path,
                         tri__packed_program(packer));
    return packer != TRI_PACKERS ? tri__packed_open(table, packer) : TRI_OK;
}

static tri_status open_table(tri_table *table) {
    const char *name = table->source.memory ? NULL : tri__memory_name(table->path);
    if (!name && !table->source.memory && tri__parts_named(table->path)) return tri__parts_open(table);
    TRI_TRY(name ? open_memory(table, name) : open_file(table));
    TRI_TRY(table->format->open(table));
    int64_t most = tri__table_most(table, table->columns);
    if (!table->format->parse && table->rows > most) table->rows = most, table->cut = 1; /* of text: table_read.c */
    return TRI_OK;
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
    if (table->format) table->format->close(table);
    for (int c = 0; c < table->columns; c++) free(table->name[c]), free(table->unread[c]);
    TRI_FREE(table->name, table->unread, table->type);
    for (int i = 0; i < table->described; i++) free((char *)table->bad_row[i].why);
    TRI_FREE(table->bad_row, table->bad_after);
    pthread_mutex_destroy(&table->lock);
    tri__source_close(&table->source);
    TRI_FREE(table->path, table);
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
    return table->unread[column];
}

int tri__table_column(const tri_table *table, const char *name) {
    for (int c = 0; c < table->columns; c++)
        if (!strcmp(table->name[c], name)) return c;
    return -1;
}

tri_status tri__table_find(const tri_table *table, const char *name, int *column) {
    int there = tri__table_column(table, name);
    if (there >= 0) {
        *column = there;
        const char *why = tri__table_unread(table, there);
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

/* Whether the values of a binary file's column are numbers, by the words for its type. */
static int is_number(const char *type) {
    return type && (!strcmp(type, "integers") || !strcmp(type, "floating-point numbers") || !strcmp(type, "decimals"));
}

tri_field_text tri__table_field(const tri_table *table, int64_t row, int column) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    tri_field_text field = table->format->field(table, row, column);
    field.number |= is_number(table->type[column]);
    return field;
}

int tri__table_numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    TRI_ASSERT(first >= 0 && count >= 0 && count <= table->rows - first && column >= 0 && column < table->columns);
    return table->format->numbers && table->format->numbers(table, first, count, column, value);
}

tri_status tri__table_check(const tri_table *table) { return table->format->check(table); }

void tri__table_done(const tri_table *table, int64_t first, int64_t count) {
    TRI_ASSERT(first >= 0 && count >= 0 && count <= table->rows - first);
    table->format->done(table, first, count);
}

void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    if (table->format->within) table = table->format->within(table, &row, &column);
    if (column < 0) column = 0;
    if (table->format->parse) tri__text_where(table, row, column, line, at);
    else *line = row + 1, *at = column + 1;
}

const char *tri__table_place(const tri_table *table, int64_t row, int column, char out[static TRI_PLACE_BYTES]) {
    int64_t line, at;
    tri__table_where(table, row, column, &line, &at);
    if (table->format->within) table = table->format->within(table, &row, &column);
    if (table->format->parse)
        snprintf(out, TRI_PLACE_BYTES, "%s:%lld:%lld", table->path, (long long)line, (long long)at);
    else snprintf(out, TRI_PLACE_BYTES, "%s: row %lld", table->path, (long long)line);
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
