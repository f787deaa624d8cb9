/* areas.h - areas under the curves of one class against the rest, of rows that are sorted once and may be weighted. */
#pragma once

#include "base/base.h"

/* A row in one class's curve. */
typedef struct tri_curve_point {
    float score;
    int32_t hit; /* 1: the row is of the class */
    int64_t row;
} tri_curve_point;

/* Points [n] of a class, by falling probability. probs [n, n_classes], labels [n]. */
void tri__curve_sort(const float *probs, const int32_t *labels, int64_t n, int n_classes, int class,
                     tri_curve_point *points);

/* Sorts points that have their scores. */
void tri__curve_order(tri_curve_point *points, int64_t n);

/* Area under precision-recall by trapezoids, by steps; ROC. Same as scikit-learn's auc(recall, precision),
 * average_precision_score and roc_auc_score. */
enum { TRI_AREA_PR, TRI_AREA_AP, TRI_AREA_ROC, TRI_AREAS };

/* times [rows]: how often each row counts; NULL: once. Both classes must have rows for ROC, the class itself for the
 * others; undefined areas are NaN. */
void tri__curve_areas(const tri_curve_point *points, int64_t n, const int32_t *times, double area[static TRI_AREAS]);
