/* preprocess_json.c - preprocessing as JSON, version 2: kept in checkpoints as preprocessing.json and in token stores. What is
 * read back is checked as any input: a checkpoint may come from elsewhere. docs/data.md lists the keys. */
#include "data/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, BEFORE_READING = 1 }; /* written; also read */
static const char *const transforms[] = {"standard", "quantile_normal", "none"};
static const char *const fills[] = {"median", "mean", "zero"};

static json_t *texts_json(char *const *texts, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        if (json_array_append_new(array, json_string(texts[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *reals_json(const double *values, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        if (json_array_append_new(array, json_real(values[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *column_json(const tri_column_stats *s) {
    if (s->category)
        return json_pack("{s:s, s:I, s:o}", "name", s->name, "missing", (json_int_t)s->missing, "categories",
                         texts_json(s->category, s->n_categories));
    json_t *column = json_pack("{s:s, s:I, s:s, s:f}", "name", s->name, "missing", (json_int_t)s->missing, "transform",
                               transforms[s->transform], "fill", s->fill);
    int failed = 0;
    if (column && s->transform == TRI_TRANSFORM_STANDARD)
        failed = json_object_set_new(column, "mean", json_real(s->mean)) ||
                 json_object_set_new(column, "deviation", json_real(s->deviation));
    else if (column && s->transform == TRI_TRANSFORM_QUANTILE_NORMAL)
        failed = json_object_set_new(column, "quantiles", reals_json(s->quantile, s->n_quantiles));
    if (!failed) return column;
    json_decref(column);
    return NULL;
}

/* A text of one character. */
static json_t *mark_json(char mark) { return json_stringn(&mark, mark != 0); }

json_t *tri__preprocess_json(const tri_preprocess *p) {
    json_t *columns = json_array();
    for (int c = 0; c < p->n_columns; c++)
        if (json_array_append_new(columns, column_json(&p->column[c]))) {
            json_decref(columns);
            return NULL;
        }
    return json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "version", VERSION, "label_name", p->label_name, "label_by_index",
                     p->label_by_index, "labels", texts_json(p->label, p->n_classes), "primary_text",
                     texts_json(p->text[0].at, p->text[0].n), "secondary_text", texts_json(p->text[1].at, p->text[1].n),
                     "decimal_mark", mark_json(p->reading.decimal), "missing_values",
                     texts_json(p->reading.missing.at, p->reading.missing.n), "columns", columns);
}

json_t *tri__preprocess_spec_json(const tri_preprocess_spec *s) {
    return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:s, s:s, s:b, s:o, s:o}", "version", VERSION, "label_name", s->label_name,
                     "primary_text", texts_json(s->text[0].at, s->text[0].n), "secondary_text", texts_json(s->text[1].at, s->text[1].n),
                     "columns", texts_json(s->columns.at, s->columns.n), "categorical",
                     texts_json(s->categorical.at, s->categorical.n), "label_list", texts_json(s->label_list.at, s->label_list.n),
                     "n_classes", s->n_classes, "missing", fills[s->missing], "transform", transforms[s->transform], "skip",
                     s->bad_rows == TRI_BAD_ROWS_SKIP, "decimal_mark", mark_json(s->reading.decimal), "missing_values",
                     texts_json(s->reading.missing.at, s->reading.missing.n));
}

static tri_status parse_text(const json_t *value, const char *what, const char *name, char **out) {
    if (!json_is_string(value)) return tri__fail(TRI_DATA, "%s: %s must be a text", name, what);
    *out = strdup(json_string_value(value));
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", name);
}

static tri_status parse_number(const json_t *object, const char *key, const char *name, double *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) return tri__fail(TRI_DATA, "%s: %s of a column must be a number", name, key);
    *out = json_number_value(value);
    return TRI_OK;
}

/* *n counts what *out owns, also when it fails. */
static tri_status parse_texts(const json_t *object, const char *key, const char *name, char ***out, int *n) {
    const json_t *array = json_object_get(object, key);
    if (!json_is_array(array)) return tri__fail(TRI_DATA, "%s: %s must be an array of texts", name, key);
    int size = (int)json_array_size(array);
    *out = calloc((size_t)size + 1, sizeof **out);
    if (!*out) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    for (*n = 0; *n < size; ++*n) TRI_TRY(parse_text(json_array_get(array, (size_t)*n), key, name, &(*out)[*n]));
    return TRI_OK;
}

static tri_status parse_categories(const json_t *from, const char *name, tri_column_stats *to) {
    TRI_TRY(parse_texts(from, "categories", name, &to->category, &to->n_categories));
    if (to->n_categories < 1 || to->n_categories > TRI_CATEGORIES_MAX)
        return tri__fail(TRI_DATA, "%s: column \"%s\" has %d categories; 1 to %d are expected", name, to->name, to->n_categories,
                         TRI_CATEGORIES_MAX);
    for (int i = 1; i < to->n_categories; i++)
        if (strcmp(to->category[i - 1], to->category[i]) >= 0)
            return tri__fail(TRI_DATA, "%s: the categories of column \"%s\" are not sorted", name, to->name);
    to->width = to->n_categories + 1;
    to->transform = TRI_TRANSFORM_NONE;
    return TRI_OK;
}

static tri_status parse_quantiles(const json_t *from, const char *name, tri_column_stats *to) {
    const json_t *array = json_object_get(from, "quantiles");
    size_t n = json_array_size(array); /* 0 when it is none */
    if (n < 1 || n > TRI_QUANTILES_MAX)
        return tri__fail(TRI_DATA, "%s: quantiles of column \"%s\" must be an array of 1 to %d numbers", name, to->name, TRI_QUANTILES_MAX);
    to->quantile = malloc(n * sizeof *to->quantile);
    if (!to->quantile) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        to->quantile[i] = json_number_value(value);
        if (!json_is_number(value) || (i && to->quantile[i] < to->quantile[i - 1]))
            return tri__fail(TRI_DATA, "%s: quantiles of column \"%s\" must be rising numbers", name, to->name);
    }
    to->n_quantiles = (int)n;
    return TRI_OK;
}

static tri_status parse_column(const json_t *from, const char *name, tri_column_stats *to) {
    TRI_TRY(parse_text(json_object_get(from, "name"), "name of a column", name, &to->name));
    to->missing = json_integer_value(json_object_get(from, "missing"));
    if (json_object_get(from, "categories")) return parse_categories(from, name, to);
    const char *transform = json_string_value(json_object_get(from, "transform"));
    int which = 0;
    while (which < 3 && (!transform || strcmp(transform, transforms[which]))) which++;
    if (which == 3) return tri__fail(TRI_DATA, "%s: transform of column \"%s\" must be standard, quantile_normal or none", name, to->name);
    to->transform = (tri_transform)which, to->width = 1;
    TRI_TRY(parse_number(from, "fill", name, &to->fill));
    if (to->transform == TRI_TRANSFORM_QUANTILE_NORMAL) return parse_quantiles(from, name, to);
    if (to->transform == TRI_TRANSFORM_NONE) return TRI_OK;
    TRI_TRY(parse_number(from, "mean", name, &to->mean));
    TRI_TRY(parse_number(from, "deviation", name, &to->deviation));
    return to->deviation > 0 ? TRI_OK : tri__fail(TRI_DATA, "%s: deviation of column \"%s\" must be above 0", name, to->name);
}

static tri_status parse_reading(const json_t *json, const char *name, tri_reading *to) {
    const char *mark = json_string_value(json_object_get(json, "decimal_mark"));
    if (!mark || (strcmp(mark, ".") && strcmp(mark, ",")))
        return tri__fail(TRI_DATA, "%s: decimal_mark must be a point or a comma", name);
    to->decimal = mark[0];
    return parse_texts(json, "missing_values", name, &to->missing.at, &to->missing.n);
}

static tri_status parse(const json_t *json, const char *name, tri_preprocess *made) {
    const json_t *columns = json_object_get(json, "columns"), *version = json_object_get(json, "version");
    if (json_integer_value(version) != VERSION && json_integer_value(version) != BEFORE_READING)
        return tri__fail(TRI_DATA, "%s: version %lld of preprocessing; this build reads versions %d and %d", name,
                         (long long)json_integer_value(version), BEFORE_READING, VERSION);
    made->reading.decimal = '.';
    if (json_integer_value(version) != BEFORE_READING) TRI_TRY(parse_reading(json, name, &made->reading));
    TRI_TRY(parse_text(json_object_get(json, "label_name"), "label_name", name, &made->label_name));
    TRI_TRY(parse_texts(json, "labels", name, &made->label, &made->n_classes));
    TRI_TRY(parse_texts(json, "primary_text", name, &made->text[0].at, &made->text[0].n));
    TRI_TRY(parse_texts(json, "secondary_text", name, &made->text[1].at, &made->text[1].n));
    made->label_by_index = json_is_true(json_object_get(json, "label_by_index"));
    if (!made->n_classes) return tri__fail(TRI_DATA, "%s: labels must not be empty", name);
    if (!made->text[0].n) return tri__fail(TRI_DATA, "%s: primary_text must not be empty", name);
    if (!json_is_array(columns)) return tri__fail(TRI_DATA, "%s: columns must be an array", name);
    made->column = calloc(json_array_size(columns) + 1, sizeof *made->column);
    if (!made->column) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    made->n_columns = (int)json_array_size(columns);
    for (int c = 0; c < made->n_columns; c++) {
        TRI_TRY(parse_column(json_array_get(columns, (size_t)c), name, &made->column[c]));
        made->width += made->column[c].width;
    }
    return TRI_OK;
}

tri_status tri__preprocess_parse(const json_t *json, const char *name, tri_preprocess **out) {
    *out = NULL;
    tri_preprocess *made = calloc(1, sizeof *made);
    if (!made) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    tri_status status = parse(json, name, made);
    if (status == TRI_OK) *out = made;
    else tri__preprocess_free(made);
    return status;
}
