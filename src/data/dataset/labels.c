/* labels.c - the classes of a label column: 0, 1, 2, ... if its labels are these; otherwise the different labels in
 * sorted order, or in the order of a given list. Labels are compared by their canonical forms: "1" and "1.0" are the
 * same label, and so are "True" and "true". */
#include "data/dataset/field_values.h"

#include <limits.h>

/* The label as a class number, or -1. */
static int64_t class_number(const tri_reading *reading, tri_field_text field) {
    enum { DIGITS = 9 };
    char out[TRI_CANONICAL_BYTES];
    int64_t number = 0;
    tri_field_text form = tri__field_canonical(reading, field, out);
    if (!form.length || form.length > DIGITS || (form.text[0] == '0' && form.length > 1)) return -1;
    for (size_t i = 0; i < form.length; i++) {
        if (form.text[i] < '0' || form.text[i] > '9') return -1;
        number = 10 * number + (form.text[i] - '0');
    }
    return number;
}

/* The same by the rule of models from before version 4, for which "01" and "+1" are 1. */
static int64_t class_number_before(const tri_reading *reading, tri_field_text field) {
    double value;
    if (tri__field_number(reading, field, &value) != TRI_NUMBER_GOOD) return -1;
    return value >= 0 && value <= INT_MAX && value == floor(value) ? (int64_t)value : -1;
}

/* The first row whose label is not a class: if some labels are class numbers, the first that is not; for texts, the
 * first after n_classes distinct ones. -1: none; there are too few labels. */
static int64_t first_outside(const tri_table *table, int column, const tri_reading *reading, int n_classes) {
    int64_t rows = tri__table_rows(table), outside = -1, inside = 0;
    for (int64_t row = 0; row < rows; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        int64_t number = class_number(reading, field);
        if (number >= 0 && number < n_classes) inside++;
        else if (outside < 0 && !tri__field_missing(reading, field)) outside = row;
        tri__rows_passed(table, row);
    }
    if (inside) return outside;
    TRI_OWNED(tri__values_free) tri_values seen = {0};
    outside = -1;
    for (int64_t row = 0; row < rows && outside < 0; row++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text field = tri__table_field(table, row, column);
        int missing = tri__field_missing(reading, field);
        int added = missing ? 0 : tri__values_add(&seen, tri__field_canonical(reading, field, form));
        if (added < 0) break; /* out of memory: the message only lacks the position */
        if (added && seen.n > n_classes) outside = row;
        tri__rows_passed(table, row);
    }
    return outside;
}

static tri_status wrong_count(const tri_table *table, int column, const tri_reading *reading, const tri_values *found,
                              int n_classes, int complete) {
    enum { SHOWN = 20 };
    char list[1000] = "", what[1200];
    for (int i = 0; i < found->n && i < SHOWN; i++)
        tri__text_append(list, sizeof list, ", ", "\"%.40s\"", found->at[i]);
    snprintf(what, sizeof what, "%s%d different label%s where %d class%s expected: %s%s", complete ? "" : "more than ",
             found->n, found->n == 1 ? "" : "s", n_classes, n_classes == 1 ? " is" : "es are", list,
             found->n > SHOWN ? ", ..." : "");
    int64_t row = found->n > n_classes ? first_outside(table, column, reading, n_classes) : -1;
    if (row < 0)
        return tri__fail(TRI_DATA, "%s: column \"%s\" has %s", tri__table_path(table), tri__table_name(table, column),
                         what);
    return tri__field_fail(table, row, column, TRI_TEXT(1300, "is outside the classes; the column has %s", what));
}

static tri_status take(const tri_table *table, char *copy, char **to) {
    *to = copy;
    return copy ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
}

/* A listed label is never missing, whatever its text. */
static int is_missing(const tri_reading *reading, const tri_texts *label_list, tri_field_text field) {
    return !tri__field_is_one_of(label_list, tri__field_trim(field)) && tri__field_missing(reading, field);
}

static const char *missing_words(tri_field_text field) {
    return tri__field_trim(field).length
               ? "counts as missing (--missing); every row needs a label (--bad-rows skip leaves such rows out)"
               : "is missing; every row needs a label (--bad-rows skip leaves such rows out)";
}

/* Counts labels, and those in 0..n_classes-1. A missing label is bad. */
static tri_status count_labels(const tri_table *table, int column, const tri_preprocess_spec *spec,
                               const tri_reading *reading, uint8_t *bad, int64_t *filled, int64_t *whole) {
    *filled = *whole = 0;
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        tri_field_text field = tri__table_field(table, row, column);
        if (is_missing(reading, &spec->label_list, field)) {
            if (spec->bad_rows == TRI_BAD_ROWS_FAIL) return tri__field_fail(table, row, column, missing_words(field));
            bad[row] = 1;
        } else {
            int64_t number = class_number(reading, field);
            ++*filled;
            *whole += number >= 0 && number < spec->n_classes;
        }
        tri__rows_passed(table, row);
    }
    return TRI_OK;
}

static tri_status fit_numbers(const tri_table *table, const tri_preprocess_spec *spec, char **label) {
    for (int i = 0; i < spec->n_classes; i++) TRI_TRY(take(table, strdup(TRI_TEXT(16, "%d", i)), &label[i]));
    return TRI_OK;
}

static tri_status fit_list(const tri_table *table, const tri_preprocess_spec *spec, tri_preprocess *made) {
    TRI_ASSERT(spec->label_list.n == spec->n_classes);
    made->label_by_index = 1;
    TRI_OWNED(tri__values_free) tri_values seen = {0};
    for (int i = 0; i < spec->n_classes; i++) {
        char form[TRI_CANONICAL_BYTES];
        const char *text = spec->label_list.at[i];
        tri_field_text field = {.text = text, .length = strlen(text)};
        double value; /* a list of numbers: another number is not a place in it */
        if (tri__field_number(&made->reading, field, &value) == TRI_NUMBER_GOOD) made->label_by_index = 0;
        int added = tri__values_add(&seen, tri__field_canonical(&made->reading, field, form));
        if (added < 0) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
        if (!added)
            return tri__fail(TRI_USAGE, "label_list: \"%.40s\" is listed twice: true and True, and equal numbers, "
                             "are the same label; leave one out", text);
        TRI_TRY(take(table, strdup(text), &made->label[i]));
    }
    return TRI_OK;
}

static tri_status fit_texts(const tri_table *table, int column, int n_classes, const uint8_t *bad,
                            tri_preprocess *made) {
    enum { SURPLUS = 1000 }; /* extra labels counted beyond the classes, for the message */
    TRI_OWNED(tri__values_free) tri_values found = {0};
    int64_t row = 0, rows = tri__table_rows(table);
    for (; row < rows && found.n <= n_classes + SURPLUS; row++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text field = tri__field_canonical(&made->reading, tri__table_field(table, row, column), form);
        if (!bad[row] && field.length > TRI_CATEGORY_BYTES)
            return tri__field_fail(table, row, column, "is too long for a label");
        if (!bad[row] && tri__values_add(&found, field) < 0)
            return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
        tri__rows_passed(table, row);
    }
    if (found.n != n_classes) return wrong_count(table, column, &made->reading, &found, n_classes, row == rows);
    for (int i = 0; i < n_classes; i++) made->label[i] = TRI_GIVE(found.at[i]);
    return TRI_OK;
}

/* Marks rows whose label is not a class, now that classes are known. */
static tri_status mark_unknown(const tri_table *table, int column, const tri_preprocess_spec *spec,
                               const tri_preprocess *made, uint8_t *bad) {
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        tri_field_text field = tri__table_field(table, row, column);
        int unknown = !bad[row] && tri__labels_class(made, field) < 0;
        char text[1100];
        if (unknown && spec->bad_rows == TRI_BAD_ROWS_FAIL)
            return tri__field_fail(table, row, column, tri__label_words(made, field, text, sizeof text));
        if (unknown) bad[row] = 1;
        tri__rows_passed(table, row);
    }
    return TRI_OK;
}

int tri__label_next(const char *separator, tri_field_text *cell, tri_field_text *label) {
    size_t width = strlen(separator);
    while (cell->length) {
        const char *end = memmem(cell->text, cell->length, separator, width);
        size_t length = end ? (size_t)(end - cell->text) : cell->length, taken = end ? length + width : length;
        *label = tri__field_trim((tri_field_text){cell->text, length, cell->number});
        cell->text += taken, cell->length -= taken;
        if (label->length) return 1;
    }
    return 0;
}

/* The different labels of cells, in byte order. */
static tri_status fit_cells(const tri_table *table, int column, int n_classes, tri_preprocess *made) {
    enum { MOST = 65536, SHOWN = 20 };
    TRI_OWNED(tri__values_free) tri_values found = {0};
    char list[1000] = "";
    for (int64_t row = 0; row < tri__table_rows(table) && found.n <= MOST; row++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text cell = tri__table_field(table, row, column), label;
        if (tri__field_missing(&made->reading, cell)) cell.length = 0;
        while (tri__label_next(made->separator, &cell, &label)) {
            if (label.length > TRI_CATEGORY_BYTES)
                return tri__field_fail(table, row, column, "has a label that is too long");
            if (tri__values_add(&found, tri__field_canonical(&made->reading, label, form)) < 0)
                return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
        }
        tri__rows_passed(table, row);
    }
    for (int i = 0; i < found.n && i < SHOWN; i++) tri__text_append(list, sizeof list, ", ", "\"%.40s\"", found.at[i]);
    if (found.n != n_classes)
        return tri__fail(TRI_DATA, "%s: the cells of column \"%s\", separated by \"%s\", have %d different labels, and "
                         "num_classes is %d: set it to their number, or name the labels in label_list: %s%s",
                         tri__table_path(table), tri__table_name(table, column), made->separator, found.n, n_classes,
                         list, found.n > SHOWN ? ", ..." : "");
    for (int i = 0; i < n_classes; i++) made->label[i] = TRI_GIVE(found.at[i]);
    return TRI_OK;
}

tri_status tri__labels_several(const tri_table *table, int column, const tri_preprocess_spec *spec,
                               tri_preprocess *made) {
    tri_field_text names = {spec->label_name, strlen(spec->label_name), 0}, name;
    if (*spec->separator)
        TRI_TRY(spec->label_list.n ? fit_list(table, spec, made) : fit_cells(table, column, spec->n_classes, made));
    for (int i = 0; !*spec->separator && tri__label_next(",", &names, &name); i++)
        TRI_TRY(take(table, strndup(name.text, name.length), &made->label[i]));
    return tri__labels_forms(made);
}

tri_status tri__labels_fit(const tri_table *table, int column, const tri_preprocess_spec *spec, uint8_t *bad,
                           tri_preprocess *made) {
    int64_t filled, whole;
    TRI_TRY(count_labels(table, column, spec, &made->reading, bad, &filled, &whole));
    int numbers = spec->bad_rows == TRI_BAD_ROWS_SKIP ? filled > 0 && 10 * whole >= 9 * filled : whole == filled;
    int texts = !spec->label_list.n && !numbers;
    if (spec->label_list.n) TRI_TRY(fit_list(table, spec, made));
    else if (numbers) TRI_TRY(fit_numbers(table, spec, made->label));
    else TRI_TRY(fit_texts(table, column, spec->n_classes, bad, made));
    TRI_TRY(tri__labels_forms(made));
    return texts ? TRI_OK : mark_unknown(table, column, spec, made, bad);
}

tri_status tri__labels_forms(tri_preprocess *made) {
    size_t n = (size_t)made->n_classes, bytes = 0;
    char out[TRI_CANONICAL_BYTES];
    for (size_t i = 0; i < n; i++) bytes += strlen(made->label[i]) + sizeof out;
    made->label_form = malloc(n * sizeof *made->label_form + bytes);
    if (!made->label_form) return tri__fail(TRI_RESOURCE, "out of memory for labels");
    char *at = (char *)(made->label_form + n);
    for (size_t i = 0; i < n; i++) {
        const tri_field_text label = {.text = made->label[i], .length = strlen(made->label[i])};
        tri_field_text form = tri__field_canonical(&made->reading, label, out);
        made->label_form[i] = at;
        at = mempcpy(at, form.text, form.length);
        *at++ = 0;
    }
    return TRI_OK;
}

const char *tri__label_words(const tri_preprocess *preprocess, tri_field_text field, char *out, size_t size) {
    enum { SHOWN = 20, NEEDED = 60 }; /* bytes of one, at most */
    if (tri__field_missing(&preprocess->reading, field)) return missing_words(field);
    snprintf(out, size, "is none of the known labels:");
    int i = 0;
    for (; i < preprocess->n_classes && i < SHOWN && strlen(out) + 1 + NEEDED < size; i++)
        tri__text_append(out, size, i ? ", " : " ", "\"%.40s\"", preprocess->label[i]);
    if (i < preprocess->n_classes) tri__text_append(out, size, ", ", "...");
    return out;
}

/* The class whose label has the canonical form of the field; -1: none, or several, of a model from before version 4. */
static int32_t class_of_form(const tri_preprocess *preprocess, tri_field_text field) {
    char out[TRI_CANONICAL_BYTES];
    tri_field_text form = tri__field_canonical(&preprocess->reading, field, out);
    int32_t found = -1;
    if (form.text != out) return -1; /* neither a boolean nor a number */
    for (int i = 0; i < preprocess->n_classes; i++) {
        const char *known = preprocess->label_form[i];
        if (strlen(known) != form.length || memcmp(known, form.text, form.length)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static int32_t class_of_text(const tri_preprocess *preprocess, tri_field_text field) {
    char *const *label = preprocess->label;
    for (int i = 0; i < preprocess->n_classes; i++)
        if (label[i][0] == (field.length ? field.text[0] : 0) && strlen(label[i]) == field.length &&
            memcmp(label[i], field.text, field.length) == 0)
            return i;
    return -1;
}

int32_t tri__labels_class(const tri_preprocess *preprocess, tri_field_text field) {
    int32_t known = class_of_text(preprocess, field);
    if (known < 0) known = class_of_text(preprocess, tri__field_trim(field));
    if (known < 0) known = class_of_form(preprocess, field);
    if (known >= 0) return known;
    int64_t number = preprocess->as_spelt ? class_number_before(&preprocess->reading, field)
                                          : class_number(&preprocess->reading, field);
    if (number < 0 || number >= preprocess->n_classes) return -1;
    const char *name = TRI_TEXT(24, "%lld", (long long)number);
    return preprocess->label_by_index || strcmp(preprocess->label[number], name) == 0 ? (int32_t)number : -1;
}

tri_status tri__preprocess_positive(const tri_preprocess *preprocess, const char *label, int *class) {
    char words[1100];
    tri_field_text field = {.text = label, .length = strlen(label)};
    *class = tri__labels_class(preprocess, field);
    if (*class >= 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "positive_label \"%.100s\" %s", label,
                     tri__label_words(preprocess, field, words, sizeof words));
}
