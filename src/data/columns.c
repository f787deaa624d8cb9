/* columns.c - fields as numbers and labels. Numbers are checked against a decimal grammar before strtod sees them, so that
 * neither its extras (hexadecimal, nan, inf) nor a locale's comma get in. "1" and "1.0" are the same label when the
 * classes are 0, 1, 2, ...; otherwise labels are texts, and classes their sorted order. */
#include "data/columns.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status fail_field(const tri_table *table, int64_t row, int column, const char *what) {
    int64_t line, at;
    tri__table_where(table, row, column, &line, &at);
    tri_field_text field = tri__table_field(table, row, column);
    int shown = field.length > 40 ? 40 : (int)field.length;
    while (shown > 0 && shown < (int)field.length && (field.text[shown] & 0xC0) == 0x80) shown--;
    return tri__fail(TRI_DATA, "%s:%lld:%lld: \"%.*s\"%s in column \"%s\" %s", tri__table_path(table), (long long)line,
                     (long long)at, shown, field.text, shown < (int)field.length ? "..." : "", tri__table_name(table, column), what);
}

static tri_field_text trim(tri_field_text field) {
    const char *blanks = " \t\r\n\v\f";
    while (field.length && strchr(blanks, field.text[0])) field.text++, field.length--;
    while (field.length && strchr(blanks, field.text[field.length - 1])) field.length--;
    return field;
}

static size_t digits(const char *text, size_t length, size_t at) {
    size_t start = at;
    while (at < length && text[at] >= '0' && text[at] <= '9') at++;
    return at - start;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point */
static int is_decimal(const char *text, size_t length) {
    size_t at = length && (text[0] == '+' || text[0] == '-'), whole = digits(text, length, at), part = 0;
    at += whole;
    if (at < length && text[at] == '.') {
        part = digits(text, length, at + 1);
        at += 1 + part;
    }
    if (!whole && !part) return 0;
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < length && (text[at] == '+' || text[at] == '-')) at++;
        size_t exponent = digits(text, length, at);
        if (!exponent) return 0;
        at += exponent;
    }
    return at == length;
}

enum { NUMBER_BYTES = 400 }; /* longer than any double needs */

/* 0: no number; 1: a number; 2: too large or too long */
static int parse_decimal(tri_field_text field, double *value) {
    char text[NUMBER_BYTES + 1];
    if (!is_decimal(field.text, field.length)) return 0;
    if (field.length > NUMBER_BYTES) return 2;
    memcpy(text, field.text, field.length);
    text[field.length] = 0;
    char *end;
    *value = strtod(text, &end);
    return isfinite(*value) && !*end ? 1 : 2;
}

tri_status tri__column_number(const tri_table *table, int64_t row, int column, double *value, int *missing) {
    tri_field_text field = trim(tri__table_field(table, row, column));
    *missing = field.length == 0;
    if (*missing) return TRI_OK;
    switch (parse_decimal(field, value)) {
    case 0: return fail_field(table, row, column, "is not a decimal number (leave a missing value empty)");
    case 1: return TRI_OK;
    default: return fail_field(table, row, column, "is too large or too long for a number");
    }
}

/* The label as a whole number, or -1. */
static int64_t whole_number(tri_field_text field) {
    double value;
    if (parse_decimal(trim(field), &value) != 1 || value < 0 || value > INT_MAX || value != floor(value)) return -1;
    return (int64_t)value;
}

static int compare(tri_field_text a, tri_field_text b) {
    int order = memcmp(a.text, b.text, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int by_text(const void *a, const void *b) { return compare(*(const tri_field_text *)a, *(const tri_field_text *)b); }

/* The first row whose label is outside the classes: where some labels are class numbers, one that is none; among texts,
 * the first that follows n_classes different ones. -1: there is none, labels are too few. */
static int64_t first_outside(const tri_table *table, int column, int n_classes) {
    int64_t rows = tri__table_rows(table), outside = -1, inside = 0, n = 0;
    for (int64_t row = rows - 1; row >= 0; row--) {
        int64_t number = whole_number(tri__table_field(table, row, column));
        if (number >= 0 && number < n_classes) inside++;
        else outside = row;
    }
    if (inside) return outside;
    tri_field_text *seen = malloc((size_t)n_classes * sizeof *seen); /* without it, the message only loses the place */
    outside = -1;
    for (int64_t row = 0; seen && row < rows && outside < 0; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        int64_t i = 0;
        while (i < n && compare(seen[i], field)) i++;
        if (i == n && n == n_classes) outside = row;
        else if (i == n) seen[n++] = field;
    }
    free(seen);
    return outside;
}

static tri_status wrong_count(const tri_table *table, int column, const tri_field_text *found, int64_t n, int n_classes) {
    enum { SHOWN = 20 };
    char list[1000], what[1200];
    size_t used = 0;
    list[0] = 0;
    for (int64_t i = 0; i < n && i < SHOWN; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%.*s\"", i ? ", " : "",
                                 (int)(found[i].length > 40 ? 40 : found[i].length), found[i].text);
    snprintf(what, sizeof what, "%lld different label%s where %d class%s expected: %s%s", (long long)n, n == 1 ? "" : "s",
             n_classes, n_classes == 1 ? " is" : "es are", list, n > SHOWN ? ", ..." : "");
    int64_t row = n > n_classes ? first_outside(table, column, n_classes) : -1;
    if (row < 0) return tri__fail(TRI_DATA, "%s: column \"%s\" has %s", tri__table_path(table), tri__table_name(table, column), what);
    char text[1300];
    snprintf(text, sizeof text, "is outside the classes; the column has %s", what);
    return fail_field(table, row, column, text);
}

/* Whether every label is one of 0..n_classes-1. A missing label fails. */
static tri_status all_numbers(const tri_table *table, int column, int n_classes, int *whole) {
    *whole = 1;
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        tri_field_text field = tri__table_field(table, row, column);
        if (trim(field).length == 0) return fail_field(table, row, column, "is no label; every training row needs one");
        int64_t number = whole_number(field);
        if (number < 0 || number >= n_classes) *whole = 0;
    }
    return TRI_OK;
}

static tri_status take(const tri_table *table, char *copy, char **to) {
    *to = copy;
    return copy ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
}

tri_status tri__labels_fit(const tri_table *table, int column, int n_classes, char **label) {
    int whole;
    TRI_TRY(all_numbers(table, column, n_classes, &whole));
    if (whole) {
        for (int i = 0; i < n_classes; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            TRI_TRY(take(table, strdup(name), &label[i]));
        }
        return TRI_OK;
    }
    int64_t rows = tri__table_rows(table), n = 0;
    tri_field_text *found = malloc((size_t)rows * sizeof *found);
    if (!found) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    for (int64_t row = 0; row < rows; row++) found[row] = tri__table_field(table, row, column);
    qsort(found, (size_t)rows, sizeof *found, by_text);
    for (int64_t row = 0; row < rows; row++)
        if (n == 0 || compare(found[n - 1], found[row])) found[n++] = found[row];
    tri_status status = n == n_classes ? TRI_OK : wrong_count(table, column, found, n, n_classes);
    for (int i = 0; i < n_classes && status == TRI_OK; i++)
        status = take(table, strndup(found[i].text, found[i].length), &label[i]);
    free(found);
    return status;
}

static tri_status unknown_label(const tri_table *table, int64_t row, int column, char *const *label, int n_classes) {
    enum { SHOWN = 20 };
    char list[1000] = "is none of the known labels: ";
    size_t used = strlen(list);
    for (int i = 0; i < n_classes && i < SHOWN; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%.40s\"", i ? ", " : "", label[i]);
    if (n_classes > SHOWN) snprintf(list + used, sizeof list - used, ", ...");
    return fail_field(table, row, column, list);
}

tri_status tri__labels_class(const tri_table *table, int64_t row, int column, char *const *label, int n_classes, int32_t *out) {
    tri_field_text field = tri__table_field(table, row, column);
    for (int i = 0; i < n_classes; i++)
        if (strlen(label[i]) == field.length && !memcmp(label[i], field.text, field.length)) {
            *out = i;
            return TRI_OK;
        }
    int64_t number = whole_number(field);
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)number);
    if (number >= 0 && number < n_classes && !strcmp(label[number], name)) {
        *out = (int32_t)number;
        return TRI_OK;
    }
    return unknown_label(table, row, column, label, n_classes);
}
