/* serve.c - evaluation and prediction with a checkpoint: it carries configuration, vocabularies and preprocessing. */
#include "train/evaluate.h"
#include "train/files.h"
#include "train/inputs.h"
#include "train/metrics.h"
#include "train/run.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct served {
    tri_checkpoint *checkpoint;
    tri_settings settings;        /* the checkpoint's, with this machine's threads, device, batch size */
    tri_assets assets;
    tri_preprocess *preprocess;
    tri_dataset *data;
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
    char file[TRI_PATH_MAX];
    tri_inputs inputs;
    TRI_TRY(choose_file(path, file));
    TRI_TRY(tri__inputs_make(&v->settings, &v->assets, log, NULL, &inputs));
    return tri__inputs_open(&inputs, file, v->preprocess, need_labels, &v->data);
}

static tri_status serve(const tri_settings *asked, const tri_sink *sink, int need_labels, served *v) {
    char path[TRI_PATH_MAX];
    tri_log log = tri__sink_log(sink);
    TRI_TRY(tri__settings_init(&v->settings));
    if (!asked->checkpoint) return tri__fail(TRI_USAGE, "no model: give --checkpoint, a checkpoint or a run folder");
    TRI_TRY(tri__checkpoint_open(asked->checkpoint, 1, &v->checkpoint));
    const char *folder = tri__checkpoint_path(v->checkpoint);
    TRI_TRY(tri__path_join(path, folder, "config.json"));
    TRI_TRY(tri__settings_config(&v->settings, path));
    TRI_TRY(take_asked(v, asked));
    TRI_TRY(tri__assets_restore(&v->settings, folder, &v->assets));
    TRI_TRY(tri__preprocess_parse(tri__checkpoint_preprocessing(v->checkpoint), folder, &v->preprocess));
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

static tri_status say_model(const tri_sink *sink, const served *v) {
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .time = tri__clock_wall(), .text = tri__checkpoint_path(v->checkpoint)};
    return sink && sink->emit ? sink->emit(sink->context, &event) : TRI_OK;
}

tri_status tri__run_eval(const tri_settings *asked, const tri_sink *sink, tri_scores *scores) {
    served v = {0};
    *scores = (tri_scores){0};
    tri_status status = serve(asked, sink, 1, &v);
    if (status == TRI_OK && v.data->n == 0) status = tri__fail(TRI_DATA, "%s: no rows to evaluate", asked->data_path);
    if (status == TRI_OK) status = say_model(sink, &v);
    const tri_reals *weights = &v.settings.model.class_weights;
    if (status == TRI_OK)
        status = tri__scores(v.probs, v.data->labels, v.data->n, (int)v.engine.model.n_classes, weights->n ? weights->at : NULL, scores);
    if (status == TRI_OK) scores->seconds = v.seconds;
    close_served(&v);
    return status;
}

tri_status tri__run_predict(const tri_settings *asked, const tri_sink *sink, tri_predictions *out) {
    served v = {0};
    *out = (tri_predictions){0};
    tri_status status = serve(asked, sink, 0, &v);
    if (status == TRI_OK) status = say_model(sink, &v);
    if (status == TRI_OK) {
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
