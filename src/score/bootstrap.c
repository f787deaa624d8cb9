/* bootstrap.c - a resample is how often each row counts. One pass over the rows gives losses and F1 of each resample;
 * one over the sorted rows of a class its areas. Resamples are drawn again for each pass, which costs less than
 * keeping them. Threads take resamples in turn. */
#include "score/bootstrap.h"

#include "base/arena.h"
#include "base/sort.h"
#include "score/areas.h"

enum { PURPOSE = 5 };

/* What the figures of a resample take of a row. */
typedef struct row {
    double weight, loss, brier; /* weight: of its label; loss: its own, unweighted */
    int32_t label, predicted;
} row;

typedef struct bootstrap {
    const float *probs;
    const int32_t *labels;
    int64_t n, resamples;
    const tri_label_set *classes;
    int by_class;            /* 1: intervals of classes too */
    int n_values;            /* figures, and F1 of each class */
    uint32_t id;
    int threads;
    int32_t *times;          /* [threads, n] of a thread's current resample */
    row *rows;               /* [n] */
    tri_curve_point *points; /* [n] of the current class */
    int64_t *counts;         /* [threads, 3, classes] rows of, called, both */
    double *values;          /* [n_values, resamples]; NaN: undefined there. Of ECE none */
    double *moved;           /* [2, resamples] how far macro F1 moves down, up */
    float *normal;           /* [resamples, TRI_RELIABILITY_BINS] */
    int32_t *defined;        /* [TRI_AREAS, resamples] classes whose area is defined */
    double *figures;         /* [TRI_FIGURES, resamples] of the caller; NULL: not wanted */
    tri_intervals *out;
} bootstrap;

/* How often each row counts, [n] of this thread. */
static const int32_t *draw(bootstrap *b, int64_t resample, int thread) {
    int32_t *times = b->times + thread * b->n;
    memset(times, 0, (size_t)b->n * sizeof *times);
    for (int64_t i = 0; i < b->n; i += 4) {
        tri_random random = tri__philox(0, b->id, (uint32_t)(i / 4), (uint32_t)resample, 0, PURPOSE);
        for (int k = 0; k < 4 && i + k < b->n; k++) times[(uint64_t)random.word[k] * (uint64_t)b->n >> 32]++;
    }
    return times;
}

static double *value_of(bootstrap *b, int figure, int64_t resample) {
    return &b->values[figure * b->resamples + resample];
}

static void read_rows(bootstrap *b) {
    int n = b->classes->n;
    for (int64_t i = 0; i < b->n; i++) {
        const float *probs = b->probs + i * n;
        int label = b->labels[i];
        tri_reliability_row found = tri__reliability_row(probs, label, n, b->classes->positive);
        b->rows[i] = (row){.weight = b->classes->weights ? b->classes->weights[label] : 1,
                           .loss = -log(fmax((double)probs[label], 0x1p-126)), .brier = found.brier, .label = label,
                           .predicted = tri__decision_class(b->classes->decision, probs, n)};
    }
}

static void count(const row *r, int64_t times, int n, int64_t *counts) {
    counts[r->label] += times, counts[n + r->predicted] += times;
    if (r->label == r->predicted) counts[2 * n + r->label] += times;
}

/* F1 of a class; NaN where it is neither the label nor the prediction of any row. */
static double f1_of(const int64_t *counts, int n, int class) {
    int64_t either = counts[class] + counts[n + class];
    return either ? 2 * (double)counts[2 * n + class] / (double)either : NAN;
}

static void score_rows(bootstrap *b, int64_t resample, int thread) {
    int n = b->classes->n, present = 0;
    int64_t right = 0;
    const int32_t *times = draw(b, resample, thread);
    int64_t *counts = b->counts + (int64_t)thread * 3 * n;
    double loss = 0, weights = 0, log_loss = 0, brier = 0, f1_sum = 0;
    memset(counts, 0, 3 * (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < b->n; i++) {
        const row *r = &b->rows[i];
        int32_t k = times[i];
        if (!k) continue;
        loss += k * r->weight * r->loss, weights += k * r->weight, log_loss += k * r->loss, brier += k * r->brier;
        count(r, k, n, counts);
    }
    for (int c = 0; c < n; c++) {
        double f1 = f1_of(counts, n, c);
        if (b->by_class) *value_of(b, TRI_FIGURES + c, resample) = f1;
        if (!isnan(f1)) f1_sum += f1, present++;
        right += counts[2 * n + c];
    }
    *value_of(b, TRI_FIGURE_ACCURACY, resample) = (double)right / (double)b->n;
    *value_of(b, TRI_FIGURE_LOSS, resample) = loss / weights;
    *value_of(b, TRI_FIGURE_LOG_LOSS, resample) = log_loss / (double)b->n;
    *value_of(b, TRI_FIGURE_BRIER, resample) = brier / (double)b->n;
    *value_of(b, TRI_FIGURE_F1_MACRO, resample) = f1_sum / present;
}

static void add_areas(bootstrap *b, int64_t resample, int thread) {
    double area[TRI_AREAS];
    tri__curve_areas(b->points, b->n, draw(b, resample, thread), area);
    for (int a = 0; a < TRI_AREAS; a++) {
        if (isnan(area[a])) continue;
        *value_of(b, TRI_FIGURE_PR_AUC + a, resample) += area[a];
        b->defined[a * b->resamples + resample]++;
    }
}

static void each_resample(bootstrap *b, void (*of)(bootstrap *, int64_t resample, int thread)) {
#pragma omp parallel for num_threads(b->threads) schedule(static, 1)
    for (int t = 0; t < b->threads; t++)
        for (int64_t r = t; r < b->resamples; r += b->threads) of(b, r, t);
}

/* Of the positive class, or sums over all. */
static void score_areas(bootstrap *b) {
    int only = b->classes->positive;
    for (int class = only < 0 ? 0 : only; class < (only < 0 ? b->classes->n : only + 1); class++) {
        tri__curve_sort(b->probs, b->labels, b->n, b->classes->n, class, b->points);
        each_resample(b, add_areas);
    }
    for (int a = 0; a < TRI_AREAS; a++)
        for (int64_t r = 0; r < b->resamples; r++) {
            int32_t defined = b->defined[a * b->resamples + r];
            double *value = value_of(b, TRI_FIGURE_PR_AUC + a, r);
            *value = defined ? *value / defined : NAN;
        }
}

/* Between the two nearest of sorted values, as numpy.percentile. */
static double percentile(const double *sorted, int64_t n, double share) {
    double at = share * (double)(n - 1);
    int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

tri_interval tri__percentiles(double *values, int64_t resamples) {
    int64_t n = 0;
    for (int64_t r = 0; r < resamples; r++)
        if (isfinite(values[r])) values[n++] = values[r];
    tri__sort_doubles(values, n);
    if (!n || values[n - 1] - values[0] <= 1e-12 * fabs(values[0])) return tri__interval_none;
    return (tri_interval){percentile(values, n, 0.025), percentile(values, n, 0.975)};
}

/* Sorts the values of a figure. */
static tri_interval percentiles_of(bootstrap *b, int figure) {
    return tri__percentiles(value_of(b, figure, 0), b->resamples);
}

/* ---- shares of rows ---- */

typedef struct moments {
    double mean, deviation;
} moments;

/* Over the resamples in which the figure is defined. */
static moments moments_of(bootstrap *b, int figure) {
    const double *values = value_of(b, figure, 0);
    double sum = 0, squares = 0, n = 0;
    for (int64_t r = 0; r < b->resamples; r++)
        if (!isnan(values[r])) sum += values[r], n++;
    for (int64_t r = 0; r < b->resamples; r++)
        if (!isnan(values[r])) squares += (values[r] - sum / n) * (values[r] - sum / n);
    return (moments){sum / n, sqrt(squares / n)};
}

/* The distances of macro F1 from the ends of its interval are the root of a quadratic form in those of the classes' F1,
 * whose matrix are the correlations of these over the resamples: the mean square of a sum. Those of classes whose F1
 * does not move are taken as 1 / (n - 1): a wrong row is of one class and called another, any of them as often.
 * f1 [n] intervals of the classes; counts [3, n] of the table itself. */
static tri_interval macro_interval(bootstrap *b, const int64_t *counts, const tri_interval *f1) {
    int n = b->classes->n, present = 0;
    double macro = 0, square[2], still[2] = {0}, squares[2] = {0}; /* still: sums over classes that do not move */
    for (int c = 0; c < n; c++)
        if (!isnan(f1_of(counts, n, c))) macro += f1_of(counts, n, c), present++;
    macro /= present;
    for (int c = 0; c < n; c++) {
        double value = f1_of(counts, n, c), far[2] = {(value - f1[c].low) / present, (f1[c].high - value) / present};
        if (isnan(value)) continue;
        moments m = moments_of(b, TRI_FIGURES + c);
        int moves = m.deviation > 1e-12; /* less is rounding */
        for (int side = 0; side < 2; side++) {
            if (!moves) still[side] += far[side], squares[side] += far[side] * far[side];
            for (int64_t r = 0; r < b->resamples && moves; r++) {
                double moved = *value_of(b, TRI_FIGURES + c, r) - m.mean;
                if (!isnan(moved)) b->moved[side * b->resamples + r] += far[side] * moved / m.deviation;
            }
        }
    }
    for (int side = 0; side < 2; side++) {
        square[side] = squares[side] + (still[side] * still[side] - squares[side]) / fmax(present - 1, 1);
        for (int64_t r = 0; r < b->resamples; r++) {
            double moved = b->moved[side * b->resamples + r];
            square[side] += moved * moved / (double)b->resamples;
        }
    }
    double middle = 2 * macro - moments_of(b, TRI_FIGURE_F1_MACRO).mean;
    return (tri_interval){fmin(fmax(middle - sqrt(square[0]), 0), macro),
                          fmax(fmin(middle + sqrt(square[1]), 1), macro)};
}

static void score_shares(bootstrap *b) {
    tri_intervals *out = b->out;
    int n = b->classes->n;
    int64_t *counts = b->counts, right = 0; /* [3, n] of the first thread */
    memset(counts, 0, 3 * (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < b->n; i++) count(&b->rows[i], 1, n, counts);
    for (int c = 0; c < n; c++) {
        int64_t rows = counts[c], called = counts[n + c], both = counts[2 * n + c];
        right += both;
        if (!b->by_class) continue;
        out->precision[c] = tri__interval_share(both, called), out->recall[c] = tri__interval_share(both, rows);
        out->f1[c] = tri__interval_f1(both, rows + called - both);
    }
    out->of[TRI_FIGURE_ACCURACY] = tri__interval_share(right, b->n);
    out->of[TRI_FIGURE_F1_MACRO] = b->by_class ? macro_interval(b, counts, out->f1)
                                               : percentiles_of(b, TRI_FIGURE_F1_MACRO);
}

static tri_interval error_interval(bootstrap *b) {
    tri_reliability reliability;
    tri__reliability(b->probs, b->labels, b->n, b->classes->n, b->classes->positive, &reliability);
    tri__random_normal(0, tri__random_id("reliability"), 1, 0, b->resamples * TRI_RELIABILITY_BINS, b->normal);
    return tri__reliability_interval(&reliability, b->normal, b->resamples);
}

static tri_status run(tri_arena *arena, void *data) {
    static const tri_figure by_percentiles[] = {TRI_FIGURE_LOSS, TRI_FIGURE_LOG_LOSS, TRI_FIGURE_PR_AUC,
                                                TRI_FIGURE_AVERAGE_PRECISION, TRI_FIGURE_ROC_AUC, TRI_FIGURE_BRIER};
    bootstrap *b = data;
    size_t n = (size_t)b->n, resamples = (size_t)b->resamples, threads = (size_t)b->threads;
    b->times = tri__arena_alloc(arena, threads * n * sizeof *b->times);
    b->rows = tri__arena_alloc(arena, n * sizeof *b->rows);
    b->points = tri__arena_alloc(arena, n * sizeof *b->points);
    b->counts = tri__arena_alloc(arena, threads * 3 * (size_t)b->classes->n * sizeof *b->counts);
    b->values = tri__arena_alloc(arena, (size_t)b->n_values * resamples * sizeof *b->values);
    b->moved = tri__arena_alloc(arena, 2 * resamples * sizeof *b->moved);
    b->normal = tri__arena_alloc(arena, resamples * TRI_RELIABILITY_BINS * sizeof *b->normal);
    b->defined = tri__arena_alloc(arena, TRI_AREAS * resamples * sizeof *b->defined);
    read_rows(b);
    each_resample(b, score_rows);
    score_areas(b);
    if (b->figures) memcpy(b->figures, b->values, TRI_FIGURES * resamples * sizeof *b->figures);
    score_shares(b);
    b->out->of[TRI_FIGURE_ECE] = error_interval(b);
    for (size_t i = 0; i < sizeof by_percentiles / sizeof *by_percentiles; i++)
        b->out->of[by_percentiles[i]] = percentiles_of(b, by_percentiles[i]);
    return TRI_OK;
}

tri_status tri__bootstrap(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                          int64_t resamples, int threads, tri_intervals *out) {
    return tri__bootstrap_figures(probs, labels, n, classes, resamples, threads, NULL, out);
}

tri_status tri__bootstrap_figures(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                                  int64_t resamples, int threads, double *figures, tri_intervals *out) {
    int by_class = classes->n <= TRI_CONFUSION_MAX;
    bootstrap b = {.probs = probs, .labels = labels, .n = n, .resamples = resamples, .classes = classes,
                   .by_class = by_class, .n_values = TRI_FIGURES + (by_class ? classes->n : 0),
                   .id = tri__random_id("bootstrap"), .figures = figures, .out = out};
    b.threads = threads < 1 ? 1 : threads > resamples ? (int)resamples : threads;
    *out = (tri_intervals){.resamples = resamples, .n_classes = classes->n};
    if (!resamples) return TRI_OK;
    if (by_class) out->precision = malloc(3 * (size_t)classes->n * sizeof *out->precision);
    if (out->precision) out->recall = out->precision + classes->n, out->f1 = out->recall + classes->n;
    if ((!by_class || out->precision) && tri__arena_scratch(run, &b) == TRI_OK) return TRI_OK;
    tri__intervals_free(out);
    return tri__fail(TRI_RESOURCE, "no memory for %lld resamples of %lld rows: take a lower --bootstrap, or 0",
                     (long long)resamples, (long long)n);
}

void tri__intervals_free(tri_intervals *intervals) {
    free(intervals->precision);
    *intervals = (tri_intervals){0};
}

const char *const tri__figure_key[TRI_FIGURES] = {"loss", "log_loss", "accuracy", "f1_macro", "pr_auc",
                                                  "average_precision", "roc_auc", "ece", "brier"};
const char *const tri__figure_name[TRI_FIGURES] = {"loss", "log loss", "accuracy", "F1 macro", "PR AUC",
                                                   "avg precision", "ROC AUC", "ECE", "Brier score"};

double tri__figure_of(const tri_scores *s, tri_figure figure) {
    const double values[TRI_FIGURES] = {s->loss, s->log_loss, s->accuracy, s->f1_macro, s->pr_auc,
                                        s->average_precision, s->roc_auc, s->reliability.ece, s->reliability.brier};
    return values[figure];
}

static tri_json *pair(tri_interval i) {
    return isfinite(i.low) ? tri__json_pack("[f, f]", i.low, i.high) : tri__json_null();
}

tri_json *tri__intervals_json(const char *const *key, int n, const tri_intervals *intervals, char *const *label) {
    tri_json *all = tri__json_pack("{s:I, s:f}", "resamples", (tri_json_int)intervals->resamples, "confidence", 0.95);
    for (int f = 0; f < n; f++) tri__json_set_new(all, key[f], pair(intervals->of[f]));
    if (!intervals->precision) return all;
    tri_json *classes = tri__json_object();
    for (int c = 0; c < intervals->n_classes; c++)
        tri__json_set_new(classes, label[c],
                          tri__json_pack("{s:o, s:o, s:o}", "precision", pair(intervals->precision[c]), "recall",
                                         pair(intervals->recall[c]), "f1", pair(intervals->f1[c])));
    tri__json_set_new(all, "classes", classes);
    return all;
}
