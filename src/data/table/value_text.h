/* value_text.h - values of binary tables as the text that the same table has as CSV: integers in decimal, floats by the
 * fewest digits that give the same value back, in Python's form ("1.0", "0.1", "1e-05"), dates as 2024-01-31,
 * timestamps as 2024-01-31 12:00:00.000 (all digits of their unit; "Z" if they are UTC), decimals with their scale. NaN
 * is empty, as a missing value is. */
#ifndef TRI_DATA_TABLE_VALUE_TEXT_H
#define TRI_DATA_TABLE_VALUE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRI_VALUE_TEXT = 192,   /* bytes that any of these may write */
    TRI_DECIMAL_BYTES = 32, /* most of a decimal: 256 bits */
    TRI_DECIMAL_SCALE = 76  /* largest, and smallest negated */
};

typedef enum tri_time_unit { TRI_UNIT_SECOND, TRI_UNIT_MILLI, TRI_UNIT_MICRO, TRI_UNIT_NANO } tri_time_unit;

/* Each writes to out [TRI_VALUE_TEXT] without a 0 at the end, and returns the bytes. */
size_t tri__integer_text(int64_t value, char *out);
size_t tri__unsigned_text(uint64_t value, char *out);
size_t tri__double_text(double value, char *out);
size_t tri__float_text(float value, char *out);
size_t tri__half_text(uint16_t bits, char *out);            /* IEEE half precision */
size_t tri__boolean_text(int value, char *out);             /* "true", "false" */
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

#endif
