/* kernel_double_fp8.h - operations of FP8 training in double, beside kernel_double.c, which includes this. */
#ifndef TESTS_KERNEL_DOUBLE_FP8_H
#define TESTS_KERNEL_DOUBLE_FP8_H

#include "tests/lib/kernel_double_attention.h"

/* To `bits` significant bits, or a multiple of `least`; ties to even. */
double double_rounded(double x, int bits, double least);
double double_to_e4m3(double x);

/* q and transposed [T,I] of x, and most, of a call whose operand `arg` is q. */
void double_8_bits(const kernel_call *k, int arg, const double *x, double s, double *q, double *transposed,
                   double *most);
void double_fp8_cast(const kernel_call *k, double *const *v);
void double_fp8_cast_weights(const kernel_call *k, double *const *v);
void double_fp8_turn(const kernel_call *k, double *const *v);
void double_fp8_scales(const kernel_call *k, double *const *v);
void double_fp8_check(const kernel_call *k, double *const *v);
void double_fp8_history(const kernel_call *k, double *const *v);
void double_attention(const kernel_call *k, double *const *v);

#endif
