/* parquet_meta.c - the footer of a Parquet file: columns with their types, and where each row group has them. */
#include "data/table/parquet.h"

#include "data/table/thrift.h"

__attribute__((format(printf, 2, 3))) static tri_status damaged(const tri_table *table, const char *format, ...) {
    char text[512];
    TRI_FORMAT(text, sizeof text, format);
    return tri__fail(TRI_DATA, "%s is a damaged Parquet file: %s; get it again", table->path, text);
}

/* An element of the schema, as it stands in the file. */
typedef struct element {
    int type, length, repetition, converted, scale, precision;
    int64_t children;        /* 0: a column */
    int logical;             /* its number in the union; 0: none */
    int bits, is_signed, utc, unit;
    const char *name;
    size_t name_length;
} element;

enum { REQUIRED, OPTIONAL, REPEATED };
/* Logical types by the format's numbers; and converted ones, which older files have. */
enum { L_STRING = 1, L_MAP, L_LIST, L_ENUM, L_DECIMAL, L_DATE, L_TIME, L_TIMESTAMP, L_INTEGER = 10, L_NULL, L_JSON,
       L_BSON, L_UUID, L_FLOAT16 };
enum { C_UTF8, C_DECIMAL = 5, C_DATE, C_TIME_MILLIS, C_TIME_MICROS, C_TIMESTAMP_MILLIS, C_TIMESTAMP_MICROS, C_UINT_8,
       C_INT_8 = 15, C_INT_64 = 18 };

static int read_unit(tri_thrift *in) {
    int unit = 0;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        unit = field.id;
        tri__thrift_skip(in, field.type);
    }
    return unit;
}

static void read_logical(tri_thrift *in, element *e) {
    for (tri_thrift_field outer = {0}; tri__thrift_next(in, &outer);) {
        int is_time = outer.id == L_TIME || outer.id == L_TIMESTAMP;
        e->logical = outer.id;
        if (!tri__thrift_struct(in, &outer)) return;
        for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
            if (outer.id == L_DECIMAL && field.id == 1) e->scale = (int)tri__thrift_integer(in, &field);
            else if (outer.id == L_INTEGER && field.id == 1) e->bits = (int)tri__thrift_integer(in, &field);
            else if (outer.id == L_INTEGER && field.id == 2) e->is_signed = tri__thrift_boolean(in, &field);
            else if (is_time && field.id == 1) e->utc = tri__thrift_boolean(in, &field);
            else if (is_time && field.id == 2 && tri__thrift_struct(in, &field)) e->unit = read_unit(in);
            else tri__thrift_skip(in, field.type);
        }
    }
}

static void read_element(tri_thrift *in, element *e) {
    *e = (element){.type = -1, .repetition = REQUIRED, .converted = -1, .name = ""};
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        switch (field.id) {
        case 1: e->type = (int)tri__thrift_integer(in, &field); break;
        case 2: e->length = (int)tri__thrift_integer(in, &field); break;
        case 3: e->repetition = (int)tri__thrift_integer(in, &field); break;
        case 4: e->name = tri__thrift_binary(in, &field, &e->name_length); break;
        case 5: e->children = tri__thrift_integer(in, &field); break;
        case 6: e->converted = (int)tri__thrift_integer(in, &field); break;
        case 7: e->scale = (int)tri__thrift_integer(in, &field); break;
        case 10:
            if (tri__thrift_struct(in, &field)) read_logical(in, e);
            break;
        default: tri__thrift_skip(in, field.type);
        }
    }
}

/* What older files say in their way, as the newer ones do. */
static void modernise(element *e) {
    if (e->logical || e->converted < 0) return;
    int c = e->converted;
    if (c == C_DECIMAL) e->logical = L_DECIMAL;
    else if (c == C_DATE) e->logical = L_DATE;
    else if (c >= C_TIME_MILLIS && c <= C_TIMESTAMP_MICROS)
        e->logical = c < C_TIMESTAMP_MILLIS ? L_TIME : L_TIMESTAMP, e->utc = 1, e->unit = 1 + (c - C_TIME_MILLIS) % 2;
    else if (c >= C_UINT_8 && c <= C_INT_64)
        e->logical = L_INTEGER, e->is_signed = c >= C_INT_8, e->bits = 8 << (c - C_UINT_8) % 4;
}

/* The meaning of a column's values. Returns NULL, or why it cannot be read. */
static const char *understand(const element *e, tri_parquet_column *out) {
    static const int widths[PQ_TYPES] = {0, 4, 8, 12, 4, 8, 0, 0};
    static const tri_value_kind kinds[PQ_TYPES] = {TRI_VALUES_BOOLEANS, TRI_VALUES_SIGNED, TRI_VALUES_SIGNED,
                                                   TRI_VALUES_INT96,    TRI_VALUES_FLOATS, TRI_VALUES_FLOATS,
                                                   TRI_VALUES_TEXTS,    TRI_VALUES_TEXTS};
    tri_value_type *v = &out->values;
    int integer = e->type == PQ_INT32 || e->type == PQ_INT64, bytes = e->type == PQ_BYTE_ARRAY || e->type == PQ_FIXED;
    if (e->type < 0 || e->type >= PQ_TYPES) return "has a type that is not known";
    *out = (tri_parquet_column){.type = e->type, .optional = e->repetition == OPTIONAL};
    *v = (tri_value_type){kinds[e->type], .width = widths[e->type], .bits = e->type == PQ_INT32 ? 32 : 64};
    if (e->type == PQ_FIXED) {
        if (e->length < 1 || e->length > TRI_LIMIT_CSV_ROW) return "has values of a size that is not read";
        v->width = e->length;
    }
    if (e->logical == L_INTEGER && integer) {
        if (e->bits != 8 && e->bits != 16 && e->bits != 32 && e->bits != 64) return "has integers of an odd size";
        v->bits = e->bits < v->bits ? e->bits : v->bits;
        v->kind = e->is_signed ? TRI_VALUES_SIGNED : TRI_VALUES_UNSIGNED;
    } else if (e->logical == L_DATE && e->type == PQ_INT32) {
        v->kind = TRI_VALUES_DATES;
    } else if ((e->logical == L_TIME || e->logical == L_TIMESTAMP) && integer) {
        if (e->unit < 1 || e->unit > 3) return "has times in a unit that is not known";
        v->kind = e->logical == L_TIME ? TRI_VALUES_TIMES : TRI_VALUES_TIMESTAMPS;
        v->unit = (tri_time_unit)(TRI_UNIT_SECOND + e->unit), v->utc = e->utc;
    } else if (e->logical == L_DECIMAL && (integer || bytes)) {
        if (e->scale < 0 || e->scale > TRI_DECIMAL_SCALE || (e->type == PQ_FIXED && e->length > TRI_DECIMAL_BYTES))
            return "has decimals of more digits than are read";
        v->kind = TRI_VALUES_DECIMALS, v->scale = e->scale, v->low_first = integer;
    } else if (e->logical == L_FLOAT16 && e->type == PQ_FIXED && e->length == 2) {
        v->kind = TRI_VALUES_FLOATS;
    } else if (e->logical == L_UUID && e->type == PQ_FIXED && e->length == 16) {
        v->kind = TRI_VALUES_UUIDS;
    }
    return NULL;
}

/* The schema while it is read. */
typedef struct schema {
    tri_table *table;
    tri_parquet *file;
    tri_thrift *in;
    int64_t left;            /* elements that were not read yet */
} schema;

static tri_status add_column(schema *s, const element *e, const char *why, const tri_parquet_column *column) {
    tri_table *table = s->table;
    int c = table->columns;
    if (!tri__bytes_are_text(e->name, e->name_length))
        return damaged(table, "the name of column %d is not UTF-8", c + 1);
    TRI_TRY(tri__table_add_column(table, e->name, e->name_length));
    s->file->column[c] = *column;
    table->type[c] = e->logical == L_NULL ? NULL : tri__value_words(column->values.kind);
    if (why && !(table->unread[c] = strdup(why))) return tri__table_no_memory(table);
    return TRI_OK;
}

static void add_leaf(schema *s, int column) { s->file->column_of[s->file->leaves++] = column; }

static tri_status next_element(schema *s, element *e) {
    if (s->left-- <= 0) return damaged(s->table, "its columns are not all described");
    read_element(s->in, e);
    if (s->in->failed || e->children < 0 || e->children > s->left)
        return damaged(s->table, "the description of its columns cannot be read");
    return TRI_OK;
}

/* A column of the table: itself, or the root of a nested one with all that is below it. */
static tri_status read_column(schema *s) {
    element e;
    tri_parquet_column column = {.leaf = -1};
    TRI_TRY(next_element(s, &e));
    if (!e.children && e.repetition != REPEATED) {
        modernise(&e);
        const char *why = understand(&e, &column);
        column.leaf = why ? -1 : s->file->leaves;
        add_leaf(s, why ? -1 : s->table->columns);
        return add_column(s, &e, why, &column);
    }
    TRI_TRY(add_column(s, &e, "is nested (lists, maps or groups of values), which is not read; write it as columns of "
                       "single values", &column));
    if (!e.children) add_leaf(s, -1);
    for (int64_t open = e.children; open > 0;) {
        TRI_TRY(next_element(s, &e));
        if (e.children) open += e.children;
        else add_leaf(s, -1);
        open--;
    }
    return TRI_OK;
}

static tri_status read_schema(tri_table *table, tri_parquet *file, tri_thrift *in, const tri_thrift_field *field) {
    element root;
    schema s = {.table = table, .file = file, .in = in};
    if (table->columns) return damaged(table, "its columns are described twice");
    s.left = tri__thrift_list(in, field, TRI_THRIFT_STRUCT);
    TRI_TRY(next_element(&s, &root));
    if (root.children > TRI_LIMIT_COLUMNS)
        return tri__fail(TRI_DATA, "%s: more than %d columns", table->path, TRI_LIMIT_COLUMNS);
    TRI_TRY(tri__table_make_columns(table, (size_t)root.children));
    file->column = calloc((size_t)root.children + 1, sizeof *file->column);
    file->column_of = malloc(((size_t)s.left + 1) * sizeof *file->column_of);
    if (!file->column || !file->column_of) return tri__table_no_memory(table);
    for (int64_t i = 0; i < root.children; i++) TRI_TRY(read_column(&s));
    if (s.left) return damaged(table, "the description of its columns has more than its columns");
    if (!table->columns) return tri__fail(TRI_DATA, "%s: a Parquet file without columns", table->path);
    for (int c = 0; c < table->columns; c++)
        if (!table->name[c][0]) return tri__fail(TRI_DATA, "%s: column %d has no name", table->path, c + 1);
    return tri__table_check_names(table, "; rename one");
}

static void read_chunk_meta(tri_thrift *in, tri_parquet_chunk *chunk, int *type) {
    int64_t data = 0, dictionary = 0, bytes = -1;
    *type = -1;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        switch (field.id) {
        case 1: *type = (int)tri__thrift_integer(in, &field); break;
        case 4: chunk->codec = (int)tri__thrift_integer(in, &field); break;
        case 5: chunk->values = tri__thrift_integer(in, &field); break;
        case 7: bytes = tri__thrift_integer(in, &field); break;
        case 9: data = tri__thrift_integer(in, &field); break;
        case 11: dictionary = tri__thrift_integer(in, &field); break;
        default: tri__thrift_skip(in, field.type);
        }
    }
    int64_t begin = dictionary > 0 && dictionary < data ? dictionary : data;
    chunk->absent = begin <= 0 || bytes < 0;
    if (!chunk->absent) chunk->begin = (uint64_t)begin, chunk->bytes = (uint64_t)bytes;
}

static void read_chunk(tri_thrift *in, tri_parquet_chunk *chunk, int *type) {
    size_t length;
    *chunk = (tri_parquet_chunk){.codec = -1, .values = -1, .absent = 1};
    *type = -1;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 1) {
            tri__thrift_binary(in, &field, &length);
            chunk->elsewhere = length > 0;
        } else if (field.id == 3 && tri__thrift_struct(in, &field)) {
            read_chunk_meta(in, chunk, type);
        } else {
            chunk->encrypted |= field.id == 8 || field.id == 9;
            tri__thrift_skip(in, field.type);
        }
    }
}

static tri_status read_chunks(const tri_table *table, const tri_parquet *file, tri_thrift *in,
                              const tri_thrift_field *field, tri_parquet_group *group) {
    uint32_t n = tri__thrift_list(in, field, TRI_THRIFT_STRUCT);
    if (in->failed || n != (uint32_t)file->leaves || group->chunk)
        return damaged(table, "row group %d does not have the table's columns", group->number);
    group->chunk = calloc((size_t)table->columns + 1, sizeof *group->chunk);
    if (!group->chunk) return tri__table_no_memory(table);
    for (uint32_t i = 0; i < n; i++) {
        tri_parquet_chunk chunk;
        int type, c = file->column_of[i];
        read_chunk(in, &chunk, &type);
        if (in->failed) return damaged(table, "row group %d cannot be read", group->number);
        if (c < 0) continue;
        group->chunk[c] = chunk;
        if (!chunk.absent && !chunk.encrypted && type != file->column[c].type)
            return damaged(table, "column \"%.80s\" has another type in row group %d", table->name[c], group->number);
    }
    return TRI_OK;
}

static tri_status read_group(const tri_table *table, const tri_parquet *file, tri_thrift *in,
                             tri_parquet_group *group) {
    group->rows = -1;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 1) TRI_TRY(read_chunks(table, file, in, &field, group));
        else if (field.id == 3) group->rows = tri__thrift_integer(in, &field);
        else tri__thrift_skip(in, field.type);
    }
    if (in->failed || !group->chunk || group->rows < 0)
        return damaged(table, "row group %d cannot be read", group->number);
    if (group->rows > TRI_LIMIT_GROUP_ROWS)
        return tri__fail(TRI_DATA, "%s: row group %d has %lld rows, more than %d; write the file with smaller row "
                         "groups", table->path, group->number, (long long)group->rows, TRI_LIMIT_GROUP_ROWS);
    return TRI_OK;
}

static tri_status read_groups(tri_table *table, tri_parquet *file, tri_thrift *in, const tri_thrift_field *field) {
    uint32_t n = tri__thrift_list(in, field, TRI_THRIFT_STRUCT);
    if (!table->columns || file->group || in->failed) return damaged(table, "its row groups cannot be read");
    file->group = calloc((size_t)n + 1, sizeof *file->group);
    if (!file->group) return tri__table_no_memory(table);
    for (uint32_t i = 0; i < n; i++) {
        tri_parquet_group *group = &file->group[file->groups];
        group->number = (int)i + 1;
        tri_status status = read_group(table, file, in, group);
        if (status != TRI_OK || !group->rows) free(group->chunk), group->chunk = NULL;
        TRI_TRY(status);
        if (!group->rows) continue;
        TRI_TRY(tri__columns_add(table, group->rows, file->groups++, 0));
    }
    return TRI_OK;
}

static tri_status read_metadata(tri_table *table, tri_parquet *file, tri_thrift *in) {
    int64_t rows = -1;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 2) TRI_TRY(read_schema(table, file, in, &field));
        else if (field.id == 3) rows = tri__thrift_integer(in, &field);
        else if (field.id == 4) TRI_TRY(read_groups(table, file, in, &field));
        else tri__thrift_skip(in, field.type);
    }
    if (in->failed || !table->columns || !file->group || rows < 0) return damaged(table, "its footer cannot be read");
    if (rows != table->rows)
        return damaged(table, "its row groups have %lld rows, not %lld", (long long)table->rows, (long long)rows);
    return TRI_OK;
}

/* The last 8 bytes: the footer's length, and a mark. */
static tri_status find_footer(const tri_table *table, uint64_t *begin, size_t *size) {
    enum { MARK = 4, TAIL = 8 };
    uint8_t head[MARK] = {0}, tail[TAIL];
    if (table->source.size < MARK + TAIL)
        return damaged(table, "it has %llu bytes", (unsigned long long)table->source.size);
    TRI_TRY(tri__source_read(table, 0, (char *)head, MARK));
    TRI_TRY(tri__source_read(table, table->source.size - TAIL, (char *)tail, TAIL));
    if (!memcmp(head, "PARE", MARK) || !memcmp(tail + 4, "PARE", MARK))
        return tri__fail(TRI_DATA, "%s is an encrypted Parquet file whose footer cannot be read either; write it anew "
                         "without encryption", table->path);
    if (memcmp(head, "PAR1", MARK))
        return tri__fail(TRI_DATA, "%s does not begin as a Parquet file does (PAR1); if it is another kind of table, "
                         "give it the ending of that", table->path);
    if (memcmp(tail + 4, "PAR1", MARK))
        return damaged(table, "its end is missing: perhaps it was not written or copied completely");
    uint32_t length = tri__load32(tail);
    if (length > table->source.size - MARK - TAIL)
        return damaged(table, "its footer would have %u of the file's %llu bytes", length,
                       (unsigned long long)table->source.size);
    if (length > TRI_LIMIT_PARQUET_FOOTER)
        return tri__fail(TRI_DATA, "%s: a footer of %u bytes, more than %d; write the file with larger row groups",
                         table->path, length, TRI_LIMIT_PARQUET_FOOTER);
    *begin = table->source.size - TAIL - length, *size = length;
    return TRI_OK;
}

tri_status tri__parquet_footer(tri_table *table, tri_parquet *file) {
    uint64_t begin = 0;
    size_t size = 0;
    TRI_TRY(find_footer(table, &begin, &size));
    TRI_OWNED(tri__free_at) uint8_t *bytes = malloc(size + 1);
    if (!bytes) return tri__table_no_memory(table);
    TRI_TRY(tri__source_read(table, begin, (char *)bytes, size));
    return read_metadata(table, file, &(tri_thrift){.at = bytes, .end = bytes + size});
}
