/* predict.c - evaluation and prediction of a table with one checkpoint. */
#include "data/dataset/unseen.h"
#include "data/dataset/field_values.h"
#include "data/dataset/target.h"
#include "score/best.h"
#include "engine/evaluate.h"
#include "engine/infer.h"
#include "engine/inputs.h"
#include "data/dataset/training_rows.h"
#include "serve/infer/ensemble.h"
#include "serve/infer/groups.h"
#include "serve/infer/number_outputs.h"
#include "checkpoint/folders.h"

typedef struct served {
    tri_opened opened;
    tri_dataset *data;
    char table[TRI_PATH_MAX];     /* path of the data */
    int positive;                 /* class that the figures belong to; -1: more than two classes */
    float *probs;                 /* [n, classes] */
    double seconds;
    const tri_log *log;
    int64_t done;                 /* rows */
} served;

static void close_served(served **at) {
    served *v = *at;
    if (!v) return;
    free(v->probs);
    tri__dataset_close(v->data);
    tri__opened_close(&v->opened);
    free(v);
}

/* The table to read; of a part, the one that the model's run divided: a folder's training table. */
static tri_status find_table(const tri_settings *asked, char out[static TRI_PATH_MAX]) {
    tri_data_files files;
    if (asked->part == TRI_PART_ASKED_ALL) return tri__data_scored(asked->data_path, out);
    TRI_TRY(tri__data_files(asked->data_path, &files));
    if (files.train[0]) return tri__path_join(out, "", files.train);
    return tri__fail(TRI_NOINPUT, "%s: has no training table, whose part could be taken (--part)", asked->data_path);
}

/* What load_data takes. */
typedef struct loading {
    served *v;
    tri_inputs inputs;
    int need_labels, part; /* part: TRI_PART_ASKED_ALL, ... */
} loading;

static tri_status load_data(void *context) {
    const loading *l = context;
    const tri_opened *o = &l->v->opened;
    if (l->part != TRI_PART_ASKED_ALL)
        return tri__inputs_open_part(&l->inputs, l->v->table, o->preprocess,
                                     (tri_rows_for)(l->part - TRI_PART_ASKED_TRAIN),
                                     tri__json_get(tri__checkpoint_state(o->checkpoint), "split"), &l->v->data);
    return tri__inputs_open(&l->inputs, l->v->table, l->v->opened.preprocess, l->need_labels, &l->v->data);
}

/* Counts rows that the model was trained on, in any file: all of them if the tables' digests are equal, else those that
 * match the checkpoint's row hashes. An export has only the digest. */
static tri_status count_trained(const served *v, const tri_log *log, int64_t *rows) {
    static const char advice[] = "scores on rows that the model was trained on do not say how it does on others";
    const tri_json *state = tri__checkpoint_state(v->opened.checkpoint), *hashes = tri__json_get(state, "trained_rows");
    const char *trained = tri__text_in(state, "data");
    char digest[24];
    tri_trained sample = {0};
    *rows = -1;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)v->data->digest);
    if (hashes) TRI_TRY(tri__trained_count(hashes, tri__checkpoint_path(v->opened.checkpoint), v->data, &sample));
    if (trained && strcmp(digest, trained) == 0) sample = (tri_trained){v->data->n, v->data->n};
    if (sample.seen) *rows = (int64_t)((double)sample.found * (double)v->data->n / (double)sample.seen + 0.5);
    if (sample.found == v->data->n)
        tri__say(log, TRI_LOG_WARN, "the model was trained on all %lld rows of %s: %s", (long long)*rows, v->table,
                 advice);
    else if (*rows > 0) /* a few are normal: e.g. rows without a text are often equal */
        tri__say(log, 10 * *rows >= v->data->n ? TRI_LOG_WARN : TRI_LOG_INFO, "%s%lld of the %lld rows of %s equal "
                 "rows that the model was trained on: %s", sample.seen < v->data->n ? "about " : "", (long long)*rows,
                 (long long)v->data->n, v->table, advice);
    return TRI_OK;
}

/* Opens the model and the data. */
static tri_status open_served(const tri_settings *asked, tri_world *world, const tri_log *log, int need_labels,
                              served *v) {
    loading l = {.v = v, .need_labels = need_labels, .part = asked->part};
    TRI_TRY(tri__opened_read(asked, world, &v->opened));
    if (need_labels) TRI_TRY(tri__opened_positive(&v->opened, asked->model.positive_label, log, &v->positive));
    TRI_TRY(find_table(asked, v->table));
    TRI_TRY(tri__inputs_make(&v->opened.settings, &v->opened.assets, log, NULL, &l.inputs));
    l.inputs.stop = log ? log->stop : NULL;
    TRI_TRY(tri__place_load(&v->opened.place, l.inputs.cache[0] != 0, load_data, &l));
    return tri__unseen_say(v->data->unseen, v->table, v->opened.preprocess, asked->allow_unknown,
                           v->opened.place.rank ? NULL : log);
}

/* The columns of --keep, by name or all, or of --by. */
static tri_status find_columns(const tri_texts *keep, const char *option, tri_predictions *out) {
    int all = keep->n == 1 && strcmp(keep->at[0], "all") == 0 && strcmp(option, "--by") != 0;
    int n = all ? tri__table_columns(out->table) : keep->n;
    out->column = malloc(((size_t)n + 1) * sizeof *out->column);
    if (!out->column) return tri__fail(TRI_RESOURCE, "out of memory");
    for (; out->n_columns < n; out->n_columns++) {
        int *column = &out->column[out->n_columns];
        const char *name = all ? tri__table_name(out->table, out->n_columns) : keep->at[out->n_columns];
        TRI_TRY(tri__table_find(out->table, name, column));
        for (int i = 0; i < out->n_columns; i++)
            if (out->column[i] == *column) return tri__fail(TRI_USAGE, "%s names \"%s\" twice", option, keep->at[i]);
    }
    return TRI_OK;
}

/* Finds the table's rows that are in the data: those whose numbers, and labels if it has some, can be parsed, as when
 * the data was made. A part of the table has some of these rows. */
static tri_status find_rows(const served *v, tri_predictions *out) {
    tri_fields fields;
    const int64_t *part = v->data->row;
    int64_t rows = tri__table_rows(out->table), n = 0;
    TRI_OWNED(tri__free_at) float *numbers = malloc(((size_t)v->opened.preprocess->width + 1) * sizeof *numbers);
    out->row = malloc(((size_t)rows + 1) * sizeof *out->row);
    int has_labels = v->data->labels != NULL;
    if (!numbers || !out->row) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__fields_find(out->table, v->opened.preprocess, has_labels, &fields));
    for (int64_t row = 0; row < rows; row++) {
        tri_bad_field bad;
        int is_labelled = !has_labels || tri__label_read(&fields, row, NULL);
        if (is_labelled && tri__fields_numbers(&fields, row, numbers, &bad)) out->row[n++] = row;
        tri__rows_passed(out->table, row);
    }
    tri__fields_free(&fields);
    TRI_TRY(tri__table_check(out->table));
    for (int64_t i = 0; part && i < v->data->n && part[i] < n; i++) out->row[i] = out->row[part[i]];
    int is_same = part ? !v->data->n || part[v->data->n - 1] < n : n == v->data->n;
    if (is_same) return TRI_OK;
    return tri__fail(TRI_IO, "%s changed while it was read; start again when it is complete",
                     tri__table_path(out->table));
}

/* Finds the table's columns and rows. Called before computing, so that a missing column fails early. */
static tri_status join(const served *v, const tri_settings *asked, const tri_texts *columns, const char *option,
                       tri_predictions *out) {
    tri_table_options options = {.threads = tri__threads(&v->opened.settings),
                                 .bad_rows = (tri_bad_rows)asked->bad_rows, .tables = asked->tables};
    TRI_TRY(tri__separator_parse(v->opened.settings.separator, &options.separator));
    TRI_TRY(tri__table_open(v->table, &options, &out->table));
    TRI_TRY(find_columns(columns, option, out));
    return find_rows(v, out);
}

/* Which groups the rows belong to. */
static tri_status find_groups(const served *v, const tri_settings *asked, const tri_texts *by, tri_evaluation *out) {
    TRI_OWNED(tri__predictions_free) tri_predictions found = {0};
    if (!by->n) return TRI_OK;
    TRI_TRY(join(v, asked, by, "--by", &found));
    TRI_TRY(TRI_NEW(out->by, by->n, "groups"));
    for (int i = 0; i < by->n; i++)
        TRI_TRY(tri__grouped_read(found.table, found.row, v->data->n, found.column[i], &v->opened.preprocess->reading,
                                 &out->by[out->n_by++]));
    return TRI_OK;
}

/* Finite weights may still be so large that their results are not. */
static tri_status check_probs(const served *v) {
    int classes = v->opened.preprocess->n_classes;
    for (int64_t i = 0; i < v->data->n * classes; i++)
        if (!isfinite(v->probs[i]) && v->opened.preprocess->target)
            return tri__fail(TRI_NOTFINITE, "%s: the prediction for row %lld of the data is not finite",
                             tri__checkpoint_path(v->opened.checkpoint), (long long)(i / classes) + 1);
        else if (!isfinite(v->probs[i]))
            return tri__fail(TRI_NOTFINITE, "%s: the probability of class \"%.40s\" in row %lld of the data is not "
                             "finite", tri__checkpoint_path(v->opened.checkpoint),
                             v->opened.preprocess->label[i % classes], (long long)(i / classes) + 1);
    return TRI_OK;
}

/* Between batches, on every rank. */
static tri_status count_rows(void *context) {
    served *v = context;
    int64_t batch = v->opened.settings.batch_size * tri__mesh_readers(&v->opened.place.mesh);
    v->done = v->done + batch < v->data->n ? v->done + batch : v->data->n;
    return tri__log_rows(v->log, v->done, v->data->n);
}

static tri_status compute(served *v, const tri_log *log) {
    double begin = tri__clock();
    const tri_settings *s = &v->opened.settings;
    tri_counts max;
    int replicas = tri__mesh_readers(&v->opened.place.mesh);
    TRI_TRY(tri__largest_of(v->data, s->batch_size * replicas, replicas * tri__infer_microbatches(s, 0), s->max_tokens,
                            s->model.max_sen_len, &max));
    TRI_TRY(tri__opened_load(&v->opened, &max, v->data->digest));
    v->probs = malloc((size_t)(v->data->n * v->opened.engine.model.n_classes + 1) * sizeof *v->probs);
    if (!v->probs) return tri__fail(TRI_RESOURCE, "out of memory for %lld predictions", (long long)v->data->n);
    v->log = log, v->done = 0;
    v->opened.engine.between = count_rows, v->opened.engine.between_context = v;
    TRI_TRY(tri__log_rows(log, 0, v->data->n));
    TRI_TRY(tri__evaluate(&v->opened.engine, v->data, v->opened.settings.batch_size, v->probs));
    if (v->opened.stack && v->opened.place.rank == 0)
        TRI_TRY(tri__features_rows(&v->opened.stack->features, v->data, v->probs, tri__stack_answer, v->opened.stack));
    TRI_TRY(check_probs(v));
    if (v->opened.preprocess->target) tri__number_sort(&v->opened.numbers, v->probs, v->data->n);
    v->seconds = tri__clock() - begin;
    return TRI_OK;
}

/* Says what turns the model's probabilities into an answer; nothing where they are the answer. */
static void say_decision(const tri_log *log, const served *v) {
    const tri_decision *d = &v->opened.decision;
    const tri_json *at = tri__json_get(v->opened.fitted, "step");
    int64_t step = tri__checkpoint_step(v->opened.checkpoint);
    char from[160] = "";
    if (d->has_threshold)
        snprintf(from, sizeof from, ", label %.80s from a probability of %.4g on",
                 v->opened.preprocess->label[d->positive], d->threshold);
    if (d->has_threshold || d->temperature != 1)
        tri__say(log, TRI_LOG_INFO, "temperature %.4g%s", d->temperature, from);
    if (tri__json_is_integer(at) && tri__json_integer_value(at) != step)
        tri__say(log, TRI_LOG_WARN, "temperature and threshold were fitted at step %lld, and this checkpoint is of "
                 "step %lld, after which there was no validation", (long long)tri__json_integer_value(at),
                 (long long)step);
}

/* Prints which checkpoint is used; for a run folder, also why. */
static void say_model(const tri_log *log, const char *asked, const served *v) {
    int64_t best = -1;
    const char *path = tri__checkpoint_path(v->opened.checkpoint), *last = strrchr(path, '/');
    int chosen = strncmp(asked, path, strlen(asked)) == 0 && strstr(path + strlen(asked), "checkpoint-") != NULL;
    char run[TRI_PATH_MAX];
    snprintf(run, sizeof run, "%.*s", last ? (int)(last - path) : 0, path);
    if (chosen) (void)tri__checkpoint_best(run, &best);
    int is_best = chosen && best == tri__checkpoint_step(v->opened.checkpoint);
    int is_trial = chosen && strchr(path + strlen(asked) + 1, '/') != NULL; /* asked for a sweep */
    const char *by = is_best ? tri__best_name((tri_best_by)v->opened.settings.best_by) : "";
    const char *why = !chosen ? "" : is_best ? ", the best of the run by validation " : ", the newest of the run";
    tri__say(log, TRI_LOG_INFO, "%s%s%s%s", path, why, by, is_trial ? ", which is the sweep's best trial" : "");
    say_decision(log, v);
}

/* Applies the temperature to the model's probabilities. */
static void calibrate(served *v) {
    tri__decision_apply(&v->opened.decision, v->probs, v->data->n, v->opened.preprocess->n_classes);
}

/* Which rows are inside the intervals that the model promises; NULL: it promises none. */
static tri_status find_inside(const served *v, tri_evaluation *out, uint8_t **inside) {
    const tri_conformal *around = &v->opened.decision.interval;
    out->promised = around->share;
    if (!(around->share > 0)) return TRI_OK;
    TRI_TRY(TRI_NEW(*inside, v->data->n, "intervals"));
    for (int64_t i = 0; i < v->data->n; i++) {
        tri_interval is = tri__conformal_of(around, &v->opened.numbers, v->probs + i * v->opened.numbers.n);
        double actual = tri__target_value(v->opened.preprocess->target, (double)v->data->targets[i]);
        (*inside)[i] = actual >= is.low && actual <= is.high;
    }
    return TRI_OK;
}

/* Figures before and after the temperature, and how far they can be believed. */
static tri_status score(served *v, const tri_label_set *classes, int64_t bootstrap, tri_evaluation *out) {
    const int32_t *labels = v->data->labels;
    tri_label_set decided = *classes;
    tri_scores *scores = &out->scores;
    TRI_OWNED(tri__free_at) uint8_t *inside = NULL;
    tri_scored_rows rows = {v->probs, labels, NULL, v->data->n};
    int threads = tri__threads(&v->opened.settings);
    TRI_TRY(tri__scores(v->probs, labels, v->data->n, classes, scores));
    if (classes->numbers) {
        TRI_TRY(find_inside(v, out, &inside));
        rows.inside = inside;
        return tri__evaluation_bootstrap(&rows, classes, bootstrap, threads, out);
    }
    out->before.log_loss = scores->log_loss;
    out->before.ece = scores->reliability.ece, out->before.brier = scores->reliability.brier;
    if (v->opened.decision.temperature != 1 || v->opened.decision.has_threshold) {
        decided.decision = &v->opened.decision;
        tri__scores_free(scores);
        calibrate(v);
        TRI_TRY(tri__scores(v->probs, labels, v->data->n, &decided, scores));
    }
    return tri__evaluation_bootstrap(&rows, &decided, bootstrap, threads, out);
}

static tri_status evaluate(const tri_settings *asked, const tri_eval_options *options, tri_world *world,
                           const tri_log *log, served *v, tri_evaluation *out) {
    TRI_TRY(open_served(asked, world, log, 1, v));
    if (v->opened.place.rank == 0) TRI_TRY(find_groups(v, asked, &options->by, out));
    TRI_TRY(compute(v, log));
    if (v->data->n == 0) return tri__fail(TRI_DATA, "%s: no rows to evaluate", asked->data_path);
    if (v->opened.place.rank > 0) return TRI_OK;
    say_model(log, asked->checkpoint, v);
    const tri_reals *weights = &v->opened.settings.model.class_weights;
    const tri_preprocess *p = v->opened.preprocess;
    const tri_label_set classes = {.n = p->n_classes, .label = p->label, .weights = weights->n ? weights->at : NULL,
                                   .numbers = p->target ? &v->opened.numbers : NULL, .positive = v->positive};
    TRI_TRY(score(v, &classes, options->bootstrap, out));
    out->decision = v->opened.decision, out->decision.from = NULL; /* the model's, which is closed */
    out->fitted = tri__json_deep_copy(v->opened.fitted);
    out->unseen = v->data->unseen ? tri__json_deep_copy(v->data->unseen) : tri__json_array();
    if ((v->opened.fitted && !out->fitted) || !out->unseen) return tri__fail(TRI_RESOURCE, "out of memory");
    out->scores.seconds = v->seconds;
    return count_trained(v, log, &out->trained_on);
}

/* What an ensemble takes of a member. */
static tri_status keep_judged(served *v, tri_judged *kept) {
    const tri_reals *weights = &v->opened.settings.model.class_weights;
    const tri_opened *o = &v->opened;
    int64_t words = v->data->n * v->data->words, classes = o->preprocess->n_classes;
    *kept = (tri_judged){.n = v->data->n, .n_classes = tri__outputs(o), .words = words, .numbers = o->numbers};
    TRI_TRY(TRI_NEW(kept->labels, words, "an ensemble"));
    memcpy(kept->labels, v->data->labels, (size_t)words * sizeof *kept->labels);
    if (weights->n) TRI_TRY(TRI_NEW(kept->weights, weights->n, "an ensemble"));
    if (weights->n) memcpy(kept->weights, weights->at, (size_t)weights->n * sizeof *kept->weights);
    if (o->numbers.level) TRI_TRY(TRI_NEW(kept->level, classes, "an ensemble"));
    if (o->numbers.level) memcpy(kept->level, o->numbers.level, (size_t)classes * sizeof *kept->level);
    kept->numbers.level = kept->level, kept->numbers.weight = kept->weights;
    kept->is_number = tri__preprocess_is_number(o->preprocess);
    if (!kept->is_number) kept->probs = TRI_GIVE(v->probs);
    else TRI_TRY(TRI_NEW(kept->probs, kept->n * kept->n_classes, "an ensemble"));
    if (kept->is_number) tri__output_rows(o, v->probs, kept->n, kept->probs);
    kept->from = TRI_GIVE(v->opened.from);
    if (o->preprocess->target) kept->preprocess = TRI_GIVE(v->opened.preprocess);
    return TRI_OK;
}

tri_status tri__eval_model(const tri_settings *asked, const tri_eval_options *options, tri_world *world,
                           const tri_log *log, tri_evaluation *out, tri_judged *kept) {
    TRI_OWNED(close_served) served *v = calloc(1, sizeof *v); /* large */
    *out = (tri_evaluation){0};
    if (!v) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(evaluate(asked, options, world, log, v, out));
    return kept && v->opened.place.rank == 0 ? keep_judged(v, kept) : TRI_OK;
}

void tri__evaluation_free(tri_evaluation *evaluation) {
    for (int i = 0; i < evaluation->n_members; i++) {
        tri__scores_free(&evaluation->member[i].scores);
        free(evaluation->member[i].folder);
    }
    tri__scores_free(&evaluation->scores);
    tri__intervals_free(&evaluation->intervals);
    for (int i = 0; i < evaluation->n_by; i++) tri__grouped_free(&evaluation->by[i]);
    TRI_FREE(evaluation->member, evaluation->by);
    tri__json_decref(evaluation->fitted);
    tri__json_decref(evaluation->unseen);
    *evaluation = (tri_evaluation){0};
}

static tri_status predict(const tri_settings *asked, tri_world *world, const tri_predict_options *options,
                          const tri_log *log, served *v, tri_predictions *out) {
    TRI_TRY(open_served(asked, world, log, 0, v));
    if (options->top_k && v->opened.preprocess->target)
        return tri__fail(TRI_USAGE, "--top-k: the model predicts %s, not classes: leave it out",
                         v->opened.preprocess->separator ? "several labels" : "numbers");
    if (options->uncertain && tri__preprocess_is_number(v->opened.preprocess) && !v->opened.numbers.level)
        return tri__fail(TRI_USAGE, "--uncertain: the model predicts one number, whose intervals are all as wide: "
                         "leave it out, or train with task quantiles, which are further apart where less is known");
    if (options->top_k > v->opened.preprocess->n_classes)
        return tri__fail(TRI_USAGE, "--top-k %lld: the model has %d classes", (long long)options->top_k,
                         v->opened.preprocess->n_classes);
    int is_joined = options->keep.n || options->uncertain || asked->bad_rows != TRI_BAD_ROWS_FAIL || v->data->row;
    if (is_joined && v->opened.place.rank == 0) TRI_TRY(join(v, asked, &options->keep, "--keep", out));
    TRI_TRY(compute(v, log));
    if (v->opened.place.rank > 0) return TRI_OK;
    if (!v->opened.preprocess->target) calibrate(v);
    say_model(log, asked->checkpoint, v);
    return TRI_OK;
}

tri_status tri__predict_model(const tri_settings *asked, tri_world *world, const tri_predict_options *options,
                              const tri_log *log, tri_predictions *out) {
    TRI_OWNED(close_served) served *v = calloc(1, sizeof *v);
    *out = (tri_predictions){0};
    if (!v) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(predict(asked, world, options, log, v, out));
    TRI_TRY(tri__output_names(&v->opened, &out->label));
    out->n = v->data->n, out->n_classes = tri__outputs(&v->opened), out->decision = v->opened.decision;
    out->is_number = tri__preprocess_is_number(v->opened.preprocess);
    out->n_levels = v->opened.numbers.level ? v->opened.numbers.n : 0;
    out->separator = TRI_GIVE(v->opened.preprocess->separator), out->from = TRI_GIVE(v->opened.from);
    if (!out->is_number) out->probs = TRI_GIVE(v->probs);
    else TRI_TRY(TRI_NEW(out->probs, out->n * out->n_classes + 1, "the predictions"));
    if (out->is_number) tri__output_rows(&v->opened, v->probs, out->n, out->probs);
    return TRI_OK;
}

tri_status tri__part_rows(const tri_settings *asked, const tri_log *log, tri_table **table, int64_t **row, int64_t *n) {
    TRI_OWNED(close_served) served *v = calloc(1, sizeof *v);
    TRI_OWNED(tri__predictions_free) tri_predictions found = {0};
    if (!v) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(open_served(asked, NULL, log, 0, v));
    TRI_TRY(join(v, asked, &(const tri_texts){0}, "", &found));
    *table = TRI_GIVE(found.table), *row = TRI_GIVE(found.row), *n = v->data->n;
    return TRI_OK;
}

void tri__predictions_free(tri_predictions *predictions) {
    for (int i = 0; i < predictions->n_classes; i++) free(predictions->label[i]);
    tri__table_close(predictions->table);
    TRI_FREE(predictions->label, predictions->probs, predictions->row, predictions->column, predictions->separator,
             predictions->from);
    *predictions = (tri_predictions){0};
}
