/* predicted_curves.c - precision and recall, ROC, and reliability of probabilities. */
#include "report/predicted.h"

#include "report/run_parts.h"

#include <math.h>
#include <stdlib.h>

enum { BINS = 10 };
static const double APART = 1.0 / 150; /* points of a curve that are closer than this are left out */

/* A row in one class's curve. */
typedef struct scored {
    float score;
    int hit; /* 1: the row is of the class */
} scored;

static int descending(const void *a, const void *b) {
    float x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return (x < y) - (x > y);
}

/* A curve as it grows. */
typedef struct drawn {
    tri_json *x, *y;
    double at_x, at_y; /* the last point of the list */
} drawn;

static void draw(drawn *d, double x, double y, int always) {
    if (!always && fabs(x - d->at_x) + fabs(y - d->at_y) < APART) return;
    d->at_x = x, d->at_y = y;
    tri__json_append_new(d->x, tri__json_real(tri__rounded(x)));
    tri__json_append_new(d->y, tri__json_real(tri__rounded(y)));
}

/* Rows by falling score; NULL: out of memory, or the class has no rows, or all. */
static scored *sort_rows(const tri_predicted *p, int class, double *hits) {
    scored *rows = malloc((size_t)p->n * sizeof *rows);
    *hits = 0;
    for (int64_t i = 0; i < p->n && rows; i++) {
        rows[i] = (scored){p->probs[i * p->n_classes + class], p->label[i] == class};
        *hits += rows[i].hit;
    }
    if (rows) qsort(rows, (size_t)p->n, sizeof *rows, descending);
    return rows;
}

/* roc: the false positive rate and recall; else recall and precision. Areas by trapezoids, as in engine/metrics.c. */
static tri_json *curve(const tri_predicted *p, int class, int roc) {
    double hits, tp = 0, fp = 0, area = 0, last_x = 0, last_y = roc ? 0 : 1;
    scored *rows = sort_rows(p, class, &hits);
    drawn d = {.x = tri__json_array(), .y = tri__json_array()};
    if (!rows) {
        tri__json_decref(d.x);
        tri__json_decref(d.y);
        return NULL;
    }
    int defined = hits > 0 && (!roc || hits < (double)p->n);
    if (defined) draw(&d, last_x, last_y, 1);
    for (int64_t i = 0; i < p->n && defined;) {
        float score = rows[i].score;
        for (; i < p->n && rows[i].score == score; i++) tp += rows[i].hit, fp += !rows[i].hit;
        double x = roc ? fp / ((double)p->n - hits) : tp / hits, y = roc ? tp / hits : tp / (tp + fp);
        area += (x - last_x) * (y + last_y) / 2;
        draw(&d, x, y, i == p->n);
        last_x = x, last_y = y;
    }
    free(rows);
    return tri__json_pack("{s:s, s:o, s:o, s:o}", "label", p->class[class], "area",
                          defined ? tri__json_real(area) : tri__json_null(), "x", d.x, "y", d.y);
}

tri_json *tri__predicted_pr(const tri_predicted *p, int class) { return curve(p, class, 0); }
tri_json *tri__predicted_roc(const tri_predicted *p, int class) { return curve(p, class, 1); }

tri_json *tri__predicted_reliability(const tri_predicted *p, int positive) {
    double sum[BINS] = {0}, right[BINS] = {0}, rows[BINS] = {0}, ece = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const float *row = p->probs + i * p->n_classes; /* [n_classes] */
        int class = positive < 0 ? 0 : positive;
        for (int c = 0; c < p->n_classes && positive < 0; c++)
            if (row[c] > row[class]) class = c;
        int bin = (int)((double)row[class] * BINS);
        bin = bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin;
        sum[bin] += (double)row[class], right[bin] += p->label[i] == class, rows[bin]++;
    }
    tri_json *bins = tri__json_array();
    for (int b = 0; b < BINS; b++) {
        if (rows[b] > 0) ece += fabs(sum[b] - right[b]) / (double)p->n;
        tri__json_append_new(
            bins, tri__json_pack("{s:f, s:f, s:f, s:f, s:I}", "low", (double)b / BINS, "high", (double)(b + 1) / BINS,
                                 "probability", rows[b] > 0 ? sum[b] / rows[b] : 0, "rate",
                                 rows[b] > 0 ? right[b] / rows[b] : 0, "rows", (tri_json_int)rows[b]));
    }
    return tri__json_pack("{s:s, s:f, s:o}", "of", positive < 0 ? "the most probable label" : p->class[positive], "ece",
                          ece, "bins", bins);
}
