/* validation_curves.c - precision and recall, and ROC. */
#include "report/runs/run_parts.h"

#include "score/areas.h"

static const double APART = 1.0 / 150; /* points of a curve that are closer than this are left out */

/* A curve as it grows. */
typedef struct drawn {
    tri_json *x, *y;
    double at_x, at_y; /* the last point of the list */
} drawn;

static void draw(drawn *d, double x, double y, int always) {
    if (!always && fabs(x - d->at_x) + fabs(y - d->at_y) < APART) return;
    d->at_x = x, d->at_y = y;
    tri__json_append_new(d->x, tri__json_real(tri__curve_value(x)));
    tri__json_append_new(d->y, tri__json_real(tri__curve_value(y)));
}

/* roc: the false positive rate and recall; else recall and precision. Areas by trapezoids, as in score/metrics.c. */
tri_json *tri__predicted_curve(const tri_predicted *p, int class, int roc) {
    double hits = 0, tp = 0, fp = 0, area = 0, last_x = 0, last_y = roc ? 0 : 1;
    TRI_OWNED(tri__free_at) tri_curve_point *points = malloc((size_t)p->n * sizeof *points);
    if (!points) return NULL;
    drawn d = {.x = tri__json_array(), .y = tri__json_array()};
    tri__curve_sort(p->probs, p->label, p->n, p->n_classes, class, points);
    for (int64_t i = 0; i < p->n; i++) hits += points[i].hit;
    int defined = hits > 0 && (!roc || hits < (double)p->n);
    if (defined) draw(&d, last_x, last_y, 1);
    for (int64_t i = 0; i < p->n && defined;) {
        float score = points[i].score;
        for (; i < p->n && points[i].score == score; i++) tp += points[i].hit, fp += !points[i].hit;
        double x = roc ? fp / ((double)p->n - hits) : tp / hits, y = roc ? tp / hits : tp / (tp + fp);
        area += (x - last_x) * (y + last_y) / 2;
        draw(&d, x, y, i == p->n);
        last_x = x, last_y = y;
    }
    return tri__json_pack("{s:s, s:f, s:o, s:o}", "label", p->class[class], "area", defined ? area : NAN, "x", d.x, "y",
                          d.y);
}
