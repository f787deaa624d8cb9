/* test_cuda_updates.c - rows of the CUDA plug-in that belong to the end of a step, beside the cases of
 * test_cuda_kernels.c: steps that are not applied, operands that are left out, codes of what is not finite. Skipped,
 * with the reason, without a GPU. */
#include "tests/lib/test.h"
#include "tests/lib/kernel_gpu.h"

static gpu *the_gpu; /* made by main, before the tests */

/* LAMB's results from what is there, which a forbidden step gives too. */
static int is_result(tri_op op, int arg) {
    if (op == TRI_OP_lamb_moments) return arg == TRI_ARG(lamb_moments, sums);
    return op == TRI_OP_lamb_refresh && (arg == TRI_ARG(lamb_refresh, most) || arg == TRI_ARG(lamb_refresh, sums));
}

/* A forbidden step changes nothing else. */
static void try_forbidden(const kernel_case *at, void *context) {
    gpu *g = context;
    kernel_call k;
    kernel_call_open(&k, at, 0, 0, 0);
    int apply = kernel_case_arg(at, "apply");
    *(int32_t *)k.call.t[apply].data = 0;
    memcpy(k.before[apply], k.block[apply], k.bytes[apply] + GUARD);
    run_on_gpu(g, &k, 0);
    for (int a = 0; a < apply; a++) {
        if (is_result(at->op, a)) assert_true(kernel_value(&k, a, 0) > 0);
        else if (k.block[a]) assert_memory_equal(k.block[a], k.before[a], k.bytes[a] + 2 * GUARD);
    }
    kernel_call_close(&k);
    g->seen[at->variant]++;
}

TEST(a_skipped_step_changes_nothing) {
    static const kernel_grid grids[] = {
        {"adamw adamw_copy adam sgd lamb_moments lamb_step lamb_average lamb_refresh lamb_factor lamb_frozen "
         "momentum momentum_in momentum_alone adamw_frozen adamw_meet outer_step outer_take commit average",
         "K=77"},
        {"pack unpack_sum momentum_out", "F=1,2,3,4,5 M=2 K=600"},
        {"fp8_history", "K=6 M=16"},
    };
    memset(the_gpu->seen, 0, sizeof the_gpu->seen);
    kernel_cases(grids, 3, try_forbidden, the_gpu);
    for (int v = 0; v < tri__variant_count(); v++)
        if (*tri__variant_row(v)->name && tri__row_arg(tri__variant_row(v), "apply") > 0 &&
            tri__variant_row(v)->op != TRI_OP_clip && !the_gpu->seen[v])
            fail_msg("no case forbids %s", tri__variant_row(v)->name);
}

/* Without operands that are only read, one at a time and all together; pack keeps x or e. */
static void try_left_out(const kernel_case *at, void *context) {
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned all = 0;
    for (int a = 0; a < row->n_args; a++) {
        if (!row->arg[a].optional) continue;
        try_variant(context, at, ((gpu *)context)->type, 0, 0, 1u << a);
        if (row->arg[a].access == TRI_ACCESS_R) all |= 1u << a;
    }
    try_variant(context, at, ((gpu *)context)->type, 0, 0, all);
    if (at->op == TRI_OP_pack) try_variant(context, at, ((gpu *)context)->type, 0, 0, all & ~(1u << TRI_ARG(pack, x)));
    if (at->op == TRI_OP_pack)
        try_variant(context, at, ((gpu *)context)->type, 0, 0,
                    1u << TRI_ARG(pack, e) | (all & ~(1u << TRI_ARG(pack, x))));
}

TEST(operands_may_be_left_out) {
    static const kernel_grid grids[] = {
        {"pack unpack_sum", "F=1,2,3,4,5 M=2 K=1,600"},
        {"sgd lamb_moments lamb_step lamb_refresh lamb_frozen outer_step outer_take average", "K=77,5000"},
    };
    for (int i = 0; i < 3; i++) {
        the_gpu->type = types[i];
        kernel_cases(grids, 2, try_left_out, the_gpu);
    }
}

/* What is not finite, very large or very small has the bytes, and leaves the errors, of the CPU's rows. */
static void try_extremes(const kernel_case *at, void *context) {
    static const float extremes[] = {NAN, -NAN, INFINITY, -INFINITY, 3.4e38f, -3e38f, 1e-30f, -1e-38f, 1e-42f, -0.0f};
    enum { COUNT = sizeof extremes / sizeof *extremes };
    gpu *g = context;
    for (int n = 0; n < 2 * COUNT; n++) { /* one among others, or each block filled with it */
        kernel_call want, got;
        kernel_call_open(&want, at, 0, 0, 1u << TRI_ARG(pack, scale));
        float *x = want.call.t[TRI_ARG(pack, x)].data;
        for (int64_t i = n < COUNT ? 300 : 0; i < operand_count(&want, TRI_ARG(pack, x)); i += n < COUNT ? 1000000 : 1)
            x[i] = extremes[n % COUNT];
        if (n >= COUNT) memset(want.call.t[TRI_ARG(pack, e)].data, 0, want.bytes[TRI_ARG(pack, e)]);
        kernel_call_open(&got, at, 0, 0, 1u << TRI_ARG(pack, scale));
        for (int a = 0; a < TRI_MAX_ARGS; a++) {
            if (!want.block[a]) continue;
            memcpy(want.before[a], want.block[a], want.bytes[a] + 2 * GUARD);
            memcpy(got.block[a], want.block[a], want.bytes[a] + 2 * GUARD);
            memcpy(got.before[a], want.block[a], want.bytes[a] + 2 * GUARD);
        }
        kernel_call_run(&want, &g->reference, 1);
        run_on_gpu(g, &got, 0);
        for (int a = 0; a <= TRI_ARG(pack, e); a++)
            if (memcmp(got.block[a], want.block[a], want.bytes[a] + 2 * GUARD) != 0) {
                char text[80];
                snprintf(text, sizeof text, "has other bytes with %g, case %d", (double)extremes[n % COUNT], n);
                kernel_call_fail(&got, a, text);
            }
        kernel_call_close(&want);
        kernel_call_close(&got);
    }
}

TEST(extremes_are_coded_alike) {
    static const kernel_grid grid = {"pack", "F=1,2,3,4,5 M=2 K=2000"};
    kernel_cases(&grid, 1, try_extremes, the_gpu);
}

int main(int argc, char **argv) {
    static gpu g;
    if (!open_gpu(&g)) {
        printf("%s\n", tri_error());
        return 77;
    }
    the_gpu = &g;
    int failed = run_listed(argc, argv, NULL, NULL);
    close_gpu(&g);
    return failed;
}
