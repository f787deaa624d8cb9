/* status.h - how functions fail. External failures return a status, with a text kept per thread, and are passed on by
 * TRI_TRY. Bugs abort: TRI_ASSERT, always on, prints where. "Not applicable" is an ordinary result. */
#pragma once

#include "trident.h"

/* What nearly every file takes from the C library comes with this one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Records the text of a failure and returns `code`. */
tri_status tri__fail(tri_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " in front of the recorded text and returns `code`. */
tri_status tri__fail_in(tri_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends a public function, returning `status`: a successful call clears the text of failures it recovered from. */
tri_status tri__done(tri_status status);
/* Used around cleanup after a failure, to keep the failure's text. */
enum { TRI_ERROR_BYTES = 2048 };
typedef struct tri_words {
    char text[TRI_ERROR_BYTES];
} tri_words;
void tri__words_keep(tri_words *kept);
void tri__words_restore(const tri_words *kept);
void tri__assert_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

#define TRI_TRY(call)                               \
    do {                                            \
        tri_status status_ = (call);                \
        if (status_ != TRI_OK) return status_;      \
    } while (0)

#define TRI_ASSERT(condition) ((condition) ? (void)0 : tri__assert_failed(__FILE__, __LINE__, #condition))
