/* bootstrap.h - how far the figures of an evaluation would move with other rows: 95 % intervals.
 *
 *   accuracy, precision, recall, F1    shares of rows, by Wilson's formula (interval.h)
 *   macro F1                           from those of the classes' F1, by how these move together in resamples (MOVER:
 *                                      Zou and Donner, 2008), less the resamples' bias; beyond TRI_CONFUSION_MAX
 *                                      classes percentiles
 *   ECE                                by inversion (reliability.h)
 *   losses, areas, Brier score         percentiles of resamples (Efron, 1979): rows are drawn with replacement, as many
 *                                      as there are, again and again; 95 % of the figures of such tables lie between */
#pragma once

#include "score/metrics.h"

/* The figures of a whole table, in the order in which they are shown. */
typedef enum tri_figure {
    TRI_FIGURE_LOSS, TRI_FIGURE_LOG_LOSS, TRI_FIGURE_ACCURACY, TRI_FIGURE_F1_MACRO, TRI_FIGURE_PR_AUC,
    TRI_FIGURE_AVERAGE_PRECISION, TRI_FIGURE_ROC_AUC, TRI_FIGURE_ECE, TRI_FIGURE_BRIER, TRI_FIGURES
} tri_figure;
extern const char *const tri__figure_key[TRI_FIGURES], *const tri__figure_name[TRI_FIGURES]; /* in JSON; in tables */
double tri__figure_of(const tri_scores *scores, tri_figure figure);

typedef struct tri_intervals {
    int64_t resamples; /* 0: none were asked for, and nothing else is set */
    int n_classes;
    tri_interval of[TRI_FIGURES];
    tri_interval *precision, *recall, *f1; /* [n_classes] in one allocation; NULL: more than TRI_CONFUSION_MAX; owned */
} tri_intervals;

/* As tri__scores, which has accepted these rows. A resample in which a figure is undefined does not count; a figure
 * that is the same in all resamples has no percentiles. Resample r draws row floor(word * n / 2^32) for n words: word
 * i % 4 of Philox with key (0, id of "bootstrap") and counter (i / 4, r, 0, 5). Normal numbers are those of
 * tri__random_normal with seed 0 and id of "reliability". Each resample costs O(n) for each class: probabilities are
 * sorted once. Memory: [figures, resamples] and [threads, n]; results do not depend on the number of threads. */
tri_status tri__bootstrap(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                          int64_t resamples, int threads, tri_intervals *out);
/* Also the figures of each resample, [TRI_FIGURES, resamples]: NaN where undefined, ECE unset. A resample's rows depend
 * on n and its number alone: those of two models on the same rows are paired. */
tri_status tri__bootstrap_figures(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                                  int64_t resamples, int threads, double *figures, tri_intervals *out);
/* The middle 95 % of values, which it sorts; those that are not finite do not count. None where all are the same: these
 * rows do not show how far the figure moves. */
tri_interval tri__percentiles(double *values, int64_t resamples);
void tri__intervals_free(tri_intervals *intervals); /* accepts a zeroed one */
/* {resamples, confidence, key: [low, high] of each of n, classes: {label: {precision, recall, f1}}}; label
 * [n_classes]. */
tri_json *tri__intervals_json(const char *const *key, int n, const tri_intervals *intervals, char *const *label);
