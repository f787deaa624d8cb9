/* validation_figures.c - reads validation files, and puts their figures into a run's data. */
#include "report/runs/run_parts.h"

#include "data/table/table.h"
#include "score/metrics.h"

enum { CURVES = 8, MATRIX = 32, CONFUSED = 12, FIRST = 2 }; /* FIRST: the first column of probabilities */

static void close_predicted(tri_predicted *p) {
    for (int c = 0; p->class && c < p->n_classes; c++) free(p->class[c]);
    TRI_FREE(p->class, p->row, p->label, p->probs);
    *p = (tri_predicted){0};
}

/* A field as a number; NaN: it is none. */
static double number(tri_field_text field) {
    char text[64], *end;
    if (field.length == 0 || field.length >= sizeof text) return NAN;
    memcpy(text, field.text, field.length);
    text[field.length] = 0;
    double value = strtod(text, &end);
    return *end ? NAN : value;
}

static int class_of(const tri_predicted *p, tri_field_text field) {
    for (int c = 0; c < p->n_classes; c++)
        if (strlen(p->class[c]) == field.length && !memcmp(p->class[c], field.text, field.length)) return c;
    return -1;
}

static tri_status read_header(const tri_table *table, tri_predicted *p) {
    int columns = tri__table_columns(table);
    if (columns < FIRST + 2 || strcmp(tri__table_name(table, 0), "row") || strcmp(tri__table_name(table, 1), "label"))
        return tri__fail(TRI_DATA, "its columns are not row, label, p_<class>, ...");
    p->n_classes = columns - FIRST;
    p->class = calloc((size_t)p->n_classes, sizeof *p->class);
    for (int c = 0; p->class && c < p->n_classes; c++) {
        const char *name = tri__table_name(table, FIRST + c);
        if (strncmp(name, "p_", 2)) return tri__fail(TRI_DATA, "column %d is not p_<class>", FIRST + c + 1);
        if (!(p->class[c] = strdup(name + 2))) return tri__fail(TRI_RESOURCE, "no memory for a validation");
    }
    return p->class ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for a validation");
}

static tri_status read_rows(const tri_table *table, tri_predicted *p) {
    p->n = tri__table_rows(table);
    if (!p->n) return tri__fail(TRI_DATA, "it has no rows");
    p->row = malloc((size_t)p->n * sizeof *p->row);
    p->label = malloc((size_t)p->n * sizeof *p->label);
    p->probs = malloc((size_t)p->n * (size_t)p->n_classes * sizeof *p->probs);
    if (!p->row || !p->label || !p->probs) return tri__fail(TRI_RESOURCE, "no memory for a validation");
    for (int64_t i = 0; i < p->n; i++) {
        double row = number(tri__table_field(table, i, 0));
        p->label[i] = class_of(p, tri__table_field(table, i, 1));
        int bad = !(row >= 1 && row < 1e15) || p->label[i] < 0;
        p->row[i] = bad ? 0 : (int64_t)row;
        for (int c = 0; c < p->n_classes && !bad; c++) {
            double value = number(tri__table_field(table, i, FIRST + c));
            bad = !(value >= 0 && value <= 1);
            p->probs[i * p->n_classes + c] = (float)value;
        }
        if (bad) return tri__fail(TRI_DATA, "line %lld is damaged", (long long)i + 2);
    }
    return tri__table_check(table);
}

/* TRI_NOINPUT: no such file; TRI_DATA: it is damaged. The caller closes it all the same. */
static tri_status open_predicted(const char *path, tri_predicted *out) {
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    tri_kind kind;
    *out = (tri_predicted){0};
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind == TRI_KIND_NONE) return tri__fail(TRI_NOINPUT, "%s: no such file", path);
    TRI_TRY(tri__table_open(path, &(tri_table_options){.separator = ','}, &table));
    TRI_TRY(read_header(table, out));
    return read_rows(table, out);
}

/* ---- figures ---- */

static tri_json *classes_json(const tri_scores *s) {
    tri_json *all = tri__json_array();
    for (int c = 0; c < s->n_classes; c++)
        tri__json_append_new(all, tri__json_pack("{s:s, s:I, s:f, s:f, s:f}", "label", s->label[c], "rows",
                                                 (tri_json_int)s->support[c], "precision", s->precision[c], "recall",
                                                 s->recall[c], "f1", s->f1[c]));
    return all;
}

static tri_json *matrix_json(const tri_scores *s) {
    tri_json *all = tri__json_array();
    for (int label = 0; label < s->n_classes; label++) {
        tri_json *row = tri__json_array();
        for (int c = 0; c < s->n_classes; c++)
            tri__json_append_new(row, tri__json_integer(s->confusion[label * s->n_classes + c]));
        tri__json_append_new(all, row);
    }
    return all;
}

/* The most frequent errors, by selection: there are few. */
static tri_json *confused_json(const tri_scores *s) {
    tri_json *all = tri__json_array();
    int64_t below = INT64_MAX, n = (int64_t)s->n_classes * s->n_classes, after = -1;
    for (int k = 0; k < CONFUSED; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t rows = s->confusion[i];
            int later = rows < below || (rows == below && i > after);
            if (i / s->n_classes != i % s->n_classes && rows && later && (best < 0 || rows > s->confusion[best]))
                best = i;
        }
        if (best < 0) break;
        below = s->confusion[best], after = best;
        tri__json_append_new(all, tri__json_pack("{s:s, s:s, s:I}", "label", s->label[best / s->n_classes], "predicted",
                                                 s->label[best % s->n_classes], "rows", (tri_json_int)below));
    }
    return all;
}

/* The classes that have curves: the positive one, or the most frequent ones. */
static int curve_classes(const tri_scores *s, int class[static CURVES]) {
    int n = 0;
    if (s->positive >= 0) class[n++] = s->positive;
    while (s->positive < 0 && n < CURVES && n < s->n_classes) {
        int best = -1;
        for (int c = 0; c < s->n_classes; c++) {
            int taken = 0;
            for (int k = 0; k < n; k++) taken |= class[k] == c;
            if (!taken && (best < 0 || s->support[c] > s->support[best])) best = c;
        }
        class[n++] = best;
    }
    return n;
}

/* The temperature that the run fitted to these probabilities: of its last best validation, or of its last. */
static double temperature_of(const tri_json *run, const char *kind) {
    const tri_json *found = NULL;
    tri__json_items(tri__json_get(run, "validations"), event)
        if (strcmp(kind, "best") || tri__json_is_true(tri__json_get(event, "best"))) found = event;
    double temperature = tri__number_in(found, "temperature");
    return temperature >= 1e-3 && temperature <= 1e3 ? temperature : 1;
}

/* Changes the probabilities to calibrated ones. */
static tri_json *reliability_json(const tri_scores *s, double temperature, tri_predicted *p) {
    const tri_decision decision = {.temperature = temperature};
    tri_reliability calibrated;
    tri_json *all = tri__json_pack("{s:f, s:o}", "ece", s->reliability.ece, "bins",
                                   tri__reliability_json(&s->reliability));
    if (!all || temperature == 1) return all;
    tri__decision_apply(&decision, p->probs, p->n, p->n_classes);
    tri__reliability(p->probs, p->label, p->n, p->n_classes, s->positive, &calibrated);
    tri__json_set_new(all, "calibrated", tri__json_pack("{s:f, s:f, s:o}", "temperature", temperature, "ece",
                                                        calibrated.ece, "bins", tri__reliability_json(&calibrated)));
    return all;
}

static tri_json *figures_json(const tri_predicted *p, const tri_scores *s) {
    int class[CURVES], n = curve_classes(s, class);
    tri_json *pr = tri__json_array(), *roc = tri__json_array();
    for (int k = 0; k < n; k++) {
        tri__json_append_new(pr, tri__predicted_curve(p, class[k], 0));
        tri__json_append_new(roc, tri__predicted_curve(p, class[k], 1));
    }
    tri_json *all = tri__json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "rows", (tri_json_int)s->rows, "loss", s->log_loss,
        "accuracy", s->accuracy, "f1_macro", s->f1_macro, "pr_auc", s->pr_auc, "average_precision",
        s->average_precision, "roc_auc", s->roc_auc, "classes", classes_json(s), "pr", pr, "roc", roc);
    if (all && s->positive >= 0) tri__json_set_new(all, "positive", tri__json_string(s->label[s->positive]));
    if (all && s->confusion && s->n_classes <= MATRIX) tri__json_set_new(all, "confusion", matrix_json(s));
    if (all && s->confusion && s->n_classes > 2) tri__json_set_new(all, "confused", confused_json(s));
    return all;
}

/* The positive class of two: the run's, or the second. */
static int positive_of(const tri_predicted *p, const tri_json *run) {
    const char *name = tri__text_in(tri__json_get(run, "facts"), "positive_label");
    if (p->n_classes != 2) return -1;
    return name && !strcmp(name, p->class[0]) ? 0 : 1;
}

static tri_status take_file(const char *folder, const char *kind, const tri_run_data_options *options, tri_json *run,
                            tri_json **out) {
    TRI_OWNED(close_predicted) tri_predicted p = {0};
    TRI_OWNED(tri__scores_free) tri_scores scores = {0};
    *out = NULL;
    const char *name = TRI_TEXT(32, "validation-%s.csv", kind);
    TRI_PATH(path, folder, name);
    tri_status status = open_predicted(path, &p);
    if (status == TRI_NOINPUT) return TRI_OK;
    const tri_label_set set = {.n = p.n_classes, .label = p.class, .positive = positive_of(&p, run)};
    if (status == TRI_OK) status = tri__scores(p.probs, p.label, p.n, &set, &scores);
    if (status == TRI_RESOURCE) return status;
    if (status != TRI_OK) {
        tri__run_missing(run, "%s cannot be read: %s", name, tri_error());
        return TRI_OK;
    }
    *out = figures_json(&p, &scores);
    if (!*out) return tri__fail(TRI_RESOURCE, "no memory for the figures of %s", path);
    tri__json_set_new(*out, "file", tri__json_string(name));
    if (options->rows) TRI_TRY(tri__predicted_rows(&p, options->rows, run, *out));
    tri__json_set_new(*out, "reliability", reliability_json(&scores, temperature_of(run, kind), &p));
    return TRI_OK;
}

tri_status tri__run_predictions(const char *folder, const tri_run_data_options *options, tri_json *run) {
    static const char *const kinds[] = {"best", "last"};
    tri_json *all = tri__json_object();
    tri_status status = TRI_OK;
    for (int i = 0; i < 2 && status == TRI_OK; i++) {
        tri_json *one = NULL;
        status = take_file(folder, kinds[i], options, run, &one);
        if (one) tri__json_set_new(all, kinds[i], one);
    }
    if (options->rows && status == TRI_OK && !tri__json_object_size(all))
        tri__run_missing(run, "rows were asked for, but the run kept no validation probabilities");
    tri__json_set_filled(run, "predictions", all);
    return status;
}
