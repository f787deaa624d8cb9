/* labels.c - figures of several labels, as scikit-learn's f1_score, label_ranking_average_precision_score,
 * accuracy_score and roc_auc_score of label matrices. A target that is NaN is left out of each of them. */
#include "score/metrics.h"

#include "base/sort.h"
#include "numbers/number_loss.h"
#include "score/areas.h"

/* A model's output of its probability, which is rounded to a float: at least half a step from 0 and 1. */
static double output_of(double p) { return log(fmax(p, 0x1p-126)) - log(fmax(1 - p, 0x1p-25)); }

static double f1_of(double hits, double called, double there) {
    return called + there > 0 ? 2 * hits / (called + there) : 0;
}

/* Of the n known labels of a row, the mean over those that are there of the share of such labels among the labels that
 * are not below it: Tsoumakas et al. 2010. all [n], there [m]: probabilities, which are sorted. */
static double ranking_precision(double *all, int n, double *there, int m) {
    double sum = 0;
    if (!m || m == n) return 1;
    tri__sort_doubles(all, n);
    tri__sort_doubles(there, m);
    for (int j = m - 1, a = n, t = m; j >= 0; j--) {
        while (a && all[a - 1] >= there[j]) a--;
        while (t && there[t - 1] >= there[j]) t--;
        sum += (double)(m - t) / (double)(n - a);
    }
    return sum / m;
}

/* Sums over rows and labels. */
typedef struct sums {
    double rows, exact, f1, ranking, hits, called, there, loss;
    int64_t *called_by_label; /* [n] */
    int64_t *hits_by_label;   /* [n] */
    double *space;            /* [2, n] */
    uint8_t *kind;            /* [n] of the last row's labels; NULL: not wanted */
} sums;
enum { IS = 1, SAYS = 2, KINDS = 4 };

static void add_row(const float *probs, const float *targets, const tri_number_set *set, tri_scores *out, sums *s) {
    int known = 0, hits = 0, called = 0, there = 0;
    for (int c = 0; c < set->n; c++) {
        double p = (double)probs[c];
        if (isnan(targets[c])) continue;
        int is = targets[c] > 0, says = p >= (set->from ? (double)set->from[c] : 0.5);
        s->loss += tri__number_loss(TRI_NUMBER_BINARY, 0, set->weight ? set->weight[c] : 1, output_of(p),
                                    (double)targets[c]) / set->n;
        s->space[known++] = p;
        if (is) s->space[set->n + there++] = p;
        if (s->kind) s->kind[c] = (uint8_t)(is * IS + says * SAYS);
        called += says, hits += is && says;
        out->support[c] += is, s->called_by_label[c] += says, s->hits_by_label[c] += is && says;
    }
    if (!known) return;
    s->rows++, s->exact += hits == called && hits == there, s->f1 += f1_of(hits, called, there);
    s->hits += hits, s->called += called, s->there += there;
    s->ranking += ranking_precision(s->space, known, s->space + set->n, there);
}

/* The mean over labels that have rows with and without them. points [n]. */
static double mean_area(const float *probs, const float *targets, int64_t n, int labels, tri_curve_point *points) {
    double sum = 0;
    int defined = 0;
    for (int c = 0; c < labels; c++) {
        double area[TRI_AREAS];
        int64_t known = 0;
        for (int64_t i = 0; i < n; i++) {
            float target = targets[i * labels + c];
            if (!isnan(target)) points[known++] = (tri_curve_point){probs[i * labels + c], target > 0, i};
        }
        tri__curve_order(points, known);
        tri__curve_areas(points, known, NULL, area);
        if (!isnan(area[TRI_AREA_ROC])) sum += area[TRI_AREA_ROC], defined++;
    }
    return defined ? sum / defined : NAN;
}

tri_status tri__label_scores(const float *probs, const float *targets, const tri_number_set *set, tri_scores *out) {
    TRI_OWNED(tri__free_at) int64_t *counts = NULL; /* [2, set->n] */
    TRI_OWNED(tri__free_at) double *space = NULL;
    TRI_OWNED(tri__free_at) tri_curve_point *points = NULL; /* [rows] */
    double f1_sum = 0;
    TRI_TRY(TRI_NEW(counts, 2 * set->n, "the scores of labels"));
    TRI_TRY(TRI_NEW(space, 2 * set->n, "the scores of labels"));
    TRI_TRY(TRI_NEW(points, out->rows, "the scores of labels"));
    sums s = {.called_by_label = counts, .hits_by_label = counts + set->n, .space = space};
    for (int64_t i = 0; i < out->rows; i++) add_row(probs + i * set->n, targets + i * set->n, set, out, &s);
    for (int c = 0; c < set->n; c++) {
        double hits = (double)s.hits_by_label[c], called = (double)s.called_by_label[c],
               there = (double)out->support[c];
        out->precision[c] = called > 0 ? hits / called : 0, out->recall[c] = there > 0 ? hits / there : 0;
        out->f1[c] = f1_of(hits, called, there), f1_sum += out->f1[c];
    }
    out->loss = s.loss / (double)out->rows;
    out->accuracy = s.exact / s.rows, out->f1_macro = f1_sum / set->n;
    out->roc_auc = mean_area(probs, targets, out->rows, set->n, points);
    out->numbers = (tri_number_figures){.r2 = NAN, .rmse = NAN, .mae = NAN, .median_error = NAN, .pinball = NAN,
                                        .coverage = NAN, .accuracy = out->accuracy, .f1_macro = out->f1_macro,
                                        .f1_micro = f1_of(s.hits, s.called, s.there), .f1_samples = s.f1 / s.rows,
                                        .lrap = s.ranking / s.rows, .roc_auc = out->roc_auc};
    return TRI_OK;
}

tri_status tri__label_resamples(const float *probs, const float *targets, int64_t n, const tri_number_set *set,
                                int64_t resamples, double *figures) {
    TRI_OWNED(tri__free_at) uint8_t *kind = NULL;  /* [n, set->n] */
    TRI_OWNED(tri__free_at) double *space = NULL;  /* [2, set->n], then [n] ranking precision; NaN: no label is known */
    TRI_OWNED(tri__free_at) int64_t *count = NULL; /* [set->n, KINDS] of a resample */
    TRI_TRY(TRI_NEW(kind, n * set->n, "resamples of labels"));
    TRI_TRY(TRI_NEW(space, 2 * set->n + n, "resamples of labels"));
    TRI_TRY(TRI_NEW(count, KINDS * set->n, "resamples of labels"));
    double *ranking = space + 2 * set->n;
    for (int64_t i = 0; i < n; i++) {
        sums s = {.called_by_label = count, .hits_by_label = count, .space = space, .kind = kind + i * set->n};
        add_row(probs + i * set->n, targets + i * set->n, set, &(tri_scores){.support = count}, &s);
        ranking[i] = s.rows > 0 ? s.ranking : NAN;
    }
    uint32_t id = tri__random_id("bootstrap");
    for (int64_t r = 0; r < resamples; r++) {
        double sum = 0, rows = 0, hits = 0, either = 0, f1 = 0;
        memset(count, 0, (size_t)(KINDS * set->n) * sizeof *count);
        for (int64_t i = 0; i < n; i++) {
            int64_t row = tri__resample_row(id, i, r, n);
            for (int c = 0; c < set->n; c++) count[c * KINDS + kind[row * set->n + c]]++;
            if (!isnan(ranking[row])) sum += ranking[row], rows++;
        }
        for (const int64_t *of = count; of < count + KINDS * set->n; of += KINDS) {
            double both = (double)of[IS + SAYS], all = 2 * both + (double)(of[IS] + of[SAYS]);
            hits += both, either += all, f1 += f1_of(both, all, 0);
        }
        figures[r] = f1_of(hits, either, 0), figures[resamples + r] = f1 / set->n;
        figures[2 * resamples + r] = sum / rows;
    }
    return TRI_OK;
}
