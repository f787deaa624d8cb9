/* kernel.h - a kernel: a function of one call, and its row in a table indexed by operation and element type. Adding a
 * kernel: a row in the file of its operation family. docs/extending/adding-a-kernel.md */
#pragma once

#include "program/target.h"

/* A dense row-major matrix in device memory. */
typedef struct tri_tensor {
    void *data;           /* [rows, cols]; NULL if the operand is absent */
    int64_t rows, cols;
} tri_tensor;

typedef struct tri_kernel_table tri_kernel_table;

typedef struct tri_call {
    tri_tensor t[TRI_MAX_ARGS]; /* in the order of the operation's row */
    uint8_t dtype[TRI_MAX_ARGS];/* a tri_dtype each; f32 rows need not check: operands have the types of ops.def */
    tri_op op;
    const tri_kernel_table *table; /* the device's, for rows that call others */
    unsigned acc;               /* bit k: operand k is added to, not overwritten */
    const tri_attr *attr;
    uint32_t seed, step;        /* of random numbers; asynchronous devices get the step from `begin_run`, too */
    int threads;
    void *work;                 /* scratch space as the row requested, aligned to 64 */
    void *context;              /* the device's: streams, libraries; NULL on a CPU */
} tri_call;

typedef void tri_kernel(const tri_call *call);

typedef struct tri_kernel_row {
    tri_op op;
    tri_dtype dtype;     /* tri__instr_dtype: rows of 16-bit types get operands of both widths */
    tri_kernel *run;     /* NULL ends a list of rows */
    tri_workspace work;
    unsigned facts       /* of the variants that it computes, tri_fact or-ed, but for those of operands alone */
#ifdef __cplusplus
        = 0              /* where a row of CUDA C leaves it out */
#endif
        ;
} tri_kernel_row;
/* A list of rows, with its end. */
#define TRI_KERNEL_ROWS(...) {__VA_ARGS__, {.run = NULL}}
/* The row of an fp32 kernel that has its operation's name. */
#define TRI_KERNEL(op_) {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_}
/* The rows of a function for every float type. */
#define TRI_WIDTH_ROWS(op_, run_, facts_)                                  \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = run_, .facts = facts_},  \
    {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = run_, .facts = facts_}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = run_, .facts = facts_}

struct tri_kernel_table {
    tri_kernel *run[TRI_VARIANTS][TRI_DTYPE_COUNT];
    tri_workspace work[TRI_VARIANTS][TRI_DTYPE_COUNT];
};

/* What distinguishes the kernels of an operation: all facts but those on which operands alone depend, and those that a
 * kernel asks its attributes for: directions, and small differences of updates. */
static inline unsigned tri__kernel_facts(int variant) {
    unsigned own = TRI_FACT_RESULT | TRI_FACT_BACK | TRI_FACT_JOIN | TRI_FACT_MEAN | TRI_FACT_BALANCE |
                   TRI_FACT_FROZEN | TRI_FACT_MEET | TRI_FACT_WEIGHTED;
    return tri__variant_row(variant)->facts & ~own;
}

/* Puts a row into the places of the variants that it computes. */
static inline void tri__kernel_table_put(tri_kernel_table *table, const tri_kernel_row *row, tri_dtype dtype) {
    for (int v = tri__op_variants(row->op), end = v + tri__op_variant_count(row->op); v < end; v++) {
        if (tri__kernel_facts(v) != row->facts) continue;
        table->run[v][dtype] = row->run;
        table->work[v][dtype] = row->work;
    }
}

/* Replaces the function of rows that are there, and leaves their scratch space. */
static inline void tri__kernel_table_run(tri_kernel_table *table, tri_op op, unsigned facts, tri_dtype dtype,
                                         tri_kernel *run) {
    for (int v = tri__op_variants(op), end = v + tri__op_variant_count(op); v < end; v++)
        if (tri__kernel_facts(v) == facts) table->run[v][dtype] = run;
}

/* Adds rows to a table; later rows override earlier ones. */
static inline void tri__kernel_table_add(tri_kernel_table *table, const tri_kernel_row *rows) {
    for (; rows->run; rows++) tri__kernel_table_put(table, rows, rows->dtype);
}

static inline const tri_op_row *tri__call_row(const tri_call *call) { return tri__op_row(call->op, call->attr); }

/* The operand of act_din that the slope of its activation is computed from. */
static inline int tri__slope_arg(const tri_attr *attr) {
    int by_result = tri__activations[attr->activation - 1].by_result;
    return by_result ? TRI_ARG(act_din, y) : TRI_ARG(act_din, x);
}

/* The kernel of an operation with these attributes; NULL: none. */
static inline tri_kernel *tri__kernel(const tri_kernel_table *table, tri_op op, const tri_attr *attr, int dtype) {
    int variant = tri__variant(op, attr);
    return variant < 0 ? NULL : table->run[variant][dtype];
}
