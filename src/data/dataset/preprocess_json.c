/* preprocess_json.c - preprocessing as JSON, version 4 or 5: in checkpoints as preprocessing.json, and in token stores.
 * It is validated like any input when read: a checkpoint is not trusted. Categories and labels of versions before it
 * are as the training table spelt them; their canonical forms are found when they are read. docs/guide/data.md lists
 * the keys. */

#include "data/dataset/field_values.h"

enum { VERSION = 5, CANONICAL = 4, WITH_VECTORS = 3, AS_SPELT = 2, BEFORE_READING = 1 }; /* 4: without newer forms */
static const char *const transforms[] = {"standard", "quantile_normal", "none", "log"};
static const char *const vectors[] = {"none", "piecewise", "periodic"};
static const char *const fills[] = {"median", "mean", "zero"};
static const char *const marks[] = {".", ","};

static tri_json *reals_json(const double *values, int n) {
    tri_json *array = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(array, tri__json_real(values[i]));
    return array;
}

static tri_json *texts_json(const tri_texts *texts) { return tri__json_strings(texts->at, texts->n); }

/* A text of one character. */
static tri_json *mark_json(char mark) { return tri__json_stringn(&mark, mark != 0); }

static tri_json *form_json(const tri_value_form *form) {
    if (form->kind == TRI_FORM_AMOUNT)
        return tri__json_pack("{s:s, s:o, s:s}", "kind", "amount", "decimal_mark", mark_json(form->mark), "unit",
                              form->unit);
    if (form->kind == TRI_FORM_BOOLEAN) return tri__json_pack("{s:s}", "kind", "boolean");
    if (form->kind == TRI_FORM_HASHED) return tri__json_pack("{s:s, s:i}", "kind", "hashed", "buckets", form->buckets);
    return tri__json_pack("{s:s, s:s, s:b, s:b, s:s}", "kind", "date", "order", tri__date_orders[form->order], "zoned",
                          form->zoned, "clock", form->clock, "part", tri__date_part_names[form->part]);
}

static tri_json *column_json(const tri_column_stats *s) {
    if (tri__column_is_text(s)) {
        tri_json *text = tri__json_pack("{s:s, s:I}", "name", s->name, "missing", (tri_json_int)s->missing);
        if (s->category) tri__json_set_new(text, "categories", tri__json_strings(s->category, s->n_categories));
        else tri__json_set_new(text, "form", form_json(&s->read_as));
        if (s->joined) tri__json_set_new(text, "joined", tri__json_integer(s->joined));
        return text;
    }
    tri_json *column = tri__json_pack("{s:s, s:I, s:s, s:f}", "name", s->name, "missing", (tri_json_int)s->missing,
                                      "transform", transforms[s->transform], "fill", s->fill);
    if (s->read_as.kind != TRI_FORM_PLAIN) tri__json_set_new(column, "form", form_json(&s->read_as));
    if (s->transform == TRI_TRANSFORM_STANDARD || s->transform == TRI_TRANSFORM_LOG) {
        tri__json_set_new(column, "mean", tri__json_real(s->mean));
        tri__json_set_new(column, "deviation", tri__json_real(s->deviation));
    } else if (s->transform == TRI_TRANSFORM_QUANTILE_NORMAL) {
        tri__json_set_new(column, "quantiles", reals_json(s->quantile, s->n_quantiles));
    }
    if (s->n_edges) tri__json_set_new(column, "edges", reals_json(s->edge, s->n_edges));
    return column;
}

/* Texts beyond the second have a column each. */
static void add_texts(const tri_texts text[static TRI_TEXTS_MAX], tri_json *to) {
    tri_json *list = tri__json_array();
    for (int t = 2; t < tri__preprocess_texts(text); t++) tri__json_append_new(list, tri__json_string(text[t].at[0]));
    tri__json_set_filled(to, "further_texts", list);
}

tri_json *tri__preprocess_json(const tri_preprocess *p) {
    tri_json *columns = tri__json_array();
    int version = !p->as_spelt ? CANONICAL : p->embedding ? WITH_VECTORS : AS_SPELT;
    for (int c = 0; c < p->n_columns; c++) {
        tri__json_append_new(columns, column_json(&p->column[c]));
        if (p->column[c].read_as.kind >= TRI_FORM_BOOLEAN) version = VERSION;
    }
    tri_json *made = tri__json_pack(
        "{s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "version", version, "label_name", p->label_name,
        "label_by_index", p->label_by_index, "labels", tri__json_strings(p->label, p->n_classes), "primary_text",
        texts_json(&p->text[0]), "secondary_text", texts_json(&p->text[1]), "decimal_mark",
        mark_json(p->reading.decimal), "missing_values", texts_json(&p->reading.missing), "columns", columns);
    add_texts(p->text, made);
    if (p->embedding) tri__json_set_new(made, "vectors", tri__json_string(vectors[p->embedding]));
    if (p->target) tri__json_set_new(made, "target", column_json(p->target));
    if (p->separator) tri__json_set_new(made, "separator", tri__json_string(p->separator));
    return made;
}

tri_json *tri__preprocess_spec_json(const tri_preprocess_spec *s) {
    tri_json *made = tri__json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:s, s:s, s:b, s:o, s:o, s:s*, s:s*, s:s*, s:s*}", "version",
        CANONICAL, "label_name", s->label_name, "primary_text", texts_json(&s->text[0]), "secondary_text",
        texts_json(&s->text[1]), "columns", texts_json(&s->columns), "categorical", texts_json(&s->categorical),
        "label_list", texts_json(&s->label_list), "n_classes", s->n_classes, "missing", fills[s->missing], "transform",
        transforms[s->transform], "skip", s->bad_rows == TRI_BAD_ROWS_SKIP, "decimal_mark",
        mark_json(s->reading.decimal), "missing_values", texts_json(&s->reading.missing), "date_order",
        s->date_order ? tri__date_orders[s->date_order] : NULL, "vectors", s->vectors ? vectors[s->vectors] : NULL,
        "target", s->is_number ? transforms[s->target] : NULL, "separator", s->separator);
    add_texts(s->text, made);
    tri__json_set_filled(made, "hashed", texts_json(&s->hashed));
    tri__json_set_filled(made, "boolean", texts_json(&s->boolean));
    if (s->vectors == TRI_VECTORS_PIECEWISE) tri__json_set_new(made, "bins", tri__json_integer(s->bins));
    if (s->hashed.n) tri__json_set_new(made, "buckets", tri__json_integer(s->buckets));
    if (s->min_rows > 1) tri__json_set_new(made, "min_rows", tri__json_integer(s->min_rows));
    if (s->level) tri__json_set_new(made, "levels", reals_json(s->level, s->n_classes));
    return made;
}

static tri_status parse_text(const tri_json *value, const char *what, const char *name, char **out) {
    if (!tri__json_is_string(value)) return tri__fail(TRI_DATA, "%s: %s must be a text", name, what);
    *out = strdup(tri__json_string_value(value));
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", name);
}

/* The place of a text among the names; -1: none of them. */
static int choice(const tri_json *object, const char *key, const char *const *names, int n) {
    const char *text = tri__text_in(object, key);
    return text ? tri__text_index(text, names, n) : -1;
}

static tri_status parse_number(const tri_json *object, const char *key, const char *name, double *out) {
    const tri_json *value = tri__json_get(object, key);
    if (!tri__json_is_number(value)) return tri__fail(TRI_DATA, "%s: %s of a column must be a number", name, key);
    *out = tri__json_number_value(value);
    return TRI_OK;
}

/* *n counts what *out owns, even after a failure. */
static tri_status parse_texts(const tri_json *object, const char *key, const char *name, char ***out, int *n) {
    const tri_json *array = tri__json_get(object, key);
    if (!tri__json_is_array(array)) return tri__fail(TRI_DATA, "%s: %s must be an array of texts", name, key);
    int size = (int)tri__json_size(array);
    TRI_TRY(TRI_NEW(*out, size + 1, name));
    for (*n = 0; *n < size; ++*n) TRI_TRY(parse_text(tri__json_at(array, (size_t)*n), key, name, &(*out)[*n]));
    return TRI_OK;
}

static tri_status parse_categories(const tri_json *from, const char *name, tri_column_stats *to) {
    TRI_TRY(parse_texts(from, "categories", name, &to->category, &to->n_categories));
    int most = to->vectors ? TRI_CATEGORY_ROWS_MAX : TRI_CATEGORIES_MAX;
    if (to->n_categories < 1 || to->n_categories > most)
        return tri__fail(TRI_DATA, "%s: column \"%s\" has %d categories; 1 to %d are expected", name, to->name,
                         to->n_categories, most);
    for (int i = 1; i < to->n_categories; i++)
        if (strcmp(to->category[i - 1], to->category[i]) >= 0)
            return tri__fail(TRI_DATA, "%s: the categories of column \"%s\" are not sorted", name, to->name);
    to->width = to->vectors ? 1 : to->n_categories + 1;
    to->joined = tri__whole_in(from, "joined");
    to->transform = TRI_TRANSFORM_NONE;
    return TRI_OK;
}

/* An array of `least` to `most` numbers, each not below the one before it; strictly: above it. */
typedef struct rising {
    const char *key;
    int least, most, strictly;
} rising;

static tri_status parse_rising(const tri_json *from, const rising *what, const char *name, const char *column,
                               double **out, int *count) {
    const tri_json *array = tri__json_get(from, what->key);
    size_t n = tri__json_size(array); /* 0 if it is not an array */
    if (n < (size_t)what->least || n > (size_t)what->most)
        return tri__fail(TRI_DATA, "%s: %s of column \"%s\" must be an array of %d to %d numbers", name, what->key,
                         column, what->least, what->most);
    double *made = *out = malloc(n * sizeof *made);
    if (!made) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    for (size_t i = 0; i < n; i++) {
        const tri_json *value = tri__json_at(array, i);
        made[i] = tri__json_number_value(value);
        if (!tri__json_is_number(value) || (i && (made[i] < made[i - 1] || (what->strictly && made[i] == made[i - 1]))))
            return tri__fail(TRI_DATA, "%s: %s of column \"%s\" must be rising numbers", name, what->key, column);
    }
    *count = (int)n;
    return TRI_OK;
}

static tri_status parse_transform(const tri_json *from, const char *name, tri_column_stats *to) {
    static const rising quantiles = {"quantiles", 1, TRI_QUANTILES_MAX, 0};
    if (to->transform == TRI_TRANSFORM_QUANTILE_NORMAL)
        return parse_rising(from, &quantiles, name, to->name, &to->quantile, &to->n_quantiles);
    if (to->transform == TRI_TRANSFORM_NONE) return TRI_OK;
    TRI_TRY(parse_number(from, "mean", name, &to->mean));
    TRI_TRY(parse_number(from, "deviation", name, &to->deviation));
    return to->deviation > 0 ? TRI_OK
                             : tri__fail(TRI_DATA, "%s: deviation of column \"%s\" must be above 0", name, to->name);
}

static tri_status parse_form(const tri_json *from, const char *name, tri_column_stats *to) {
    static const char *const kinds[] = {"plain", "amount", "date", "boolean", "hashed"};
    tri_value_form *form = &to->read_as;
    if (!from) return TRI_OK;
    int kind = choice(from, "kind", kinds, 5), mark = choice(from, "decimal_mark", marks, 2);
    int order = choice(from, "order", tri__date_orders, TRI_DATE_ORDERS),
        part = choice(from, "part", tri__date_part_names, TRI_DATE_PARTS);
    const char *unit = tri__text_in(from, "unit");
    tri_json_int buckets = tri__whole_in(from, "buckets");
    if (kind == TRI_FORM_AMOUNT && mark >= 0 && unit && strlen(unit) < TRI_UNIT_BYTES) {
        *form = (tri_value_form){.kind = TRI_FORM_AMOUNT, .mark = marks[mark][0]};
        strcpy(form->unit, unit);
    } else if (kind == TRI_FORM_DATE && order > TRI_DATE_AUTO && part >= 0) {
        *form = (tri_value_form){.kind = TRI_FORM_DATE, .order = (tri_date_order)order, .part = (tri_date_part)part,
                                 .zoned = tri__json_is_true(tri__json_get(from, "zoned")),
                                 .clock = tri__json_is_true(tri__json_get(from, "clock"))};
    } else if (kind == TRI_FORM_BOOLEAN || (kind == TRI_FORM_HASHED && buckets > 1 && buckets <= TRI_BUCKETS_MAX)) {
        *form = (tri_value_form){.kind = (tri_form_kind)kind, .buckets = kind == TRI_FORM_HASHED ? (int)buckets : 0};
    } else {
        return tri__fail(TRI_DATA, "%s: form of column \"%s\" must be that of an amount, a date, a boolean, or a text "
                         "hashed into 2 to %d buckets", name, to->name, TRI_BUCKETS_MAX);
    }
    return TRI_OK;
}

static tri_status parse_column(const tri_json *from, const char *name, tri_column_stats *to) {
    TRI_TRY(parse_text(tri__json_get(from, "name"), "name of a column", name, &to->name));
    to->missing = tri__whole_in(from, "missing");
    if (tri__json_get(from, "categories")) return parse_categories(from, name, to);
    TRI_TRY(parse_form(tri__json_get(from, "form"), name, to));
    to->width = to->read_as.buckets, to->transform = TRI_TRANSFORM_NONE;
    if (to->read_as.kind == TRI_FORM_HASHED) return TRI_OK;
    int which = choice(from, "transform", transforms, 4);
    if (which < 0)
        return tri__fail(TRI_DATA, "%s: transform of column \"%s\" must be standard, quantile_normal or none", name,
                         to->name);
    to->transform = (tri_transform)which, to->width = 1;
    TRI_TRY(parse_number(from, "fill", name, &to->fill));
    TRI_TRY(parse_transform(from, name, to));
    static const rising edges = {"edges", 2, TRI_BINS_MAX + 1, 1};
    if (to->vectors != TRI_VECTORS_PIECEWISE) return TRI_OK;
    return parse_rising(from, &edges, name, to->name, &to->edge, &to->n_edges);
}

/* A category and its canonical form. */
typedef struct spelling {
    char *form;
    int category;
} spelling;

static int by_form(const void *a, const void *b) {
    const spelling *x = a, *y = b;
    int order = strcmp(x->form, y->form);
    return order ? order : x->category - y->category;
}

/* The canonical forms of categories that are as the training table spelt them. */
static tri_status find_forms(const char *name, const tri_reading *reading, tri_column_stats *to) {
    size_t n = (size_t)to->n_categories;
    TRI_OWNED(tri__free_at) spelling *list = calloc(n, sizeof *list);
    to->form = calloc(n, sizeof *to->form);
    to->of_form = malloc(n * sizeof *to->of_form);
    int failed = !list || !to->form || !to->of_form;
    for (size_t i = 0; i < n && !failed; i++) {
        char out[TRI_CANONICAL_BYTES];
        tri_field_text text = {.text = to->category[i], .length = strlen(to->category[i])};
        text = tri__field_canonical(reading, text, out);
        list[i] = (spelling){to->form[i] = strndup(text.text, text.length), (int)i};
        failed = !to->form[i];
    }
    if (failed) return tri__fail(TRI_RESOURCE, "%s: out of memory", name);
    qsort(list, n, sizeof *list, by_form);
    for (size_t i = 0; i < n; i++) to->form[i] = list[i].form, to->of_form[i] = list[i].category;
    return TRI_OK;
}

static tri_status parse_further(const tri_json *list, const char *name, tri_texts text[static TRI_TEXTS_MAX]) {
    size_t n = tri__json_size(list);
    if (n && (!text[1].n || n > TRI_TEXTS_MAX - 2))
        return tri__fail(TRI_DATA, "%s: %zu further_texts after %d texts; at most %d in all", name, n,
                         1 + !!text[1].n, TRI_TEXTS_MAX);
    for (size_t i = 0; i < n; i++) {
        TRI_TRY(TRI_NEW(text[i + 2].at, 1, name));
        TRI_TRY(parse_text(tri__json_at(list, i), "further_texts", name, &text[i + 2].at[0]));
        text[i + 2].n = 1;
    }
    return TRI_OK;
}

static tri_status parse(const tri_json *json, const char *name, tri_preprocess *made) {
    const tri_json *columns = tri__json_get(json, "columns");
    tri_json_int version = tri__whole_in(json, "version");
    if (version < BEFORE_READING || version > VERSION)
        return tri__fail(TRI_DATA, "%s: version %lld of preprocessing; this build reads versions %d to %d", name,
                         (long long)version, BEFORE_READING, VERSION);
    if (version == WITH_VECTORS || (version >= CANONICAL && tri__json_get(json, "vectors"))) {
        int which = choice(json, "vectors", vectors, 3);
        if (which <= TRI_VECTORS_NONE) return tri__fail(TRI_DATA, "%s: vectors must be piecewise or periodic", name);
        made->embedding = (tri_vectors)which;
    }
    int mark = version == BEFORE_READING ? 0 : choice(json, "decimal_mark", marks, 2);
    if (mark < 0) return tri__fail(TRI_DATA, "%s: decimal_mark must be a point or a comma", name);
    tri_texts *missing = &made->reading.missing;
    made->reading.decimal = *marks[mark], made->as_spelt = version < CANONICAL;
    if (version != BEFORE_READING) TRI_TRY(parse_texts(json, "missing_values", name, &missing->at, &missing->n));
    TRI_TRY(parse_text(tri__json_get(json, "label_name"), "label_name", name, &made->label_name));
    TRI_TRY(parse_texts(json, "labels", name, &made->label, &made->n_classes));
    TRI_TRY(parse_texts(json, "primary_text", name, &made->text[0].at, &made->text[0].n));
    TRI_TRY(parse_texts(json, "secondary_text", name, &made->text[1].at, &made->text[1].n));
    TRI_TRY(parse_further(tri__json_get(json, "further_texts"), name, made->text));
    made->label_by_index = tri__json_is_true(tri__json_get(json, "label_by_index"));
    if (!made->n_classes) return tri__fail(TRI_DATA, "%s: labels must not be empty", name);
    TRI_TRY(tri__labels_forms(made));
    if (!made->text[0].n) return tri__fail(TRI_DATA, "%s: primary_text must not be empty", name);
    const tri_json *target = tri__json_get(json, "target");
    if (target) TRI_TRY(TRI_NEW(made->target, 1, name));
    if (target) TRI_TRY(parse_column(target, name, made->target));
    if (target && tri__column_is_text(made->target)) return tri__fail(TRI_DATA, "%s: target must be a number's", name);
    if (target && tri__json_get(json, "separator")) {
        TRI_TRY(parse_text(tri__json_get(json, "separator"), "separator", name, &made->separator));
        made->target->width = made->n_classes;
    }
    if (!tri__json_is_array(columns)) return tri__fail(TRI_DATA, "%s: columns must be an array", name);
    TRI_TRY(TRI_NEW(made->column, tri__json_size(columns) + 1, name));
    made->n_columns = (int)tri__json_size(columns);
    for (int c = 0; c < made->n_columns; c++) {
        made->column[c].vectors = made->embedding;
        TRI_TRY(parse_column(tri__json_at(columns, (size_t)c), name, &made->column[c]));
        if (made->as_spelt && made->column[c].category) TRI_TRY(find_forms(name, &made->reading, &made->column[c]));
        TRI_TRY(tri__preprocess_widen(made, &made->column[c]));
    }
    return tri__vectors_make(made);
}

tri_status tri__preprocess_parse(const tri_json *json, const char *name, tri_preprocess **out) {
    *out = NULL;
    TRI_OWNED(tri__preprocess_drop) tri_preprocess *made = NULL;
    TRI_TRY(TRI_NEW(made, 1, name));
    TRI_TRY(parse(json, name, made));
    *out = TRI_GIVE(made);
    return TRI_OK;
}
