/* target.h - what a plan may know about hardware, as plain data. A device fills it in; a test can too. */
#pragma once

#include "program/op.h"

/* Scratch bytes of one call: fixed + rows * row + cols * col + row_cols * rows * cols, with rows and cols of the
 * operation's first operand that is there, and `half` for each element of its 16-bit operands. */
typedef struct tri_workspace {
    int64_t fixed, row, col, row_cols, half;
} tri_workspace;

static inline int64_t tri__workspace_bytes(const tri_workspace *work, int64_t rows, int64_t cols, int64_t halves) {
    return work->fixed + work->row * rows + work->col * cols + work->row_cols * rows * cols + work->half * halves;
}

enum { TRI_LANES = 2 }; /* queues of kernels that one rank may use */

typedef struct tri_target {
    const char *name;
    uint8_t has[TRI_VARIANTS][TRI_DTYPE_COUNT]; /* 1 where a kernel row exists */
    tri_workspace work[TRI_VARIANTS][TRI_DTYPE_COUNT];
    int granule; /* token counts are rounded up to multiples of it where one rank's kernels are short; 0 is 1 */
    double short_flops;                         /* short: a square dense layer takes fewer FLOPs than this */
    int64_t ahead; /* bytes copied from offload memory ahead of their use; 0: kernels access it directly */
    int lanes;     /* queues of kernels that run concurrently, at most TRI_LANES; 0 is 1 */
    /* from this max_sen_len on, attention in 16 bits keeps dropout's decisions for its gradient; 0: never */
    int mask_tokens;
    double flops, bytes;                        /* a second, for predictions; 0 unknown */
} tri_target;

/* Whether the target has a kernel for an operation with these attributes. */
static inline int tri__target_has(const tri_target *target, tri_op op, const tri_attr *attr, tri_dtype dtype) {
    int variant = tri__variant(op, attr);
    return variant >= 0 && target->has[variant][dtype];
}
