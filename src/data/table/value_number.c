/* value_number.c - values of binary tables as the numbers that their texts are read as, to the bit, without the text
 * where that is possible: a whole number of up to 2^53 times or divided by a power of ten of up to 10^22 is one
 * operation of exact doubles, and so as well rounded as strtod's result. */
#include "data/table/value_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t EXACT = (int64_t)1 << 53;

static double read_text(char *text, size_t length) {
    text[length] = 0;
    return length ? strtod(text, NULL) : NAN;
}

double tri__float_number(float value) {
    const float whole = 1 << 24; /* up to here a whole float is its own text */
    char text[TRI_VALUE_TEXT + 1];
    int exponent;
    if (isnan(value) || isinf(value) || (fabsf(value) <= whole && truncf(value) == value)) return (double)value;
    uint64_t digits = tri__shortest_float(fabsf(value), &exponent);
    if (digits > (uint64_t)EXACT || exponent > TRI_POWER10 || exponent < -TRI_POWER10)
        return read_text(text, tri__float_text(value, text));
    double size = exponent < 0 ? (double)digits / tri__power10[-exponent] : (double)digits * tri__power10[exponent];
    return value < 0 ? -size : size;
}

double tri__half_number(uint16_t bits) {
    char text[TRI_VALUE_TEXT + 1];
    return read_text(text, tri__half_text(bits, text));
}

double tri__decimal_number(const uint8_t *bytes, size_t n, int scale) {
    char text[TRI_VALUE_TEXT + 1];
    uint8_t sign = n && bytes[0] & 0x80 ? 0xFF : 0;
    uint64_t low = sign ? UINT64_MAX : 0;
    int fits = scale >= 0 && scale <= TRI_POWER10;
    for (size_t i = 0; i < n; i++) {
        fits &= i + 8 >= n || bytes[i] == sign;
        low = low << 8 | bytes[i];
    }
    int64_t value = (int64_t)low;
    if (!fits || (value < 0) != (sign != 0) || value > EXACT || value < -EXACT)
        return read_text(text, tri__decimal_text(bytes, n, scale, text));
    return (double)value / tri__power10[scale];
}

double tri__value_number(const tri_value_type *type, const uint8_t *bytes, size_t length) {
    uint8_t room[TRI_DECIMAL_BYTES];
    uint16_t half;
    float single;
    double value;
    if (type->kind == TRI_VALUES_SIGNED) return (double)tri__value_integer(type, bytes);
    if (type->kind == TRI_VALUES_UNSIGNED) return (double)(uint64_t)tri__value_integer(type, bytes);
    if (type->kind == TRI_VALUES_DECIMALS)
        return tri__decimal_number(tri__value_decimal(type, bytes, length, room), length, type->scale);
    if (type->width == 2) return memcpy(&half, bytes, 2), tri__half_number(half);
    if (type->width == 4) return memcpy(&single, bytes, 4), tri__float_number(single);
    return memcpy(&value, bytes, 8), value;
}
