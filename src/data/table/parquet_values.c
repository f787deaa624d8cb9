/* parquet_values.c - a page's values as fields of text, by encoding. Texts stay where they were unpacked; numbers are
 * rendered behind them, or, where only numbers are wanted, become doubles in the place of the fields. */
#include "data/table/parquet.h"

#include "base/limits.h"
#include "data/text/utf8.h"

#include <stdlib.h>
#include <string.h>

int tri__parquet_reserve(tri_parquet_buffer *buffer, size_t more) {
    if (more <= buffer->room - buffer->used) return 1;
    size_t need = buffer->used + more, room = buffer->room + buffer->room / 2;
    if (room < need) room = need;
    char *grown = realloc(buffer->at, room + TRI_TABLE_PAD);
    if (!grown) return 0;
    buffer->at = grown, buffer->room = room;
    return 1;
}

/* Reserves text, whose offsets have 32 bits. */
static tri_status reserve_text(tri_parquet_reader *r, uint64_t more) {
    if (more > UINT32_MAX - r->text.used)
        return tri__parquet_fail(r, "more than 4 GiB of text in one row group; write the file with smaller row groups");
    return tri__parquet_reserve(&r->text, (size_t)more) ? TRI_OK : tri__parquet_no_memory(r);
}

/* Whether the text is UTF-8 without 0 bytes. 8 bytes beyond it may be read. */
static inline int is_clean(const char *text, uint32_t length) {
    const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
    uint64_t special = 0;
    uint32_t i = 0;
    for (; i + 8 <= length; i += 8) {
        uint64_t word = tri__load64((const uint8_t *)text + i);
        special |= (word - ones) | word;
    }
    if (i < length) {
        uint64_t outside = UINT64_MAX << 8 * (length - i); /* beyond the text: as if it were ones */
        uint64_t word = (tri__load64((const uint8_t *)text + i) & ~outside) | (ones & outside);
        special |= (word - ones) | word;
    }
    if (!(special & highs)) return 1;
    return tri__utf8_fault(text, length) == length && !memchr(text, 0, length);
}

static tri_status check_text(const tri_parquet_reader *r, tri_field_span span) {
    if (span.length > TRI_LIMIT_CSV_ROW)
        return tri__parquet_fail(r, "a value has %u bytes, more than the %d that a field may have", span.length,
                                 TRI_LIMIT_CSV_ROW);
    if (!is_clean(r->text.at + span.begin, span.length))
        return tri__parquet_fail(r, "a value is not UTF-8 text%s; leave the column out, or write it as text",
                                 memchr(r->text.at + span.begin, 0, span.length) ? " (it has a 0 byte)" : "");
    return TRI_OK;
}

static size_t put_uuid(const uint8_t *bytes, char *out) {
    static const char digits[] = "0123456789abcdef";
    char *at = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
        *at++ = digits[bytes[i] >> 4], *at++ = digits[bytes[i] & 15];
    }
    return (size_t)(at - out);
}

/* Julian days and nanoseconds in the day. */
static size_t put_int96(const uint8_t *bytes, char *out) {
    enum { JULIAN_1970 = 2440588 };
    const int64_t day = (int64_t)86400 * 1000000000;
    int64_t nanos = (int64_t)tri__load64(bytes), days = (int64_t)(int32_t)tri__load32(bytes + 8) - JULIAN_1970;
    days += nanos / day, nanos %= day;
    if (nanos < 0) nanos += day, days--;
    size_t n = tri__date_text(days, out);
    out[n++] = ' ';
    return n + tri__time_text(nanos, TRI_UNIT_NANO, out + n);
}

static int64_t integer_at(const tri_parquet_column *column, const uint8_t *bytes) {
    return column->type == PQ_INT32 ? (int32_t)tri__load32(bytes) : (int64_t)tri__load64(bytes);
}

static uint64_t unsigned_at(const tri_parquet_column *column, const uint8_t *bytes) {
    int shift = 64 - column->bits;
    return (uint64_t)integer_at(column, bytes) << shift >> shift;
}

static int64_t signed_at(const tri_parquet_column *column, const uint8_t *bytes) {
    int shift = 64 - column->bits;
    return (int64_t)((uint64_t)integer_at(column, bytes) << shift) >> shift;
}

static void turn_round(int64_t value, uint8_t high_first[static 8]) {
    for (int i = 0; i < 8; i++) high_first[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
}

/* A decimal in an integer, the lowest byte first. */
static size_t put_short_decimal(const tri_parquet_column *column, const uint8_t *bytes, char *out) {
    uint8_t high_first[8];
    turn_round(integer_at(column, bytes), high_first);
    return tri__decimal_text(high_first, 8, column->scale, out);
}

static size_t put_value(const tri_parquet_column *column, const uint8_t *bytes, uint32_t length, char *out) {
    float f;
    double d;
    switch (column->kind) {
    case TRI_PARQUET_SIGNED: return tri__integer_text(signed_at(column, bytes), out);
    case TRI_PARQUET_UNSIGNED: return tri__unsigned_text(unsigned_at(column, bytes), out);
    case TRI_PARQUET_HALF: return tri__half_text((uint16_t)(bytes[0] | bytes[1] << 8), out);
    case TRI_PARQUET_FLOAT: memcpy(&f, bytes, sizeof f); return tri__float_text(f, out);
    case TRI_PARQUET_DOUBLE: memcpy(&d, bytes, sizeof d); return tri__double_text(d, out);
    case TRI_PARQUET_DECIMAL:
        if (column->type == PQ_INT32 || column->type == PQ_INT64) return put_short_decimal(column, bytes, out);
        return tri__decimal_text(bytes, length, column->scale, out);
    case TRI_PARQUET_DATE: return tri__date_text(integer_at(column, bytes), out);
    case TRI_PARQUET_TIME: return tri__time_text(integer_at(column, bytes), column->unit, out);
    case TRI_PARQUET_TIMESTAMP: return tri__timestamp_text(integer_at(column, bytes), column->unit, column->utc, out);
    case TRI_PARQUET_INT96: return put_int96(bytes, out);
    default: return put_uuid(bytes, out);
    }
}

int tri__parquet_has_numbers(const void *state, int number) {
    const tri_parquet_column *column = &((const tri_parquet *)state)->column[number];
    return column->kind >= TRI_PARQUET_SIGNED && column->kind <= TRI_PARQUET_DECIMAL;
}

/* The number that put_value's text is read as. */
static double value_number(const tri_parquet_column *column, const uint8_t *bytes, uint32_t length) {
    uint8_t high_first[8];
    float f;
    double d;
    switch (column->kind) {
    case TRI_PARQUET_SIGNED: return (double)signed_at(column, bytes);
    case TRI_PARQUET_UNSIGNED: return (double)unsigned_at(column, bytes);
    case TRI_PARQUET_HALF: return tri__half_number((uint16_t)(bytes[0] | bytes[1] << 8));
    case TRI_PARQUET_FLOAT: memcpy(&f, bytes, sizeof f); return tri__float_number(f);
    case TRI_PARQUET_DOUBLE: memcpy(&d, bytes, sizeof d); return d;
    default:
        if (column->type != PQ_INT32 && column->type != PQ_INT64)
            return tri__decimal_number(bytes, length, column->scale);
        turn_round(integer_at(column, bytes), high_first);
        return tri__decimal_number(high_first, sizeof high_first, column->scale);
    }
}

static inline void put_number(double number, tri_field_span *out) { memcpy(out, &number, sizeof *out); }

/* Numbers of n values that stand `stride` bytes apart; the usual kinds in loops of their own. */
static void take_numbers(const tri_parquet_column *column, const uint8_t *bytes, size_t stride, int64_t n,
                         tri_field_span *out) {
    _Static_assert(sizeof(tri_field_span) == sizeof(double), "a number lies where a field does");
    int whole = column->kind == TRI_PARQUET_SIGNED && stride == (size_t)column->bits / 8;
    if (column->kind == TRI_PARQUET_DOUBLE) memcpy(out, bytes, (size_t)n * sizeof *out);
    else if (whole && column->bits == 64)
        for (int64_t i = 0; i < n; i++) put_number((double)(int64_t)tri__load64(bytes + 8 * i), &out[i]);
    else if (whole && column->bits == 32)
        for (int64_t i = 0; i < n; i++) put_number((double)(int32_t)tri__load32(bytes + 4 * i), &out[i]);
    else
        for (int64_t i = 0; i < n; i++)
            put_number(value_number(column, bytes + (size_t)i * stride, (uint32_t)column->width), &out[i]);
}

/* Bytes that the text of a value may take: numbers get exact room, so that a chunk of them stays small. */
static size_t value_room(const tri_parquet_column *column) {
    switch (column->kind) {
    case TRI_PARQUET_SIGNED:
    case TRI_PARQUET_UNSIGNED:
    case TRI_PARQUET_FLOAT:
    case TRI_PARQUET_DOUBLE:
    case TRI_PARQUET_HALF: return 26;
    default: return TRI_VALUE_TEXT;
    }
}

/* Renders n values that stand `stride` bytes apart, or takes them as numbers. */
static tri_status render(tri_parquet_reader *r, const uint8_t *bytes, size_t stride, int64_t n, tri_field_span *out) {
    enum { BATCH = 1024 };
    const tri_parquet_column *column = r->column;
    if (r->as_numbers) {
        take_numbers(column, bytes, stride, n, out);
        return TRI_OK;
    }
    for (int64_t first = 0; first < n; first += BATCH) {
        int64_t end = first + BATCH < n ? first + BATCH : n;
        TRI_TRY(reserve_text(r, (uint64_t)(end - first) * value_room(column)));
        for (int64_t i = first; i < end; i++) {
            size_t length = put_value(column, bytes + (size_t)i * stride, (uint32_t)column->width,
                                      r->text.at + r->text.used);
            out[i] = (tri_field_span){(uint32_t)r->text.used, (uint32_t)length};
            r->text.used += length;
        }
    }
    return TRI_OK;
}

/* Bytes that were found in the text become fields: texts are checked, other kinds rendered or taken as numbers. */
static tri_status finish_bytes(tri_parquet_reader *r, tri_field_span *out, int64_t n) {
    const tri_parquet_column *column = r->column;
    for (int64_t i = 0; i < n; i++) {
        if (column->kind == TRI_PARQUET_TEXT) {
            TRI_TRY(check_text(r, out[i]));
            continue;
        }
        uint8_t bytes[TRI_DECIMAL_BYTES];
        if (out[i].length > sizeof bytes)
            return tri__parquet_fail(r, "a decimal has %u bytes, more than the %d that are read", out[i].length,
                                     TRI_DECIMAL_BYTES);
        memcpy(bytes, r->text.at + out[i].begin, out[i].length); /* the text may move */
        if (r->as_numbers) {
            put_number(value_number(column, bytes, out[i].length), &out[i]);
            continue;
        }
        TRI_TRY(reserve_text(r, TRI_VALUE_TEXT));
        size_t length = put_value(column, bytes, out[i].length, r->text.at + r->text.used);
        out[i] = (tri_field_span){(uint32_t)r->text.used, (uint32_t)length};
        r->text.used += length;
    }
    return TRI_OK;
}

static tri_status too_short(const tri_parquet_reader *r) {
    return tri__parquet_fail(r, "a page ends before its values do: the file is damaged; get it again");
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
    size_t width = (size_t)r->column->width;
    if (v->size / width < (uint64_t)v->n) return too_short(r);
    if (r->column->type != PQ_FIXED) return render(r, v->bytes, width, v->n, out);
    for (int64_t i = 0; i < v->n; i++)
        out[i] = (tri_field_span){(uint32_t)(v->begin + (size_t)i * width), (uint32_t)width};
    return finish_bytes(r, out, v->n);
}

static tri_status boolean_words(tri_parquet_reader *r, tri_field_span word[2]) {
    static const char words[] = "falsetrue";
    TRI_TRY(reserve_text(r, sizeof words));
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
            return tri__parquet_fail(r, "value %u of a dictionary of %u: the file is damaged; get it again", largest,
                                     count);
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
        return tri__parquet_fail(r, "a page needs a dictionary that is not there: the file is damaged; get it again");
    if (!v->size || v->bytes[0] > 32) return too_short(r);
    tri_parquet_runs runs = {v->bytes + 1, v->bytes + v->size, v->bytes[0]};
    if (!r->n_dictionary) return too_short(r);
    return choose(r, &runs, v->n, r->dictionary, r->n_dictionary, out);
}

/* Room for n numbers, reused from page to page. */
static int64_t *numbers(tri_parquet_reader *r, uint64_t n) {
    r->numbers.used = 0;
    return n < SIZE_MAX / 16 && tri__parquet_reserve(&r->numbers, (size_t)n * 8) ? (int64_t *)(void *)r->numbers.at
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
        if (r->column->width && length != (uint64_t)r->column->width) return too_short(r);
        if (length > TRI_LIMIT_CSV_ROW)
            return tri__parquet_fail(r, "a value has more than the %d bytes that a field may have", TRI_LIMIT_CSV_ROW);
        TRI_TRY(reserve_text(r, length));
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
    size_t width = (size_t)r->column->width, n = (size_t)v->n;
    if (v->size / width < n) return too_short(r);
    r->numbers.used = 0;
    if (!tri__parquet_reserve(&r->numbers, n * width)) return tri__parquet_no_memory(r);
    uint8_t *whole = (uint8_t *)r->numbers.at;
    for (size_t b = 0; b < width; b++)
        for (size_t i = 0; i < n; i++) whole[i * width + b] = v->bytes[b * n + i];
    if (r->column->type != PQ_FIXED) return render(r, whole, width, v->n, out);
    TRI_TRY(reserve_text(r, n * width));
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
    case PQ_BYTE_STREAM_SPLIT: return column->width && type != PQ_INT96 ? split_bytes : NULL;
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
        return tri__parquet_fail(r, "values in encoding %d, which is not read here; write the file anew with another "
                                 "writer or its default encodings", values->encoding);
    return values->n ? decode(r, values, out) : TRI_OK;
}
