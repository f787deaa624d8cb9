/* pack_int8.h - copies rows of an int8 matrix into a panel [k / group, width, group], padded with zeros. */
#pragma once

#include <stdint.h>
#include <string.h>

/* Columns from c on, a multiple of group, one number at a time: what vectors leave over. */
static inline void tri__pack_int8_rest(int8_t *to, int width, int group, const int8_t *from, int64_t ld, int64_t n,
                                       int64_t c, int64_t k, int64_t padded) {
    for (; c < padded; c += group)
        for (int i = 0; i < width; i++)
            for (int u = 0; u < group; u++)
                to[c * width + i * group + u] = i < n && c + u < k ? from[i * ld + c + u] : 0;
}

/* Rows 0 to n - 1 of `from`, with row stride ld, and k columns of each. Width and group are constants. */
static inline __attribute__((always_inline)) void tri__pack_int8(int8_t *to, int width, int group, const int8_t *from,
                                                                 int64_t ld, int64_t n, int64_t k, int64_t padded) {
    int64_t c = 0;
    if (n == width)
        for (; c + group <= k; c += group)
            for (int i = 0; i < width; i++) memcpy(to + c * width + i * group, from + i * ld + c, (size_t)group);
    tri__pack_int8_rest(to, width, group, from, ld, n, c, k, padded);
}
