/* stacked.c - `train --stack`, after its runs: the outputs of each fold's model for the rows that it was not trained on
 * become, with features of the rows, what heads are trained on. They are compared with the model alone on the validation
 * rows, whose outputs are the whole run's, as those of new rows will be. The best head goes into its best checkpoint. */
#include "data/dataset/field_values.h"
#include "engine/inputs.h"
#include "score/best.h"
#include "serve/infer/model_checkpoint.h"
#include "serve/serve.h"
#include "stack/xgboost.h"

/* One way to answer: the model alone, or a head. */
typedef struct candidate {
    const char *name;
    float *answers;         /* [valid->n, width] */
    double figure;          /* of --best-by; NaN: it was not tried */
    tri_json *file;         /* of a head */
    tri_json *decision;     /* fitted to its answers; NULL: none */
} candidate;
enum { ALONE, LINEAR, TREES, CANDIDATES };

typedef struct job {
    const tri_settings *asked;
    const tri_log *log;
    tri_settings settings;  /* defaults, of which `ask` makes those of predictions */
    tri_data_files files;
    tri_opened whole;
    tri_fitted fitted;
    tri_dataset *valid;     /* owned where the table was not divided */
    int width;              /* of an answer */
    float *outputs[2];      /* [n, width] of training and validation rows */
    tri_stack stack;        /* its features; then the head in hand */
    tri_examples rows[2];
    size_t room[2];         /* of the matrix in hand: index, value */
    tri_examples *filled;
    candidate of[CANDIDATES];
    tri_xgboost xgboost;
} job;

static void close_examples(tri_examples *e) {
    TRI_FREE(e->x.dense, e->x.start, e->x.index, e->x.value, e->y, e->weight);
}

static void close_job(job **at) {
    job *j = *at;
    for (int c = 0; c < CANDIDATES; c++) {
        tri__json_decref(j->of[c].file);
        tri__json_decref(j->of[c].decision);
        if (c) free(j->of[c].answers);
    }
    for (int i = 0; i < 2; i++) close_examples(&j->rows[i]), free(j->outputs[i]);
    tri__features_free(&j->stack.features);
    tri__trees_free(&j->stack.trees);
    TRI_FREE(j->stack.linear.at, j->stack.x);
    if (j->valid != j->fitted.valid) tri__dataset_close(j->valid);
    tri__dataset_close(j->fitted.train);
    tri__dataset_close(j->fitted.valid);
    tri__preprocess_free(j->fitted.preprocess);
    tri__json_decref(j->fitted.parts);
    tri__opened_close(&j->whole);
    tri__settings_free(&j->settings);
    free(j);
}

/* ---- outputs ---- */

/* For uncalibrated outputs of a run's model; borrows. Its ranks and layout are not those of training. */
static tri_settings ask(const job *j, const char *run) {
    tri_settings s = j->settings;
    const tri_settings *asked = j->asked;
    s.checkpoint = (char *)run;
    s.threads = asked->threads, s.device = asked->device, s.tables = asked->tables, s.bad_rows = asked->bad_rows;
    s.decimal_mark = asked->decimal_mark, s.date_order = asked->date_order;
    s.calibration = TRI_CALIBRATION_NONE, s.interval = 0, s.allow_unknown = 1;
    return s;
}

/* The outputs for a table, or for the rows that its division has for validation. */
static tri_status predict(const job *j, const char *run, const char *table, int is_part, tri_predictions *out) {
    tri_settings s = ask(j, run);
    s.data_path = (char *)table, s.part = is_part ? TRI_PART_ASKED_VALID : TRI_PART_ASKED_ALL;
    return tri__serve_predict(&s, NULL, &(tri_predict_options){0}, j->log, out);
}

/* Numbers become those that the whole run's model learns. */
static void take_outputs(const job *j, const float *from, int64_t n, float *to) {
    const tri_column_stats *target = j->whole.preprocess->target;
    for (int64_t i = 0; i < n * j->width; i++)
        to[i] = target ? (float)tri__column_transform(target, (double)from[i]) : from[i];
}

/* Which row of the table, and where its outputs are. */
typedef struct placed {
    int64_t row;
    const float *outputs;
} placed;

static int by_row(const void *a, const void *b) {
    const placed *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* Each row of the training data is in one fold, so that in the order of the table they are its rows. */
static tri_status outputs_of_folds(job *j, int folds, const char *folder) {
    int64_t all = j->fitted.train->n, n = 0;
    tri_predictions *made;
    TRI_OWNED(tri__free_at) placed *order = NULL;
    tri_status status = TRI_OK;
    TRI_TRY(TRI_NEW(order, all + 1, "the outputs of folds"));
    TRI_TRY(TRI_NEW(j->outputs[0], all * j->width + 1, "the outputs of folds"));
    TRI_TRY(TRI_NEW(made, folds, "the outputs of folds"));
    for (int f = 0; f < folds && status == TRI_OK; f++) {
        char run[TRI_PATH_MAX], name[32];
        snprintf(name, sizeof name, "fold-%d", f + 1);
        status = tri__path_join(run, folder, name);
        if (status == TRI_OK) status = predict(j, run, j->files.train, 1, &made[f]);
        for (int64_t i = 0; i < made[f].n && status == TRI_OK; i++, n++)
            if (n < all) order[n] = (placed){made[f].row[i], made[f].probs + i * j->width};
    }
    if (status == TRI_OK && n != all)
        status = tri__fail(TRI_DATA, "%s: the folds have %lld rows and the training data %lld: it changed meanwhile; start "
                           "again in a new --output-dir", folder, (long long)n, (long long)all);
    if (status == TRI_OK) {
        qsort(order, (size_t)all, sizeof *order, by_row);
        for (int64_t i = 0; i < all; i++) take_outputs(j, order[i].outputs, 1, j->outputs[0] + i * j->width);
    }
    for (int f = 0; f < folds; f++) tri__predictions_free(&made[f]);
    free(made);
    return status;
}

static tri_status outputs_of_valid(job *j) {
    TRI_OWNED(tri__predictions_free) tri_predictions made = {0};
    int is_part = j->fitted.valid != NULL;
    TRI_TRY(predict(j, j->asked->output_dir, is_part ? j->files.train : j->files.valid, is_part, &made));
    if (made.n != j->valid->n) return tri__fail(TRI_DATA, "%s changed while it was read", j->files.valid);
    TRI_TRY(TRI_NEW(j->outputs[1], made.n * j->width + 1, "the outputs of validation"));
    take_outputs(j, made.probs, made.n, j->outputs[1]);
    return TRI_OK;
}

/* ---- features ---- */

static tri_status add_row(void *context, int64_t row) {
    job *j = context;
    const tri_features *f = &j->stack.features;
    tri_matrix *x = &j->filled->x;
    int64_t at = x->start[row];
    memcpy(x->dense + row * x->n_dense, f->dense, (size_t)x->n_dense * sizeof *x->dense);
    if (!tri__grow(&x->index, &j->room[0], (size_t)(at + f->n) + 1, sizeof *x->index) ||
        !tri__grow(&x->value, &j->room[1], (size_t)(at + f->n) + 1, sizeof *x->value))
        return tri__fail(TRI_RESOURCE, "out of memory for the features of a table");
    memcpy(x->index + at, f->index, (size_t)f->n * sizeof *x->index);
    memcpy(x->value + at, f->value, (size_t)f->n * sizeof *x->value);
    x->start[row + 1] = at + f->n;
    return TRI_OK;
}

static tri_status fill(job *j, int which) {
    const tri_dataset *data = which ? j->valid : j->fitted.train;
    const tri_reals *by_class = &j->whole.settings.model.class_weights;
    tri_examples *e = j->filled = &j->rows[which];
    const tri_features *f = &j->stack.features;
    int is_number = !f->n_classes;
    *e = (tri_examples){.x = {.n = data->n, .n_dense = f->n_dense, .n_sparse = f->n_sparse}, .n_classes = f->n_classes};
    j->room[0] = j->room[1] = 0;
    TRI_TRY(TRI_NEW(e->x.dense, data->n * f->n_dense + 1, "features"));
    TRI_TRY(TRI_NEW(e->x.start, data->n + 1, "features"));
    TRI_TRY(TRI_NEW(e->y, data->n + 1, "features"));
    TRI_TRY(TRI_NEW(e->weight, data->n + 1, "features"));
    for (int64_t i = 0; i < data->n; i++) {
        int is_there = !is_number || isfinite(data->targets[i]);
        e->y[i] = !is_there ? 0 : is_number ? data->targets[i] : (float)data->labels[i];
        e->weight[i] = is_there ? (float)tri__row_weight(data, by_class->n ? by_class->at : NULL, i) : 0;
    }
    return tri__features_rows(&j->stack.features, data, j->outputs[which], add_row, j);
}

/* ---- candidates ---- */

/* The figure of a candidate's answers as they would be given, and the decision that turns them into these. */
static tri_status judge(job *j, candidate *c) {
    const tri_settings *set = j->asked;
    const tri_preprocess *p = j->whole.preprocess;
    TRI_OWNED(tri__scores_free) tri_scores scores = {0};
    TRI_OWNED(tri__free_at) float *answers = NULL;
    tri_decision_fit fit = {.decision = tri__decision_plain()};
    tri_conformal around;
    int64_t n = j->valid->n, step = tri__checkpoint_step(j->whole.checkpoint);
    tri_decision_spec spec = {.probs = c->answers, .labels = j->valid->labels, .n = n, .n_classes = p->n_classes,
                              .scale = set->calibration == TRI_CALIBRATION_TEMPERATURE};
    TRI_TRY(tri__opened_positive(&j->whole, NULL, NULL, &spec.positive));
    TRI_TRY(tri__threshold_parse(set->threshold, &spec.threshold));
    if (p->target) {
        TRI_TRY(tri__conformal_fit(c->answers, j->valid->targets, n, 1, set->interval, &around));
        if (around.share) c->decision = tri__decision_interval_json(&around, n, step);
    } else if (spec.scale || spec.threshold.kind != TRI_THRESHOLD_NONE) {
        TRI_TRY(tri__decision_fit(&spec, &fit));
        c->decision = tri__decision_json(&fit, &spec, p->label, step);
    }
    TRI_TRY(TRI_NEW(answers, n * j->width + 1, "a head's answers"));
    memcpy(answers, c->answers, (size_t)(n * j->width) * sizeof *answers);
    if (!p->target) tri__decision_apply(&fit.decision, answers, n, p->n_classes);
    const tri_reals *weights = &j->whole.settings.model.class_weights;
    const tri_label_set classes = {.n = p->n_classes, .label = p->label, .weights = weights->n ? weights->at : NULL,
                                   .numbers = p->target ? &j->whole.numbers : NULL, .positive = spec.positive,
                                   .decision = &fit.decision};
    TRI_TRY(tri__scores(answers, j->valid->labels, n, &classes, &scores));
    c->figure = tri__best_figure((tri_best_by)j->whole.settings.best_by, &scores);
    return TRI_OK;
}

/* The answers of the head in hand for the validation rows. */
static void answer(job *j, float *answers) {
    const tri_matrix *x = &j->rows[1].x;
    for (int64_t i = 0; i < x->n; i++)
        tri__stack_predict(&j->stack, x->dense + i * x->n_dense, x->index + x->start[i], x->value + x->start[i],
                           x->start[i + 1] - x->start[i], answers + i * j->width);
}

/* Takes the head in `file`, which is given over, if its loss on validation is the least of its kind. */
static tri_status consider(job *j, candidate *c, tri_json *file, double *least) {
    TRI_OWNED(tri__json_drop) tri_json *made = file;
    TRI_OWNED(tri__free_at) float *answers = NULL;
    if (!tri__json_is_whole(made)) return tri__fail(TRI_RESOURCE, "out of memory for a head");
    TRI_TRY(TRI_NEW(answers, j->valid->n * j->width + 1, "a head's answers"));
    TRI_TRY(tri__stack_head(&j->stack, made, c->name));
    answer(j, answers);
    double loss = tri__examples_loss(&j->rows[1], answers, j->width);
    if (!(loss < *least)) return TRI_OK;
    *least = loss;
    tri__json_decref(c->file);
    free(c->answers);
    c->file = TRI_GIVE(made), c->answers = TRI_GIVE(answers);
    return TRI_OK;
}

/* From the strongest penalty on: each fit begins where the last one ended. */
static tri_status try_linear(job *j, candidate *c) {
    static const double penalties[] = {300, 30, 3, 0.3, 0.03};
    const tri_features *f = &j->stack.features;
    TRI_OWNED(tri__free_at) double *at = NULL;
    double least = INFINITY;
    tri_linear m = {.n_features = f->n_dense + f->n_sparse, .n_outputs = f->n_outputs};
    TRI_TRY(TRI_NEW(at, ((int64_t)m.n_features + 1) * m.n_outputs, "a linear head"));
    m.at = at;
    for (size_t i = 0; i < sizeof penalties / sizeof *penalties; i++) {
        TRI_TRY(tri__linear_fit(&m, &j->rows[0], penalties[i]));
        tri_json *file = tri__stack_json(f, &m, NULL);
        tri__json_set_new(file, "penalty", tri__json_real(penalties[i]));
        TRI_TRY(consider(j, c, file, &least));
    }
    return TRI_OK;
}

static tri_status try_trees(job *j, candidate *c) {
    static const int depths[] = {3, 6};
    double least = INFINITY, loss;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        tri_json *model = NULL;
        TRI_TRY(tri__xgboost_train(&j->xgboost, &j->rows[0], &j->rows[1], tri__features_of_trees(&j->stack.features),
                                   depths[i], &model, &loss));
        tri_json *file = tri__stack_json(&j->stack.features, NULL, model);
        tri__json_decref(model);
        tri__json_set_new(file, "depth", tri__json_integer(depths[i]));
        tri__json_set_new(file, "xgboost", tri__json_string(j->xgboost.version));
        TRI_TRY(consider(j, c, file, &least));
    }
    return TRI_OK;
}

static tri_status try_heads(job *j) {
    static const char *const names[CANDIDATES] = {"encoder", "linear", "trees"};
    int kind = j->asked->stack, asks[CANDIDATES] = {1, kind != TRI_STACK_TREES, kind != TRI_STACK_LINEAR};
    for (int c = 0; c < CANDIDATES; c++) j->of[c].name = names[c], j->of[c].figure = NAN;
    tri_status there = asks[TREES] ? tri__xgboost_open(&j->xgboost) : TRI_OK;
    if (there != TRI_OK && (kind == TRI_STACK_TREES || there != TRI_USAGE)) return there;
    if (there != TRI_OK)
        tri__say(j->log, TRI_LOG_WARN, "--stack auto compares linear heads only: %s", tri__words_now().text);
    asks[TREES] &= there == TRI_OK;
    j->of[ALONE].answers = j->outputs[1];
    for (int c = 0; c < CANDIDATES; c++) {
        if (!asks[c]) continue;
        if (c == LINEAR) TRI_TRY(try_linear(j, &j->of[c]));
        if (c == TREES) TRI_TRY(try_trees(j, &j->of[c]));
        TRI_TRY(judge(j, &j->of[c]));
        TRI_TRY(tri__stop_check_kept(j->log->stop, "heads are compared"));
    }
    return TRI_OK;
}

/* ---- the checkpoint ---- */

/* Puts stack.json into a checkpoint, or takes it out (NULL): it is there once the manifest lists it. */
static tri_status list_stack(const char *folder, const tri_json *file) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL, *files = NULL, *kept = tri__json_array();
    TRI_TRY(tri__manifest_load(folder, &manifest));
    TRI_TRY(tri__path_join(path, folder, TRI_STACK_FILE));
    tri__json_items(tri__json_get(manifest, "files"), row)
        if (strcmp(tri__text_in(row, "name"), TRI_STACK_FILE)) tri__json_append(kept, row);
    if (file) {
        TRI_TRY(tri__json_save_exact(path, file));
        TRI_TRY(tri__manifest_files(folder, kept, &files));
    }
    tri__json_items(files, row) /* the manifest, which is not listed, among them */
        if (!strcmp(tri__text_in(row, "name"), TRI_STACK_FILE)) tri__json_append(kept, row);
    tri__json_set(manifest, "files", kept);
    if (!tri__json_is_whole(manifest)) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    TRI_TRY(tri__manifest_save(folder, manifest));
    return file ? TRI_OK : tri__file_remove(path);
}

/* The whole run's model, without the head of an earlier call. */
static tri_status open_whole(job *j) {
    tri_checkpoint *checkpoint;
    char folder[TRI_PATH_MAX];
    TRI_TRY(tri__checkpoint_open_weights(j->asked->output_dir, 1, tri__threads(j->asked), &checkpoint));
    tri_status status = tri__path_join(folder, "", tri__checkpoint_path(checkpoint));
    int has = tri__manifest_lists(tri__checkpoint_manifest(checkpoint), TRI_STACK_FILE);
    tri__checkpoint_close(checkpoint);
    if (status == TRI_OK && has) status = list_stack(folder, NULL);
    tri_settings s = ask(j, folder);
    return status == TRI_OK ? tri__opened_read(&s, NULL, &j->whole) : status;
}

static tri_status open_data(job *j) {
    tri_inputs in;
    const tri_preprocess *p = j->whole.preprocess;
    TRI_TRY(tri__inputs_make(&j->whole.settings, &j->whole.assets, NULL, NULL, &in));
    in.stop = j->log->stop;
    TRI_TRY(tri__inputs_fit(&in, &j->files, &j->fitted));
    j->valid = j->fitted.valid;
    if (!j->valid) TRI_TRY(tri__inputs_open(&in, j->files.valid, p, 1, &j->valid));
    if (!j->valid->n) return tri__fail(TRI_DATA, "%s: no validation rows", j->files.valid);
    j->width = p->target ? 1 : p->n_classes;
    return TRI_OK;
}

/* {chosen, by, encoder, linear, trees, rows: {training, validation}, folds, xgboost} */
static tri_json *facts_of(const job *j, int chosen, int folds) {
    tri_json *facts = tri__json_pack("{s:s, s:s, s:i, s:{s:I, s:I}}", "chosen", j->of[chosen].name, "by",
                                     tri__best_name((tri_best_by)j->whole.settings.best_by), "folds", folds, "rows",
                                     "training", (tri_json_int)j->fitted.train->n, "validation",
                                     (tri_json_int)j->valid->n);
    for (int c = 0; c < CANDIDATES; c++)
        tri__json_set_new(facts, j->of[c].name,
                          isnan(j->of[c].figure) ? tri__json_null() : tri__json_real(j->of[c].figure));
    if (!isnan(j->of[TREES].figure)) tri__json_set_new(facts, "xgboost", tri__json_string(j->xgboost.version));
    return facts;
}

/* A tie is the simpler one's. */
static tri_status choose(job *j, int folds, tri_json **facts) {
    int best = ALONE;
    for (int c = 0; c < CANDIDATES; c++)
        if (tri__best_beats((tri_best_by)j->whole.settings.best_by, j->of[c].figure, j->of[best].figure)) best = c;
    candidate *c = &j->of[best];
    *facts = facts_of(j, best, folds);
    if (!tri__json_is_whole(*facts)) return tri__fail(TRI_RESOURCE, "out of memory");
    if (best == ALONE) return TRI_OK;
    tri__json_set(c->file, "chosen", *facts);
    if (c->decision) tri__json_set(c->file, "decision", c->decision);
    return list_stack(tri__checkpoint_path(j->whole.checkpoint), c->file);
}

tri_status tri__serve_stack(const tri_settings *asked, int folds, const char *folder, const tri_log *log,
                            tri_json **facts) {
    TRI_OWNED(close_job) job *j = NULL;
    *facts = NULL;
    TRI_TRY(TRI_NEW(j, 1, "a stacked head"));
    j->asked = asked, j->log = log;
    TRI_TRY(tri__settings_init(&j->settings));
    TRI_TRY(tri__data_files(asked->data_path, &j->files));
    TRI_TRY(open_whole(j));
    TRI_TRY(open_data(j));
    TRI_TRY(outputs_of_folds(j, folds, folder));
    TRI_TRY(outputs_of_valid(j));
    TRI_TRY(tri__features_open(j->whole.preprocess, j->whole.assets.tokenizer, j->whole.assets.n_texts,
                               &j->stack.features));
    TRI_TRY(tri__features_fit(&j->stack.features, j->fitted.train, j->outputs[0]));
    for (int i = 0; i < 2; i++) TRI_TRY(fill(j, i));
    TRI_TRY(try_heads(j));
    return choose(j, folds, facts);
}
