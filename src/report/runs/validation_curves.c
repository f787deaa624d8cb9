/* validation_curves.c - precision and recall, and ROC. */
#include "report/runs/validation_figures.h"

#include "report/runs/run_parts.h"

#include <math.h>
#include <stdlib.h>

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

/* roc: the false positive rate and recall; else recall and precision. Areas by trapezoids, as in score/metrics.c. */
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
