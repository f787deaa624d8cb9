/* svg.h - SVG as text that grows. Appending never fails: a picture that lost a piece to a shortage of memory says so in
 * the end (`failed`). Starts from a zeroed one. */
#ifndef TRI_WEB_SVG_H
#define TRI_WEB_SVG_H

#include "base/status.h"

typedef struct tri_svg {
    char *text; /* [size], a 0 byte after it; NULL: nothing yet */
    size_t size, room;
    int failed; /* out of memory */
} tri_svg;

void tri__svg_put(tri_svg *svg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text as it stands between tags: & < > and quotes escaped, control characters as blanks, broken UTF-8 as U+FFFD. */
void tri__svg_text(tri_svg *svg, const char *text);
/* A tenth of a pixel is enough: "12.5", "12", "0"; a minus sign before what is negative. */
void tri__svg_number(tri_svg *svg, double x);
void tri__svg_free(tri_svg *svg);

#endif
