/* parts.c - several files as one table: each is a table of its own, and a row is looked up in the one that has it. */
#include "data/table/parts.h"

typedef struct parts {
    int n;
    tri_table **part;        /* [n] */
    int64_t *first;          /* [n + 1] the row of each one's first */
    int *at;                 /* [n, columns] the column in each; -1: it has none */
} parts;

/* The part of a row. */
static int find(const parts *p, int64_t row) {
    int low = 0, high = p->n;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (p->first[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

static const tri_table *within(const tri_table *table, int64_t *row, int *column) {
    const parts *p = table->state;
    int i = find(p, *row);
    *row -= p->first[i], *column = p->at[(int64_t)i * table->columns + *column];
    return p->part[i];
}

static tri_field_text field(const tri_table *table, int64_t row, int column) {
    const tri_table *part = within(table, &row, &column);
    return column < 0 ? (tri_field_text){"", 0, 0} : tri__table_field(part, row, column);
}

/* Parts have values of the same kind; where one lacks a column, or another has text, all are asked for their text. */
static int numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    const parts *p = table->state;
    for (int i = find(p, first); count > 0; i++) {
        int at = p->at[(int64_t)i * table->columns + column];
        int64_t n = p->first[i + 1] - first < count ? p->first[i + 1] - first : count;
        if (at < 0 || !tri__table_numbers(p->part[i], first - p->first[i], n, at, value)) return 0;
        first += n, count -= n, value += n;
    }
    return 1;
}

static tri_status check(const tri_table *table) {
    const parts *p = table->state;
    for (int i = 0; i < p->n; i++) TRI_TRY(tri__table_check(p->part[i]));
    return TRI_OK;
}

static void done(const tri_table *table, int64_t first, int64_t count) {
    const parts *p = table->state;
    for (int i = find(p, first); i < p->n && p->first[i] < first + count; i++) {
        int64_t from = first > p->first[i] ? first : p->first[i];
        int64_t to = first + count < p->first[i + 1] ? first + count : p->first[i + 1];
        if (from < to) tri__table_done(p->part[i], from - p->first[i], to - from);
    }
}

static void close_parts(tri_table *table) {
    parts *p = table->state;
    for (int i = 0; p && p->part && i < p->n; i++) tri__table_close(p->part[i]);
    if (p) free(p->part), free(p->first), free(p->at);
    free(p);
    table->state = NULL;
}

static const tri_format format = {.field = field, .numbers = numbers, .check = check, .done = done, .within = within,
                                  .close = close_parts};

static tri_status lacks(const tri_table *table, const tri_table *without, const tri_table *with, const char *name) {
    return tri__fail(TRI_DATA, "%s: %s has no column \"%.80s\", which %s has: the parts of one table have the same "
                     "columns", table->path, without->path, name, with->path);
}

/* Names the table's columns: the first part's; of JSON lines also what later ones add. */
static tri_status name_columns(tri_table *table, parts *p) {
    TRI_OWNED(tri__keys_free) tri_keys keys = {0};
    int lines = 1, failed = 0;
    for (int i = 0; i < p->n; i++) lines &= p->part[i]->format->objects;
    for (int i = 0; i < (lines ? p->n : 1); i++)
        for (int c = 0; c < p->part[i]->columns; c++)
            failed |= tri__keys_add(&keys, p->part[i]->name[c], strlen(p->part[i]->name[c])) < 0;
    p->at = malloc(((size_t)keys.n * (size_t)p->n + 1) * sizeof *p->at);
    if (failed || !p->at) return tri__table_no_memory(table);
    return tri__table_take_keys(table, &keys);
}

/* Finds the table's columns in a part, and compares it with the first. */
static tri_status join(tri_table *table, parts *p, int i) {
    const tri_table *first = p->part[0], *part = p->part[i];
    int *at = p->at + (int64_t)i * table->columns, lines = first->format->objects && part->format->objects;
    for (int c = 0; c < table->columns; c++) {
        at[c] = tri__table_column(part, table->name[c]);
        if (at[c] < 0 && !lines) return lacks(table, part, first, table->name[c]);
        const char *type = at[c] >= 0 ? part->type[at[c]] : NULL;
        if (type && table->type[c] && strcmp(type, table->type[c]))
            return tri__fail(TRI_DATA, "%s: column \"%.80s\" has %s in %s, but %s in a part before it", table->path,
                             table->name[c], type, part->path, table->type[c]);
        if (type) table->type[c] = type;
        const char *why = at[c] >= 0 ? tri__table_unread(part, at[c]) : NULL;
        if (why && !table->unread[c] && !(table->unread[c] = strdup(why))) return tri__table_no_memory(table);
    }
    for (int c = 0; c < part->columns && !lines; c++)
        if (tri__table_column(table, part->name[c]) < 0) return lacks(table, first, part, part->name[c]);
    if (part->delimiter != first->delimiter)
        return tri__fail(TRI_DATA, "%s: the fields of %s and %s are not separated by the same character; give "
                         "--separator, or write them alike", table->path, first->path, part->path);
    return TRI_OK;
}

/* Appends a part's bad rows, each with the file's name. */
static tri_status join_bad(tri_table *table, const tri_table *part, int64_t rows) {
    int64_t *after = realloc(table->bad_after, (size_t)(table->bad + part->bad + 1) * sizeof *after);
    if (!after) return tri__table_no_memory(table);
    table->bad_after = after;
    for (int64_t i = 0; i < part->bad; i++) after[table->bad + i] = part->bad_after[i] + rows;
    table->bad += part->bad;
    tri_bad_row *row = realloc(table->bad_row, (size_t)(table->described + part->described + 1) * sizeof *row);
    if (!row) return tri__table_no_memory(table);
    table->bad_row = row;
    const char *name = strrchr(part->path, '/') ? strrchr(part->path, '/') + 1 : part->path;
    for (int i = 0; i < part->described && table->described < TRI_TABLE_DESCRIBED; i++) {
        char *why;
        if (asprintf(&why, "%s: %s", name, part->bad_row[i].why) < 0) return tri__table_no_memory(table);
        row[table->described++] = (tri_bad_row){part->bad_row[i].line, part->bad_row[i].column, why};
    }
    return TRI_OK;
}

/* Opens the parts. Together they keep as much text in memory as one table does. */
static tri_status open_all(tri_table *table, parts *p, const tri_names *names) {
    tri_table_options options = table->options;
    for (int i = 0; i < names->n; i++) {
        TRI_TRY(tri__table_open(names->name[i], &options, &p->part[i]));
        p->n = i + 1;
        uint64_t size = p->part[i]->source.size;
        options.keep = size < options.keep ? options.keep - (size_t)size : 1;
        p->first[i + 1] = p->first[i] + p->part[i]->rows;
        size_t used = tri__table_cost(p->part[i]);
        int full = options.budget && (p->part[i]->cut || used >= options.budget);
        if (full) table->cut = p->part[i]->cut || i + 1 < names->n;
        if (full) break;
        options.budget -= options.budget ? used : 0;
    }
    return TRI_OK;
}

static tri_status join_all(tri_table *table, parts *p) {
    TRI_TRY(name_columns(table, p));
    for (int i = 0; i < p->n; i++) {
        TRI_TRY(join(table, p, i));
        TRI_TRY(join_bad(table, p->part[i], p->first[i]));
    }
    table->rows = p->first[p->n];
    table->delimiter = p->part[0]->delimiter, table->recognised = p->part[0]->recognised;
    return TRI_OK;
}

tri_status tri__parts_open(tri_table *table) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    TRI_TRY(tri__parts_list(table->path, &names));
    parts *p = table->state = calloc(1, sizeof *p);
    table->format = &format;
    if (p) p->part = calloc((size_t)names.n, sizeof *p->part);
    if (p) p->first = calloc((size_t)names.n + 1, sizeof *p->first);
    if (!p || !p->part || !p->first) return tri__table_no_memory(table);
    TRI_TRY(open_all(table, p, &names));
    return join_all(table, p);
}
