/* json_numbers.h - helpers that several sinks share: rates, values as JSON text, and streams to memory. */
#ifndef TRI_REPORT_TEXT_JSON_NUMBERS_H
#define TRI_REPORT_TEXT_JSON_NUMBERS_H

#include <stdio.h>

/* amount / seconds; 0 if no time has passed. */
static inline double tri__rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/* 9 significant digits, so that a float round-trips; null if not finite, which JSON cannot represent. */
void tri__put_real(FILE *out, double value);
/* A further member of an object. */
void tri__put_field(FILE *out, const char *key, double value);
/* Quoted and escaped; bytes that are not UTF-8 become U+FFFD. */
void tri__put_text(FILE *out, const char *text);
/* Closes a stream of open_memstream. 0: memory ran out, and *data is not all that was written. */
int tri__memstream_close(FILE *stream, char *const *data);

#endif
