/* buffer.h - a growing text: pictures, pages, bodies of replies. Appending never fails: out of memory is recorded in
 * `failed`, to be checked at the end. Initialised with zeros. */
#pragma once

#include "base/owned.h"

typedef struct tri_buffer {
    char *text; /* [size], a 0 byte after it; NULL: nothing yet */
    size_t size, room;
    int failed; /* out of memory */
} tri_buffer;

void tri__buffer_put(tri_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tri__buffer_add(tri_buffer *buffer, const char *text, size_t length);
/* A JSON string in quotes. Bytes that are not UTF-8 become U+FFFD. */
void tri__buffer_json(tri_buffer *buffer, const char *text, size_t length);
/* A field of CSV, `before` and the text: in quotes, which are doubled inside, if it has one, the separator or a line
 * end. */
void tri__buffer_csv(tri_buffer *buffer, char separator, const char *before, const char *text, size_t length);
/* The text, which the caller frees, and an empty buffer; NULL: out of memory. */
char *tri__buffer_take(tri_buffer *buffer, size_t *size);
void tri__buffer_free(tri_buffer *buffer);
