/* copy.c - non-temporal stores avoid reading a cache line before writing it; memcpy itself uses them only from some
 * tens of megabytes on. Copying four pages at a time saturates memory: pieces of 800 KB reach 10.5 GB/s on our test
 * machine, as one memcpy of 512 MB does; memcpy of each piece reaches 6.8 GB/s. */
#include "base/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64, PAGE = 4096, PAGES = 4 };

static void copy_line(char *to, const char *from) {
    __m128i part[LINE / sizeof(__m128i)];
    for (size_t i = 0; i < LINE / sizeof(__m128i); i++) part[i] = _mm_loadu_si128((const __m128i *)from + i);
    for (size_t i = 0; i < LINE / sizeof(__m128i); i++) _mm_stream_si128((__m128i *)to + i, part[i]);
}

void tri__copy_large(void *into, const void *of, size_t n) {
    char *to = into;
    const char *from = of;
    size_t at = 0;
    if ((uintptr_t)to % LINE == 0) {
        for (; at + PAGES * PAGE <= n; at += PAGES * PAGE)
            for (size_t line = 0; line < PAGE; line += 2 * LINE)
                for (size_t page = at + line; page < at + PAGES * PAGE; page += PAGE) {
                    copy_line(to + page, from + page);
                    copy_line(to + page + LINE, from + page + LINE);
                }
        _mm_sfence();
    }
    if (at < n) memcpy(to + at, from + at, n - at);
}

#else

void tri__copy_large(void *to, const void *from, size_t n) {
    if (n) memcpy(to, from, n);
}

#endif
