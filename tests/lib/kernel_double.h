/* kernel_double.h - forward and update operations in double, implemented independently from their formulas in ops.def.
 * All operands, integers too, are arrays of double in the order of the operation's row. */
#ifndef TESTS_KERNEL_DOUBLE_H
#define TESTS_KERNEL_DOUBLE_H

#include "tests/lib/kernel_mask.h"

typedef void double_op(const kernel_call *k, double *const *v);
void double_embed_rows(const kernel_call *k, double *const *v);

extern double_op *const double_ops[TRI_OP_COUNT];

#endif
