/* reading.c - fields as numbers. A number is checked against a decimal grammar before strtod sees it, which excludes
 * strtod's extensions (hexadecimal, nan, inf) and a locale's comma. */
#include "data/table/reading.h"

tri_field_text tri__field_trim(tri_field_text field) {
    const char *blanks = " \t\r\n\v\f";
    while (field.length && field.text[0] && strchr(blanks, field.text[0])) field.text++, field.length--;
    while (field.length && field.text[field.length - 1] && strchr(blanks, field.text[field.length - 1])) field.length--;
    return field;
}

int tri__field_is_one_of(const tri_texts *texts, tri_field_text field) {
    for (int i = 0; i < texts->n; i++)
        if (texts->at[i][0] == (field.length ? field.text[0] : 0) && strlen(texts->at[i]) == field.length &&
            memcmp(texts->at[i], field.text, field.length) == 0)
            return 1;
    return 0;
}

int tri__field_missing(const tri_reading *reading, tri_field_text field) {
    char form[TRI_CANONICAL_BYTES];
    field = tri__field_trim(field);
    return field.length == 0 || tri__field_is_one_of(&reading->missing, field) ||
           tri__field_is_one_of(&reading->missing, tri__field_canonical(reading, field, form));
}

static size_t digits(const char *text, size_t length, size_t at) {
    size_t start = at;
    while (at < length && text[at] >= '0' && text[at] <= '9') at++;
    return at - start;
}

/* [+-] digits [mark digits] [e [+-] digits], with a digit before or after the mark. *at_mark: position of the mark;
 * SIZE_MAX: none. */
static int is_decimal(const char *text, size_t length, char mark, size_t *at_mark) {
    size_t at = length && (text[0] == '+' || text[0] == '-'), whole = digits(text, length, at), part = 0;
    *at_mark = SIZE_MAX;
    at += whole;
    if (at < length && text[at] == mark) {
        *at_mark = at;
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

static int is_infinite(tri_field_text field) {
    size_t sign = field.text[0] == '+' || field.text[0] == '-', n = field.length - sign;
    return (n == 3 || n == 8) && strncasecmp(field.text + sign, "infinity", n) == 0;
}

tri_number tri__field_number(const tri_reading *reading, tri_field_text field, double *value) {
    enum { NUMBER_BYTES = 400 }; /* more than any double needs */
    char text[NUMBER_BYTES + 1], *end;
    size_t mark;
    field = tri__field_trim(field);
    if (field.length == 0) return TRI_NUMBER_MISSING;
    if (!is_decimal(field.text, field.length, field.number ? '.' : reading->decimal, &mark))
        return tri__field_is_one_of(&reading->missing, field) ? TRI_NUMBER_MISSING
               : is_infinite(field)                ? TRI_NUMBER_INFINITE
                                                   : TRI_NUMBER_NONE;
    if (field.length > NUMBER_BYTES) return TRI_NUMBER_TOO_LARGE;
    memcpy(text, field.text, field.length);
    text[field.length] = 0;
    if (mark != SIZE_MAX) text[mark] = '.';
    *value = strtod(text, &end);
    return isfinite(*value) && !*end ? TRI_NUMBER_GOOD : TRI_NUMBER_TOO_LARGE;
}

/* Counts of a column's fields by kind. */
typedef struct count {
    int64_t filled, whole;          /* whole: numbers without a mark */
    int64_t commas, points;         /* numbers with a comma, with a point */
    int64_t fractions[2];           /* of these, those whose point, comma cannot be a thousands separator */
} count;

/* "1,234" could be a thousands separator; "0,234", "12,5" and "1234,567" could not. */
static int may_be_thousands(tri_field_text field, size_t mark) {
    size_t sign = field.text[0] == '+' || field.text[0] == '-', whole = mark - sign;
    return whole >= 1 && whole <= 3 && field.text[sign] != '0' && field.length - mark == 4 &&
           digits(field.text, field.length, mark + 1) == 3;
}

static void count_field(const tri_texts *missing, tri_field_text field, count *c) {
    size_t mark;
    field = tri__field_trim(field);
    if (field.length == 0 || tri__field_is_one_of(missing, field)) return;
    c->filled++;
    if (is_decimal(field.text, field.length, ',', &mark)) {
        c->whole += mark == SIZE_MAX;
        c->commas += mark != SIZE_MAX;
        c->fractions[1] += mark != SIZE_MAX && !may_be_thousands(field, mark);
    } else if (is_decimal(field.text, field.length, '.', &mark)) {
        c->points++;
        c->fractions[0] += !may_be_thousands(field, mark);
    }
}

tri_status tri__decimal_find(const tri_table *table, const int *columns, int n, const tri_texts *missing,
                             tri_decimal *out) {
    char separator = tri__table_separator(table);
    *out = (tri_decimal){.mark = '.', .comma = -1, .point = -1};
    if (!separator || separator == ',' || !n) return TRI_OK;
    TRI_OWNED(tri__free_at) count *counts = calloc((size_t)n, sizeof *counts);
    if (!counts) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        for (int c = 0; c < n; c++) count_field(missing, tri__table_field(table, row, columns[c]), &counts[c]);
        tri__rows_passed(table, row);
    }
    int64_t points = 0, commas = 0; /* that are fractions */
    int mixed = 0;                  /* whole numbers beside points that may separate thousands: "999", "1.234" */
    for (int c = 0; c < n; c++) {
        const count *k = &counts[c];
        if (k->commas && 10 * (k->commas + k->whole) >= 9 * k->filled)
            commas += k->fractions[1], out->comma = out->comma < 0 ? columns[c] : out->comma;
        if (k->points && 10 * (k->points + k->whole) >= 9 * k->filled)
            points += k->fractions[0], mixed |= k->whole > 0, out->point = out->point < 0 ? columns[c] : out->point;
    }
    out->unclear = out->comma < 0 ? mixed && !points : out->point < 0 ? !commas : !points == !commas;
    if (out->comma >= 0 && !out->unclear && commas) out->mark = ',';
    out->known = commas && !points ? ',' : points && !commas ? '.' : 0;
    return TRI_OK;
}

void tri__rows_passed(const tri_table *table, int64_t row) {
    enum { STRIDE = 4096 };
    int64_t rows = tri__table_rows(table), first = row / STRIDE * STRIDE;
    if (row - first == STRIDE - 1 || row == rows - 1) tri__table_done(table, first, row - first + 1);
}

const char *tri__field_quoted(tri_field_text field, char out[static 64]) {
    enum { SHOWN = 40 };
    int shown = field.length > SHOWN ? SHOWN : (int)field.length;
    while (shown > 0 && (size_t)shown < field.length && (field.text[shown] & 0xC0) == 0x80) shown--;
    snprintf(out, 64, "\"%.*s\"%s", shown, field.text, (size_t)shown < field.length ? "..." : "");
    return out;
}
