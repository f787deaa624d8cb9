/* numbers.h - small things that several sinks share: rates, and values as JSON text. */
#ifndef TRI_REPORT_NUMBERS_H
#define TRI_REPORT_NUMBERS_H

#include <stdio.h>

/* amount / seconds; 0 when no time has passed. */
static inline double tri__rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/* 9 significant digits, so that a float comes back the same; null when it is not finite, as JSON has no such
 * numbers. */
void tri__put_real(FILE *out, double value);
/* In quotes, escaped; bytes that are no UTF-8 become U+FFFD. */
void tri__put_text(FILE *out, const char *text);

#endif
