/* copy.h - copies of much memory that nobody reads again soon. */
#ifndef TRI_BASE_COPY_H
#define TRI_BASE_COPY_H

#include <stddef.h>

/* As memcpy. Where the processor can write past its caches, and `to` is aligned to 64 bytes, it does. */
void tri__copy_large(void *to, const void *from, size_t n);

#endif
