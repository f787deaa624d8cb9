/* metrics.c - scores of predicted probabilities. The curves come from one sort of each class's probabilities: walking
 * down the thresholds, equal probabilities together, gives both areas in O(n log n).
 * As scikit-learn's precision_recall_curve, roc_auc_score and precision_recall_fscore_support. */
#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row as one class's curve sees it. */
typedef struct point {
    float score;
    int hit; /* 1: the row is of the class */
} point;

static int descending(const void *a, const void *b) {
    float x = ((const point *)a)->score, y = ((const point *)b)->score;
    return (x < y) - (x > y);
}

/* Areas of one class against the rest. points [n], sorted here. Both classes must have rows for ROC, the class itself for
 * PR; what is undefined is NaN. */
static void areas(point *points, int64_t n, double *pr, double *roc) {
    int64_t hits = 0;
    for (int64_t i = 0; i < n; i++) hits += points[i].hit;
    *pr = *roc = NAN;
    if (hits == 0) return;
    qsort(points, (size_t)n, sizeof *points, descending);
    double tp = 0, fp = 0, last_recall = 0, last_precision = 1, pr_area = 0, roc_area = 0;
    for (int64_t i = 0; i < n;) {
        double more_tp = 0, more_fp = 0;
        float score = points[i].score;
        for (; i < n && points[i].score == score; i++) more_tp += points[i].hit, more_fp += !points[i].hit;
        roc_area += more_fp * (tp + 0.5 * more_tp); /* pairs ranked rightly, ties half */
        tp += more_tp, fp += more_fp;
        double recall = tp / (double)hits, precision = tp / (tp + fp);
        pr_area += (recall - last_recall) * (precision + last_precision) / 2;
        last_recall = recall, last_precision = precision;
    }
    *pr = pr_area;
    if (hits < n) *roc = roc_area / ((double)hits * (double)(n - hits));
}

/* Areas of class 1, or the mean over classes beyond two. probs [n, classes], labels [n]; points [n] is scratch. */
static void score_areas(const float *probs, const int32_t *labels, int64_t n, int classes, point *points,
                        tri_scores *out) {
    double pr_sum = 0, roc_sum = 0;
    int pr_count = 0, roc_count = 0;
    for (int class = classes == 2 ? 1 : 0; class < classes; class++) {
        double pr, roc;
        for (int64_t i = 0; i < n; i++) points[i] = (point){probs[i * classes + class], labels[i] == class};
        areas(points, n, &pr, &roc);
        if (!isnan(pr)) pr_sum += pr, pr_count++;
        if (!isnan(roc)) roc_sum += roc, roc_count++;
    }
    out->pr_auc = pr_count ? pr_sum / pr_count : NAN;
    out->roc_auc = roc_count ? roc_sum / roc_count : NAN;
}

/* Counts of each class: rows that are it, rows called it, and rows that are both; 0 / 0 counts as 0. */
static void score_classes(const int64_t *called, const int64_t *right, tri_scores *out) {
    double f1_sum = 0;
    int64_t all_right = 0;
    for (int c = 0; c < out->n_classes; c++) {
        double hit = (double)right[c];
        out->precision[c] = called[c] ? hit / (double)called[c] : 0;
        out->recall[c] = out->support[c] ? hit / (double)out->support[c] : 0;
        int64_t either = called[c] + out->support[c];
        out->f1[c] = either ? 2 * hit / (double)either : 0;
        f1_sum += out->f1[c];
        all_right += right[c];
    }
    out->f1_macro = f1_sum / out->n_classes;
    out->accuracy = (double)all_right / (double)out->rows;
}

/* Losses and counts. A probability of 0 counts as the least float, so that the loss stays finite. */
static void score_rows(const float *probs, const int32_t *labels, const double *class_weights, int64_t *called,
                       int64_t *right, tri_scores *out) {
    double loss = 0, weights = 0, log_loss = 0;
    for (int64_t i = 0; i < out->rows; i++) {
        const float *row = probs + i * out->n_classes; /* [n_classes] */
        int label = labels[i], best = 0;
        for (int c = 1; c < out->n_classes; c++)
            if (row[c] > row[best]) best = c;
        double weight = class_weights ? class_weights[label] : 1, loss_i = -log(fmax((double)row[label], 0x1p-126));
        loss += weight * loss_i, weights += weight, log_loss += loss_i;
        out->support[label]++, called[best]++, right[label] += best == label;
    }
    out->loss = loss / weights;
    out->log_loss = log_loss / (double)out->rows;
}

tri_status tri__scores(const float *probs, const int32_t *labels, int64_t n, int classes, const double *class_weights,
                       tri_scores *out) {
    *out = (tri_scores){.rows = n, .n_classes = classes};
    TRI_ASSERT(classes >= 2);
    if (n < 1) return tri__fail(TRI_DATA, "there are no rows to score");
    for (int64_t i = 0; i < n; i++) {
        TRI_ASSERT(labels[i] >= 0 && labels[i] < classes);
        for (int c = 0; c < classes; c++)
            if (!isfinite(probs[i * classes + c]))
                return tri__fail(TRI_NOTFINITE, "the probability of class %d in row %lld is not finite", c,
                                 (long long)i + 1);
    }
    size_t each = (size_t)classes;
    tri_status status = TRI_OK;
    point *points = malloc((size_t)n * sizeof *points);
    int64_t *counts = calloc(2 * each, sizeof *counts); /* called, then right */
    out->f1 = calloc(each, sizeof *out->f1);
    out->precision = calloc(each, sizeof *out->precision);
    out->recall = calloc(each, sizeof *out->recall);
    out->support = calloc(each, sizeof *out->support);
    if (!points || !counts || !out->f1 || !out->precision || !out->recall || !out->support) {
        status = tri__fail(TRI_RESOURCE, "no memory to score %lld rows", (long long)n);
        tri__scores_free(out);
    } else {
        score_rows(probs, labels, class_weights, counts, counts + classes, out);
        score_classes(counts, counts + classes, out);
        score_areas(probs, labels, n, classes, points, out);
    }
    free(points);
    free(counts);
    return status;
}

void tri__scores_free(tri_scores *scores) {
    free(scores->f1);
    free(scores->precision);
    free(scores->recall);
    free(scores->support);
    *scores = (tri_scores){0};
}

/* What is undefined (an area of a class without rows) is null. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *tri__scores_json(const tri_scores *scores) {
    json_t *f1 = json_object(), *per_class = json_array();
    for (int c = 0; c < scores->n_classes; c++) json_array_append_new(per_class, number(scores->f1[c]));
    json_object_set_new(f1, "macro", number(scores->f1_macro));
    json_object_set_new(f1, "per_class", per_class);
    json_t *all = json_object();
    json_object_set_new(all, "loss", number(scores->loss));
    json_object_set_new(all, "accuracy", number(scores->accuracy));
    json_object_set_new(all, "f1", f1);
    json_object_set_new(all, "pr_auc", number(scores->pr_auc));
    json_object_set_new(all, "roc_auc", number(scores->roc_auc));
    json_object_set_new(all, "log_loss", number(scores->log_loss));
    json_object_set_new(all, "rows", json_integer(scores->rows));
    return all;
}
