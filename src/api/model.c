/* model.c - the public interface of prediction, on top of serve/infer/model.h. */
#include "api/options.h"
#include "data/table/memory.h"
#include "serve/infer/model.h"
#include "serve/infer/table_rows.h"

tri_status tri_model_open(int n_options, const char *const *options, tri_model **out) {
    TRI_OWNED(tri__settings_free) tri_settings settings = {0};
    *out = NULL;
    TRI_TRY(tri__api_options(&settings, "predict", n_options, options));
    return tri__done(tri__model_open(&settings, NULL, NULL, out));
}

void tri_model_close(tri_model *model) { tri__model_close(model); }

int tri_model_classes(const tri_model *model) { return tri__model_facts(model)->n_classes; }

const char *tri_model_label(const tri_model *model, int index) {
    const tri_model_facts *facts = tri__model_facts(model);
    return index >= 0 && index < facts->n_classes ? facts->label[index] : NULL;
}

const char *tri_model_column(const tri_model *model, int index) { return tri__model_column(model, index); }

int tri_model_decide(const tri_model *model, const float *probabilities) {
    const tri_model_facts *facts = tri__model_facts(model);
    return facts->is_number || facts->separator ? -1
                                                : tri__decision_class(facts->decision, probabilities, facts->n_classes);
}

float tri_model_threshold(const tri_model *model, int index) {
    const tri_model_facts *facts = tri__model_facts(model);
    return facts->separator && index >= 0 && index < facts->n_classes ? facts->decision->from[index] : NAN;
}

tri_status tri_model_predict(tri_model *model, const tri_row *rows, int64_t n, float *probabilities) {
    return tri__done(tri__model_predict(model, rows, n, probabilities));
}

/* Rows that are taken from a table at once. */
enum { ROWS = 1024 };

/* Rows [first, first + n): probabilities [n, classes]. */
static tri_status predict_rows(const tri_table_rows *rows, int64_t first, int64_t n, tri_column_value *value,
                               float *probabilities) {
    tri_row row[ROWS];
    for (int64_t i = 0; i < n; i++) {
        row[i] = (tri_row){value + i * rows->n_columns, rows->n_columns};
        tri__table_rows_take(rows, first + i, value + i * rows->n_columns);
    }
    tri_status status = tri__model_predict(rows->model, row, n, probabilities);
    tri_status read = tri__table_rows_done(rows, first, n);
    if (status == TRI_OK) return read;
    return first ? tri__fail_in(status, "%s, counted from row %lld", tri__table_path(rows->table), (long long)first + 1)
                 : status;
}

tri_status tri_model_predict_table(tri_model *model, const tri_tables *tables, const char *table,
                                   float *probabilities, const volatile int *stop) {
    char path[TRI_PATH_MAX];
    tri_table_rows rows = {.model = model};
    if (snprintf(path, sizeof path, TRI_MEMORY_PREFIX "%s", table) >= (int)sizeof path)
        return tri__fail(TRI_USAGE, "the name of a table is too long");
    tri_status status = tri__table_open(path, &(tri_table_options){.tables = tables}, &rows.table);
    if (status == TRI_OK) status = tri__table_rows_find(&rows);
    tri_column_value *value = status == TRI_OK ? malloc((size_t)rows.n_columns * ROWS * sizeof *value) : NULL;
    if (status == TRI_OK && !value) status = tri__fail(TRI_RESOURCE, "out of memory for rows");
    for (int64_t at = 0, n; status == TRI_OK && at < rows.n; at += n) {
        n = rows.n - at < ROWS ? rows.n - at : ROWS;
        status = stop && *stop ? tri__fail(TRI_STOPPED, "%s: stopped on request after %lld of %lld rows", path,
                                           (long long)at, (long long)rows.n)
                               : predict_rows(&rows, at, n, value, probabilities + at * tri_model_classes(model));
    }
    free(value);
    rows.model = NULL; /* the caller's */
    tri__table_rows_close(&rows);
    return tri__done(status);
}
