/* copy.h - large copies whose result is not read again soon. */
#pragma once

#include <stddef.h>

/* Like memcpy, but bypasses the caches if the processor can and `to` is aligned to 64 bytes. */
void tri__copy_large(void *to, const void *from, size_t n);
