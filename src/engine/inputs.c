/* inputs.c - settings to dataset specs. */
#include "engine/inputs.h"

#include "data/dataset/target.h"
#include "data/table/memory.h"
#include "engine/engine.h"
#include "settings/forms.h"

int tri__threads(const tri_settings *settings) { return settings->threads ? (int)settings->threads : tri__cores(); }

int tri__workers(const tri_settings *settings) {
    int left = tri__cores() - tri__threads(settings), asked = (int)settings->num_workers;
    return left < 1 || asked < 1 ? 1 : asked < left ? asked : left;
}

tri_status tri__inputs_make(const tri_settings *settings, const tri_assets *assets, const tri_log *log,
                            const char *beside, tri_inputs *out) {
    *out = (tri_inputs){.settings = settings, .assets = assets, .log = log};
    if (!settings->cache_dir) return beside ? tri__path_join(out->cache, beside, "cache") : TRI_OK;
    return strcmp(settings->cache_dir, "none") == 0 ? TRI_OK : tri__path_join(out->cache, "", settings->cache_dir);
}

static tri_dataset_spec dataset_spec(const tri_inputs *in, const char *path) {
    char separator = 0;
    (void)tri__separator_parse(in->settings->separator, &separator); /* checked when it was given */
    return (tri_dataset_spec){
        .path = path, .tokenizer = in->assets->tokenizer, .max_len = (int)in->settings->model.max_sen_len,
        .windows = tri__assets_windows(&in->settings->model, in->assets), .need_labels = 1,
        .threads = tri__threads(in->settings), .bad_rows = (tri_bad_rows)in->settings->bad_rows, .separator = separator,
        .cache = in->cache[0] && !tri__memory_name(path) ? in->cache : NULL, .tables = in->settings->tables,
        .stop = in->stop, .log = in->log};
}

int tri__division_asked(const tri_settings *s, tri_division *out) {
    *out = (tri_division){.folds = (int)s->folds, .fold = s->fold ? (int)s->fold - 1 : 0, .stratify = s->stratify,
                            .group_by = s->group_by, .seed = (uint64_t)s->split_seed};
    if (s->split) (void)tri__split_parse(s->split, out->share); /* checked when it was given */
    return s->split || s->folds;
}

tri_status tri__fit_spec_make(const tri_settings *settings, tri_fit_spec *out) {
    const tri_model_config *m = &settings->model;
    size_t further = (size_t)m->secondary_text_list.n;
    int is_periodic = m->numeric_embedding == TRI_NUMERIC_PERIODIC;
    out->text = malloc((further + 2) * sizeof *out->text);
    if (!out->text) return tri__fail(TRI_RESOURCE, "out of memory");
    out->text[0] = m->primary_text_name, out->text[1] = m->secondary_text_name;
    if (further) memcpy(out->text + 2, m->secondary_text_list.at, further * sizeof *out->text);
    out->spec = (tri_preprocess_spec){
        .label_name = m->label_name, .columns = m->tab_field_list, .categorical = m->cat_field_list,
        .text = {{out->text, 1}, {out->text + 1, m->secondary_text_name ? (int)further + 1 : 0}},
        .hashed = m->hashed_field_list, .boolean = m->boolean_field_list, .buckets = (int)m->hash_buckets,
        .min_rows = m->min_category_rows, .label_list = m->label_list, .positive_label = m->positive_label,
        .n_classes = (int)tri__model_outputs(m), .is_number = m->task != TRI_TASK_CLASSES,
        .target = m->task == TRI_TASK_LABELS ? TRI_TRANSFORM_NONE : (tri_transform)m->target_transform,
        .separator = tri__model_separator(m), .level = m->task == TRI_TASK_QUANTILES ? tri__model_levels(m).at : NULL,
        .missing = (tri_missing)m->numeric_missing, .transform = (tri_transform)m->numeric_transform,
        .bins = (int)m->numeric_bins,
        .vectors = !tri__model_has_vectors(m) ? TRI_VECTORS_NONE
                   : is_periodic ? TRI_VECTORS_PERIODIC : TRI_VECTORS_PIECEWISE,
        .reading = {tri__settings_decimal(settings), m->missing}, .date_order = (tri_date_order)settings->date_order,
        .bad_rows = (tri_bad_rows)settings->bad_rows};
    for (int t = 2; t < m->text_list.n; t++) out->spec.text[t] = (tri_texts){m->text_list.at + t, 1};
    if (tri__division_asked(settings, &out->parts)) out->spec.parts = &out->parts;
    return TRI_OK;
}

tri_number_set tri__inputs_numbers(const tri_settings *s, const tri_preprocess *preprocess) {
    tri_loss_form form = tri__settings_loss(s);
    return (tri_number_set){.in_units = tri__target_value, .scale = preprocess->target, .loss = form.kind,
                            .delta = form.delta, .n = preprocess->n_classes,
                            .weight = s->model.class_weights.n ? s->model.class_weights.at : NULL,
                            .level = s->model.task == TRI_TASK_QUANTILES ? tri__model_levels(&s->model).at : NULL};
}

void tri__fit_spec_free(tri_fit_spec *fit) { free(fit->text); }

/* A table that is to be divided must be the only one that it competes with. */
static tri_status check_alone(const tri_settings *s, const tri_data_files *files) {
    const char *asked = s->folds ? "--folds" : "--split";
    double share[3] = {0};
    if (!s->folds) TRI_TRY(tri__split_parse(s->split, share));
    if (files->one) return TRI_OK;
    const char *other = files->valid[0] ? files->valid : share[2] > 0 ? files->test : "";
    if (!other[0]) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s divides one table, but %s has %s beside %s: leave out %s, or name the table to "
                     "divide (--data-path %s)", asked, s->data_path, other, files->train, asked, files->train);
}

/* What a checkpoint keeps of a divided table. NULL: out of memory. */
static tri_json *division_record(const tri_dataset *whole) {
    int64_t rows[TRI_ROWS_PARTS] = {0};
    for (int64_t i = 0; i < whole->n; i++) rows[whole->part[i]]++;
    const char *digest = TRI_TEXT(24, "%016llx", (unsigned long long)whole->digest);
    tri_json *counts = tri__json_object();
    for (int p = 0; p < TRI_ROWS_PARTS; p++)
        if (rows[p]) tri__json_set_new(counts, tri__rows_for((tri_rows_for)p), tri__json_integer(rows[p]));
    return tri__json_pack("{s:s, s:o}", "table", digest, "rows", counts);
}

static void say_parts(const tri_inputs *in, const tri_json *record) {
    const tri_settings *s = in->settings;
    char text[200] = "", rows[32];
    for (int p = 0; p < TRI_ROWS_PARTS; p++) {
        const char *name = tri__rows_for((tri_rows_for)p);
        const tri_json *count = tri__json_get(tri__json_get(record, "rows"), name);
        if (count)
            tri__text_append(text, sizeof text, ", ", "%s %sfor %s",
                             tri__text_count(tri__json_integer_value(count), rows), *text ? "" : "rows ", name);
    }
    if (s->folds)
        tri__say(in->log, TRI_LOG_INFO, "fold %lld of %lld: %s", (long long)s->fold, (long long)s->folds, text);
    else tri__say(in->log, TRI_LOG_INFO, "split: %s", text);
}

static void drop(tri_dataset **at) { tri__dataset_close(*at); }

/* Takes the parts out of the whole table, which `out->train` is. */
static tri_status take_parts(const tri_inputs *in, tri_fitted *out) {
    TRI_OWNED(drop) tri_dataset *whole = TRI_GIVE(out->train);
    out->parts = division_record(whole);
    if (!tri__json_is_whole(out->parts)) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__dataset_part(whole, TRI_ROWS_TRAIN, &out->train));
    TRI_TRY(tri__dataset_part(whole, TRI_ROWS_VALID, &out->valid));
    say_parts(in, out->parts);
    return TRI_OK;
}

tri_status tri__inputs_fit(const tri_inputs *in, const tri_data_files *files, tri_fitted *out) {
    const tri_model_config *m = &in->settings->model;
    TRI_OWNED(tri__fit_spec_free) tri_fit_spec fit = {0};
    *out = (tri_fitted){0};
    TRI_TRY(tri__fit_spec_make(in->settings, &fit));
    if (fit.spec.parts) TRI_TRY(check_alone(in->settings, files));
    tri_dataset_spec spec = dataset_spec(in, files->train);
    spec.counted = in->counted, spec.counted_context = in->counted_context;
    spec.parts = fit.spec.parts, spec.weight = m->weight_name;
    TRI_TRY(tri__dataset_fit(&spec, &fit.spec, &out->preprocess, &out->train));
    int positive; /* a token store has the labels, but not which one is positive */
    if (m->positive_label) TRI_TRY(tri__preprocess_positive(out->preprocess, m->positive_label, &positive));
    TRI_OWNED(tri__free_at) char *text = out->preprocess->n_columns ? tri__preprocess_describe(out->preprocess) : NULL;
    if (text) tri__say(in->log, TRI_LOG_INFO, "columns: %s", text);
    const tri_column_stats *target = out->preprocess->target;
    if (target && target->n_quantiles)
        tri__say(in->log, TRI_LOG_INFO, "target: %s, from %.6g to %.6g, by rank", target->name, target->quantile[0],
                 target->quantile[target->n_quantiles - 1]);
    else if (target && target->missing)
        tri__say(in->log, TRI_LOG_INFO, "labels: %lld missing values are left out of the loss",
                 (long long)target->missing);
    else if (target && target->transform != TRI_TRANSFORM_NONE)
        tri__say(in->log, TRI_LOG_INFO, "target: %s, %smean %.6g, deviation %.6g", target->name,
                 target->transform == TRI_TRANSFORM_LOG ? "log(1 + x) with " : "", target->mean, target->deviation);
    if (!out->train->n) return tri__fail(TRI_DATA, "%s: no rows to train on", files->train);
    return spec.parts ? take_parts(in, out) : TRI_OK;
}

tri_status tri__inputs_open(const tri_inputs *in, const char *path, const tri_preprocess *preprocess, int need_labels,
                            tri_dataset **out) {
    tri_dataset_spec spec = dataset_spec(in, path);
    spec.preprocess = preprocess, spec.need_labels = need_labels;
    return tri__dataset_open(&spec, out);
}

tri_status tri__inputs_open_part(const tri_inputs *in, const char *path, const tri_preprocess *preprocess,
                                 tri_rows_for part, const tri_json *record, tri_dataset **out) {
    tri_division parts;
    TRI_OWNED(drop) tri_dataset *whole = NULL;
    *out = NULL;
    if (!record || !tri__division_asked(in->settings, &parts))
        return tri__fail(TRI_USAGE, "--part: the model's run did not split its table (--split, --folds)");
    if (part == TRI_ROWS_TEST && tri__division_count(&parts) < TRI_ROWS_PARTS)
        return tri__fail(TRI_USAGE, "--part test: the model's run kept no rows for a test; there are train and valid");
    tri_dataset_spec spec = dataset_spec(in, path);
    spec.preprocess = preprocess, spec.parts = &parts, spec.weight = in->settings->model.weight_name;
    TRI_TRY(tri__dataset_open(&spec, &whole));
    TRI_OWNED(tri__json_drop) tri_json *now = division_record(whole);
    if (!tri__json_is_whole(now)) return tri__fail(TRI_RESOURCE, "out of memory");
    if (tri__json_equal(now, record)) return tri__dataset_part(whole, part, out);
    return tri__fail(TRI_DATA, "%s is not the table that the model's run split, or it has changed since: its rows "
                     "could be of another part. Give --part the same table, or evaluate a whole table without it",
                     path);
}

tri_status tri__inputs_positive(const tri_inputs *in, const tri_preprocess *preprocess, const tri_dataset *train,
                                int *positive) {
    const char *asked = in->settings->model.positive_label;
    int64_t count[2] = {0};
    char rows[32], all[32];
    *positive = -1;
    if (preprocess->n_classes > 2 || preprocess->target) return TRI_OK;
    for (int64_t row = 0; row < train->n; row++) count[train->labels[row]]++;
    if (asked) TRI_TRY(tri__preprocess_positive(preprocess, asked, positive));
    else *positive = count[1] <= count[0];
    tri__say(in->log, TRI_LOG_INFO, "positive label: %s, %s of %s training rows%s", preprocess->label[*positive],
             tri__text_count(count[*positive], rows), tri__text_count(train->n, all),
             asked                  ? ""
             : count[0] == count[1] ? " (the last of two that are equally frequent; positive_label names another)"
                                    : " (the rarer one; positive_label names another)");
    return TRI_OK;
}

/* "no 0.75 (80 rows), yes 1.5 (40 rows)"; of many classes the first. */
static void list_weights(const tri_preprocess *preprocess, const int64_t *count, const double *weight, char *out,
                         size_t size) {
    char rows[32], label[64];
    size_t used = 0;
    out[0] = 0;
    for (int c = 0; c < preprocess->n_classes && used < size; c++) {
        if (used + sizeof label + sizeof rows > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s %.4g (%s rows)", c ? ", " : "",
                                 tri__text_brief(preprocess->label[c], 24, label, sizeof label), weight[c],
                                 tri__text_count(count[c], rows));
    }
}

/* As scikit-learn's compute_class_weight('balanced'): all classes have the same sum of weights, and the mean of the
 * rows' weights is 1. Of several labels, rows with one weigh as much as rows without it. */
tri_status tri__inputs_balance(const tri_inputs *in, const tri_preprocess *preprocess, const tri_dataset *train,
                               tri_reals *out) {
    char text[600];
    int n = preprocess->n_classes;
    TRI_OWNED(tri__free_at) int64_t *count = calloc(2 * (size_t)n, sizeof *count); /* rows with, then without */
    TRI_OWNED(tri__free_at) double *weight = calloc((size_t)n, sizeof *weight);
    if (!count || !weight) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int64_t row = 0; row < train->n; row++) {
        const float *target = train->targets + row * train->words; /* [n] of several labels */
        for (int c = 0; c < n && preprocess->target; c++) count[c] += target[c] == 1, count[n + c] += target[c] == 0;
        if (!preprocess->target) count[train->labels[row]]++;
    }
    for (int c = 0; c < n; c++) {
        if (!count[c])
            return tri__fail(TRI_DATA, "class_weights balanced: no training row has the label %s, so it has no weight; "
                             "leave it out of label_list and num_classes, or give the weights as numbers",
                             preprocess->label[c]);
        weight[c] = preprocess->target ? fmax((double)count[n + c], 1) / (double)count[c]
                                       : (double)train->n / ((double)n * (double)count[c]);
    }
    list_weights(preprocess, count, weight, text, sizeof text);
    tri__say(in->log, TRI_LOG_INFO, "class weights, balanced: %s", text);
    *out = (tri_reals){.at = TRI_GIVE(weight), .n = n};
    return TRI_OK;
}
