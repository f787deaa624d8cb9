/* compare.c - all rows of a table are predicted, and what the model counted of them is read. */
#include "serve/explain/explain.h"

#include "serve/infer/drift.h"
#include "serve/infer/table_rows.h"

enum { PART = 256 }; /* rows that are predicted at once */

static tri_status predict_all(tri_table_rows *rows, const tri_stop *stop) {
    TRI_OWNED(tri__free_at) tri_column_value *value = NULL; /* [PART, n_columns] */
    TRI_OWNED(tri__free_at) float *probs = NULL;
    tri_row row[PART];
    TRI_TRY(TRI_NEW(value, PART * rows->n_columns, "rows"));
    TRI_TRY(TRI_NEW(probs, PART * rows->facts->n_classes, "rows"));
    for (int64_t first = 0, n; first < rows->n; first += n) {
        n = rows->n - first < PART ? rows->n - first : PART;
        TRI_TRY(tri__stop_check(stop, "comparing row %lld", (long long)first + 1));
        for (int64_t i = 0; i < n; i++) {
            row[i] = (tri_row){value + i * rows->n_columns, rows->n_columns};
            tri__table_rows_take(rows, first + i, value + i * rows->n_columns);
        }
        TRI_TRY(tri__model_predict(rows->model, row, n, probs));
        TRI_TRY(tri__table_rows_done(rows, first, n));
    }
    return TRI_OK;
}

static int by_psi(const void *a, const void *b) {
    const tri_drift_of *x = a, *y = b;
    return (x->psi < y->psi) - (x->psi > y->psi);
}

tri_status tri__serve_compare(const tri_settings *settings, const tri_log *log, const tri_stop *stop,
                              tri_json **facts) {
    TRI_OWNED(tri__table_rows_close) tri_table_rows rows = {0};
    TRI_OWNED(tri__free_at) tri_drift_of *of = NULL;
    int n = 0;
    *facts = NULL;
    TRI_TRY(tri__table_rows_open(settings, log, &rows));
    tri_drift *drift = rows.facts->drift;
    if (!drift)
        return tri__fail(TRI_USAGE, "%s does not know its training rows, since an earlier version wrote it: train it "
                         "again to compare tables with them", rows.facts->path);
    drift->most = INT64_MAX; /* all rows count */
    TRI_TRY(predict_all(&rows, stop));
    TRI_TRY(TRI_NEW(of, drift->bins.n + 1, "a comparison"));
    while (tri__drift_read(drift, n, &of[n])) n++;
    qsort(of, (size_t)n, sizeof *of, by_psi);
    tri_json *list = tri__json_array();
    for (int i = 0; i < n; i++)
        tri__json_append_new(list, tri__json_pack("{s:s, s:s, s:f, s:f}", "kind", of[i].kind, "name",
                                                  of[i].bins->name, "psi", of[i].psi, "by_chance", of[i].by_chance));
    *facts = tri__json_whole(tri__json_pack("{s:s, s:s, s:I, s:o}", "checkpoint", rows.facts->path, "table",
                                            tri__table_path(rows.table), "rows", (tri_json_int)rows.n, "drift", list));
    return *facts ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for a comparison");
}
