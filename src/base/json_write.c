/* json_write.c - text of JSON values, in one growing buffer. No text at all if it cannot grow or the value is
 * incomplete. */
#include "base/json.h"

#include <locale.h>

typedef struct writer {
    tri_buffer out;
    unsigned flags;
} writer;

static void put(writer *w, const char *bytes, size_t n) { tri__buffer_add(&w->out, bytes, n); }

static void put_text(writer *w, const char *text) { put(w, text, strlen(text)); }

/* The escape of a character, or of a byte that is not part of one (code -1); 0 if it needs none. */
static size_t escape(unsigned flags, int code, unsigned char byte, char out[static 16]) {
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* a character, and the letter after its backslash */
    if (code < 0) return (size_t)snprintf(out, 16, "\\uDC%02X", byte);
    for (const char *c = named; *c; c += 2)
        if (code == *c) return out[0] = '\\', out[1] = c[1], 2;
    if (code >= 0x20 && (code < 0x80 || !(flags & TRI_JSON_ENSURE_ASCII))) return 0;
    if (code < 0x10000) return (size_t)snprintf(out, 16, "\\u%04X", (unsigned)code);
    unsigned rest = (unsigned)code - 0x10000;
    return (size_t)snprintf(out, 16, "\\u%04X\\u%04X", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
}

static void put_string(writer *w, const char *text, size_t length) {
    char escaped[16];
    size_t done = 0; /* bytes before this are written */
    put(w, "\"", 1);
    for (size_t at = 0; at < length;) {
        size_t from = at;
        int code = tri__utf8_next(text, length, &at);
        size_t n = escape(w->flags, code, (unsigned char)text[from], escaped);
        if (!n) continue;
        put(w, text + done, from - done);
        put(w, escaped, n);
        done = at;
    }
    put(w, text + done, length - done);
    put(w, "\"", 1);
}

/* As short as %g, but always recognisable as a real number, with a point in any locale: 1.0, 1e20, 1e-7. */
static void put_real(writer *w, double number) {
    int digits = (int)(w->flags >> 11 & 31);
    char text[64], *exponent, *from;
    snprintf(text, sizeof text, "%.*g", digits ? digits : 17, number);
    char *point = strchr(text, *localeconv()->decimal_point);
    if (point) *point = '.';
    exponent = strchr(text, 'e');
    if (!point && !exponent) strcat(text, ".0");
    if (exponent) {
        exponent += exponent[1] == '-' ? 2 : 1;
        for (from = exponent; *from == '+' || *from == '0'; from++) {}
        memmove(exponent, from, strlen(from) + 1);
    }
    put_text(w, text);
}

/* A newline and the indent of that depth; on one line, the blank between members. */
static void put_break(writer *w, int depth, const char *otherwise) {
    int blanks = (int)(w->flags & 31) * depth;
    if (!(w->flags & 31)) {
        put_text(w, w->flags & TRI_JSON_COMPACT ? "" : otherwise);
        return;
    }
    put(w, "\n", 1);
    for (int i = 0; i < blanks; i++) put(w, " ", 1);
}

static void put_value(writer *w, const tri_json *value, int depth);

static void put_list(writer *w, const tri_json *list, int depth) {
    size_t n = tri__json_size(list);
    put(w, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) put(w, ",", 1);
        put_break(w, depth + 1, i ? " " : "");
        put_value(w, tri__json_at(list, i), depth + 1);
    }
    if (n) put_break(w, depth, "");
    put(w, "]", 1);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const tri_json_member *)a)->key, ((const tri_json_member *)b)->key);
}

static void put_object(writer *w, const tri_json *object, int depth) {
    size_t n = tri__json_object_size(object);
    TRI_OWNED(tri__free_at) tri_json_member *member = calloc(n + 1, sizeof *member);
    if (!member) {
        w->out.failed = 1;
        return;
    }
    memcpy(member, tri__json_first(object), n * sizeof *member);
    if (w->flags & TRI_JSON_SORT_KEYS) qsort(member, n, sizeof *member, by_key);
    put(w, "{", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) put(w, ",", 1);
        put_break(w, depth + 1, i ? " " : "");
        put_string(w, member[i].key, strlen(member[i].key));
        put_text(w, w->flags & TRI_JSON_COMPACT ? ":" : ": ");
        put_value(w, member[i].value, depth + 1);
    }
    if (n) put_break(w, depth, "");
    put(w, "}", 1);
}

static void put_value(writer *w, const tri_json *value, int depth) {
    char text[32];
    switch (tri__json_typeof(value)) {
    case TRI_JSON_OBJECT: put_object(w, value, depth); break;
    case TRI_JSON_ARRAY: put_list(w, value, depth); break;
    case TRI_JSON_STRING: put_string(w, tri__json_string_value(value), tri__json_string_length(value)); break;
    case TRI_JSON_INTEGER:
        put(w, text, (size_t)snprintf(text, sizeof text, "%lld", tri__json_integer_value(value)));
        break;
    case TRI_JSON_REAL: put_real(w, tri__json_real_value(value)); break;
    case TRI_JSON_TRUE: put_text(w, "true"); break;
    case TRI_JSON_FALSE: put_text(w, "false"); break;
    default: put_text(w, "null");
    }
}

char *tri__json_text(const tri_json *value, unsigned flags) {
    writer w = {.flags = flags, .out.failed = !tri__json_is_whole(value)};
    size_t size;
    if (!w.out.failed) put_value(&w, value, 0);
    return tri__buffer_take(&w.out, &size);
}

char *tri__json_line(const tri_json *value) {
    return tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
}
