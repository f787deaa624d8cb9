/* test_kernel_gradients.c - the reference rows against mathematics: forward and update operations against formulas in
 * double, and each operation's adjoint, run as its row in ops.def spells it, against central differences in double.
 *
 * Tolerances: an output element |a - b| <= 1e-6 (|b| + max |b|). A gradient element |a - b| <= 3e-6 max |b| + 1e-6 (the
 * objective is a sum of outputs with weights in -1 .. 1); where added to numbers in -1 .. 1, 1e-6 more. */
#include "tests/lib/test.h"
#include "tests/lib/kernel_double.h"

typedef struct gradients {
    tri_tensor d[TRI_MAX_ARGS]; /* of each operand of the forward operation; data NULL until it is used */
    int written[TRI_MAX_ARGS];
    unsigned adds;              /* 1: gradients are added to what is in `start` */
    float *start[TRI_MAX_ARGS];
} gradients;

enum { ADJOINT = 512 };

/* Fused operations have no adjoint in ops.def: the planner fuses after it has formed gradients. These are theirs. */
static const char *fused_adjoint(const tri_op_row *row, char text[static ADJOINT]) {
    if (strcmp(row->name, "dropout_add_norm") == 0)
        return "dropout_add_norm_din dx dres dg db _ <- dy xhat rstd g key s";
    if (row->op != TRI_OP_linear || !row->act || row->facts & (TRI_FACT_QUANT | TRI_FACT_SCALED)) return NULL;
    const char *name = row->act->name, *at = row->act->by_result ? "y" : "h";
    if (row->facts & TRI_FACT_EXPERTS)
        snprintf(text, ADJOINT, "%s_din dh <- dy %s; linear_experts_din dx <- dh w from; "
                                "linear_experts_dw dw <- dh x from; bias_experts_dw db <- dh from", name, at);
    else
        snprintf(text, ADJOINT, "%s_din_db dh db <- dy %s; linear_din dx <- dh w; linear_dw dw <- dh x", name, at);
    return text;
}

/* Operands of other operations' adjoints have the names of the operation's: "op outputs <- inputs; ..." into text. */
static const char *adjoint_of(int variant, char text[static ADJOINT]) {
    const tri_op_row *row = tri__variant_row(variant);
    const char *fused = fused_adjoint(row, text);
    if (fused) return fused;
    char names[ADJOINT], *save = NULL;
    int used = 0;
    snprintf(names, sizeof names, "%s", row->adjoint);
    text[0] = 0;
    for (char *name = strtok_r(names, "; ", &save); name; name = strtok_r(NULL, "; ", &save)) {
        tri_attr attr = {0};
        tri_op op = (tri_op)tri__op_find(name);
        tri__variant_set(variant, &attr);
        attr.back = op == row->op;
        const tri_op_row *of = tri__op_row(op, &attr);
        int inputs = 0;
        used += snprintf(text + used, (size_t)(ADJOINT - used), "%s%s", used ? ";" : "", of->name);
        for (int k = 0; k < of->n_args; k++) {
            const char *word = of->arg[k].name;
            int known = tri__row_arg(row, word) >= 0 || (*word == 'd' && tri__row_arg(row, word + 1) >= 0);
            if (!of->arg[k].access || (!known && of->arg[k].optional)) continue;
            if (!inputs && !tri__access_writes(of->arg[k].access))
                inputs = 1, used += snprintf(text + used, (size_t)(ADJOINT - used), " <-");
            used += snprintf(text + used, (size_t)(ADJOINT - used), " %s", word);
        }
    }
    return text;
}

/* The operands' values before the forward ran, in double. */
static void doubles_open(const kernel_call *k, double *v[TRI_MAX_ARGS]) {
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        v[a] = NULL;
        if (!k->block[a]) continue;
        v[a] = calloc((size_t)operand_count(k, a) + 1, sizeof(double));
        assert_non_null(v[a]);
        kernel_call before = *k;
        before.call.t[a].data = k->before[a] + GUARD;
        for (int64_t i = 0; i < operand_count(k, a); i++) v[a][i] = kernel_value(&before, a, i);
    }
}

static void doubles_close(double *v[TRI_MAX_ARGS]) {
    for (int a = 0; a < TRI_MAX_ARGS; a++) free(v[a]);
}

/* Outputs that are added to hold, beside the formula's value, what was there before. */
static void check_forward(const kernel_call *k, double *const *v) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    int64_t n = operand_count(k, 0);
    double *before = calloc((size_t)n + 1, sizeof *before); /* only first operands are added to */
    assert_non_null(before);
    if (k->call.acc) memcpy(before, v[0], (size_t)n * sizeof *before);
    double_ops[k->at.op](k, v);
    for (int64_t i = 0; i < n; i++) v[0][i] += before[i];
    free(before);
    for (int a = 0; a < row->n_args; a++) {
        if (!tri__access_writes(row->arg[a].access)) continue;
        double largest = 0;
        for (int64_t i = 0; i < operand_count(k, a); i++) largest = fmax(largest, fabs(v[a][i]));
        for (int64_t i = 0; i < operand_count(k, a); i++)
            if (!(fabs(kernel_value(k, a, i) - v[a][i]) <=
                  1e-6 * (fabs(v[a][i]) + largest) + kernel_step_8_bits(k, a, v[a][i])))
                kernel_call_fail(k, a, "is not what the formula gives");
    }
}

static void forward_case(const kernel_case *at, void *context) {
    int drops = kernel_case_arg(at, "key") >= 0, sums = tri__variant_row(at->variant)->arg[0].access == TRI_ACCESS_A;
    for (int variant = 0; variant <= (drops || sums); variant++) {
        kernel_call k;
        double *v[TRI_MAX_ARGS];
        kernel_call_open(&k, at, drops && variant ? 0.3f : 0, sums && variant ? 1 : 0, 0);
        kernel_call_run(&k, context, 1);
        doubles_open(&k, v);
        check_forward(&k, v);
        doubles_close(v);
        kernel_call_close(&k);
    }
}

/* The operand that a word of an adjoint names: as it stands, or (gradient set) after its d. */
static int named(const kernel_call *k, const char *word, int *gradient) {
    int arg = kernel_arg(k, word);
    *gradient = arg < 0;
    if (arg < 0 && word[0] == 'd') arg = kernel_arg(k, word + 1);
    if (arg < 0) fail_msg("adjoint of %s: it has no operand %s", tri__variant_row(k->at.variant)->name, word);
    return arg;
}

/* The tensor a word stands for. A gradient that is read first is the objective's weight: random. One that is written
 * is poisoned, or holds the numbers that it is added to. */
static tri_tensor operand(kernel_call *k, gradients *g, const char *word, int output) {
    int gradient, a = named(k, word, &gradient);
    assert_true(gradient || !output);
    if (!gradient || g->d[a].data || !k->block[a]) return gradient ? g->d[a] : k->call.t[a];
    int64_t n = operand_count(k, a);
    g->d[a] = (tri_tensor){malloc((size_t)n * 4 + 4), k->call.t[a].rows, k->call.t[a].cols};
    g->start[a] = malloc((size_t)n * 4 + 4);
    assert_true(g->d[a].data && g->start[a]);
    memset(g->d[a].data, 0xFF, (size_t)n * 4);
    if (!output || g->adds)
        for (int64_t i = 0; i < n; i++) ((float *)g->d[a].data)[i] = (float)uniform(&k->random, -1, 1);
    memcpy(g->start[a], g->d[a].data, (size_t)n * 4);
    g->written[a] = output;
    return g->d[a];
}

/* Runs one "op outputs <- inputs". */
static void run_step(kernel_call *k, gradients *g, const tri_kernel_table *table, char *text) {
    char *rest, *word = strtok_r(text, " ", &rest);
    int variant = tri__variant_find(word), n = 0, output = 1;
    if (variant < 0) fail_msg("adjoint of %s: no operation %s", tri__variant_row(k->at.variant)->name, word);
    const tri_op_row *row = tri__variant_row(variant);
    tri_attr attr = k->attr;
    tri__variant_set(variant, &attr);
    tri_call call = {.op = row->op, .attr = &attr, .seed = k->call.seed, .step = k->call.step, .threads = 1};
    while ((word = strtok_r(NULL, " ", &rest))) {
        if (strcmp(word, "<-") == 0) {
            output = 0;
            continue;
        }
        if (strcmp(word, "_") == 0) { /* left out */
            n++;
            continue;
        }
        while (!row->arg[n].access) n++;
        int gradient, a = named(k, word, &gradient);
        call.t[n] = operand(k, g, word, output);
        if (!k->block[a]) call.t[n] = (tri_tensor){NULL, k->call.t[a].rows, 0};
        assert_int_equal(output, tri__access_writes(row->arg[n].access));
        if (output && g->adds) call.acc |= 1u << n;
        n++;
    }
    while (n < row->n_args && row->arg[n].optional) n++;
    assert_int_equal(n, row->n_args);
    call.work = malloc((size_t)tri__workspace_bytes(&table->work[variant][TRI_F32], call.t[0].rows, call.t[0].cols, 0) +
                       1);
    table->run[variant][TRI_F32](&call);
    free(call.work);
}

/* Rounding has no useful derivative. The adjoint of quantize is defined as that of the identity ("straight
 * through"), so that is what it is compared with, and that of embed_int8 with embed's; that s * q is x up to half a
 * scale is tested in test_quantized.c. */
static void straight_through(const kernel_call *k, double *const *v) {
    if (k->at.op == TRI_OP_embed) double_embed_rows(k, v);
    else if (k->at.op == TRI_OP_quantize)
        memcpy(v[TRI_ARG(quantize, q)], v[TRI_ARG(quantize, x)], (size_t)operand_count(k, 0) * sizeof(double));
    else double_ops[k->at.op](k, v);
}

static double objective(const kernel_call *k, const gradients *g, double *const *v) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    straight_through(k, v);
    double sum = 0;
    int weighed = 0;
    for (int a = 0; a < row->n_args; a++) {
        if (!g->d[a].data || g->written[a]) continue;
        weighed = 1;
        for (int64_t i = 0; i < operand_count(k, a); i++) sum += v[a][i] * ((float *)g->d[a].data)[i];
    }
    return weighed ? sum : v[0][0]; /* the loss has no gradient to start from: it is the objective */
}

/* Whether element i of operand a is in a row of padding, which has no gradient. */
static int is_padding(const kernel_call *k, int a, int64_t i) {
    if (k->at.op != TRI_OP_embed) return 0;
    int64_t row = i / k->call.t[a].cols + 1;
    return (a == TRI_ARG(embed, word) && row + k->attr.row0 == k->attr.pad) ||
           (a == TRI_ARG(embed, position) && row == k->attr.pad_position);
}

/* Gradients of quantised factors are with respect to scale * q: the scale of element i of such an operand; else 1. */
static double unit_of(const kernel_call *k, double *const *v, int a, int64_t i) {
    if (k->at.op != TRI_OP_linear || !kernel_case_is(&k->at, TRI_FACT_QUANT)) return 1;
    if (a == TRI_ARG(linear, x)) return v[TRI_ARG(linear, s)][i / extent(k, 'I')];
    return a == TRI_ARG(linear, w) ? v[TRI_ARG(linear, ws)][i / extent(k, 'I')] : 1;
}

/* Central differences for at most 150 elements of operand a, spread evenly. */
static void check_gradient(const kernel_call *k, const gradients *g, double *const *v, int a) {
    enum { MOST = 150 };
    int64_t n = operand_count(k, a), stride = n / MOST + 1;
    double want[MOST + 1], largest = 0;
    int count = 0;
    for (int64_t i = 0; i < n; i += stride, count++) {
        double x = v[a][i], unit = unit_of(k, v, a, i), step = 1e-5 / unit, sum[2];
        for (int side = 0; side < 2; side++) {
            v[a][i] = side ? x - step : x + step;
            sum[side] = objective(k, g, v);
        }
        v[a][i] = x;
        want[count] = is_padding(k, a, i) ? 0 : (sum[0] - sum[1]) / (2 * step * unit);
        largest = fmax(largest, fabs(want[count]));
    }
    for (int j = 0; j < count; j++) {
        int64_t i = j * stride;
        double got = ((float *)g->d[a].data)[i] - (g->adds ? (double)g->start[a][i] : 0);
        if (!(fabs(got - want[j]) <= 3e-6 * largest + 1e-6 * (1 + g->adds))) {
            char text[120];
            snprintf(text, sizeof text, "gradient %lld is %.9g, not %.9g", (long long)i, got, want[j]);
            kernel_call_fail(k, a, text);
        }
    }
}

typedef struct context {
    tri_kernel_table table;
    int seen[TRI_VARIANTS];
    int64_t checked[TRI_VARIANTS]; /* gradient tensors */
} context;

static void gradient_run(context *all, const kernel_case *at, float p, unsigned adds) {
    kernel_call k;
    gradients g = {.adds = adds};
    double *v[TRI_MAX_ARGS];
    kernel_call_open(&k, at, p, 0, 0);
    kernel_call_run(&k, &all->table, 1);
    char text[ADJOINT], made[ADJOINT], *rest;
    snprintf(text, sizeof text, "%s", adjoint_of(at->variant, made));
    for (char *step = strtok_r(text, ";", &rest); step; step = strtok_r(NULL, ";", &rest))
        run_step(&k, &g, &all->table, step);
    doubles_open(&k, v);
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        if (!g.written[a] || tri__access_writes(tri__variant_row(at->variant)->arg[a].access)) continue;
        check_gradient(&k, &g, v, a);
        all->checked[at->variant]++;
    }
    doubles_close(v);
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        free(g.d[a].data);
        free(g.start[a]);
    }
    kernel_call_close(&k);
}

static void gradient_case(const kernel_case *at, void *opaque) {
    context *all = opaque;
    int drops = kernel_case_arg(at, "key") >= 0,
        chain = at->op == TRI_OP_linear && kernel_case_is(at, TRI_FACT_ACT); /* dh is read, not added to */
    for (int on = 0; on <= drops; on++)
        for (unsigned adds = 0; adds <= !chain; adds++) gradient_run(all, at, on ? 0.3f : 0, adds);
    all->seen[at->variant]++;
}

static const kernel_grid gradient_grids[] = {
    {"embed embed_int8", "T=0,1,7 H=1,5 V=6 P=4 Y=2"},
    {"norm dropout_add_norm", "T=0,1,2,7 H=1,3,8,20"},
    {"dropout add {act} scale skip", "T=0,1,7 H=1,5,17"},
    {"linear linear{act}", "T=0,1,7 O=1,5 I=1,3,9"},
    {"attention attention_first", "L=0,1,2,3,4 A=1,3 E=1,4"},
    {"pool_first pool_mean", "L=0,1,2,4 H=1,5"},
    {"attention attention_first", "L=0,2 X=3 A=2 E=4"},
    {"attention_bits", "L=0,2 X=3 M=1 A=2 E=4"},
    {"attention_sparse attention_sparse_first", "L=0,2,4 W=0,4 A=1,3 E=4"},
    {"attention_sparse attention_sparse_first", "L=6 W=1,2,3 A=1 E=2"},
    {"attention_sparse attention_sparse_first", "L=0,4 X=3 W=1 A=2 E=4"},
    {"attention_sparse attention_sparse_first", "L=4 W=5 A=2 E=2"},
    {"attention_sparse attention_sparse_first", "L=6 W=6,7 A=1 E=1"},
    {"gated", "T=0,1,7 H=1,5 Y=0,1,2,3"},
    {"rope", "T=0,1,7 A=1,2 E=2,6 P=50"},
    {"table", "B=0,2,6 V=6,7 H=1,5"},
    {"attention_biased", "L=0,2 B=16,20 A=1,3 E=4"},
    {"attention_disentangled", "L=0,2 B=34 G=1,2,3 A=2 E=3"},
    {"attention_biased attention_disentangled", "L=4 B=34 G=3 A=1 E=2"},
    {"attention_biased attention_disentangled", "L=0,2 X=3 B=40 G=3 A=2 E=4"},
    {"pool_first pool_mean", "L=0,2 X=3 H=5"},
    {"pool_first pool_mean", "L=2,4 X=-2 Z=0,1 H=5"},
    {"pool_first pool_mean", "L=2,4 J=3 Z=0,2 H=5"},
    {"kv_part", "T=0,1,4 A=1,3 E=1,4"},
    {"attention_part", "L=0,2 J=2 Z=0,1 U=0,1 A=1,3 E=4"},
    {"attention_part", "L=4 J=3 Z=1 U=1,2 A=2 E=3"},
    {"attention_sparse_part", "L=4 J=2 Z=0,1 U=0,1 W=0,4 A=1,3 E=3"},
    {"attention_sparse_part", "L=6 J=3 Z=0,2 U=1 W=1,7 A=1 E=2"},
    {"heads_part heads_join", "R=0,1,4 D=3,18"},
    {"heads_own", "N=0,1,3 C=1,4 H=9"},
    {"concat", "N=0,1,3 A=1,4 B=0,3 C=0,2"},
    {"gate", "T=0,1,7 H=1,5"},
    {"columns", "N=0,1,7 C=1,4 U=0,1,2,3 H=1,5"},
    {"columns", "N=0,7 C=1,4 U=0,2 G=1 K=1,3 H=1,4"},
    {"cross_entropy cross_entropy_weighted", "N=0,1,7 C=1,2,5 G=0,1,2,3"},
    {"regress regress_weighted", "N=0,1,7 C=1,2,5 J=1 G=0,1,2,3,4,5"},
    {"regress regress_weighted", "N=7 C=3 J=3 G=2,5"},
    {"route balance", "L=0,1,2,4 X=0,3 C=1,5 K=1 R=0,1"},
    {"route balance", "L=0,2,3,4 X=0,3 C=2,4 K=2 R=0"},
    {"dispatch combine", "T=0,1,7 C=2,3 K=1,2 R=0,2 H=1,5"},
    {"linear_experts linear_experts{act}", "C=1,3 R=0,1,5 O=1,4 I=1,5"},
    {"linear_experts", "C=2 G=3 R=2 O=3 I=4"},
    {"quantize_int8", "T=0,1,7 I=1,5,33 M=0,2"},
    {"linear_int8", "T=0,1,7 O=1,5 I=1,3,9"},
};
static const kernel_grid fused_grids[] = {
    {"linear{act}_din linear{act}_int8 linear_fp8 linear{act}_fp8",
     "T=0,1,7 O=1,5 I=1,3,9"}, /* gradients of two operations at once, or none */
    {"row_max", "T=0,1,7 I=1,5,33"},
    {"fp8_cast", "T=0,1,7,16 I=1,5,33 G=0,1"},
    {WEIGHTS_8_BITS, "T=0,1,16 I=5 O=3 H=4 N=16 C=2 B=1 D=7 M=10"},
    {"linear_scaled linear{act}_scaled", "T=0,1,7,16 O=1,5 I=1,3,9"},
    {"dropout_add_norm_scaled", "T=0,1,7,16 H=1,3,20"},
    {"attention_scaled", "L=0,1,2,4 A=1,3 E=1,5"},
    {"quantize_fp8", "T=0,1,7 I=1,5,33 M=0,2"},
    {"attention_first_part", "L=0,2,4 J=3 U=0,1,2 A=1,2 E=3"},
    {"attention_sparse_first_part", "L=0,4,6 J=3 U=0,1,2 W=1,4,5 A=1,2 E=3"},
    {"attention_join", "T=0,1,7 A=1,2 E=3"},
    {"attention_first_join", "N=0,1,3 J=2 A=1,2 E=3"}};
static const kernel_grid update_grids[] = {
    {"accumulate zero sumsq adamw adamw_copy adam sgd lamb_moments lamb_step", "K=0,1,9,1000"},
    {"lamb_average lamb_refresh lamb_factor lamb_frozen", "K=0,1,9,1000"},
    {"momentum momentum_in momentum_alone adamw_frozen adamw_meet", "K=0,1,9,1000"},
    {"local_delta outer_step outer_take swap commit average", "K=0,1,9,1000"},
    {"clip", "K=1,2,30"},
    {"fp8_scales fp8_history", "K=3,30 M=1,2,16"},
    {"fp8_check", "K=3,30"},
    {"balance_none", "C=1"},
    {"cast", "R=0,1,3 C=1,9"}};

/* Operations on coded rows are defined to the byte: tests/unit/test_coded.c. */
static int is_coded(const tri_op_row *row) {
    int q = tri__row_arg(row, "q");
    return q >= 0 && row->arg[q].dtype == TRI_U8;
}

TEST(test_forward) {
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    kernel_cases(gradient_grids, sizeof gradient_grids / sizeof *gradient_grids, forward_case, &table);
    kernel_cases(fused_grids, sizeof fused_grids / sizeof *fused_grids, forward_case, &table);
    kernel_cases(update_grids, sizeof update_grids / sizeof *update_grids, forward_case, &table);
    for (int v = 0; v < tri__variant_count(); v++) {
        tri_op op = tri__variant_row(v)->op;
        tri_op_phase phase = tri__variant_row(v)->phase;
        if (!*tri__variant_row(v)->name || is_coded(tri__variant_row(v)) || tri__op_is_lowered(op)) continue;
        if ((phase == TRI_PHASE_F || phase == TRI_PHASE_U) && !double_ops[op])
            fail_msg("%s has no formula in double", tri__variant_row(v)->name);
    }
}

TEST(test_gradients) {
    context *all = calloc(1, sizeof *all);
    assert_non_null(all);
    tri__device_find("reference")->kernels(&all->table);
    kernel_cases(gradient_grids, sizeof gradient_grids / sizeof *gradient_grids, gradient_case, all);
    char text[ADJOINT];
    for (int v = 0; v < tri__variant_count(); v++) {
        const tri_op_row *row = tri__variant_row(v);
        if (!*row->name || tri__op_is_lowered(row->op) || row->op == TRI_OP_tokens_own) continue; /* a transfer */
        if (adjoint_of(v, text)[0] && (!all->seen[v] || !all->checked[v]))
            fail_msg("no case tries the adjoint of %s", tri__variant_row(v)->name);
    }
    free(all);
}

/* What is computed of transfers: of what all ranks have, each takes its own rows. */
static void own_rows_case(const kernel_case *at, void *table) {
    for (unsigned adds = 0; adds <= 1; adds++) {
        kernel_call k;
        double *v[TRI_MAX_ARGS];
        kernel_call_open(&k, at, 0, adds, 0);
        kernel_call_run(&k, table, 1);
        doubles_open(&k, v);
        for (int64_t i = 0, n = operand_count(&k, 0); i < n; i++)
            if (kernel_value(&k, 0, i) != (double)(float)(v[1][k.attr.part * n + i] + (adds ? v[0][i] : 0)))
                kernel_call_fail(&k, 0, "is not the part of the rows that was asked for");
        doubles_close(v);
        kernel_call_close(&k);
    }
}

TEST(test_own_rows) {
    static const kernel_grid grids[] = {{"tokens_own tokens_whole_din", "T=12 R=0,1,4,6 H=1,7"}};
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    kernel_cases(grids, 1, own_rows_case, &table);
}

/* Weight gradients of no rows are zeros, not what was there. */
static void zeros_case(const kernel_case *at, void *table) {
    kernel_call k;
    kernel_call_open(&k, at, 0, 0, 0);
    kernel_call_run(&k, table, 1);
    for (int a = 0; tri__variant_row(at->variant)->arg[a].access == TRI_ACCESS_A; a++)
        for (int64_t i = 0; i < operand_count(&k, a); i++)
            if (kernel_value(&k, a, i) != 0) kernel_call_fail(&k, a, "is not zero after no rows");
    kernel_call_close(&k);
}

TEST(test_no_rows) {
    static const kernel_grid grids[] = {
        {"embed_dw", "T=0 H=5 V=6 P=4 Y=2"},
        {"norm_dw dropout_add_norm_din gelu_din_db", "T=0 H=5"},
        {"linear_dw linear_int8_dw linear_scaled_dw", "T=0 O=5 I=3"},
        {"bias_dw", "T=0 O=5"},
        {"linear_experts_dw bias_experts_dw", "C=2 R=0 O=5 I=3"},
    };
    static const char *const devices[] = {"cpu", "reference"};
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        kernel_cases(grids, 5, zeros_case, &table);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
