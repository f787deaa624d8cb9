/* serve.c - evaluation and prediction with a checkpoint: it carries configuration, vocabularies and preprocessing. */
#include "train/evaluate.h"
#include "train/files.h"
#include "train/inputs.h"
#include "train/metrics.h"
#include "train/run.h"
#include "train/trained.h"
#include "base/clock.h"
#include "checkpoint/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct served {
    tri_checkpoint *checkpoint;
    tri_settings settings;        /* the checkpoint's, with this machine's threads, device, batch size */
    tri_assets assets;
    tri_preprocess *preprocess;
    tri_dataset *data;
    char table[TRI_PATH_MAX];     /* that data is of */
    int positive;                 /* class that figures belong to; -1: of more than two classes none */
    tri_engine engine;
    float *probs;                 /* [n, classes] */
    double seconds;
} served;

static void close_served(served *v) {
    free(v->probs);
    tri__engine_close(&v->engine);
    tri__dataset_close(v->data);
    tri__preprocess_free(v->preprocess);
    tri__assets_close(&v->assets);
    tri__settings_free(&v->settings);
    tri__checkpoint_close(v->checkpoint);
}

/* A folder's test file, else its validation file; or the file itself. */
static tri_status choose_file(const char *path, char out[static TRI_PATH_MAX]) {
    tri_data_files files;
    TRI_TRY(tri__data_files(path, &files));
    const char *chosen = files.test[0] ? files.test : files.valid;
    if (!chosen[0]) return tri__fail(TRI_NOINPUT, "%s: has neither a test nor a validation table; name the file", path);
    return tri__path_join(out, "", chosen);
}

static tri_status replace_text(char **field, const char *text) {
    char *copy = strdup(text);
    if (!copy) return tri__fail(TRI_RESOURCE, "out of memory");
    free(*field);
    *field = copy;
    return TRI_OK;
}

/* How this machine and this call differ from the run that trained the model. */
static tri_status take_asked(served *v, const tri_settings *asked) {
    tri_settings *s = &v->settings;
    s->world_size = s->nproc_per_node = s->pp_size = s->tp_size = s->dp_size = 1; /* one rank serves, however many trained */
    s->precision = s->reduce_dtype = 0; /* the checkpoint's weights are in fp32 */
    s->schedule = TRI_SCHEDULE_1F1B, s->virtual_stages = 0, s->pipeline_shape = TRI_SHAPE_ASKED_AUTO;
    tri_texts *const lists[] = {&s->offload, &s->stages};
    for (int i = 0; i < 2; i++)
        while (lists[i]->n > 0) free(lists[i]->at[--lists[i]->n]);
    free(s->stage_profile);
    s->stage_profile = NULL;
    s->threads = asked->threads;
    s->batch_size = asked->batch_size;
    s->max_tokens = asked->max_tokens;
    s->num_workers = asked->num_workers;
    s->bad_rows = asked->bad_rows;
    free(s->cache_dir); /* the run's own folder may be gone */
    s->cache_dir = NULL;
    if (asked->cache_dir) TRI_TRY(replace_text(&s->cache_dir, asked->cache_dir));
    return replace_text(&s->device, asked->device);
}

static tri_status load_data(served *v, const char *path, int need_labels, const tri_log *log) {
    tri_inputs inputs;
    TRI_TRY(choose_file(path, v->table));
    TRI_TRY(tri__inputs_make(&v->settings, &v->assets, log, NULL, &inputs));
    return tri__inputs_open(&inputs, v->table, v->preprocess, need_labels, &v->data);
}

/* The classes' names are the preprocessing's, their number the configuration's: a checkpoint may come from elsewhere. */
static tri_status check_classes(const served *v) {
    if (v->preprocess->n_classes == v->settings.model.num_classes) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: its configuration has %lld classes, its preprocessing %d", tri__checkpoint_path(v->checkpoint),
                     (long long)v->settings.model.num_classes, v->preprocess->n_classes);
}

/* --positive-label, or the label that the model was trained with. */
static tri_status find_positive(served *v, const char *asked, const tri_log *log) {
    const char *kept = v->settings.model.positive_label;
    v->positive = -1;
    if (asked && v->preprocess->n_classes > 2)
        return tri__fail(TRI_USAGE, "--positive-label: the model has %d classes, and figures are means over all of them; leave it out",
                         v->preprocess->n_classes);
    if (v->preprocess->n_classes > 2) return TRI_OK;
    if (asked || kept) return tri__preprocess_positive(v->preprocess, asked ? asked : kept, &v->positive);
    v->positive = 1;
    tri__say(log, TRI_LOG_WARN,
             "%s does not say which label is the positive one, as an earlier version wrote it: taken is class 1, \"%s\"; --positive-label "
             "names another",
             tri__checkpoint_path(v->checkpoint), v->preprocess->label[1]);
    return TRI_OK;
}

/* Rows that the model was trained on, in whatever file they stand: all of them when the tables' digests are the same, else as many as the
 * checkpoint's hashes of rows say. An export has the digest only. */
static tri_status count_trained(const served *v, const tri_log *log, int64_t *rows) {
    static const char advice[] = "figures of rows that the model has seen do not say how it does on others";
    const json_t *state = tri__checkpoint_state(v->checkpoint), *hashes = json_object_get(state, "trained_rows");
    const char *trained = json_string_value(json_object_get(state, "data"));
    char digest[24];
    tri_trained sample = {0};
    *rows = -1;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)tri__dataset_digest(v->data));
    if (hashes) TRI_TRY(tri__trained_count(hashes, tri__checkpoint_path(v->checkpoint), v->data, &sample));
    if (trained && strcmp(digest, trained) == 0) *rows = v->data->n;
    else if (sample.seen) *rows = (int64_t)((double)sample.found * (double)v->data->n / (double)sample.seen + 0.5);
    if (*rows == v->data->n)
        tri__say(log, TRI_LOG_WARN, "the model was trained on all %lld rows of %s: %s", (long long)*rows, v->table, advice);
    else if (*rows > 0) /* a few are normal: rows without a text, say, are often equal */
        tri__say(log, 10 * *rows >= v->data->n ? TRI_LOG_WARN : TRI_LOG_INFO, "%s%lld of the %lld rows of %s equal rows that the model "
                 "was trained on: %s", sample.seen < v->data->n ? "about " : "", (long long)*rows, (long long)v->data->n, v->table, advice);
    return TRI_OK;
}

static tri_status serve(const tri_settings *asked, const tri_sink *sink, int need_labels, served *v) {
    char path[TRI_PATH_MAX];
    tri_log log = tri__sink_log(sink);
    tri__settings_init(&v->settings);
    if (!asked->checkpoint) return tri__fail(TRI_USAGE, "no model: give --checkpoint, a checkpoint or a run folder");
    TRI_TRY(tri__checkpoint_open(asked->checkpoint, 1, &v->checkpoint));
    const char *folder = tri__checkpoint_path(v->checkpoint);
    TRI_TRY(tri__path_join(path, folder, "config.json"));
    TRI_TRY(tri__settings_config(&v->settings, path));
    TRI_TRY(take_asked(v, asked));
    TRI_TRY(tri__assets_restore(&v->settings, folder, &v->assets));
    TRI_TRY(tri__preprocess_parse(tri__checkpoint_preprocessing(v->checkpoint), folder, &v->preprocess));
    TRI_TRY(check_classes(v));
    if (need_labels) TRI_TRY(find_positive(v, asked->model.positive_label, &log));
    TRI_TRY(load_data(v, asked->data_path, need_labels, &log));

    double begin = tri__clock();
    tri_counts max;
    tri_place place;
    TRI_TRY(tri__place_make(&v->settings, NULL, 1, 0, &place));
    TRI_TRY(tri__largest_of(v->data, v->settings.batch_size, 1, v->settings.max_tokens, v->settings.model.max_sen_len, &max));
    TRI_TRY(tri__engine_plan(&v->settings, &place, &v->assets, v->preprocess->width, 0, &max, &max, &v->engine));
    tri_programs all;
    TRI_TRY(tri__engine_plan_all(&v->engine, &all));
    TRI_TRY(tri__engine_bind(&v->engine, NULL));
    TRI_TRY(tri__engine_load(&v->engine, v->checkpoint, 0));
    TRI_TRY(tri__engine_settle(&v->engine));
    v->probs = malloc((size_t)(v->data->n * v->engine.model.n_classes + 1) * sizeof *v->probs);
    if (!v->probs) return tri__fail(TRI_RESOURCE, "out of memory for %lld predictions", (long long)v->data->n);
    TRI_TRY(tri__evaluate(&v->engine, v->data, v->settings.batch_size, v->probs));
    v->seconds = tri__clock() - begin;
    return TRI_OK;
}

/* Which checkpoint it is; of a run folder, also why it is that one. */
static void say_model(const tri_log *log, const char *asked, const served *v) {
    int64_t best = -1;
    const char *path = tri__checkpoint_path(v->checkpoint);
    int chosen = strncmp(asked, path, strlen(asked)) == 0 && strstr(path + strlen(asked), "checkpoint-") != NULL;
    if (chosen) (void)tri__checkpoint_best(asked, &best);
    tri__say(log, TRI_LOG_INFO, "%s%s", path,
             !chosen                                         ? ""
             : best == tri__checkpoint_step(v->checkpoint) ? ", the best of the run by validation loss"
                                                            : ", the newest of the run");
}

static tri_status evaluate(const tri_settings *asked, const tri_sink *sink, served *v, tri_evaluation *out) {
    tri_log log = tri__sink_log(sink);
    TRI_TRY(serve(asked, sink, 1, v));
    if (v->data->n == 0) return tri__fail(TRI_DATA, "%s: no rows to evaluate", asked->data_path);
    say_model(&log, asked->checkpoint, v);
    const tri_reals *weights = &v->settings.model.class_weights;
    const tri_classes classes = {.n = v->preprocess->n_classes, .label = v->preprocess->label, .weights = weights->n ? weights->at : NULL,
                                 .positive = v->positive};
    TRI_TRY(tri__scores(v->probs, v->data->labels, v->data->n, &classes, &out->scores));
    out->scores.seconds = v->seconds;
    return count_trained(v, &log, &out->trained_on);
}

tri_status tri__run_eval(const tri_settings *asked, const tri_sink *sink, tri_evaluation *out) {
    served v = {0};
    *out = (tri_evaluation){0};
    tri_status status = evaluate(asked, sink, &v, out);
    close_served(&v);
    return status;
}

tri_status tri__run_predict(const tri_settings *asked, const tri_sink *sink, tri_predictions *out) {
    served v = {0};
    tri_log log = tri__sink_log(sink);
    *out = (tri_predictions){0};
    tri_status status = serve(asked, sink, 0, &v);
    if (status == TRI_OK) {
        say_model(&log, asked->checkpoint, &v);
        *out = (tri_predictions){.n = v.data->n, .n_classes = v.preprocess->n_classes, .label = v.preprocess->label, .probs = v.probs};
        v.preprocess->label = NULL; /* handed over */
        v.preprocess->n_classes = 0;
        v.probs = NULL;
    }
    close_served(&v);
    return status;
}

void tri__predictions_free(tri_predictions *predictions) {
    for (int i = 0; i < predictions->n_classes; i++) free(predictions->label[i]);
    free(predictions->label);
    free(predictions->probs);
    *predictions = (tri_predictions){0};
}
