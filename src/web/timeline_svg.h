/* timeline_svg.h - the timeline of a step as a picture: a row for each rank, boxes for what it computes, a thin line
 * below them while its transfers move data. Self-contained, for light and dark pages; equal charts give equal bytes. */
#pragma once

#include "web/svg.h"

/* From `begin` to `end`, in seconds. */
typedef struct tri_chart_span {
    double begin, end;
    char kind; /* F forward, B backward, W gradients of weights, U update; ignored for transfers */
    int mb;    /* microbatch; -1: of the whole step */
} tri_chart_span;

typedef struct tri_chart_row {
    const char *label;              /* "rank 3" */
    int group;                      /* rows of a group are drawn closer together, with its name next to the first */
    const char *group_label;        /* "stage 1"; NULL: groups have no name */
    const tri_chart_span *leg;      /* [n_legs] in order */
    const tri_chart_span *transfer; /* [n_transfers] in order, none overlap */
    int n_legs, n_transfers;
} tri_chart_row;

typedef struct tri_timeline_chart {
    const char *title, *note;       /* one line each */
    double seconds;                 /* of the step, above 0 */
    const tri_chart_row *row;       /* [n_rows] */
    int n_rows;
} tri_timeline_chart;

/* TRI_RESOURCE if out of memory. */
tri_status tri__timeline_svg(const tri_timeline_chart *chart, tri_buffer *out);
