/* arrow_schema.c - the schema of an Arrow file: which columns there are, and which buffers of a batch are whose. Nested
 * fields are walked as well: their buffers come between those of the columns. */
#include "data/table/arrow.h"

enum { DEPTH = 64 };

/* Buffers in a batch, without those of children and, of views, the ones that are counted there; and what a type is
 * where it is no value. */
static const struct {
    int buffers;
    const char *words;
} types[TRI_FLAT_TYPES] = {
    [TRI_FLAT_NONE] = {0, "has no type"}, [TRI_FLAT_NIL] = {0, NULL},
    [TRI_FLAT_INT] = {2, NULL}, [TRI_FLAT_FLOATING] = {2, NULL}, [TRI_FLAT_BOOL] = {2, NULL},
    [TRI_FLAT_DECIMAL] = {2, NULL}, [TRI_FLAT_DATE] = {2, NULL}, [TRI_FLAT_TIME] = {2, NULL},
    [TRI_FLAT_TIMESTAMP] = {2, NULL}, [TRI_FLAT_DURATION] = {2, NULL},
    [TRI_FLAT_INTERVAL] = {2, "holds intervals of time"},
    [TRI_FLAT_UTF8] = {3, NULL}, [TRI_FLAT_LARGE_UTF8] = {3, NULL}, [TRI_FLAT_UTF8_VIEW] = {2, NULL},
    [TRI_FLAT_BINARY] = {3, NULL}, [TRI_FLAT_LARGE_BINARY] = {3, NULL}, [TRI_FLAT_BINARY_VIEW] = {2, NULL},
    [TRI_FLAT_FIXED_BINARY] = {2, NULL},
    [TRI_FLAT_LIST] = {2, "holds lists"}, [TRI_FLAT_LARGE_LIST] = {2, "holds lists"},
    [TRI_FLAT_FIXED_LIST] = {1, "holds lists"}, [TRI_FLAT_LIST_VIEW] = {3, "holds lists"},
    [TRI_FLAT_LARGE_LIST_VIEW] = {3, "holds lists"},
    [TRI_FLAT_STRUCT] = {1, "holds structures"}, [TRI_FLAT_UNION] = {1, "holds unions"},
    [TRI_FLAT_MAP] = {2, "holds maps"}, [TRI_FLAT_RUN_ENDS] = {0, "is run-end encoded"},
};

int tri__arrow_buffers(int number) { return types[number].buffers; }

typedef struct walk {
    tri_table *table;
    tri_arrow *arrow;
    tri_flat *flat;
    tri_arrow_counts counts;
} walk;

static tri_status damaged(const tri_table *table) {
    return tri__fail(TRI_DATA, "%s: the schema of this Arrow file is damaged", table->path);
}

static tri_arrow_type fixed(tri_value_kind kind, int64_t bits) {
    return (tri_arrow_type){TRI_ARROW_FIXED, {.kind = kind, .width = (int)(bits / 8), .bits = (int)bits}};
}

static tri_arrow_type texts(tri_arrow_layout layout, int64_t width) {
    return (tri_arrow_type){layout, {.kind = TRI_VALUES_TEXTS, .width = (int)width, .bits = 8 * (int)width}};
}

/* The type of a field's values; 0 if its numbers are impossible. */
static int read_type(tri_flat *flat, int number, tri_flat_table type, tri_arrow_type *out) {
    *out = (tri_arrow_type){.layout = TRI_ARROW_NESTED};
    int64_t unit = tri__flat_number(flat, type, 0, 2, number == TRI_FLAT_TIMESTAMP ? 0 : 1), bits;
    size_t zone;
    switch (number) {
    case TRI_FLAT_NIL: out->layout = TRI_ARROW_NULL; return 1;
    case TRI_FLAT_INT:
        bits = tri__flat_number(flat, type, 0, 4, 0);
        *out = fixed(tri__flat_number(flat, type, 1, 1, 0) ? TRI_VALUES_SIGNED : TRI_VALUES_UNSIGNED, bits);
        return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case TRI_FLAT_DURATION: /* whole numbers of its unit, as Parquet stores it */
        *out = fixed(TRI_VALUES_SIGNED, 64);
        return unit >= 0 && unit <= 3;
    case TRI_FLAT_FLOATING:
        unit = tri__flat_number(flat, type, 0, 2, 0);
        *out = fixed(TRI_VALUES_FLOATS, 16 << (unit & 3));
        return unit >= 0 && unit <= 2;
    case TRI_FLAT_BOOL: *out = (tri_arrow_type){TRI_ARROW_BITS, {.kind = TRI_VALUES_BOOLEANS}}; return 1;
    case TRI_FLAT_DATE:
        *out = fixed(TRI_VALUES_DATES, unit == 0 ? 32 : 64);
        return unit == 0 || unit == 1;
    case TRI_FLAT_TIME:
        bits = tri__flat_number(flat, type, 1, 4, 32);
        *out = fixed(TRI_VALUES_TIMES, bits);
        out->values.unit = (tri_time_unit)(unit & 3);
        return unit >= 0 && unit <= 3 && bits == (unit < 2 ? 32 : 64);
    case TRI_FLAT_TIMESTAMP:
        tri__flat_vector(flat, type, 1, 1, &zone);
        *out = fixed(TRI_VALUES_TIMESTAMPS, 64);
        out->values.unit = (tri_time_unit)(unit & 3), out->values.utc = zone > 0;
        return unit >= 0 && unit <= 3;
    case TRI_FLAT_DECIMAL:
        bits = tri__flat_number(flat, type, 2, 4, 128);
        int64_t scale = tri__flat_number(flat, type, 1, 4, 0);
        *out = fixed(TRI_VALUES_DECIMALS, bits);
        out->values.scale = (int)scale, out->values.low_first = 1;
        return (bits == 32 || bits == 64 || bits == 128 || bits == 256) && scale >= -TRI_DECIMAL_SCALE &&
               scale <= TRI_DECIMAL_SCALE;
    case TRI_FLAT_FIXED_BINARY:
        bits = tri__flat_number(flat, type, 0, 4, 0);
        *out = texts(TRI_ARROW_BYTES, bits);
        return bits >= 0 && bits <= TRI_LIMIT_CSV_ROW;
    case TRI_FLAT_BINARY:
    case TRI_FLAT_UTF8: *out = texts(TRI_ARROW_TEXT, 4); return 1;
    case TRI_FLAT_LARGE_BINARY:
    case TRI_FLAT_LARGE_UTF8: *out = texts(TRI_ARROW_TEXT, 8); return 1;
    case TRI_FLAT_BINARY_VIEW:
    case TRI_FLAT_UTF8_VIEW: *out = texts(TRI_ARROW_VIEWS, 16); return 1;
    default: return 1;
    }
}

static int is_view(int number) { return number == TRI_FLAT_BINARY_VIEW || number == TRI_FLAT_UTF8_VIEW; }

/* Dense unions have offsets; before version V5 unions had validity. */
static size_t buffers_of(const walk *w, int number, tri_flat_table type) {
    if (number != TRI_FLAT_UNION) return (size_t)types[number].buffers;
    return 1 + (size_t)(tri__flat_number(w->flat, type, 0, 2, 0) == 1) + (size_t)(w->arrow->version < 4);
}

/* Counts a field and all below it. Their number is limited: a damaged file can name one child many times. */
static tri_status count_field(walk *w, tri_flat_table field, int column, int depth) {
    int number = (int)tri__flat_number(w->flat, field, TRI_FLAT_FIELD_TYPE_TYPE, 1, 0);
    if (depth > DEPTH || w->flat->bad) return damaged(w->table);
    if (number < 0 || number >= TRI_FLAT_TYPES)
        return tri__fail(TRI_DATA, "%s: column \"%.80s\" is of type %d, which this version does not know",
                         w->table->path, w->table->name[column], number);
    if (++w->counts.nodes > TRI_LIMIT_COLUMNS)
        return tri__fail(TRI_DATA, "%s: more than %d columns, nested ones included", w->table->path, TRI_LIMIT_COLUMNS);
    if (tri__flat_slot(w->flat, field, TRI_FLAT_FIELD_DICTIONARY)) {
        w->counts.buffers += 2;
        return TRI_OK;
    }
    w->counts.buffers += buffers_of(w, number, tri__flat_child(w->flat, field, TRI_FLAT_FIELD_TYPE));
    w->counts.views += (size_t)is_view(number);
    size_t n, at = tri__flat_vector(w->flat, field, TRI_FLAT_FIELD_CHILDREN, 4, &n);
    for (size_t i = 0; i < n; i++) {
        tri_flat_table child = tri__flat_follow(w->flat, at + 4 * i);
        if (w->flat->bad) return damaged(w->table);
        TRI_TRY(count_field(w, child, column, depth + 1));
    }
    return TRI_OK;
}

/* A column's name, which may be empty only for the first. */
static tri_status read_name(walk *w, tri_flat_table field, int column) {
    size_t n, at = tri__flat_vector(w->flat, field, TRI_FLAT_FIELD_NAME, 1, &n);
    const char *text = n ? (const char *)w->flat->bytes + at : "";
    if (w->flat->bad) return damaged(w->table);
    if (!n && column) return tri__fail(TRI_DATA, "%s: column %d has no name", w->table->path, column + 1);
    if (n > TRI_LIMIT_STRING || !tri__bytes_are_text(text, n))
        return tri__fail(TRI_DATA, "%s: the name of column %d is not text in UTF-8, or too long", w->table->path,
                         column + 1);
    return tri__table_add_column(w->table, text, n);
}

static tri_status read_column(walk *w, tri_flat_table field, int column) {
    tri_arrow_column *c = &w->arrow->column[column];
    int number = (int)tri__flat_number(w->flat, field, TRI_FLAT_FIELD_TYPE_TYPE, 1, 0);
    TRI_TRY(read_name(w, field, column));
    c->node = w->counts.nodes, c->buffer = w->counts.buffers, c->view = w->counts.views;
    TRI_TRY(count_field(w, field, column, 0));
    int possible = read_type(w->flat, number, tri__flat_child(w->flat, field, TRI_FLAT_FIELD_TYPE), &c->type);
    tri_flat_table dictionary = tri__flat_child(w->flat, field, TRI_FLAT_FIELD_DICTIONARY);
    if (dictionary) {
        tri_flat_table index = tri__flat_child(w->flat, dictionary, TRI_ENCODING_INDEX);
        int64_t bits = index ? tri__flat_number(w->flat, index, 0, 4, 0) : 32;
        c->encoded = 1, c->dictionary = tri__flat_number(w->flat, dictionary, TRI_ENCODING_ID, 8, 0);
        int has_sign = !index || tri__flat_number(w->flat, index, 1, 1, 0) != 0;
        c->index = fixed(has_sign ? TRI_VALUES_SIGNED : TRI_VALUES_UNSIGNED, bits).values;
        possible &= bits == 8 || bits == 16 || bits == 32 || bits == 64;
    }
    if (!possible || w->flat->bad)
        return tri__fail(TRI_DATA, "%s: the type of column \"%.80s\" is damaged", w->table->path,
                         w->table->name[column]);
    w->table->type[column] = tri__value_words(c->type.values.kind);
    if (c->type.layout != TRI_ARROW_NESTED) return TRI_OK;
    if (asprintf(&w->table->unread[column], "%s; only texts, numbers, dates and booleans are read",
                 types[number].words) >= 0)
        return TRI_OK;
    w->table->unread[column] = NULL;
    return tri__table_no_memory(w->table);
}

tri_status tri__arrow_schema(tri_table *table, tri_arrow *arrow, tri_flat *flat, tri_flat_table schema) {
    walk w = {.table = table, .arrow = arrow, .flat = flat};
    size_t n, at = tri__flat_vector(flat, schema, TRI_SCHEMA_FIELDS, 4, &n);
    if (flat->bad || !schema) return damaged(table);
    if (tri__flat_number(flat, schema, TRI_SCHEMA_ENDIANNESS, 2, 0))
        return tri__fail(TRI_DATA, "%s: an Arrow file with big-endian numbers, which are not read; write it again on a "
                         "little-endian machine", table->path);
    if (!n) return tri__fail(TRI_DATA, "%s: this Arrow file has no columns", table->path);
    if (n > TRI_LIMIT_COLUMNS) return tri__fail(TRI_DATA, "%s: more than %d columns", table->path, TRI_LIMIT_COLUMNS);
    TRI_TRY(tri__table_make_columns(table, n));
    if (!(arrow->column = calloc(n, sizeof *arrow->column))) return tri__table_no_memory(table);
    for (size_t i = 0; i < n; i++) {
        tri_flat_table field = tri__flat_follow(flat, at + 4 * i);
        if (flat->bad) return damaged(table);
        TRI_TRY(read_column(&w, field, (int)i));
    }
    arrow->counts = w.counts;
    return tri__table_check_names(table, "");
}

tri_arrow_counts tri__arrow_counts(const tri_arrow_type *type) {
    size_t buffers = type->layout == TRI_ARROW_NULL ? 0 : type->layout == TRI_ARROW_TEXT ? 3 : 2;
    return (tri_arrow_counts){1, buffers, type->layout == TRI_ARROW_VIEWS};
}
