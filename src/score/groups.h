/* groups.h - the figures of an evaluation by group: of the rows that have the same value in a column. */
#pragma once

#include "score/bootstrap.h"

enum { TRI_GROUP_LEAST = 20 }; /* rows: a group with fewer is never the worst */

typedef struct tri_group_scores {
    char *name;                 /* owned */
    int64_t rows;
    double figure[TRI_FIGURES]; /* NaN: undefined */
    tri_intervals intervals;    /* without those of classes */
} tri_group_scores;

/* The groups of a column; each row is in one of them. */
typedef struct tri_grouped {
    char *column;           /* owned */
    int32_t *of;            /* [rows] the group of each row; owned */
    tri_group_scores *group;       /* [n]; owned */
    int n;
    int worst[TRI_FIGURES]; /* the group whose figure is furthest on the bad side of the whole's; -1: none is */
} tri_grouped;

/* Whether a figure's interval leaves out a value; an undefined one does not. */
static inline int tri__interval_excludes(tri_interval i, double value) { return value < i.low || value > i.high; }

/* Figures and intervals of each group, as tri__scores and tri__bootstrap have them of a table of its rows alone, and
 * the worst groups beside `whole`. May be called again with other probabilities. */
tri_status tri__grouped_score(tri_grouped *groups, const float *probs, const int32_t *labels, int64_t n,
                             const tri_label_set *classes, const tri_scores *whole, int64_t resamples, int threads);
void tri__grouped_free(tri_grouped *groups); /* accepts a zeroed one */
