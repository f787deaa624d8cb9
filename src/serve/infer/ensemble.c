/* ensemble.c - evaluation and prediction by one model, or by the mean of several: each member computes the whole table,
 * one after the other, so that memory holds one of them. */
#include "serve/infer/ensemble.h"

#include "data/dataset/field_values.h"
#include "data/dataset/target.h"
#include "engine/inputs.h"
#include "serve/infer/groups.h"

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for an ensemble"); }

tri_status tri__ensemble_read(const char *folder, tri_run_set *out) {
    TRI_TRY(tri__run_set_read(folder, out));
    if (out->kind != TRI_RUN_SET_SEEDS) tri__run_set_free(out);
    return TRI_OK;
}

tri_status tri__ensemble_refuse(const char *folder, const char *what) {
    TRI_OWNED(tri__run_set_free) tri_run_set ensemble = {0};
    TRI_TRY(tri__ensemble_read(folder, &ensemble));
    if (!ensemble.n) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s is an ensemble of %d models, and %s takes one: name a member, for "
                     "example %s", folder, ensemble.n, what, ensemble.folder[0]);
}

/* ---- the mean ---- */

void tri__mean_add(const float *probs, int64_t n, double *sum) {
    for (int64_t i = 0; i < n; i++) sum[i] += (double)probs[i];
}

void tri__mean_take(const double *sum, int64_t n, int members, float *probs) {
    for (int64_t i = 0; i < n; i++) probs[i] = (float)(sum[i] / members);
}

void tri__decision_add(const tri_decision *one, int i, tri_decision *sum) {
    if (i == 0) *sum = *one;
    else sum->has_threshold &= one->has_threshold && one->positive == sum->positive, sum->threshold += one->threshold;
    sum->temperature = 1;
}

void tri__decision_take(int members, tri_decision *sum) {
    sum->threshold /= members;
    if (!sum->has_threshold) *sum = tri__decision_plain();
}

void tri__judged_free(tri_judged *judged) {
    TRI_FREE(judged->probs, judged->labels, judged->weights, judged->level, judged->from);
    tri__preprocess_free(judged->preprocess);
    *judged = (tri_judged){0};
}

static int are_same(char *const *a, int n, char *const *b, int m) {
    if (n != m) return 0;
    for (int i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0) return 0;
    return 1;
}

static tri_status other_classes(const tri_run_set *e, int member) {
    return tri__fail(TRI_DATA, "%s and %s have different classes or read different rows: they cannot form an ensemble",
                     e->folder[0], e->folder[member]);
}

/* ---- evaluation ---- */

/* Evaluates member i; unless members are folds, adds its probabilities to the sum, which the first one makes. */
static tri_status eval_member(const tri_settings *asked, const tri_eval_options *options, tri_world *world,
                              const tri_log *log, const tri_run_set *e, int i, tri_judged *first, double **sum,
                              tri_evaluation *out) {
    tri_settings one = *asked; /* borrows its texts */
    const tri_eval_options bare = {.by = i ? (tri_texts){0} : options->by};
    TRI_OWNED(tri__evaluation_free) tri_evaluation made = {0};
    TRI_OWNED(tri__judged_free) tri_judged judged = {0};
    one.checkpoint = e->folder[i];
    tri_status status = tri__eval_model(&one, &bare, world, log, &made, out->folds ? NULL : &judged);
    int64_t n = judged.n * judged.n_classes;
    if (status == TRI_OK && i > 0 && judged.probs &&
        (judged.n != first->n || judged.n_classes != first->n_classes || judged.words != first->words ||
         memcmp(judged.labels, first->labels, (size_t)judged.words * sizeof *judged.labels) != 0 ||
         !are_same(made.scores.label, made.scores.n_classes, out->member[0].scores.label,
                   out->member[0].scores.n_classes)))
        status = other_classes(e, i);
    if (status == TRI_OK && i == 0 && !(*sum = calloc((size_t)n + 1, sizeof **sum))) status = no_memory();
    if (status == TRI_OK && judged.probs) tri__mean_add(judged.probs, n, *sum);
    out->member[i].scores = made.scores, made.scores = (tri_scores){0};
    out->member[i].folder = strdup(e->folder[i]), out->n_members = i + 1;
    if (i == 0) out->by = TRI_GIVE(made.by), out->n_by = made.n_by, made.n_by = 0, out->promised = made.promised;
    if (!out->folds) {
        tri__decision_add(&made.decision, i, &out->decision);
        out->trained_on = made.trained_on > out->trained_on ? made.trained_on : out->trained_on;
        if (!out->unseen) out->unseen = tri__json_incref(made.unseen); /* members have the same columns and values */
    }
    if (status == TRI_OK && !out->member[i].folder) status = no_memory();
    for (int c = 0; i && judged.from && c < judged.n_classes; c++) first->from[c] += judged.from[c];
    if (i == 0) *first = judged, judged = (tri_judged){0};
    return status;
}

/* Answers of numbers become values in units of training again, which figures are taken of; thresholds are the mean. */
static tri_status take_numbers(int members, tri_judged *first, tri_label_set *classes, tri_evaluation *out,
                               uint8_t **inside) {
    const tri_column_stats *target = first->preprocess->target;
    int n = first->numbers.n, has_interval = first->is_number && out->promised > 0;
    for (int c = 0; first->from && c < n; c++) first->from[c] /= (float)members;
    first->numbers.from = first->from, first->numbers.scale = target;
    classes->numbers = &first->numbers, classes->n = n, classes->label = first->preprocess->label;
    if (has_interval) TRI_TRY(TRI_NEW(*inside, first->n, "intervals"));
    for (int64_t i = 0; first->is_number && i < first->n; i++) {
        const float *answer = first->probs + i * first->n_classes, *end = answer + first->n_classes;
        double actual = tri__target_value(target, (double)((const float *)(const void *)first->labels)[i]);
        if (has_interval) (*inside)[i] = actual >= (double)end[-2] && actual <= (double)end[-1];
        for (int c = 0; c < n; c++) /* quantiles follow the prediction; there is at least as much room before */
            first->probs[i * n + c] = (float)tri__column_transform(target, (double)answer[c + (first->level != NULL)]);
    }
    return TRI_OK;
}

/* The scores of the mean, whose members are calibrated. */
static tri_status score(const tri_run_set *e, const double *sum, tri_judged *first, int64_t bootstrap, int threads,
                        tri_evaluation *out) {
    const tri_scores *one = &out->member[0].scores;
    TRI_OWNED(tri__free_at) uint8_t *inside = NULL;
    tri_label_set classes = {.n = one->n_classes, .label = one->label, .weights = first->weights,
                             .positive = one->positive, .decision = &out->decision};
    tri__decision_take(e->n, &out->decision);
    tri__mean_take(sum, first->n * first->n_classes, e->n, first->probs);
    if (first->preprocess) TRI_TRY(take_numbers(e->n, first, &classes, out, &inside));
    TRI_TRY(tri__scores(first->probs, first->labels, first->n, &classes, &out->scores));
    out->before.log_loss = out->scores.log_loss;
    out->before.ece = out->scores.reliability.ece, out->before.brier = out->scores.reliability.brier;
    for (int i = 0; i < e->n; i++) out->scores.seconds += out->member[i].scores.seconds;
    const tri_scored_rows rows = {first->probs, first->labels, inside, first->n};
    return tri__evaluation_bootstrap(&rows, &classes, bootstrap, threads, out);
}

/* An ensemble's mean; or each fold's model by itself: with --part valid their rows differ. */
static tri_status eval_members(const tri_settings *asked, const tri_eval_options *options, tri_world *world,
                               const tri_log *log, const tri_run_set *e, tri_evaluation *out) {
    TRI_OWNED(tri__free_at) double *sum = NULL;
    TRI_OWNED(tri__judged_free) tri_judged first = {0};
    if (options->by.n && e->kind == TRI_RUN_SET_FOLDS)
        return tri__fail(TRI_USAGE, "--by: %s has folds, each scored by itself: name one of them, for example %s",
                         asked->checkpoint, e->folder[0]);
    *out = (tri_evaluation){.trained_on = -1, .folds = e->kind == TRI_RUN_SET_FOLDS,
                            .member = calloc((size_t)e->n, sizeof *out->member)};
    if (!out->member) return no_memory();
    for (int i = 0; i < e->n; i++) TRI_TRY(eval_member(asked, options, world, log, e, i, &first, &sum, out));
    if (first.probs) /* on the first rank */
        TRI_TRY(score(e, sum, &first, options->bootstrap, tri__threads(asked), out));
    return TRI_OK;
}

tri_status tri__serve_eval(const tri_settings *asked, const tri_eval_options *options, tri_world *world,
                           const tri_log *log, tri_evaluation *out) {
    TRI_OWNED(tri__run_set_free) tri_run_set e = {0};
    *out = (tri_evaluation){0};
    TRI_TRY(tri__run_set_read(asked->checkpoint, &e));
    int several = e.kind == TRI_RUN_SET_SEEDS || e.kind == TRI_RUN_SET_FOLDS;
    return several ? eval_members(asked, options, world, log, &e, out)
                   : tri__eval_model(asked, options, world, log, out, NULL);
}

/* ---- prediction ---- */

/* Adds member i's probabilities; `out` keeps the first one's rows. */
static tri_status predict_member(const tri_settings *asked, tri_world *world, const tri_predict_options *options,
                                 const tri_log *log, const tri_run_set *e, int i, double **sum, tri_decision *decision,
                                 tri_predictions *out) {
    tri_settings one = *asked; /* borrows its texts */
    const tri_predict_options bare = {.top_k = options->top_k};
    TRI_OWNED(tri__predictions_free) tri_predictions made = {0};
    one.checkpoint = e->folder[i];
    TRI_TRY(tri__predict_model(&one, world, i ? &bare : options, log, i ? &made : out));
    const tri_predictions *p = i ? &made : out;
    int64_t n = p->n * p->n_classes;
    if (i == 0 && !(*sum = calloc((size_t)n + 1, sizeof **sum))) return no_memory();
    if (i > 0 && (made.n != out->n || !are_same(made.label, made.n_classes, out->label, out->n_classes)))
        return other_classes(e, i);
    tri__mean_add(p->probs, n, *sum);
    tri__decision_add(&p->decision, i, decision);
    for (int c = 0; i && out->from && made.from && c < out->n_classes; c++) out->from[c] += made.from[c];
    return TRI_OK;
}

tri_status tri__serve_predict(const tri_settings *asked, tri_world *world, const tri_predict_options *options,
                              const tri_log *log, tri_predictions *out) {
    TRI_OWNED(tri__run_set_free) tri_run_set e = {0};
    TRI_OWNED(tri__free_at) double *sum = NULL;
    tri_decision decision = tri__decision_plain();
    *out = (tri_predictions){0};
    TRI_TRY(tri__ensemble_read(asked->checkpoint, &e));
    if (!e.n) return tri__predict_model(asked, world, options, log, out);
    for (int i = 0; i < e.n; i++) TRI_TRY(predict_member(asked, world, options, log, &e, i, &sum, &decision, out));
    tri__decision_take(e.n, &decision);
    for (int c = 0; out->from && c < out->n_classes; c++) out->from[c] /= (float)e.n;
    out->decision = decision, out->decision.from = out->from;
    tri__mean_take(sum, out->n * out->n_classes, e.n, out->probs);
    return TRI_OK;
}
