/* svg.h - what SVG asks of text and numbers, and the frame of a picture. */
#pragma once

#include "base/buffer.h"

/* Text between tags: & < > and quotes escaped, control characters as blanks, invalid UTF-8 as U+FFFD. */
void tri__svg_text(tri_buffer *svg, const char *text);
/* To a tenth of a pixel: "12.5", "12", "0", "-3". Written to `out`, which is returned. */
const char *tri__svg_number(double x, char out[static 32]);
void tri__svg_label(tri_buffer *svg, const char *class, int x, int y, const char *text);

/* A picture: its class, which `style` is written for, its size in pixels, and a title and a note at the top. */
typedef struct tri_svg_frame {
    const char *class, *style, *title, *note;
    int width, height;
} tri_svg_frame;
void tri__svg_begin(tri_buffer *svg, const tri_svg_frame *frame);
/* TRI_RESOURCE when memory ran out anywhere in it; the buffer is then freed. */
tri_status tri__svg_end(tri_buffer *svg);
