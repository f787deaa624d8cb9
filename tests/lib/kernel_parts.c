/* kernel_parts.c - see kernel_parts.h. */
#include "tests/lib/kernel_parts.h"

const kernel_part kernel_parts[] = {
    {"dropout_add_norm_din", "norm_din", "dres dy xhat rstd g"},
    {"dropout_add_norm_din", "norm_dw", "dg db dy xhat"},
    {"dropout_add_norm_din", "bias_dw", "dbias dx"},
#define TRI_ACTIVATION(NAME, name, flops, slope, by_result, config)                                                   \
    {#name "_din_db", #name "_din", (by_result) ? "dx dy y" : "dx dy x"}, {#name "_din_db", "bias_dw", "db dx"},       \
    {"linear_" #name "_din", "bias_dw", "db dx"},
#include "program/activation.def"
    {"attention_din_db", "attention_din", "dqkv dctx qkv ctx lse seq key bits"},
    {"attention_din_db", "bias_dw", "db dqkv"},
};
const int kernel_n_parts = sizeof kernel_parts / sizeof *kernel_parts;

int kernel_part_of(int which, int variant) {
    return strcmp(kernel_parts[which].fused, tri__variant_row(variant)->name) == 0;
}

/* of[a]: the operand of `fused` that operand a of its part is; -1: none. */
static void kernel_part_operands(int which, int of[static TRI_MAX_ARGS]) {
    const tri_op_row *fused = tri__variant_row(tri__variant_find(kernel_parts[which].fused)),
                     *part = tri__variant_row(tri__variant_find(kernel_parts[which].part));
    char text[128], *rest = text;
    snprintf(text, sizeof text, "%s", kernel_parts[which].operands);
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        of[a] = -1;
        if (a < part->n_args && part->arg[a].access) of[a] = tri__row_arg(fused, strsep(&rest, " "));
    }
}

int kernel_sums_rounded(int variant, int arg) {
    const tri_op_row *row = tri__variant_row(variant);
    tri_op op = row->op;
    int of[TRI_MAX_ARGS];
    if (op == TRI_OP_linear_din && row->facts & TRI_FACT_SCALED && arg == TRI_ARG(linear_din, db)) return 1;
    if (op == TRI_OP_norm_din && row->facts & TRI_FACT_SCALED && arg == TRI_ARG(norm_din, dbias)) return 1;
    if (op == TRI_OP_attention_din && row->facts & TRI_FACT_SCALED && arg == TRI_ARG(attention_din, db)) return 1;
    for (int i = 0; i < kernel_n_parts; i++) {
        if (!kernel_part_of(i, variant) || strcmp(kernel_parts[i].part, "bias_dw") != 0) continue;
        kernel_part_operands(i, of);
        if (of[TRI_ARG(bias_dw, db)] == arg) return 1;
    }
    return 0;
}

double kernel_sum_scale(const kernel_call *k, int arg) {
    if (kernel_case_fp8(&k->at)) return 0; /* operand 0 has a scale; their sums are those of parts: test_fp8.c */
    double most = arg == kernel_arg(k, "dbias") && tri__variant_row(k->at.variant)->facts & TRI_FACT_BIAS;
    int64_t cols = k->call.t[0].cols;
    for (int64_t c = 0; c < cols && kernel_sums_rounded(k->at.variant, arg); c++) {
        double sum = 0;
        for (int64_t i = c; i < operand_count(k, 0); i += cols) sum += fabs(kernel_value(k, 0, i));
        if (sum > most) most = sum;
    }
    return most;
}

void kernel_part_check(const kernel_call *fused, int which, kernel_runner *run, void *context) {
    kernel_case at = fused->at;
    kernel_call part;
    unsigned acc = 0;
    int of[TRI_MAX_ARGS];
    at.variant = tri__variant_find(kernel_parts[which].part);
    const tri_op_row *row = tri__variant_row(at.variant);
    at.op = row->op;
    kernel_part_operands(which, of);
    at.dim['O' - 'A'] = fused->call.t[0].cols; /* bias_dw has the columns of what the fused operation writes first */
    for (int k = 0; k < row->n_args; k++)
        if (of[k] >= 0) acc |= (fused->call.acc >> of[k] & 1) << k;
    kernel_call_open_mixed(&part, &at, fused->type, fused->loose, fused->attr.p, acc, 0);
    for (int k = 0; k < row->n_args; k++) {
        int writes = tri__access_writes(row->arg[k].access);
        if ((writes && !(acc >> k & 1)) || !part.block[k]) continue;
        assert_true(part.bytes[k] == fused->bytes[of[k]]);
        memcpy(part.block[k], writes ? fused->before[of[k]] : fused->block[of[k]], part.bytes[k] + 2 * GUARD);
        memcpy(part.before[k], part.block[k], part.bytes[k] + 2 * GUARD);
    }
    run(&part, context);
    for (int k = 0; k < row->n_args; k++)
        if (tri__access_writes(row->arg[k].access) &&
            memcmp(part.block[k], fused->block[of[k]], part.bytes[k] + 2 * GUARD) != 0)
            kernel_call_fail(fused, of[k], "differs from what the operation alone gives");
    kernel_call_close(&part);
}

void kernel_parts_try(const kernel_case *at, tri_dtype type, tri_dtype loose, kernel_runner *run, void *context) {
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned sums = 0;
    for (int a = 0; a < row->n_args; a++)
        if (row->arg[a].access == TRI_ACCESS_A && row->arg[a].dtype == TRI_DTYPE_ANY) sums |= 1u << a;
    for (int add = 0; add <= 1; add++) {
        kernel_call fused;
        kernel_call_open_mixed(&fused, at, type, loose, add ? 0.3f : 0, add ? sums : 0, 0);
        run(&fused, context);
        for (int i = 0; i < kernel_n_parts; i++)
            if (kernel_part_of(i, at->variant)) kernel_part_check(&fused, i, run, context);
        kernel_call_close(&fused);
    }
}
