/* importance.c - permutation importance: an input's values are dealt out among the rows anew, so that they say nothing
 * about their row, and the figures are taken again. Where there are models that were trained without an input, so are
 * theirs; intervals are then percentiles of what changes in the same resamples of the rows (score/bootstrap.h). */
#include "data/dataset/field_values.h"
#include "score/groups.h"
#include "serve/explain/explain.h"
#include "serve/infer/table_rows.h"

/* Figures that are compared, and how they get worse. */
enum { FIGURES = 3, RESAMPLES = 1000, VALUES = TRI_FIGURES * RESAMPLES };
typedef struct figure {
    const char *name;
    int sign; /* 1: worse is higher */
    int id;   /* a tri_figure; of numbers as in score/groups.h, and the place among tri__number_resamples */
} figure;
static const figure of_classes[FIGURES] = {
    {"log_loss", 1, TRI_FIGURE_LOG_LOSS}, {"accuracy", -1, TRI_FIGURE_ACCURACY}, {"roc_auc", -1, TRI_FIGURE_ROC_AUC}};
static const figure of_numbers[FIGURES] = {{"rmse", 1, 1}, {"r2", -1, 0}, {"mae", 1, 2}};

typedef struct job {
    tri_table_rows rows;
    const tri_explain_options *options;
    const tri_log *log;
    const tri_stop *stop;
    const figure *figure;    /* [FIGURES] */
    int64_t first, n;        /* rows of the table */
    int32_t *label;          /* [n] */
    float *target;           /* [n] of numbers in place of labels */
    tri_column_value *value; /* [n, n_columns] */
    tri_row *row;            /* [n] */
    tri_column_value *moved; /* [n, columns of the input] */
    int64_t *order;          /* [n] */
    float *probs;            /* [n, classes] */
    double *base, *now, *sum; /* [VALUES] each: of the model as it is, of the last scoring, of changes */
} job;

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for importances"); }

static void close_job(job *j) {
    TRI_FREE(j->label, j->target, j->value, j->row, j->moved, j->order, j->probs, j->base);
    tri__table_rows_close(&j->rows);
}

static tri_status refuse_label(const job *j, int64_t i, int column) {
    const tri_preprocess *p = j->rows.facts->preprocess;
    char words[1024];
    int64_t row = tri__table_row(&j->rows, j->first + i);
    tri_field_text field = tri__table_field(j->rows.table, row, column);
    return tri__field_fail(j->rows.table, row, column,
                           p->target ? "is not a number" : tri__label_words(p, field, words, sizeof words));
}

static tri_status take_rows(job *j, int label) {
    const tri_preprocess *p = j->rows.facts->preprocess;
    int columns = j->rows.n_columns;
    for (int64_t i = 0; i < j->n; i++) {
        tri_column_value *value = j->value + i * columns;
        int64_t row = tri__table_row(&j->rows, j->first + i);
        tri_field_text field = tri__table_field(j->rows.table, row, label);
        double number = 0;
        j->label[i] = p->target ? 0 : tri__labels_class(p, field);
        if (j->label[i] < 0 ||
            (p->target && tri__form_number(&p->target->read_as, &p->reading, field, &number) != TRI_NUMBER_GOOD))
            return refuse_label(j, i, label);
        j->target[i] = (float)number;
        tri__table_rows_take(&j->rows, j->first + i, value);
        j->row[i] = (tri_row){value, columns};
    }
    return tri__table_check(j->rows.table);
}

static tri_status open_job(job *j, const tri_settings *asked) {
    int label;
    TRI_TRY(tri__table_rows_open(asked, j->log, &j->rows));
    if (j->rows.facts->separator)
        return tri__fail(TRI_USAGE, "%s predicts several labels: --importance takes models of classes and of numbers; "
                         "explain --label NAME says what moves one of them", j->rows.facts->path);
    j->figure = j->rows.facts->is_number ? of_numbers : of_classes;
    TRI_TRY(tri__table_find(j->rows.table, j->rows.facts->preprocess->label_name, &label));
    int64_t rows = j->rows.n;
    j->first = j->options->first - 1;
    j->n = rows - j->first < j->options->rows ? rows - j->first : j->options->rows;
    if (j->n < 2)
        return tri__fail(TRI_DATA, "%s: %lld rows from row %lld on; values are permuted among at least 2",
                         tri__table_path(j->rows.table), (long long)(j->n < 0 ? 0 : j->n), (long long)j->first + 1);
    size_t n = (size_t)j->n, columns = (size_t)j->rows.n_columns;
    j->label = malloc(n * sizeof *j->label), j->target = malloc(n * sizeof *j->target);
    j->value = malloc(n * columns * sizeof *j->value), j->moved = malloc(n * columns * sizeof *j->moved);
    j->row = malloc(n * sizeof *j->row), j->order = malloc(n * sizeof *j->order);
    j->probs = malloc(n * (size_t)j->rows.facts->n_classes * sizeof *j->probs);
    j->base = calloc(3 * VALUES, sizeof *j->base);
    if (!j->label || !j->target || !j->value || !j->row || !j->moved || !j->order || !j->probs || !j->base)
        return tri__fail(TRI_RESOURCE, "out of memory for %lld rows", (long long)j->n);
    j->now = j->base + VALUES, j->sum = j->now + VALUES;
    return take_rows(j, label);
}

static double in_units(const void *none, double value) {
    (void)none;
    return value;
}

/* Answers of numbers are in the label's units, the number that stands for a row first. */
static tri_status score(job *j, double out[static FIGURES]) {
    const tri_preprocess *p = j->rows.facts->preprocess;
    const tri_number_set set = {.in_units = in_units, .n = j->rows.facts->n_classes};
    const tri_label_set classes = {.n = p->target ? set.n : p->n_classes, .label = p->label,
                                   .positive = j->rows.facts->positive, .decision = j->rows.facts->decision,
                                   .numbers = p->target ? &set : NULL};
    const void *actual = p->target ? (const void *)j->target : j->label;
    const tri_scored_rows rows = {j->probs, actual, NULL, j->n};
    tri_group_scores made = {0};
    TRI_TRY(tri__model_predict(j->rows.model, j->row, j->n, j->probs));
    TRI_TRY(tri__rows_score(&rows, &classes, 0, 1, &made));
    for (int f = 0; f < FIGURES; f++) out[f] = made.figure[j->figure[f].id];
    if (!j->options->retrained) return TRI_OK;
    if (p->target) return tri__number_resamples(j->probs, j->target, j->n, &set, RESAMPLES, j->now);
    tri_intervals own = {0};
    tri_status status = tri__bootstrap_figures(j->probs, j->label, j->n, &classes, RESAMPLES, 1, j->now, &own);
    tri__intervals_free(&own);
    return status;
}

/* Fisher-Yates, from the seed, the input and the repetition alone. */
static void shuffle(job *j, int input, int64_t repeat) {
    uint32_t id = tri__random_id("importance");
    for (int64_t i = 0; i < j->n; i++) j->order[i] = i;
    for (int64_t i = j->n - 1; i > 0; i--) {
        tri_random r = tri__philox((uint32_t)j->options->seed, id, (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)input,
                                   (uint32_t)repeat);
        int64_t k = (int64_t)((((uint64_t)r.word[0] << 32) | r.word[1]) % (uint64_t)(i + 1)), kept = j->order[i];
        j->order[i] = j->order[k], j->order[k] = kept;
    }
}

/* Figures with an input's columns permuted together; the rows are then as before. */
static tri_status score_without(job *j, const tri_input *in, int index, int64_t repeat, double out[static FIGURES]) {
    int columns = j->rows.n_columns;
    shuffle(j, index, repeat);
    for (int k = 0; k < in->n; k++) {
        int column = j->rows.member[in->first + k];
        tri_column_value *kept = j->moved + (int64_t)k * j->n;
        for (int64_t i = 0; i < j->n; i++) kept[i] = j->value[i * columns + column];
        for (int64_t i = 0; i < j->n; i++) j->value[i * columns + column] = kept[j->order[i]];
    }
    tri_status status = score(j, out);
    for (int k = 0; k < in->n; k++)
        for (int64_t i = 0; i < j->n; i++)
            j->value[i * columns + j->rows.member[in->first + k]] = j->moved[(int64_t)k * j->n + i];
    return status;
}

/* How far the last scoring of `of`, on the same rows, is from the model as it is; in each resample. */
static void add_change(job *j, const job *of) {
    for (int i = 0; j->options->retrained && i < VALUES; i++) j->sum[i] += of->now[i] - j->base[i];
}

/* Adds what a figure is and the interval of n scorings that were added to j->sum, which is then 0. */
static void put_figure(job *j, int f, double n, tri_json *made, tri_json *to) {
    double *value = j->sum + j->figure[f].id * RESAMPLES;
    for (int r = 0; r < RESAMPLES; r++) value[r] *= j->figure[f].sign / n;
    tri_interval i = tri__percentiles(value, RESAMPLES);
    if (j->options->retrained)
        tri__json_set_new(made, "interval",
                          isfinite(i.low) ? tri__json_pack("[f, f]", i.low, i.high) : tri__json_null());
    memset(value, 0, RESAMPLES * sizeof *value);
    tri__json_set_new(to, j->figure[f].name, made);
}

/* Adds the figures of the same rows by the model to["folder"], which was trained without an input. */
static tri_status score_retrained(job *j, const tri_settings *asked, const double base[static FIGURES], tri_json *to,
                                  job *other) {
    double now[FIGURES];
    tri_settings one = *asked; /* borrows its texts */
    one.checkpoint = (char *)tri__text_in(to, "folder");
    if (!one.checkpoint) return TRI_OK;
    TRI_TRY(open_job(other, &one));
    if (other->n != j->n || memcmp(other->label, j->label, (size_t)j->n * sizeof *j->label) != 0 ||
        memcmp(other->target, j->target, (size_t)j->n * sizeof *j->target) != 0)
        return tri__fail(TRI_DATA, "%s: reads other rows or labels than the model with all inputs", one.checkpoint);
    TRI_TRY(score(other, now));
    add_change(j, other);
    for (int f = 0; f < FIGURES; f++) {
        double worse = j->figure[f].sign * (now[f] - base[f]) + 0.0;
        put_figure(j, f, 1, tri__json_pack("{s:f, s:f}", "figure", now[f], "worse", worse), to);
    }
    return TRI_OK;
}

/* By how much each figure worsens: mean and standard deviation over the repetitions. */
static tri_status input_json(job *j, const tri_input *in, int index, const char *kind,
                             const double base[static FIGURES], tri_json **out) {
    double sum[FIGURES] = {0}, squares[FIGURES] = {0}, n = (double)j->options->repeats;
    for (int64_t repeat = 0; repeat < j->options->repeats; repeat++) {
        double now[FIGURES];
        TRI_TRY(tri__stop_check(j->stop, "permuting \"%s\"", in->name));
        TRI_TRY(score_without(j, in, index, repeat, now));
        add_change(j, j);
        for (int f = 0; f < FIGURES; f++) {
            double worse = j->figure[f].sign * (now[f] - base[f]);
            sum[f] += worse, squares[f] += worse * worse;
        }
    }
    *out = tri__json_pack("{s:s, s:s}", "input", in->name, "kind", kind);
    for (int f = 0; f < FIGURES; f++) {
        double mean = sum[f] / n, spread = n > 1 ? sqrt(fmax(0, (squares[f] - n * mean * mean) / (n - 1))) : 0;
        put_figure(j, f, n, tri__json_pack("{s:f, s:f}", "worse", mean, "spread", spread), *out);
    }
    return TRI_OK;
}

static tri_status importance(const tri_settings *asked, job *j, tri_json **facts) {
    double base[FIGURES];
    TRI_TRY(open_job(j, asked));
    TRI_TRY(score(j, base));
    memcpy(j->base, j->now, VALUES * sizeof *j->base);
    tri_json *whole = tri__json_object(), *list = tri__json_array();
    for (int f = 0; f < FIGURES; f++) tri__json_set_new(whole, j->figure[f].name, tri__json_real(base[f]));
    *facts = tri__json_pack("{s:s, s:I, s:I, s:o, s:o}", "table", tri__table_path(j->rows.table), "rows",
                            (tri_json_int)j->n, "repeats", (tri_json_int)j->options->repeats, "figures", whole,
                            "inputs", list);
    if (!*facts) return no_memory(); /* and the list is gone */
    int n = j->rows.n_inputs, texts = j->rows.facts->n_texts, whole_table = j->options->retrained && n - texts > 1;
    for (int i = 0; i < n + whole_table; i++) {
        const tri_input *in = &j->rows.input[i < n ? i : texts], /* columns follow one another */
            table = {.name = TRI_EXPLAIN_TABLE, .first = in->first, .n = n - texts};
        const char *kind = i == n ? "table" : in->is_text ? "text" : "column";
        tri_json *input = NULL;
        if (i == n) in = &table;
        tri__say(j->log, TRI_LOG_INFO, "input %d of %d: \"%s\"", i + 1, n + whole_table, in->name);
        TRI_TRY(input_json(j, in, i, kind, base, &input));
        tri__json_append_new(list, input);
        tri_json *by = tri__json_get(j->options->retrained, in->name);
        TRI_OWNED(close_job) job other = {.options = j->options, .log = j->log, .stop = j->stop};
        if (by) TRI_TRY(score_retrained(j, asked, base, by, &other));
        if (by) tri__json_set(input, "retrained", by);
    }
    return tri__json_is_whole(*facts) ? TRI_OK : no_memory();
}

tri_status tri__serve_importance(const tri_settings *asked, const tri_explain_options *options, const tri_log *log,
                                 const tri_stop *stop, tri_json **facts) {
    TRI_OWNED(close_job) job j = {.options = options, .log = log, .stop = stop};
    *facts = NULL;
    tri_status status = importance(asked, &j, facts);
    if (status != TRI_OK) tri__json_decref(*facts), *facts = NULL;
    return status;
}
