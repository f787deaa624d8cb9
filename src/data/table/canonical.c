/* canonical.c - the canonical form of a category or label. A boolean is "True" in a CSV file from Python, "TRUE" in one
 * from R or a spreadsheet, and true in JSON and binary files; the number 1 is "1", "1.0" (once a value of an integer
 * column is missing), "1.00" (a decimal) or "1e+00". So that they are one value whatever the format:
 *
 *   booleans   true, True, TRUE -> true;  false, False, FALSE -> false
 *   numbers    -> their shortest decimal digits: 1.0 -> 1, 1.50 -> 1.5, -0.0 -> 0, 1e+20 -> 100000000000000000000
 *
 * Digits that are a name and not a number stay as they are: with a leading zero (01234) or plus (+41...), a point but
 * no digit after it (5.), or an exponent with neither a sign nor a point, as part numbers and hexadecimal ids have it
 * (12e4). A value that is a number by its type is one in any form. Numbers of digits alone are exact, so that ids
 * beyond 2^53 stay distinct; those with a point or an exponent are doubles. */
#include "data/table/reading.h"

#include "data/table/value_text.h"

enum { WHOLE = 80, SIZE = 400, EXPONENT_DIGITS = 5 }; /* digits of a whole number; bytes of a number; its exponent's */

/* A number as it is written: -digits * 10^exponent. */
typedef struct decimal {
    int negative, plain; /* plain: it has digits only */
    size_t n;            /* of digit: significant ones, without zeros at either end; 0: the number is 0 */
    int64_t exponent;
    char digit[SIZE];
    char text[SIZE + 1]; /* as strtod reads it */
} decimal;

static int is_digit(const char *at, const char *end) { return at < end && *at >= '0' && *at <= '9'; }

/* Takes the digits at *at; returns how many. `fraction`: they stand after the mark. */
static size_t take_digits(const char **at, const char *end, int fraction, decimal *out) {
    size_t n = 0;
    for (; is_digit(*at, end); ++*at, n++) {
        if (out->n || **at != '0') out->digit[out->n++] = **at;
        out->exponent -= fraction;
    }
    return n;
}

/* [e [+-] digits] at the end of a number. `clear`: it must have a sign. */
static int take_exponent(const char *at, const char *end, int clear, decimal *out) {
    if (at == end) return 1;
    if (*at++ != 'e' && at[-1] != 'E') return 0;
    int sign = at < end && (*at == '+' || *at == '-'), negative = sign && *at == '-', size = 0;
    if (clear && !sign) return 0;
    at += sign;
    if (!is_digit(at, end) || end - at > EXPONENT_DIGITS) return 0;
    for (; is_digit(at, end); at++) size = 10 * size + (*at - '0');
    out->exponent += negative ? -size : size;
    return at == end;
}

/* 0: the field is not a number. */
static int read_decimal(tri_field_text field, char mark, decimal *out) {
    const char *at = field.text, *end = field.text + field.length;
    if (field.length > SIZE) return 0;
    out->negative = at < end && *at == '-';
    at += out->negative;
    int leading_zero = is_digit(at, end) && *at == '0' && is_digit(at + 1, end);
    out->n = 0, out->exponent = 0;
    size_t whole = take_digits(&at, end, 0, out), part = 0;
    if (leading_zero) return 0;
    memcpy(out->text, field.text, field.length);
    out->text[field.length] = 0;
    if (at < end && *at == mark) {
        out->text[at++ - field.text] = '.';
        part = take_digits(&at, end, 1, out);
        if (!part) return 0;
    }
    if ((!whole && !part) || !take_exponent(at, end, !part && !field.number, out)) return 0;
    out->plain = at == end && !part;
    for (; out->n && out->digit[out->n - 1] == '0'; out->n--) out->exponent++;
    return 1;
}

/* 0: it is not whole, or has too many digits. */
static size_t put_whole(const decimal *d, char *out) {
    if (!d->n) return out[0] = '0', 1;
    if (d->exponent < 0 || d->exponent + (int64_t)d->n > WHOLE) return 0;
    size_t sign = d->negative != 0, zeros = (size_t)d->exponent;
    out[0] = '-';
    memcpy(out + sign, d->digit, d->n);
    memset(out + sign + d->n, '0', zeros);
    return sign + d->n + zeros;
}

/* 0: no double is near it. */
static size_t put_double(const decimal *d, char *out) {
    char text[TRI_VALUE_TEXT];
    decimal rounded;
    double value = strtod(d->text, NULL);
    if (!isfinite(value) || value == 0) return 0;
    size_t length = tri__double_text(value, text);
    if (read_decimal((tri_field_text){text, length, 1}, '.', &rounded)) {
        size_t n = put_whole(&rounded, out); /* what was beyond a double's digits is gone */
        if (n) return n;
    }
    memcpy(out, text, length);
    return length;
}

tri_field_text tri__field_canonical(const tri_reading *reading, tri_field_text field,
                                    char out[static TRI_CANONICAL_BYTES]) {
    static const char *const booleans[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
    decimal d;
    field = tri__field_trim(field);
    if (!field.length) return field;
    for (size_t i = 0; i < sizeof booleans / sizeof *booleans; i++)
        if (strlen(booleans[i]) == field.length && memcmp(booleans[i], field.text, field.length) == 0)
            return (tri_field_text){memcpy(out, booleans[i / 3 * 3], field.length), field.length, 0};
    char first = field.text[0], mark = field.number ? '.' : reading->decimal;
    if (first != '-' && first != mark && !is_digit(&first, &first + 1)) return field;
    if (!read_decimal(field, mark, &d)) return field;
    size_t n = d.plain || !d.n ? put_whole(&d, out) : 0;
    if (!n) n = put_double(&d, out);
    return n ? (tri_field_text){out, n, 0} : field;
}
