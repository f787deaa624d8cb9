/* device.h - what runs kernels: a vtable and a table of kernels indexed by operation and element type.
 * Adding a kernel: a row in the file of its operation family. docs/adding-a-kernel.md */
#ifndef TRI_DEVICE_DEVICE_H
#define TRI_DEVICE_DEVICE_H

#include "base/status.h"
#include "program/op.h"
#include "program/target.h"

/* A dense row-major matrix in device memory. */
typedef struct tri_tensor {
    void *data;           /* [rows, cols]; NULL when the operand is left out */
    int64_t rows, cols;
} tri_tensor;

typedef struct tri_kernel_table tri_kernel_table;

typedef struct tri_call {
    tri_tensor t[TRI_MAX_ARGS]; /* in the order of the operation's row */
    uint8_t dtype[TRI_MAX_ARGS];/* a tri_dtype each; rows of f32 need not look: theirs is the type that ops.def gives */
    tri_op op;
    const tri_kernel_table *table; /* the device's, for rows that run others */
    unsigned acc;               /* bit k: operand k is added to, not overwritten */
    const tri_attr *attr;
    uint32_t seed, step;        /* of random numbers */
    int threads;
    void *work;                 /* scratch space as the kernel row asks, aligned to 64 */
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

typedef struct tri_device tri_device;
struct tri_device {
    const char *name;
    int hollow;            /* 1: its kernels compute nothing */
    double flops, bytes;   /* a second, for predictions; 0 unknown */
    /* Fills the kernel table for this machine: reference rows, then the fast rows that override them. */
    void (*kernels)(tri_kernel_table *table);
    /* One allocation of zeroed memory, aligned to 4096; and its release, which accepts NULL. */
    tri_status (*alloc)(size_t bytes, void **out);
    void (*free)(void *memory, size_t bytes);
    /* The same in the second, larger memory: on a CPU a file without a name in `folder`, whose space is reserved now. */
    tri_status (*alloc_second)(const char *folder, size_t bytes, void **out);
    /* A line for people: "cpu: neoverse-v1, neon, blis". */
    const char *(*describe)(void);
};

/* "cpu"; "reference" (plain kernels only); "null", "timed" (kernels that compute nothing). NULL when there is none of that name. */
const tri_device *tri__device_find(const char *name);
/* The names there are, for messages: "cpu, reference, null, timed". */
const char *tri__device_names(void);
/* Adds rows to a table; later rows override earlier ones. */
void tri__kernel_table_add(tri_kernel_table *table, const tri_kernel_row *rows);
/* The target that describes a device to the planner. */
void tri__device_target(const tri_device *device, tri_target *target);

#endif
