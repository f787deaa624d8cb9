/* test_curves.c - times between measured points, worked out by hand. The hardware has no launch and 1 FLOP and 1 byte a
 * second, so the roofline of add, [rows, cols] of fp32, is 4 * rows * cols seconds. */
#include "tests/lib/test.h"
#include "tests/lib/built_ranks.h"
#include "sim/cost.h"
#include "sim/sizes.h"

#include <math.h>

#define NEAR(got, want) assert_float_equal((got) / (want), 1, 1e-3)

static tri_kernel_point two[] = {{.size = {1, 16}, .seconds = 64 * 2}, {.size = {1, 64}, .seconds = 256 * 8}};
static tri_kernel_point fast[] = {{.size = {1, 16}, .seconds = 64}, {.size = {1, 64}, .seconds = 256}};
static tri_kernel_point product[] = {{.size = {8, 8, 8}, .seconds = 5}, {.size = {8, 16, 8}, .seconds = 7}};

static tri_hardware clockwork(tri_kernel_curve *curve, int n) {
    return (tri_hardware){.f32 = 1, .half = 1, .attention = 1, .bytes = 1, .copy = 1, .ranks_per_node = 1,
                          .near = {0, 1}, .far = {0, 1}, .kernel = curve, .n_kernels = n};
}

static int of(const char *name) { return tri__variant_find(name); }

static double seconds(const tri_hardware *h, const char *op, tri_dtype dtype, int threads, double a, double b,
                      double c) {
    tri_kernel_call call = {.variant = of(op), .dtype = dtype, .threads = threads, .size = {a, b, c}};
    return tri__curve_seconds(h, &call);
}

/* Twice the roofline at 16 columns, eight times at 64: four times half-way between their logarithms. Outside of them
 * the ratio of the nearer one holds. */
TEST(between_points) {
    tri_kernel_curve curve = {.variant = of("add"), .dtype = TRI_F32, .threads = 1, .n = 2, .point = two};
    const tri_hardware h = clockwork(&curve, 1);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 16, 0), 128);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 64, 0), 2048);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 32, 0), 128 * 4);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 4, 0), 16 * 2);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 1024, 0), 4096 * 8);
    NEAR(seconds(&h, "add", TRI_F32, 1, 10, 64, 0), 2560 * 8); /* rows were never varied */
}

/* Four threads are twice as fast as one: two are in the middle; more than four are as fast as four. */
TEST(between_threads) {
    tri_kernel_point four[] = {{.size = {1, 16}, .seconds = 32}, {.size = {1, 64}, .seconds = 128}};
    tri_kernel_curve curve[] = {{.variant = of("add"), .dtype = TRI_F32, .threads = 1, .n = 2, .point = fast},
                                {.variant = of("add"), .dtype = TRI_F32, .threads = 4, .n = 2, .point = four}};
    const tri_hardware h = clockwork(curve, 2);
    NEAR(seconds(&h, "add", TRI_F32, 1, 1, 16, 0), 64);
    NEAR(seconds(&h, "add", TRI_F32, 4, 1, 16, 0), 32);
    NEAR(seconds(&h, "add", TRI_F32, 2, 1, 16, 0), 64 / sqrt(2));
    NEAR(seconds(&h, "add", TRI_F32, 16, 1, 16, 0), 32);
}

/* Each code has its curves; pack that keeps errors has its own, and takes the other's where it has none. */
TEST(codes) {
    tri_kernel_curve curve[] = {
        {.variant = of("pack"), .dtype = TRI_F32, .threads = 1, .code = TRI_CODE_INT8, .n = 2, .point = fast},
        {.variant = of("pack"), .dtype = TRI_F32, .threads = 1, .code = TRI_CODE_INT8, .adds = 1, .n = 2, .point = two},
        {.variant = of("pack"), .dtype = TRI_F32, .threads = 1, .code = TRI_CODE_FP8, .n = 2, .point = two}};
    const tri_hardware h = clockwork(curve, 3);
    const struct {
        tri_code code;
        int adds;
        double want;
    } cases[] = {{TRI_CODE_INT8, 0, 64}, {TRI_CODE_INT8, 1, 128}, {TRI_CODE_FP8, 0, 128}, {TRI_CODE_FP8, 1, 128},
                 {TRI_CODE_SIGNS, 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        NEAR(tri__curve_seconds(&h, &(tri_kernel_call){.variant = of("pack"),
                                                       .threads = 1,
                                                       .adds = cases[i].adds,
                                                       .size = {1, 16},
                                                       .code = cases[i].code}),
             cases[i].want);
}

/* Attention of ragged sequences takes twice as long as of equal ones of the same work: half-way between, sqrt(2). */
TEST(ragged) {
    tri_kernel_point points[] = {{.size = {64, 16, 2, 8, 1}, .seconds = 100},
                                 {.size = {64, 16, 2, 8, 4}, .seconds = 200}};
    tri_kernel_curve curve = {.variant = of("attention"), .dtype = TRI_F32, .threads = 1, .n = 2, .point = points};
    const tri_hardware h = clockwork(&curve, 1);
    const double raggedness[] = {1, 2, 4, 9}, want[] = {100, 100 * sqrt(2), 200, 200};
    for (int i = 0; i < 4; i++) {
        const tri_kernel_call call = {
            .variant = of("attention"), .dtype = TRI_F32, .threads = 1, .size = {64, 16, 2, 8, raggedness[i]}};
        NEAR(tri__curve_seconds(&h, &call), want[i]);
    }
}

/* Two threads and tiles of 8 rows: a product of 24 rows is three tiles, two after each other: as long as 32 rows. */
TEST(tiles) {
    const tri_kernel_curve curve = {.variant = of("linear"), .threads = 2, .tile = {8, 0}},
                           whole = {.variant = of("linear"), .threads = 2},
                           gradient = {.variant = of("linear_dw"), .threads = 2, .tile = {8, 16}};
    NEAR(tri__product_imbalance(&curve, (double[]){24, 64, 64}), 4.0 / 3);
    NEAR(tri__product_imbalance(&curve, (double[]){32, 64, 64}), 1);
    NEAR(tri__product_imbalance(&curve, (double[]){8, 64, 64}), 2); /* one thread has nothing to do */
    NEAR(tri__product_imbalance(&whole, (double[]){8, 64, 64}), 1);
    NEAR(tri__product_imbalance(&gradient, (double[]){999, 8, 48}), 4.0 / 3); /* [8, 48]: three tiles */
}

/* An operation that was not measured: like its sibling; with 16 bits like the other type of 16 bits; else not known. */
TEST(siblings) {
    tri_kernel_curve curve[] = {
        {.variant = of("linear"), .dtype = TRI_BF16, .threads = 1, .n = 2, .point = product},
        {.variant = of("add_din"), .dtype = TRI_F32, .threads = 1, .adds = 1, .n = 2, .point = fast}};
    const tri_hardware h = clockwork(curve, 2);
    NEAR(seconds(&h, "linear_gelu", TRI_BF16, 1, 8, 16, 8), 7);
    NEAR(seconds(&h, "linear_gelu_din", TRI_BF16, 1, 8, 8, 8), 5); /* by linear_din, by linear */
    NEAR(seconds(&h, "linear", TRI_F16, 1, 8, 8, 8), 5);
    NEAR(seconds(&h, "add_din", TRI_F32, 1, 1, 16, 0), 64); /* only calls that add were measured */
    assert_true(seconds(&h, "linear", TRI_F32, 1, 8, 8, 8) < 0);
    assert_true(seconds(&h, "gelu", TRI_F32, 1, 8, 8, 0) < 0);
}

/* Every instruction of a real program has sizes, and costs what its curve or the roofline says. */
TEST(programs) {
    tiny t;
    tri_kernel_curve curve = {.variant = of("linear"), .dtype = TRI_F32, .threads = 1, .n = 2, .point = product};
    const tri_hardware h = clockwork(&curve, 1), none = clockwork(NULL, 0);
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    const tri_program *p = t.program[TRI_TRAIN];
    const double *with = tri__program_seconds(&t.arena, p, &(tri_costs){.hardware = &h}),
                 *without = tri__program_seconds(&t.arena, p, &(tri_costs){.hardware = &none});
    int products = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        double size[TRI_SIZES];
        const char *name[TRI_SIZES];
        int n = tri__instr_sizes(p, &p->instr[i], &p->max, size);
        assert_int_equal(n, tri__op_sizes(tri__instr_row(&p->instr[i]), name));
        for (int k = 0; k < n; k++) assert_true(size[k] >= 1 && isfinite(size[k]));
        if (p->instr[i].op == TRI_OP_linear && !p->instr[i].attr.activation) {
            NEAR(with[i], seconds(&h, "linear", TRI_F32, 1, size[0], size[1], size[2]));
            products++;
        } else if (tri__curve_seconds(
                       &h, &(tri_kernel_call){.variant = tri__variant((tri_op)p->instr[i].op, &p->instr[i].attr),
                                              .threads = 1,
                                              .size = {1, 1, 1}}) < 0) {
            assert_true(with[i] == without[i]);
        }
    }
    assert_true(products > 4);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
