/* utf8.h - whether bytes are UTF-8, fast. */
#ifndef TRI_DATA_TEXT_UTF8_H
#define TRI_DATA_TEXT_UTF8_H

#include <stddef.h>

/* The first byte that begins no valid sequence (as tri__utf8_next says it); `length` when there is none. */
size_t tri__utf8_fault(const char *text, size_t length);

#endif
