/* areas.c - one sort of a class's probabilities: walking down the thresholds, equal probabilities together, gives all
 * areas. */
#include "score/areas.h"

static int descending(const void *a, const void *b) {
    float x = ((const tri_curve_point *)a)->score, y = ((const tri_curve_point *)b)->score;
    return (x < y) - (x > y);
}

void tri__curve_order(tri_curve_point *points, int64_t n) { qsort(points, (size_t)n, sizeof *points, descending); }

void tri__curve_sort(const float *probs, const int32_t *labels, int64_t n, int n_classes, int class,
                     tri_curve_point *points) {
    for (int64_t i = 0; i < n; i++) points[i] = (tri_curve_point){probs[i * n_classes + class], labels[i] == class, i};
    tri__curve_order(points, n);
}

void tri__curve_areas(const tri_curve_point *points, int64_t n, const int32_t *times, double area[static TRI_AREAS]) {
    int64_t hits = 0, rows = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = times ? times[points[i].row] : 1;
        rows += k, hits += points[i].hit ? k : 0;
    }
    for (int a = 0; a < TRI_AREAS; a++) area[a] = NAN;
    if (hits == 0) return;
    double tp = 0, fp = 0, last_recall = 0, last_precision = 1, pr_area = 0, steps = 0, roc_area = 0;
    for (int64_t i = 0; i < n;) {
        int64_t more_hits = 0, more = 0;
        float score = points[i].score;
        for (; i < n && points[i].score == score; i++) {
            int64_t k = times ? times[points[i].row] : 1;
            more += k, more_hits += points[i].hit ? k : 0;
        }
        if (!more) continue;
        double more_tp = (double)more_hits, more_fp = (double)(more - more_hits);
        roc_area += more_fp * (tp + 0.5 * more_tp); /* pairs ranked correctly, ties count half */
        tp += more_tp, fp += more_fp;
        double recall = tp / (double)hits, precision = tp / (tp + fp);
        pr_area += (recall - last_recall) * (precision + last_precision) / 2;
        steps += (recall - last_recall) * precision;
        last_recall = recall, last_precision = precision;
    }
    area[TRI_AREA_PR] = pr_area, area[TRI_AREA_AP] = steps;
    if (hits < rows) area[TRI_AREA_ROC] = roc_area / ((double)hits * (double)(rows - hits));
}
