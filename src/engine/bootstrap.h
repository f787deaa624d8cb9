/* bootstrap.h - how far the figures of an evaluation would move with other rows: the percentile bootstrap (Efron,
 * 1979). Rows are drawn with replacement, as many as there are, again and again; 95 % of the figures of such samples
 * lie in the interval. */
#ifndef TRI_ENGINE_BOOTSTRAP_H
#define TRI_ENGINE_BOOTSTRAP_H

#include "engine/metrics.h"

typedef struct tri_interval {
    double low, high; /* 2.5 % and 97.5 % of the resamples in which the figure is defined; NaN: there is none */
} tri_interval;

/* The figures of a whole table, in the order in which they are shown. */
typedef enum tri_figure {
    TRI_FIGURE_LOSS, TRI_FIGURE_LOG_LOSS, TRI_FIGURE_ACCURACY, TRI_FIGURE_F1_MACRO, TRI_FIGURE_PR_AUC,
    TRI_FIGURE_AVERAGE_PRECISION, TRI_FIGURE_ROC_AUC, TRI_FIGURE_ECE, TRI_FIGURE_BRIER, TRI_FIGURES
} tri_figure;

typedef struct tri_intervals {
    int64_t resamples; /* 0: none were asked for, and nothing else is set */
    int n_classes;
    tri_interval of[TRI_FIGURES];
    tri_interval *precision, *recall, *f1; /* [n_classes] in one allocation; NULL: more than TRI_CONFUSION_MAX; owned */
} tri_intervals;

/* As tri__scores, which has accepted these rows. Resample r draws row floor(word * n / 2^32) for each of n words: word
 * i % 4 of Philox with key (0, id of "bootstrap") and counter (i / 4, r, 0, 5). Each resample costs O(n) for each
 * class: probabilities are sorted once. Memory: [figures, resamples] and [threads, n]; results do not depend on the
 * number of threads. */
tri_status tri__bootstrap(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                          int64_t resamples, int threads, tri_intervals *out);
void tri__intervals_free(tri_intervals *intervals); /* accepts a zeroed one */
/* {resamples, confidence, loss: [low, high], ..., classes: {label: {precision, recall, f1}}}; label [n_classes]. */
tri_json *tri__intervals_json(const tri_intervals *intervals, char *const *label);

#endif
