/* model_checkpoint.c - from a checkpoint folder, which contains configuration, vocabularies and preprocessing, to a
 * bound engine with weights. */
#include "serve/infer/model_checkpoint.h"

#include "engine/infer_settings.h"
#include "engine/infer.h"
#include "engine/inputs.h"

void tri__opened_close(tri_opened *o) {
    tri__engine_close(&o->engine);
    tri__preprocess_free(o->preprocess);
    tri__stack_free(o->stack);
    free(o->from);
    tri__assets_close(&o->assets);
    tri__settings_free(&o->settings);
    tri__checkpoint_close(o->checkpoint);
    *o = (tri_opened){0};
}

/* Checks that the classes in preprocessing match the number in the configuration. */
static tri_status check_classes(const tri_opened *o) {
    const tri_model_config *model = &o->settings.model;
    if (tri__preprocess_texts(o->preprocess->text) != o->assets.n_texts)
        return tri__fail(TRI_DATA, "%s: its configuration has %d texts, its preprocessing %d",
                         tri__checkpoint_path(o->checkpoint), o->assets.n_texts,
                         tri__preprocess_texts(o->preprocess->text));
    if (o->preprocess->n_classes == tri__model_outputs(model) && !o->preprocess->target == !model->task &&
        !o->preprocess->separator == (model->task != TRI_TASK_LABELS))
        return TRI_OK;
    return tri__fail(TRI_DATA, "%s: its configuration has %lld %s, its preprocessing %d %s",
                     tri__checkpoint_path(o->checkpoint), (long long)tri__model_outputs(model),
                     model->task ? "numbers" : "classes", o->preprocess->n_classes,
                     o->preprocess->target ? "numbers" : "classes");
}

/* A folder of another version is not damaged, and tools that remove damage must not take it for that; but a model that
 * cannot be read is bad data, whatever the reason. */
static tri_status open_checkpoint(const tri_settings *asked, tri_checkpoint **out) {
    tri_status status = tri__checkpoint_open_weights(asked->checkpoint, 1, tri__threads(asked), out);
    if (status != TRI_USAGE) return status;
    tri_words why;
    tri__words_keep(&why);
    return tri__fail(TRI_DATA, "%s", why.text);
}

/* The class that --threshold NUMBER is of: the one that is named, or that the model's threshold is of, or that it was
 * trained for. */
static tri_status find_positive(const tri_opened *o, const tri_settings *asked, int *positive) {
    const char *named = asked->model.positive_label, *kept = o->settings.model.positive_label;
    if (!named && *positive >= 0) return TRI_OK;
    *positive = 1;
    return named || kept ? tri__preprocess_positive(o->preprocess, named ? named : kept, positive) : TRI_OK;
}

/* Of several labels, likewise. */
static tri_status read_thresholds(tri_opened *o, const tri_settings *asked) {
    tri_threshold given;
    TRI_TRY(tri__threshold_parse(asked->threshold, &given));
    if (given.kind != TRI_THRESHOLD_NONE && given.kind != TRI_THRESHOLD_NUMBER)
        return tri__fail(TRI_USAGE, "--threshold %s: train chooses it so, on validation; here it is a number from 0 to "
                         "1 for all labels, or none", asked->threshold);
    if (asked->threshold || asked->calibration == TRI_CALIBRATION_NONE) o->fitted = NULL;
    TRI_TRY(TRI_NEW(o->from, o->preprocess->n_classes, "thresholds"));
    TRI_TRY(tri__thresholds_parse(o->fitted, tri__checkpoint_path(o->checkpoint), o->preprocess->n_classes, o->from));
    for (int c = 0; c < o->preprocess->n_classes && given.kind == TRI_THRESHOLD_NUMBER; c++)
        o->from[c] = (float)given.value;
    o->decision = tri__decision_plain(), o->decision.from = o->numbers.from = o->from;
    return TRI_OK;
}

/* The checkpoint's decision; --calibration none: none of it; --threshold: another threshold, or none. */
static tri_status read_decision(tri_opened *o, const tri_settings *asked) {
    const char *path = tri__checkpoint_path(o->checkpoint);
    tri_threshold given;
    o->fitted = o->stack ? o->stack->decision : tri__json_get(tri__checkpoint_state(o->checkpoint), "decision");
    if (o->preprocess->separator) return read_thresholds(o, asked);
    TRI_TRY(tri__decision_parse(o->fitted, path, o->preprocess->label, o->preprocess->n_classes, &o->decision));
    if (o->preprocess->target) {
        if (asked->interval == 0) o->decision = tri__decision_plain(), o->fitted = NULL;
        if (!asked->threshold) return TRI_OK;
        return tri__fail(TRI_USAGE, "--threshold %s: the model predicts numbers, which have no threshold: leave it out",
                         asked->threshold);
    }
    if (asked->calibration == TRI_CALIBRATION_NONE) o->decision = tri__decision_plain(), o->fitted = NULL;
    TRI_TRY(tri__threshold_parse(asked->threshold, &given));
    if (!asked->threshold) return TRI_OK;
    if (given.kind != TRI_THRESHOLD_NONE && given.kind != TRI_THRESHOLD_NUMBER)
        return tri__fail(TRI_USAGE, "--threshold %s: train chooses it so, on validation; here it is a number from 0 to "
                         "1, or none", asked->threshold);
    if (given.kind == TRI_THRESHOLD_NUMBER && o->preprocess->n_classes > 2)
        return tri__fail(TRI_USAGE, "--threshold %s: only models of two classes have a threshold, and this one has %d: "
                         "leave it out, and the likeliest class is predicted", asked->threshold,
                         o->preprocess->n_classes);
    o->decision.has_threshold = given.kind == TRI_THRESHOLD_NUMBER;
    o->decision.threshold = (double)(float)given.value; /* as probabilities are: one that was printed means itself */
    if (o->decision.has_threshold) return find_positive(o, asked, &o->decision.positive);
    o->decision.positive = -1;
    return TRI_OK;
}

static tri_status read_stack(tri_opened *o) {
    TRI_PATH(path, tri__checkpoint_path(o->checkpoint), TRI_STACK_FILE);
    TRI_OWNED(tri__json_drop) tri_json *file = NULL;
    if (!tri__manifest_lists(tri__checkpoint_manifest(o->checkpoint), TRI_STACK_FILE)) return TRI_OK;
    TRI_TRY(tri__json_load(path, TRI_DATA, &file));
    return tri__stack_parse(file, path, o->preprocess, o->assets.tokenizer, o->assets.n_texts, &o->stack);
}

tri_status tri__opened_read(const tri_settings *asked, tri_world *world, tri_opened *o) {
    char path[TRI_PATH_MAX];
    *o = (tri_opened){0};
    TRI_TRY(tri__settings_init(&o->settings));
    o->settings.tables = asked->tables;
    if (!asked->checkpoint) return tri__fail(TRI_USAGE, "no model: give --checkpoint, a checkpoint or a run folder");
    TRI_TRY(open_checkpoint(asked, &o->checkpoint));
    const char *folder = tri__checkpoint_path(o->checkpoint);
    TRI_TRY(tri__path_join(path, folder, "config.json"));
    TRI_TRY(tri__settings_config(&o->settings, path));
    TRI_TRY(tri__settings_check(&o->settings, o->checkpoint));
    TRI_TRY(tri__settings_infer(&o->settings, asked));
    TRI_TRY(tri__place_make(&o->settings, world, 1, 0, &o->place));
    TRI_TRY(tri__assets_restore(&o->settings, folder, &o->assets));
    TRI_TRY(tri__preprocess_parse(tri__checkpoint_preprocessing(o->checkpoint), folder, &o->preprocess));
    TRI_TRY(check_classes(o));
    if (o->preprocess->target) o->numbers = tri__inputs_numbers(&o->settings, o->preprocess);
    TRI_TRY(read_stack(o));
    TRI_TRY(read_decision(o, asked));
    tri__preprocess_read_as(o->preprocess, tri__settings_decimal(asked), (tri_date_order)asked->date_order);
    return TRI_OK;
}

tri_status tri__opened_positive(const tri_opened *o, const char *asked, const tri_log *log, int *positive) {
    const char *kept = o->settings.model.positive_label;
    *positive = -1;
    if (asked && o->preprocess->target)
        return tri__fail(TRI_USAGE, "--positive-label: the model does not choose between classes: leave it out");
    if (asked && o->preprocess->n_classes > 2)
        return tri__fail(TRI_USAGE, "--positive-label: the model has %d classes, and figures are means over all of "
                         "them", o->preprocess->n_classes);
    if (o->preprocess->n_classes > 2 || o->preprocess->target) return TRI_OK;
    if (asked || kept) return tri__preprocess_positive(o->preprocess, asked ? asked : kept, positive);
    *positive = 1;
    tri__say(log, TRI_LOG_WARN, "%s does not say which label is the positive one, since an earlier version wrote it: "
             "class 1, \"%s\", is taken; --positive-label names another", tri__checkpoint_path(o->checkpoint),
             o->preprocess->label[1]);
    return TRI_OK;
}

static tri_infer_spec spec_of(const tri_opened *o, const tri_counts *max, uint64_t data) {
    return (tri_infer_spec){.settings = &o->settings, .place = o->place, .assets = &o->assets,
                            .columns = o->preprocess->vectors, .max = *max, .checkpoint = o->checkpoint, .data = data};
}

tri_status tri__opened_load(tri_opened *o, const tri_counts *max, uint64_t data) {
    const tri_infer_spec spec = spec_of(o, max, data);
    return tri__engine_open_infer(&spec, &o->engine);
}

tri_status tri__opened_bind(tri_opened *o, const tri_counts *max) {
    const tri_infer_spec spec = spec_of(o, max, 0);
    return tri__engine_bind_infer(&spec, &o->engine);
}
