/* op.c - expands ops.def into the table of operations; what a row says about operands and costs. */
#include "program/op_def.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* rows leave out what is 0; clang warns */

#define ACT_FLOPS (row->act ? row->act->flops : 0)
#define ACT_SLOPE (row->act ? row->act->slope : 0)
#define IS(fact) (row->facts & TRI_FACT_##fact ? 1.0 : 0.0)
#define OF(letter) letter = d->of[#letter[0] - 'A']
#define TRI_OP(name, phase, flops, ...)                                                                                \
    static double flops_##name(const tri_dims *d, const tri_op_row *row) {                                             \
        /* the letters of dims, as variables of the cost expressions */                                                \
        __attribute__((unused)) const double OF(B), OF(C), OF(D), OF(H), OF(I), OF(K), OF(M), OF(N), OF(O), OF(P),     \
            OF(Q), OF(T);                                                                                              \
        return (void)row, (double)(flops);                                                                             \
    }
#include "program/ops.def"
#undef OF

/* Names in ops.def: of element types, and of facts. */
enum {
    C = 1 + TRI_DTYPE_COMPUTE,
    ANY = 1 + TRI_DTYPE_ANY,
    F8 = 1 + TRI_DTYPE_F8,
#define X(upper, lower, bytes) upper = 1 + TRI_##upper,
    TRI_DTYPES(X)
#undef X
};
enum {
#define X(name, text) name = TRI_FACT_##name,
    TRI_FACTS(X)
#undef X
};

/* An operand's dims, type and conditions are the next fields of tri_operand_def, in this order. */
#define OPERAND(access_, optional_, name_, ...) \
    {.name = #name_, .access = TRI_ACCESS_##access_, .optional = optional_, .dims = __VA_ARGS__}
#define R(name_, ...) OPERAND(R, 0, name_, __VA_ARGS__)
#define Ro(name_, ...) OPERAND(R, 1, name_, __VA_ARGS__)
#define G(name_, ...) OPERAND(G, 0, name_, __VA_ARGS__)
#define Go(name_, ...) OPERAND(G, 1, name_, __VA_ARGS__)
#define W(name_, ...) OPERAND(W, 0, name_, __VA_ARGS__)
#define Wo(name_, ...) OPERAND(W, 1, name_, __VA_ARGS__)
#define A(name_, ...) OPERAND(A, 0, name_, __VA_ARGS__)
#define Ao(name_, ...) OPERAND(A, 1, name_, __VA_ARGS__)
#define U(name_, ...) OPERAND(U, 0, name_, __VA_ARGS__)
#define Uo(name_, ...) OPERAND(U, 1, name_, __VA_ARGS__)
#define IF(facts_) {.rule = TRI_RULE_IF, .facts = facts_}
#define IF_ANY(facts_) {.rule = TRI_RULE_ANY, .facts = facts_}
#define IF_NOT(facts_) {.rule = TRI_RULE_NOT, .facts = facts_}
#define OR(facts_, ...) {.rule = TRI_RULE_OR, .facts = facts_, .is = __VA_ARGS__}
#define ROW(...) __VA_ARGS__

static const tri_op_def defs[TRI_OP_COUNT] = {
#define TRI_OP(name_, phase_, cost_, adjoint_, formula_, row_, ...)                                                    \
    [TRI_OP_##name_] = {.name = #name_, .phase = TRI_PHASE_##phase_, .flops = flops_##name_, .adjoint = adjoint_,      \
                        .formula = formula_, .arg = (const tri_operand_def[]){__VA_ARGS__},                            \
                        .n_args = (int)sizeof(struct tri_args_##name_), row_},
#include "program/ops.def"
};

const tri_op_def *tri__op_def(tri_op op) { return &defs[op]; }

int tri__row_arg(const tri_op_row *row, const char *name) {
    for (int k = 0; k < row->n_args; k++)
        if (row->arg[k].access && strcmp(row->arg[k].name, name) == 0) return k;
    return -1;
}

int tri__row_run(const tri_op_row *row) {
    int k = 0;
    if (row->part != TRI_PART_TOKENS && row->part != TRI_PART_ROWS) return -1;
    while (!row->arg[k].access || row->arg[k].dims[0] == 'N') k++; /* rows of samples */
    return k;
}

int tri__row_is_flat(const tri_op_row *row, int k) { return row->elementwise || strcmp(row->arg[k].dims, "1,K") == 0; }

int tri__row_is_fp8(const tri_op_row *row) {
    return row->family == TRI_OPS_PRODUCTS && row->facts & TRI_FACT_SCALED;
}

tri_op_family tri__op_family(tri_op op) {
    return defs[op].phase == TRI_PHASE_U ? TRI_OPS_UPDATE : defs[op].family;
}

int tri__op_is_lowered(tri_op op) { return defs[op].lowered; }

tri_queue tri__op_queue(tri_op op) {
    if (tri__op_is_lowered(op)) return TRI_QUEUE_COMM;
    switch (defs[op].phase) {
    case TRI_PHASE_T: return TRI_QUEUE_COMM;
    case TRI_PHASE_I: case TRI_PHASE_M: return TRI_QUEUE_COPY;
    default: return TRI_QUEUE_COMPUTE;
    }
}

int tri__access_reads(tri_access access) {
    return access == TRI_ACCESS_R || access == TRI_ACCESS_G || access == TRI_ACCESS_U;
}

int tri__access_writes(tri_access access) {
    return access == TRI_ACCESS_W || access == TRI_ACCESS_A || access == TRI_ACCESS_U;
}

/* Binds one dim of an operand: a letter to its extent, or a number that must be the extent. */
static int bind(tri_dims *dims, unsigned *bound, const char *dim, int64_t extent) {
    if (*dim >= '0' && *dim <= '9') return strtol(dim, NULL, 10) == extent;
    int letter = *dim - 'A';
    if (*bound & (1u << letter)) return dims->of[letter] == (double)extent;
    *bound |= 1u << letter;
    dims->of[letter] = (double)extent;
    return 1;
}

int tri__op_bind(const tri_op_row *row, const tri_extent *arg, tri_dims *dims) {
    unsigned bound = 0;
    *dims = (tri_dims){{0}};
    for (int k = 0; k < row->n_args; k++) {
        if (!arg[k].there) continue;
        const char *text = row->arg[k].dims;
        if (!bind(dims, &bound, text, arg[k].rows) || !bind(dims, &bound, strchr(text, ',') + 1, arg[k].cols)) return k;
    }
    return -1;
}

/* How often an operand's bytes pass through memory. */
static double traffic(const tri_operand *operand, int accumulates) {
    if (operand->access == TRI_ACCESS_U) return 2;
    return operand->access == TRI_ACCESS_A && accumulates ? 2 : 1;
}

tri_cost tri__op_cost(const tri_op_row *row, const tri_extent *arg, unsigned acc, const tri_dims *dims) {
    tri_cost cost = {.flops = row->flops(dims, row)};
    for (int k = 0; k < row->n_args; k++) {
        int gathered = row->arg[k].access == TRI_ACCESS_G; /* one row a token, or for each column of a sample */
        double tokens = dims->of['T' - 'A'], each = tokens ? tokens : dims->of['N' - 'A'] * dims->of['C' - 'A'];
        double elements = (gathered ? each : (double)arg[k].rows) * (double)arg[k].cols;
        if (arg[k].there)
            cost.bytes += elements * (double)tri__dtype_bytes(arg[k].dtype) * traffic(&row->arg[k], acc >> k & 1);
    }
    return cost;
}
