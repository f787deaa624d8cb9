/* kernel_double_experts.h - operations of mixtures of experts in double, as in kernel_double.c. */
#ifndef TESTS_KERNEL_DOUBLE_EXPERTS_H
#define TESTS_KERNEL_DOUBLE_EXPERTS_H

#include "tests/lib/kernel_call.h"

/* choice, weight, from, probs, logits, seq, places: a token's place is the number of choices of its sequence that its
 * expert meets before it. */
void double_route(const kernel_call *k, double *const *v);

/* sums, probs, choice, from, seq, inv */
void double_balance(const kernel_call *k, double *const *v);

/* y, x, choice, from */
void double_dispatch(const kernel_call *k, double *const *v);

/* y, x, choice, weight, from */
void double_combine(const kernel_call *k, double *const *v);

#endif
