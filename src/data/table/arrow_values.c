/* arrow_values.c - the values of Arrow batches as text, or as numbers. Of buffers that are not compressed only the
 * part of some rows is read; a compressed one is unpacked whole. What a buffer says (offsets, views, indices) is
 * checked before it is followed. */
#include "data/table/arrow.h"

enum { RATIO = 1 << 15 };    /* the most that zstd can pack: 128 KiB of one byte in 4; lz4 less */
static const uint64_t LARGEST = (4ull << 30) - 1; /* bytes of a column's text, or of a buffer, that are in memory */

/* Bytes of a buffer. */
typedef struct part {
    void *own;
    const uint8_t *at;
    uint64_t size;
} part;

static void free_part(part *p) { free(p->own); }

/* Some rows of a column, or the values of a dictionary, while they are read. */
typedef struct reading {
    tri_column_place place;
    const tri_arrow_batch *batch;
    tri_arrow_type type;
    size_t node, buffer;     /* its first ones in the batch */
    int64_t first, n;        /* rows */
    part valid, values;      /* valid.at NULL: no nulls; values: or offsets, views, indices */
    tri_column_buffer text;
    tri_field_span *field;   /* [n] */
} reading;

static tri_status no_memory(const reading *r) { return tri__table_no_memory(r->place.table); }

static tri_status too_long(const reading *r) {
    return tri__column_fail(&r->place, "more than 4 GiB of text; write it in smaller batches");
}

/* Reads bytes of the body. */
static tri_status read_body(const reading *r, uint64_t at, uint64_t size, part *out) {
    if (size > LARGEST) return too_long(r);
    if (!(out->own = malloc((size_t)size + 1))) return no_memory(r);
    out->at = out->own, out->size = size;
    return tri__source_read(r->place.table, r->batch->body + at, out->own, (size_t)size);
}

/* Unpacks a buffer. Its first 8 bytes say how long it becomes; -1: it is not packed. */
static tri_status unpack(const reading *r, const struct tri_arrow_buffer *buffer, part *out) {
    TRI_OWNED(free_part) part packed = {0};
    int64_t size;
    if (buffer->size < 8) return tri__column_fail(&r->place, "a compressed buffer is too short");
    TRI_TRY(read_body(r, buffer->at, buffer->size, &packed));
    memcpy(&size, packed.at, 8);
    if (size == -1) {
        *out = (part){TRI_GIVE(packed.own), packed.at + 8, packed.size - 8};
        return TRI_OK;
    }
    if (size < 0 || (uint64_t)size > LARGEST || (uint64_t)size / RATIO > packed.size)
        return tri__column_fail(&r->place, "a buffer would unpack to more than 4 GiB, or to more than its bytes can");
    if (!(out->own = malloc((size_t)size + 1))) return no_memory(r);
    out->at = out->own, out->size = (uint64_t)size;
    return tri__column_unpack(&r->place, r->batch->codec, packed.at + 8, (size_t)packed.size - 8, out->own,
                              (size_t)size);
}

/* Bytes [from, from + size) of a buffer; out->own is freed by the caller in any case. */
static tri_status read_part(const reading *r, size_t index, uint64_t from, uint64_t size, part *out) {
    const struct tri_arrow_buffer *buffer = &r->batch->buffer[index];
    *out = (part){0};
    if (!size) {
        out->at = (const uint8_t *)"";
        return TRI_OK;
    }
    int packed = r->batch->codec != TRI_CODEC_NONE && buffer->size;
    if (packed) TRI_TRY(unpack(r, buffer, out));
    uint64_t whole = packed ? out->size : buffer->size;
    if (from > whole || size > whole - from) return tri__column_fail(&r->place, "a buffer is shorter than its values");
    if (!packed) return read_body(r, buffer->at + from, size, out);
    out->at += from, out->size = size;
    return TRI_OK;
}

/* Reads validity, if some rows may be null, and values; only then makes room for as many fields: a file can say any
 * number of rows. */
static tri_status read_rows(reading *r) {
    uint64_t first = (uint64_t)r->first, n = (uint64_t)r->n, width = (uint64_t)r->type.values.width;
    uint64_t bits = first / 8, bytes = (first + n + 7) / 8 - bits; /* of a bit for each row */
    if (r->batch->nulls[r->node] && r->batch->buffer[r->buffer].size)
        TRI_TRY(read_part(r, r->buffer, bits, bytes, &r->valid));
    if (r->type.layout == TRI_ARROW_BITS) TRI_TRY(read_part(r, r->buffer + 1, bits, bytes, &r->values));
    else
        TRI_TRY(read_part(r, r->buffer + 1, width * first, width * (n + (r->type.layout == TRI_ARROW_TEXT)),
                          &r->values));
    r->field = malloc((size_t)n * sizeof *r->field);
    return r->field ? TRI_OK : no_memory(r);
}

static int bit_of(const reading *r, const part *bits, int64_t i) {
    int64_t bit = r->first % 8 + i;
    return bits->at[bit / 8] >> (bit % 8) & 1;
}

static int is_null(const reading *r, int64_t i) { return r->valid.at && !bit_of(r, &r->valid, i); }

static const uint8_t *value_at(const reading *r, int64_t i) {
    return r->values.at + (size_t)r->type.values.width * (size_t)i;
}

/* Makes room for n more bytes of text. */
static tri_status reserve(reading *r, size_t n) {
    if (r->text.used + n > LARGEST) return too_long(r);
    return tri__column_reserve(&r->text, n) ? TRI_OK : no_memory(r);
}

static tri_status append(reading *r, const void *text, size_t size) {
    TRI_TRY(reserve(r, size));
    if (size) memcpy(r->text.at + r->text.used, text, size);
    r->text.used += size;
    return TRI_OK;
}

/* A text's bytes are UTF-8 without 0 bytes, or it is an error. */
static tri_status append_text(reading *r, int64_t i, const void *text, size_t size) {
    if (tri__bytes_are_text(text, size)) return append(r, text, size);
    return tri__fail(TRI_DATA, "%s: column \"%.80s\", %s %lld, row %lld of it: bytes that are not text in UTF-8 (or a "
                     "0 byte)", r->place.table->path, r->place.table->name[r->place.column], r->place.what,
                     (long long)r->place.number, (long long)(r->first + i) + 1);
}

/* Appends the text of row i, which is not null. */
typedef tri_status put_row(reading *r, const void *with, int64_t i);

static tri_status write_rows(reading *r, put_row *put, const void *with) {
    TRI_TRY(reserve(r, 1));
    for (int64_t i = 0; i < r->n; i++) {
        size_t begin = r->text.used;
        if (!is_null(r, i)) TRI_TRY(put(r, with, i));
        r->field[i] = (tri_field_span){(uint32_t)begin, (uint32_t)(r->text.used - begin)};
    }
    return TRI_OK;
}

static tri_status put_fixed(reading *r, const void *with, int64_t i) {
    (void)with;
    const tri_value_type *type = &r->type.values;
    TRI_TRY(reserve(r, tri__value_room(type->kind)));
    r->text.used += tri__value_text(type, value_at(r, i), (size_t)type->width, r->text.at + r->text.used);
    return TRI_OK;
}

static tri_status put_bit(reading *r, const void *with, int64_t i) {
    (void)with;
    TRI_TRY(reserve(r, TRI_VALUE_TEXT));
    r->text.used += tri__boolean_text(bit_of(r, &r->values, i), r->text.at + r->text.used);
    return TRI_OK;
}

static tri_status put_bytes(reading *r, const void *with, int64_t i) {
    (void)with;
    return append_text(r, i, value_at(r, i), (size_t)r->type.values.width);
}

/* ---- texts by offsets: their bytes are taken as they are, and those of nulls closed up ---- */

static uint64_t offset_at(const reading *r, int64_t i) {
    return (uint64_t)tri__value_integer(&r->type.values, value_at(r, i));
}

static tri_status put_text(reading *r, const void *data, int64_t i) {
    uint64_t from = offset_at(r, i);
    return append_text(r, i, ((const part *)data)->at + (from - offset_at(r, 0)), (size_t)(offset_at(r, i + 1) - from));
}

static tri_status write_texts(reading *r) {
    TRI_OWNED(free_part) part data = {0};
    uint64_t base = offset_at(r, 0), last = base;
    int wrong = base > INT64_MAX;
    for (int64_t i = 1; i <= r->n && !wrong; i++) {
        uint64_t next = offset_at(r, i);
        wrong = next < last || next > INT64_MAX;
        last = next;
    }
    if (wrong) return tri__column_fail(&r->place, "the offsets of its texts are wrong");
    TRI_TRY(read_part(r, r->buffer + 2, base, last - base, &data));
    TRI_TRY(reserve(r, (size_t)(last - base)));
    return write_rows(r, put_text, &data);
}

/* ---- views: 16 bytes a text, which hold it if it is short, else say where it is ---- */

enum { INLINE = 12 };

typedef struct view {
    uint32_t size;
    int32_t buffer, at;      /* where a long one is */
} view;

static view view_at(const reading *r, int64_t i) {
    view v;
    const uint8_t *at = value_at(r, i);
    memcpy(&v.size, at, 4);
    memcpy(&v.buffer, at + 8, 4);
    memcpy(&v.at, at + 12, 4);
    return v;
}

/* The part of each buffer that the rows need. */
typedef struct viewed {
    uint64_t from, to;
    part bytes;
} viewed;

static tri_status find_viewed(const reading *r, viewed *list, size_t n) {
    for (int64_t i = 0; i < r->n; i++) {
        view v = view_at(r, i);
        if (is_null(r, i) || v.size <= INLINE) continue;
        if (v.size > INT32_MAX || v.at < 0 || v.buffer < 0 || (size_t)v.buffer >= n)
            return tri__column_fail(&r->place, "a view leads outside its buffers");
        viewed *one = &list[v.buffer];
        uint64_t from = (uint64_t)v.at, to = from + v.size;
        one->from = one->to && one->from < from ? one->from : from;
        one->to = one->to > to ? one->to : to;
    }
    return TRI_OK;
}

static tri_status put_view(reading *r, const void *list, int64_t i) {
    view v = view_at(r, i);
    if (v.size <= INLINE) return append_text(r, i, value_at(r, i) + 4, v.size);
    const viewed *in = (const viewed *)list + v.buffer;
    return append_text(r, i, in->bytes.at + ((uint64_t)v.at - in->from), v.size);
}

static tri_status write_views(reading *r, size_t n) {
    TRI_OWNED(tri__free_at) viewed *list = calloc(n + 1, sizeof *list);
    if (!list) return no_memory(r);
    tri_status status = find_viewed(r, list, n);
    for (size_t i = 0; i < n && status == TRI_OK; i++)
        if (list[i].to)
            status = read_part(r, r->buffer + 2 + i, list[i].from, list[i].to - list[i].from, &list[i].bytes);
    if (status == TRI_OK) status = write_rows(r, put_view, list);
    for (size_t i = 0; i < n; i++) free(list[i].bytes.own);
    return status;
}

/* ---- columns ---- */

/* views: buffers of them. */
static tri_status write_values(reading *r, size_t views) {
    TRI_TRY(read_rows(r));
    switch (r->type.layout) {
    case TRI_ARROW_BITS: return write_rows(r, put_bit, NULL);
    case TRI_ARROW_BYTES: return write_rows(r, put_bytes, NULL);
    case TRI_ARROW_TEXT: return write_texts(r);
    case TRI_ARROW_VIEWS: return write_views(r, views);
    default: return write_rows(r, put_fixed, NULL);
    }
}

/* Ends the reading: what was written becomes `out`, also if it failed. */
static tri_status give(tri_status status, reading *r, tri_column_text *out) {
    TRI_FREE(r->valid.own, r->values.own);
    out->text = r->text.at, out->field = r->field;
    out->bytes = r->text.room + (r->field ? (size_t)r->n * sizeof *r->field : 0);
    return status;
}

static tri_status load_values(reading *r, size_t views, tri_column_text *out) {
    if (r->type.layout == TRI_ARROW_NULL || !r->n) return TRI_OK; /* no text at all: every field is empty */
    return give(write_values(r, views), r, out);
}

/* Doubles in the place of the fields. */
static tri_status load_numbers(reading *r, tri_column_text *out) {
    _Static_assert(sizeof(tri_field_span) == sizeof(double), "a number lies where a field does");
    const tri_value_type *type = &r->type.values;
    tri_status status = read_rows(r);
    for (int64_t i = 0; i < r->n && status == TRI_OK; i++) {
        double number = is_null(r, i) ? NAN : tri__value_number(type, value_at(r, i), (size_t)type->width);
        memcpy(&r->field[i], &number, sizeof number);
    }
    return give(status, r, out);
}

/* ---- dictionaries ---- */

/* The dictionary's values, read on first use. */
static tri_status dictionary_text(const reading *r, tri_arrow *arrow, tri_arrow_dictionary *d,
                                  const tri_column_text **out) {
    tri_column_text *text = atomic_load_explicit(&d->text, memory_order_acquire);
    tri_status status = TRI_OK;
    if (!text) {
        TRI_LOCKED(&arrow->lock);
        text = atomic_load_explicit(&d->text, memory_order_relaxed);
        if (!text) {
            reading inner = {.place = r->place, .batch = &d->values, .type = d->type, .n = d->values.rows};
            inner.place.what = "dictionary", inner.place.number = d - arrow->dictionary + 1;
            text = calloc(1, sizeof *text);
            status = text ? load_values(&inner, d->values.views[d->type.layout == TRI_ARROW_VIEWS], text)
                          : no_memory(r);
            if (status == TRI_OK) atomic_store_explicit(&d->text, text, memory_order_release);
            else if (text) free(text->text), free(text->field), free(text);
        }
    }
    *out = status == TRI_OK ? text : NULL;
    return status;
}

/* The batches that make up the dictionary of an id at some point: the last whole one and what was added to it. */
typedef struct lookup {
    size_t n;
    struct {
        int64_t first, n;    /* its values' numbers */
        const tri_column_text *text;
    } of[];
} lookup;

static tri_status find_dictionary(const reading *r, tri_arrow *arrow, int64_t id, lookup *list) {
    int64_t values = 0;
    list->n = 0;
    for (size_t i = 0; i < r->batch->dictionaries; i++) {
        tri_arrow_dictionary *d = &arrow->dictionary[i];
        if (d->id != id) continue;
        if (!d->delta) list->n = 0, values = 0;
        list->of[list->n].first = values, list->of[list->n].n = d->values.rows;
        TRI_TRY(dictionary_text(r, arrow, d, &list->of[list->n++].text));
        values += d->values.rows;
    }
    return TRI_OK;
}

static tri_status put_encoded(reading *r, const void *with, int64_t i) {
    const lookup *list = with;
    int64_t index = tri__value_integer(&r->type.values, value_at(r, i));
    size_t k = 0;
    while (k < list->n && index >= list->of[k].first + list->of[k].n) k++;
    if (index < 0 || k == list->n) return tri__column_fail(&r->place, "an index is beyond its dictionary");
    const tri_column_text *text = list->of[k].text;
    if (!text->field) return TRI_OK;
    tri_field_span span = text->field[index - list->of[k].first];
    return append(r, text->text + span.begin, span.length);
}

static tri_status load_encoded(reading *r, tri_arrow *arrow, int64_t id, tri_column_text *out) {
    TRI_OWNED(tri__free_at) lookup *list = malloc(sizeof *list + (r->batch->dictionaries + 1) * sizeof list->of[0]);
    tri_status status = list ? read_rows(r) : no_memory(r);
    if (status == TRI_OK) status = find_dictionary(r, arrow, id, list);
    if (status == TRI_OK) status = write_rows(r, put_encoded, list);
    return give(status, r, out);
}

int tri__arrow_has_numbers(const void *state, int column) {
    const tri_arrow_column *c = &((const tri_arrow *)state)->column[column];
    return !c->encoded && tri__value_is_number(c->type.values.kind);
}

tri_status tri__arrow_load(const tri_table *table, void *state, const tri_column_group *group, int column,
                           int as_numbers, tri_column_text *out) {
    tri_arrow *arrow = state;
    const tri_arrow_column *c = &arrow->column[column];
    const tri_arrow_batch *batch = &arrow->batch[group->of];
    reading r = {.place = {table, column, "batch", group->of + 1}, .batch = batch, .type = c->type, .node = c->node,
                 .buffer = c->buffer + batch->views[c->view], .first = group->from, .n = group->rows};
    if (as_numbers) return load_numbers(&r, out);
    if (c->encoded) {
        r.type = (tri_arrow_type){TRI_ARROW_FIXED, c->index};
        return load_encoded(&r, arrow, c->dictionary, out);
    }
    size_t views = c->type.layout == TRI_ARROW_VIEWS ? batch->views[c->view + 1] - batch->views[c->view] : 0;
    return load_values(&r, views, out);
}
