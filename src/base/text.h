/* text.h - small helpers on text. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The nearest of `names` by edit distance, ignoring case, dashes and underscores; NULL if none is close enough. */
const char *tri__text_nearest(const char *word, const char *const *names, int n);
/* The index of a word among n names; -1: it is none of them. */
int tri__text_index(const char *word, const char *const *names, int n);
/* Decodes one UTF-8 code point at text[*at] and advances *at past it; -1 if invalid (overlong, surrogate, truncated):
 * then *at advances by one byte. */
int32_t tri__utf8_next(const char *text, size_t length, size_t *at);
/* Encodes a code point; returns the bytes written, 1 to 4. */
int tri__utf8_put(int32_t code, char *out);
/* The number of the four hexadecimal digits of \u at text [left]; -1: they are none. */
int tri__text_hex4(const char *text, size_t left);
int tri__text_begins(const char *text, const char *start);
int tri__text_ends(const char *text, const char *end);
/* A word quoted for a shell, if necessary; the caller frees it. NULL: out of memory. */
char *tri__text_quoted(const char *word);
/* "1.5 GiB"; "12,345"; into `out`, which is returned. */
const char *tri__text_bytes(double bytes, char out[32]);
const char *tri__text_count(int64_t count, char out[32]);
/* Appends to a text in out [size], with `join` between them if it is not empty; what finds no room is cut off. */
void tri__text_append(char *out, size_t size, const char *join, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A text truncated to `width` characters for a line or a table, ending in "..." if cut; control characters become
 * blanks. */
const char *tri__text_brief(const char *text, int width, char *out, size_t size);
/* A text of at most n - 1 bytes, until the end of the block: `const char *name = TRI_TEXT(32, "rank %d", rank);`. */
#define TRI_TEXT(n, ...) tri__text_print((char[n]){0}, n, __VA_ARGS__)
char *tri__text_print(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "25M" in bytes, with K, M, G or T for powers of 1024; -1 if it is not a size. */
int64_t tri__text_size(const char *text);
/* "1h 02m", "3m 07s", "12.3 s" */
const char *tri__text_seconds(double seconds, char out[32]);

/* In a function like printf, whose last named argument is `format`: its text, into `out` of `size` bytes. */
#define TRI_FORMAT(out, size, format)                      \
    ({                                                     \
        va_list args_;                                     \
        va_start(args_, format);                           \
        int length_ = vsnprintf(out, size, format, args_); \
        va_end(args_);                                     \
        length_;                                           \
    })
