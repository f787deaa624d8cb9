/* pattern_svg.h - patterns of block-sparse attention as a picture: a square for each, queries from top to bottom, keys
 * from left to right, axes in tokens. Self-contained, for light and dark pages; equal charts give equal bytes. */
#pragma once

#include "base/buffer.h"

enum { TRI_PATTERN_CELLS = 128 }; /* most cells on a side: where there are more blocks, a cell stands for several */

typedef struct tri_pattern_panel {
    const char *title, *note;  /* one line each */
    int tokens;                /* of the longest sequence: the length of both axes */
    int n;                     /* cells on a side */
    const float *share;        /* [n,n] of a cell's blocks that are present, 0 to 1; a row for each cell of queries */
} tri_pattern_panel;

typedef struct tri_pattern_chart {
    const char *title, *note;
    const tri_pattern_panel *panel; /* [n] */
    int n;
} tri_pattern_chart;

/* TRI_RESOURCE if out of memory. */
tri_status tri__pattern_svg(const tri_pattern_chart *chart, tri_buffer *out);
