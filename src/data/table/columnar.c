/* columnar.c - which columns of which groups are decoded and in memory. As text and as numbers, a column is two, each
 * decoded when it is asked for: hardly any column is used as both. A thread that needs one which is not there decodes
 * it; others that need the same one wait. Before one is added to those in memory, the oldest are freed while they are
 * too many, except those of groups with rows in use.
 *
 * A row is in use from its first field to tri__table_done: a bit for each row, set before the column's pointer is read.
 * Who frees a column takes its pointer away first and then looks at the bits, so one of the two sees the other (both in
 * the order of sequential consistency). */
#include "data/table/columnar.h"

#include "data/text/utf8.h"

typedef struct columnar {
    void *state;             /* the format's */
    int64_t groups;
    size_t room;
    tri_column_group *group; /* [groups] */
    _Atomic int64_t last;    /* the group of the last field, where the search begins */
    pthread_mutex_t lock;    /* for what follows, and cells */
    pthread_cond_t loaded;
    tri_column_text *oldest, *newest;
    size_t bytes, budget;    /* of what is decoded */
    /* The first failure of the threads that read: a field cannot fail, so tri__table_check tells it later. */
    tri_status status;
    tri_words words;
    _Atomic int failed;
} columnar;

static void free_text(tri_column_text *text) { TRI_FREE(text->text, text->field, text); }

static void fail(columnar *c, tri_status status) {
    TRI_LOCKED(&c->lock);
    if (c->status == TRI_OK) c->status = status, tri__words_keep(&c->words);
    atomic_store(&c->failed, 1);
}

static tri_column_group *find_group(columnar *c, int64_t row) {
    int64_t last = atomic_load_explicit(&c->last, memory_order_relaxed);
    tri_column_group *group = &c->group[last];
    if (row >= group->first && row - group->first < group->rows) return group;
    int64_t low = 0, high = c->groups;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (c->group[middle].first <= row) low = middle;
        else high = middle;
    }
    atomic_store_explicit(&c->last, low, memory_order_relaxed);
    return &c->group[low];
}

static size_t words_of(const tri_column_group *group) { return (size_t)(group->rows + 63) / 64; }

/* The group's cells; NULL: out of memory. */
static tri_column_cell *make_cells(const tri_table *table, columnar *c, tri_column_group *group) {
    TRI_LOCKED(&c->lock);
    tri_column_cell *cell = atomic_load(&group->cell);
    if (!cell && (group->held || (group->held = calloc(words_of(group), sizeof *group->held))) &&
        (cell = calloc(2 * (size_t)table->columns, sizeof *cell)))
        atomic_store(&group->cell, cell);
    return cell;
}

/* The bits of a word's rows. */
static uint64_t rows_of_word(const tri_column_group *group, int64_t word) {
    int64_t rows = group->rows - word * 64;
    return rows >= 64 ? UINT64_MAX : ((uint64_t)1 << rows) - 1;
}

/* Marks rows [at, at + n) of a group as in use, and those beside them: a pass takes them next, and ends them too. */
static inline void hold(tri_column_group *group, int64_t at, int64_t n) {
    for (int64_t end = at + n; at < end; at = (at | 63) + 1) {
        int64_t last = (at | 63) < end ? at | 63 : end - 1;
        _Atomic uint64_t *word = &group->held[at >> 6];
        uint64_t bits = UINT64_MAX >> (63 - (last - at)) << (at & 63);
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if ((seen & bits) != bits) atomic_fetch_or(word, seen ? bits : rows_of_word(group, at >> 6));
    }
}

static int is_held(const tri_column_group *group) {
    for (size_t i = 0; i < words_of(group); i++)
        if (atomic_load(&group->held[i])) return 1;
    return 0;
}

/* Frees columns that are not in use, the oldest first, until `more` bytes fit. Under the lock. */
static void make_room(columnar *c, size_t more) {
    tri_column_text **link = &c->oldest, *text, *before = NULL;
    while (c->bytes + more > c->budget && (text = *link)) {
        tri_column_cell *cell = &atomic_load(&text->group->cell)[text->cell];
        atomic_store(&cell->text, NULL);
        if (is_held(text->group)) {
            atomic_store(&cell->text, text);
            before = text, link = &text->next;
            continue;
        }
        *link = text->next;
        if (c->newest == text) c->newest = before;
        c->bytes -= text->bytes;
        free_text(text);
    }
}

/* What the format decodes. */
static tri_status decode(const tri_table *table, columnar *c, const tri_column_group *group, int column,
                         int as_numbers, tri_column_text **out) {
    tri_column_text *text = *out = calloc(1, sizeof *text);
    if (!text) return tri__table_no_memory(table);
    tri_status status = table->format->load(table, c->state, group, column, as_numbers, text);
    if (status == TRI_OK) status = tri__source_check(table);
    if (status != TRI_OK) free_text(text), *out = NULL;
    return status;
}

/* Decodes a column of a group, unless another thread did or does. NULL: that failed. */
static tri_column_text *load(const tri_table *table, columnar *c, tri_column_group *group, int column, int as_numbers) {
    int number = as_numbers * table->columns + column;
    tri_column_cell *cell = &atomic_load(&group->cell)[number];
    pthread_mutex_lock(&c->lock);
    while (cell->loading) pthread_cond_wait(&c->loaded, &c->lock);
    tri_column_text *text = atomic_load(&cell->text);
    int failed = atomic_load(&cell->failed);
    if (!text && !failed) cell->loading = 1;
    pthread_mutex_unlock(&c->lock);
    if (text || failed) return text;
    tri_status status = decode(table, c, group, column, as_numbers, &text);
    if (status != TRI_OK) {
        fail(c, status);
        atomic_store(&cell->failed, 1);
    }
    TRI_LOCKED(&c->lock);
    if (text) {
        make_room(c, text->bytes);
        text->group = group, text->cell = number;
        if (c->newest) c->newest->next = text;
        else c->oldest = text;
        c->newest = text, c->bytes += text->bytes;
        atomic_store(&cell->text, text);
    }
    cell->loading = 0;
    pthread_cond_broadcast(&c->loaded);
    return text;
}

/* A column of a group as text or as numbers, with rows [at, at + n) in use. NULL: it cannot be decoded. */
static inline const tri_column_text *text_of(const tri_table *table, tri_column_group *group, int64_t at, int64_t n,
                                             int column, int as_numbers) {
    columnar *c = table->state;
    tri_column_cell *cell = atomic_load_explicit(&group->cell, memory_order_acquire);
    if (!cell && !(cell = make_cells(table, c, group))) {
        fail(c, tri__table_no_memory(table));
        return NULL;
    }
    hold(group, at, n);
    cell += as_numbers * table->columns + column;
    const tri_column_text *text = atomic_load(&cell->text);
    if (text || atomic_load_explicit(&cell->failed, memory_order_relaxed)) return text;
    return load(table, c, group, column, as_numbers);
}

tri_field_text tri__columns_field(const tri_table *table, int64_t row, int column) {
    if (tri__table_unread(table, column)) return (tri_field_text){"", 0, 0};
    tri_column_group *group = find_group(table->state, row);
    int64_t at = row - group->first;
    const tri_column_text *text = text_of(table, group, at, 1, column, 0);
    if (!text || !text->field) return (tri_field_text){"", 0, 0};
    tri_field_span span = text->field[at];
    return (tri_field_text){text->text + span.begin, span.length, 0};
}

int tri__columns_numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value) {
    columnar *c = table->state;
    if (tri__table_unread(table, column) || !table->format->has_numbers(c->state, column)) return 0;
    while (count > 0) {
        tri_column_group *group = find_group(c, first);
        int64_t at = first - group->first, n = group->rows - at < count ? group->rows - at : count;
        const tri_column_text *text = text_of(table, group, at, n, column, 1);
        if (text) memcpy(value, text->field + at, (size_t)n * sizeof *value);
        for (int64_t i = 0; !text && i < n; i++) value[i] = __builtin_nan("");
        first += n, count -= n, value += n;
    }
    return 1;
}

tri_status tri__columns_check(const tri_table *table) {
    columnar *c = table->state;
    if (!atomic_load(&c->failed)) return TRI_OK;
    TRI_LOCKED(&c->lock);
    tri__words_restore(&c->words);
    return c->status;
}

/* Rows [from, to) of the group are no longer in use. */
static void release(tri_column_group *group, int64_t from, int64_t to) {
    while (from < to) {
        int64_t end = (from | 63) + 1 < to ? (from | 63) + 1 : to, n = end - from;
        uint64_t bits = (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << (from & 63);
        _Atomic uint64_t *word = &group->held[from >> 6];
        if (atomic_load_explicit(word, memory_order_relaxed) & bits) atomic_fetch_and(word, ~bits);
        from = end;
    }
}

/* A group whose last row is done is likely done: what is too much is freed now, since no other may be decoded. */
void tri__columns_done(const tri_table *table, int64_t first, int64_t count) {
    columnar *c = table->state;
    int ended = 0;
    if (!count) return;
    for (tri_column_group *g = find_group(c, first); g < c->group + c->groups && g->first < first + count; g++) {
        int64_t from = first > g->first ? first - g->first : 0, to = first + count - g->first;
        if (atomic_load_explicit(&g->cell, memory_order_acquire)) release(g, from, to < g->rows ? to : g->rows);
        ended |= to >= g->rows;
    }
    if (!ended) return;
    TRI_LOCKED(&c->lock);
    make_room(c, 0);
}

void tri__columns_close(tri_table *table) {
    columnar *c = table->state;
    if (!c) return;
    for (tri_column_text *text = c->oldest, *next; text; text = next) {
        next = text->next;
        free_text(text);
    }
    for (int64_t i = 0; i < c->groups; i++) TRI_FREE(atomic_load(&c->group[i].cell), (void *)c->group[i].held);
    free(c->group);
    pthread_cond_destroy(&c->loaded);
    pthread_mutex_destroy(&c->lock);
    table->format->free(c->state);
    free(c);
    table->state = NULL;
}

tri_status tri__columns_begin(tri_table *table, void *state) {
    enum { TIMES = 4 }; /* what is decoded is larger than the file */
    columnar *c = state ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        if (state) table->format->free(state);
        return tri__table_no_memory(table);
    }
    c->state = state;
    c->budget = table->options.keep < SIZE_MAX / TIMES ? TIMES * table->options.keep : SIZE_MAX;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->loaded, NULL);
    table->state = c;
    return TRI_OK;
}

tri_status tri__columns_add(tri_table *table, int64_t rows, int64_t of, int64_t from) {
    columnar *c = table->state;
    TRI_ASSERT(rows >= 1);
    if (rows > INT64_MAX - table->rows) return tri__fail(TRI_DATA, "%s: more rows than can be counted", table->path);
    if (!tri__grow(&c->group, &c->room, (size_t)c->groups + 1, sizeof *c->group)) return tri__table_no_memory(table);
    tri_column_group *g = &c->group[c->groups++];
    *g = (tri_column_group){.first = table->rows, .rows = rows, .of = of, .from = from};
    table->rows += rows;
    return TRI_OK;
}

int tri__bytes_are_text(const char *bytes, size_t size) {
    const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
    uint64_t word, special = 0; /* a high bit: some byte is 0, or not ASCII */
    size_t at = 0;
    for (; size - at >= 8; at += 8) {
        memcpy(&word, bytes + at, 8);
        special |= (word - ones) | word;
    }
    for (; at < size; at++) special |= (signed char)bytes[at] <= 0 ? highs : 0;
    return !(special & highs) || (tri__utf8_fault(bytes, size) == size && !memchr(bytes, 0, size));
}

tri_status tri__column_fail(const tri_column_place *place, const char *format, ...) {
    char text[512];
    TRI_FORMAT(text, sizeof text, format);
    return tri__fail(TRI_DATA, "%s: column \"%.80s\", %s %lld: %s", place->table->path,
                     place->table->name[place->column], place->what, (long long)place->number, text);
}

tri_status tri__column_unpack(const tri_column_place *place, tri_codec codec, const void *packed, size_t size,
                              void *out, size_t out_size) {
    tri_status status = tri__unpack(codec, packed, size, out, out_size);
    if (status == TRI_OK) return TRI_OK;
    return tri__fail_in(status, "%s: column \"%.80s\", %s %lld", place->table->path,
                        place->table->name[place->column], place->what, (long long)place->number);
}
