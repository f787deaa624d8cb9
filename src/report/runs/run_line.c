/* run_line.c - a strict scanner of flat JSON objects. Numbers of up to 15 digits and small exponents, which %.9g
 * writes, are exact products of two doubles; strtod reads the others. */
#include "report/runs/run_line.h"

#include <stdlib.h>
#include <string.h>

typedef struct scanner {
    const char *at, *end;
} scanner;

static int take(scanner *s, char c) {
    if (s->at >= s->end || *s->at != c) return 0;
    s->at++;
    return 1;
}

static int take_word(scanner *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) return 0;
    s->at += n;
    return 1;
}

/* Without escapes and control characters. */
static int take_string(scanner *s, const char **text, int *length) {
    if (!take(s, '"')) return 0;
    *text = s->at;
    while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (unsigned char)*s->at >= 0x20) s->at++;
    *length = (int)(s->at - *text);
    return take(s, '"');
}

/* Digits, appended to *digits, which is exact up to 15 of them. Their count; -1: there is none. */
static int take_digits(scanner *s, double *digits) {
    const char *begin = s->at;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) *digits = *digits * 10 + (*s->at - '0');
    return s->at > begin ? (int)(s->at - begin) : -1;
}

static int take_number(scanner *s, double *number) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *begin = s->at;
    double digits = 0, exponent = 0;
    int negative = take(s, '-'), whole, parts = 0, below = 0;
    int zero = s->at < s->end && *s->at == '0';
    if ((whole = take_digits(s, &digits)) < 0 || (zero && whole > 1)) return 0;
    if (take(s, '.') && (parts = take_digits(s, &digits)) < 0) return 0;
    if (take(s, 'e') || take(s, 'E')) {
        below = take(s, '-');
        if (!below) (void)take(s, '+');
        if (take_digits(s, &exponent) < 0) return 0;
    }
    double by = (below ? -exponent : exponent) - parts;
    if (whole + parts <= 15 && by >= -22 && by <= 22) {
        double value = by < 0 ? digits / power[(int)-by] : digits * power[(int)by];
        *number = negative ? -value : value;
        return 1;
    }
    char text[64];
    if ((size_t)(s->at - begin) >= sizeof text) return 0;
    memcpy(text, begin, (size_t)(s->at - begin));
    text[s->at - begin] = 0;
    *number = strtod(text, NULL);
    return 1;
}

static int take_value(scanner *s, tri_line_field *field) {
    if (s->at < s->end && *s->at == '"') {
        field->kind = 's';
        return take_string(s, &field->text, &field->length);
    }
    if (take_word(s, "null")) field->kind = '0';
    else if (take_word(s, "true")) field->kind = 'b', field->number = 1;
    else if (take_word(s, "false")) field->kind = 'b';
    else if (take_number(s, &field->number)) field->kind = 'n';
    return field->kind != 0;
}

int tri__line_fields(const char *line, size_t length, tri_line_field *fields, int most) {
    scanner s = {line, line + length};
    int n = 0;
    if (!take(&s, '{')) return -1;
    do {
        if (n == most) return -1;
        tri_line_field *field = &fields[n++];
        *field = (tri_line_field){0};
        if (!take_string(&s, &field->key, &field->key_length) || !take(&s, ':') || !take_value(&s, field)) return -1;
    } while (take(&s, ','));
    return take(&s, '}') && s.at == s.end ? n : -1;
}

const tri_line_field *tri__line_field(const tri_line_field *fields, int n, const char *key) {
    size_t length = strlen(key);
    for (int i = 0; i < n; i++)
        if ((size_t)fields[i].key_length == length && memcmp(fields[i].key, key, length) == 0) return &fields[i];
    return NULL;
}
