/* text.h - small helpers on text. */
#ifndef TRI_BASE_TEXT_H
#define TRI_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The nearest of `names` by edit distance, case, dashes and underscores ignored; NULL when none is near enough to be
 * meant. */
const char *tri__text_nearest(const char *word, const char *const *names, int n);
/* Decodes one code point of UTF-8 at text[*at], moves *at past it; -1 when it is not valid UTF-8 (overlong, surrogate,
 * cut short): then *at moves by one byte. */
int32_t tri__utf8_next(const char *text, size_t length, size_t *at);
/* Encodes a code point; returns the bytes written, 1 to 4. */
int tri__utf8_put(int32_t code, char out[static 4]);
int tri__text_begins(const char *text, const char *start);
/* A word of a command line as a shell reads it back: as it is, or in quotes; the caller frees it. NULL: out of
 * memory. */
char *tri__text_quoted(const char *word);
/* "1.5 GiB"; "12,345"; into `out`, which is returned. */
const char *tri__text_bytes(double bytes, char out[static 32]);
const char *tri__text_count(int64_t count, char out[static 32]);
/* At most `width` characters of a text for a line or a table, "..." behind what was cut; control characters become
 * blanks. */
const char *tri__text_brief(const char *text, int width, char *out, size_t size);
/* "25M" in bytes, with K, M, G or T for powers of 1024; -1 when it is not a size. */
int64_t tri__text_size(const char *text);
/* "1h 02m", "3m 07s", "12.3 s" */
const char *tri__text_seconds(double seconds, char out[static 32]);

#endif
