/* test_precision.c - 16-bit types: every kernel row against the fp32 row on the same numbers, and whole training
 * steps.
 * timeout: 180 */
#include "tests/lib/test.h"
#include "tests/lib/kernel_parts.h"
#include "tests/lib/simd_sets.h"
#include "tests/lib/tiny.h"
#include "train/loss_scale.h"

static const tri_dtype halves[] = {TRI_BF16, TRI_F16};

/* Relative: a few roundings of the type's mantissa (8 and 11 bits). */
static double tolerance(tri_dtype type) { return type == TRI_BF16 ? 2e-2 : 2e-3; }

typedef struct rows {
    tri_kernel_table cpu, reference;
    tri_dtype type;
    int seen[TRI_VARIANTS], cases;
} rows;

static void compare(const kernel_call *got, const kernel_call *want, int arg, double relative) {
    double difference = 0, norm = 0, largest = 0;
    int64_t n = operand_count(want, arg);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(kernel_value(want, arg, i)));
    for (int64_t i = 0; i < n; i++) {
        double a = kernel_value(got, arg, i), b = kernel_value(want, arg, i);
        double step = kernel_step_8_bits(want, arg, fmax(fabs(a), fabs(b)));
        if (!(fabs(a - b) <= relative * (fabs(b) + 0.1 * largest) + step)) {
            char text[100];
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, a, b);
            kernel_call_fail(got, arg, text);
        }
        if (step == 0) difference += (a - b) * (a - b), norm += b * b;
    }
    if (sqrt(difference) > relative / 2 * sqrt(norm)) kernel_call_fail(got, arg, "the whole tensor is off");
}

static void try_variant(rows *all, const kernel_case *at, float p, unsigned acc, unsigned left_out) {
    const tri_op_row *row = tri__variant_row(at->variant);
    for (int threads = 1; threads <= 2; threads++) {
        kernel_call want, got;
        kernel_call_open(&want, at, p, acc, left_out);
        kernel_call_open_as(&got, at, all->type, p, acc, left_out);
        kernel_call_equalise(&want, &got);
        kernel_call_run(&want, &all->reference, 1);
        kernel_call_run(&got, threads == 1 ? &all->reference : &all->cpu, threads);
        /* Here attention's gradients go beyond e5m2's largest number, and differences of them are smaller than their
         * errors. They are those of attention_din, to the bit (test_fp8.c). */
        for (int a = 0; a < row->n_args && !(at->op == TRI_OP_attention_din && got.attr.scaled); a++)
            if (tri__access_writes(row->arg[a].access) && got.block[a] && !kernel_sums_rounded(at->variant, a))
                compare(&got, &want, a, tolerance(all->type));
        kernel_call_close(&want);
        kernel_call_close(&got);
    }
}

/* The rows of both types are one body: fp16 meets every second case. */
static void try_case(const kernel_case *at, void *context) {
    rows *all = context;
    if (all->type == TRI_F16 && all->cases++ % 2) return;
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned sums = 0, optional = 0;
    for (int a = 0; a < row->n_args; a++) {
        if (row->arg[a].access == TRI_ACCESS_A) sums |= 1u << a;
        if (row->arg[a].access == TRI_ACCESS_W && row->arg[a].optional) optional |= 1u << a;
    }
    float p = kernel_case_arg(at, "key") >= 0 ? 0.3f : 0;
    try_variant(all, at, p, 0, 0);
    if (sums) try_variant(all, at, p, sums, 0);
    if (optional) try_variant(all, at, p, 0, optional);
    static const tri_op alone[] = {TRI_OP_linear, TRI_OP_embed, TRI_OP_add_din,
                                   TRI_OP_norm_din}; /* without what plans may leave out */
    int few_bits = (row->facts & TRI_FACT_QUANT) != 0; /* of results in fp16, without a bias */
    for (int i = 0; i < 4; i++)
        for (int a = 0; a < row->n_args && at->op == alone[i] && !few_bits; a++)
            if (row->arg[a].optional && strcmp(row->arg[a].name, "key") != 0)
                try_variant(all, at, p, at->op == TRI_OP_add_din, 1u << a);
    all->seen[at->variant]++;
}

/* Ragged, and no rows at all. */
static const kernel_grid grids[] = {
    {"norm norm_din norm_dw dropout dropout_din add add_din dropout_add_norm dropout_add_norm_din "
     "scale scale_din skip skip_din {act} {act}_din {act}_din_db",
     "T=0,1,5,17,64 H=3,20,100"},
    {"embed embed_dw", "T=0,1,17,129 H=3,20 V=37,600 P=130 Y=2"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=0,1,3,17,64 O=1,20,100 I=3,20,64"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=65,270 O=130 I=300"},
    {"linear linear_din linear_dw", "T=530 O=70 I=33"},
    {FUSED, "T=0,1,16 O=20 I=3,64"},
    {"linear_experts{act}", "C=3 R=0,17 O=20 I=64"},
    {"bias_dw", "T=0,1,17,300 O=3,20,100"},
    {"route route_din balance balance_din", "L=0,4 X=0,3 C=1,8 K=1 R=2"},
    {"route route_din balance balance_din", "L=4,5 C=4 K=2 R=0"},
    {"balance_none", "C=1"},
    {MOVES, "T=0,1,17 C=4 K=1,2 R=3 H=1,20"},
    {DENSE_EXPERTS, "C=3 G=1,2 R=0,1,17 O=1,20 I=3,64"},
    {DENSE_EXPERTS, "C=2 R=140 O=130 I=300"},
    {"embed_int8", "T=0,1,17 H=3,20 V=37 P=130 Y=2"},
    {"row_max quantize_int8 quantize_fp8", "T=0,1,17 I=3,20,100 M=0,2"},
    {"quantize_din", "T=0,1,17 I=3,20,100"},
    {QUANTIZED, "T=0,1,17 O=1,20 I=3,20,64"},
    {"fp8_cast", "T=0,1,16 I=3,20,100 G=0,1"},
    {WEIGHTS_8_BITS, "T=0,16 I=20 O=5 H=7 N=1 C=9 M=10"},
    {"fp8_scales fp8_history", "K=3,30 M=16"},
    {"fp8_check", "K=3,30"},
    {SCALED, "T=0,1,16 O=1,20 I=3,20,64"},
    {NORMS_SCALED, "T=0,1,16,64 H=3,20,100"},
    {ATTENTION_SCALED, "L=0,2,4 X=0,3 A=3 E=20"},
    {ATTENTION_SCALED, "L=5 M=1 A=2 E=20"},
    {ATTENTION, "L=0,1,2,4 A=1,3 E=4,20"},
    {ATTENTION, "L=5,7 A=2 E=20,32"}, /* several panels and stretches of keys */
    {ATTENTION, "L=4,5 X=3 A=1 E=64,128"},
    {SPARSE, "L=0,4,6 W=1,5 A=3 E=20"},
    {"gated gated_din", "T=0,1,17 H=3,20 Y=0,1,2,3"},
    {"rope rope_din", "T=0,1,17 A=3 E=20 P=100"},
    {"table table_dw", "B=0,2,12 V=12,13 H=3,20"},
    {BIASED, "L=0,1,4 B=16 A=3 E=20"},
    {DISENTANGLED, "L=0,1,4 B=34 G=3 A=3 E=20"},
    {"pool_first pool_first_din pool_mean pool_mean_din", "L=0,2,4 X=0,3 H=3,20"},
    {RING_ATTENTION, "L=0,2,5 J=2 Z=0 U=0,1 A=3 E=4,20"},
    {RING_SPARSE, "L=0,2,5 J=2 Z=0 U=0,1 W=1 A=3 E=4,20"},
    {"kv_part kv_part_din attention_join", "T=0,1,17 A=3 E=20"},
    {"attention_first_join", "N=0,1,5 J=3 A=3 E=20"},
    {"attention_bits attention_din attention_din_db", "L=0,2,5,7 X=0,3 M=1 A=3 E=20"},
    {"heads_part heads_part_din heads_join heads_join_din", "R=0,1,5 D=9,60"},
    {"heads_own heads_own_din", "N=0,1,5 C=1,20 H=60"},
    {"tokens_own tokens_whole_din", "T=10 R=0,5 H=20"},
    {"concat concat_din", "N=0,1,5 A=1,20 B=0,3 C=0,7"},
    {"concat concat_din", "N=0,1,5 A=8 B=0,4 C=0,12 S=2,4"},
    {"gate gate_din", "T=0,1,17 H=3,20"},
    {"columns columns_dw", "N=0,1,17 C=4 U=0,1,2,3 G=0,1 K=5 H=3,16"},
    {"regress regress_din regress_weighted regress_weighted_din", "N=0,1,3,17 C=5 J=1,5 G=0,1,2,3,4,5"},
    {"cross_entropy cross_entropy_din cross_entropy_weighted cross_entropy_weighted_din",
     "N=0,1,3,17 C=1,2,8 G=0,1,2,3"},
    {"cast", "R=0,1,17 C=1,64,2100"},
    {"accumulate zero sumsq adamw adamw_copy adam sgd lamb_moments lamb_step", "K=0,1,20,4097,300000"},
    {"lamb_average lamb_refresh lamb_factor lamb_frozen", "K=0,1,20,4097"},
    {"clip", "K=1,30"},
    {"momentum momentum_in momentum_alone adamw_frozen adamw_meet", "K=0,1,20,4097"},
    {"local_delta outer_step outer_take swap commit average", "K=0,1,20,4097"},
    {CODED, "F=1,2,3,4,5 M=1,3 K=0,1,20,600,4097"},
};

TEST(rows_against_fp32) {
    rows *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    for (int i = 0; i < 2; i++) {
        all->type = halves[i];
        kernel_cases(grids, sizeof grids / sizeof *grids, try_case, all);
    }
    for (int v = 0; v < tri__variant_count(); v++)
        if (tri__variant_computes(v) && !all->seen[v])
            fail_msg("no case tries %s", tri__variant_row(v)->name);
    free(all);
}

/* Every kernel of both devices has rows of both types: a plan of any precision exists. */
TEST(rows_exist) {
    static const char *const devices[] = {"cpu", "reference"};
    for (int d = 0; d < 2; d++) {
        tri_target target;
        tri__device_target(tri__device_find(devices[d]), &target);
        for (int v = 0; v < tri__variant_count(); v++)
            for (int i = 0; i < 2; i++) assert_int_equal(target.has[v][halves[i]], target.has[v][TRI_F32]);
    }
}

/* Every product kernel that this CPU runs, the best one or not, against a plain sum. */
static void try_product(const tri_half_product *kernel) {
    enum { MOST_K = 256, LD = 80 };
    static uint16_t a[32 * MOST_K], b[32 * MOST_K];
    static float c[32 * LD];
    uint64_t random = 5;
    assert_true(kernel->mr <= 32 && kernel->nr <= 32 && kernel->k_block % kernel->step == 0);
    for (int k = 0; k <= MOST_K; k += kernel->step * (k < 2 * kernel->step ? 1 : 3)) {
        for (int i = 0; i < kernel->mr * k; i++) a[i] = tri__to_bf16((float)uniform(&random, -1, 1));
        for (int i = 0; i < kernel->nr * k; i++) b[i] = tri__to_bf16((float)uniform(&random, -1, 1));
        for (int i = 0; i < 32 * LD; i++) c[i] = (float)i;
        if (kernel->begin) kernel->begin();
        kernel->run(k / kernel->step, a, b, c, LD, 1);
        if (kernel->end) kernel->end();
        for (int i = 0; i < 32; i++)
            for (int j = 0; j < LD; j++) {
                double want = i * LD + j;
                for (int x = 0; i < kernel->mr && j < kernel->nr && x < k; x++)
                    want += (double)tri__from_bf16(
                                a[(x / kernel->a_group * kernel->mr + i) * kernel->a_group + x % kernel->a_group]) *
                            tri__from_bf16(
                                b[(x / kernel->b_group * kernel->nr + j) * kernel->b_group + x % kernel->b_group]);
                if (!(fabs(c[i * LD + j] - want) <= 1e-3))
                    fail_msg("%s: k %d: [%d,%d] is %g, not %g", kernel->name, k, i, j, (double)c[i * LD + j], want);
            }
    }
}

/* A head and its gradient by every product kernel, against the definition in double. */
typedef struct head_case {
    int64_t len, d;
    uint16_t *qkv, *dctx, *ctx, *dqkv; /* [len,3d], [len,d], ... */
    double *want;                      /* [len,4d]: ctx, dq, dk, dv */
} head_case;

static void plain_head(const head_case *c) {
    int64_t len = c->len, d = c->d;
    double *p = calloc((size_t)len, sizeof *p), scale = 1 / sqrt((double)d);
    assert_non_null(p);
    for (int64_t i = 0; i < len; i++) {
        const uint16_t *q = c->qkv + i * 3 * d, *dctx = c->dctx + i * d;
        double sum = 0, mean = 0, *ctx = c->want + i * 4 * d;
        for (int64_t j = 0; j < len; j++, sum += p[j - 1]) {
            double score = 0;
            for (int64_t x = 0; x < d; x++)
                score += (double)tri__from_bf16(q[x]) * tri__from_bf16(c->qkv[j * 3 * d + d + x]);
            p[j] = exp(score * scale);
        }
        for (int64_t j = 0; j < len; j++)
            for (int64_t x = 0; x < d; x++) ctx[x] += p[j] / sum * tri__from_bf16(c->qkv[j * 3 * d + 2 * d + x]);
        for (int64_t x = 0; x < d; x++) mean += ctx[x] * tri__from_bf16(dctx[x]);
        for (int64_t j = 0; j < len; j++) {
            const uint16_t *k = c->qkv + j * 3 * d + d, *v = k + d;
            double dp = 0, slope, *out = c->want + j * 4 * d;
            for (int64_t x = 0; x < d; x++) dp += (double)tri__from_bf16(dctx[x]) * tri__from_bf16(v[x]);
            slope = p[j] / sum * (dp - mean) * scale;
            for (int64_t x = 0; x < d; x++) {
                ctx[d + x] += slope * tri__from_bf16(k[x]);
                out[2 * d + x] += slope * tri__from_bf16(q[x]);
                out[3 * d + x] += p[j] / sum * tri__from_bf16(dctx[x]);
            }
        }
    }
    free(p);
}

static void try_head(const simd_set *set, const tri_half_product *kernel, int64_t len, int64_t d) {
    size_t n = (size_t)(len * d), room = (size_t)set->head_half_din_work(kernel, len, d);
    uint64_t random = 7;
    head_case c = {len, d, malloc(3 * n * 2), malloc(n * 2), malloc(n * 2), malloc(3 * n * 2), calloc(4 * n, 8)};
    float *lse = malloc((size_t)len * sizeof *lse), *work = NULL;
    if ((size_t)set->head_half_work(kernel, len, d) > room) room = (size_t)set->head_half_work(kernel, len, d);
    assert_int_equal(posix_memalign((void **)&work, 64, room * sizeof *work), 0);
    for (size_t i = 0; i < 3 * n; i++) c.qkv[i] = tri__to_bf16((float)uniform(&random, -1, 1));
    for (size_t i = 0; i < n; i++) c.dctx[i] = tri__to_bf16((float)uniform(&random, -1, 1));
    plain_head(&c);
    tri_head_half head = {.product = kernel, .drop = {.scale = 1}, .len = len, .d = d, .ld = 3 * d, .ld_ctx = d,
                          .ld_lse = 1, .q = c.qkv, .k = c.qkv + d, .v = c.qkv + 2 * d, .ctx = c.ctx, .lse = lse,
                          .dctx = c.dctx, .dq = c.dqkv, .dk = c.dqkv + d, .dv = c.dqkv + 2 * d, .work = work};
    set->head_half(&head);
    set->head_half_din(&head);
    for (int part = 0; part < 4; part++) {
        double worst = 0, largest = 0.05;
        for (size_t i = 0; i < n; i++) {
            int64_t row = (int64_t)i / d, x = (int64_t)i % d;
            uint16_t got = part ? c.dqkv[(row * 3 + part - 1) * d + x] : c.ctx[row * d + x];
            double want = c.want[(row * 4 + part) * d + x];
            worst = fmax(worst, fabs(tri__from_bf16(got) - want)), largest = fmax(largest, fabs(want));
        }
        if (!(worst <= 0.02 * largest))
            fail_msg("%s: %lld tokens, %lld columns: part %d is off by %g of %g", kernel->name, (long long)len,
                     (long long)d, part, worst, largest);
    }
    free(c.qkv), free(c.dctx), free(c.ctx), free(c.dqkv), free(c.want), free(lse), free(work);
}

static void try_heads(const tri_half_product *kernel) {
    static const int64_t len[] = {1, 2, 3, 12, 13, 32, 33, 64, 131, 200}, d[] = {4, 20, 32, 64, 128};
    simd_set sets[SIMD_SETS_MOST];
    const simd_set *best = &sets[find_sets(sets) - 1];
    for (size_t i = 0; i < sizeof len / sizeof *len; i++)
        for (size_t j = 0; j < sizeof d / sizeof *d; j++) try_head(best, kernel, len[i], d[j]);
}

TEST(products) {
    const tri_half_product *best = tri__half_product();
    print_message("bf16 products: %s\n", best ? best->name : "through fp32");
    if (best) try_product(best), try_heads(best);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16") && tri__half_vectors())
        try_product(&tri__half_product_avx512), try_heads(&tri__half_product_avx512);
#endif
}

enum { STEPS = 50 };

typedef struct setting {
    tri_dtype precision, reduce;
    tri_recompute recompute;
    int threads, steps;
    double dropout;
} setting;

typedef struct outcome {
    double loss[STEPS];
    char *weights;
    int64_t bytes;
} outcome;

static void plan_as(tiny *t, const setting *s) {
    t->in.precision = s->precision, t->in.reduce_dtype = s->reduce, t->in.recompute = s->recompute;
    tiny_plan(t);
}

static outcome train(const setting *s) {
    outcome out;
    tiny t;
    tiny_open(&t, "cpu", 2, 3, s->dropout, 2);
    plan_as(&t, s);
    tri_exec *exec = tiny_exec(&t, "cpu", s->threads, 0);
    for (int step = 0; step < s->steps; step++) {
        t.hyper[1] = (float)(1 - pow(0.9, step + 1)), t.hyper[2] = (float)(1 - pow(0.999, step + 1));
        tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, (uint32_t)step + 1, t.feed, NULL);
        out.loss[step] = tiny_loss(&t, exec);
        assert_int_equal(*(int32_t *)tri__exec_slot(exec, 0, t.plan.train.apply), 1);
    }
    const void *memory = tri__exec_memory(exec, TRI_MEM_PARAM, &out.bytes);
    out.weights = malloc((size_t)out.bytes);
    assert_non_null(out.weights);
    memcpy(out.weights, memory, (size_t)out.bytes);
    tri__exec_close(exec);
    tiny_close(&t);
    return out;
}

/* 50 steps of training stay within 1e-2 of fp32, and learn. */
TEST(losses_are_those_of_fp32) {
    static const setting settings[] = {
        {TRI_F32, TRI_F32, 0, 1, STEPS, 0.1},   {TRI_BF16, TRI_F32, 0, 1, STEPS, 0.1},
        {TRI_BF16, TRI_BF16, 0, 1, STEPS, 0.1}, {TRI_F16, TRI_F32, 0, 1, STEPS, 0.1},
        {TRI_F16, TRI_F16, 0, 1, STEPS, 0.1},   {TRI_F32, TRI_BF16, 0, 1, STEPS, 0.1},
    };
    outcome wide = train(&settings[0]);
    assert_true(wide.loss[STEPS - 1] < 0.8 * wide.loss[0]);
    for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
        outcome half = train(&settings[i]);
        double worst = 0;
        for (int step = 0; step < STEPS; step++) worst = fmax(worst, fabs(half.loss[step] - wide.loss[step]));
        print_message("%s, gradients in %s: losses differ by at most %.2g\n", tri__dtype_name(settings[i].precision),
                      tri__dtype_name(settings[i].reduce), worst);
        assert_true(worst > 0 && worst <= 1e-2);
        free(half.weights);
    }
    free(wide.weights);
}

/* What is rebuilt, and how many threads compute, changes no bit. */
TEST(same_bits) {
    for (int i = 0; i < 2; i++) {
        outcome out[4];
        for (int k = 0; k < 4; k++)
            out[k] = train(
                &(setting){halves[i], TRI_F32, k == 3 ? TRI_RECOMPUTE_NONE : (tri_recompute)k, k == 3 ? 2 : 1, 5, 0.1});
        for (int k = 1; k < 4; k++) {
            assert_memory_equal(out[k].loss, out[0].loss, 5 * sizeof out[0].loss[0]);
            assert_memory_equal(out[k].weights, out[0].weights, (size_t)out[0].bytes);
        }
        for (int k = 0; k < 4; k++) free(out[k].weights);
    }
}

/* An overflow leaves weights, masters and moments as they were; the next step, at half the scale, goes on. */
TEST(overflow_skips_the_step) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    plan_as(&t, &(setting){TRI_F16, TRI_F32, 0, 1, 0, 0});
    tri_exec *exec = tiny_exec(&t, "cpu", 1, 0);
    tri_loss_scale scale = tri__loss_scale_start();
    int64_t n_weights, n_state;
    char *weights = tri__exec_memory(exec, TRI_MEM_PARAM, &n_weights),
         *moments = tri__exec_memory(exec, TRI_MEM_STATE, &n_state);
    char *old_weights = malloc((size_t)n_weights), *old_moments = malloc((size_t)n_state);
    const int32_t *apply = tri__exec_slot(exec, 0, t.plan.train.apply);
    for (int step = 1; step <= 4; step++) {
        scale.scale = step == 2 ? 0x1p40f : scale.scale; /* the injected overflow */
        t.loss_scale = scale.scale;
        memcpy(old_weights, weights, (size_t)n_weights);
        memcpy(old_moments, moments, (size_t)n_state);
        tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, (uint32_t)step, t.feed, NULL);
        assert_true(*(float *)tri__exec_slot(exec, 0, t.plan.train.scale) == scale.scale);
        assert_int_equal(*apply, step != 2 && step != 3);
        assert_int_equal(memcmp(weights, old_weights, (size_t)n_weights) == 0, !*apply);
        assert_int_equal(memcmp(moments, old_moments, (size_t)n_state) == 0, !*apply);
        float before = scale.scale;
        OK(tri__loss_scale_next(&scale, *apply));
        assert_true(scale.scale == (*apply ? before : before / 2));
        if (step == 3) scale.scale = 65536;
        assert_true(isfinite(tiny_loss(&t, exec)));
    }
    free(old_weights);
    free(old_moments);
    tri__exec_close(exec);
    tiny_close(&t);
}

TEST(scale_grows_and_falls) {
    tri_loss_scale scale = tri__loss_scale_start();
    assert_true(scale.scale == 65536 && scale.good == 0);
    for (int i = 0; i < 1999; i++) OK(tri__loss_scale_next(&scale, 1));
    assert_true(scale.scale == 65536 && scale.good == 1999);
    OK(tri__loss_scale_next(&scale, 1));
    assert_true(scale.scale == 131072 && scale.good == 0);
    for (int i = 0; i < 17; i++) OK(tri__loss_scale_next(&scale, 0));
    assert_true(scale.scale == 1);
    assert_int_equal(tri__loss_scale_next(&scale, 0), TRI_NOTFINITE);
    OK(tri__loss_scale_next(&scale, 1));
    assert_true(scale.scale == 1 && scale.good == 1);
}

/* Weights, gradients and optimizer state, in bytes a parameter; slots are rounded up to 64. */
TEST(bytes_per_parameter) {
    static const struct { tri_dtype precision, reduce; int bytes;
    } cases[] = {
        {TRI_F32, TRI_F32, 16}, {TRI_BF16, TRI_BF16, 16}, {TRI_BF16, TRI_F32, 18},
        {TRI_F16, TRI_F16, 16}, {TRI_F16, TRI_F32, 18},
    };
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_as(&t, &(setting){cases[i].precision, cases[i].reduce, 0, 1, 0, 0});
        const int64_t *bytes = t.program[0]->bytes;
        int64_t held = bytes[TRI_MEM_PARAM] + bytes[TRI_MEM_GRAD] + bytes[TRI_MEM_STATE],
                exact = cases[i].bytes * t.model.n_elements;
        assert_true(held >= exact && held <= exact + 5 * 64 * t.model.n_units);
        assert_int_equal(t.plan.train.master != NULL, cases[i].precision != TRI_F32);
        assert_int_equal(t.plan.train.scale >= 0, cases[i].precision == TRI_F16);
    }
    tiny_close(&t);
}

/* The same shared out over N replicas, 16-bit gradients: 16, 4 + 12/N, 2 + 14/N and 16/N bytes; fp32 ones are 2 more
 * each. */
TEST(bytes_per_parameter_shared_out) {
    static const struct { tri_shard_kind kind; double held, shared, grads_held, grads_shared;
    } cases[] = {
        {TRI_SHARD_NONE, 16, 0, 1, 0},
        {TRI_SHARD_ZERO1, 4, 12, 1, 0},
        {TRI_SHARD_ZERO2, 2, 14, 0, 1},
        {TRI_SHARD_ZERO3, 0, 16, 0, 1},
    };
    static const int worlds[] = {4, 64};
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < 2; w++)
            for (int wide = 0; wide < 2; wide++) {
                tiny t;
                int n = worlds[w];
                tiny_open_rank(&t, "cpu", 1, 0, 0.1, 1, &(tiny_rank){.dp = n, .sharding = {.kind = cases[i].kind}});
                tri_encoder e = t.encoder[0];
                e.vocab_size = 30522, e.hidden_size = 256, e.intermediate_size = 1024;
                tri__model_make(&t.arena, &t.config, (tri_encoder[2]){e, e}, (tri_columns){0}, (tri_texts){0},
                                &t.model);
                plan_as(&t, &(setting){TRI_BF16, wide ? TRI_F32 : TRI_BF16, 0, 1, 0, 0});
                const int64_t *bytes = t.program[0]->bytes;
                double held = (double)(bytes[TRI_MEM_PARAM] + bytes[TRI_MEM_GRAD] + bytes[TRI_MEM_STATE]);
                double share = cases[i].held + cases[i].shared / n +
                               wide * 2 * (cases[i].grads_held + cases[i].grads_shared / n);
                double exact = share * (double)t.model.n_elements;
                if (fabs(held - exact) > 5 * 64 * t.model.n_units + 0.001 * exact)
                    fail_msg("kind %d over %d: %g bytes a parameter, not %g", cases[i].kind, n,
                             held / (double)t.model.n_elements, share);
                tiny_close(&t);
            }
}

/* Predictions of the second program of the plan, from the same 16-bit weights. */
TEST(predictions) {
    float probs[3][3 * TINY_SAMPLES];
    static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
    for (int i = 0; i < 3; i++) {
        tiny t;
        tiny_open(&t, "cpu", 2, 3, 0, 1);
        plan_as(&t, &(setting){types[i], TRI_F32, 0, 1, 0, 0});
        tri_exec *exec = tiny_exec(&t, "cpu", 1, 0);
        tri__exec_run(exec, 1, 0, t.program[1]->n_instrs, 1, t.feed, NULL);
        memcpy(probs[i], tri__exec_slot(exec, 1, t.plan.infer.probs), sizeof probs[i]);
        tri__exec_close(exec);
        tiny_close(&t);
    }
    for (int i = 1; i < 3; i++)
        for (int k = 0; k < 3 * TINY_SAMPLES; k++)
            assert_true(fabs((double)probs[i][k] - probs[0][k]) <= tolerance(types[i]));
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
