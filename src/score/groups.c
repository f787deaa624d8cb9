/* groups.c - a group's rows are gathered and scored as a table of their own. */
#include "score/groups.h"

static tri_status score_group(tri_group_scores *group, const float *probs, const int32_t *labels,
                              const tri_label_set *classes, int64_t resamples, int threads) {
    tri_scores scores;
    tri_intervals *i = &group->intervals;
    TRI_TRY(tri__scores(probs, labels, group->rows, classes, &scores));
    for (int f = 0; f < TRI_FIGURES; f++) group->figure[f] = tri__figure_of(&scores, (tri_figure)f);
    tri__scores_free(&scores);
    tri__intervals_free(i);
    TRI_TRY(tri__bootstrap(probs, labels, group->rows, classes, resamples, threads, i));
    free(i->precision);
    i->precision = i->recall = i->f1 = NULL;
    return TRI_OK;
}

static int find_worst(const tri_grouped *groups, tri_figure figure, double whole) {
    int worst = -1, sign = figure <= TRI_FIGURE_LOG_LOSS || figure >= TRI_FIGURE_ECE ? 1 : -1; /* of a loss: 1 */
    double most = 0;
    for (int g = 0; g < groups->n; g++) {
        double worse = sign * (groups->group[g].figure[figure] - whole);
        if (groups->group[g].rows >= TRI_GROUP_LEAST && worse > most) most = worse, worst = g;
    }
    return worst;
}

tri_status tri__grouped_score(tri_grouped *groups, const float *probs, const int32_t *labels, int64_t n,
                             const tri_label_set *classes, const tri_scores *whole, int64_t resamples, int threads) {
    const int64_t width = classes->n;
    TRI_OWNED(tri__free_at) float *own_probs = NULL;
    TRI_OWNED(tri__free_at) int32_t *own_labels = NULL;
    TRI_TRY(TRI_NEW(own_probs, n * width, "the rows of a group"));
    TRI_TRY(TRI_NEW(own_labels, n, "the rows of a group"));
    for (int g = 0; g < groups->n; g++) {
        int64_t rows = 0;
        for (int64_t i = 0; i < n; i++) {
            if (groups->of[i] != g) continue;
            memcpy(own_probs + rows * width, probs + i * width, (size_t)width * sizeof *probs);
            own_labels[rows++] = labels[i];
        }
        TRI_ASSERT(rows == groups->group[g].rows);
        TRI_TRY(score_group(&groups->group[g], own_probs, own_labels, classes, resamples, threads));
    }
    for (int f = 0; f < TRI_FIGURES; f++)
        groups->worst[f] = find_worst(groups, (tri_figure)f, tri__figure_of(whole, (tri_figure)f));
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
