/* json_numbers.h - what sinks and pages share: rates, members of JSON objects, values as JSON text, and streams to
 * memory. */
#pragma once

#include "base/json.h"

/* amount / seconds; 0 if no time has passed. */
static inline double tri__rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/* About three digits: "4.25", "31.2", "312", "24.1k", "1.2M". */
const char *tri__text_short(double x, char out[static 32]);

/* Members of an object: NaN where there is no such number, "" where there is no such text. */
double tri__real_in(const tri_json *object, const char *key);
const char *tri__shown_in(const tri_json *object, const char *key);

/* 9 significant digits, so that a float round-trips; null if not finite, which JSON cannot represent. */
void tri__put_real(FILE *out, double value);
/* A further member of an object. */
void tri__put_field(FILE *out, const char *key, double value);
/* Quoted and escaped; bytes that are not UTF-8 become U+FFFD. */
void tri__put_text(FILE *out, const char *text);
/* Closes a stream of open_memstream. 0: memory ran out, and *data is not all that was written. */
int tri__memstream_close(FILE *stream, char *const *data);
