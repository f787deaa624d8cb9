/* test_rounding.c - bf16 by every instruction set that this CPU has: rounding has the bits of numbers/float16.h for
 * numbers of every kind, and a row of a dense layer has those of its steps one by one. */
#include "numbers/float16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/simd_sets.h"

enum { MOST = 200 };

/* Every upper half with lower halves about the ties: zeros, denormals, infinities and NaN of both signs. A block has
 * numbers of few kinds, another set of lanes of each. */
static void test_every_kind(void **state) {
    (void)state;
    static const uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (int k = 0; sets[k]; k++)
        for (uint32_t first = 0; first < 1 << 16; first += 64)
            for (size_t low = 0; low < sizeof lower / sizeof *lower; low++) {
                float x[64];
                uint16_t y[64];
                for (uint32_t i = 0; i < 64; i++) {
                    uint32_t bits = (first + i) << 16 | lower[low];
                    memcpy(x + i, &bits, sizeof bits);
                }
                sets[k]->narrow(64, x, y);
                for (int i = 0; i < 64; i++) assert_int_equal(y[i], tri__to_bf16(x[i]));
            }
}

/* Numbers in [-4, 4), of which some are special. */
static void fill(float *x, int64_t n, unsigned seed) {
    static const uint32_t special[] = {1, 0x80400000, 0x7F800000, 0xFFC00001, 0x80000000};
    for (int64_t i = 0; i < n; i++) {
        uint32_t mixed = (uint32_t)(i + seed) * 2654435761u;
        x[i] = (float)(mixed >> 8) / (1 << 21) - 4;
        if (mixed % 61 == 0) memcpy(x + i, special + mixed / 61 % 5, sizeof *x);
    }
}

/* By one step after the other, each with a function of its own. */
static void finish_slowly(const tri_simd *simd, const tri_half_row *r, int64_t n, const float *sums) {
    float sum[MOST], x[MOST];
    uint16_t kept[MOST], *y = r->y ? r->y : kept;
    memcpy(sum, sums, (size_t)n * sizeof *sum);
    if (r->bias) simd->widen_add(n, r->bias, sum);
    if (r->add) simd->widen_add(n, r->y, sum);
    simd->narrow(n, sum, y);
    simd->widen(n, y, sum);
    if (r->activated) {
        simd->act(TRI_ACTIVATION_GELU, n, sum, x);
        simd->narrow(n, x, r->activated);
    }
    if (r->slope_at) {
        simd->widen(n, r->slope_at, x);
        simd->act_din(TRI_ACTIVATION_GELU, n, sum, x, sum, 0);
        simd->narrow(n, sum, y);
    }
}

enum { BIAS = 1, ADD = 2, GELU = 4, SLOPE = 8, NO_Y = 16 };

static void finish_both(const tri_simd *simd, int64_t n, int kind) {
    float sum[MOST], bias[MOST], at[MOST];
    uint16_t half[2][MOST], y[2][MOST + 1], activated[2][MOST + 1];
    fill(sum, n, (unsigned)n), fill(bias, n, 1), fill(at, n, 2);
    simd->narrow(n, bias, half[0]), simd->narrow(n, at, half[1]);
    for (int i = 0; i < 2; i++) {
        memset(y[i], 0x3F, sizeof y[i]), memset(activated[i], 0x55, sizeof activated[i]);
        tri_half_row row = {.bias = kind & BIAS ? half[0] : NULL, .y = kind & NO_Y ? NULL : y[i], .add = kind & ADD,
                            .activated = kind & GELU ? activated[i] : NULL, .slope_at = kind & SLOPE ? half[1] : NULL};
        if (i) simd->finish_half(&row, n, sum);
        else finish_slowly(simd, &row, n, sum);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(activated[0], activated[1], sizeof activated[0]);
}

static void test_rows(void **state) {
    (void)state;
    static const int kinds[] = {0, BIAS, ADD, BIAS | ADD, BIAS | GELU, BIAS | GELU | NO_Y, SLOPE};
    for (int k = 0; sets[k]; k++)
        for (int64_t n = 1; n <= MOST; n += n < 70 ? 1 : 13)
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) finish_both(sets[k], n, kinds[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, find_sets, NULL);
}
