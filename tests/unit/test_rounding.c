/* test_rounding.c - bf16 by every instruction set that this CPU has: rounding has the bits of numbers/float16.h for
 * numbers of every kind, and a row of a dense layer has those of its steps one by one. */
#include "numbers/float16.h"

#include "tests/lib/test.h"
#include "tests/lib/simd_sets.h"

enum { MOST = 200 };

static simd_set sets[SIMD_SETS_MOST];
static int n_sets;

static int set_up(void **state) {
    (void)state;
    n_sets = find_sets(sets);
    return 0;
}

static void narrow(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i++) y[i] = tri__to_bf16(x[i]);
}

static void widen(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = tri__from_bf16(x[i]);
}

/* y += x */
static void widen_add(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] += tri__from_bf16(x[i]);
}

/* Every upper half with lower halves about the ties: zeros, denormals, infinities and NaN of both signs. A block has
 * numbers of few kinds, another set of lanes of each. */
TEST(test_every_kind) {
    static const uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (int k = 0; k < n_sets; k++)
        for (uint32_t first = 0; first < 1 << 16; first += 64)
            for (size_t low = 0; low < sizeof lower / sizeof *lower; low++) {
                float x[64];
                uint16_t y[64];
                for (uint32_t i = 0; i < 64; i++) {
                    uint32_t bits = (first + i) << 16 | lower[low];
                    memcpy(x + i, &bits, sizeof bits);
                }
                sets[k].finish_half(&(tri_half_row){.y = y}, 64, x);
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

/* An fp32 row of GELU of the set, on rows of n elements. */
static void run_gelu(const simd_set *set, tri_op op, int64_t n, int operands, float *const operand[]) {
    tri_call call = {.op = op, .attr = &(tri_attr){.activation = 1 + TRI_ACTIVATION_GELU}, .threads = 1};
    for (int k = 0; k < operands; k++) call.t[k] = (tri_tensor){operand[k], 1, n};
    for (const tri_kernel_row *const *list = set->lists; *list; list++)
        for (const tri_kernel_row *row = *list; row->run; row++)
            if (row->op == op && row->dtype == TRI_F32 && row->facts == TRI_FACT_ACT) row->run(&call);
}

/* By one step after the other, each with a function of its own. */
static void finish_slowly(const simd_set *set, const tri_half_row *r, int64_t n, const float *sums) {
    float sum[MOST], x[MOST];
    uint16_t kept[MOST], *y = r->y ? r->y : kept;
    memcpy(sum, sums, (size_t)n * sizeof *sum);
    if (r->bias) widen_add(n, r->bias, sum);
    if (r->add) widen_add(n, r->y, sum);
    narrow(n, sum, y);
    widen(n, y, sum);
    if (r->activated) {
        run_gelu(set, TRI_OP_act, n, 2, (float *[]){x, sum});
        narrow(n, x, r->activated);
    }
    if (r->slope_at) {
        widen(n, r->slope_at, x);
        run_gelu(set, TRI_OP_act_din, n, 4, (float *[]){sum, NULL, sum, x});
        narrow(n, sum, y);
    }
}

enum { BIAS = 1, ADD = 2, GELU = 4, SLOPE = 8, NO_Y = 16 };

static void finish_both(const simd_set *set, int64_t n, int kind) {
    float sum[MOST], bias[MOST], at[MOST];
    uint16_t half[2][MOST], y[2][MOST + 1], activated[2][MOST + 1];
    fill(sum, n, (unsigned)n), fill(bias, n, 1), fill(at, n, 2);
    narrow(n, bias, half[0]), narrow(n, at, half[1]);
    for (int i = 0; i < 2; i++) {
        memset(y[i], 0x3F, sizeof y[i]), memset(activated[i], 0x55, sizeof activated[i]);
        tri_half_row row = {.bias = kind & BIAS ? half[0] : NULL, .y = kind & NO_Y ? NULL : y[i], .add = kind & ADD,
                            .activated = kind & GELU ? activated[i] : NULL, .slope_at = kind & SLOPE ? half[1] : NULL};
        if (i) set->finish_half(&row, n, sum);
        else finish_slowly(set, &row, n, sum);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(activated[0], activated[1], sizeof activated[0]);
}

TEST(test_rows) {
    static const int kinds[] = {0, BIAS, ADD, BIAS | ADD, BIAS | GELU, BIAS | GELU | NO_Y, SLOPE};
    for (int k = 0; k < n_sets; k++)
        for (int64_t n = 1; n <= MOST; n += n < 70 ? 1 : 13)
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) finish_both(&sets[k], n, kinds[i]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, set_up, NULL); }
