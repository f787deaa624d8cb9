/* stacked.c - `train --stack`, after its runs: what each fold's model says of the rows that it was not trained on
 * becomes, with features of the rows, what heads are trained on. They are compared with the model alone on the
 * validation rows, for which outputs are the whole run's, as they will be for new rows. The best head goes into the
 * run's best checkpoint. */
#include "data/dataset/field_values.h"
#include "engine/inputs.h"
#include "score/best.h"
#include "serve/infer/model_checkpoint.h"
#include "serve/serve.h"
#include "stack/xgboost.h"

/* One way to answer: the model alone, or a head. */
typedef struct candidate {
    float *answers;         /* [valid->n, width] */
    double figure;          /* of --best-by; NaN: it was not tried */
    tri_json *file;         /* of a head */
    tri_json *decision;     /* fitted to its answers; NULL: none */
} candidate;
enum { ALONE, LINEAR, TREES, CANDIDATES };
const char *const tri__stack_heads[] = {"encoder", "linear", "trees"};
_Static_assert((int)CANDIDATES == (int)TRI_STACK_HEADS, "each has a name");

typedef struct job {
    const tri_settings *asked;
    const tri_log *log;
    tri_settings settings;  /* defaults, of which `ask` makes those of predictions */
    tri_data_files files;
    tri_opened whole;
    tri_fitted fitted;
    tri_dataset *data[2];   /* training and validation rows; the first is fitted's */
    int width;              /* of an answer */
    float *outputs[2];      /* [n, width] of the rows */
    tri_features features;
    tri_matrix rows[2];
    candidate of[CANDIDATES];
    tri_xgboost xgboost;
} job;

static void close_job(job **at) {
    job *j = *at;
    if (!j) return;
    j->of[ALONE].answers = NULL; /* of outputs */
    for (int c = 0; c < CANDIDATES; c++) {
        tri__json_decref(j->of[c].file);
        tri__json_decref(j->of[c].decision);
        free(j->of[c].answers);
    }
    for (int i = 0; i < 2; i++) tri__matrix_free(&j->rows[i]), free(j->outputs[i]);
    tri__features_free(&j->features);
    if (j->data[1] != j->fitted.valid) tri__dataset_close(j->data[1]);
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

/* A row of the table, and what a model says of it. */
typedef struct placed {
    int64_t row;
    float *outputs;
} placed;

static int by_row(const void *a, const void *b) {
    const placed *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* Adds what a run says of a table, or of the rows that its division has for validation, to `out` [of data[which]], of
 * which *n have come. Numbers become those that the whole run's model learns. */
static tri_status predict(const job *j, const char *run, int which, int is_part, placed *out, int64_t *n) {
    TRI_OWNED(tri__predictions_free) tri_predictions made = {0};
    tri_settings s = ask(j, run);
    const tri_column_stats *target = j->whole.preprocess->target;
    s.data_path = (char *)(is_part ? j->files.train : j->files.valid);
    s.part = is_part ? TRI_PART_ASKED_VALID : TRI_PART_ASKED_ALL;
    TRI_TRY(tri__serve_predict(&s, NULL, &(tri_predict_options){0}, j->log, &made));
    if (*n + made.n > j->data[which]->n)
        return tri__fail(TRI_DATA, "%s: labels that cannot be read, or it changed", s.data_path);
    for (int64_t i = 0; i < made.n; i++, ++*n) {
        out[*n].row = made.row ? made.row[i] : i;
        for (int c = 0; c < j->width; c++) {
            float p = made.probs[i * j->width + c];
            out[*n].outputs[c] = target ? (float)tri__column_transform(target, (double)p) : p;
        }
    }
    return TRI_OK;
}

/* Each row of the training data is in one fold, so that in the order of the table they are its rows. */
static tri_status find_outputs(job *j, int which, int folds, const char *folder) {
    int64_t all = j->data[which]->n, n = 0;
    TRI_OWNED(tri__free_at) placed *order = NULL;
    TRI_OWNED(tri__free_at) float *said = NULL;
    TRI_TRY(TRI_NEW(order, all + 1, "outputs"));
    TRI_TRY(TRI_NEW(j->outputs[which], all * j->width + 1, "outputs"));
    TRI_TRY(TRI_NEW(said, all * j->width + 1, "outputs"));
    for (int64_t i = 0; i < all; i++) order[i].outputs = said + i * j->width;
    for (int f = 0; f < folds; f++) {
        TRI_PATH(run, folder, which ? "" : TRI_TEXT(32, "fold-%d", f + 1));
        TRI_TRY(predict(j, run, which, !which || j->fitted.valid, order, &n));
    }
    if (n != all)
        return tri__fail(TRI_DATA, "%s: outputs for %lld of %lld rows: the data changed meanwhile, or has labels that "
                         "cannot be read", folder, (long long)n, (long long)all);
    qsort(order, (size_t)all, sizeof *order, by_row);
    size_t bytes = (size_t)j->width * sizeof *said;
    for (int64_t i = 0; i < all; i++) memcpy(j->outputs[which] + i * j->width, order[i].outputs, bytes);
    return TRI_OK;
}

/* ---- features ---- */

static tri_status fill(job *j, int which) {
    const tri_dataset *data = j->data[which];
    const tri_reals *by_class = &j->whole.settings.model.class_weights;
    tri_matrix *x = j->features.to = &j->rows[which];
    TRI_TRY(TRI_NEW(x->y, data->n + 1, "features"));
    TRI_TRY(TRI_NEW(x->weight, data->n + 1, "features"));
    for (int64_t i = 0; i < data->n; i++) {
        float y = j->features.n_classes ? (float)data->labels[i] : data->targets[i];
        int is_there = isfinite(y);
        x->y[i] = is_there ? y : 0;
        x->weight[i] = is_there ? (float)tri__row_weight(data, by_class->n ? by_class->at : NULL, i) : 0;
    }
    return tri__features_rows(&j->features, data, j->outputs[which], tri__features_add, &j->features);
}

/* ---- candidates ---- */

/* The figure of a candidate's answers as they would be given, and the decision that turns them into these. */
static tri_status judge(job *j, candidate *c) {
    const tri_settings *set = j->asked, *trained = &j->whole.settings;
    const tri_preprocess *p = j->whole.preprocess;
    const tri_reals *weights = &trained->model.class_weights;
    TRI_OWNED(tri__scores_free) tri_scores scores = {0};
    TRI_OWNED(tri__free_at) float *answers = NULL;
    tri_decision_fit fit = {.decision = tri__decision_plain()};
    tri_conformal around;
    int64_t n = j->data[1]->n, step = tri__checkpoint_step(j->whole.checkpoint);
    tri_decision_spec spec = {.probs = c->answers, .labels = j->data[1]->labels, .n = n, .n_classes = p->n_classes,
                              .scale = set->calibration == TRI_CALIBRATION_TEMPERATURE};
    TRI_TRY(tri__opened_positive(&j->whole, NULL, NULL, &spec.positive));
    TRI_TRY(tri__threshold_parse(set->threshold, &spec.threshold));
    if (p->target) {
        TRI_TRY(tri__conformal_fit(c->answers, j->data[1]->targets, n, 1, set->interval, &around));
        if (around.share) c->decision = tri__decision_interval_json(&around, n, step);
    } else if (spec.scale || spec.threshold.kind != TRI_THRESHOLD_NONE) {
        TRI_TRY(tri__decision_fit(&spec, &fit));
        c->decision = tri__decision_json(&fit, &spec, p->label, step);
    }
    TRI_TRY(TRI_NEW(answers, n * j->width + 1, "a head's answers"));
    memcpy(answers, c->answers, (size_t)(n * j->width) * sizeof *answers);
    if (!p->target) tri__decision_apply(&fit.decision, answers, n, p->n_classes);
    const tri_label_set classes = {.n = p->n_classes, .label = p->label, .weights = weights->n ? weights->at : NULL,
                                   .numbers = p->target ? &j->whole.numbers : NULL, .positive = spec.positive,
                                   .decision = &fit.decision};
    TRI_TRY(tri__scores(answers, j->data[1]->labels, n, &classes, &scores));
    c->figure = tri__best_figure((tri_best_by)trained->best_by, &scores);
    return TRI_OK;
}

/* Takes the head in `file`, which is given over, if its loss on validation is the least of its kind. */
static tri_status consider(job *j, candidate *c, tri_json *file, double *least) {
    TRI_OWNED(tri__json_drop) tri_json *made = file;
    TRI_OWNED(tri__free_at) float *answers = NULL;
    TRI_OWNED(tri__stack_drop) tri_stack *stack = NULL;
    const tri_assets *assets = &j->whole.assets;
    if (!tri__json_is_whole(made)) return tri__fail(TRI_RESOURCE, "out of memory for a head");
    TRI_TRY(TRI_NEW(answers, j->rows[1].n * j->width + 1, "a head's answers"));
    TRI_TRY(tri__stack_parse(made, "a new head", j->whole.preprocess, assets->tokenizer, assets->n_texts, &stack));
    for (int64_t i = 0; i < j->rows[1].n; i++) tri__stack_predict(stack, &j->rows[1], i, answers + i * j->width);
    double loss = tri__matrix_loss(&j->rows[1], answers, j->width);
    if (!(loss < *least)) return TRI_OK;
    *least = loss;
    tri__json_decref(c->file);
    free(c->answers);
    c->file = TRI_GIVE(made), c->answers = TRI_GIVE(answers);
    return TRI_OK;
}

/* Linear heads by penalty, from the strongest on: each fit begins where the last one ended. Trees by depth. */
static tri_status try_kind(job *j, int kind) {
    static const double of[CANDIDATES][5] = {[LINEAR] = {300, 30, 3, 0.3, 0.03}, [TREES] = {3, 6}};
    const tri_features *f = &j->features;
    TRI_OWNED(tri__free_at) double *at = NULL;
    double least = INFINITY;
    tri_linear_head m = {.n_features = tri__features_count(f), .n_outputs = f->n_outputs};
    TRI_TRY(TRI_NEW(at, ((int64_t)m.n_features + 1) * m.n_outputs, "a linear head"));
    m.at = at;
    for (int i = 0; i < 5 && of[kind][i] > 0; i++) {
        TRI_OWNED(tri__json_drop) tri_json *trees = NULL;
        TRI_TRY(kind == LINEAR ? tri__linear_fit(&m, &j->rows[0], of[kind][i])
                               : tri__xgboost_train(&j->xgboost, &j->rows[0], &j->rows[1], tri__features_of_trees(f),
                                                    (int)of[kind][i], &trees));
        tri_json *file = tri__stack_json(f, trees ? NULL : &m, trees);
        if (trees) tri__json_set_new(file, "xgboost", tri__json_string(j->xgboost.version));
        else tri__json_set_new(file, "penalty", tri__json_real(of[kind][i]));
        TRI_TRY(consider(j, &j->of[kind], file, &least));
    }
    return TRI_OK;
}

static tri_status try_heads(job *j) {
    int kind = j->asked->stack, asks[CANDIDATES] = {1, kind != TRI_STACK_TREES, kind != TRI_STACK_LINEAR};
    tri_status there = asks[TREES] ? tri__xgboost_open(&j->xgboost) : TRI_OK;
    if (there != TRI_OK && (kind == TRI_STACK_TREES || there != TRI_USAGE)) return there;
    if (there != TRI_OK)
        tri__say(j->log, TRI_LOG_WARN, "--stack auto compares linear heads only: %s", tri__words_now().text);
    asks[TREES] &= there == TRI_OK;
    j->of[ALONE].answers = j->outputs[1];
    for (int c = 0; c < CANDIDATES; c++) {
        j->of[c].figure = NAN;
        if (!asks[c]) continue;
        TRI_TRY(tri__stop_check_kept(j->log->stop, "heads are compared"));
        if (c != ALONE) TRI_TRY(try_kind(j, c));
        TRI_TRY(judge(j, &j->of[c]));
    }
    return TRI_OK;
}

/* ---- the checkpoint ---- */

/* Puts stack.json into a checkpoint, or takes it out (NULL): it is there once the manifest lists it. */
static tri_status list_stack(const char *folder, const tri_json *file) {
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL, *files = NULL, *kept = tri__json_array();
    TRI_PATH(path, folder, TRI_STACK_FILE);
    TRI_TRY(tri__manifest_load(folder, &manifest));
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
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
    TRI_TRY(tri__checkpoint_open_weights(j->asked->output_dir, 1, tri__threads(j->asked), &checkpoint));
    const char *folder = tri__checkpoint_path(checkpoint);
    if (tri__manifest_lists(tri__checkpoint_manifest(checkpoint), TRI_STACK_FILE)) TRI_TRY(list_stack(folder, NULL));
    tri_settings s = ask(j, folder);
    return tri__opened_read(&s, NULL, &j->whole);
}

static tri_status open_data(job *j) {
    tri_inputs in;
    const tri_preprocess *p = j->whole.preprocess;
    TRI_TRY(tri__inputs_make(&j->whole.settings, &j->whole.assets, NULL, NULL, &in));
    in.stop = j->log->stop;
    TRI_TRY(tri__inputs_fit(&in, &j->files, &j->fitted));
    j->data[0] = j->fitted.train, j->data[1] = j->fitted.valid;
    if (!j->data[1]) TRI_TRY(tri__inputs_open(&in, j->files.valid, p, 1, &j->data[1]));
    if (!j->data[1]->n) return tri__fail(TRI_DATA, "%s: no validation rows", j->files.valid);
    j->width = p->target ? 1 : p->n_classes;
    return TRI_OK;
}

/* A tie is the simpler one's. */
static tri_status choose(job *j, int folds, tri_json **facts) {
    tri_best_by by = (tri_best_by)j->whole.settings.best_by;
    int best = ALONE;
    for (int c = 0; c < CANDIDATES; c++)
        if (tri__best_beats(by, j->of[c].figure, j->of[best].figure)) best = c;
    *facts = tri__json_pack("{s:s, s:s, s:i, s:{s:I, s:I}}", "chosen", tri__stack_heads[best], "by",
                            tri__best_name(by), "folds", folds, "rows", "training", (tri_json_int)j->rows[0].n,
                            "validation", (tri_json_int)j->rows[1].n);
    for (int c = 0; c < CANDIDATES; c++)
        tri__json_set_new(*facts, tri__stack_heads[c], tri__json_real(j->of[c].figure));
    if (!tri__json_is_whole(*facts)) return tri__fail(TRI_RESOURCE, "out of memory");
    if (best == ALONE) return TRI_OK;
    tri__json_set(j->of[best].file, "chosen", *facts);
    if (j->of[best].decision) tri__json_set(j->of[best].file, "decision", j->of[best].decision);
    return list_stack(tri__checkpoint_path(j->whole.checkpoint), j->of[best].file);
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
    TRI_TRY(tri__features_open(j->whole.preprocess, j->whole.assets.tokenizer, j->whole.assets.n_texts, &j->features));
    for (int i = 0; i < 2; i++) TRI_TRY(find_outputs(j, i, i ? 1 : folds, i ? asked->output_dir : folder));
    TRI_TRY(tri__features_fit(&j->features, j->data[0], j->outputs[0]));
    for (int i = 0; i < 2; i++) TRI_TRY(fill(j, i));
    TRI_TRY(try_heads(j));
    return choose(j, folds, facts);
}
