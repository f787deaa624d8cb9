/* inputs.c - settings to dataset specs. */
#include "train/inputs.h"

#include "train/engine.h"

#include <stdlib.h>
#include <string.h>

int tri__threads(const tri_settings *settings) { return settings->threads ? (int)settings->threads : tri__cores(); }

int tri__workers(const tri_settings *settings) {
    int left = tri__cores() - tri__threads(settings), asked = (int)settings->num_workers;
    return left < 1 || asked < 1 ? 1 : asked < left ? asked : left;
}

tri_status tri__inputs_make(const tri_settings *settings, const tri_assets *assets, const tri_log *log, const char *beside,
                            tri_inputs *out) {
    *out = (tri_inputs){.settings = settings, .assets = assets, .log = log};
    if (!settings->cache_dir) return beside ? tri__path_join(out->cache, beside, "cache") : TRI_OK;
    return strcmp(settings->cache_dir, "none") == 0 ? TRI_OK : tri__path_join(out->cache, "", settings->cache_dir);
}

static tri_dataset_spec dataset_spec(const tri_inputs *in, const char *path) {
    return (tri_dataset_spec){.path = path,
                              .tokenizer = in->assets->tokenizer,
                              .max_len = (int)in->settings->model.max_sen_len,
                              .need_labels = 1,
                              .threads = tri__threads(in->settings),
                              .bad_rows = (tri_bad_rows)in->settings->bad_rows,
                              .cache = in->cache[0] ? in->cache : NULL,
                              .log = in->log};
}

tri_status tri__inputs_fit(const tri_inputs *in, const char *path, tri_preprocess **preprocess, tri_dataset **out) {
    const tri_model_config *m = &in->settings->model;
    size_t further = (size_t)m->secondary_text_list.n;
    char *primary[] = {m->primary_text_name}, **secondary = malloc((further + 1) * sizeof *secondary);
    if (!secondary) return tri__fail(TRI_RESOURCE, "out of memory");
    secondary[0] = m->secondary_text_name;
    if (further) memcpy(secondary + 1, m->secondary_text_list.at, further * sizeof *secondary);
    tri_preprocess_spec fit = {.label_name = m->label_name,
                               .text = {{primary, 1}, {secondary, m->secondary_text_name ? (int)further + 1 : 0}},
                               .columns = m->tab_field_list,
                               .categorical = m->cat_field_list,
                               .label_list = m->label_list,
                               .n_classes = (int)m->num_classes,
                               .missing = (tri_missing)m->numeric_missing,
                               .transform = (tri_transform)m->numeric_transform,
                               .bad_rows = (tri_bad_rows)in->settings->bad_rows};
    tri_dataset_spec spec = dataset_spec(in, path);
    spec.counted = in->counted, spec.counted_context = in->counted_context;
    tri_status status = tri__dataset_fit(&spec, &fit, preprocess, out);
    free(secondary);
    TRI_TRY(status);
    char *text = (*preprocess)->n_columns ? tri__preprocess_describe(*preprocess) : NULL;
    if (text) tri__say(in->log, TRI_LOG_INFO, "columns: %s", text);
    free(text);
    if ((*out)->n) return TRI_OK;
    tri__dataset_close(*out);
    *out = NULL;
    return tri__fail(TRI_DATA, "%s: no rows to train on", path);
}

tri_status tri__inputs_open(const tri_inputs *in, const char *path, const tri_preprocess *preprocess, int need_labels, tri_dataset **out) {
    tri_dataset_spec spec = dataset_spec(in, path);
    spec.preprocess = preprocess, spec.need_labels = need_labels;
    return tri__dataset_open(&spec, out);
}
