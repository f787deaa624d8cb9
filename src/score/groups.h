/* groups.h - the figures of an evaluation by group: of the rows that have the same value in a column. */
#pragma once

#include "score/bootstrap.h"

enum { TRI_GROUP_LEAST = 20 }; /* rows: a group with fewer is never the worst */

/* What groups are compared by; of classes all tri_figure. */
typedef struct tri_group_form {
    const char *const *key, *const *name; /* [n] in JSON; in tables */
    int n, n_shown, shown[5]; /* shown: in tables, in this order */
    unsigned lower;           /* bits of those that are better when they are lower */
} tri_group_form;

typedef struct tri_group_scores {
    char *name;                 /* owned */
    int64_t rows;
    double figure[TRI_FIGURES]; /* [form->n] NaN: undefined */
    tri_intervals intervals;    /* of them, without those of classes */
} tri_group_scores;

/* Rows that are scored, as tri__scores takes them. */
typedef struct tri_scored_rows {
    const float *probs;
    const int32_t *labels;
    const uint8_t *inside; /* [n] of numbers: whether the interval that is promised holds the row; NULL: none is */
    int64_t n;
} tri_scored_rows;

/* The groups of a column; each row is in one of them. */
typedef struct tri_grouped {
    char *column;           /* owned */
    int32_t *of;            /* [rows] the group of each row; owned */
    tri_group_scores *group;       /* [n]; owned */
    int n;
    const tri_group_form *form;
    tri_group_scores whole; /* of all rows; its intervals are borrowed */
    int worst[TRI_FIGURES]; /* the group whose figure is furthest on the bad side of the whole's; -1: none is */
} tri_grouped;

/* Whether a figure's interval leaves out a value; an undefined one does not. */
static inline int tri__interval_excludes(tri_interval i, double value) { return value < i.low || value > i.high; }

/* The figures and intervals of rows, as tri__scores, tri__bootstrap and tri__number_intervals have them; of the share
 * that is inside by Wilson's formula. Frees out->intervals first. */
tri_status tri__rows_score(const tri_scored_rows *rows, const tri_label_set *classes, int64_t resamples, int threads,
                           tri_group_scores *out);
/* Likewise of each group, and the worst ones beside `whole`. May be called again with other probabilities. */
tri_status tri__grouped_score(tri_grouped *groups, const tri_scored_rows *rows, const tri_label_set *classes,
                              const tri_group_scores *whole, int64_t resamples, int threads);
void tri__grouped_free(tri_grouped *groups); /* accepts a zeroed one */
