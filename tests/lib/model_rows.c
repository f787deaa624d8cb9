/* model_rows.c - see model_rows.h. */
#include "tests/lib/model_rows.h"

#include "serve/serve.h"

char checkpoint[128], data[160]; /* options */
static tri_table *table;
float want[ROWS * CLASSES];      /* of `predict` */
static tri_column_value values[ROWS][8];
tri_row rows[ROWS];

void predict(int n, const char *const *options, float *probs) {
    const char *all[11] = {checkpoint, data, "--threads=1"};
    tri_settings asked;
    tri_predictions p;
    int words;
    memcpy(all + 3, options, (size_t)n * sizeof *all);
    OK(tri__settings_init(&asked));
    OK(tri__settings_parse(&asked, "predict", 3 + n, all, NULL, 0, &words));
    OK(tri__serve_predict(&asked, NULL, &(tri_predict_options){0}, NULL, &p));
    assert_int_equal(p.n, ROWS);
    memcpy(probs, p.probs, ROWS * CLASSES * sizeof *probs);
    tri__predictions_free(&p);
    tri__settings_free(&asked);
}

int train(void **state) {
    char folder[TRI_PATH_MAX], path[128];
    int more = 1;
    double loss;
    make_data(state);
    tri_session *session = open_session("run", OPTIONS("--epochs=2", "--threads=1", "--lr=0.01"));
    while (more) OK(take_step(session, &loss, &more));
    OK(tri_save(session, folder, sizeof folder));
    tri_session_close(session);
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s/run", root);
    write_table("rows.csv", ROWS, 9);
    snprintf(path, sizeof path, "%s/rows.csv", root);
    snprintf(data, sizeof data, "--data-path=%s", path);
    predict(2, OPTIONS("--batch-size=7", "--precision=fp32"), want);
    OK(tri__table_open(path, NULL, &table));
    for (int r = 0; r < ROWS; r++) {
        rows[r] = (tri_row){values[r], tri__table_columns(table)};
        for (int c = 0; c < rows[r].n; c++) {
            tri_field_text field = tri__table_field(table, r, c);
            values[r][c] = (tri_column_value){tri__table_name(table, c), field.text, field.length, field.number};
        }
    }
    return 0;
}

int clean(void **state) {
    tri__table_close(table);
    return remove_data(state);
}
