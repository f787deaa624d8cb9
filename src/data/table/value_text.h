/* value_text.h - values of binary tables as the text that the same table has as CSV: integers in decimal, floats by the
 * fewest digits that give the same value back, in Python's form ("1.0", "0.1", "1e-05"), dates as 2024-01-31,
 * timestamps as 2024-01-31 12:00:00.000 (all digits of their unit; "Z" if they are UTC), decimals with their scale. NaN
 * is empty, as a missing value is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    TRI_VALUE_TEXT = 192,   /* bytes that any of these may write */
    TRI_DECIMAL_BYTES = 32, /* most of a decimal: 256 bits */
    TRI_DECIMAL_SCALE = 76  /* largest, and smallest negated */
};

typedef enum tri_time_unit { TRI_UNIT_SECOND, TRI_UNIT_MILLI, TRI_UNIT_MICRO, TRI_UNIT_NANO } tri_time_unit;

/* What a column's values are. */
typedef enum tri_value_kind {
    TRI_VALUES_NONE,        /* nothing: it is nested, or always null */
    TRI_VALUES_TEXTS,
    TRI_VALUES_BOOLEANS,
    TRI_VALUES_SIGNED,      /* the first of the numbers */
    TRI_VALUES_UNSIGNED,
    TRI_VALUES_FLOATS,
    TRI_VALUES_DECIMALS,    /* the last of the numbers */
    TRI_VALUES_DATES,       /* days, or milliseconds of 8 bytes */
    TRI_VALUES_TIMES,
    TRI_VALUES_TIMESTAMPS,
    TRI_VALUES_INT96,       /* nanoseconds of a Julian day */
    TRI_VALUES_UUIDS
} tri_value_kind;

/* And how they are stored: numbers with the lowest byte first. */
typedef struct tri_value_type {
    tri_value_kind kind;
    int width;              /* bytes of a value; 0: they differ, or are bits */
    int bits;               /* of these, the ones that count in whole numbers, dates and times */
    int low_first;          /* decimals: have the lowest byte first, too */
    int scale;              /* decimals */
    tri_time_unit unit;
    int utc;
} tri_value_type;

/* "integers"; NULL of NONE. Lasts. */
const char *tri__value_words(tri_value_kind kind);
int tri__value_is_number(tri_value_kind kind);
/* Most bytes of the text of a value that is not stored as one: few of numbers, so that a column of them stays small. */
size_t tri__value_room(tri_value_kind kind);
/* A value of `length` bytes, neither a text nor a boolean, as text in out [TRI_VALUE_TEXT]; returns the bytes. */
size_t tri__value_text(const tri_value_type *type, const uint8_t *bytes, size_t length, char *out);
/* value_number.c: the number that this text is read as, of a kind that is a number. */
double tri__value_number(const tri_value_type *type, const uint8_t *bytes, size_t length);
int64_t tri__value_integer(const tri_value_type *type, const uint8_t *bytes);
/* A decimal with its highest byte first: as it is, or turned round in `room`. */
const uint8_t *tri__value_decimal(const tri_value_type *type, const uint8_t *bytes, size_t length,
                                  uint8_t room[static TRI_DECIMAL_BYTES]);

/* Each writes to out [TRI_VALUE_TEXT] without a 0 at the end, and returns the bytes. */
size_t tri__integer_text(int64_t value, char *out);
size_t tri__unsigned_text(uint64_t value, char *out);
size_t tri__double_text(double value, char *out);
size_t tri__float_text(float value, char *out);
size_t tri__half_text(uint16_t bits, char *out);            /* IEEE half precision */
size_t tri__boolean_text(int value, char *out);             /* "true", "false" */
int64_t tri__date_of(int64_t days, int *month, int *day);   /* since 1970-01-01: the year; month and day from 1 */
size_t tri__date_text(int64_t days, char *out);             /* since 1970-01-01; |days| < 2^40 */
size_t tri__time_text(int64_t value, tri_time_unit unit, char *out); /* since midnight */
size_t tri__timestamp_text(int64_t value, tri_time_unit unit, int utc, char *out);
/* A two's complement number of up to TRI_DECIMAL_BYTES bytes, the highest first, divided by 10^scale. */
size_t tri__decimal_text(const uint8_t *bytes, size_t n, int scale, char *out);

/* value_number.c: the double that such a text is read as, to the bit. Of a float that is not the float itself: 0.1f is
 * 0.1. NaN stays NaN, and infinity what it is. Integers are converted as C does. */
double tri__float_number(float value);
double tri__half_number(uint16_t bits);
double tri__decimal_number(const uint8_t *bytes, size_t n, int scale);

/* shortest.c: the fewest decimal digits, of those the nearest: value = digits * 10^*exponent. value is finite and above
 * 0. */
uint64_t tri__shortest_double(double value, int *exponent);
uint64_t tri__shortest_float(float value, int *exponent);
uint64_t tri__shortest_half(uint16_t bits, int *exponent);
enum { TRI_POWER10 = 22 }; /* the largest power of ten that is a double */
extern const double tri__power10[TRI_POWER10 + 1];
