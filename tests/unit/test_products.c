/* test_products.c - large fp32 products with every instruction set that this CPU has, against sums in double: ragged
 * shapes, transposed operands, bias, GELU, accumulation; the same bits for any number of threads; no out-of-bounds
 * writes. */
#include "device/device.h"

#include <math.h>

#include "tests/lib/test.h"
#include "tests/lib/simd_sets.h"

enum { GUARD = 64 }; /* floats after each block */

static const float guard = 12345.5f;

/* n numbers in [-1, 1], in a block of just that size, so that a reader beyond it is caught by a sanitizer; or with a
 * guard. */
static float *block(int64_t n, unsigned seed, int guarded) {
    float *to = malloc((size_t)(n + (guarded ? GUARD : 0)) * sizeof *to + 1);
    assert_non_null(to);
    for (int64_t i = 0; i < n; i++) to[i] = (float)((uint64_t)(i + seed) * 2654435761u % 10007) / 5003.5f - 1;
    for (int64_t i = n; i < n + GUARD && guarded; i++) to[i] = guard;
    return to;
}

static simd_set sets[SIMD_SETS_MOST];
static int n_sets;

static int set_up(void **state) {
    (void)state;
    n_sets = find_sets(sets);
    return 0;
}

static double normal(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

static double element(const tri_gemm *g, const float *before, int64_t i, int64_t j) {
    double sum = (g->add ? before[i * g->n + j] : 0) + (g->bias ? g->bias[j] : 0);
    for (int64_t k = 0; k < g->k; k++)
        sum += (double)g->a[g->a_transposed ? k * g->m + i : i * g->k + k] *
               g->b[g->b_transposed ? j * g->k + k : k * g->n + j];
    return sum;
}

static void check(const char *name, const tri_gemm *g, const float *before) {
    double most = 1e-5 * sqrt((double)g->k + 1);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double want = element(g, before, i, j), got = g->c[i * g->n + j];
            if (!(fabs(got - want) <= most + 1e-6 * fabs(want)))
                fail_msg("%s %dx%dx%d [%d,%d] is %g, not %g", name, (int)g->m, (int)g->n, (int)g->k, (int)i,
                         (int)j, got, want);
            if (g->activated && !(fabs(g->activated[i * g->n + j] - got * normal(got)) <= 1e-5 * (1 + fabs(got))))
                fail_msg("%s: GELU of %g is %g", name, got, g->activated[i * g->n + j]);
        }
    for (int i = 0; i < GUARD; i++) {
        assert_true(g->c[g->m * g->n + i] == guard);
        if (g->activated) assert_true(g->activated[g->m * g->n + i] == guard);
    }
}

typedef struct variant {
    int a_transposed, b_transposed, add, bias, activated;
} variant;

static void try_product(const simd_set *set, int64_t m, int64_t n, int64_t k, variant v) {
    tri_workspace size = TRI_GEMM_WORK;
    size_t work = (size_t)tri__workspace_bytes(&size, m, n, 0), out = (size_t)(m * n + GUARD) * sizeof(float);
    float *a = block(m * k, 1, 0), *b = block(k * n, 2, 0), *bias = block(n, 3, 0), *before = block(m * n, 4, 1), *c[2],
          *y[2];
    void *scratch = aligned_alloc(64, (work + 63) / 64 * 64);
    assert_non_null(scratch);
    for (int i = 0; i < 2; i++) {
        c[i] = block(m * n, 4, 1), y[i] = block(m * n, 5, 1);
        tri_gemm g = {.m = m,
                      .n = n,
                      .k = k,
                      .a = a,
                      .b = b,
                      .a_transposed = v.a_transposed,
                      .b_transposed = v.b_transposed,
                      .bias = v.bias ? bias : NULL,
                      .c = c[i],
                      .add = v.add,
                      .activated = v.activated ? y[i] : NULL,
                      .threads = 1 + 2 * i,
                      .work = scratch};
        memset(scratch, 0xFF, work); /* what is not packed shows as no number */
        set->gemm(&g);
        if (i == 0) check(set->name, &g, before);
        assert_memory_equal(c[i], c[0], out);
        assert_memory_equal(y[i], y[0], out);
    }
    for (int i = 0; i < 2; i++) free(c[i]), free(y[i]);
    free(a), free(b), free(bias), free(before), free(scratch);
}

static void try_variants(int64_t m, int64_t n, int64_t k) {
    static const variant variants[] = {
        {.b_transposed = 1, .bias = 1}, {.b_transposed = 1, .bias = 1, .activated = 1}, {.add = 1}, {0},
        {.a_transposed = 1}, {.a_transposed = 1, .add = 1}};
    for (int s = 0; s < n_sets; s++)
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) try_product(&sets[s], m, n, k, variants[i]);
}

TEST(test_small_and_ragged) {
    static const int sides[] = {1, 8, 13, 50}, depths[] = {0, 3, 4, 33};
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++)
            for (int k = 0; k < 4; k++) try_variants(sides[m], sides[n], depths[k]);
}

/* More tiles than one each way; more blocks of k than one, the last one short, of a length that is a multiple of the
 * kernel's step or not. */
TEST(test_tiles_and_blocks) {
    try_variants(150, 50, 385);
    try_variants(137, 400, 20);
    try_variants(17, 100, 772);
    try_variants(16, 48, 1161);
    try_variants(270, 801, 36); /* of AVX-512's tiles 24, in 3 columns: taken column by column */
}

int main(int argc, char **argv) { return run_listed(argc, argv, set_up, NULL); }
