/* arrow_image.c - the messages of a stream around arrays in memory. A batch begins anywhere in an array: of values with
 * a fixed width that is a pointer; bits are shifted unless a byte begins there, and offsets of texts, which have to
 * begin at 0, are copied; both a small part of what the texts are. */
#include "data/table/arrow_image.h"

#include "data/table/arrow.h"
#include "data/table/flat_write.h"

enum { ALIGN = 8, BITS_PER_BYTE = 8, VIEW_BYTES = 16 };

/* A type as the schema's message has it, and how its values are stored. */
typedef struct column_type {
    int number;
    char sizes[4];           /* of the fields of its table; 0: left out */
    int64_t value[3];
    const char *zone;        /* the second field, a text; NULL: it is none */
    tri_arrow_layout layout;
    int width;
} column_type;

/* What a batch's message will have. */
typedef struct batch {
    const char *name, *column; /* for messages */
    struct buffer {
        const void *bytes;
        uint64_t size;
        int owned;
    } *buffer;
    int64_t (*node)[2];      /* rows, nulls */
    int64_t *views;          /* buffers of each column of views */
    size_t buffers, nodes, view_columns, room_buffers, room_nodes, room_views;
} batch;

static tri_status no_memory(const char *name) { return tri__fail(TRI_RESOURCE, "%s: out of memory", name); }

/* ---- types ---- */

#define FIXED(begins, number, width, a, b, sizes) \
    {begins, {TRI_FLAT_##number, sizes, {a, b}, NULL, TRI_ARROW_FIXED, width}}
#define PLAIN(begins, number, layout, width) {begins, {TRI_FLAT_##number, "", {0}, NULL, TRI_ARROW_##layout, width}}
#define IN_UNITS(begins, number) \
    FIXED(begins "s", number, 8, 0, 0, "\2"), FIXED(begins "m", number, 8, 1, 0, "\2"), \
    FIXED(begins "u", number, 8, 2, 0, "\2"), FIXED(begins "n", number, 8, 3, 0, "\2")

/* Format strings of the C data interface, by what they begin with; decimals and bytes of a fixed width have numbers in
 * theirs. */
static const struct {
    const char *begins;
    column_type type;
} formats[] = {
    PLAIN("n", NIL, NULL, 0), PLAIN("b", BOOL, BITS, 0),
    FIXED("c", INT, 1, 8, 1, "\4\1"), FIXED("C", INT, 1, 8, 0, "\4\1"), FIXED("s", INT, 2, 16, 1, "\4\1"),
    FIXED("S", INT, 2, 16, 0, "\4\1"), FIXED("i", INT, 4, 32, 1, "\4\1"), FIXED("I", INT, 4, 32, 0, "\4\1"),
    FIXED("l", INT, 8, 64, 1, "\4\1"), FIXED("L", INT, 8, 64, 0, "\4\1"),
    FIXED("e", FLOATING, 2, 0, 0, "\2"), FIXED("f", FLOATING, 4, 1, 0, "\2"), FIXED("g", FLOATING, 8, 2, 0, "\2"),
    PLAIN("z", BINARY, TEXT, 4), PLAIN("u", UTF8, TEXT, 4), PLAIN("Z", LARGE_BINARY, TEXT, 8),
    PLAIN("U", LARGE_UTF8, TEXT, 8), PLAIN("vz", BINARY_VIEW, VIEWS, VIEW_BYTES),
    PLAIN("vu", UTF8_VIEW, VIEWS, VIEW_BYTES),
    FIXED("tdD", DATE, 4, 0, 0, "\2"), FIXED("tdm", DATE, 8, 1, 0, "\2"),
    FIXED("tts", TIME, 4, 0, 32, "\2\4"), FIXED("ttm", TIME, 4, 1, 32, "\2\4"),
    FIXED("ttu", TIME, 8, 2, 64, "\2\4"), FIXED("ttn", TIME, 8, 3, 64, "\2\4"),
    IN_UNITS("ts", TIMESTAMP), IN_UNITS("tD", DURATION), PLAIN("ti", INTERVAL, NESTED, 0),
    PLAIN("+l", LIST, NESTED, 0), PLAIN("+L", LARGE_LIST, NESTED, 0), PLAIN("+w:", FIXED_LIST, NESTED, 0),
    PLAIN("+s", STRUCT, NESTED, 0), PLAIN("+m", MAP, NESTED, 0), PLAIN("+u", UNION, NESTED, 0),
    PLAIN("+r", RUN_ENDS, NESTED, 0), PLAIN("+vl", LIST_VIEW, NESTED, 0), PLAIN("+vL", LARGE_LIST_VIEW, NESTED, 0)};

/* 0: the format is unknown. */
static int read_format(const char *f, column_type *out) {
    int precision, scale, bits = 128, width;
    if (f && sscanf(f, "d:%d,%d,%d", &precision, &scale, &bits) >= 2) {
        *out = (column_type){TRI_FLAT_DECIMAL, "\4\4\4", {precision, scale, bits}, NULL, TRI_ARROW_FIXED, bits / 8};
        return 1;
    }
    if (f && sscanf(f, "w:%d", &width) == 1) {
        *out = (column_type){TRI_FLAT_FIXED_BINARY, "\4", {width}, NULL, TRI_ARROW_FIXED, width};
        return width >= 0;
    }
    for (size_t i = 0; f && i < sizeof formats / sizeof *formats; i++) {
        if (!tri__text_begins(f, formats[i].begins)) continue;
        *out = formats[i].type;
        if (out->number == TRI_FLAT_TIMESTAMP && f[3] == ':' && f[4]) out->zone = f + 4, out->sizes[1] = 4;
        return 1;
    }
    return 0;
}

static tri_status type_of(const char *name, const char *column, const struct ArrowSchema *schema, column_type *out) {
    if (read_format(schema->format, out)) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: column \"%.80s\" has the Arrow format \"%.40s\", which this version does not know",
                     name, column, schema->format ? schema->format : "");
}

/* ---- pieces ---- */

/* Appends at the next multiple of 8. 0: out of memory; what is owned is then freed. */
static int append(tri_image *image, const void *bytes, uint64_t size, int owned) {
    image->size = (image->size + ALIGN - 1) / ALIGN * ALIGN;
    if (!size || !tri__grow(&image->piece, &image->room, image->pieces + 1, sizeof *image->piece)) {
        if (owned) free((void *)bytes);
        return !size;
    }
    image->piece[image->pieces++] = (struct tri_image_piece){image->size, size, bytes, owned};
    image->size += size;
    return 1;
}

void tri__image_free(tri_image *image) {
    for (size_t i = 0; i < image->pieces; i++)
        if (image->piece[i].owned) free((void *)image->piece[i].bytes);
    free(image->piece);
    *image = (tri_image){0};
}

void tri__image_read(const tri_image *image, uint64_t at, char *to, size_t size) {
    size_t low = 0, high = image->pieces;
    TRI_ASSERT(at <= image->size && size <= image->size - at);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (image->piece[middle].at <= at) low = middle;
        else high = middle;
    }
    for (; size && low < image->pieces; low++) {
        const struct tri_image_piece *piece = &image->piece[low];
        uint64_t gap = piece->at > at ? piece->at - at : 0, n = gap < size ? gap : size;
        memset(to, 0, (size_t)n);
        to += n, at += n, size -= (size_t)n;
        uint64_t inside = at - piece->at, left = inside < piece->size ? piece->size - inside : 0;
        n = left < size ? left : size;
        if (n) memcpy(to, (const char *)piece->bytes + inside, (size_t)n);
        to += n, at += n, size -= (size_t)n;
    }
    memset(to, 0, size);
}

/* ---- messages ---- */

/* Begins a message: its header's table, whose fields have these sizes. */
static size_t begin_message(tri_flat_out *out, int kind, const char *sizes, int slots, uint64_t body) {
    enum { V5 = 4 };
    tri__flat_zeros(out, 4);
    size_t message = tri__flat_table_begin(out, "\2\1\4\10", TRI_MESSAGE_SLOTS);
    tri__flat_refer(out, 0, message);
    tri__flat_write(out, tri__flat_field(out, message, TRI_MESSAGE_VERSION), V5, 2);
    tri__flat_write(out, tri__flat_field(out, message, TRI_MESSAGE_HEADER_TYPE), (uint64_t)kind, 1);
    tri__flat_write(out, tri__flat_field(out, message, TRI_MESSAGE_BODY), body, 8);
    size_t header = tri__flat_table_begin(out, sizes, slots);
    tri__flat_refer(out, tri__flat_field(out, message, TRI_MESSAGE_HEADER), header);
    return header;
}

static void free_message(tri_flat_out *out) { free(out->bytes); }

/* Appends a message's metadata; its body follows. */
static tri_status end_message(tri_image *image, tri_flat_out *out, const char *name) {
    uint32_t prefix[2] = {UINT32_MAX};
    tri__flat_align(out, 0, ALIGN);
    size_t size = out->size;
    tri__flat_zeros(out, sizeof prefix);
    if (out->failed) return no_memory(name);
    prefix[1] = (uint32_t)size;
    memmove(out->bytes + sizeof prefix, out->bytes, size);
    memcpy(out->bytes, prefix, sizeof prefix);
    return append(image, TRI_GIVE(out->bytes), out->size, 1) ? TRI_OK : no_memory(name);
}

static void put_type(tri_flat_out *out, size_t at, const column_type *type) {
    size_t table = tri__flat_table_begin(out, type->sizes, 3);
    tri__flat_refer(out, at, table);
    for (int i = 0; i < 3; i++)
        if (type->sizes[i] && !(i == 1 && type->zone))
            tri__flat_write(out, tri__flat_field(out, table, i), (uint64_t)type->value[i], (size_t)type->sizes[i]);
    if (type->zone) tri__flat_text(out, tri__flat_field(out, table, 1), type->zone);
}

/* at: what refers to the field. index: of the column, the number of its dictionary. */
static tri_status put_field(tri_flat_out *out, size_t at, const char *name, const tri_image_column *column, int index) {
    const struct ArrowSchema *values = column->schema->dictionary ? column->schema->dictionary : column->schema;
    column_type type, codes;
    TRI_TRY(type_of(name, column->name, values, &type));
    size_t field = tri__flat_table_begin(out, values == column->schema ? "\4\1\1\4\0\4" : "\4\1\1\4\4\4",
                                         TRI_FLAT_FIELD_SLOTS);
    tri__flat_refer(out, at, field);
    tri__flat_write(out, tri__flat_field(out, field, TRI_FLAT_FIELD_NULLABLE), 1, 1);
    tri__flat_write(out, tri__flat_field(out, field, TRI_FLAT_FIELD_TYPE_TYPE), (uint64_t)type.number, 1);
    tri__flat_text(out, tri__flat_field(out, field, TRI_FLAT_FIELD_NAME), column->name);
    put_type(out, tri__flat_field(out, field, TRI_FLAT_FIELD_TYPE), &type);
    tri__flat_vector_begin(out, tri__flat_field(out, field, TRI_FLAT_FIELD_CHILDREN), 0, 4);
    if (values == column->schema) return TRI_OK;
    TRI_TRY(type_of(name, column->name, column->schema, &codes));
    if (codes.number != TRI_FLAT_INT)
        return tri__fail(TRI_DATA, "%s: column \"%.80s\" has a dictionary, but its values are not whole numbers", name,
                         column->name);
    size_t encoding = tri__flat_table_begin(out, "\10\4", TRI_ENCODING_SLOTS);
    tri__flat_refer(out, tri__flat_field(out, field, TRI_FLAT_FIELD_DICTIONARY), encoding);
    tri__flat_write(out, tri__flat_field(out, encoding, TRI_ENCODING_ID), (uint64_t)index, 8);
    put_type(out, tri__flat_field(out, encoding, TRI_ENCODING_INDEX), &codes);
    return TRI_OK;
}

tri_status tri__image_schema(tri_image *image, const char *name, const tri_image_column *columns, int n_columns) {
    TRI_OWNED(free_message) tri_flat_out out = {0};
    size_t schema = begin_message(&out, TRI_HEADER_SCHEMA, "\2\4", TRI_SCHEMA_SLOTS, 0);
    size_t field = tri__flat_vector_begin(&out, tri__flat_field(&out, schema, TRI_SCHEMA_FIELDS), (size_t)n_columns, 4);
    for (int c = 0; c < n_columns; c++) TRI_TRY(put_field(&out, field + 4 * (size_t)c, name, &columns[c], c));
    return end_message(image, &out, name);
}

/* ---- batches ---- */

static tri_status contradicts(const batch *b, const char *what) {
    return tri__fail(TRI_DATA, "%s: column \"%.80s\": its Arrow array %s", b->name, b->column, what);
}

static tri_status add_buffer(batch *b, const void *bytes, uint64_t size, int owned) {
    if (!tri__grow(&b->buffer, &b->room_buffers, b->buffers + 1, sizeof *b->buffer)) {
        if (owned) free((void *)bytes);
        return no_memory(b->name);
    }
    b->buffer[b->buffers++] = (struct buffer){bytes, size, owned};
    return TRI_OK;
}

static tri_status add_node(batch *b, int64_t rows, int64_t nulls) {
    if (!tri__grow(&b->node, &b->room_nodes, b->nodes + 1, sizeof *b->node)) return no_memory(b->name);
    b->node[b->nodes][0] = rows, b->node[b->nodes++][1] = nulls;
    return TRI_OK;
}

/* n bits from bit `first`: as they are if a byte begins there, else shifted. */
static tri_status add_bits(batch *b, const uint8_t *bits, int64_t first, int64_t n) {
    size_t bytes = (size_t)(n + BITS_PER_BYTE - 1) / BITS_PER_BYTE;
    int shift = (int)(first % BITS_PER_BYTE);
    bits += first / BITS_PER_BYTE;
    if (!shift) return add_buffer(b, bits, bytes, 0);
    uint8_t *own = malloc(bytes + 1);
    if (!own) return no_memory(b->name);
    int64_t last = (shift + n - 1) / BITS_PER_BYTE; /* the last byte that may be read */
    for (size_t i = 0; i < bytes; i++)
        own[i] = (uint8_t)(bits[i] >> shift | ((int64_t)i < last ? bits[i + 1] << (BITS_PER_BYTE - shift) : 0));
    return add_buffer(b, own, bytes, 1);
}

static int64_t count_nulls(const uint8_t *bits, int64_t first, int64_t n) {
    int64_t nulls = 0;
    for (int64_t i = first; i < first + n; i++) nulls += !(bits[i / BITS_PER_BYTE] >> (i % BITS_PER_BYTE) & 1);
    return nulls;
}

/* Texts by offsets of `width` bytes. */
static tri_status add_texts(batch *b, const struct ArrowArray *array, int width, int64_t first, int64_t n) {
    const char *offsets = (const char *)array->buffers[1] + first * width, *data = array->buffers[2];
    int64_t begin = 0, end = 0;
    memcpy(&begin, offsets, (size_t)width);
    memcpy(&end, offsets + n * width, (size_t)width);
    if (begin < 0 || end < begin || (width == 4 && end > INT32_MAX) || (end > begin && !data))
        return contradicts(b, "has offsets that are wrong");
    if (!begin) {
        TRI_TRY(add_buffer(b, offsets, (uint64_t)(n + 1) * (uint64_t)width, 0));
        return add_buffer(b, data, (uint64_t)end, 0);
    }
    char *own = malloc((size_t)(n + 1) * (size_t)width);
    if (!own) return no_memory(b->name);
    for (int64_t i = 0; i <= n; i++) {
        int64_t offset = 0;
        memcpy(&offset, offsets + i * width, (size_t)width);
        offset -= begin; /* of 32 bits, modulo 2^32; wrong ones are found when they are read */
        memcpy(own + i * width, &offset, (size_t)width);
    }
    TRI_TRY(add_buffer(b, own, (uint64_t)(n + 1) * (uint64_t)width, 1));
    return add_buffer(b, data + begin, (uint64_t)(end - begin), 0);
}

/* Views, the buffers that they are of, whose sizes are in the last one. */
static tri_status add_views(batch *b, const struct ArrowArray *array, int64_t first, int64_t n) {
    int64_t more = array->n_buffers - 3;
    if (more < 0) return contradicts(b, "lacks buffers");
    const int64_t *sizes = array->buffers[array->n_buffers - 1];
    if (!tri__grow(&b->views, &b->room_views, b->view_columns + 1, sizeof *b->views)) return no_memory(b->name);
    b->views[b->view_columns++] = more;
    TRI_TRY(add_buffer(b, (const char *)array->buffers[1] + first * VIEW_BYTES, (uint64_t)n * VIEW_BYTES, 0));
    for (int64_t i = 0; i < more; i++) TRI_TRY(add_buffer(b, array->buffers[2 + i], (uint64_t)sizes[i], 0));
    return TRI_OK;
}

/* n values of an array from `first`, its own offset included. */
static tri_status add_values(batch *b, const column_type *type, const struct ArrowArray *array, int64_t first,
                             int64_t n) {
    const uint8_t *valid = array->n_buffers > 0 && type->layout != TRI_ARROW_NULL ? array->buffers[0] : NULL;
    int needs = type->layout == TRI_ARROW_TEXT ? 3 : type->layout == TRI_ARROW_NULL ? 0 : 2;
    if (type->layout == TRI_ARROW_NESTED) {
        TRI_TRY(add_node(b, n, 0));
        for (int i = tri__arrow_buffers(type->number); i > 0; i--) TRI_TRY(add_buffer(b, NULL, 0, 0));
        return TRI_OK;
    }
    if (array->n_buffers < needs || (needs && n && !array->buffers[1])) return contradicts(b, "lacks buffers");
    if (!array->null_count) valid = NULL;
    TRI_TRY(add_node(b, n, type->layout == TRI_ARROW_NULL ? n : valid ? count_nulls(valid, first, n) : 0));
    if (type->layout == TRI_ARROW_NULL) return TRI_OK;
    if (valid) TRI_TRY(add_bits(b, valid, first, n));
    else TRI_TRY(add_buffer(b, NULL, 0, 0));
    switch (type->layout) {
    case TRI_ARROW_BITS: return add_bits(b, array->buffers[1], first, n);
    case TRI_ARROW_TEXT: return add_texts(b, array, type->width, first, n);
    case TRI_ARROW_VIEWS: return add_views(b, array, first, n);
    default:
        return add_buffer(b, (const char *)array->buffers[1] + first * type->width, (uint64_t)n * (uint64_t)type->width,
                          0);
    }
}

static void free_batch(batch *b) {
    for (size_t i = 0; i < b->buffers; i++)
        if (b->buffer[i].owned) free((void *)b->buffer[i].bytes);
    TRI_FREE(b->buffer, b->node, b->views);
}

static uint64_t body_of(const batch *b) {
    uint64_t size = 0;
    for (size_t i = 0; i < b->buffers; i++) size += (b->buffer[i].size + ALIGN - 1) / ALIGN * ALIGN;
    return size;
}

static void put_batch(tri_flat_out *out, size_t table, const batch *b, int64_t rows) {
    tri__flat_write(out, tri__flat_field(out, table, TRI_BATCH_LENGTH), (uint64_t)rows, 8);
    size_t nodes = tri__flat_vector_begin(out, tri__flat_field(out, table, TRI_BATCH_NODES), b->nodes, TRI_NODE_BYTES);
    for (size_t i = 0; i < b->nodes; i++)
        for (int k = 0; k < 2; k++)
            tri__flat_write(out, nodes + TRI_NODE_BYTES * i + 8 * (size_t)k, (uint64_t)b->node[i][k], 8);
    size_t buffers = tri__flat_vector_begin(out, tri__flat_field(out, table, TRI_BATCH_BUFFERS), b->buffers,
                                            TRI_BUFFER_BYTES);
    uint64_t at = 0;
    for (size_t i = 0; i < b->buffers; i++) {
        tri__flat_write(out, buffers + TRI_BUFFER_BYTES * i, at, 8);
        tri__flat_write(out, buffers + TRI_BUFFER_BYTES * i + 8, b->buffer[i].size, 8);
        at += (b->buffer[i].size + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (!b->view_columns) return;
    size_t views = tri__flat_vector_begin(out, tri__flat_field(out, table, TRI_BATCH_VIEWS), b->view_columns, 8);
    for (size_t i = 0; i < b->view_columns; i++) tri__flat_write(out, views + 8 * i, (uint64_t)b->views[i], 8);
}

/* Appends a batch of the table, or of a dictionary's values (its number; -1: the table's), and takes its buffers. */
static tri_status append_batch(tri_image *image, batch *b, int64_t rows, int dictionary) {
    const char *sizes = b->view_columns ? "\10\4\4\0\4" : "\10\4\4\0\0";
    TRI_OWNED(free_message) tri_flat_out out = {0};
    size_t table;
    if (dictionary < 0) table = begin_message(&out, TRI_HEADER_BATCH, sizes, TRI_BATCH_SLOTS, body_of(b));
    else {
        size_t header = begin_message(&out, TRI_HEADER_DICTIONARY, "\10\4\1", TRI_DICTIONARY_SLOTS, body_of(b));
        tri__flat_write(&out, tri__flat_field(&out, header, TRI_DICTIONARY_ID), (uint64_t)dictionary, 8);
        table = tri__flat_table_begin(&out, sizes, TRI_BATCH_SLOTS);
        tri__flat_refer(&out, tri__flat_field(&out, header, TRI_DICTIONARY_DATA), table);
    }
    put_batch(&out, table, b, rows);
    TRI_TRY(end_message(image, &out, b->name));
    for (size_t i = 0; i < b->buffers; i++) {
        struct buffer given = b->buffer[i];
        b->buffer[i].owned = 0;
        if (!append(image, given.bytes, given.size, given.owned)) return no_memory(b->name);
    }
    image->size = (image->size + ALIGN - 1) / ALIGN * ALIGN;
    return TRI_OK;
}

/* The values of a column's dictionary, unless they are those of the batch before. */
static tri_status add_dictionary(tri_image *image, const char *name, tri_image_column *column, int index,
                                 const struct ArrowArray *array) {
    const struct ArrowArray *values = array->dictionary;
    TRI_OWNED(free_batch) batch b = {.name = name, .column = column->name};
    column_type type;
    if (!values) return contradicts(&b, "lacks its dictionary");
    if (values == column->dictionary) return TRI_OK;
    column->dictionary = values;
    TRI_TRY(type_of(name, column->name, column->schema->dictionary, &type));
    TRI_TRY(add_values(&b, &type, values, values->offset, values->length));
    return append_batch(image, &b, values->length, index);
}

tri_status tri__image_batch(tri_image *image, const char *name, tri_image_column *columns, int n_columns,
                            const tri_image_values *values, int64_t n) {
    TRI_OWNED(free_batch) batch b = {.name = name};
    for (int c = 0; c < n_columns; c++)
        if (columns[c].schema->dictionary) TRI_TRY(add_dictionary(image, name, &columns[c], c, values[c].array));
    for (int c = 0; c < n_columns; c++) {
        const struct ArrowArray *array = values[c].array;
        column_type type;
        b.column = columns[c].name;
        TRI_TRY(type_of(name, b.column, columns[c].schema, &type));
        if (values[c].first + n > array->length) return contradicts(&b, "is too short");
        TRI_TRY(add_values(&b, &type, array, array->offset + values[c].first, n));
    }
    return append_batch(image, &b, n, -1);
}
