/* svg.c - a growing text buffer, numbers without needless digits, and escaped text. */
#include "web/svg.h"

#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reserves `more` bytes and a terminating 0; NULL: out of memory, now or earlier. */
static char *grow(tri_svg *svg, size_t more) {
    size_t want = svg->size + more + 1;
    if (svg->failed) return NULL;
    if (want > svg->room) {
        size_t room = want > 2 * svg->room ? want : 2 * svg->room;
        char *text = realloc(svg->text, room);
        svg->failed = !text;
        if (!text) return NULL;
        svg->text = text, svg->room = room;
    }
    return svg->text + svg->size;
}

static void append(tri_svg *svg, const char *text, size_t length) {
    char *at = grow(svg, length);
    if (!at) return;
    memcpy(at, text, length);
    at[length] = '\0';
    svg->size += length;
}

void tri__svg_put(tri_svg *svg, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *at = length < 0 ? NULL : grow(svg, (size_t)length);
    if (at) {
        vsnprintf(at, (size_t)length + 1, format, again);
        svg->size += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

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

void tri__svg_text(tri_svg *svg, const char *text) {
    for (size_t at = 0, next = 0, length = strlen(text); at < length; at = next) {
        const char *escape = escape_of(tri__utf8_next(text, length, &next));
        append(svg, escape ? escape : text + at, escape ? strlen(escape) : next - at);
    }
}

void tri__svg_number(tri_svg *svg, double x) {
    long long tenths = llround(10 * x), whole = llabs(tenths);
    tri__svg_put(svg, whole % 10 ? "%s%lld.%lld" : "%s%lld", tenths < 0 ? "-" : "", whole / 10, whole % 10);
}

void tri__svg_free(tri_svg *svg) {
    free(svg->text);
    *svg = (tri_svg){0};
}
