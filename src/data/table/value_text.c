/* value_text.c - values of binary tables as text. */
#include "data/table/value_text.h"

#include <math.h>
#include <string.h>

static const char pairs[] =
    "00010203040506070809101112131415161718192021222324"
    "25262728293031323334353637383940414243444546474849"
    "50515253545556575859606162636465666768697071727374"
    "75767778798081828384858687888990919293949596979899";

size_t tri__unsigned_text(uint64_t value, char *out) {
    char digits[20];
    size_t at = sizeof digits;
    for (; value >= 100; value /= 100) memcpy(digits + (at -= 2), pairs + 2 * (value % 100), 2);
    if (value >= 10) memcpy(digits + (at -= 2), pairs + 2 * value, 2);
    else digits[--at] = (char)('0' + value);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

size_t tri__integer_text(int64_t value, char *out) {
    if (value >= 0) return tri__unsigned_text((uint64_t)value, out);
    *out = '-';
    return 1 + tri__unsigned_text(0 - (uint64_t)value, out + 1);
}

size_t tri__boolean_text(int value, char *out) {
    memcpy(out, value ? "true" : "false", value ? 4 : 5);
    return value ? 4 : 5;
}

/* digits * 10^exponent in the form of Python's repr: an exponent from 1e16 on and below 1e-4. */
static size_t put_float(uint64_t digits, int exponent, char *out) {
    enum { FIXED_MOST = 16, FIXED_LEAST = -3 };
    char text[20];
    while (digits && digits % 10 == 0) digits /= 10, exponent++;
    int n = (int)tri__unsigned_text(digits, text), point = n + exponent; /* digits before the point */
    char *at = out;
    if (point > FIXED_MOST || point < FIXED_LEAST) {
        *at++ = text[0];
        if (n > 1) {
            *at++ = '.';
            memcpy(at, text + 1, (size_t)n - 1), at += n - 1;
        }
        int e = point - 1, size = e < 0 ? -e : e;
        *at++ = 'e', *at++ = e < 0 ? '-' : '+';
        if (size < 10) *at++ = '0';
        return (size_t)(at - out) + tri__unsigned_text((uint64_t)size, at);
    }
    if (point <= 0) {
        *at++ = '0', *at++ = '.';
        memset(at, '0', (size_t)-point), at += -point;
        memcpy(at, text, (size_t)n);
        return (size_t)(at - out) + (size_t)n;
    }
    if (point >= n) {
        memcpy(at, text, (size_t)n), at += n;
        memset(at, '0', (size_t)(point - n)), at += point - n;
        memcpy(at, ".0", 2);
        return (size_t)(at - out) + 2;
    }
    memcpy(at, text, (size_t)point), at += point;
    *at++ = '.';
    memcpy(at, text + point, (size_t)(n - point));
    return (size_t)(at - out) + (size_t)(n - point);
}

/* The sign, and the texts of what has no digits. *done: that was all. */
static size_t put_special(double value, char *out, int *done) {
    size_t sign = signbit(value) != 0;
    *done = 1;
    if (isnan(value)) return 0;
    if (sign) *out = '-';
    if (isinf(value)) memcpy(out + sign, "inf", 3);
    else if (value == 0) memcpy(out + sign, "0.0", 3);
    else *done = 0;
    return *done ? sign + 3 : sign;
}

size_t tri__double_text(double value, char *out) {
    int done, exponent;
    size_t n = put_special(value, out, &done);
    if (done) return n;
    uint64_t digits = tri__shortest_double(fabs(value), &exponent);
    return n + put_float(digits, exponent, out + n);
}

size_t tri__float_text(float value, char *out) {
    int done, exponent;
    size_t n = put_special((double)value, out, &done);
    if (done) return n;
    uint64_t digits = tri__shortest_float(fabsf(value), &exponent);
    return n + put_float(digits, exponent, out + n);
}

size_t tri__half_text(uint16_t bits, char *out) {
    uint16_t magnitude = bits & 0x7FFF;
    int done, exponent;
    double kind = magnitude > 0x7C00 ? NAN : magnitude == 0x7C00 ? INFINITY : magnitude;
    size_t n = put_special(bits & 0x8000 ? -kind : kind, out, &done);
    if (done) return n;
    uint64_t digits = tri__shortest_half(magnitude, &exponent);
    return n + put_float(digits, exponent, out + n);
}

static char *put_two(int64_t value, char *at) {
    memcpy(at, pairs + 2 * value, 2);
    return at + 2;
}

/* Days since 1970-01-01 in the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date algorithms"). */
int64_t tri__date_of(int64_t days, int *month, int *day) {
    days += 719468; /* since 0000-03-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t m = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * m + 2) / 5 + 1), *month = (int)(m < 10 ? m + 3 : m - 9);
    return year_of_era + era * 400 + (*month <= 2);
}

size_t tri__date_text(int64_t days, char *out) {
    int month, day;
    int64_t year = tri__date_of(days, &month, &day);
    char *at = out;
    if (year < 0) *at++ = '-', year = -year;
    if (year < 10000) at = put_two(year % 100, put_two(year / 100, at));
    else at += tri__integer_text(year, at);
    *at++ = '-';
    at = put_two(month, at);
    *at++ = '-';
    return (size_t)(put_two(day, at) - out);
}

static const int64_t per_second[] = {1, 1000, 1000000, 1000000000};

size_t tri__time_text(int64_t value, tri_time_unit unit, char *out) {
    char *at = out;
    if (value < 0) { /* not a time of day; a file may hold it all the same */
        *at++ = '-';
        if (value == INT64_MIN) value++;
        value = -value;
    }
    int64_t seconds = value / per_second[unit], part = value % per_second[unit], hours = seconds / 3600;
    at = hours < 100 ? put_two(hours, at) : at + tri__integer_text(hours, at);
    *at++ = ':';
    at = put_two(seconds / 60 % 60, at);
    *at++ = ':';
    at = put_two(seconds % 60, at);
    if (unit == TRI_UNIT_SECOND) return (size_t)(at - out);
    *at++ = '.';
    for (int64_t digit = per_second[unit] / 10; digit; digit /= 10) *at++ = (char)('0' + part / digit % 10);
    return (size_t)(at - out);
}

size_t tri__timestamp_text(int64_t value, tri_time_unit unit, int utc, char *out) {
    int64_t in_day = per_second[unit] * 86400, days = value / in_day, rest = value % in_day;
    if (rest < 0) rest += in_day, days--;
    size_t n = tri__date_text(days, out);
    out[n++] = ' ';
    n += tri__time_text(rest, unit, out + n);
    if (utc) out[n++] = 'Z';
    return n;
}

/* The digits of a number of 32-bit parts, the highest first, which becomes 0. Returns how many; they end at `end`. */
static size_t take_digits(uint32_t *part, size_t n, char *end) {
    char *at = end;
    for (size_t first = 0; first < n;) {
        uint64_t rest = 0;
        for (size_t i = first; i < n; i++) {
            rest = rest << 32 | part[i];
            part[i] = (uint32_t)(rest / 1000000000), rest %= 1000000000;
        }
        while (first < n && !part[first]) first++;
        for (int i = 0; i < 9 && (first < n || rest); i++, rest /= 10) *--at = (char)('0' + rest % 10);
    }
    return (size_t)(end - at);
}

size_t tri__decimal_text(const uint8_t *bytes, size_t n, int scale, char *out) {
    enum { PARTS = TRI_DECIMAL_BYTES / 4, DIGITS = 80 };
    uint8_t full[TRI_DECIMAL_BYTES];
    uint32_t part[PARTS];
    char digits[DIGITS], *at = out;
    int negative = n && bytes[0] & 0x80;
    memset(full, negative ? 0xFF : 0, sizeof full);
    memcpy(full + sizeof full - n, bytes, n);
    uint64_t carry = 1;
    for (int i = PARTS - 1; i >= 0; i--) {
        const uint8_t *b = full + 4 * i;
        part[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        if (!negative) continue;
        carry += (uint32_t)~part[i];
        part[i] = (uint32_t)carry, carry >>= 32;
    }
    size_t count = take_digits(part, PARTS, digits + DIGITS);
    const char *first = digits + DIGITS - count;
    if (negative) *at++ = '-';
    if (scale <= 0) {
        if (!count) *at++ = '0';
        memcpy(at, first, count), at += count;
        for (int i = scale; i < 0 && count; i++) *at++ = '0';
        return (size_t)(at - out);
    }
    size_t places = (size_t)scale, before = count > places ? count - places : 0;
    if (!before) *at++ = '0';
    memcpy(at, first, before), at += before;
    *at++ = '.';
    if (count < places) memset(at, '0', places - count), at += places - count;
    memcpy(at, first + before, count - before);
    return (size_t)(at - out) + count - before;
}

const char *tri__value_words(tri_value_kind kind) {
    static const char *const words[] = {
        [TRI_VALUES_NONE] = NULL,
        [TRI_VALUES_TEXTS] = "texts",
        [TRI_VALUES_BOOLEANS] = "booleans",
        [TRI_VALUES_SIGNED] = "integers",
        [TRI_VALUES_UNSIGNED] = "integers",
        [TRI_VALUES_FLOATS] = "floating-point numbers",
        [TRI_VALUES_DECIMALS] = "decimals",
        [TRI_VALUES_DATES] = "dates",
        [TRI_VALUES_TIMES] = "times",
        [TRI_VALUES_TIMESTAMPS] = "timestamps",
        [TRI_VALUES_INT96] = "timestamps",
        [TRI_VALUES_UUIDS] = "texts"};
    return words[kind];
}

int tri__value_is_number(tri_value_kind kind) { return kind >= TRI_VALUES_SIGNED && kind <= TRI_VALUES_DECIMALS; }

size_t tri__value_room(tri_value_kind kind) {
    enum { NUMBER = 26 };
    return tri__value_is_number(kind) && kind != TRI_VALUES_DECIMALS ? NUMBER : TRI_VALUE_TEXT;
}

int64_t tri__value_integer(const tri_value_type *type, const uint8_t *bytes) {
    uint64_t value = 0;
    uint32_t four;
    if (type->width == 8) memcpy(&value, bytes, 8);
    else if (type->width == 4) memcpy(&four, bytes, 4), value = four;
    else memcpy(&value, bytes, (size_t)type->width);
    int shift = 64 - type->bits;
    value <<= shift;
    return type->kind == TRI_VALUES_UNSIGNED ? (int64_t)(value >> shift) : (int64_t)value >> shift;
}

const uint8_t *tri__value_decimal(const tri_value_type *type, const uint8_t *bytes, size_t length,
                                  uint8_t room[static TRI_DECIMAL_BYTES]) {
    if (!type->low_first) return bytes;
    for (size_t i = 0; i < length; i++) room[i] = bytes[length - 1 - i];
    return room;
}

static size_t put_floating(int width, const uint8_t *bytes, char *out) {
    uint16_t half;
    float single;
    double value;
    if (width == 2) return memcpy(&half, bytes, 2), tri__half_text(half, out);
    if (width == 4) return memcpy(&single, bytes, 4), tri__float_text(single, out);
    return memcpy(&value, bytes, 8), tri__double_text(value, out);
}

static size_t put_date(const tri_value_type *type, const uint8_t *bytes, char *out) {
    const int64_t day = 86400000;
    int64_t value = tri__value_integer(type, bytes);
    return tri__date_text(type->width == 4 ? value : value / day - (value % day < 0), out);
}

/* Julian days and nanoseconds in the day. */
static size_t put_int96(const uint8_t *bytes, char *out) {
    enum { JULIAN_1970 = 2440588 };
    const int64_t day = (int64_t)86400 * 1000000000;
    int64_t nanos;
    int32_t julian;
    memcpy(&nanos, bytes, 8);
    memcpy(&julian, bytes + 8, 4);
    int64_t days = (int64_t)julian - JULIAN_1970 + nanos / day;
    nanos %= day;
    if (nanos < 0) nanos += day, days--;
    size_t n = tri__date_text(days, out);
    out[n++] = ' ';
    return n + tri__time_text(nanos, TRI_UNIT_NANO, out + n);
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

size_t tri__value_text(const tri_value_type *type, const uint8_t *bytes, size_t length, char *out) {
    uint8_t room[TRI_DECIMAL_BYTES];
    switch (type->kind) {
    case TRI_VALUES_SIGNED: return tri__integer_text(tri__value_integer(type, bytes), out);
    case TRI_VALUES_UNSIGNED: return tri__unsigned_text((uint64_t)tri__value_integer(type, bytes), out);
    case TRI_VALUES_FLOATS: return put_floating(type->width, bytes, out);
    case TRI_VALUES_DECIMALS:
        return tri__decimal_text(tri__value_decimal(type, bytes, length, room), length, type->scale, out);
    case TRI_VALUES_DATES: return put_date(type, bytes, out);
    case TRI_VALUES_TIMES: return tri__time_text(tri__value_integer(type, bytes), type->unit, out);
    case TRI_VALUES_TIMESTAMPS:
        return tri__timestamp_text(tri__value_integer(type, bytes), type->unit, type->utc, out);
    case TRI_VALUES_INT96: return put_int96(bytes, out);
    default: return put_uuid(bytes, out);
    }
}
