/* test_kernels.c - every kernel row of device "cpu" against the plain rows of device "reference", over ragged shapes:
 * accumulating or overwriting, with and without optional operands, 1, 2 and 3 threads (bitwise equal), no out-of-bounds
 * writes.
 *
 * Tolerance: ||a - b|| <= 1e-5 ||b|| for a tensor, and |a - b| <= 1e-4 |b| + 1e-5 max |b| for each element; ||b|| and
 * max |b| count as at least KERNEL_SMALL, and for a sum of the operation's own outputs as at least the sum of
 * magnitudes. Of 8-bit floating-point numbers 1 % may differ by one step.
 * timeout: 180 */
#include "tests/lib/test.h"
#include "tests/lib/kernel_parts.h"

#include "base/random.h"

typedef struct tables {
    tri_kernel_table cpu, reference;
    int seen[TRI_VARIANTS]; /* cases */
} tables;

static void compare(const kernel_call *got, const kernel_call *want, int arg) {
    double difference = 0, norm = 0, least = fmax(KERNEL_SMALL, kernel_sum_scale(want, arg)), largest = least;
    int64_t n = operand_count(want, arg), steps = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(kernel_value(want, arg, i)));
    for (int64_t i = 0; i < n; i++) {
        double a = kernel_value(got, arg, i), b = kernel_value(want, arg, i), d = fabs(a - b);
        if (!isfinite(b)) kernel_call_fail(want, arg, "the reference did not write all of it");
        if (d > 0 && d <= kernel_step_8_bits(want, arg, fmax(fabs(a), fabs(b)))) {
            if (++steps > 1 + n / 100) kernel_call_fail(got, arg, "more than 1 % of it is rounded differently");
            continue;
        }
        if (!(d <= 1e-4 * fabs(b) + 1e-5 * largest)) {
            char text[100];
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, a, b);
            kernel_call_fail(got, arg, text);
        }
        difference += d * d, norm += b * b;
    }
    if (sqrt(difference) > 1e-5 * fmax(sqrt(norm), least))
        kernel_call_fail(got, arg, "the whole tensor is off by more than 1e-5");
}

static void try_variant(tables *all, const kernel_case *at, float p, unsigned acc, unsigned left_out) {
    const tri_op_row *row = tri__variant_row(at->variant);
    kernel_call want, got[3];
    kernel_call_open(&want, at, p, acc, left_out);
    for (int i = 0; i < 3; i++) kernel_call_copy(&got[i], &want);
    kernel_call_run(&want, &all->reference, 1);
    for (int i = 0; i < 3; i++) {
        kernel_call_run(&got[i], &all->cpu, i + 1);
        for (int a = 0; a < row->n_args; a++) {
            if (!tri__access_writes(row->arg[a].access) || !got[i].block[a]) continue;
            if (i == 0) compare(&got[0], &want, a);
            else if (memcmp(got[0].block[a], got[i].block[a], got[i].bytes[a] + GUARD) != 0)
                kernel_call_fail(&got[i], a, "differs from the result of one thread");
        }
    }
    for (int i = 0; i < 3; i++) kernel_call_close(&got[i]);
    kernel_call_close(&want);
}

/* All ways of calling one case: dropout off and on, all sums into operands off and on, each set of optional
 * outputs; where no random numbers are drawn their keys are left out, and a factor. */
static void try_case(const kernel_case *at, void *context) {
    tables *all = context;
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned sums = 0, optional = 0;
    for (int a = 0; a < row->n_args; a++) {
        if (row->arg[a].access == TRI_ACCESS_A) sums |= 1u << a;
        if (row->arg[a].access == TRI_ACCESS_W && row->arg[a].optional) optional |= 1u << a;
    }
    int key = kernel_case_arg(at, "key");
    for (int on = 0; on <= (key >= 0); on++)
        for (int add = 0; add <= (sums != 0); add++)
            for (unsigned left_out = optional;; left_out = (left_out - 1) & optional) {
                unsigned keys = on ? 0 : kernel_case_spare(at);
                try_variant(all, at, on ? 0.3f : 0, add ? sums : 0, left_out | keys);
                if (left_out == 0) break;
            }
    all->seen[at->variant]++;
}

TEST(test_cpu_against_reference) {
    tables *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    kernel_cases(kernel_grids, kernel_n_grids, try_case, all);
    for (int v = 0; v < tri__variant_count(); v++)
        if (tri__variant_computes(v) && !all->seen[v])
            fail_msg("no case tries %s", tri__variant_row(v)->name);
    free(all);
}

/* One of two sums is added to, the other overwritten. */
static void try_single_sums(const kernel_case *at, void *context) {
    const tri_op_row *row = tri__variant_row(at->variant);
    for (int a = 0; a < row->n_args; a++)
        if (row->arg[a].access == TRI_ACCESS_A) try_variant(context, at, 0.3f, 1u << a, 0);
}

TEST(test_sums_one_at_a_time) {
    static const kernel_grid grids[] = {
        {"embed_dw", "T=9 H=20 V=5 P=9 Y=2"},
        {"norm_dw add_din dropout_add_norm_din gelu_din_db", "T=9 H=20"},
        {"concat_din", "N=5 A=3 B=9 C=8"},
        {"gate_din", "T=9 H=20"},
        {"columns_dw", "N=9 C=4 U=2,3 G=0,1 K=3 H=7"},
    };
    tables *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    kernel_cases(grids, sizeof grids / sizeof *grids, try_single_sums, all);
    free(all);
}

/* Without the operands that a rank of several leaves out, one at a time and all together. */
static void try_left_out(const kernel_case *at, void *context) {
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned all = 0, sums = at->op == TRI_OP_add_din;
    for (int a = 0; a < row->n_args; a++) {
        if (!row->arg[a].optional) continue;
        all |= 1u << a;
        try_variant(context, at, 0, sums, 1u << a);
    }
    try_variant(context, at, 0, 0, all);
}

TEST(test_left_out) {
    static const kernel_grid grids[] = {
        {"embed embed_dw", "T=0,1,17,300 H=1,20,100 V=37 P=130 Y=2"}, {"add_din dropout_add_norm_din", "T=0,9,64 H=20"},
        {"norm norm_dw dropout_add_norm", "T=0,9,64 H=3,20,100"},
        {"fp8_cast", "T=0,1,16 I=3,20 G=0,1"},
        {"linear_scaled linear{act}_scaled", "T=0,1,16 O=3,20 I=16"},
        {NORMS_SCALED, "T=0,1,16 H=3,20"},
        {"linear linear_int8 linear_fp8", "T=0,1,17,65 O=1,20,100 I=3,64"}, {"linear", "T=300 O=530 I=70"},
        {DENSE_EXPERTS, "C=3 R=0,1,17 O=1,20 I=3,64"},
        {"columns_dw", "N=0,9 C=4 U=2 H=5"},
        {"pack unpack_sum", "F=1,2,3,4,5 M=2 K=0,1,600"},
        {"sgd lamb_moments lamb_step lamb_refresh lamb_frozen", "K=0,1,20,77,4097"},
    };
    tables *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    kernel_cases(grids, sizeof grids / sizeof *grids, try_left_out, all);
    free(all);
}

typedef struct row_runner {
    tri_kernel_table table;
    tri_dtype type, loose;
} row_runner;

static void run_row(kernel_call *k, void *context) { kernel_call_run(k, &((row_runner *)context)->table, 2); }

static void try_parts(const kernel_case *at, void *context) {
    const row_runner *r = context;
    kernel_parts_try(at, r->type, r->loose, run_row, context);
}

TEST(test_fused_sums_are_those_apart) {
    static const kernel_grid grids[] = {
        {"dropout_add_norm_din {act}_din_db", "T=0,1,17,530 H=1,20,100"},
        {"attention_din_db", "L=0,2,5 X=0,3 A=2 E=20"},
        {"linear{act}_din", "T=0,1,17,130 O=1,20 I=1,20"},
    };
    static const tri_dtype types[][2] = {
        {TRI_F32, TRI_F32}, {TRI_BF16, TRI_BF16}, {TRI_BF16, TRI_F32}, {TRI_F16, TRI_F32}};
    static const char *const devices[] = {"cpu", "reference"};
    for (int i = 0; i < 8; i++) {
        row_runner r = {.type = types[i / 2][0], .loose = types[i / 2][1]};
        tri__device_find(devices[i % 2])->kernels(&r.table);
        kernel_cases(grids, 3, try_parts, &r);
    }
}

/* A number that is none must reach the gradients' norm, or a broken step would be applied. */
static void try_not_a_number(const kernel_case *at, void *context) {
    const tri_kernel_table *table = context;
    kernel_call k;
    kernel_call_open(&k, at, 0, 0, 0);
    int arg = kernel_call_spoil(&k);
    kernel_call_run(&k, table, 1);
    kernel_call_expect_spoilt(&k, arg);
    kernel_call_close(&k);
}

TEST(test_not_a_number_shows) {
    static const kernel_grid grids[] = {
        {"norm norm_din norm_dw dropout dropout_din add add_din dropout_add_norm dropout_add_norm_din gelu gelu_din "
         "scale scale_din skip skip_din "
         "gelu_din_db gelu_tanh gelu_tanh_din silu silu_din tanh tanh_din "
         "relu relu_din",
         "T=5 H=7,64"},
        {"gated gated_din", "T=5 H=7,64 Y=0,1,2,3"},
        {"gate gate_din", "T=5 H=7,64"},
        {"columns_dw", "N=5 C=4 U=2 G=0,1 K=3 H=7"},
        {"rope rope_din", "T=5 A=2 E=8 P=9"},
        {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=5 O=7 I=9"},
        {ATTENTION, "L=4 A=2 E=8"},
        {SPARSE, "L=4,6 W=1 A=2 E=8"},
        {BIASED, "L=4 B=16 A=2 E=8"},
        {DISENTANGLED, "L=4 B=34 G=3 A=2 E=8"},
        {"pool_first pool_first_din pool_mean pool_mean_din", "L=4 H=9"},
        {"cross_entropy cross_entropy_din cross_entropy_weighted cross_entropy_weighted_din", "N=5 C=3 G=0,1,2"},
        {"regress regress_din regress_weighted regress_weighted_din", "N=5 C=3 J=1,3 G=0,1,2,3,4,5"},
        {"bias_dw", "T=5 O=7"},
        {"route_din balance", "L=4 C=4 K=2 R=1"},
        {MOVES, "T=5 C=3 K=2 R=1 H=9"},
        {DENSE_EXPERTS, "C=3 R=5 O=7 I=9"},
        {"sumsq", "K=77"},
    };
    static const char *const devices[] = {"cpu", "reference"};
    for (int i = 0; i < 2; i++) {
        tri_kernel_table table;
        tri__device_find(devices[i])->kernels(&table);
        kernel_cases(grids, sizeof grids / sizeof *grids, try_not_a_number, &table);
    }
}

/* An update that is not to be applied keeps weights and states, whatever the gradient. */
static void expect_skipped(const char *mnemonic, const tri_kernel_table *table) {
    kernel_case at = {.variant = tri__variant_find(mnemonic)};
    const tri_op_row *row = tri__variant_row(at.variant);
    at.op = row->op;
    at.dim['K' - 'A'] = 77;
    kernel_call k;
    kernel_call_open(&k, &at, 0, 0, 0);
    int apply = tri__row_arg(row, "apply"), g = tri__row_arg(row, "g");
    *(int32_t *)k.call.t[apply].data = 0;
    memcpy(k.before[apply], k.block[apply], k.bytes[apply] + GUARD);
    if (g >= 0) memset(k.call.t[g].data, 0xFF, k.bytes[g]);
    if (g >= 0) memcpy(k.before[g], k.block[g], k.bytes[g] + GUARD);
    kernel_call_run(&k, table, 2);
    for (int a = 0; a < row->n_args; a++) {
        if (row->arg[a].access == TRI_ACCESS_U)
            assert_memory_equal(k.block[a], k.before[a], k.bytes[a] + 2 * GUARD);
        for (int64_t i = 0; i < operand_count(&k, a) && a != g; i++) assert_true(isfinite(kernel_value(&k, a, i)));
    }
    kernel_call_close(&k);
}

/* A norm that is not finite forbids the step; max_norm 0 clips nothing; a forbidden step changes nothing. */
TEST(test_clip_and_skip) {
    static const struct { double sum; float max_norm, coef; int apply; } rows[] = {
        {4, 1, 0.5f, 1}, {4, 0, 1, 1},        {4, 2, 1, 1},   {0, 1, 1, 1},
        {0.25, 1, 1, 1}, {INFINITY, 1, 0, 0}, {NAN, 1, 1, 0}, {INFINITY, 0, 1, 0},
    };
    static const char *const devices[] = {"cpu", "reference"};
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            float coef = -1;
            int32_t apply = -1;
            double norm = -1, sum = rows[i].sum;
            tri_attr attr = {.max_norm = rows[i].max_norm};
            tri_call call = {
                .t = {{&coef, 1, 1}, {&apply, 1, 1}, {&norm, 1, 1}, {&sum, 1, 1}}, .attr = &attr, .threads = 1};
            table.run[plain(TRI_OP_clip)][TRI_F32](&call);
            assert_true(fabsf(coef - rows[i].coef) < 1e-6f);
            assert_int_equal(apply, rows[i].apply);
            assert_true(isnan(sum) ? isnan(norm) : norm == sqrt(sum));
        }
        static const char *const updates[] = {"adamw",        "adam",         "sgd",
                                              "lamb_moments", "lamb_step",    "lamb_average",
                                              "lamb_refresh", "lamb_factor",  "lamb_frozen"};
        for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) expect_skipped(updates[i], &table);
    }
}

TEST(test_every_operation_has_a_row) {
    static const char *const devices[] = {"cpu", "reference"};
    for (int i = 0; i < 2; i++) {
        tri_target target;
        tri__device_target(tri__device_find(devices[i]), &target);
        assert_string_equal(target.name, devices[i]);
        assert_int_equal(target.granule, 1);
        for (int v = 0; v < tri__variant_count(); v++)
            if (tri__variant_computes(v) && !target.has[v][TRI_F32])
                fail_msg("device %s has no row for %s", devices[i], tri__variant_row(v)->name);
    }
}

/* Runs an update on all of K elements, or on parts of them, one after the other. `sums`: of all. */
static void update_in_parts(const tri_kernel_table *table, const kernel_call *all, int64_t part) {
    const tri_op_row *row = tri__variant_row(all->at.variant);
    int64_t K = all->at.dim['K' - 'A'];
    double work[256];
    for (int64_t at = 0; at < K; at += part) {
        tri_call call = all->call;
        call.threads = 1, call.work = work;
        for (int a = 0; a < row->n_args; a++)
            if (strcmp(row->arg[a].dims, "1,K") == 0)
                call.t[a] = (tri_tensor){(float *)call.t[a].data + at, 1, K - at < part ? K - at : part};
        if (at && all->at.op == TRI_OP_lamb_moments) call.acc = 1u << TRI_ARG(lamb_moments, sums);
        if (at && all->at.op == TRI_OP_lamb_refresh) call.acc = 1u << TRI_ARG(lamb_refresh, sums);
        table->run[all->at.variant][TRI_F32](&call);
    }
}

/* An element's update has the same bits wherever a shard of the weights begins and ends. */
TEST(test_shards_update_alike) {
    static const char *const updates[] = {"adamw",     "adam",         "sgd",        "lamb_moments",
                                          "lamb_step", "lamb_refresh", "lamb_frozen"};
    enum { K = 77 };
    tri_kernel_table table;
    tri__device_find("cpu")->kernels(&table);
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        for (int part = 1; part < K; part++) {
            kernel_case at = {.variant = tri__variant_find(updates[i])};
            at.op = tri__variant_row(at.variant)->op;
            kernel_call k[2];
            at.dim['K' - 'A'] = K;
            for (int j = 0; j < 2; j++) {
                kernel_call_open(&k[j], &at, 0, 0, 0);
                update_in_parts(&table, &k[j], j ? part : K);
            }
            for (int a = 0; a < tri__variant_row(at.variant)->n_args; a++)
                if (tri__variant_row(at.variant)->arg[a].access == TRI_ACCESS_U)
                    assert_memory_equal(k[0].block[a], k[1].block[a], k[0].bytes[a] + GUARD);
            for (int j = 0; j < 2; j++) kernel_call_close(&k[j]);
        }
}

TEST(test_devices) {
    assert_null(tri__device_find("abacus"));
    assert_string_equal(tri__device_names(), "cpu, reference, null, timed");
    const tri_device *device = tri__device_find("cpu");
    assert_true(strlen(device->describe(NULL)) > 0);
    size_t sizes[] = {0, 1, 4096, 5 << 20};
    for (int i = 0; i < 4; i++) {
        char *memory;
        assert_int_equal(device->alloc(NULL, sizes[i], (void **)&memory), TRI_OK);
        assert_int_equal((uintptr_t)memory % 4096, 0);
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(memory[b], 0);
        device->free(NULL, memory, sizes[i]);
    }
    void *none = &none;
    assert_int_equal(device->alloc(NULL, (size_t)1 << 60, &none), TRI_RESOURCE);
    assert_null(none);
    assert_non_null(strstr(tri_error(), "1152921504606846976 bytes"));
    device->free(NULL, NULL, 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
