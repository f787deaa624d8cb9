/* test_quantized.c - 8-bit factors and their products, to the bit: rows of device "cpu" equal the reference rows in
 * every width of the computing type, and both have the exact properties that files of quantised weights and
 * tensor-parallel ranks depend on. */
#include "tests/lib/test.h"
#include "tests/lib/kernel_call.h"
#include "device/operands.h"
#include "numbers/quantized.h"

static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
static const char *const devices[] = {"cpu", "reference"};

typedef struct tables {
    tri_kernel_table cpu, reference;
    tri_dtype type, loose;
    unsigned left_out; /* optional operands */
    int cases;
} tables;

static tables *tables_open(void) {
    tables *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    return all;
}

/* Activations after the product may be computed in another way; everything up to them has one result. */
static int is_exact(const tri_op_row *row, int arg) { return !row->act || arg == TRI_ARG(linear, h); }

static void bits_case(const kernel_case *at, void *context) {
    tables *all = context;
    const tri_op_row *row = tri__variant_row(at->variant);
    for (int threads = 1; threads <= 3; threads++) {
        kernel_call want, got;
        kernel_call_open_mixed(&want, at, all->type, all->loose, 0, 0, all->left_out);
        kernel_call_open_mixed(&got, at, all->type, all->loose, 0, 0, all->left_out);
        kernel_call_run(&want, &all->reference, 1);
        kernel_call_run(&got, &all->cpu, threads);
        for (int a = 0; a < row->n_args; a++)
            if (tri__access_writes(row->arg[a].access) && got.block[a] && is_exact(row, a) &&
                memcmp(got.block[a], want.block[a], got.bytes[a] + 2 * GUARD) != 0)
                kernel_call_fail(&got, a, "differs from the reference row");
        kernel_call_close(&want);
        kernel_call_close(&got);
    }
    all->cases++;
}

/* Around the widths of vector and matrix instructions, and of models. */
TEST(test_bits) {
    static const kernel_grid grids[] = {
        {"quantize_int8 quantize_fp8", "T=0,1,2,7,17 I=1,3,15,16,17,33,64,100,387 M=0,1,3"},
        {"row_max quantize_din", "T=0,1,2,7,17 I=1,3,15,16,17,33,64,100,387"},
        {"linear_int8 linear_gelu_int8", "T=0,1,2,3,7,8,9,17 O=1,3,8,15,16,17,33 I=1,3,7,8,9,16,31,64,65"},
        {"linear_int8 linear{act}_int8", "T=5,65 O=130 I=387"},
    };
    static const kernel_grid embed[] = {{"embed_int8", "T=0,1,7,33 H=1,3,16,20,100 V=37 P=130 Y=2"}};
    static const kernel_grid bias[] = {{"linear_int8", "T=0,1,7,17 O=1,17,33 I=1,16,65"}};
    tables *all = tables_open();
    for (int i = 0; i < 3; i++) {
        all->type = types[i];
        for (int wide = 0; wide < 2; wide++)
            for (all->left_out = 0; all->left_out <= 3u << TRI_ARG(embed, position);
                 all->left_out += 1u << TRI_ARG(embed, position)) { /* none, each, both */
                all->loose = wide ? TRI_F32 : types[i];
                kernel_cases(embed, 1, bits_case, all);
            }
        all->left_out = 0;
        kernel_cases(grids, 4, bits_case, all);
        all->left_out = 1u << TRI_ARG(linear, b);
        kernel_cases(bias, 1, bits_case, all);
    }
    assert_true(all->cases > 3000);
    free(all);
}

/* Runs quantize on x [T,I] into q [T,I] and s [T]; m [M]: NULL, or maxima. */
static void quantize(const tri_kernel_table *table, tri_factors factors, int64_t T, int64_t I, float *x, float *m,
                     int64_t M, void *q, float *s) {
    const tri_attr attr = {.factors = factors};
    int variant = tri__variant(TRI_OP_quantize, &attr);
    tri_call call = {.op = TRI_OP_quantize, .table = table, .attr = &attr, .threads = 2,
                     .t = {{q, T, I}, {s, T, 1}, {x, T, I}, {m, M, 1}},
                     .dtype = {factors == TRI_FACTORS_INT8 ? TRI_I8 : TRI_F8_E4M3, TRI_F32, TRI_F32, TRI_F32}};
    call.work = calloc(1, (size_t)tri__workspace_bytes(&table->work[variant][TRI_F32], T, I, 0) + 64);
    table->run[variant][TRI_F32](&call);
    free(call.work);
}

enum { T = 200, I = 48 };

/* Rows of all sizes: 1e-25 .. 1e25 and 0. */
static void fill_rows(float *x) {
    uint64_t random = 5;
    for (int t = 0; t < T; t++) {
        double size = t % 20 == 3 ? 0 : pow(10, uniform(&random, -25, 25));
        for (int i = 0; i < I; i++) x[t * I + i] = (float)(size * uniform(&random, -1, 1));
    }
}

/* scale * q is exact in fp32, and quantising it again gives the same scale and the same q: so a file of s * q holds
 * what it was made from. Holds for a scale of any row, also of one whose largest |q| is not 127. */
TEST(test_again) {
    static float x[T * I], back[T * I], s[2][T];
    static int8_t q[2][T * I];
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        fill_rows(x);
        quantize(&table, TRI_FACTORS_INT8, T, I, x, NULL, 0, q[0], s[0]);
        for (int k = 0; k < T * I; k++) {
            double exact = (double)s[0][k / I] * q[0][k];
            back[k] = s[0][k / I] * q[0][k];
            assert_true((double)back[k] == exact);
            assert_true(fabs((double)x[k] - exact) <= 0.5001 * (double)s[0][k / I]);
        }
        quantize(&table, TRI_FACTORS_INT8, T, I, back, NULL, 0, q[1], s[1]);
        assert_memory_equal(s[0], s[1], sizeof s[0]);
        assert_memory_equal(q[0], q[1], sizeof q[0]);
    }
}

/* The same through 16 bits of a scale: every one of them, times 127, gives itself again. */
TEST(test_every_scale) {
    for (uint32_t bits = 0x3F800000; bits < 0x40000000; bits += 0x100) {
        float scale = tri__float_of_bits(bits), largest = scale * TRI_INT8_MAX;
        assert_true(tri__quantized_scale(largest, TRI_INT8_MAX) == scale);
        assert_true((double)largest == (double)scale * 127);
        for (int q = -127; q <= 127; q += 2) assert_int_equal(tri__to_int8(scale * (float)q, scale), q);
    }
}

TEST(test_ties_and_zeros) {
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        float x[4][8] = {{127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f}, {0}, {-0.0f},
                         {1e-31f, -1e-31f, 0, 0, 0, 0, 0, 0}}; /* below 2^-100: 0 */
        int8_t q[4][8];
        float s[4];
        quantize(&table, TRI_FACTORS_INT8, 4, 8, x[0], NULL, 0, q, s);
        static const int8_t want[8] = {127, 0, 2, 2, 0, -2, -2, 126};
        assert_true(s[0] == 1);
        assert_memory_equal(q[0], want, sizeof want);
        for (int t = 1; t < 4; t++) assert_true(s[t] == 0);
        for (int k = 8; k < 32; k++) assert_int_equal(q[k / 8][k % 8], 0);
    }
}

/* A row with a NaN or an infinity gives NaN in all of its products, and no other row does; a weight's row likewise. */
TEST(test_not_a_number_shows) {
    enum { O = 3 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int d = 0; d < 2; d++)
        for (int b = 0; b < 3; b++)
            for (int fp8 = 0; fp8 < 2; fp8++) {
                tri_kernel_table table;
                tri__device_find(devices[d])->kernels(&table);
                float x[5][7], s[5], w[O][7], ws[O], y[5][O];
                uint8_t q[5][7], wq[O][7];
                for (int k = 0; k < 35; k++) x[k / 7][k % 7] = (float)(k % 5) - 1;
                for (int k = 0; k < 7 * O; k++) w[k / 7][k % 7] = (float)(k % 3) - 1;
                x[2][4] = bad[b];
                w[1][6] = bad[b];
                tri_attr attr = {.factors = fp8 ? TRI_FACTORS_FP8 : TRI_FACTORS_INT8};
                int variant = tri__variant(TRI_OP_linear, &attr);
                quantize(&table, (tri_factors)attr.factors, 5, 7, x[0], NULL, 0, q, s);
                quantize(&table, (tri_factors)attr.factors, O, 7, w[0], NULL, 0, wq, ws);
                int type = fp8 ? TRI_F8_E4M3 : TRI_I8;
                OPERANDS(linear);
                tri_call call = {.op = TRI_OP_linear, .attr = &attr, .table = &table, .threads = 1,
                                 .t = {[ARG(y)] = {y, 5, O}, [ARG(x)] = {q, 5, 7}, [ARG(s)] = {s, 5, 1},
                                       [ARG(w)] = {wq, O, 7}, [ARG(ws)] = {ws, O, 1}},
                                 .dtype = {[ARG(x)] = (uint8_t)type, [ARG(w)] = (uint8_t)type}};
                call.work = calloc(1, (size_t)tri__workspace_bytes(&table.work[variant][TRI_F32], 5, O, 0) + 64);
                table.run[variant][TRI_F32](&call);
                free(call.work);
                for (int t = 0; t < 5; t++)
                    for (int o = 0; o < O; o++) assert_int_equal(isnan(y[t][o]) != 0, t == 2 || o == 1);
            }
}

/* Ranks that have columns of a row each take the largest of all their maxima: the same scale and integers as of the
 * whole row. */
TEST(test_columns_of_ranks) {
    enum { RANKS = 3, EACH = I / RANKS };
    static float x[T * I], part[T * EACH], m[RANKS * T], s[2][T];
    static int8_t q[T * I], own[T * EACH];
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        fill_rows(x);
        x[7 * I + I - 1] = NAN;
        quantize(&table, TRI_FACTORS_INT8, T, I, x, NULL, 0, q, s[0]);
        for (int pass = 0; pass < 2; pass++) /* first all maxima, then the integers */
            for (int rank = 0; rank < RANKS; rank++) {
                for (int k = 0; k < T * EACH; k++) part[k] = x[k / EACH * I + rank * EACH + k % EACH];
                tri_call call = {.op = TRI_OP_row_max, .table = &table, .threads = 1,
                                 .t = {{m + rank * T, T, 1}, {part, T, EACH}}};
                if (pass == 0) table.run[plain(TRI_OP_row_max)][TRI_F32](&call);
                if (pass == 0) continue;
                quantize(&table, TRI_FACTORS_INT8, T, EACH, part, m, RANKS * T, own, s[1]);
                for (int t = 0; t < T; t++) {
                    assert_true(t == 7 ? isnan(s[1][t]) && isnan(s[0][t]) : s[1][t] == s[0][t]);
                    assert_memory_equal(own + t * EACH, q + t * I + rank * EACH, EACH);
                }
            }
    }
}

/* Straight-through gradients say that s * q moves as x does: it does, in steps. Moved by n scales, without touching
 * the row's maximum, an element's q moves by n, up to the rounding of each end. */
TEST(test_follows_its_argument) {
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    uint64_t random = 9;
    for (int n = -100; n <= 100; n += 7) {
        float x[2][2] = {{1, (float)uniform(&random, -0.2, 0.2)}}, s[2];
        int8_t q[2][2];
        x[1][0] = 1, x[1][1] = x[0][1] + (float)n / 127;
        if (fabsf(x[1][1]) > 1) continue;
        quantize(&table, TRI_FACTORS_INT8, 2, 2, x[0], NULL, 0, q, s);
        assert_true(abs(q[1][1] - q[0][1] - n) <= 1);
    }
}

TEST(test_e4m3) {
    for (int code = 0; code < 256; code++) {
        float value = tri__from_e4m3((uint8_t)code);
        if ((code & 0x7F) == 0x7F) {
            assert_true(isnan(value));
            assert_int_equal(tri__to_e4m3(value), 0x7F);
            continue;
        }
        int e = code >> 3 & 15, fraction = code & 7;
        double want = (e ? ldexp(8 + fraction, e - 10) : ldexp(fraction, -9)) * (code & 0x80 ? -1 : 1);
        assert_true((double)value == want && (signbit(value) != 0) == (code >= 0x80));
        assert_int_equal(tri__to_e4m3(value), code);
        if ((code & 0x7F) == 0x7E) continue;
        /* Halfway to the next code is rounded to the even one; anything less, or more, to the nearer one. */
        float next = tri__from_e4m3((uint8_t)(code + 1)), middle = (value + next) / 2;
        assert_int_equal(tri__to_e4m3(middle), code + (code & 1));
        assert_int_equal(tri__to_e4m3(nextafterf(middle, value)), code);
        assert_int_equal(tri__to_e4m3(nextafterf(middle, next)), code + 1);
    }
    assert_int_equal(tri__to_e4m3(1e9f), 0x7E);
    assert_int_equal(tri__to_e4m3(-INFINITY), 0xFE);
    assert_int_equal(tri__to_e4m3(463.9f), 0x7E);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
