/* numbers.c - figures of predicted numbers, and conformal intervals. */
#include "score/numbers.h"

#include "base/sort.h"
#include "numbers/number_loss.h"
#include "score/bootstrap.h"

enum { PURPOSE = 5 };

int tri__number_figure(const tri_number_figures *f, int *at, const char **name, double *value) {
    static const char *const names[] = {"r2", "rmse", "mae", "median_error", "pinball", "coverage",
                                        "accuracy", "f1_micro", "f1_macro", "f1_samples", "lrap", "roc_auc"};
    const double values[] = {f->r2, f->rmse, f->mae, f->median_error, f->pinball, f->coverage,
                             f->accuracy, f->f1_micro, f->f1_macro, f->f1_samples, f->lrap, f->roc_auc};
    enum { FIGURES = sizeof values / sizeof *values };
    while (*at < FIGURES && isnan(values[*at])) ++*at;
    if (*at == FIGURES) return 0;
    *name = names[*at], *value = values[(*at)++];
    return 1;
}

/* The value that stands for a row: of quantiles, the level nearest to the median. */
static int point_at(const tri_number_set *set) {
    int best = 0;
    for (int i = 1; set->level && i < set->n; i++)
        if (fabs(set->level[i] - 0.5) < fabs(set->level[best] - 0.5)) best = i;
    return best;
}

void tri__number_sort(const tri_number_set *set, float *values, int64_t n) {
    for (int64_t i = 0; set->loss != TRI_NUMBER_BINARY && i < n; i++)
        for (int c = 1; c < set->n; c++)
            for (float *at = values + i * set->n + c; at > values + i * set->n && at[-1] > at[0]; at--) {
                float above = at[-1];
                at[-1] = at[0], at[0] = above;
            }
}

double tri__number_point(const tri_number_set *set, const float *values) {
    return set->in_units(set->scale, (double)values[point_at(set)]);
}

/* Sums over rows that a figure is made of; of n rows, each `times` times. */
typedef struct sums {
    double rows, error, square, target, target_square;
} sums;

static void add(sums *to, double times, double actual, double predicted) {
    double d = predicted - actual;
    to->rows += times, to->error += times * fabs(d), to->square += times * d * d;
    to->target += times * actual, to->target_square += times * actual * actual;
}

/* r2 as scikit-learn has it where all targets are equal; spread: sum of squares about their mean. */
static double r2_of(double square, double spread) { return spread > 0 ? 1 - square / spread : square > 0 ? 0 : 1; }

static double training_loss(const tri_number_set *set, const float *values, double target) {
    double sum = 0;
    for (int c = 0; c < set->n; c++) {
        double y = set->loss == TRI_NUMBER_POISSON ? log((double)values[c]) : (double)values[c];
        sum += tri__number_loss(set->loss, set->delta, set->level ? set->level[c] : 0, y, target);
    }
    return sum / set->n;
}

/* Of quantiles, in the label's units. */
static void score_levels(const tri_number_set *set, const float *values, double actual, tri_number_figures *out) {
    for (int c = 0; c < set->n; c++)
        out->pinball += tri__number_loss(TRI_NUMBER_PINBALL, 0, set->level[c],
                                         set->in_units(set->scale, (double)values[c]), actual) / set->n;
    out->coverage += actual >= set->in_units(set->scale, (double)values[0]) &&
                     actual <= set->in_units(set->scale, (double)values[set->n - 1]);
}

tri_status tri__number_scores(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                              tri_number_figures *out, double *loss) {
    TRI_OWNED(tri__free_at) double *error = NULL; /* [n] */
    *out = (tri_number_figures){.pinball = set->level ? 0 : NAN, .coverage = set->level ? 0 : NAN, .accuracy = NAN,
                                  .f1_micro = NAN, .f1_macro = NAN, .f1_samples = NAN, .lrap = NAN, .roc_auc = NAN};
    *loss = 0;
    if (n < 1) return tri__fail(TRI_DATA, "there are no rows to score");
    TRI_TRY(TRI_NEW(error, n, "the errors of rows"));
    int at = point_at(set);
    double mean = 0, spread = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < set->n; c++)
            if (!isfinite(values[i * set->n + c]))
                return tri__fail(TRI_NOTFINITE, "the prediction for row %lld is not finite", (long long)i + 1);
        mean += set->in_units(set->scale, (double)targets[i]) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        const float *row = values + i * set->n; /* [set->n] */
        double actual = set->in_units(set->scale, (double)targets[i]);
        double d = set->in_units(set->scale, (double)row[at]) - actual;
        error[i] = fabs(d), out->mae += fabs(d), square += d * d, spread += (actual - mean) * (actual - mean);
        *loss += training_loss(set, row, (double)targets[i]);
        if (set->level) score_levels(set, row, actual, out);
    }
    tri__sort_doubles(error, n);
    *loss /= (double)n;
    out->mae /= (double)n, out->pinball /= (double)n, out->coverage /= (double)n;
    out->rmse = sqrt(square / (double)n);
    out->median_error = n % 2 ? error[n / 2] : (error[n / 2 - 1] + error[n / 2]) / 2;
    out->r2 = n > 1 ? r2_of(square, spread) : NAN;
    return TRI_OK;
}

int64_t tri__resample_row(uint32_t id, int64_t i, int64_t r, int64_t n) {
    tri_random random = tri__philox(0, id, (uint32_t)(i / 4), (uint32_t)r, 0, PURPOSE);
    return (int64_t)((uint64_t)random.word[i % 4] * (uint64_t)n >> 32);
}

tri_status tri__number_resamples(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                                 int64_t resamples, double *figures) {
    TRI_OWNED(tri__free_at) double *rows = NULL; /* [n, 2] actual, predicted */
    if (set->loss == TRI_NUMBER_BINARY) return tri__label_resamples(values, targets, n, set, resamples, figures);
    TRI_TRY(TRI_NEW(rows, 2 * n, "the rows of resamples"));
    double mean = 0;
    for (int64_t i = 0; i < n; i++) {
        rows[2 * i] = set->in_units(set->scale, (double)targets[i]);
        rows[2 * i + 1] = tri__number_point(set, values + i * set->n);
        mean += rows[2 * i] / (double)n;
    }
    uint32_t id = tri__random_id("bootstrap");
    for (int64_t r = 0; r < resamples; r++) {
        sums s = {0};
        for (int64_t i = 0; i < n; i++) {
            int64_t row = tri__resample_row(id, i, r, n);
            add(&s, 1, rows[2 * row] - mean, rows[2 * row + 1] - mean);
        }
        figures[r] = r2_of(s.square, s.target_square - s.target * s.target / s.rows);
        figures[resamples + r] = sqrt(s.square / s.rows), figures[2 * resamples + r] = s.error / s.rows;
    }
    return TRI_OK;
}

tri_status tri__number_intervals(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                                 int64_t resamples, tri_interval out[TRI_NUMBER_INTERVALS]) {
    TRI_OWNED(tri__free_at) double *figures = NULL; /* [3, resamples] */
    for (int i = 0; i < TRI_NUMBER_INTERVALS; i++) out[i] = tri__interval_none;
    if (!resamples) return TRI_OK;
    TRI_TRY(TRI_NEW(figures, TRI_NUMBER_INTERVALS * resamples, "the figures of resamples"));
    TRI_TRY(tri__number_resamples(values, targets, n, set, resamples, figures));
    for (int i = 0; i < TRI_NUMBER_INTERVALS; i++) out[i] = tri__percentiles(figures + i * resamples, resamples);
    return TRI_OK;
}

tri_status tri__conformal_fit(const float *values, const float *targets, int64_t n, int columns, double share,
                              tri_conformal *out) {
    TRI_OWNED(tri__free_at) double *outside = NULL; /* [n] */
    *out = (tri_conformal){0};
    double rank = ceil(((double)n + 1) * share);
    if (share <= 0 || rank > (double)n) return TRI_OK;
    TRI_TRY(TRI_NEW(outside, n, "the errors of validation rows"));
    for (int64_t i = 0; i < n; i++) {
        const float *row = values + i * columns;
        outside[i] = fmax((double)row[0] - (double)targets[i], (double)targets[i] - (double)row[columns - 1]);
    }
    tri__sort_doubles(outside, n);
    *out = (tri_conformal){.share = share, .width = outside[(int64_t)rank - 1]};
    return TRI_OK;
}

tri_interval tri__conformal_of(const tri_conformal *conformal, const tri_number_set *set, const float *values) {
    double low = (double)values[0] - conformal->width, high = (double)values[set->n - 1] + conformal->width;
    if (low > high) low = high = (low + high) / 2;
    return (tri_interval){set->in_units(set->scale, low), set->in_units(set->scale, high)};
}
