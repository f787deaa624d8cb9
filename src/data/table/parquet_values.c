/* parquet_values.c - a page's values as fields of text, by encoding. Texts stay where they were unpacked; numbers are
 * rendered behind them, or, where only numbers are wanted, become doubles in the place of the fields. */
#include "data/table/parquet.h"

tri_status tri__parquet_text_room(tri_parquet_reader *r, uint64_t more) {
    if (more > UINT32_MAX - r->text.used)
        return tri__column_fail(&r->place,
                                "more than 4 GiB of text in one row group; write the file with smaller row groups");
    return tri__column_reserve(&r->text, (size_t)more) ? TRI_OK : tri__parquet_no_memory(r);
}

static tri_status check_text(const tri_parquet_reader *r, tri_field_span span) {
    if (span.length > TRI_LIMIT_CSV_ROW)
        return tri__column_fail(&r->place, "a value has %u bytes, more than the %d that a field may have", span.length,
                                TRI_LIMIT_CSV_ROW);
    if (!tri__bytes_are_text(r->text.at + span.begin, span.length))
        return tri__column_fail(&r->place, "a value is not UTF-8 text%s; leave the column out, or write it as text",
                                memchr(r->text.at + span.begin, 0, span.length) ? " (it has a 0 byte)" : "");
    return TRI_OK;
}

int tri__parquet_has_numbers(const void *state, int column) {
    return tri__value_is_number(((const tri_parquet *)state)->column[column].values.kind);
}

static inline void put_number(double number, tri_field_span *out) { memcpy(out, &number, sizeof *out); }

/* Numbers of n values that stand `stride` bytes apart; the usual kinds in loops of their own. */
static void take_numbers(const tri_value_type *type, const uint8_t *bytes, size_t stride, int64_t n,
                         tri_field_span *out) {
    _Static_assert(sizeof(tri_field_span) == sizeof(double), "a number lies where a field does");
    int whole = type->kind == TRI_VALUES_SIGNED && stride == (size_t)type->bits / 8;
    if (type->kind == TRI_VALUES_FLOATS && type->width == 8) memcpy(out, bytes, (size_t)n * sizeof *out);
    else if (whole && type->bits == 64)
        for (int64_t i = 0; i < n; i++) put_number((double)(int64_t)tri__load64(bytes + 8 * i), &out[i]);
    else if (whole && type->bits == 32)
        for (int64_t i = 0; i < n; i++) put_number((double)(int32_t)tri__load32(bytes + 4 * i), &out[i]);
    else
        for (int64_t i = 0; i < n; i++)
            put_number(tri__value_number(type, bytes + (size_t)i * stride, (size_t)type->width), &out[i]);
}

/* Renders n values that stand `stride` bytes apart, or takes them as numbers. */
static tri_status render(tri_parquet_reader *r, const uint8_t *bytes, size_t stride, int64_t n, tri_field_span *out) {
    enum { BATCH = 1024 };
    const tri_value_type *type = &r->column->values;
    if (r->as_numbers) {
        take_numbers(type, bytes, stride, n, out);
        return TRI_OK;
    }
    for (int64_t first = 0; first < n; first += BATCH) {
        int64_t end = first + BATCH < n ? first + BATCH : n;
        TRI_TRY(tri__parquet_text_room(r, (uint64_t)(end - first) * tri__value_room(type->kind)));
        for (int64_t i = first; i < end; i++) {
            size_t length = tri__value_text(type, bytes + (size_t)i * stride, (size_t)type->width,
                                            r->text.at + r->text.used);
            out[i] = (tri_field_span){(uint32_t)r->text.used, (uint32_t)length};
            r->text.used += length;
        }
    }
    return TRI_OK;
}

/* Bytes that were found in the text become fields: texts are checked, other kinds rendered or taken as numbers. */
static tri_status finish_bytes(tri_parquet_reader *r, tri_field_span *out, int64_t n) {
    const tri_value_type *type = &r->column->values;
    for (int64_t i = 0; i < n; i++) {
        if (type->kind == TRI_VALUES_TEXTS) {
            TRI_TRY(check_text(r, out[i]));
            continue;
        }
        uint8_t bytes[TRI_DECIMAL_BYTES];
        if (out[i].length > sizeof bytes)
            return tri__column_fail(&r->place, "a decimal has %u bytes, more than the %d that are read", out[i].length,
                                    TRI_DECIMAL_BYTES);
        memcpy(bytes, r->text.at + out[i].begin, out[i].length); /* the text may move */
        if (r->as_numbers) {
            put_number(tri__value_number(type, bytes, out[i].length), &out[i]);
            continue;
        }
        TRI_TRY(tri__parquet_text_room(r, TRI_VALUE_TEXT));
        size_t length = tri__value_text(type, bytes, out[i].length, r->text.at + r->text.used);
        out[i] = (tri_field_span){(uint32_t)r->text.used, (uint32_t)length};
        r->text.used += length;
    }
    return TRI_OK;
}

static tri_status too_short(const tri_parquet_reader *r) {
    return tri__column_fail(&r->place, "a page ends before its values do: the file is damaged; get it again");
}

static tri_status plain_bytes(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t at = 0;
    for (int64_t i = 0; i < v->n; i++) {
        if (v->size - at < 4) return too_short(r);
        uint32_t length = tri__load32(v->bytes + at);
        at += 4;
        if (length > v->size - at) return too_short(r);
        out[i] = (tri_field_span){(uint32_t)(v->begin + at), length};
        at += length;
    }
    return finish_bytes(r, out, v->n);
}

static tri_status plain_fixed(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t width = (size_t)r->column->values.width;
    if (v->size / width < (uint64_t)v->n) return too_short(r);
    if (r->column->type != PQ_FIXED) return render(r, v->bytes, width, v->n, out);
    for (int64_t i = 0; i < v->n; i++)
        out[i] = (tri_field_span){(uint32_t)(v->begin + (size_t)i * width), (uint32_t)width};
    return finish_bytes(r, out, v->n);
}

static tri_status boolean_words(tri_parquet_reader *r, tri_field_span word[2]) {
    static const char words[] = "falsetrue";
    TRI_TRY(tri__parquet_text_room(r, sizeof words));
    memcpy(r->text.at + r->text.used, words, sizeof words - 1);
    word[0] = (tri_field_span){(uint32_t)r->text.used, 5};
    word[1] = (tri_field_span){(uint32_t)r->text.used + 5, 4};
    r->text.used += sizeof words - 1;
    return TRI_OK;
}

static tri_status plain_booleans(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    tri_field_span word[2];
    if (v->size < ((uint64_t)v->n + 7) / 8) return too_short(r);
    TRI_TRY(boolean_words(r, word));
    for (int64_t i = 0; i < v->n; i++) out[i] = word[v->bytes[i >> 3] >> (i & 7) & 1];
    return TRI_OK;
}

/* Numbers in runs, each of which stands for one of `of` [count]. */
static tri_status choose(const tri_parquet_reader *r, tri_parquet_runs *runs, int64_t n, const tri_field_span *of,
                         uint32_t count, tri_field_span *out) {
    tri_parquet_run run;
    for (int64_t at = 0; at < n;) {
        if (!tri__parquet_run(runs, &run) || !run.count) return too_short(r);
        int64_t some = run.count < (uint64_t)(n - at) ? (int64_t)run.count : n - at;
        uint32_t largest = run.packed ? 0 : run.value;
        if (run.packed && !runs->width) run.packed = 0, run.value = 0;
        if (!run.packed) {
            for (int64_t i = 0; i < some && largest < count; i++) out[at + i] = of[largest];
        } else {
            for (int64_t i = 0; i < some; i++) {
                uint32_t index = tri__bits_at(run.bits, (uint64_t)i * (uint64_t)runs->width, runs->width);
                if (index > largest) largest = index;
                out[at + i] = of[index < count ? index : 0];
            }
        }
        if (largest >= count)
            return tri__column_fail(&r->place, "value %u of a dictionary of %u: the file is damaged; get it again",
                                    largest, count);
        at += some;
    }
    return TRI_OK;
}

static tri_status run_booleans(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    tri_field_span word[2];
    TRI_TRY(boolean_words(r, word));
    if (v->size < 4 || tri__load32(v->bytes) > v->size - 4) return too_short(r);
    tri_parquet_runs runs = {v->bytes + 4, v->bytes + 4 + tri__load32(v->bytes), 1};
    return choose(r, &runs, v->n, word, 2, out);
}

static tri_status from_dictionary(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    if (!r->has_dictionary)
        return tri__column_fail(&r->place,
                                "a page needs a dictionary that is not there: the file is damaged; get it again");
    if (!v->size || v->bytes[0] > 32) return too_short(r);
    tri_parquet_runs runs = {v->bytes + 1, v->bytes + v->size, v->bytes[0]};
    if (!r->n_dictionary) return too_short(r);
    return choose(r, &runs, v->n, r->dictionary, r->n_dictionary, out);
}

/* Room for n numbers, reused from page to page. */
static int64_t *numbers(tri_parquet_reader *r, uint64_t n) {
    r->numbers.used = 0;
    return n < SIZE_MAX / 16 && tri__column_reserve(&r->numbers, (size_t)n * 8) ? (int64_t *)(void *)r->numbers.at
                                                                                  : NULL;
}

static tri_status delta_numbers(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t used;
    int64_t *number = numbers(r, (uint64_t)v->n);
    if (!number) return tri__parquet_no_memory(r);
    if (tri__parquet_deltas(v->bytes, v->size, v->n, number, &used) < 0) return too_short(r);
    return render(r, (const uint8_t *)number, 8, v->n, out);
}

static tri_status delta_lengths(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t at;
    int64_t *length = numbers(r, (uint64_t)v->n);
    if (!length) return tri__parquet_no_memory(r);
    if (tri__parquet_deltas(v->bytes, v->size, v->n, length, &at) < 0) return too_short(r);
    for (int64_t i = 0; i < v->n; i++) {
        if (length[i] < 0 || (uint64_t)length[i] > v->size - at) return too_short(r);
        out[i] = (tri_field_span){(uint32_t)(v->begin + at), (uint32_t)length[i]};
        at += (size_t)length[i];
    }
    return finish_bytes(r, out, v->n);
}

/* Each text begins like the one before it: the lengths of what they share, of what follows, and what follows. */
static tri_status delta_bytes(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t used, at;
    int64_t *prefix = numbers(r, 2 * (uint64_t)v->n), *suffix = prefix + v->n;
    if (!prefix) return tri__parquet_no_memory(r);
    if (tri__parquet_deltas(v->bytes, v->size, v->n, prefix, &used) < 0) return too_short(r);
    if (tri__parquet_deltas(v->bytes + used, v->size - used, v->n, suffix, &at) < 0) return too_short(r);
    at += used;
    tri_field_span last = {0, 0};
    for (int64_t i = 0; i < v->n; i++) {
        if (prefix[i] < 0 || prefix[i] > last.length || suffix[i] < 0 || (uint64_t)suffix[i] > v->size - at)
            return too_short(r);
        uint64_t length = (uint64_t)prefix[i] + (uint64_t)suffix[i];
        if (r->column->values.width && length != (uint64_t)r->column->values.width) return too_short(r);
        if (length > TRI_LIMIT_CSV_ROW)
            return tri__column_fail(&r->place, "a value has more than the %d bytes that a field may have",
                                    TRI_LIMIT_CSV_ROW);
        TRI_TRY(tri__parquet_text_room(r, length));
        char *to = r->text.at + r->text.used;
        memcpy(to, r->text.at + last.begin, (size_t)prefix[i]);
        memcpy(to + prefix[i], v->bytes + at, (size_t)suffix[i]);
        out[i] = last = (tri_field_span){(uint32_t)r->text.used, (uint32_t)length};
        r->text.used += length, at += (size_t)suffix[i];
    }
    return finish_bytes(r, out, v->n);
}

/* The first bytes of all values, then their second ones, and so on. */
static tri_status split_bytes(tri_parquet_reader *r, const tri_parquet_values *v, tri_field_span *out) {
    size_t width = (size_t)r->column->values.width, n = (size_t)v->n;
    if (v->size / width < n) return too_short(r);
    r->numbers.used = 0;
    if (!tri__column_reserve(&r->numbers, n * width)) return tri__parquet_no_memory(r);
    uint8_t *whole = (uint8_t *)r->numbers.at;
    for (size_t b = 0; b < width; b++)
        for (size_t i = 0; i < n; i++) whole[i * width + b] = v->bytes[b * n + i];
    if (r->column->type != PQ_FIXED) return render(r, whole, width, v->n, out);
    TRI_TRY(tri__parquet_text_room(r, n * width));
    memcpy(r->text.at + r->text.used, whole, n * width);
    tri_parquet_values plain = *v;
    plain.bytes = whole, plain.size = n * width, plain.begin = r->text.used;
    r->text.used += n * width;
    return plain_fixed(r, &plain, out);
}

typedef tri_status (*decoder)(tri_parquet_reader *r, const tri_parquet_values *values, tri_field_span *out);

/* By encoding and physical type. */
static decoder decoder_of(const tri_parquet_column *column, int encoding) {
    int type = column->type, bytes = type == PQ_BYTE_ARRAY || type == PQ_FIXED;
    switch (encoding) {
    case PQ_PLAIN: return type == PQ_BOOLEAN ? plain_booleans : type == PQ_BYTE_ARRAY ? plain_bytes : plain_fixed;
    case PQ_PLAIN_DICTIONARY:
    case PQ_RLE_DICTIONARY: return type == PQ_BOOLEAN ? NULL : from_dictionary;
    case PQ_RLE: return type == PQ_BOOLEAN ? run_booleans : NULL;
    case PQ_DELTA_BINARY_PACKED: return type == PQ_INT32 || type == PQ_INT64 ? delta_numbers : NULL;
    case PQ_DELTA_LENGTH_BYTE_ARRAY: return type == PQ_BYTE_ARRAY ? delta_lengths : NULL;
    case PQ_DELTA_BYTE_ARRAY: return bytes ? delta_bytes : NULL;
    case PQ_BYTE_STREAM_SPLIT: return column->values.width && type != PQ_INT96 ? split_bytes : NULL;
    default: return NULL;
    }
}

int tri__parquet_in_place(const tri_parquet_column *column, int encoding) {
    if (column->type == PQ_FIXED) return encoding == PQ_PLAIN;
    return column->type == PQ_BYTE_ARRAY && (encoding == PQ_PLAIN || encoding == PQ_DELTA_LENGTH_BYTE_ARRAY);
}

tri_status tri__parquet_values(tri_parquet_reader *r, const tri_parquet_values *values, tri_field_span *out) {
    decoder decode = decoder_of(r->column, values->encoding);
    if (!decode)
        return tri__column_fail(&r->place, "values in encoding %d, which is not read here; write the file anew with "
                                "another writer or its default encodings", values->encoding);
    return values->n ? decode(r, values, out) : TRI_OK;
}
