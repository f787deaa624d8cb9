/* op.c - expands ops.def into the operation table. */
#include "program/op.h"

#include <stdlib.h>
#include <string.h>

/* The letters of dims, as variables of the cost expressions. */
#define B (d->of['B' - 'A'])
#define C (d->of['C' - 'A'])
#define D (d->of['D' - 'A'])
#define H (d->of['H' - 'A'])
#define I (d->of['I' - 'A'])
#define K (d->of['K' - 'A'])
#define M (d->of['M' - 'A'])
#define N (d->of['N' - 'A'])
#define O (d->of['O' - 'A'])
#define P (d->of['P' - 'A'])
#define Q (d->of['Q' - 'A'])
#define T (d->of['T' - 'A'])
#define TRI_OP(name, phase, flops, ...) \
    static double flops_##name(const tri_dims *d) { return (void)d, (double)(flops); }
#include "program/ops.def"
#undef TRI_OP
#undef B
#undef C
#undef D
#undef H
#undef I
#undef K
#undef M
#undef N
#undef O
#undef P
#undef Q
#undef T

enum {
    KIND_C = TRI_DTYPE_COMPUTE,
    KIND_ANY = TRI_DTYPE_ANY,
#define X(upper, lower, bytes) KIND_##upper = TRI_##upper,
    TRI_DTYPES(X)
#undef X
};

#define OPERAND(access_, optional_, name_, dims_, dtype_, ...)                                                \
    {.name = #name_, .access = TRI_ACCESS_##access_, .optional = optional_, .dtype = KIND_##dtype_, .dims = dims_}
#define R(...) OPERAND(R, 0, __VA_ARGS__, C, 0)
#define Ro(...) OPERAND(R, 1, __VA_ARGS__, C, 0)
#define G(...) OPERAND(G, 0, __VA_ARGS__, C, 0)
#define Go(...) OPERAND(G, 1, __VA_ARGS__, C, 0)
#define W(...) OPERAND(W, 0, __VA_ARGS__, C, 0)
#define Wo(...) OPERAND(W, 1, __VA_ARGS__, C, 0)
#define A(...) OPERAND(A, 0, __VA_ARGS__, C, 0)
#define Ao(...) OPERAND(A, 1, __VA_ARGS__, C, 0)
#define U(...) OPERAND(U, 0, __VA_ARGS__, C, 0)
#define Uo(...) OPERAND(U, 1, __VA_ARGS__, C, 0)

#define ROW(...) __VA_ARGS__

static const tri_op_row rows[TRI_OP_COUNT] = {
#define TRI_OP(name_, phase_, cost_, adjoint_, formula_, row_, ...)     \
    [TRI_OP_##name_] = {.name = #name_,                                 \
                        .phase = TRI_PHASE_##phase_,                    \
                        .flops = flops_##name_,                         \
                        .adjoint = adjoint_,                            \
                        .formula = formula_,                            \
                        .arg = {__VA_ARGS__},                           \
                        .n_args = (int)(sizeof((tri_operand[]){__VA_ARGS__}) / sizeof(tri_operand)), \
                        row_},
#include "program/ops.def"
#undef TRI_OP
};

const tri_op_row *tri__op_row(tri_op op) { return &rows[op]; }

int tri__op_find(const char *name) {
    for (int op = 0; op < TRI_OP_COUNT; op++)
        if (strcmp(rows[op].name, name) == 0) return op;
    return -1;
}

int tri__op_arg(tri_op op, const char *name) {
    for (int k = 0; k < rows[op].n_args; k++)
        if (strcmp(rows[op].arg[k].name, name) == 0) return k;
    return -1;
}

tri_op_family tri__op_family(tri_op op) {
    return rows[op].phase == TRI_PHASE_U ? TRI_OPS_UPDATE : rows[op].family;
}

int tri__op_is_lowered(tri_op op) { return rows[op].lowered; }

tri_queue tri__op_queue(tri_op op) {
    if (tri__op_is_lowered(op)) return TRI_QUEUE_COMM;
    switch (rows[op].phase) {
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

int tri__op_bind(tri_op op, const tri_extent *arg, tri_dims *dims) {
    const tri_op_row *row = &rows[op];
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

tri_cost tri__op_cost(tri_op op, const tri_extent *arg, unsigned acc, const tri_dims *dims) {
    const tri_op_row *row = &rows[op];
    tri_cost cost = {.flops = row->flops(dims)};
    for (int k = 0; k < row->n_args; k++) {
        int gathered = row->arg[k].access == TRI_ACCESS_G; /* one row a token, or for each column of a sample */
        double tokens = dims->of['T' - 'A'], each = tokens ? tokens : dims->of['N' - 'A'] * dims->of['C' - 'A'];
        double elements = (gathered ? each : (double)arg[k].rows) * (double)arg[k].cols;
        if (arg[k].there)
            cost.bytes += elements * (double)tri__dtype_bytes(arg[k].dtype) * traffic(&row->arg[k], acc >> k & 1);
    }
    return cost;
}
