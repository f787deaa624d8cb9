/* columnar.c - tables of columns in groups of rows (columnar.h). The text of a chunk is published by one atomic
 * pointer; a thread that finds none loads it under one of a few locks, chosen by chunk and column, so that different
 * ones are loaded at the same time and the same one once. A chunk's text and its numbers are loaded each when it is
 * first asked for: hardly any column is used as both. */
#include "data/table/columnar.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS = 32 };

typedef _Atomic(tri_column_text *) cell;

typedef struct group {
    int64_t first, rows, chunk; /* its first row in the table */
    _Atomic(cell *) cells;      /* [chunks, 2, columns] as text, as numbers; made on first use */
    int64_t passed;             /* its rows up to here, from the start of a chunk, were released in a row */
} group;

typedef struct columnar {
    const tri_columnar_format *format;
    void *state;
    group *group;
    int64_t groups, room;
    pthread_mutex_t lock[LOCKS];
    pthread_mutex_t guard;      /* for cells */
    tri_columns_failure failure;
} columnar;

/* In the place of a text that could not be loaded: every field is empty. */
static const tri_column_text lost;
#define LOST ((tri_column_text *)&lost)

void tri__column_text_clear(tri_column_text *text) {
    free(text->own[0]);
    free(text->own[1]);
    *text = (tri_column_text){0};
}

static void free_text(tri_column_text *text) {
    if (!text || text == LOST) return;
    tri__column_text_clear(text);
    free(text);
}

static int64_t chunks_of(const group *g) { return (g->rows + g->chunk - 1) / g->chunk; }

/* The group of a row. */
static group *find(const columnar *c, int64_t row) {
    int64_t low = 0, high = c->groups;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (c->group[middle].first <= row) low = middle;
        else high = middle;
    }
    return &c->group[low];
}

/* The group's cells; NULL: out of memory. */
static cell *cells_of(const tri_table *table, columnar *c, group *g) {
    cell *cells = atomic_load_explicit(&g->cells, memory_order_acquire);
    if (cells) return cells;
    pthread_mutex_lock(&c->guard);
    cells = atomic_load_explicit(&g->cells, memory_order_relaxed);
    if (!cells && (cells = calloc((size_t)chunks_of(g), 2 * (size_t)table->columns * sizeof *cells)))
        atomic_store_explicit(&g->cells, cells, memory_order_release);
    pthread_mutex_unlock(&c->guard);
    return cells;
}

static tri_column_text *load(const tri_table *table, columnar *c, const group *g, int64_t chunk, int column,
                             int as_numbers) {
    int64_t first = chunk * g->chunk, rows = g->rows - first < g->chunk ? g->rows - first : g->chunk;
    tri_column_text *text = calloc(1, sizeof *text);
    tri_status status = text ? tri__source_changed(&table->source) ? tri__fail(
                                   TRI_IO, "%s has changed while it was read; start again when it is complete",
                                   table->path)
                                                                   : TRI_OK
                             : tri__table_no_memory(table);
    if (status == TRI_OK)
        status = (as_numbers ? c->format->numbers : c->format->load)(table, c->state, g - c->group, column, first,
                                                                     rows, text);
    if (status == TRI_OK) return text;
    tri__columns_fail(&c->failure, status);
    free_text(text);
    return LOST;
}

/* The chunk of a row, as text or as numbers; *at_row: its place there. */
static const tri_column_text *text_of(const tri_table *table, int64_t row, int column, int as_numbers,
                                      int64_t *at_row) {
    columnar *c = table->state;
    group *g = find(c, row);
    int64_t chunk = (row - g->first) / g->chunk;
    *at_row = (row - g->first) % g->chunk;
    cell *cells = cells_of(table, c, g);
    if (!cells) {
        tri__columns_fail(&c->failure, tri__table_no_memory(table));
        return LOST;
    }
    cell *at = &cells[(2 * chunk + as_numbers) * table->columns + column];
    tri_column_text *text = atomic_load_explicit(at, memory_order_acquire);
    if (text) return text;
    pthread_mutex_t *lock = &c->lock[(uint64_t)(at - cells) % LOCKS];
    pthread_mutex_lock(lock);
    text = atomic_load_explicit(at, memory_order_relaxed);
    if (!text) {
        text = load(table, c, g, chunk, column, as_numbers);
        atomic_store_explicit(at, text, memory_order_release);
    }
    pthread_mutex_unlock(lock);
    return text;
}

static tri_field_text field(const tri_table *table, int64_t row, int column) {
    int64_t at;
    if (tri__table_unread(table, column)) return (tri_field_text){"", 0, 0};
    const tri_column_text *text = text_of(table, row, column, 0, &at);
    if (!text->end) return (tri_field_text){"", 0, 0};
    uint32_t begin = at ? text->end[at - 1] : 0;
    return (tri_field_text){text->text + begin, text->end[at] - begin, 0};
}

static int numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    const columnar *c = table->state;
    if (tri__table_unread(table, column) || !c->format->has_numbers(c->state, column)) return 0;
    while (count > 0) {
        const group *g = find(c, first);
        int64_t at, left;
        const tri_column_text *text = text_of(table, first, column, 1, &at);
        left = g->chunk - at < g->first + g->rows - first ? g->chunk - at : g->first + g->rows - first;
        int64_t n = left < count ? left : count;
        if (text->number) memcpy(value, text->number + at, (size_t)n * sizeof *value);
        else tri__numbers_empty(value, n);
        first += n, count -= n, value += n;
    }
    return 1;
}

static tri_status check(const tri_table *table) {
    columnar *c = table->state;
    return tri__columns_check(&c->failure);
}

/* Releases rows [from, to) of a group, by its own numbers. A chunk is freed with its last row, if all rows before it
 * were released one after the other: a pass may release a chunk in several calls. */
static void release(const tri_table *table, group *g, int64_t from, int64_t to) {
    cell *cells = atomic_load_explicit(&g->cells, memory_order_acquire);
    for (int64_t chunk = from / g->chunk; cells && chunk * g->chunk < to; chunk++) {
        int64_t begin = chunk * g->chunk, end = g->rows - begin < g->chunk ? g->rows : begin + g->chunk;
        if (from <= begin || from == g->passed) g->passed = to < end ? to : end;
        if (g->passed != end || to < end) continue;
        for (int64_t i = 2 * chunk * table->columns; i < 2 * (chunk + 1) * table->columns; i++)
            free_text(atomic_exchange(&cells[i], NULL));
    }
}

/* The text of a small file is kept. */
static void done(const tri_table *table, int64_t first, int64_t count) {
    columnar *c = table->state;
    if (table->source.size <= table->options.keep || !count) return;
    for (group *g = find(c, first); g < c->group + c->groups && g->first < first + count; g++) {
        int64_t from = first > g->first ? first - g->first : 0, left = first + count - g->first;
        if (g->rows) release(table, g, from, left < g->rows ? left : g->rows);
    }
}

static void close_columnar(tri_table *table) {
    columnar *c = table->state;
    for (int64_t i = 0; i < c->groups; i++) {
        cell *cells = atomic_load(&c->group[i].cells);
        for (int64_t k = 0; cells && k < 2 * chunks_of(&c->group[i]) * table->columns; k++)
            free_text(atomic_load(&cells[k]));
        free(cells);
    }
    free(c->group);
    for (int i = 0; i < LOCKS; i++) pthread_mutex_destroy(&c->lock[i]);
    pthread_mutex_destroy(&c->guard);
    tri__columns_failure_free(&c->failure);
    c->format->close(c->state);
    free(c);
    table->state = NULL;
}

static const tri_table_kind kind = {field, numbers, check, done,
                                    tri__columns_where, tri__columns_place, close_columnar};

tri_status tri__columnar_begin(tri_table *table, const tri_columnar_format *format, void *state) {
    columnar *c = calloc(1, sizeof *c);
    if (!c) {
        format->close(state);
        return tri__table_no_memory(table);
    }
    c->format = format, c->state = state;
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&c->lock[i], NULL);
    pthread_mutex_init(&c->guard, NULL);
    tri__columns_failure_init(&c->failure);
    table->state = c, table->kind = &kind;
    return TRI_OK;
}

tri_status tri__columnar_group(tri_table *table, int64_t rows, int64_t chunk) {
    columnar *c = table->state;
    TRI_ASSERT(rows >= 0 && chunk >= 1);
    if (!rows) chunk = 1;
    if (rows > INT64_MAX - table->rows) return tri__fail(TRI_DATA, "%s: more rows than can be counted", table->path);
    if (c->groups == c->room) {
        int64_t room = c->room ? 2 * c->room : 16;
        group *more = realloc(c->group, (size_t)room * sizeof *more);
        if (!more) return tri__table_no_memory(table);
        c->group = more, c->room = room;
    }
    group *g = &c->group[c->groups++];
    g->first = table->rows, g->rows = rows, g->chunk = chunk, g->passed = 0;
    atomic_init(&g->cells, NULL);
    table->rows += rows;
    return TRI_OK;
}

/* ---- what all tables of columns have ---- */

void tri__columns_failure_init(tri_columns_failure *failure) {
    *failure = (tri_columns_failure){0};
    pthread_mutex_init(&failure->lock, NULL);
}

void tri__columns_failure_free(tri_columns_failure *failure) { pthread_mutex_destroy(&failure->lock); }

void tri__columns_fail(tri_columns_failure *failure, tri_status status) {
    pthread_mutex_lock(&failure->lock);
    if (failure->status == TRI_OK) failure->status = status, tri__words_keep(&failure->words);
    pthread_mutex_unlock(&failure->lock);
    atomic_store(&failure->failed, 1);
}

tri_status tri__columns_check(tri_columns_failure *failure) {
    if (!atomic_load(&failure->failed)) return TRI_OK;
    pthread_mutex_lock(&failure->lock);
    tri__words_restore(&failure->words);
    pthread_mutex_unlock(&failure->lock);
    return failure->status;
}

void tri__columns_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at) {
    (void)table;
    *line = row + 1, *at = column + 1;
}

void tri__columns_place(const tri_table *table, int64_t row, int column, char out[static TRI_PLACE_BYTES]) {
    (void)column;
    snprintf(out, TRI_PLACE_BYTES, "%s: row %lld", table->path, (long long)row + 1);
}

int tri__bytes_are_text(const char *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        uint64_t eight;
        if (size - at >= 8) { /* ASCII, none of them 0: the borrow of the lowest 0 byte sets its high bit */
            memcpy(&eight, bytes + at, 8);
            if (!((eight | (eight - 0x0101010101010101u)) & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        if (!bytes[at] || tri__utf8_next(bytes, size, &at) < 0) return 0;
    }
    return 1;
}
