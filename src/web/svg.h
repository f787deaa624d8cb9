/* svg.h - what SVG asks of text and numbers. */
#ifndef TRI_WEB_SVG_H
#define TRI_WEB_SVG_H

#include "web/buffer.h"

/* Text between tags: & < > and quotes escaped, control characters as blanks, invalid UTF-8 as U+FFFD. */
void tri__svg_text(tri_buffer *svg, const char *text);
/* To a tenth of a pixel: "12.5", "12", "0", "-3". */
void tri__svg_number(tri_buffer *svg, double x);

#endif
