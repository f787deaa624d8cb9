/* test_reduce.c - reductions: fast rows give the plain rows' bits, plain rows give the definition's, and 16-bit floats
 * round as they should. */
#include "base/random.h"
#include "comm/ops/reduce.h"
#include "numbers/float16.h"

#include <math.h>

#include "tests/lib/test.h"

enum { MOST = 9, COUNT = 300 };

static uint64_t next(uint64_t *seed) {
    uint64_t z = *seed += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

/* Numbers of all sizes; now and then an infinity, or one that is none. */
static void fill(void *at, tri_dtype dtype, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = next(seed);
        float x = ldexpf((float)(int32_t)bits, (int)(bits >> 32) % 60 - 60);
        if (bits % 97 == 0) x = INFINITY;
        if (bits % 89 == 0) x = NAN;
        switch (dtype) {
        case TRI_F32: ((float *)at)[i] = x; break;
        case TRI_F64: ((double *)at)[i] = x; break;
        case TRI_BF16: ((uint16_t *)at)[i] = tri__to_bf16(x); break;
        case TRI_F16: ((uint16_t *)at)[i] = tri__to_f16(x); break;
        case TRI_I32: ((int32_t *)at)[i] = (int32_t)bits; break;
        case TRI_I64: ((int64_t *)at)[i] = (int64_t)bits; break;
        default: ((uint8_t *)at)[i] = (uint8_t)bits;
        }
    }
}

TEST(same_bits_fast_and_plain) {
    static const int64_t counts[] = {0, 1, 15, 16, 17, 31, 32, 33, 64, 100, COUNT};
    static char in[MOST][COUNT * 8 + 8], fast[MOST][COUNT * 8 + 8], plain[MOST][COUNT * 8 + 8];
    uint64_t seed = 7;
    for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++)
        for (int reduction = 0; reduction < TRI_REDUCTION_COUNT; reduction++)
            for (int n = 1; n <= MOST; n++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                    size_t shift = tri__dtype_bytes((tri_dtype)dtype) * (c % 2); /* not always aligned to a vector */
                    int n_out = c % 3 == 0 ? 1 : c % 3 == 1 ? n : 2;
                    const void *from[MOST];
                    void *to[MOST], *want[MOST];
                    for (int k = 0; k < MOST; k++) {
                        from[k] = in[k] + shift, to[k] = fast[k] + shift, want[k] = plain[k] + shift;
                        fill(in[k] + shift, (tri_dtype)dtype, COUNT, &seed);
                        memset(fast[k], 0xA5, sizeof fast[k]), memset(plain[k], 0xA5, sizeof plain[k]);
                    }
                    tri__reduce((tri_dtype)dtype, (tri_reduction)reduction, n, from, n_out, to, counts[c]);
                    tri__reduce_plain((tri_dtype)dtype, (tri_reduction)reduction, n, from, n_out, want, counts[c]);
                    for (int k = 0; k < MOST; k++) assert_memory_equal(fast[k], plain[k], sizeof plain[k]);
                }
}

/* In two parts, at every place, and with the partial result in between. */
TEST(in_parts) {
    enum { N = 5 };
    static char in[N][COUNT * 8], want[2][COUNT * 8], have[2][COUNT * 8], partial[COUNT * 8];
    uint64_t seed = 11;
    for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++)
        for (int reduction = 0; reduction < TRI_REDUCTION_COUNT; reduction++)
            for (int first = 1; first < N; first++) {
                const void *from[N];
                void *to[] = {want[0], want[1]}, *out[] = {have[0], have[1]}, *between = partial;
                for (int k = 0; k < N; k++) fill(in[k], (tri_dtype)dtype, COUNT, &seed), from[k] = in[k];
                memset(want, 0, sizeof want), memset(have, 0, sizeof have);
                assert_true(tri__dtype_sum_bytes((tri_dtype)dtype) >= tri__dtype_bytes((tri_dtype)dtype));
                tri__reduce((tri_dtype)dtype, (tri_reduction)reduction, N, from, 2, to, COUNT);
                tri__reduce_onto((tri_dtype)dtype, (tri_reduction)reduction, NULL, first, from, 0, 1, &between, COUNT);
                tri__reduce_onto((tri_dtype)dtype, (tri_reduction)reduction, partial, N - first, from + first, N, 2,
                                 out, COUNT);
                assert_memory_equal(want, have, sizeof want);
            }
}

/* An output may be an input. */
TEST(in_place) {
    static const tri_dtype dtypes[] = {TRI_F32, TRI_BF16, TRI_F64};
    uint64_t seed = 9;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int n = 1; n <= MOST; n++) {
            char data[MOST][COUNT * 8], want[COUNT * 8];
            void *at[MOST], *one = want;
            for (int k = 0; k < n; k++) fill(at[k] = data[k], dtypes[d], COUNT, &seed);
            tri__reduce_plain(dtypes[d], TRI_SUM, n, (const void *const *)at, 1, &one, COUNT);
            tri__reduce(dtypes[d], TRI_SUM, n, (const void *const *)at, n, at, COUNT);
            for (int k = 0; k < n; k++) assert_memory_equal(data[k], want, COUNT * tri__dtype_bytes(dtypes[d]));
        }
}

TEST(plain_rows_as_defined) {
    static const float a[] = {1.5f, -0.5f, 3e38f, NAN}, b[] = {2.0f, 4.0f, 3e38f, 1.0f};
    static const float want[TRI_REDUCTION_COUNT][4] = {{3.5f, 3.5f, INFINITY, NAN},
                                                       {1.75f, 1.75f, INFINITY, NAN},
                                                       {1.5f, -0.5f, 3e38f, NAN},
                                                       {2.0f, 4.0f, 3e38f, NAN},
                                                       {3.0f, -2.0f, INFINITY, NAN}};
    const void *in[] = {a, b}, *swapped[] = {b, a};
    for (int r = 0; r < TRI_REDUCTION_COUNT; r++)
        for (int order = 0; order < 2; order++) {
            float got[4];
            void *out[] = {got};
            tri__reduce(TRI_F32, (tri_reduction)r, 2, order ? swapped : in, 1, out, 4);
            for (int i = 0; i < 4; i++) assert_true(got[i] == want[r][i] || (isnan(got[i]) && isnan(want[r][i])));
        }
    int32_t i0[] = {INT32_MAX, -7}, i1[] = {1, 0}, sum[2], mean[2];
    const void *ints[] = {i0, i1};
    void *sums[] = {sum}, *means[] = {mean};
    tri__reduce(TRI_I32, TRI_SUM, 2, ints, 1, sums, 2);
    tri__reduce(TRI_I32, TRI_AVERAGE, 2, ints, 1, means, 2);
    assert_int_equal(sum[0], INT32_MIN);
    assert_int_equal(mean[1], -3);
    uint8_t u[] = {200}, u_sum;
    const void *bytes[] = {u, u};
    void *u_out[] = {&u_sum};
    tri__reduce(TRI_U8, TRI_SUM, 2, bytes, 1, u_out, 1);
    assert_int_equal(u_sum, 144);
}

/* Order counts: 1e8 + 1 - 1e8 is 0 in one order and 1 in another. */
TEST(in_the_order_given) {
    static const float x[16] = {1e8f, 1e8f}, y[16] = {1, 1}, z[16] = {-1e8f, -1e8f};
    const void *first[] = {x, y, z}, *second[] = {x, z, y};
    float got[16];
    void *out[] = {got};
    tri__reduce(TRI_F32, TRI_SUM, 3, first, 1, out, 16);
    assert_true(got[0] == 0 && got[1] == 0);
    tri__reduce(TRI_F32, TRI_SUM, 3, second, 1, out, 16);
    assert_true(got[0] == 1 && got[1] == 1);
}

/* bf16 sums are taken in f32 and rounded once: 256 + 1 + 1 is 258, though 257 does not exist. */
TEST(rounds_once) {
    for (int width = 1; width <= 32; width += 31) {
        uint16_t big[32], one[32], got[32];
        for (int i = 0; i < 32; i++) big[i] = tri__to_bf16(256), one[i] = tri__to_bf16(1);
        const void *in[] = {big, one, one};
        void *out[] = {got};
        tri__reduce(TRI_BF16, TRI_SUM, 3, in, 1, out, width);
        for (int i = 0; i < width; i++) assert_true(tri__from_bf16(got[i]) == 258);
    }
}

/* Every value of 16 bits survives the way to f32 and back; between neighbours the nearer one wins, and halfway the even
 * one. */
TEST(half_floats_round_to_nearest_even) {
    static const struct {
        uint16_t (*to)(float);
        float (*from)(uint16_t);
        uint16_t infinity;
    } kinds[] = {{tri__to_bf16, tri__from_bf16, 0x7F80}, {tri__to_f16, tri__from_f16, 0x7C00}};
    for (size_t k = 0; k < 2; k++)
        for (uint32_t h = 0; h < kinds[k].infinity; h++) {
            float x = kinds[k].from((uint16_t)h);
            assert_int_equal(kinds[k].to(x), h);
            assert_int_equal(kinds[k].to(-x), h | 0x8000);
            if (h + 1 == kinds[k].infinity) continue;
            double above = kinds[k].from((uint16_t)(h + 1));
            float middle = (float)((x + above) / 2);
            assert_true(middle == (x + above) / 2);
            assert_int_equal(kinds[k].to(middle), h + (h & 1));
            assert_int_equal(kinds[k].to(nextafterf(middle, INFINITY)), h + 1);
            assert_int_equal(kinds[k].to(nextafterf(middle, 0)), h);
        }
    assert_int_equal(tri__to_f16(65519.0f), 0x7BFF);
    assert_int_equal(tri__to_f16(65520.0f), 0x7C00);
    assert_int_equal(tri__to_bf16(3.4e38f), 0x7F80);
    assert_true(isinf(tri__from_f16(0xFC00)) && isnan(tri__from_f16(tri__to_f16(NAN))) &&
                isnan(tri__from_bf16(tri__to_bf16(NAN))));
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
