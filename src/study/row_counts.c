/* row_counts.c - row counts of a step's largest microbatch. */
#include "study/row_counts.h"

#include "engine/evaluate.h"
#include "engine/inputs.h"

tri_status tri__rows_open(const tri_settings *s, const tri_assets *assets, const tri_log *log, const tri_stop *stop,
                          const char *beside, tri_row_source *out) {
    tri_data_files files;
    tri_inputs inputs;
    *out = (tri_row_source){.stop = stop, .n_texts = assets->n_texts, .readers = assets->readers,
                            .columns = s->model.tab_field_list.n};
    if (!s->data_path) {
        if (out->columns)
            tri__say(log, TRI_LOG_INFO, "without --data-path each of the %d columns counts as one number%s",
                     out->columns, tri__model_has_vectors(&s->model) ? " of no missing values" : "");
        return TRI_OK;
    }
    TRI_TRY(tri__data_files(s->data_path, &files));
    if (!files.train[0])
        return tri__fail(TRI_NOINPUT, "%s: has no training table (train.csv or the like)", s->data_path);
    TRI_TRY(tri__inputs_make(s, assets, log, beside, &inputs));
    inputs.stop = stop;
    tri_fitted fitted;
    tri_status status = tri__inputs_fit(&inputs, &files, &fitted);
    out->preprocess = fitted.preprocess, out->data = fitted.train, out->valid = fitted.valid;
    tri__json_decref(fitted.parts);
    return status;
}

tri_columns tri__rows_columns(const tri_row_source *rows) {
    return rows->preprocess ? rows->preprocess->vectors : (tri_columns){.n = rows->columns};
}

static tri_status count_data(const tri_row_source *rows, const tri_settings *s, int64_t batch, int64_t parts,
                             tri_counts *max) {
    TRI_OWNED(tri__sampler_close) tri_sampler sampler = {0};
    TRI_TRY(tri__sampler_open(&sampler, rows->data, batch, (int)parts, 1, (uint32_t)s->seed));
    sampler.stop = rows->stop;
    int64_t batches = tri__sampler_batches(&sampler);
    int64_t short_of = (s->max_steps + batches - 1) / batches; /* epochs of --max-steps */
    return tri__largest(&sampler, short_of && short_of < s->epochs ? short_of : s->epochs, s->max_tokens,
                        s->model.max_sen_len, max);
}

tri_status tri__rows_largest(const tri_row_source *rows, const tri_settings *s, int64_t batch, int64_t parts,
                             tri_counts *max) {
    if (rows->data) return count_data(rows, s, batch, parts, max);
    int64_t most = (batch + parts - 1) / parts;
    int64_t tokens = most * s->model.windows * s->model.max_sen_len;
    *max = tri__counts_of(&rows->readers, rows->n_texts, most, tokens,
                          s->model.windows > 1 ? most * s->model.windows : 0);
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) {
        if (s->max_tokens && max->of[sym]) max->of[sym] = s->max_tokens;
        max->squares[sym] = (double)max->of[sym] * (double)s->model.max_sen_len;
        max->shortest[sym - TRI_SYM_T0] = max->of[TRI_SYM_W0] ? 0 : s->model.max_sen_len;
    }
    return TRI_OK;
}

int64_t tri__rows_steps(const tri_row_source *rows, const tri_settings *s, int64_t batch) {
    int64_t steps = rows->data ? (rows->data->n + batch - 1) / batch * s->epochs : 0;
    return s->max_steps && (!steps || s->max_steps < steps) ? s->max_steps : steps;
}

tri_status tri__rows_valid(const tri_settings *s, const tri_assets *assets, const tri_log *log, tri_row_source *rows) {
    tri_data_files files;
    tri_inputs inputs;
    if (!rows->data || rows->valid) return TRI_OK;
    TRI_TRY(tri__data_files(s->data_path, &files));
    if (files.one || !files.valid[0]) return TRI_OK;
    TRI_TRY(tri__inputs_make(s, assets, log, NULL, &inputs));
    return tri__inputs_open(&inputs, files.valid, rows->preprocess, 1, &rows->valid);
}

void tri__rows_close(tri_row_source *rows) {
    tri__dataset_close(rows->valid);
    tri__dataset_close(rows->data);
    tri__preprocess_free(rows->preprocess);
    *rows = (tri_row_source){0};
}
