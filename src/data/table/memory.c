/* memory.c - the arrays of tables in memory, which are held until the tables are closed, and the image of each: batches
 * that begin wherever an array of one of its streams does. */
#include "data/table/memory.h"

#include "base/file.h"

/* What a stream gave. */
typedef struct held {
    struct ArrowSchema schema;
    struct ArrowArray *array; /* [n] in order */
    size_t n, room;
    int64_t rows;
    char *column;            /* the name of its only column; NULL: its columns are the structure's fields */
} held;

typedef struct table {
    char *name;
    held *stream;            /* [n] */
    size_t n, room;
    tri_image image;
} table;

struct tri_tables {
    table *table;            /* [n] */
    size_t n, room;
};

static tri_status no_memory(const char *name) { return tri__fail(TRI_RESOURCE, "%s: out of memory", name); }

const char *tri__memory_name(const char *path) {
    size_t n = sizeof TRI_MEMORY_PREFIX - 1;
    return strncmp(path, TRI_MEMORY_PREFIX, n) ? NULL : path + n;
}

static table *find(const tri_tables *tables, const char *name) {
    for (size_t i = 0; tables && i < tables->n; i++)
        if (!strcmp(tables->table[i].name, name)) return &tables->table[i];
    return NULL;
}

tri_status tri__memory_find(const tri_tables *tables, const char *name, const tri_image **out) {
    const table *t = find(tables, name);
    *out = t ? &t->image : NULL;
    if (t) return TRI_OK;
    return tri__fail(TRI_NOINPUT, "%s%s: no such table in memory%s%s", TRI_MEMORY_PREFIX, name,
                     tables && tables->n ? "; there is " : "", tables && tables->n ? tables->table[0].name : "");
}

static void free_held(held *h) {
    for (size_t i = 0; i < h->n; i++)
        if (h->array[i].release) h->array[i].release(&h->array[i]);
    if (h->schema.release) h->schema.release(&h->schema);
    TRI_FREE(h->array, h->column);
    *h = (held){0};
}

static void free_table(table *t) {
    tri__image_free(&t->image);
    for (size_t i = 0; i < t->n; i++) free_held(&t->stream[i]);
    TRI_FREE(t->stream, t->name);
}

/* ---- reading a stream ---- */

static int is_structure(const held *h) { return h->schema.format && !strcmp(h->schema.format, "+s"); }

static tri_status check_array(const char *name, const held *h, const struct ArrowArray *array) {
    int good = array->length >= 0 && array->offset >= 0 && array->length <= INT64_MAX / 2 - h->rows;
    if (good && is_structure(h)) {
        good = array->n_children == h->schema.n_children;
        for (int64_t c = 0; c < array->n_children && good; c++)
            good = array->children[c]->length >= array->offset + array->length && array->children[c]->offset >= 0;
        if (good && array->null_count > 0)
            return tri__fail(TRI_DATA, "%s: %lld rows of an Arrow stream are null as a whole; leave them out", name,
                             (long long)array->null_count);
    }
    return good ? TRI_OK : tri__fail(TRI_DATA, "%s: an Arrow array contradicts its schema", name);
}

static tri_status stream_failed(const char *name, struct ArrowArrayStream *stream, int code) {
    const char *words = stream->get_last_error ? stream->get_last_error(stream) : NULL;
    return tri__fail(TRI_DATA, "%s: its Arrow stream failed: %s", name, words && *words ? words : strerror(code));
}

static tri_status read_stream(const char *name, struct ArrowArrayStream *stream, held *h) {
    int code = stream->get_schema(stream, &h->schema);
    if (code) return stream_failed(name, stream, code);
    for (;;) {
        if (!tri__grow(&h->array, &h->room, h->n + 1, sizeof *h->array)) return no_memory(name);
        struct ArrowArray *array = &h->array[h->n];
        *array = (struct ArrowArray){0};
        if ((code = stream->get_next(stream, array))) return stream_failed(name, stream, code);
        if (!array->release) return TRI_OK;
        h->n++;
        TRI_TRY(check_array(name, h, array));
        h->rows += array->length;
    }
}

/* ---- images ---- */

static int columns_of(const held *h) { return is_structure(h) ? (int)h->schema.n_children : 1; }

static tri_status name_columns(const table *t, tri_image_column *column) {
    int n = 0;
    for (size_t s = 0; s < t->n; s++)
        for (int c = 0; c < columns_of(&t->stream[s]); c++) {
            const held *h = &t->stream[s];
            const struct ArrowSchema *schema = is_structure(h) ? h->schema.children[c] : &h->schema;
            const char *name = h->column ? h->column : schema->name ? schema->name : "";
            for (int i = 0; i < n; i++)
                if (!strcmp(column[i].name, name))
                    return tri__fail(TRI_DATA, "%s: two columns are named \"%.80s\"", t->name, name);
            column[n++] = (tri_image_column){name, schema, NULL};
        }
    return TRI_OK;
}

/* The batch from `row` on: its values, and how many rows all streams have there in one array. */
static int64_t next_batch(const table *t, int64_t row, tri_image_values *values) {
    int64_t least = INT64_MAX;
    int n = 0;
    for (size_t s = 0; s < t->n; s++) {
        const held *h = &t->stream[s];
        const struct ArrowArray *array = h->array;
        int64_t first = row;
        while (first >= array->length) first -= array++->length;
        if (array->length - first < least) least = array->length - first;
        for (int c = 0; c < columns_of(h); c++)
            values[n++] = is_structure(h) ? (tri_image_values){array->children[c], array->offset + first}
                                          : (tri_image_values){array, first};
    }
    return least;
}

static tri_status make_image(const table *t, tri_image *image) {
    int n = 0;
    for (size_t s = 0; s < t->n; s++) n += columns_of(&t->stream[s]);
    TRI_OWNED(tri__free_at) tri_image_column *column = calloc((size_t)n + 1, sizeof *column);
    TRI_OWNED(tri__free_at) tri_image_values *values = malloc(((size_t)n + 1) * sizeof *values);
    if (!column || !values) return no_memory(t->name);
    TRI_TRY(name_columns(t, column));
    TRI_TRY(tri__image_schema(image, t->name, column, n));
    for (int64_t row = 0, rows; row < t->stream[0].rows; row += rows) {
        enum { MOST = 1 << 30 }; /* rows of a batch: a reader counts them in 32 bits */
        rows = next_batch(t, row, values);
        if (rows > MOST) rows = MOST;
        TRI_TRY(tri__image_batch(image, t->name, column, n, values, rows));
    }
    return TRI_OK;
}

/* Takes a stream into the table; neither is changed if this fails. */
static tri_status add_stream(table *t, held *h) {
    TRI_OWNED(tri__image_free) tri_image image = {0};
    if (t->n && h->rows != t->stream[0].rows)
        return tri__fail(TRI_DATA, "%s: %lld rows, but the columns before have %lld", t->name, (long long)h->rows,
                         (long long)t->stream[0].rows);
    if (h->column && columns_of(h) != 1)
        return tri__fail(TRI_DATA, "%s: column \"%.80s\" was given %d columns", t->name, h->column, columns_of(h));
    if (!tri__grow(&t->stream, &t->room, t->n + 1, sizeof *t->stream)) return no_memory(t->name);
    t->stream[t->n++] = *h;
    tri_status status = make_image(t, &image);
    if (status != TRI_OK) t->n--;
    TRI_TRY(status);
    tri__image_free(&t->image);
    t->image = image, image = (tri_image){0}, *h = (held){0};
    return TRI_OK;
}

/* ---- public ---- */

tri_status tri_tables_open(tri_tables **tables) {
    *tables = calloc(1, sizeof **tables);
    return tri__done(*tables ? TRI_OK : no_memory("tables"));
}

static tri_status add(tri_tables *tables, const char *name, held *h) {
    TRI_OWNED(free_table) table made = {0};
    table *t = find(tables, name);
    if (strpbrk(name, "+/") || !*name || strlen(name) > TRI_LIMIT_STRING)
        return tri__fail(TRI_USAGE, "\"%.80s\" cannot be the name of a table: no \"+\" or \"/\", not empty", name);
    if (t) return add_stream(t, h);
    if (!(made.name = strdup(name)) || !tri__grow(&tables->table, &tables->room, tables->n + 1, sizeof made))
        return no_memory(name);
    TRI_TRY(add_stream(&made, h));
    tables->table[tables->n++] = made;
    made = (table){0};
    return TRI_OK;
}

tri_status tri_tables_add(tri_tables *tables, const char *table, const char *column, struct ArrowArrayStream *stream) {
    held h = {.column = column ? strdup(column) : NULL};
    tri_status status = column && !h.column ? no_memory(table) : read_stream(table, stream, &h);
    if (stream->release) stream->release(stream);
    stream->release = NULL;
    if (status == TRI_OK && !column && !is_structure(&h))
        status = tri__fail(TRI_DATA, "%s: a stream of values needs the name of its column", table);
    if (status == TRI_OK) status = add(tables, table, &h);
    free_held(&h);
    return tri__done(status);
}

int64_t tri_tables_rows(const tri_tables *tables, const char *table) {
    const struct table *t = find(tables, table);
    return t ? t->stream[0].rows : -1;
}

tri_status tri_tables_write(const tri_tables *tables, const char *table, int file) {
    const tri_image *image;
    static const char zeros[8];
    uint64_t at = 0;
    TRI_TRY(tri__memory_find(tables, table, &image));
    for (size_t i = 0; i < image->pieces; i++) {
        const struct tri_image_piece *piece = &image->piece[i];
        if (piece->at > at) TRI_TRY(tri__write_at(file, at, zeros, (size_t)(piece->at - at), table));
        TRI_TRY(tri__write_at(file, piece->at, piece->bytes, (size_t)piece->size, table));
        at = piece->at + piece->size;
    }
    if (image->size > at) TRI_TRY(tri__write_at(file, at, zeros, (size_t)(image->size - at), table));
    return tri__done(TRI_OK);
}

void tri_tables_close(tri_tables *tables) {
    if (!tables) return;
    for (size_t i = 0; i < tables->n; i++) free_table(&tables->table[i]);
    TRI_FREE(tables->table, tables);
}
