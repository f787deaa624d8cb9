/* head.h - one head of one sequence, as kernels of attention take it. */
#pragma once

#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/runtime/isa.h"
#include "layout/blocks.h"

/* Zeroes an operand's padding rows, from t on. */
static inline void clear_rest(const tri_call *call, int k, int64_t t) {
    size_t row = (size_t)call->t[k].cols * tri__dtype_bytes((tri_dtype)call->dtype[k]);
    char *data = call->t[k].data;
    if (data && !adds(call, k)) memset(data + (size_t)t * row, 0, (size_t)(call->t[k].rows - t) * row);
}

/* Which blocks of a head are present. */
typedef struct tri_head_blocks {
    tri_block_lists keys, queries; /* key blocks of each block of queries; query blocks of each block of keys */
    int64_t block;                 /* tokens */
} tri_head_blocks;

/* One head of one sequence: rows of queries, keys and values, ctx and their gradients have strides `ld`, `ld_kv` and
 * `ld_ctx` floats. Only head and head_din take keys that are not those of the queries' tokens. */
typedef struct tri_head {
    tri_drop drop;               /* key at the sequence's first row */
    int64_t len, keys, d;        /* queries, keys, head size */
    int64_t feature0;            /* of the first key, for dropout */
    int64_t ld, ld_kv, ld_ctx, ld_lse;
    const float *q, *k, *v;      /* [len,d], ld; [keys,d], ld_kv */
    float *ctx, *lse;            /* [len,d], ld_ctx; [len], ld_lse, may be NULL in the forward */
    const float *dctx;           /* [len,d], ld_ctx */
    float *dq, *dk, *dv;         /* as q, k, v */
    int acc, acc_kv;             /* of dq; of dk and dv */
    float *work;
    const tri_head_blocks *blocks; /* NULL: all keys */
    int64_t window;              /* of these only keys at most as many tokens away; 0: all */
    int64_t shift;               /* tokens from the first key to the first query: head and head_din */
    int64_t terms;               /* products of a score; 0: 1 */
    /* What head and head_din add to scores, in powers of 2: [keys,queries] and [queries,keys]; NULL: nothing. Rows and
     * columns beyond the last are read up to a panel's end, whatever they hold. */
    const float *added;
    int64_t ld_added;
    float *slope;                /* head_din: [queries,keys] the gradients of scores; may be NULL, or be `added` */
    int64_t ld_slope;
} tri_head;

struct tri_half_product;

/* The same in bf16, by instructions that multiply bf16; queries attend to all keys of their own sequence. */
typedef struct tri_head_half {
    const struct tri_half_product *product; /* nr is HR, b_group HEAD_GROUP (simd_vec.h) */
    tri_drop drop;
    int64_t len, d, feature0;
    int64_t ld, ld_ctx, ld_lse;
    const uint16_t *q, *k, *v;   /* [len,d], ld */
    uint16_t *ctx;               /* [len,d], ld_ctx */
    float *lse;                  /* [len], ld_lse, may be NULL in the forward */
    const uint16_t *dctx;
    uint16_t *dq, *dk, *dv;
    int acc;
    float *work;
} tri_head_half;

#ifdef TRI_ISA
/* Floats of `work`, and the head. */
int64_t PER_ISA(tri__head_half_work)(const struct tri_half_product *product, int64_t len, int64_t d);
void PER_ISA(tri__head_half)(const tri_head_half *head);
int64_t PER_ISA(tri__head_half_din_work)(const struct tri_half_product *product, int64_t len, int64_t d);
void PER_ISA(tri__head_half_din)(const tri_head_half *head);
#endif

/* What the scores of a head have beside q_i k_j, by the distance i - j: bias, or the products of q_i and k_j with a
 * distance's own key and query. */
typedef struct tri_relative {
    const int32_t *row;          /* of each distance, from 1 - len to len - 1: row[0] is of distance 0 */
    int64_t ld;                  /* of the table, floats */
    const float *bias;           /* [B,1]; NULL: none */
    const float *q, *k;          /* [B,d]; NULL: no such term */
    double *dbias;               /* [B] added to */
    float *dq, *dk;              /* as q and k, added to */
    float *work;
} tri_relative;
