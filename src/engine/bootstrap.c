/* bootstrap.c - a resample is how often each row counts. One pass over the rows gives losses, counts and calibration of
 * each resample; one over the sorted rows of a class its areas. Resamples are drawn again for each pass, which costs
 * less than keeping them. Threads take resamples in turn. */
#include "engine/bootstrap.h"

#include "base/random.h"
#include "engine/areas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PURPOSE = 5 };

/* What the figures of a resample take of a row. */
typedef struct row {
    double weight, loss, brier; /* weight: of its label; loss: its own, unweighted */
    float confidence;
    int32_t label, predicted, right; /* right: the likeliest class is its label */
    int32_t bin;
} row;

typedef struct bootstrap {
    const float *probs;
    const int32_t *labels;
    int64_t n, resamples;
    const tri_label_set *classes;
    int by_class;            /* 1: intervals of classes too */
    int n_values;            /* figures, and three of each class */
    uint32_t id;
    int threads;
    int32_t *times;          /* [threads, n] of a thread's current resample */
    row *rows;               /* [n] */
    tri_curve_point *points; /* [n] of the current class */
    int64_t *counts;         /* [threads, 3, classes] rows of, called, both */
    double *values;          /* [n_values, resamples] */
    int32_t *defined;        /* [TRI_AREAS, resamples] classes whose area is defined */
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
                           .loss = -log(fmax((double)probs[label], 0x1p-126)),
                           .brier = found.brier,
                           .confidence = found.confidence,
                           .label = label,
                           .predicted = tri__decision_class(b->classes->decision, probs, n),
                           .right = found.best == label,
                           .bin = found.bin};
    }
}

/* Precision, recall and F1 of each class, accuracy, macro F1. */
static void score_classes(bootstrap *b, int64_t resample, const int64_t *rows) {
    int n = b->classes->n, present = 0;
    const int64_t *called = rows + n, *both = called + n;
    double f1_sum = 0;
    int64_t right = 0;
    for (int c = 0; c < n; c++) {
        int64_t either = rows[c] + called[c];
        double f1 = either ? 2 * (double)both[c] / (double)either : 0;
        f1_sum += f1, present += either > 0, right += both[c];
        if (!b->by_class) continue;
        *value_of(b, TRI_FIGURES + c, resample) = called[c] ? (double)both[c] / (double)called[c] : 0;
        *value_of(b, TRI_FIGURES + n + c, resample) = rows[c] ? (double)both[c] / (double)rows[c] : 0;
        *value_of(b, TRI_FIGURES + 2 * n + c, resample) = f1;
    }
    *value_of(b, TRI_FIGURE_ACCURACY, resample) = (double)right / (double)b->n;
    *value_of(b, TRI_FIGURE_F1_MACRO, resample) = f1_sum / present;
}

static void score_rows(bootstrap *b, int64_t resample, int thread) {
    int n = b->classes->n;
    const int32_t *times = draw(b, resample, thread);
    int64_t *counts = b->counts + (int64_t)thread * 3 * n;
    double loss = 0, weights = 0, log_loss = 0;
    tri_reliability reliability = {0};
    memset(counts, 0, 3 * (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < b->n; i++) {
        const row *r = &b->rows[i];
        int32_t k = times[i];
        if (!k) continue;
        loss += k * r->weight * r->loss, weights += k * r->weight, log_loss += k * r->loss;
        counts[r->label] += k, counts[n + r->predicted] += k;
        if (r->label == r->predicted) counts[2 * n + r->label] += k;
        tri__reliability_add(&reliability, r->bin, (double)r->confidence, r->right, r->brier, k);
    }
    tri__reliability_end(&reliability);
    *value_of(b, TRI_FIGURE_LOSS, resample) = loss / weights;
    *value_of(b, TRI_FIGURE_LOG_LOSS, resample) = log_loss / (double)b->n;
    *value_of(b, TRI_FIGURE_ECE, resample) = reliability.ece;
    *value_of(b, TRI_FIGURE_BRIER, resample) = reliability.brier;
    score_classes(b, resample, counts);
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

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two nearest of sorted values, as numpy.percentile. */
static double percentile(const double *sorted, int64_t n, double share) {
    double at = share * (double)(n - 1);
    int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

/* Sorts the values of a figure. */
static tri_interval interval_of(bootstrap *b, int figure) {
    double *values = value_of(b, figure, 0);
    int64_t n = 0;
    for (int64_t r = 0; r < b->resamples; r++)
        if (isfinite(values[r])) values[n++] = values[r];
    if (!n) return (tri_interval){NAN, NAN};
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (tri_interval){percentile(values, n, 0.025), percentile(values, n, 0.975)};
}

static tri_status open_bootstrap(bootstrap *b, tri_intervals *out) {
    size_t n = (size_t)b->n, classes = (size_t)b->classes->n, resamples = (size_t)b->resamples;
    size_t threads = (size_t)b->threads;
    b->by_class = b->classes->n <= TRI_CONFUSION_MAX;
    b->n_values = TRI_FIGURES + (b->by_class ? 3 * b->classes->n : 0);
    b->id = tri__random_id("bootstrap");
    b->times = malloc(threads * n * sizeof *b->times);
    b->rows = malloc(n * sizeof *b->rows);
    b->points = malloc(n * sizeof *b->points);
    b->counts = malloc(threads * 3 * classes * sizeof *b->counts);
    b->values = calloc((size_t)b->n_values * resamples, sizeof *b->values);
    b->defined = calloc(TRI_AREAS * resamples, sizeof *b->defined);
    if (b->by_class) out->precision = malloc(3 * classes * sizeof *out->precision);
    if (!b->times || !b->rows || !b->points || !b->counts || !b->values || !b->defined ||
        (b->by_class && !out->precision))
        return tri__fail(TRI_RESOURCE, "no memory for %lld resamples of %lld rows: take a lower --bootstrap, or 0",
                         (long long)b->resamples, (long long)b->n);
    return TRI_OK;
}

tri_status tri__bootstrap(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                          int64_t resamples, int threads, tri_intervals *out) {
    bootstrap b = {.probs = probs, .labels = labels, .n = n, .resamples = resamples, .classes = classes};
    b.threads = threads < 1 ? 1 : threads > resamples ? (int)resamples : threads;
    *out = (tri_intervals){.resamples = resamples, .n_classes = classes->n};
    if (!resamples) return TRI_OK;
    tri_status status = open_bootstrap(&b, out);
    if (status == TRI_OK) {
        read_rows(&b);
        each_resample(&b, score_rows);
        score_areas(&b);
        for (int figure = 0; figure < TRI_FIGURES; figure++) out->of[figure] = interval_of(&b, figure);
        for (int k = 0; k < b.n_values - TRI_FIGURES; k++) out->precision[k] = interval_of(&b, TRI_FIGURES + k);
        if (b.by_class) out->recall = out->precision + classes->n, out->f1 = out->recall + classes->n;
    } else tri__intervals_free(out);
    free(b.times);
    free(b.rows);
    free(b.points);
    free(b.counts);
    free(b.values);
    free(b.defined);
    return status;
}

void tri__intervals_free(tri_intervals *intervals) {
    free(intervals->precision);
    *intervals = (tri_intervals){0};
}

static tri_json *pair(tri_interval i) {
    return isfinite(i.low) ? tri__json_pack("[f, f]", i.low, i.high) : tri__json_null();
}

tri_json *tri__intervals_json(const tri_intervals *intervals, char *const *label) {
    static const char *const names[TRI_FIGURES] = {"loss",    "log_loss", "accuracy", "f1_macro", "pr_auc",
                                                   "average_precision", "roc_auc",  "ece",      "brier"};
    tri_json *all = tri__json_pack("{s:I, s:f}", "resamples", (tri_json_int)intervals->resamples, "confidence", 0.95);
    for (int f = 0; f < TRI_FIGURES; f++) tri__json_set_new(all, names[f], pair(intervals->of[f]));
    if (!intervals->precision) return all;
    tri_json *classes = tri__json_object();
    for (int c = 0; c < intervals->n_classes; c++)
        tri__json_set_new(classes, label[c],
                          tri__json_pack("{s:o, s:o, s:o}", "precision", pair(intervals->precision[c]), "recall",
                                         pair(intervals->recall[c]), "f1", pair(intervals->f1[c])));
    tri__json_set_new(all, "classes", classes);
    return all;
}
