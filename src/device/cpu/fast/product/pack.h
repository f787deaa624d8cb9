/* pack.h - copies a block of a matrix into the panels that the product kernel reads: to[k,width], padded with zeros.
 * Width is a multiple of 4. */
#pragma once

#include <stdint.h>
#include <string.h>

typedef float tri_vec4 __attribute__((vector_size(16)));
typedef float tri_vec4_any __attribute__((vector_size(16), aligned(4), may_alias));

/* Rows of prefetch distance: strides are too long, and rows too short, for the hardware prefetcher. Four rows read side
 * by side arrive at half of the memory's speed without it. */
enum { AHEAD_ROWS = 8 };

static inline int64_t tri__round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Transposes a 4 x 4 block of rows r. */
static inline void tri__transpose4(tri_vec4 r[4]) {
    tri_vec4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    tri_vec4 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* to[c,i] = scale * from[i,c] for i < n <= width and c < k, with row stride ld of `from`; c is padded to `padded`. */
static inline void tri__pack_rows(float *to, int width, const float *from, int64_t ld, int64_t n, int64_t k,
                                  int64_t padded, float scale) {
    for (int i = 0; i < width; i += 4) {
        int64_t c = 0;
        if (n - i >= 4)
            for (; c + 4 <= k; c += 4) {
                tri_vec4 r[4];
                __builtin_prefetch(from + (i + AHEAD_ROWS + (c / 4) % 4) * ld + c, 0, 2);
                for (int u = 0; u < 4; u++) r[u] = *(const tri_vec4_any *)(from + (i + u) * ld + c) * scale;
                tri__transpose4(r);
                for (int u = 0; u < 4; u++) *(tri_vec4_any *)(to + (c + u) * width + i) = r[u];
            }
        for (; c < padded; c++)
            for (int u = i; u < i + 4; u++) to[c * width + u] = c < k && u < n ? scale * from[u * ld + c] : 0;
    }
}

/* Columns of from [k,n], with row stride ld, as consecutive panels: panel p begins at column p width, to[p,c,i] =
 * from[c, p width + i]; c is padded to `padded`, and panels have stride `stride` floats. rows [k]: which rows of `from`
 * those are; NULL: the first k. */
static inline void tri__pack_columns(float *to, int width, int64_t stride, const float *from, int64_t ld,
                                     const int32_t *rows, int64_t n, int64_t k, int64_t padded) {
    for (int64_t c = 0; c < padded; c++) {
        const float *row = from + (rows && c < k ? rows[c] : c) * ld;
        float *at = to + c * width;
        int64_t j = 0;
        for (int64_t line = 0; line < n; line += 16) __builtin_prefetch(row + AHEAD_ROWS * ld + line);
        for (; c < k && j + width <= n; j += width, at += stride)
            for (int i = 0; i < width; i += 4) *(tri_vec4_any *)(at + i) = *(const tri_vec4_any *)(row + j + i);
        for (; j < n; j += width, at += stride)
            for (int i = 0; i < width; i++) at[i] = c < k && j + i < n ? row[j + i] : 0;
    }
}
