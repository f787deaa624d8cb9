/* svg.c - numbers without needless digits, and escaped text. */
#include "web/svg.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void tri__svg_number(tri_buffer *svg, double x) {
    long long tenths = llround(10 * x), whole = llabs(tenths);
    tri__buffer_put(svg, whole % 10 ? "%s%lld.%lld" : "%s%lld", tenths < 0 ? "-" : "", whole / 10, whole % 10);
}
