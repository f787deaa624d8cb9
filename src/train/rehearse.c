/* rehearse.c - finds what training would refuse before its first step, without tokenising: settings, folders of
 * encoders and their weights, columns, numbers and labels. It calls the functions of a run, so the messages are the
 * same. */
#include "checkpoint/huggingface.h"
#include "data/dataset/field_values.h"
#include "engine/accept_settings.h"
#include "engine/inputs.h"
#include "train/run.h"

/* Weights in an encoder's folder must be readable, and of as many layers as its configuration says. */
static tri_status check_weights(const tri_assets *assets) {
    for (int branch = 0; branch < assets->n_encoders; branch++) {
        TRI_OWNED(tri__hf_drop) tri_hf *weights = NULL;
        if (!assets->folder[branch][0]) continue;
        TRI_TRY(tri__hf_open(assets->folder[branch], &weights));
        if (weights && !assets->overridden[branch])
            TRI_TRY(tri__hf_check_layers(weights, assets->encoder[branch].num_hidden_layers));
    }
    return TRI_OK;
}

static tri_status check_rows(const tri_table *table, const tri_preprocess *preprocess, float *numbers) {
    TRI_OWNED(tri__fields_free) tri_fields fields = {0};
    TRI_TRY(tri__fields_find(table, preprocess, 1, &fields));
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        tri_bad_field bad;
        char text[1100];
        int good = tri__fields_numbers(&fields, row, numbers, &bad);
        if (good && !(good = tri__label_read(&fields, row, NULL)))
            bad = tri__label_fault(&fields, row, text, sizeof text);
        if (!good) return tri__field_fail(table, row, bad.column, bad.what);
        tri__rows_passed(table, row);
    }
    return tri__table_check(table);
}

/* Checks the validation table with the training table's preprocessing. Bad rows that a run would drop are accepted. */
static tri_status check_valid(const tri_table_options *options, const char *path, const tri_preprocess *preprocess) {
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    TRI_OWNED(tri__free_at) float *numbers = malloc(((size_t)preprocess->width + 1) * sizeof *numbers);
    if (!numbers) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(tri__table_open(path, options, &table));
    if (options->bad_rows == TRI_BAD_ROWS_FAIL) TRI_TRY(check_rows(table, preprocess, numbers));
    return tri__table_rows(table) ? TRI_OK : tri__fail(TRI_DATA, "%s: no rows to validate on", path);
}

static tri_status check_tables(const tri_settings *settings, size_t memory) {
    tri_data_files files;
    TRI_TRY(tri__data_files(settings->data_path, &files));
    if (!files.train[0]) return tri__fail(TRI_NOINPUT, "%s: has no training table", settings->data_path);
    enum { ROW = 32, FIELD = 4 }; /* its place and, of a column that is fitted, two numbers; a field's place */
    tri_table_options options = {.threads = tri__threads(settings), .bad_rows = (tri_bad_rows)settings->bad_rows,
                                 .budget = memory / 2, .row_cost = ROW, .column_cost = FIELD,
                                 .tables = settings->tables};
    TRI_TRY(tri__separator_parse(settings->separator, &options.separator));
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    TRI_OWNED(tri__preprocess_drop) tri_preprocess *preprocess = NULL;
    TRI_OWNED(tri__fit_spec_free) tri_fit_spec fit = {0};
    TRI_TRY(tri__fit_spec_make(settings, &fit));
    TRI_TRY(tri__table_open(files.train, &options, &table));
    TRI_TRY(tri__preprocess_fit(table, &fit.spec, options.threads, &preprocess));
    return files.valid[0] && !files.one ? check_valid(&options, files.valid, preprocess) : TRI_OK;
}

tri_status tri__run_rehearse(const tri_settings *settings, size_t memory) {
    TRI_OWNED(tri__assets_close) tri_assets assets = {0};
    TRI_TRY(tri__engine_accept(settings));
    TRI_TRY(tri__model_config_check(&settings->model));
    TRI_TRY(tri__assets_open(settings, 1, NULL, &assets));
    TRI_TRY(check_weights(&assets));
    return check_tables(settings, memory);
}
