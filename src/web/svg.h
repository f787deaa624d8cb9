/* svg.h - SVG in a growing text buffer. Appending never fails: out of memory is recorded in `failed`, to be checked at
 * the end. Initialised with zeros. */
#ifndef TRI_WEB_SVG_H
#define TRI_WEB_SVG_H

#include "base/status.h"

typedef struct tri_svg {
    char *text; /* [size], a 0 byte after it; NULL: nothing yet */
    size_t size, room;
    int failed; /* out of memory */
} tri_svg;

void tri__svg_put(tri_svg *svg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text between tags: & < > and quotes escaped, control characters as blanks, invalid UTF-8 as U+FFFD. */
void tri__svg_text(tri_svg *svg, const char *text);
/* To a tenth of a pixel: "12.5", "12", "0", "-3". */
void tri__svg_number(tri_svg *svg, double x);
void tri__svg_free(tri_svg *svg);

#endif
