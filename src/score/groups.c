/* groups.c - a group's rows are gathered and scored as a table of their own. */
#include "score/groups.h"

#include "numbers/number_loss.h"

static const char *const number_key[] = {"r2", "rmse", "mae", "coverage"},
                  *const label_key[] = {"f1_micro", "f1_macro", "lrap", "accuracy"};

enum { OF_NUMBERS = 4 };
static const tri_group_form of_classes = {tri__figure_key, tri__figure_name, TRI_FIGURES, 5,
                                          {TRI_FIGURE_ACCURACY, TRI_FIGURE_F1_MACRO, TRI_FIGURE_PR_AUC,
                                           TRI_FIGURE_ROC_AUC, TRI_FIGURE_LOG_LOSS},
                                          1u << TRI_FIGURE_LOSS | 1u << TRI_FIGURE_LOG_LOSS | 1u << TRI_FIGURE_ECE |
                                              1u << TRI_FIGURE_BRIER},
                            of_numbers = {number_key, number_key, OF_NUMBERS, OF_NUMBERS, {0, 1, 2, 3}, 6},
                            of_labels = {label_key, label_key, OF_NUMBERS, OF_NUMBERS, {0, 1, 2, 3}, 0};

static int are_labels(const tri_label_set *classes) {
    return classes->numbers && classes->numbers->loss == TRI_NUMBER_BINARY;
}

/* The last figure has an interval where it is a share of all rows: of those inside. */
static tri_status score_numbers(const tri_scored_rows *rows, const tri_label_set *classes, const tri_number_figures *f,
                                int64_t resamples, tri_group_scores *out) {
    const double numbers[] = {f->r2, f->rmse, f->mae, f->coverage},
                 labels[] = {f->f1_micro, f->f1_macro, f->lrap, f->accuracy};
    int64_t hits = 0;
    memcpy(out->figure, are_labels(classes) ? labels : numbers, sizeof numbers);
    out->intervals.resamples = resamples;
    out->intervals.of[OF_NUMBERS - 1] = tri__interval_none;
    for (int64_t i = 0; i < rows->n && rows->inside; i++) hits += rows->inside[i];
    if (rows->inside) out->figure[OF_NUMBERS - 1] = (double)hits / (double)rows->n;
    if (rows->inside && resamples) out->intervals.of[OF_NUMBERS - 1] = tri__interval_share(hits, rows->n);
    return tri__number_intervals(rows->probs, (const float *)(const void *)rows->labels, rows->n, classes->numbers,
                                 resamples, out->intervals.of);
}

tri_status tri__rows_score(const tri_scored_rows *rows, const tri_label_set *classes, int64_t resamples, int threads,
                           tri_group_scores *out) {
    TRI_OWNED(tri__scores_free) tri_scores scores = {0};
    tri_intervals *i = &out->intervals;
    TRI_TRY(tri__scores(rows->probs, rows->labels, rows->n, classes, &scores));
    tri__intervals_free(i);
    if (classes->numbers) return score_numbers(rows, classes, &scores.numbers, resamples, out);
    for (int f = 0; f < TRI_FIGURES; f++) out->figure[f] = tri__figure_of(&scores, (tri_figure)f);
    TRI_TRY(tri__bootstrap(rows->probs, rows->labels, rows->n, classes, resamples, threads, i));
    free(i->precision);
    i->precision = i->recall = i->f1 = NULL;
    return TRI_OK;
}

static int find_worst(const tri_grouped *groups, int figure) {
    int worst = -1, sign = groups->form->lower >> figure & 1 ? 1 : -1;
    double most = 0;
    for (int g = 0; g < groups->n; g++) {
        double worse = sign * (groups->group[g].figure[figure] - groups->whole.figure[figure]);
        if (groups->group[g].rows >= TRI_GROUP_LEAST && worse > most) most = worse, worst = g;
    }
    return worst;
}

tri_status tri__grouped_score(tri_grouped *groups, const tri_scored_rows *rows, const tri_label_set *classes,
                              const tri_group_scores *whole, int64_t resamples, int threads) {
    const int64_t width = classes->n, words = are_labels(classes) ? classes->n : 1, n = rows->n;
    TRI_OWNED(tri__free_at) float *probs = NULL;
    TRI_OWNED(tri__free_at) int32_t *labels = NULL;
    TRI_OWNED(tri__free_at) uint8_t *inside = NULL;
    TRI_TRY(TRI_NEW(probs, n * width, "the rows of a group"));
    TRI_TRY(TRI_NEW(labels, n * words, "the rows of a group"));
    TRI_TRY(TRI_NEW(inside, n, "the rows of a group"));
    groups->form = are_labels(classes) ? &of_labels : classes->numbers ? &of_numbers : &of_classes;
    groups->whole = *whole;
    for (int g = 0; g < groups->n; g++) {
        tri_scored_rows own = {probs, labels, rows->inside ? inside : NULL, 0};
        for (int64_t i = 0; i < n; i++) {
            if (groups->of[i] != g) continue;
            memcpy(probs + own.n * width, rows->probs + i * width, (size_t)width * sizeof *probs);
            memcpy(labels + own.n * words, rows->labels + i * words, (size_t)words * sizeof *labels);
            inside[own.n++] = rows->inside && rows->inside[i];
        }
        TRI_ASSERT(own.n == groups->group[g].rows);
        TRI_TRY(tri__rows_score(&own, classes, resamples, threads, &groups->group[g]));
    }
    for (int f = 0; f < groups->form->n; f++) groups->worst[f] = find_worst(groups, f);
    return TRI_OK;
}

void tri__grouped_free(tri_grouped *groups) {
    for (int g = 0; g < groups->n; g++) {
        free(groups->group[g].name);
        tri__intervals_free(&groups->group[g].intervals);
    }
    TRI_FREE(groups->group, groups->column, groups->of);
    *groups = (tri_grouped){0};
}
