/* utf8.h - fast UTF-8 validation. */
#pragma once

#include <stddef.h>

/* The first byte that does not begin a valid sequence (as in tri__utf8_next); `length` if there is none. */
size_t tri__utf8_fault(const char *text, size_t length);
