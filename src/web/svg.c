/* svg.c - numbers without needless digits, escaped text, and the frame of a picture. */
#include "web/svg.h"

#include "base/base.h"

static const char *escape_of(int32_t code) {
    switch (code) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case -1: return "\xEF\xBF\xBD";
    default: return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0xfffe || code == 0xffff ? " " : NULL;
    }
}

void tri__svg_text(tri_buffer *svg, const char *text) {
    for (size_t at = 0, next = 0, length = strlen(text); at < length; at = next) {
        const char *escape = escape_of(tri__utf8_next(text, length, &next));
        tri__buffer_add(svg, escape ? escape : text + at, escape ? strlen(escape) : next - at);
    }
}

const char *tri__svg_number(double x, char out[static 32]) {
    long long tenths = llround(10 * x), whole = llabs(tenths);
    snprintf(out, 32, whole % 10 ? "%s%lld.%lld" : "%s%lld", tenths < 0 ? "-" : "", whole / 10, whole % 10);
    return out;
}

void tri__svg_label(tri_buffer *svg, const char *class, int x, int y, const char *text) {
    tri__buffer_put(svg, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    tri__svg_text(svg, text);
    tri__buffer_put(svg, "</text>\n");
}

void tri__svg_begin(tri_buffer *svg, const tri_svg_frame *frame) {
    *svg = (tri_buffer){0};
    tri__buffer_put(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" role=\"img\" width=\"%d\" "
                    "height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>", frame->class, frame->width, frame->height,
                    frame->width, frame->height);
    tri__svg_text(svg, frame->title);
    tri__buffer_put(svg, "</title>\n%s\n<rect class=\"bg\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n",
                    frame->style, frame->width - 1, frame->height - 1);
    tri__svg_label(svg, "h", 20, 28, frame->title);
    tri__svg_label(svg, "n", 20, 48, frame->note);
}

tri_status tri__svg_end(tri_buffer *svg) {
    tri__buffer_put(svg, "</svg>\n");
    if (!svg->failed) return TRI_OK;
    tri__buffer_free(svg);
    return tri__fail(TRI_RESOURCE, "out of memory");
}
