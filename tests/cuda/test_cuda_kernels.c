/* test_cuda_kernels.c - every kernel row of the CUDA plug-in against the plain rows of device "reference", over ragged
 * shapes: fp32, bf16 and fp16, accumulating or overwriting, with and without optional operands, aligned to 256 bytes
 * and to one element; run twice, with the same bits; no out-of-bounds writes. Skipped, with the reason, without a GPU.
 *
 *   test_cuda_kernels --few   only every 40th case, and the first ones of each operation: for tools that check every
 *                             access
 *   test_cuda_kernels --own   the same, without timing cuBLASLt's algorithms: racecheck reports hazards in some of its
 *                             kernels
 *
 * timeout: 240 */
#include "tests/lib/kernel_gpu.h"

static gpu *the_gpu; /* made by main, before the tests */

/* Sizes that the GPU's kernels have of their own: tiles of 64 and 128 rows, heads of up to 64 and up to 128 columns,
 * rows that warps hold.
 */
static const kernel_grid own_grids[] = {
    {"linear{act} linear{act}_din", "T=1024,1700 O=256 I=256,64"}, /* tiles of 128 rows by 256 columns, in one kernel */
    {ATTENTION, "L=5,6,7,8 A=2 E=40,64"},
    {ATTENTION, "L=4,5,7 A=1 E=72,128,136"},
    {ATTENTION, "L=4,7 X=70 A=3 E=64"},
    {"attention attention_din",
     "L=4,6 A=6 E=40,128"}, /* of 6 heads one has decisions in groups of 8 that begin with a sequence */
    {"attention_bits attention_din attention_din_db", "L=2,4,5,6,7 X=0,70 M=1 A=3 E=64,128"},
    {"attention_bits attention_din", "L=5,7 M=1 A=6 E=40,72,128,136"}, /* of 6 heads one has decisions in groups of 8 */
    {"attention attention_bits", "L=7 M=1 A=34 E=72,128"}, /* tiles for all processors of a GPU */
    {"attention attention_din", "L=8 A=14 E=64"}, /* more heads of sequences than a GPU has processors */
    {"attention attention_din", "L=5 A=45 E=64"},
    {SPARSE, "L=4,5,6,7 W=0,1,2,3,4 A=2 E=64"},
    {SPARSE, "L=4,7 W=1 X=70 A=3 E=40,72,128"},
    {SPARSE, "L=10 W=8 A=1 E=8"},
    {SPARSE, "L=5,7 W=1,3 A=6 E=64"}, /* of 6 heads one has decisions in groups of 8, as above */
    {BIASED, "L=5,6,7,9 B=16 A=2 E=64"},
    {BIASED, "L=4,7 X=70 B=20 A=6 E=40,72"}, /* of 6 heads one has decisions in groups of 8, as above */
    {DISENTANGLED, "L=5,6,7 B=40 G=1,2,3 A=2 E=64"},
    {DISENTANGLED, "L=9 B=40 G=3 A=2 E=64"}, /* ten tiles in a row */
    {DISENTANGLED, "L=4,7 X=70 B=40 G=3 A=6 E=40,72"},
    {RING_ATTENTION, "L=5,6 J=2 Z=0,1 U=0,1 A=2 E=40,64"},
    {RING_ATTENTION, "L=5,8 J=2 Z=1 U=0 A=6 E=64"},
    {RING_SPARSE, "L=5,7 J=2 Z=0,1 U=0,1 W=0,1,2 A=2 E=64"},
    {RING_SPARSE, "L=6,7 J=3 X=5 Z=1 U=0,2 W=3,4 A=6 E=40,128"},
    {"attention_join", "T=1,17,300 A=3 E=8,40,64"},
    {RING_ATTENTION, "L=4,7 J=3 X=5 Z=1 U=0,2 A=3 E=72,128"},
    {"norm norm_din norm_dw dropout_add_norm dropout_add_norm_din", "T=3,130 H=256,1024,2048,2056,4100"},
    {"norm_dw dropout_add_norm_din gelu_din_db", "T=260 H=768,3072"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=64,1000 O=64,256 I=128,320"},
    {"embed_dw", "T=2000 H=64 V=3,70000 P=7 Y=2"},
    {"row_max quantize_int8 quantize_fp8", "T=3,130 I=256,768,1024,1536,3072,4096,4104 M=0,3"},
    {QUANTIZED, "T=20,600 O=64,200 I=144"},
    {"linear_int8 linear{act}_int8 linear_fp8 linear{act}_fp8", "T=1100 O=136,264 I=16,144"},
    {"linear linear{act}", "T=1,20,40,130,500 O=72,520 I=72"}, /* few rows */
    {DENSE_EXPERTS, "C=4 G=1,2 R=64,130 O=64,72 I=128"},
    {DENSE_EXPERTS, "C=8 R=300 O=256 I=64"},
    {MOVES, "T=300 C=8 K=1,2 R=70 H=64,768"},
    {"linear_int8_din", "T=8 O=3000 I=4232"}, /* restored factors exceed the library's workspace */
    {"linear_int8_dw", "T=3000 O=8 I=4232"},
};

/* The types take turns at the cases that all devices share, which are many; the first of each operation all types
 * try. */
static void try_in_turn(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!g->seen[at->variant] || g->turn++ % (g->few ? 40 : 3) == 0) try_case(at, context);
}

static void try_own(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!g->few || !g->seen[at->variant] || g->turn++ % 8 == 0) try_case(at, context);
}

static void try_grids(int type) {
    gpu *g = the_gpu;
    g->type = types[type];
    g->turn = type;
    memset(g->seen, 0, sizeof g->seen);
    kernel_cases(own_grids, sizeof own_grids / sizeof *own_grids, try_own, g);
    kernel_cases(kernel_grids, kernel_n_grids, try_in_turn, g);
    static const kernel_grid wide = {"linear_int8", "T=4200 O=2048 I=16"}; /* so do sums */
    if (g->type == TRI_F32) kernel_cases(&wide, 1, try_own, g);
    for (int v = 0; v < tri__variant_count(); v++)
        if (tri__variant_computes(v) && !g->seen[v])
            fail_msg("no case tries %s", tri__variant_row(v)->name);
}

static void rows_of_fp32(void **state) {
    (void)state;
    try_grids(0);
}

static void rows_of_bf16(void **state) {
    (void)state;
    try_grids(1);
}

static void rows_of_fp16(void **state) {
    (void)state;
    try_grids(2);
}

static void every_operation_has_rows(void **state) {
    (void)state;
    if (the_gpu->share) skip();
    for (int v = 0; v < tri__variant_count(); v++)
        for (int i = 0; i < 3 && tri__variant_computes(v); i++)
            if (!the_gpu->table.run[v][types[i]])
                fail_msg("no %s row for %s", tri__dtype_name(types[i]), tri__variant_row(v)->name);
}

static void run_aligned(kernel_call *k, void *context) { run_on_gpu(context, k, 0); }
static void run_not_aligned(kernel_call *k, void *context) { run_on_gpu(context, k, 1); }

static void try_parts(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    kernel_parts_try(at, g->type, g->type, run_aligned, context);
    kernel_parts_try(at, g->type, TRI_F32, run_not_aligned, context);
}

static void fused_sums_are_those_apart(void **state) {
    (void)state;
    static const kernel_grid grids[] = {
        {"dropout_add_norm_din gelu_din_db", "T=0,1,17,530 H=1,20,64,384,1032"},
        {"dropout_add_norm_din gelu_din_db", "T=260 H=768,3072"},
        {"attention_din_db", "L=0,4,7 X=0,3 A=2 E=20,72"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, 3, try_parts, the_gpu);
    }
}

/* Where attention's gradient has whole rows of heads of 64 columns, and where the gradient of an activation is formed
 * in a product, sums over rows are added in an order of their own: they are compared with sums in double of what was
 * written. That of attention has the bits of attention_din. */
static void try_sums(const kernel_case *at, void *context) {
    const int dx = 0, db = tri__row_arg(tri__variant_row(at->variant), "db"); /* dqkv of attention_din_db */
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    for (int add = 0; add <= 1; add++) {
        kernel_call k;
        kernel_call_open_mixed(&k, at, g->type, TRI_F32, add ? 0.3f : 0, add ? 1u << db : 0, 0);
        run_on_gpu(g, &k, 0);
        for (int i = 0; i < kernel_n_parts; i++)
            if (kernel_part_of(i, at->variant) && strcmp(kernel_parts[i].part, "attention_din") == 0)
                kernel_part_check(&k, i, run_aligned, g);
        for (int64_t c = 0; c < operand_count(&k, db); c++) {
            double before = add ? (double)((float *)(void *)(k.before[db] + GUARD))[c] : 0, sum = before,
                   size = fabs(before);
            for (int64_t i = c; i < operand_count(&k, dx); i += operand_count(&k, db))
                sum += kernel_value(&k, dx, i), size += fabs(kernel_value(&k, dx, i));
            if (!(fabs(kernel_value(&k, db, c) - sum) <= 3e-6 * size))
                kernel_call_fail(&k, db, "is not the sum of what was written");
        }
        kernel_call_close(&k);
    }
}

static void sums_are_of_what_is_written(void **state) {
    (void)state;
    static const kernel_grid grids[] = {
        {"attention_din_db", "L=0,1,2,5,7,9 X=0,70 A=3 E=64"},
        {"attention_din_db", "L=8 A=14 E=64"}, /* more heads of sequences than a GPU has processors */
        {"attention_din_db", "L=7 A=40 E=64"},
        {"attention_din_db", "L=5,7 M=1 A=3 E=64"},
        {"linear{act}_din", "T=1024,1025,2500 O=64,192 I=256,768"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, sizeof grids / sizeof *grids, try_sums, the_gpu);
    }
}

/* Results of the first `rows` rows alone are those of all rows, to the bit. `k` has been run; `all`: its results. */
static int first_rows_are_the_same(gpu *g, kernel_call *k, char *const *all, int64_t rows) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    kernel_call few = *k;
    int same = 1;
    for (int a = 0; a < row->n_args; a++) {
        if (!k->block[a] || row->arg[a].dims[0] != 'T') continue;
        few.bytes[a] = k->bytes[a] / (size_t)k->call.t[a].rows * (size_t)rows;
        few.call.t[a].rows = rows;
    }
    for (int a = 0; a < row->n_args; a++)
        if (k->block[a]) memcpy(k->block[a], k->before[a], k->bytes[a] + 2 * GUARD);
    run_on_gpu(g, &few, 0);
    for (int a = 0; a < row->n_args; a++)
        if (all[a]) same &= memcmp(few.block[a] + GUARD, all[a], few.bytes[a]) == 0;
    return same;
}

/* A row's bits do not depend on the rows beside it, whatever algorithm their number leads to. */
static void try_fewer_rows(const kernel_case *at, void *context) {
    static const int64_t fewer[] = {1, 2, 7, 16, 33, 64, 100, 128, 300, 512, 777, 1024, 2048, 3000};
    const tri_op_row *row = tri__variant_row(at->variant);
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    kernel_call k;
    char *all[TRI_MAX_ARGS] = {NULL}, text[160], numbers[120] = "";
    kernel_call_open_as(&k, at, g->type, 0, 0, 0);
    run_on_gpu(g, &k, 0);
    for (int a = 0; a < row->n_args; a++) {
        if (!k.block[a] || !tri__access_writes(row->arg[a].access)) continue;
        assert_non_null(all[a] = malloc(k.bytes[a]));
        memcpy(all[a], k.block[a] + GUARD, k.bytes[a]);
    }
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++)
        if (fewer[i] < at->dim['T' - 'A'] && !first_rows_are_the_same(g, &k, all, fewer[i]))
            snprintf(numbers + strlen(numbers), sizeof numbers - strlen(numbers), " %lld", (long long)fewer[i]);
    for (int a = 0; a < row->n_args; a++) free(all[a]);
    kernel_call_close(&k);
    if (!numbers[0]) return;
    print_message("%s, %s: other bits with these numbers of rows:%s\n", kernel_case_text(at, text),
                  tri__dtype_name(g->type), numbers);
    g->differ++;
}

static void rows_do_not_depend_on_others(void **state) {
    (void)state;
    static const kernel_grid grids[] = {
        {"linear linear{act}", "T=4100 O=768,1536 I=384,768"},
        {"linear", "T=4100 O=768 I=3072"},
        {"linear linear_gelu", "T=1100 O=100 I=64"},
        {"linear_fp8 linear_gelu_fp8", "T=4100 O=768 I=384,3072"},
        {"linear_int8 linear_gelu_int8 quantize_int8 quantize_fp8 norm dropout_add_norm", "T=1100 O=256 I=768 H=768"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, sizeof grids / sizeof *grids, try_fewer_rows, the_gpu);
    }
    assert_int_equal(the_gpu->differ, 0);
}

/* A number that is none must reach the gradients' norm, or a broken step would be applied. */
static void try_not_a_number(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    kernel_call k;
    kernel_call_open_as(&k, at, g->type, 0, 0, 0);
    int arg = kernel_call_spoil(&k);
    run_on_gpu(g, &k, 0);
    kernel_call_expect_spoilt(&k, arg);
    kernel_call_close(&k);
}

static void not_a_number_shows(void **state) {
    (void)state;
    static const kernel_grid grids[] = {
        {"norm norm_din norm_dw dropout dropout_din add add_din dropout_add_norm dropout_add_norm_din gelu gelu_din "
         "scale scale_din skip skip_din "
         "gelu_din_db gelu_tanh gelu_tanh_din silu silu_din tanh tanh_din "
         "relu relu_din",
         "T=5 H=7,64"},
        {"linear linear_gelu linear_gelu_din linear_din linear_dw linear_int8_din linear_int8_dw", "T=5 O=7 I=9"},
        {"row_max", "T=5 I=7,64"},
        {"gate gate_din", "T=5 H=7,64"},
        {"columns_dw", "N=5 C=4 U=2 G=0,1 K=3 H=7"},
        {ATTENTION, "L=4 A=2 E=8,64"},
        {SPARSE, "L=4 W=1 A=2 E=8,64"},
        {"attention_part", "L=4 J=2 Z=0 U=0 A=2 E=8,64"},
        {"pool_first pool_first_din pool_mean pool_mean_din", "L=4 H=9"},
        {"cross_entropy cross_entropy_din cross_entropy_weighted cross_entropy_weighted_din", "N=5 C=3 G=0,1,2"},
        {"regress regress_din regress_weighted regress_weighted_din", "N=5 C=3 J=1,3 G=0,1,2,3,4,5"},
        {"bias_dw", "T=5 O=7"},
        {"route_din balance", "L=4 C=4 K=2 R=1"},
        {MOVES, "T=5 C=3 K=2 R=1 H=9,64"},
        {DENSE_EXPERTS, "C=3 R=5 O=7 I=9"},
        {"sumsq", "K=77"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, sizeof grids / sizeof *grids, try_not_a_number, the_gpu);
    }
}

/* Algorithms of a call's products by timing, on zeroed operands, which are zeros afterwards. */
static void time_products(gpu *g, const kernel_case *at, unsigned acc, int fresh, tri_wisdom *wisdom) {
    kernel_call k;
    size_t scratch;
    kernel_call_open_as(&k, at, g->type, 0, acc, 0);
    tri_dtype type = kernel_call_row(&k, &g->table, &scratch);
    places to = place(&k, 0, scratch);
    tri_call call = k.call;
    memset(g->stage, 0, to.end);
    assert_int_equal(g->device->async->copy(g->context, g->memory, g->stage, to.end), TRI_OK);
    for (int a = 0; a < TRI_MAX_ARGS; a++)
        if (k.block[a]) call.t[a].data = g->memory + to.block[a] + GUARD;
    call.context = g->context, call.table = &g->table, call.work = g->memory + to.work;
    int before = wisdom->n;
    g->device->tuner->tune(g->context, &call, g->table.run[at->variant][type], wisdom);
    if (g->device->async->finish(g->context) != TRI_OK) kernel_call_fail(&k, 0, tri_error());
    assert_true((wisdom->n > before) == fresh);
    int found = wisdom->n;
    g->device->tuner->tune(g->context, &call, g->table.run[at->variant][type], wisdom);
    assert_int_equal(wisdom->n, found); /* once */
    assert_int_equal(g->device->async->copy(g->context, g->stage, g->memory, to.end), TRI_OK);
    for (size_t i = 0; i < to.end; i++)
        if (g->stage[i]) kernel_call_fail(&k, 0, "what was timed left something in memory");
    kernel_call_close(&k);
}

/* What timing has found computes the same, and says so in words that can be read again. */
static void timed_products(void **state) {
    (void)state;
    if (the_gpu->own || the_gpu->share) skip();
    static const char *const ops[] = {"linear", "linear_gelu", "linear_din", "linear_dw"};
    tri_wisdom *wisdom = calloc(2, sizeof *wisdom);
    size_t size;
    gpu *g = the_gpu;
    assert_non_null(wisdom);
    snprintf(wisdom->kind, sizeof wisdom->kind, "%s", g->device->tuner->kind(g->context));
    assert_true(wisdom->kind[0]);
    g->type = TRI_BF16;
    for (int i = 0; i < 4; i++) {
        kernel_case at = {.variant = tri__variant_find(ops[i])};
        at.op = tri__variant_row(at.variant)->op;
        at.dim['T' - 'A'] = 2050, at.dim['O' - 'A'] = 512, at.dim['I' - 'A'] = 512;
        for (unsigned acc = 0; acc <= (unsigned)(i >= 2); acc++)
            time_products(g, &at, acc, i != 1, wisdom); /* linear_gelu has the product of linear */
    }
    for (int i = 0; i < wisdom->n; i++)
        assert_true(wisdom->entry[i].best_us > 0 && wisdom->entry[i].best_us <= wisdom->entry[i].guess_us);
    char *text = tri__wisdom_text(wisdom, &size);
    print_message("%s", text);
    assert_int_equal(tri__wisdom_parse(text, size, "text", wisdom + 1), TRI_OK);
    g->device->tuner->follow(g->context, wisdom + 1);
    for (int i = 0; i < 4; i++) {
        kernel_case at = {.variant = tri__variant_find(ops[i])};
        at.op = tri__variant_row(at.variant)->op;
        at.dim['T' - 'A'] = 2050 - 500 * (i == 3), at.dim['O' - 'A'] = 512, at.dim['I' - 'A'] = 512;
        try_variant(g, &at, g->type, 0, i >= 2, 0);
    }
    memset(wisdom, 0, sizeof *wisdom);
    g->device->tuner->follow(g->context, wisdom);
    free(text);
    free(wisdom);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_rows),
        cmocka_unit_test(rows_of_fp32),
        cmocka_unit_test(rows_of_bf16),
        cmocka_unit_test(rows_of_fp16),
        cmocka_unit_test(fused_sums_are_those_apart),
        cmocka_unit_test(sums_are_of_what_is_written),
        cmocka_unit_test(rows_do_not_depend_on_others),
        cmocka_unit_test(not_a_number_shows),
        cmocka_unit_test(timed_products),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_gpu(&g);
    return failed;
}
