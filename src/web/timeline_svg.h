/* timeline_svg.h - the timeline of a step as a picture: a row for each rank, boxes for what it computes, a thin line
 * below them while its transfers move data. Self-contained, for light and dark pages; the same bytes for the same
 * chart. */
#ifndef TRI_WEB_TIMELINE_SVG_H
#define TRI_WEB_TIMELINE_SVG_H

#include "web/svg.h"

/* From `begin` to `end`, in seconds. */
typedef struct tri_chart_span {
    double begin, end;
    char kind; /* F forward, B backward, W gradients of weights, U update; of transfers it does not count */
    int mb;    /* microbatch; -1: of the whole step */
} tri_chart_span;

typedef struct tri_chart_row {
    const char *label;              /* "rank 3" */
    int group;                      /* rows of a group lie closer together; its name stands beside the first */
    const char *group_label;        /* "stage 1"; NULL: groups have no name */
    const tri_chart_span *leg;      /* [n_legs] in order */
    const tri_chart_span *transfer; /* [n_transfers] in order, none overlap */
    int n_legs, n_transfers;
} tri_chart_row;

typedef struct tri_timeline_chart {
    const char *title, *note;       /* a line each */
    double seconds;                 /* of the step, above 0 */
    const tri_chart_row *row;       /* [n_rows] */
    int n_rows;
} tri_timeline_chart;

/* TRI_RESOURCE when out of memory. */
tri_status tri__timeline_svg(const tri_timeline_chart *chart, tri_svg *out);

#endif
