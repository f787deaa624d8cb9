/* parquet.c - a Parquet file as a table: which chunks are decoded and in memory. As text and as numbers, a chunk is
 * two, each decoded when it is asked for: hardly any column is used as both. A thread that needs a chunk which is not
 * there decodes it; others that need the same one wait. Before a chunk is added to those in memory, the oldest are
 * freed while they are too many, except those of groups with rows in use.
 *
 * A row is in use from its first field to tri__table_done: a bit for each row, set before the chunk's pointer is read.
 * Who frees a chunk takes its pointer away first and then looks at the bits, so one of the two sees the other (both in
 * the order of sequential consistency). */
#include "data/table/parquet.h"

#include <stdlib.h>
#include <string.h>

static void free_text(tri_parquet_text *text) {
    free(text->text);
    free(text->field);
    free(text);
}

static tri_parquet_group *find_group(tri_parquet *file, int64_t row) {
    int64_t last = atomic_load_explicit(&file->last, memory_order_relaxed);
    tri_parquet_group *group = &file->group[last];
    if (row >= group->first && row - group->first < group->rows) return group;
    int64_t low = 0, high = file->groups;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (file->group[middle].first <= row) low = middle;
        else high = middle;
    }
    atomic_store_explicit(&file->last, low, memory_order_relaxed);
    return &file->group[low];
}

static size_t words_of(const tri_parquet_group *group) { return (size_t)(group->rows + 63) / 64; }

/* The group's cells; NULL: out of memory. */
static tri_parquet_cell *make_cells(tri_parquet *file, tri_parquet_group *group) {
    pthread_mutex_lock(&file->lock);
    tri_parquet_cell *cell = atomic_load(&group->cell);
    if (!cell && (group->held || (group->held = calloc(words_of(group), sizeof *group->held))) &&
        (cell = calloc(2 * (size_t)file->columns, sizeof *cell)))
        atomic_store(&group->cell, cell);
    pthread_mutex_unlock(&file->lock);
    return cell;
}

/* The bits of a word's rows. */
static uint64_t rows_of_word(const tri_parquet_group *group, int64_t word) {
    int64_t rows = group->rows - word * 64;
    return rows >= 64 ? UINT64_MAX : ((uint64_t)1 << rows) - 1;
}

/* Marks rows [at, at + n) of a group as in use, and those beside them: a pass takes them next, and ends them too. */
static inline void hold(tri_parquet_group *group, int64_t at, int64_t n) {
    for (int64_t end = at + n; at < end; at = (at | 63) + 1) {
        int64_t last = (at | 63) < end ? at | 63 : end - 1;
        _Atomic uint64_t *word = &group->held[at >> 6];
        uint64_t bits = UINT64_MAX >> (63 - (last - at)) << (at & 63);
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if ((seen & bits) != bits) atomic_fetch_or(word, seen ? bits : rows_of_word(group, at >> 6));
    }
}

static int is_held(const tri_parquet_group *group) {
    for (size_t i = 0; i < words_of(group); i++)
        if (atomic_load(&group->held[i])) return 1;
    return 0;
}

/* Frees chunks that are not in use, the oldest first, until `more` bytes fit. Under the lock. */
static void make_room(tri_parquet *file, size_t more) {
    tri_parquet_text **link = &file->oldest, *text, *before = NULL;
    while (file->bytes + more > file->budget && (text = *link)) {
        tri_parquet_cell *cell = &atomic_load(&text->group->cell)[text->cell];
        atomic_store(&cell->text, NULL);
        if (is_held(text->group)) {
            atomic_store(&cell->text, text);
            before = text, link = &text->next;
            continue;
        }
        *link = text->next;
        if (file->newest == text) file->newest = before;
        file->bytes -= text->bytes;
        free_text(text);
    }
}

/* Decodes a chunk, unless another thread did or does. NULL: that failed. */
static tri_parquet_text *load(const tri_table *table, tri_parquet *file, tri_parquet_group *group, int column,
                              int as_numbers) {
    int number = as_numbers * file->columns + column;
    tri_parquet_cell *cell = &atomic_load(&group->cell)[number];
    pthread_mutex_lock(&file->lock);
    while (cell->loading) pthread_cond_wait(&file->loaded, &file->lock);
    tri_parquet_text *text = atomic_load(&cell->text);
    int failed = atomic_load(&cell->failed);
    if (!text && !failed) cell->loading = 1;
    pthread_mutex_unlock(&file->lock);
    if (text || failed) return text;
    text = calloc(1, sizeof *text);
    tri_status status = text ? tri__parquet_decode(table, group, column, as_numbers, text)
                             : tri__table_no_memory(table);
    if (status != TRI_OK) {
        tri__columns_fail(&file->failure, status);
        atomic_store(&cell->failed, 1);
        free(text);
        text = NULL;
    }
    pthread_mutex_lock(&file->lock);
    if (text) {
        make_room(file, text->bytes);
        text->group = group, text->cell = number;
        if (file->newest) file->newest->next = text;
        else file->oldest = text;
        file->newest = text, file->bytes += text->bytes;
        atomic_store(&cell->text, text);
    }
    cell->loading = 0;
    pthread_cond_broadcast(&file->loaded);
    pthread_mutex_unlock(&file->lock);
    return text;
}

/* A column of a group as text or as numbers, with rows [at, at + n) in use. NULL: it cannot be decoded. */
static inline const tri_parquet_text *text_of(const tri_table *table, tri_parquet_group *group, int64_t at, int64_t n,
                                              int column, int as_numbers) {
    tri_parquet *file = table->state;
    tri_parquet_cell *cell = atomic_load_explicit(&group->cell, memory_order_acquire);
    if (!cell && !(cell = make_cells(file, group))) {
        tri__columns_fail(&file->failure, tri__table_no_memory(table));
        return NULL;
    }
    hold(group, at, n);
    cell += as_numbers * file->columns + column;
    const tri_parquet_text *text = atomic_load(&cell->text);
    if (text || atomic_load_explicit(&cell->failed, memory_order_relaxed)) return text;
    return load(table, file, group, column, as_numbers);
}

static tri_field_text field(const tri_table *table, int64_t row, int column) {
    tri_parquet *file = table->state;
    if (file->column[column].leaf < 0) return (tri_field_text){"", 0, 0};
    tri_parquet_group *group = find_group(file, row);
    int64_t at = row - group->first;
    const tri_parquet_text *text = text_of(table, group, at, 1, column, 0);
    if (!text) return (tri_field_text){"", 0, 0};
    tri_parquet_span span = text->field[at];
    return (tri_field_text){text->text + span.begin, span.length, 0};
}

static int numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    tri_parquet *file = table->state;
    if (file->column[column].leaf < 0 || !tri__parquet_has_numbers(&file->column[column])) return 0;
    while (count > 0) {
        tri_parquet_group *group = find_group(file, first);
        int64_t at = first - group->first, n = group->rows - at < count ? group->rows - at : count;
        const tri_parquet_text *text = text_of(table, group, at, n, column, 1);
        if (text) memcpy(value, text->field + at, (size_t)n * sizeof *value);
        else tri__numbers_empty(value, n);
        first += n, count -= n, value += n;
    }
    return 1;
}

static tri_status check(const tri_table *table) {
    tri_parquet *file = table->state;
    return tri__columns_check(&file->failure);
}

/* Rows [from, to) of the group are no longer in use. */
static void release(tri_parquet_group *group, int64_t from, int64_t to) {
    while (from < to) {
        int64_t end = (from | 63) + 1 < to ? (from | 63) + 1 : to, n = end - from;
        uint64_t bits = (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << (from & 63);
        _Atomic uint64_t *word = &group->held[from >> 6];
        if (atomic_load_explicit(word, memory_order_relaxed) & bits) atomic_fetch_and(word, ~bits);
        from = end;
    }
}

/* A group whose last row is done is likely done: what is too much is freed now, since no other chunk may be loaded. */
static void done(const tri_table *table, int64_t first, int64_t count) {
    tri_parquet *file = table->state;
    int ended = 0;
    if (!count) return;
    for (tri_parquet_group *g = find_group(file, first); g < file->group + file->groups && g->first < first + count;
         g++) {
        int64_t from = first > g->first ? first - g->first : 0, to = first + count - g->first;
        if (atomic_load_explicit(&g->cell, memory_order_acquire)) release(g, from, to < g->rows ? to : g->rows);
        ended |= to >= g->rows;
    }
    if (!ended) return;
    pthread_mutex_lock(&file->lock);
    make_room(file, 0);
    pthread_mutex_unlock(&file->lock);
}

static void close_file(tri_table *table) {
    tri_parquet *file = table->state;
    for (tri_parquet_text *text = file->oldest, *next; text; text = next) {
        next = text->next;
        free_text(text);
    }
    for (int64_t i = 0; i < file->groups; i++) {
        free(file->group[i].chunk);
        free(atomic_load(&file->group[i].cell));
        free(file->group[i].held);
    }
    free(file->group);
    free(file->column_of);
    free(file->column);
    free(file->scratch.window);
    free(file->scratch.page.at);
    pthread_cond_destroy(&file->loaded);
    pthread_mutex_destroy(&file->lock);
    tri__columns_failure_free(&file->failure);
    free(file);
    table->state = NULL;
}

static const tri_table_kind kind = {field, numbers, check, done, tri__columns_where, tri__columns_place, close_file};

/* A column that some row group has in a form that is not read cannot be used. */
static tri_status refuse_columns(tri_table *table, tri_parquet *file) {
    char why[512];
    for (int c = 0; c < table->columns; c++)
        for (int64_t g = 0; g < file->groups && file->column[c].leaf >= 0; g++) {
            if (!tri__parquet_refused(table, &file->group[g], c, why, sizeof why)) continue;
            file->column[c].leaf = -1;
            if (!(table->unread[c] = strdup(why))) return tri__table_no_memory(table);
        }
    return TRI_OK;
}

tri_status tri__parquet_open(tri_table *table) {
    enum { TIMES = 4 };
    tri_parquet *file = calloc(1, sizeof *file);
    if (!file) return tri__table_no_memory(table);
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->loaded, NULL);
    tri__columns_failure_init(&file->failure);
    file->budget = table->options.keep < SIZE_MAX / TIMES ? TIMES * table->options.keep : SIZE_MAX;
    table->state = file, table->kind = &kind;
    TRI_TRY(tri__parquet_footer(table, file));
    return refuse_columns(table, file);
}
