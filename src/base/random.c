/* random.c - stream ids from names, and normal numbers by Box-Muller: two 32-bit words give two normals. They are
 * computed in double and rounded once, so that vector code (base/normal.h) gives the same floats, except for a few with
 * doubtful rounding. Any part of a tensor can be drawn separately and equals that part of the whole. */
#include "base/random.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t tri__random_id(const char *name) { return XXH32(name, strlen(name), 0); }

/* The normals of elements 4 * group .. 4 * group + 3, with standard deviation 1. */
static void normals(uint32_t seed, uint32_t id, uint64_t group, double out[4]) {
    tri_random random = tri__philox(seed, id, (uint32_t)group, (uint32_t)(group >> 32), 0, 1);
    for (int pair = 0; pair < 4; pair += 2) {
        double u = ((double)random.word[pair] + 1.0) * 0x1p-32; /* in (0, 1]: the logarithm is finite */
        double angle = 2.0 * M_PI * ((double)random.word[pair + 1] * 0x1p-32);
        double radius = sqrt(-2.0 * log(u));
        out[pair] = radius * cos(angle);
        out[pair + 1] = radius * sin(angle);
    }
}

/* The reference: group by group. */
static void draw_slowly(uint32_t seed, uint32_t id, float deviation, int64_t begin, int64_t n, float *out) {
    for (int64_t i = 0; i < n;) {
        double normal[4];
        normals(seed, id, (uint64_t)(begin + i) / 4, normal);
        for (int lane = (int)((begin + i) % 4); lane < 4 && i < n; lane++) out[i++] = (float)(deviation * normal[lane]);
    }
}

static tri_normal *fastest(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return tri__normal_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tri__normal_avx2;
#endif
    return tri__normal_plain;
}

void tri__random_normal(uint32_t seed, uint32_t id, float deviation, int64_t begin, int64_t n, float *out) {
    enum { MANY = 4 * TRI_NORMAL_LANES };
    tri_normal *draw = fastest();
    for (int64_t i = 0, end; i < n; i = end) {
        int64_t at = begin + i;
        end = i + MANY - at % MANY;
        if (end <= n && at % MANY == 0 && draw(seed, id, deviation, (uint64_t)at / 4, out + i) == 0) continue;
        if (end > n) end = n;
        draw_slowly(seed, id, deviation, at, end - i, out + i);
    }
}
