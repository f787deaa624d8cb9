/* amount.c - numbers as people and spreadsheets write them: a currency or a percent sign, thousands in groups. Whether
 * "1,234" has thousands or a fraction is the reader's choice of a decimal mark; one value does not tell. */
#include "data/table/value_form.h"

#include <ctype.h>

/* Longer ones before those that they begin with. */
static const char *const currencies[] = {
    "US$", "R$",  "C$",  "A$",  "HK$", "NT$", "S$",  "$",   "\xE2\x82\xAC" /* euro */, "\xC2\xA3" /* pound */,
    "\xC2\xA5" /* yen */, "\xE2\x82\xB9" /* rupee */, "\xE2\x82\xBD" /* rouble */, "\xE2\x82\xA9" /* won */,
    "\xE2\x82\xBA" /* lira */, "\xE2\x82\xAB" /* dong */, "\xE2\x82\xAA" /* shekel */, "\xE2\x82\xB1" /* peso */,
    "\xE2\x82\xB4" /* hryvnia */, "\xE2\x82\xA6" /* naira */, "\xE0\xB8\xBF" /* baht */, "z\xC5\x82", "K\xC4\x8D",
    "kr.", "kr",  "Fr.", "Rs.", "Rs",  "Rp",  "RM",  "Ft",  "lei", "USD", "EUR", "GBP", "JPY", "CHF", "CAD",
    "AUD", "NZD", "CNY", "RMB", "HKD", "SGD", "TWD", "KRW", "INR", "RUB", "TRY", "BRL", "MXN", "ARS", "CLP",
    "COP", "PEN", "ZAR", "NGN", "KES", "EGP", "MAD", "AED", "SAR", "QAR", "ILS", "THB", "VND", "IDR", "MYR",
    "PHP", "PKR", "BDT", "LKR", "SEK", "NOK", "DKK", "ISK", "PLN", "CZK", "HUF", "RON", "BGN", "UAH", "KZT"};

static tri_field_text span(const char *text, size_t n) { return (tri_field_text){.text = text, .length = n}; }

/* A blank between groups, or around a currency: also those that do not break a line. Returns its bytes. */
static size_t blank(tri_field_text f) {
    static const char *const blanks[] = {" ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89"};
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(blanks[i]);
        if (f.length >= n && memcmp(f.text, blanks[i], n) == 0) return n;
    }
    return 0;
}

static void skip(tri_field_text *f, size_t n) { f->text += n, f->length -= n; }

static void skip_blanks(tri_field_text *f) {
    for (size_t n; (n = blank(*f)); skip(f, n)) {}
}

/* A sign, also the typographic minus. */
static int take_sign(tri_field_text *f, int *negative) {
    size_t n = f->length && (*f->text == '+' || *f->text == '-')                      ? 1
               : f->length >= 3 && memcmp(f->text, "\xE2\x88\x92", 3) == 0 ? 3
                                                                                      : 0;
    if (!n) return 0;
    *negative = *f->text != '+';
    skip(f, n);
    return 1;
}

static int take_unit(tri_field_text *f, int percent_too, tri_field_text *unit) {
    for (size_t i = 0; i < sizeof currencies / sizeof *currencies; i++) {
        size_t n = strlen(currencies[i]);
        if (f->length < n || memcmp(f->text, currencies[i], n)) continue;
        int letters = isalpha((unsigned char)currencies[i][n - 1]) != 0;
        if (letters && f->length > n && isalpha((unsigned char)f->text[n])) return 0; /* another word */
        *unit = span(f->text, n);
        skip(f, n);
        return 1;
    }
    if (!percent_too || !f->length || *f->text != '%') return 0;
    *unit = span(f->text, 1);
    skip(f, 1);
    return 1;
}

/* The separator of groups at f: 0 bytes if there is none. */
static size_t separator(tri_field_text f, char mark) {
    if (!f.length) return 0;
    if (*f.text == (mark == '.' ? ',' : '.') || *f.text == '\'') return 1;
    if (f.length >= 3 && memcmp(f.text, "\xE2\x80\x99", 3) == 0) return 3; /* the typographic apostrophe */
    return blank(f);
}

static size_t digits(tri_field_text f) {
    size_t n = 0;
    while (n < f.length && f.text[n] >= '0' && f.text[n] <= '9') n++;
    return n;
}

/* Digits of the number in progress. */
enum { DIGITS = 64 };
typedef struct digits_read {
    char text[DIGITS + 2];
    size_t n;
    int too_long;
} digits_read;

static void put(digits_read *to, const char *text, size_t n) {
    to->too_long |= to->n + n > DIGITS;
    if (to->too_long) return;
    memcpy(to->text + to->n, text, n);
    to->n += n;
}

/* Whole digits, in groups or not. Groups have three digits; with commas also two, and the last three (1,23,456). Sets
 * *groups; 0: they are none. */
static int take_whole(tri_field_text *f, char mark, digits_read *to, int *groups) {
    size_t first = digits(*f), width, two = 0, last = first;
    tri_field_text between = {0};
    int leading_zero = first && *f->text == '0';
    put(to, f->text, first);
    skip(f, first);
    for (*groups = 0; first && (width = separator(*f, mark)); ++*groups) {
        tri_field_text sign = span(f->text, width), rest = span(f->text + width, f->length - width);
        size_t n = digits(rest);
        if (!n) break; /* a blank before a currency */
        if (*groups && (sign.length != between.length || memcmp(sign.text, between.text, width))) return 0;
        between = sign;
        if (n != 3 && !(n == 2 && *sign.text == ',')) return 0;
        two += n == 2, last = n;
        put(to, rest.text, n);
        *f = span(rest.text + n, rest.length - n);
    }
    if (!*groups) return 1;
    if (first > 3 || leading_zero || last != 3) return 0;
    return !two || (two == (size_t)*groups - 1 && first <= 2);
}

/* The number, and whether it has groups or a fraction. */
static int take_number(tri_field_text *f, char mark, double *value, int *groups, size_t *fraction) {
    digits_read all = {.n = 0};
    char *end;
    *fraction = 0;
    if (!take_whole(f, mark, &all, groups)) return 0;
    if (f->length && *f->text == mark) {
        tri_field_text rest = span(f->text + 1, f->length - 1);
        *fraction = digits(rest);
        if (!*fraction) return 0;
        put(&all, ".", 1);
        put(&all, rest.text, *fraction);
        *f = span(rest.text + *fraction, rest.length - *fraction);
    }
    if (!all.n || all.too_long) return 0;
    all.text[all.n] = 0;
    *value = strtod(all.text, &end);
    return isfinite(*value) && !*end;
}

int tri__amount_read(tri_field_text field, char mark, double *value, tri_field_text *unit) {
    tri_field_text f = tri__field_trim(field);
    int negative = 0, groups, brackets;
    size_t fraction;
    *unit = span("", 0);
    skip_blanks(&f);
    brackets = f.length > 2 && *f.text == '(' && f.text[f.length - 1] == ')';
    if (brackets) f.text++, f.length -= 2;
    int is_signed = take_sign(&f, &negative), has_unit = take_unit(&f, 0, unit);
    skip_blanks(&f);
    if (!is_signed) is_signed = take_sign(&f, &negative);
    if (!take_number(&f, mark, value, &groups, &fraction)) return 0;
    skip_blanks(&f);
    if (!has_unit) has_unit = take_unit(&f, 1, unit);
    skip_blanks(&f);
    if (f.length || (brackets && (is_signed || (!has_unit && !groups && !fraction)))) return 0;
    if (negative || brackets) *value = -*value;
    return 1;
}

int tri__is_amount(tri_field_text field) {
    double value;
    tri_field_text unit;
    return tri__amount_read(field, '.', &value, &unit) || tri__amount_read(field, ',', &value, &unit);
}
