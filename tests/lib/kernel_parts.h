/* kernel_parts.h - checks that fused operations with sums over tokens give the same bits as the operations they
 * replace, which schedules with separate weight gradients use. */
#ifndef TESTS_KERNEL_PARTS_H
#define TESTS_KERNEL_PARTS_H

#include "tests/lib/kernel_call.h"

typedef void kernel_runner(kernel_call *k, void *context);

/* The operands of `part`, in order, as those of `fused` are named. */
typedef struct kernel_part {
    const char *fused, *part, *operands;
} kernel_part;
extern const kernel_part kernel_parts[];
extern const int kernel_n_parts;

int kernel_part_of(int which, int variant);

/* Whether an operand is a sum of values that the operation rounded first: 16-bit numbers may cancel there, so it is
 * compared only with the part. */
int kernel_sums_rounded(int variant, int arg);

/* The error scale of such a sum: the largest column sum of magnitudes of operand 0. The sum itself may be small, if
 * numbers cancel. So do those of dbias: each is a difference of numbers of the order of 1. 0 for other operands. */
double kernel_sum_scale(const kernel_call *k, int arg);

/* Runs a part of a call that has already run, and compares. */
void kernel_part_check(const kernel_call *fused, int which, kernel_runner *run, void *context);

/* Overwriting, and adding to the sums. */
void kernel_parts_try(const kernel_case *at, tri_dtype type, tri_dtype loose, kernel_runner *run, void *context);

#endif
