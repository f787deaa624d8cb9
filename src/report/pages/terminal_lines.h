/* terminal_lines.h - lines of a screen, before it is known which of them fit. */
#pragma once

#include "report/pages/terminal.h"

/* In a line these bytes change the colour and take no column; texts of a run cannot contain them. */
#define TRI_GOOD "\1"
#define TRI_WARN "\2"
#define TRI_BAD "\3"
#define TRI_FAINT "\4"
#define TRI_BOLD "\5"
#define TRI_PLAIN "\6"

enum { TRI_SCREEN_LINES = 256 };

typedef struct tri_lines {
    struct {
        tri_buffer text;
        int rank;          /* lines of a high rank are left out first */
    } line[TRI_SCREEN_LINES];
    int n;
} tri_lines;

/* Begins a line; the buffer is valid until the next one begins. Beyond the most lines: the last one again. */
tri_buffer *tri__lines_new(tri_lines *lines, int rank);
/* A text of the run: one line, without control characters, at most `width` columns. */
void tri__lines_text(tri_buffer *line, const char *text, int width);
/* Writes those that fit, and frees all. */
void tri__lines_print(tri_lines *lines, const tri_screen *screen, tri_buffer *out);

/* `share` of `cells` columns filled, to an eighth of a column with Unicode. */
void tri__lines_bar(tri_buffer *line, double share, int cells, int utf8);
/* The curve of n values, x from 0 to 1 ascending, as `rows` lines of `columns` columns, each after a label of the
 * values that it reaches to. */
void tri__lines_curve(tri_lines *lines, int rank, const double *x, const double *value, size_t n, int rows,
                      int columns, int utf8);
