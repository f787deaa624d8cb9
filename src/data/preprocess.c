/* preprocess.c - fitting and applying what turns columns into labels and numbers. Statistics are computed in double, in
 * row order; the deviation is the population's. Everything wrong in the data is reported by file, line and column. */
#include "data/preprocess.h"

#include "data/columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status no_memory(const char *what) { return tri__fail(TRI_RESOURCE, "%s: out of memory", what); }

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of n > 0 values, which are sorted in place; of an even number, the mean of the middle two. */
static double median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : values[n / 2 - 1] / 2 + values[n / 2] / 2;
}

static tri_status fit_column(const tri_table *table, tri_column_stats *stats) {
    int column;
    TRI_TRY(tri__table_find(table, stats->name, &column));
    int64_t rows = tri__table_rows(table), n = 0;
    double *values = malloc((size_t)rows * sizeof *values);
    if (!values) return no_memory(tri__table_path(table));
    tri_status status = TRI_OK;
    for (int64_t row = 0; row < rows; row++) {
        double value;
        int missing;
        if ((status = tri__column_number(table, row, column, &value, &missing)) != TRI_OK) goto done;
        if (!missing) values[n++] = value;
    }
    if (n == 0) {
        status = tri__fail(TRI_DATA, "%s: column \"%s\" has no number in any row; leave it out of tab_field_list",
                           tri__table_path(table), stats->name);
        goto done;
    }
    stats->missing = rows - n;
    double total = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) total += values[i];
    stats->fill = median(values, n);
    stats->mean = (total + stats->fill * (double)stats->missing) / (double)rows;
    for (int64_t i = 0; i < n; i++) squares += (values[i] - stats->mean) * (values[i] - stats->mean);
    squares += (stats->fill - stats->mean) * (stats->fill - stats->mean) * (double)stats->missing;
    int constant = values[0] == values[n - 1]; /* the median sorted them */
    if (constant) stats->mean = values[0];
    stats->deviation = constant || squares == 0 ? 1 : sqrt(squares / (double)rows);
    if (!isfinite(stats->deviation) || !isfinite(stats->mean))
        status = tri__fail(TRI_DATA, "%s: the numbers of column \"%s\" are too large to standardise", tri__table_path(table),
                           stats->name);
done:
    free(values);
    return status;
}

static tri_status copy_text(const char *from, char **to) {
    *to = from ? strdup(from) : NULL;
    return from && !*to ? no_memory(from) : TRI_OK;
}

static tri_status fit(const tri_table *table, tri_preprocess *made, char *const *columns) {
    int column;
    TRI_TRY(tri__table_find(table, made->primary_name, &column));
    if (made->secondary_name) TRI_TRY(tri__table_find(table, made->secondary_name, &column));
    TRI_TRY(tri__table_find(table, made->label_name, &column));
    if (tri__table_rows(table) == 0) return tri__fail(TRI_DATA, "%s: there are no rows below the header", tri__table_path(table));
    TRI_TRY(tri__labels_fit(table, column, made->n_classes, made->label));
    for (int c = 0; c < made->n_columns; c++) {
        TRI_TRY(copy_text(columns[c], &made->column[c].name));
        TRI_TRY(fit_column(table, &made->column[c]));
    }
    return TRI_OK;
}

static tri_status make(int n_columns, int n_classes, tri_preprocess **out) {
    tri_preprocess *made = calloc(1, sizeof *made);
    if (!made) return no_memory("preprocessing");
    *out = made;
    made->n_columns = n_columns, made->n_classes = n_classes;
    made->column = calloc((size_t)n_columns + 1, sizeof *made->column);
    made->label = calloc((size_t)n_classes, sizeof *made->label);
    return made->column && made->label ? TRI_OK : no_memory("preprocessing");
}

tri_status tri__preprocess_fit(const tri_table *table, const char *label, const char *primary, const char *secondary,
                               char *const *columns, int n_columns, int n_classes, tri_preprocess **out) {
    TRI_ASSERT(n_classes >= 1 && n_columns >= 0);
    *out = NULL;
    tri_preprocess *made = NULL;
    tri_status status = make(n_columns, n_classes, &made);
    if (status == TRI_OK) status = copy_text(label, &made->label_name);
    if (status == TRI_OK) status = copy_text(primary, &made->primary_name);
    if (status == TRI_OK) status = copy_text(secondary, &made->secondary_name);
    if (status == TRI_OK) status = fit(table, made, columns);
    if (status == TRI_OK) *out = made;
    else tri__preprocess_free(made);
    return status;
}

void tri__preprocess_free(tri_preprocess *preprocess) {
    if (!preprocess) return;
    for (int c = 0; preprocess->column && c < preprocess->n_columns; c++) free(preprocess->column[c].name);
    for (int i = 0; preprocess->label && i < preprocess->n_classes; i++) free(preprocess->label[i]);
    free(preprocess->column);
    free(preprocess->label);
    free(preprocess->label_name);
    free(preprocess->primary_name);
    free(preprocess->secondary_name);
    free(preprocess);
}

json_t *tri__preprocess_json(const tri_preprocess *preprocess) {
    json_t *columns = json_array(), *labels = json_array();
    int failed = 0;
    for (int c = 0; c < preprocess->n_columns; c++) {
        const tri_column_stats *stats = &preprocess->column[c];
        failed |= json_array_append_new(columns, json_pack("{s:s, s:f, s:f, s:f, s:I}", "name", stats->name, "fill",
            stats->fill, "mean", stats->mean, "deviation", stats->deviation, "missing", (json_int_t)stats->missing));
    }
    for (int i = 0; i < preprocess->n_classes; i++) failed |= json_array_append_new(labels, json_string(preprocess->label[i]));
    if (failed) {
        json_decref(columns);
        json_decref(labels);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s?, s:o, s:o}", "label_name", preprocess->label_name, "primary_text_name",
                     preprocess->primary_name, "secondary_text_name", preprocess->secondary_name, "columns", columns,
                     "labels", labels);
}

static tri_status parse_text(const json_t *object, const char *key, const char *name, char **out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return tri__fail(TRI_DATA, "%s: %s must be a text", name, key);
    return copy_text(json_string_value(value), out);
}

static tri_status parse_number(const json_t *object, const char *key, const char *name, double *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) return tri__fail(TRI_DATA, "%s: %s of a column must be a number", name, key);
    *out = json_number_value(value);
    return TRI_OK;
}

static tri_status parse(const json_t *json, const json_t *columns, const json_t *labels, const char *name,
                        tri_preprocess *made) {
    TRI_TRY(parse_text(json, "label_name", name, &made->label_name));
    TRI_TRY(parse_text(json, "primary_text_name", name, &made->primary_name));
    const json_t *secondary = json_object_get(json, "secondary_text_name");
    if (secondary && !json_is_null(secondary)) TRI_TRY(parse_text(json, "secondary_text_name", name, &made->secondary_name));
    for (int c = 0; c < made->n_columns; c++) {
        const json_t *from = json_array_get(columns, (size_t)c);
        tri_column_stats *to = &made->column[c];
        TRI_TRY(parse_text(from, "name", name, &to->name));
        TRI_TRY(parse_number(from, "fill", name, &to->fill));
        TRI_TRY(parse_number(from, "mean", name, &to->mean));
        TRI_TRY(parse_number(from, "deviation", name, &to->deviation));
        if (!(to->deviation > 0)) return tri__fail(TRI_DATA, "%s: deviation of a column must be above 0", name);
        to->missing = json_integer_value(json_object_get(from, "missing"));
    }
    for (int i = 0; i < made->n_classes; i++) {
        const json_t *label = json_array_get(labels, (size_t)i);
        if (!json_is_string(label)) return tri__fail(TRI_DATA, "%s: labels must be texts", name);
        TRI_TRY(copy_text(json_string_value(label), &made->label[i]));
    }
    return TRI_OK;
}

tri_status tri__preprocess_parse(const json_t *json, const char *name, tri_preprocess **out) {
    *out = NULL;
    const json_t *columns = json_object_get(json, "columns"), *labels = json_object_get(json, "labels");
    if (!json_is_array(columns)) return tri__fail(TRI_DATA, "%s: columns must be an array", name);
    if (!json_is_array(labels) || json_array_size(labels) == 0)
        return tri__fail(TRI_DATA, "%s: labels must be an array that is not empty", name);
    tri_preprocess *made = NULL;
    tri_status status = make((int)json_array_size(columns), (int)json_array_size(labels), &made);
    if (status == TRI_OK) status = parse(json, columns, labels, name, made);
    if (status == TRI_OK) *out = made;
    else tri__preprocess_free(made);
    return status;
}
