/* kernel.h - a kernel: a function of one call, and its row in a table indexed by operation and element type. Adding a
 * kernel: a row in the file of its operation family. docs/extending/adding-a-kernel.md */
#ifndef TRI_DEVICE_KERNEL_H
#define TRI_DEVICE_KERNEL_H

#include "program/op.h"
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
} tri_kernel_row;

struct tri_kernel_table {
    tri_kernel *run[TRI_OP_COUNT][TRI_DTYPE_COUNT];
    tri_workspace work[TRI_OP_COUNT][TRI_DTYPE_COUNT];
};

/* Adds rows to a table; later rows override earlier ones. */
static inline void tri__kernel_table_add(tri_kernel_table *table, const tri_kernel_row *rows) {
    for (; rows->run; rows++) {
        table->run[rows->op][rows->dtype] = rows->run;
        table->work[rows->op][rows->dtype] = rows->work;
    }
}

#endif
