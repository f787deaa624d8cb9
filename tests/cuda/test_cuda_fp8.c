/* test_cuda_fp8.c - kernels of FP8 training (ops_fp8.def) on a GPU. Over ragged shapes against the rows of device
 * "reference", as test_cuda_kernels.c does; at the sizes of training by samples: products against sums in double of
 * the quantised factors, 8-bit results against what they are made from, in both orders. Skipped without a GPU.
 *
 *   test_cuda_fp8 --few   only every 24th ragged shape: for tools that check every access
 *
 * timeout: 240 */
#include "device/activation.h"
#include "device/operands.h"
#include "tests/lib/test.h"
#include "tests/lib/kernel_gpu.h"

static gpu *the_gpu; /* made by main, before the tests */

static void try_some(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!g->few || !g->seen[at->variant] || g->turn++ % 24 == 0) try_case(at, context);
}

TEST(rows_are_the_references) {
    static const kernel_grid grids[] = {
        {"fp8_cast", "T=0,1,16,48,144 I=3,8,64,72,768 G=0,1"},
        {WEIGHTS_8_BITS, "T=0,16 I=5,64 O=48 H=24 N=1 C=264 B=144 D=136 M=10"},
        {WEIGHTS_8_BITS, "T=48,272 I=64,264 O=16 H=768 M=4"}, /* in one launch */
        {WEIGHTS_8_BITS, "T=144 I=72 O=64 H=256 N=384 C=128 B=128 D=384 M=12"},
        {WEIGHTS_8_BITS, "T=1 I=8,4096,4100 O=1 H=2064 N=1 C=48 M=7"}, /* parts of shards */
        {"fp8_scales fp8_history", "K=3,300 M=1,16"},
        {"fp8_check", "K=3,300"},
        {SCALED, "T=0,1,16,48 O=1,16,100 I=1,64"},
        {SCALED, "T=64 O=64,272 I=64"},
        {"linear_scaled linear_scaled_din linear{act}_scaled linear{act}_scaled_din", /* in one kernel */
         "T=1024,1168 O=144 I=144"},
        {NORMS_SCALED, "T=0,1,16,48 H=1,16,100"},
        {NORMS_SCALED, "T=48,272 H=64,256,768,1024"},
        {NORMS_SCALED, "T=48 H=2048,2056,3080"},
        {ATTENTION_SCALED, "L=0,2,4 X=0,9 A=2 E=20,64"},
        {ATTENTION_SCALED, "L=5,11 M=0,1 A=3 E=64,128"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        memset(the_gpu->seen, 0, sizeof the_gpu->seen);
        kernel_cases(grids, sizeof grids / sizeof *grids, try_some, the_gpu);
    }
}

/* So many rows that a block gathers those of a norm. */
TEST(many_rows) {
    static const kernel_grid grids[] = {
        {"dropout_add_norm_scaled", "T=12320 H=64"},
        {"dropout_add_norm_scaled", "T=6160 H=776"},
        {"dropout_add_norm_scaled", "T=3088 H=1544"},
        {"dropout_add_norm_scaled_din", "T=25600 H=64"},
    };
    the_gpu->type = TRI_BF16;
    if (the_gpu->few) skip();
    kernel_cases(grids, sizeof grids / sizeof *grids, try_case, the_gpu);
}

/* ---- Attention in bytes is attention in the computing type, then a cast: to the bit, but for the order of db ---- */

/* A call of a variant with what `like` has in operands of the same names. */
static void open_like(kernel_call *of, int variant, const kernel_call *like) {
    kernel_case at = like->at;
    const tri_op_row *row = tri__variant_row(variant);
    at.op = row->op, at.variant = variant;
    kernel_call_open_mixed(of, &at, like->type, like->loose, like->attr.p, 0, 0);
    for (int a = 0; a < row->n_args; a++) {
        int from = tri__row_arg(tri__variant_row(like->at.variant), row->arg[a].name);
        if (from < 0 || !of->block[a] || !like->block[from] || tri__access_writes(row->arg[a].access)) continue;
        assert_int_equal(of->bytes[a], like->bytes[from]);
        memcpy(of->block[a], like->before[from], of->bytes[a] + 2 * GUARD);
        memcpy(of->before[a], like->before[from], of->bytes[a] + 2 * GUARD);
    }
}

static void expect_bytes(gpu *g, const kernel_call *got, const kernel_call *from) {
    const tri_op_row *row = tri__variant_row(got->at.variant);
    int q = tri__row_arg(row, "q"), t = tri__row_arg(row, "transposed"), most = tri__row_arg(row, "most");
    size_t n = got->bytes[q];
    uint8_t *made[2] = {malloc(n + 1), malloc(n + 1)};
    float largest = *(const float *)(const void *)(got->before[most] + GUARD);
    int64_t rows = got->call.t[q].rows, cols = got->call.t[q].cols;
    tri_call cast = {.op = TRI_OP_fp8_cast, .threads = 1};
    const tri_tensor of[] = {{made[0], rows, cols}, {made[1], rows, cols}, {&largest, 1, 1}, from->call.t[0],
                             got->call.t[tri__row_arg(row, "sq")]};
    for (int k = 0; k < 5; k++) cast.t[k] = of[k];
    cast.dtype[0] = cast.dtype[1] = got->call.dtype[q], cast.dtype[3] = (uint8_t)got->type;
    g->reference.run[plain(TRI_OP_fp8_cast)][got->type](&cast);
    for (int k = 0; k < 2; k++)
        if (memcmp(made[k], got->call.t[k ? t : q].data, n) != 0)
            kernel_call_fail(got, k ? t : q, "is not the cast of what attention gives");
    if (largest != *(const float *)got->call.t[most].data) kernel_call_fail(got, most, "is not the largest");
    free(made[0]), free(made[1]);
}

static void expect_sums(const kernel_call *got, int db, const kernel_call *want, int of) {
    double limit = 1e-5 * (double)got->call.t[0].rows;
    for (int64_t i = 0; i < operand_count(got, db); i++)
        if (!(fabs(kernel_value(got, db, i) - kernel_value(want, of, i)) <= limit))
            kernel_call_fail(got, db, "is not that of attention");
}

static void try_attention(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    int back = at->op == TRI_OP_attention_din;
    int variant = tri__variant(at->op, &(tri_attr){.sums = back, .mask = !back && at->dim['M' - 'A']});
    for (int i = 0; i < 4; i++) { /* dropout off and on, aligned to 256 bytes and to one element */
        kernel_call got, want;
        kernel_call_open_mixed(&got, at, g->type, TRI_F32, i % 2 ? 0.3f : 0, 0, 0);
        open_like(&want, variant, &got);
        run_on_gpu(g, &got, i / 2), run_on_gpu(g, &want, i / 2);
        const tri_op_row *row = tri__variant_row(variant);
        for (int a = back; a < row->n_args; a++) { /* dqkv has become q */
            int same = kernel_case_arg(at, row->arg[a].name);
            if (!tri__access_writes(row->arg[a].access) || !want.block[a]) continue;
            if (strcmp(row->arg[a].name, "db") == 0) expect_sums(&got, same, &want, a);
            else if (memcmp(want.block[a] + GUARD, got.block[same] + GUARD, want.bytes[a]) != 0)
                kernel_call_fail(&got, same, "is not that of attention");
        }
        expect_bytes(g, &got, &want);
        kernel_call_close(&got), kernel_call_close(&want);
    }
    g->seen[at->variant]++;
}

TEST(attention_in_bytes) {
    static const kernel_grid grids[] = {
        {ATTENTION_SCALED, "L=5,11 X=0,16 A=2 E=40,64,128"},       /* few rows: a cast */
        {ATTENTION_SCALED, "L=5 X=12096 A=2 E=64"},                /* sequences that begin anywhere */
        {ATTENTION_SCALED, "L=11 X=11840 M=0,1 A=2 E=64"},         /* at multiples of 16 */
        {ATTENTION_SCALED, "L=7 X=11948 M=0,1 A=3 E=64,128"},      /* tiles for all processors of a GPU */
        {ATTENTION_SCALED, "L=9 X=11172 A=2 E=64"},
        {ATTENTION_SCALED, "L=11 X=11840 M=0,1 A=3 E=128"},
    };
    for (int i = 1; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, the_gpu->few ? 4 : sizeof grids / sizeof *grids, try_attention, the_gpu);
    }
}

/* Zeros, numbers beyond the largest, and one that is none. */
static void try_extremes(const kernel_case *at, void *context) {
    OPERANDS(fp8_cast);
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    for (int which = 0; which < 3; which++)
        for (int elements = 0; elements <= 1; elements++) {
            kernel_call want, got;
            kernel_call_open_as(&want, at, g->type, 0, 0, 0);
            kernel_call_open_as(&got, at, g->type, 0, 0, 0);
            for (kernel_call *k = &want; k; k = k == &want ? &got : NULL) {
                uint16_t *x = k->call.t[ARG(x)].data;
                *(float *)k->call.t[ARG(most)].data = 0;
                for (int64_t i = 0; i < operand_count(k, ARG(x)); i++)
                    if (which < 2) x[i] = (uint16_t)(which ? tri__to_bf16((float)(i % 7 - 3) * 1e30f) : 0);
                if (which == 2) x[operand_count(k, ARG(x)) / 2] = 0x7FC1;
                for (int a = 0; a < TRI_MAX_ARGS; a++)
                    if (k->block[a]) memcpy(k->before[a], k->block[a], k->bytes[a] + 2 * GUARD);
            }
            kernel_call_run(&want, &g->reference, 1);
            run_on_gpu(g, &got, elements);
            for (int a = ARG(q); a <= ARG(transposed); a++)
                if (memcmp(want.block[a], got.block[a], want.bytes[a] + GUARD) != 0)
                    kernel_call_fail(&got, a, "of extreme numbers differs");
            double most = kernel_value(&got, ARG(most), 0), expected = kernel_value(&want, ARG(most), 0);
            if (which == 2 ? !isnan(most) : most != expected) kernel_call_fail(&got, ARG(most), "is another");
            kernel_call_close(&want), kernel_call_close(&got);
        }
}

TEST(extreme_numbers) {
    static const kernel_grid grid = {"fp8_cast", "T=16,144 I=5,64,256 G=0,1"};
    the_gpu->type = TRI_BF16;
    kernel_cases(&grid, 1, try_extremes, the_gpu);
}

/* ---- Sizes of training ---- */

static double scale(const kernel_call *k, int arg) { return kernel_value(k, arg, 0); }

/* Row i of operand a times row j of operand b, both of n bytes; `size`: the sum of sizes. */
static double dot(const kernel_call *k, int a, int64_t i, int b, int64_t j, int64_t n, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t c = 0; c < n; c++) {
        double term = kernel_value(k, a, i * n + c) * kernel_value(k, b, j * n + c);
        sum += term, *size += fabs(term);
    }
    return sum;
}

enum { SAMPLES = 1500 };
static const struct product_row {
    tri_op op;
    unsigned facts;
    int y, x, w, sx, sw, b; /* operands; b: the bias, or -1 */
} products[] = {
#define OF(op, facts, y, x, w, sx, sw) \
    TRI_OP_##op, facts, TRI_ARG(op, y), TRI_ARG(op, x), TRI_ARG(op, w), TRI_ARG(op, sx), TRI_ARG(op, sw)
    {OF(linear, 0, y, x, w, sx, sw), TRI_ARG(linear, b)},
    {OF(linear_din, 0, dx, dy, w, sdy, sw), -1},
    {OF(linear_dw, 0, dw, dy, x, sdy, sx), -1},
    {OF(linear, TRI_FACT_ACT, h, x, w, sx, sw), TRI_ARG(linear, b)},
#undef OF
};

/* Samples of y, and the first and last elements. Rounding to 16 bits, and sums with about 13 bits. */
static void check_products(const kernel_call *k, const struct product_row *row, unsigned acc) {
    const tri_tensor *y = &k->call.t[row->y];
    int64_t n = operand_count(k, row->y), in = operand_count(k, row->x) / y->rows;
    uint64_t random = 7;
    for (int s = 0; s < SAMPLES; s++) {
        int64_t i = s == 0 ? 0 : s == 1 ? n - 1 : (int64_t)(next_random(&random) % (uint64_t)n);
        double size, sum = dot(k, row->x, i / y->cols, row->w, i % y->cols, in, &size),
                     factor = scale(k, row->sx) * scale(k, row->sw);
        sum /= factor, size /= factor;
        if (row->b >= 0) sum += kernel_value(k, row->b, i % y->cols);
        if (acc) {
            const void *before = k->before[row->y] + GUARD;
            sum += operand_dtype(k, row->y) == TRI_F32 ? ((const float *)before)[i]
                                                       : tri__from_bf16(((const uint16_t *)before)[i]);
        }
        double got = kernel_value(k, row->y, i);
        if (!(fabs(got - sum) <= 0x1p-8 * fabs(sum) + 4e-4 * size)) {
            char text[120];
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, got, sum);
            kernel_call_fail(k, row->y, text);
        }
    }
}

/* `transposed` has the bytes of q, in columns. */
static void check_transposed(const kernel_call *k, int q, int transposed) {
    int64_t rows = k->call.t[q].rows, cols = k->call.t[q].cols;
    const uint8_t *a = k->call.t[q].data, *b = k->call.t[transposed].data;
    for (int64_t t = 0; t < rows; t++)
        for (int64_t c = 0; c < cols; c++)
            if (a[t * cols + c] != b[c * rows + t]) kernel_call_fail(k, transposed, "has other bytes");
}

/* q is `value` of each element times s; `unsure`: of value. Returns the largest |value|. */
static double check_bytes(const kernel_call *k, int q, int64_t i, double value, double s, double unsure) {
    double limit = operand_dtype(k, q) == TRI_F8_E4M3 ? 448 : 57344, got = kernel_value(k, q, i);
    double scaled = fmax(-limit, fmin(limit, value * s));
    if (!(fabs(got - scaled) <= 0.51 * kernel_step_8_bits(k, q, fmax(fabs(got), fabs(scaled))) + unsure * s)) {
        char text[120];
        snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, got, scaled);
        kernel_call_fail(k, q, text);
    }
    return fabs(value);
}

static tri_activation act_of(const kernel_call *k) { return (tri_activation)(k->attr.activation - 1); }

static void check_act(const kernel_call *k) {
    OPERANDS(linear);
    double most = kernel_value(k, ARG(most), 0), largest = ((float *)(void *)(k->before[ARG(most)] + GUARD))[0];
    for (int64_t i = 0; i < operand_count(k, ARG(y)); i++) {
        double y = activation_at(act_of(k), kernel_value(k, ARG(h), i));
        largest = fmax(largest, check_bytes(k, ARG(y), i, y, scale(k, ARG(sq)), 0x1p-8 * fabs(y)));
    }
    check_transposed(k, ARG(y), ARG(transposed));
    if (!(fabs(most - largest) <= 0x1p-7 * largest)) kernel_call_fail(k, ARG(most), "is not the largest");
}

static void check_act_din(const kernel_call *k) {
    OPERANDS(linear_din);
    const tri_tensor *q = &k->call.t[ARG(dx)];
    int64_t in = k->call.t[ARG(dy)].cols;
    uint64_t random = 7;
    double factor = scale(k, ARG(sdy)) * scale(k, ARG(sw)), size;
    for (int s = 0; s < SAMPLES; s++) {
        int64_t i = (int64_t)(next_random(&random) % (uint64_t)operand_count(k, ARG(dx)));
        double slope = activation_din(act_of(k), 1, kernel_value(k, ARG(h), i)),
               dx = dot(k, ARG(dy), i / q->cols, ARG(w), i % q->cols, in, &size) / factor;
        check_bytes(k, ARG(dx), i, dx * slope, scale(k, ARG(sq)),
                    0x1p-7 * fabs(dx * slope) + (4e-4 * size / factor + 0x1p-8 * fabs(dx)) * fabs(slope));
    }
    for (int s = 0; s < 8; s++) { /* sums of whole columns */
        int64_t c = s == 0 ? 0 : s == 1 ? q->cols - 1 : (int64_t)(next_random(&random) % (uint64_t)q->cols);
        double sum = k->call.acc ? (double)((float *)(void *)(k->before[ARG(db)] + GUARD))[c] : 0, sizes = fabs(sum);
        for (int64_t t = 0; t < q->rows; t++) {
            double g = activation_din(act_of(k), 1, kernel_value(k, ARG(h), t * q->cols + c)) *
                       dot(k, ARG(dy), t, ARG(w), c, in, &size) / factor;
            sum += g, sizes += fabs(g);
        }
        if (!(fabs(kernel_value(k, ARG(db), c) - sum) <= 2e-3 * sizes)) kernel_call_fail(k, ARG(db), "is another sum");
    }
    check_transposed(k, ARG(dx), ARG(transposed));
}

static void try_large(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned sums = 0;
    for (int a = 0; a < row->n_args; a++)
        if (row->arg[a].access == TRI_ACCESS_A) sums |= 1u << a;
    for (int add = 0; add <= (sums != 0); add++) {
        kernel_call k;
        kernel_call_open_mixed(&k, at, TRI_BF16, TRI_F32, 0, add ? sums : 0, 0);
        run_on_gpu(g, &k, 0);
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            if (products[i].op == at->op && products[i].facts == (row->facts & TRI_FACT_ACT))
                check_products(&k, &products[i], add);
        if (row->act && at->op == TRI_OP_linear) check_act(&k);
        if (row->act && at->op == TRI_OP_linear_din) check_act_din(&k);
        kernel_call_close(&k);
    }
}

TEST(sizes_of_training) {
    if (the_gpu->few) skip();
#define LAYERS "linear_scaled linear_scaled_din linear_scaled_dw linear_gelu_scaled linear_gelu_scaled_din"
    static const kernel_grid grids[] = {
        {LAYERS, "T=4112 O=768 I=3072"}, {LAYERS, "T=2064 O=3072 I=768"},  {LAYERS, "T=2048 O=1024 I=4096"},
        {LAYERS, "T=1024 O=4096 I=1024"}, {LAYERS, "T=1040 O=2048 I=2304"},
        {"linear{act}_scaled linear{act}_scaled_din", "T=1040 O=768 I=1024"},
    };
    kernel_cases(grids, sizeof grids / sizeof *grids, try_large, the_gpu);
}

int main(int argc, char **argv) {
    static gpu g;
    if (!read_arguments(&g, argc, argv)) return 2;
    if (shares_of(&g) > 1) return run_shares(argc, argv, shares_of(&g));
    if (!open_gpu(&g)) {
        printf("%s\n", tri_error());
        return 77;
    }
    the_gpu = &g;
    int failed = run_listed(1, argv, NULL, NULL);
    close_gpu(&g);
    return failed;
}
