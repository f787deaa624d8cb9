/* buffer.c - a growing text. */
#include "base/buffer.h"

#include "base/base.h"

/* Reserves `more` bytes and a terminating 0; NULL: out of memory, now or earlier. */
static char *grow(tri_buffer *buffer, size_t more) {
    size_t want = buffer->size + more + 1;
    if (buffer->failed) return NULL;
    if (want > buffer->room) {
        size_t room = want > 2 * buffer->room ? want : 2 * buffer->room;
        char *text = realloc(buffer->text, room);
        buffer->failed = !text;
        if (!text) return NULL;
        buffer->text = text, buffer->room = room;
    }
    return buffer->text + buffer->size;
}

void tri__buffer_add(tri_buffer *buffer, const char *text, size_t length) {
    char *at = grow(buffer, length);
    if (!at) return;
    memcpy(at, text, length);
    at[length] = '\0';
    buffer->size += length;
}

void tri__buffer_put(tri_buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    enum { USUAL = 64 };
    char *at = grow(buffer, USUAL);
    size_t room = buffer->room - buffer->size;
    int length = at ? vsnprintf(at, room, format, args) : -1;
    if (length >= 0 && (size_t)length >= room && (at = grow(buffer, (size_t)length)))
        vsnprintf(at, (size_t)length + 1, format, again);
    if (at && length > 0) buffer->size += (size_t)length;
    va_end(again);
    va_end(args);
}

/* Bytes that stand for themselves in a JSON string. */
static size_t plain(const char *text, size_t length) {
    size_t n = 0;
    while (n < length && text[n] >= ' ' && text[n] < 0x7f && text[n] != '"' && text[n] != '\\') n++;
    return n;
}

void tri__buffer_json(tri_buffer *buffer, const char *text, size_t length) {
    tri__buffer_add(buffer, "\"", 1);
    for (size_t at = 0; at < length;) {
        size_t from = at, n = plain(text + at, length - at);
        tri__buffer_add(buffer, text + at, n);
        if ((at += n) == length) break;
        from = at;
        int32_t code = tri__utf8_next(text, length, &at);
        if (code < 0) tri__buffer_add(buffer, "\xEF\xBF\xBD", 3);
        else if (code == '"' || code == '\\') tri__buffer_put(buffer, "\\%c", (char)code);
        else if (code < ' ' || code == 0x7f) tri__buffer_put(buffer, "\\u%04x", (unsigned)code);
        else tri__buffer_add(buffer, text + from, at - from);
    }
    tri__buffer_add(buffer, "\"", 1);
}

void tri__buffer_csv(tri_buffer *buffer, char separator, const char *before, const char *text, size_t length) {
    const char special[] = {separator, '"', '\r', '\n', 0};
    int quoted = strpbrk(before, special) != NULL;
    for (size_t i = 0; i < length && !quoted; i++) quoted = text[i] && strchr(special, text[i]);
    tri__buffer_put(buffer, "%s%s", quoted ? "\"" : "", before);
    for (size_t at = 0, n; at < length; at += n) {
        const char *quote = quoted ? memchr(text + at, '"', length - at) : NULL;
        n = quote ? (size_t)(quote - text) + 1 - at : length - at;
        tri__buffer_add(buffer, text + at, n);
        if (quote) tri__buffer_add(buffer, "\"", 1);
    }
    if (quoted) tri__buffer_add(buffer, "\"", 1);
}

char *tri__buffer_take(tri_buffer *buffer, size_t *size) {
    char *text = grow(buffer, 0);
    *size = buffer->size;
    if (!text) tri__buffer_free(buffer);
    else text[0] = '\0', text = buffer->text;
    *buffer = (tri_buffer){0};
    return text;
}

void tri__buffer_free(tri_buffer *buffer) {
    free(buffer->text);
    *buffer = (tri_buffer){0};
}
