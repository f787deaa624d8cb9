/* kernel_double_attention.h - attention, its parts in a ring, heads and pooling in double, as in kernel_double.c. */
#ifndef TESTS_KERNEL_DOUBLE_ATTENTION_H
#define TESTS_KERNEL_DOUBLE_ATTENTION_H

#include "tests/lib/kernel_mask.h"

/* Operands of attention, and of its parts in a ring. */
enum {
    CTX = TRI_ARG(attention, ctx),
    LSE = TRI_ARG(attention, lse),
    QKV = TRI_ARG(attention, qkv),
    REL = TRI_ARG(attention, rel), /* or bias */
    SEQ = TRI_ARG(attention, seq),
    PART_LSE = TRI_ARG(attention_part, lse),
    PART_Q = TRI_ARG(attention_part, q),
    PART_QKV = TRI_ARG(attention_part, qkv),
    PART_KV = TRI_ARG(attention_part, kv),
    PART_SEQ = TRI_ARG(attention_part, seq)
};

void double_attend_all(const kernel_call *k, double *const *v);
void double_attend_first(const kernel_call *k, double *const *v);

/* Words of tiles that belong to no sequence keep the poison. */
void double_mask(const kernel_call *k, double *bits);
void double_table(const kernel_call *k, double *const *v);
void double_pool(const kernel_call *k, double *const *v);
void double_kv_part(const kernel_call *k, double *const *v);
void double_attention_part(const kernel_call *k, double *const *v);
void double_attention_join(const kernel_call *k, double *const *v);
void double_attention_first_join(const kernel_call *k, double *const *v);
void double_heads(const kernel_call *k, double *const *v);
void double_heads_own(const kernel_call *k, double *const *v);

#endif
