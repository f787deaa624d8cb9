/* test_normal.c - vectorised normal numbers are bitwise those of the definition, or are reported as doubtful: over many
 * blocks, with every instruction set that this machine has, and for extreme random words. */

#include "base/normal.h"

#include "tests/lib/test.h"

enum { BLOCK = 4 * TRI_NORMAL_LANES };

static void roots(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i++) x[i] = sqrt(x[i]);
}

/* One element by itself takes the definition's way. */
static void expect_block(tri_normal *draw, uint32_t seed, uint32_t id, float deviation, uint64_t group, int *doubts) {
    float many[BLOCK], one[BLOCK];
    if (draw(seed, id, deviation, group, many)) {
        ++*doubts;
        return;
    }
    for (int i = 0; i < BLOCK; i++) tri__random_normal(seed, id, deviation, (int64_t)group * 4 + i, 1, &one[i]);
    assert_memory_equal(many, one, sizeof one);
}

TEST(every_code) {
    static const uint64_t groups[] = {0, 1 << 20, ((uint64_t)1 << 32) - TRI_NORMAL_LANES / 2, (uint64_t)1 << 34};
    enum { BLOCKS = 2000 };
    tri_normal *codes[3] = {tri__normal_plain};
    int n = 1, doubts = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) codes[n++] = tri__normal_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) codes[n++] = tri__normal_avx512;
#endif
    for (int c = 0; c < n; c++)
        for (int k = 0; k < 4; k++)
            for (int b = 0; b < BLOCKS; b++)
                expect_block(codes[c], 42 + (uint32_t)k, 7, k % 2 ? 0.02f : 1.0f,
                             groups[k] + (uint64_t)b * TRI_NORMAL_LANES, &doubts);
    assert_true(doubts < n * 4 * BLOCKS / 1000);
}

/* Words at which a logarithm or an angle is special, each with each. */
TEST(the_ends) {
    static const uint32_t words[TRI_NORMAL_LANES] = {
        0,          1,          2,          0x3FFFFFFF, 0x40000000, 0x40000001, 0x7FFFFFFF, 0x80000000,
        0x80000001, 0xB504F332, 0xB504F333, 0xBFFFFFFF, 0xC0000000, 0xC0000001, 0xFFFFFFFE, 0xFFFFFFFF};
    int certain = 0;
    for (int shift = 0; shift < TRI_NORMAL_LANES; shift++)
        for (int only = 0; only < TRI_NORMAL_LANES; only++) { /* one pair in all lanes: a doubt is that pair's */
            uint64_t first[TRI_NORMAL_LANES], second[TRI_NORMAL_LANES];
            float x[TRI_NORMAL_LANES], y[TRI_NORMAL_LANES];
            for (int i = 0; i < TRI_NORMAL_LANES; i++)
                first[i] = words[only], second[i] = words[(only + shift) % TRI_NORMAL_LANES];
            if (box_muller(first, second, 0.5, x, y, roots)) continue;
            double radius = sqrt(-2.0 * log(((double)first[0] + 1.0) * 0x1p-32)),
                   angle = 2.0 * M_PI * ((double)second[0] * 0x1p-32);
            for (int i = 0; i < TRI_NORMAL_LANES; i++) {
                assert_true(x[i] == (float)(0.5 * (radius * cos(angle))));
                assert_true(y[i] == (float)(0.5 * (radius * sin(angle))));
            }
            certain++;
        }
    assert_true(certain >= TRI_NORMAL_LANES * (TRI_NORMAL_LANES - 5)); /* all but the angles of whole quarters */
}

/* `draw` is what the codes are made of; here it is the compiler's own. */
TEST(parts_of_the_whole) {
    enum { N = 1000 };
    float whole[N], part[N];
    tri__random_normal(7, 1, 0.02f, 5, N, whole);
    for (int begin = 0; begin < N; begin += 37) {
        tri__random_normal(7, 1, 0.02f, 5 + begin, N - begin, part);
        assert_memory_equal(part, whole + begin, (size_t)(N - begin) * sizeof *part);
    }
    float block[BLOCK];
    assert_int_equal(draw(7, 1, 0.02f, 2 * TRI_NORMAL_LANES, block, roots), 0);
    assert_memory_equal(block, whole + 2 * BLOCK - 5, sizeof block);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
