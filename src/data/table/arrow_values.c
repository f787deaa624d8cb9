/* arrow_values.c - the values of Arrow batches as text, or as numbers. Of buffers that are not compressed only the
 * part of some rows is read; a compressed one is unpacked whole. What a buffer says (offsets, views, indices) is
 * checked before it is followed. */
#include "data/table/arrow.h"

#include <math.h>
#include <stdlib.h>

enum { RATIO = 1 << 15 };    /* the most that zstd can pack: 128 KiB of one byte in 4; lz4 less */
static const uint64_t LARGEST = (4ull << 30) - 1; /* bytes of a column's text, or of a buffer, that are in memory */

/* What is being read. */
typedef struct place {
    tri_column_place place;
    const tri_arrow_batch *batch;
} place;

/* Bytes of a buffer. */
typedef struct part {
    void *own;
    const uint8_t *at;
    uint64_t size;
} part;

static tri_status no_memory(const place *p) { return tri__table_no_memory(p->place.table); }

/* Reads bytes of the body. */
static tri_status read_body(const place *p, uint64_t at, uint64_t size, part *out) {
    if (size > LARGEST) return tri__column_fail(&p->place, "more than 4 GiB of text; write it in smaller batches");
    if (!(out->own = malloc((size_t)size + 1))) return no_memory(p);
    out->at = out->own, out->size = size;
    return tri__source_read(p->place.table, p->batch->body + at, out->own, (size_t)size);
}

/* Unpacks a buffer. Its first 8 bytes say how long it becomes; -1: it is not packed. */
static tri_status unpack(const place *p, const struct tri_arrow_buffer *buffer, part *out) {
    part packed = {0};
    int64_t size;
    if (buffer->size < 8) return tri__column_fail(&p->place, "a compressed buffer is too short");
    tri_status status = read_body(p, buffer->at, buffer->size, &packed);
    if (status == TRI_OK) memcpy(&size, packed.at, 8);
    if (status == TRI_OK && size == -1) {
        *out = (part){packed.own, packed.at + 8, packed.size - 8};
        return TRI_OK;
    }
    if (status == TRI_OK && (size < 0 || (uint64_t)size > LARGEST || (uint64_t)size / RATIO > packed.size))
        status = tri__column_fail(&p->place, "a buffer would unpack to more than 4 GiB, or to more than its bytes can");
    if (status == TRI_OK && !(out->own = malloc((size_t)size + 1))) status = no_memory(p);
    if (status == TRI_OK) {
        out->at = out->own, out->size = (uint64_t)size;
        status = tri__column_unpack(&p->place, p->batch->codec, packed.at + 8, (size_t)packed.size - 8, out->own,
                                    (size_t)size);
    }
    free(packed.own);
    return status;
}

/* Bytes [from, from + size) of a buffer; out->own is freed by the caller in any case. */
static tri_status read_part(const place *p, size_t index, uint64_t from, uint64_t size, part *out) {
    const struct tri_arrow_buffer *buffer = &p->batch->buffer[index];
    *out = (part){0};
    if (!size) {
        out->at = (const uint8_t *)"";
        return TRI_OK;
    }
    int packed = p->batch->codec != TRI_CODEC_NONE && buffer->size;
    if (packed) TRI_TRY(unpack(p, buffer, out));
    uint64_t whole = packed ? out->size : buffer->size;
    if (from > whole || size > whole - from) return tri__column_fail(&p->place, "a buffer is shorter than its values");
    if (!packed) return read_body(p, buffer->at + from, size, out);
    out->at += from, out->size = size;
    return TRI_OK;
}

/* Text that is being made. */
typedef struct writing {
    tri_column_buffer text;
    tri_field_span *field;         /* [rows] */
    size_t begin;            /* of the row's text */
} writing;

/* The row's text ends here. */
static void end_row(writing *w, int64_t row) {
    w->field[row] = (tri_field_span){(uint32_t)w->begin, (uint32_t)(w->text.used - w->begin)};
    w->begin = w->text.used;
}

/* Makes room for n more bytes. */
static tri_status reserve(const place *p, writing *w, size_t n) {
    if (w->text.used + n > LARGEST)
        return tri__column_fail(&p->place, "more than 4 GiB of text; write it in smaller batches");
    return tri__column_reserve(&w->text, n) ? TRI_OK : no_memory(p);
}

/* What a column's rows are read by: validity, and the values or offsets. */
typedef struct rows {
    int64_t first, n;
    part valid, values;      /* valid.at NULL: no nulls */
} rows;

static int is_null(const rows *r, int64_t i) {
    if (!r->valid.at) return 0;
    int64_t bit = r->first % 8 + i;
    return !(r->valid.at[bit / 8] >> (bit % 8) & 1);
}

/* Reads the validity of rows, if some may be null. */
static tri_status read_valid(const place *p, size_t node, size_t buffer, rows *r) {
    if (!p->batch->nulls[node] || !p->batch->buffer[buffer].size) return TRI_OK;
    int64_t from = r->first / 8, to = (r->first + r->n + 7) / 8;
    return read_part(p, buffer, (uint64_t)from, (uint64_t)(to - from), &r->valid);
}

/* Reads the rows' values, and only then makes room for as many texts: a file can say any number of rows. */
static tri_status begin(const place *p, size_t buffer, uint64_t from, uint64_t size, rows *r, writing *w) {
    TRI_TRY(read_part(p, buffer, from, size, &r->values));
    w->field = malloc((size_t)r->n * sizeof *w->field);
    return w->field ? reserve(p, w, 1) : no_memory(p);
}

static tri_status write_fixed(const place *p, const tri_arrow_type *type, size_t buffer, rows *r, writing *w) {
    size_t width = (size_t)type->values.width;
    TRI_TRY(begin(p, buffer, width * (uint64_t)r->first, width * (uint64_t)r->n, r, w));
    for (int64_t i = 0; i < r->n; i++) {
        TRI_TRY(reserve(p, w, tri__value_room(type->values.kind)));
        if (!is_null(r, i))
            w->text.used +=
                tri__value_text(&type->values, r->values.at + width * (size_t)i, width, w->text.at + w->text.used);
        end_row(w, i);
    }
    return TRI_OK;
}

static tri_status write_booleans(const place *p, size_t buffer, rows *r, writing *w) {
    int64_t from = r->first / 8, to = (r->first + r->n + 7) / 8;
    TRI_TRY(begin(p, buffer, (uint64_t)from, (uint64_t)(to - from), r, w));
    for (int64_t i = 0; i < r->n; i++) {
        int64_t bit = r->first % 8 + i;
        TRI_TRY(reserve(p, w, TRI_VALUE_TEXT));
        if (!is_null(r, i))
            w->text.used += tri__boolean_text(r->values.at[bit / 8] >> (bit % 8) & 1, w->text.at + w->text.used);
        end_row(w, i);
    }
    return TRI_OK;
}

/* A text's bytes are UTF-8 without 0 bytes, or it is an error. */
static tri_status check_text(const place *p, const rows *r, int64_t i, const char *text, size_t size) {
    if (tri__bytes_are_text(text, size)) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: column \"%.80s\", %s %lld, row %lld of it: bytes that are not text in UTF-8 (or a "
                     "0 byte)", p->place.table->path, p->place.table->name[p->place.column], p->place.what,
                     (long long)p->place.number, (long long)(r->first + i) + 1);
}

static tri_status append(const place *p, const rows *r, int64_t i, const void *text, size_t size, writing *w) {
    TRI_TRY(check_text(p, r, i, text, size));
    TRI_TRY(reserve(p, w, size));
    if (size) memcpy(w->text.at + w->text.used, text, size);
    w->text.used += size;
    return TRI_OK;
}

static tri_status write_bytes(const place *p, const tri_arrow_type *type, size_t buffer, rows *r, writing *w) {
    uint64_t width = (uint64_t)type->values.width;
    TRI_TRY(begin(p, buffer, width * (uint64_t)r->first, width * (uint64_t)r->n, r, w));
    for (int64_t i = 0; i < r->n; i++) {
        if (!is_null(r, i)) TRI_TRY(append(p, r, i, r->values.at + width * (uint64_t)i, (size_t)width, w));
        end_row(w, i);
    }
    return TRI_OK;
}

static uint64_t offset_at(const rows *r, int64_t i, const tri_arrow_type *type) {
    return (uint64_t)tri__value_integer(&type->values, r->values.at + (size_t)i * (size_t)type->values.width);
}

/* Texts by offsets: their bytes are taken as they are, and those of nulls closed up. */
static tri_status write_texts(const place *p, const tri_arrow_type *type, size_t buffer, rows *r, writing *w) {
    uint64_t width = (uint64_t)type->values.width;
    part data;
    TRI_TRY(begin(p, buffer, width * (uint64_t)r->first, width * (uint64_t)(r->n + 1), r, w));
    uint64_t base = offset_at(r, 0, type), last = base;
    for (int64_t i = 1; i <= r->n; i++) {
        uint64_t next = offset_at(r, i, type);
        if (next < last || next > INT64_MAX) return tri__column_fail(&p->place, "the offsets of its texts are wrong");
        last = next;
    }
    if (base > INT64_MAX) return tri__column_fail(&p->place, "the offsets of its texts are wrong");
    tri_status status = read_part(p, buffer + 1, base, last - base, &data);
    if (status == TRI_OK) status = reserve(p, w, (size_t)(last - base));
    for (int64_t i = 0; i < r->n && status == TRI_OK; i++) {
        uint64_t from = offset_at(r, i, type) - base, to = offset_at(r, i + 1, type) - base;
        if (!is_null(r, i)) status = append(p, r, i, data.at + from, (size_t)(to - from), w);
        end_row(w, i);
    }
    free(data.own);
    return status;
}

/* ---- views: 16 bytes a text, which hold it if it is short, else say where it is ---- */

enum { VIEW = 16, INLINE = 12 };

typedef struct view {
    uint32_t size;
    int32_t buffer, at;      /* where a long one is */
} view;

static view view_at(const rows *r, int64_t i) {
    view v;
    const uint8_t *at = r->values.at + VIEW * (size_t)i;
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

static tri_status find_viewed(const place *p, const rows *r, viewed *list, size_t n) {
    for (int64_t i = 0; i < r->n; i++) {
        view v = view_at(r, i);
        if (is_null(r, i) || v.size <= INLINE) continue;
        if (v.size > INT32_MAX || v.at < 0 || v.buffer < 0 || (size_t)v.buffer >= n)
            return tri__column_fail(&p->place, "a view leads outside its buffers");
        viewed *one = &list[v.buffer];
        uint64_t from = (uint64_t)v.at, to = from + v.size;
        one->from = one->to && one->from < from ? one->from : from;
        one->to = one->to > to ? one->to : to;
    }
    return TRI_OK;
}

static tri_status write_viewed(const place *p, const rows *r, const viewed *list, writing *w) {
    for (int64_t i = 0; i < r->n; i++) {
        view v = view_at(r, i);
        if (!is_null(r, i)) {
            const uint8_t *text = v.size <= INLINE
                                      ? r->values.at + VIEW * (size_t)i + 4
                                      : list[v.buffer].bytes.at + ((uint64_t)v.at - list[v.buffer].from);
            TRI_TRY(append(p, r, i, text, v.size, w));
        }
        end_row(w, i);
    }
    return TRI_OK;
}

static tri_status write_views(const place *p, size_t buffer, size_t n, rows *r, writing *w) {
    TRI_TRY(begin(p, buffer, VIEW * (uint64_t)r->first, VIEW * (uint64_t)r->n, r, w));
    viewed *list = calloc(n + 1, sizeof *list);
    if (!list) return no_memory(p);
    tri_status status = find_viewed(p, r, list, n);
    for (size_t i = 0; i < n && status == TRI_OK; i++)
        if (list[i].to) status = read_part(p, buffer + 1 + i, list[i].from, list[i].to - list[i].from, &list[i].bytes);
    if (status == TRI_OK) status = write_viewed(p, r, list, w);
    for (size_t i = 0; i < n; i++) free(list[i].bytes.own);
    free(list);
    return status;
}

/* ---- dictionaries ---- */

static tri_status load_values(const place *p, const tri_arrow_type *type, size_t node, size_t buffer, size_t views,
                              int64_t first, int64_t n, tri_column_text *out);

/* The dictionary's values, read on first use. */
static tri_status dictionary_text(const place *p, tri_arrow *arrow, tri_arrow_dictionary *d,
                                  const tri_column_text **out) {
    tri_column_text *text = atomic_load_explicit(&d->text, memory_order_acquire);
    tri_status status = TRI_OK;
    if (!text) {
        pthread_mutex_lock(&arrow->lock);
        text = atomic_load_explicit(&d->text, memory_order_relaxed);
        if (!text) {
            place inner = {{p->place.table, p->place.column, "dictionary", d - arrow->dictionary + 1}, &d->values};
            text = calloc(1, sizeof *text);
            status = text ? load_values(&inner, &d->type, 0, 0, d->values.views[d->type.layout == TRI_ARROW_VIEWS], 0,
                                        d->values.rows, text)
                          : no_memory(p);
            if (status == TRI_OK) atomic_store_explicit(&d->text, text, memory_order_release);
            else if (text) free(text->text), free(text->field), free(text);
        }
        pthread_mutex_unlock(&arrow->lock);
    }
    *out = status == TRI_OK ? text : NULL;
    return status;
}

/* The batches that make up the dictionary of an id at some point: the last whole one and what was added to it. */
typedef struct lookup {
    int64_t first, n;        /* its values' numbers */
    const tri_column_text *text;
} lookup;

static tri_status find_dictionary(const place *p, tri_arrow *arrow, int64_t id, lookup *list, size_t *n) {
    *n = 0;
    int64_t values = 0;
    for (size_t i = 0; i < p->batch->dictionaries; i++) {
        tri_arrow_dictionary *d = &arrow->dictionary[i];
        if (d->id != id) continue;
        if (!d->delta) *n = 0, values = 0;
        list[*n] = (lookup){values, d->values.rows, NULL};
        TRI_TRY(dictionary_text(p, arrow, d, &list[*n].text));
        values += d->values.rows, ++*n;
    }
    return TRI_OK;
}

static tri_status write_encoded(const place *p, const tri_arrow_column *c, size_t buffer, const lookup *list, size_t n,
                                rows *r, writing *w) {
    uint64_t width = (uint64_t)c->index.width;
    TRI_TRY(begin(p, buffer, width * (uint64_t)r->first, width * (uint64_t)r->n, r, w));
    for (int64_t i = 0; i < r->n; i++) {
        if (!is_null(r, i)) {
            int64_t index = tri__value_integer(&c->index, r->values.at + width * (uint64_t)i);
            size_t k = 0;
            while (k < n && index >= list[k].first + list[k].n) k++;
            if (index < 0 || k == n) return tri__column_fail(&p->place, "an index is beyond its dictionary");
            const tri_column_text *text = list[k].text;
            tri_field_span span = text->field ? text->field[index - list[k].first] : (tri_field_span){0, 0};
            TRI_TRY(reserve(p, w, span.length));
            if (span.length) memcpy(w->text.at + w->text.used, text->text + span.begin, span.length);
            w->text.used += span.length;
        }
        end_row(w, i);
    }
    return TRI_OK;
}

/* ---- columns ---- */

/* Ends the writing: what was written becomes `out`, also if it failed. */
static tri_status give(tri_status status, rows *r, writing *w, tri_column_text *out) {
    free(r->valid.own);
    free(r->values.own);
    out->text = w->text.at, out->field = w->field;
    out->bytes = w->text.room + (w->field ? (size_t)r->n * sizeof *w->field : 0);
    return status;
}

static tri_status load_values(const place *p, const tri_arrow_type *type, size_t node, size_t buffer, size_t views,
                              int64_t first, int64_t n, tri_column_text *out) {
    rows r = {.first = first, .n = n};
    writing w = {0};
    if (type->layout == TRI_ARROW_NULL || !n) return TRI_OK; /* no text at all: every field is empty */
    tri_status status = read_valid(p, node, buffer, &r);
    if (status == TRI_OK) switch (type->layout) {
        case TRI_ARROW_BITS: status = write_booleans(p, buffer + 1, &r, &w); break;
        case TRI_ARROW_BYTES: status = write_bytes(p, type, buffer + 1, &r, &w); break;
        case TRI_ARROW_TEXT: status = write_texts(p, type, buffer + 1, &r, &w); break;
        case TRI_ARROW_VIEWS: status = write_views(p, buffer + 1, views, &r, &w); break;
        default: status = write_fixed(p, type, buffer + 1, &r, &w); break;
        }
    return give(status, &r, &w, out);
}

static tri_status load_encoded(const place *p, tri_arrow *arrow, const tri_arrow_column *c, size_t buffer,
                               int64_t first, int64_t n, tri_column_text *out) {
    rows r = {.first = first, .n = n};
    writing w = {0};
    size_t lookups = 0;
    lookup *list = malloc((p->batch->dictionaries + 1) * sizeof *list);
    tri_status status = list ? read_valid(p, c->node, buffer, &r) : no_memory(p);
    if (status == TRI_OK) status = find_dictionary(p, arrow, c->dictionary, list, &lookups);
    if (status == TRI_OK) status = write_encoded(p, c, buffer + 1, list, lookups, &r, &w);
    free(list);
    return give(status, &r, &w, out);
}

int tri__arrow_has_numbers(const void *state, int column) {
    const tri_arrow_column *c = &((const tri_arrow *)state)->column[column];
    return !c->encoded && tri__value_is_number(c->type.values.kind);
}

/* Doubles in the place of the fields. */
static tri_status load_numbers(const place *p, const tri_arrow_column *c, size_t buffer, int64_t first, int64_t n,
                               tri_column_text *out) {
    _Static_assert(sizeof(tri_field_span) == sizeof(double), "a number lies where a field does");
    rows r = {.first = first, .n = n};
    writing w = {0};
    size_t width = (size_t)c->type.values.width;
    tri_status status = read_valid(p, c->node, buffer, &r);
    if (status == TRI_OK)
        status = read_part(p, buffer + 1, width * (uint64_t)first, width * (uint64_t)n, &r.values);
    if (status == TRI_OK && !(w.field = malloc((size_t)n * sizeof *w.field))) status = no_memory(p);
    for (int64_t i = 0; i < n && status == TRI_OK; i++) {
        const uint8_t *at = r.values.at + width * (size_t)i;
        double number = is_null(&r, i) ? NAN : tri__value_number(&c->type.values, at, width);
        memcpy(&w.field[i], &number, sizeof number);
    }
    return give(status, &r, &w, out);
}

tri_status tri__arrow_load(const tri_table *table, void *state, const tri_column_group *group, int column,
                           int as_numbers, tri_column_text *out) {
    tri_arrow *arrow = state;
    const tri_arrow_column *c = &arrow->column[column];
    const tri_arrow_batch *batch = &arrow->batch[group->of];
    place p = {{table, column, "batch", group->of + 1}, batch};
    size_t buffer = c->buffer + batch->views[c->view];
    if (as_numbers) return load_numbers(&p, c, buffer, group->from, group->rows, out);
    if (c->encoded) return load_encoded(&p, arrow, c, buffer, group->from, group->rows, out);
    size_t views = c->type.layout == TRI_ARROW_VIEWS ? batch->views[c->view + 1] - batch->views[c->view] : 0;
    return load_values(&p, &c->type, c->node, buffer, views, group->from, group->rows, out);
}
