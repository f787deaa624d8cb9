/* simd.h - serial kernels on ranges, compiled once per instruction set; the rows split work into ranges for threads. A
 * result depends on the range's contents only, never on how ranges are assigned to threads. */
#ifndef TRI_DEVICE_CPU_FAST_RUNTIME_SIMD_H
#define TRI_DEVICE_CPU_FAST_RUNTIME_SIMD_H

#include "layout/blocks.h"
#include "program/op.h"

#include <stdint.h>

enum {
    TRI_KERNEL_SLACK = 64, /* bytes that a product kernel may read beyond its panels */
    TRI_KERNEL_STEP = 4    /* the product kernel's k is a multiple of this; panels are padded with zeros */
};

/* Which values dropout keeps: a function of (seed, id, step), the row's key and the feature (base/random.h). */
typedef struct tri_drop {
    uint32_t seed, id, step;
    uint32_t threshold;  /* 0: nothing is dropped */
    float scale;         /* factor of kept values */
    const int32_t *key;  /* [T,2] */
} tri_drop;

/* y = norm(dropout(x) + res) */
typedef struct tri_norm_rows {
    tri_drop drop;
    float factor;          /* of x, before dropout; read with res alone */
    int64_t h;
    const float *x, *res;  /* [T,h]; res NULL: none */
    const float *g, *b;    /* [h]; b NULL: none */
    float *y;              /* [T,h] */
    float *xhat, *rstd;    /* [T,h], [T]; may be NULL */
    float eps;
} tri_norm_rows;

/* dres = the gradient before the norm; dx = dropout of it, times a factor; each if not NULL */
typedef struct tri_norm_din {
    tri_drop drop;
    float factor;                /* of dx; read with it alone */
    int64_t h;
    const float *dy, *xhat;      /* [T,h] */
    const float *rstd, *g;       /* [T], [h] */
    float *dx, *dres;            /* [T,h]; may be NULL */
    int acc_dx, acc_dres;
} tri_norm_din;

/* The gradients of y = f(a) * b. */
typedef struct tri_gated_din {
    int64_t n;
    const float *dy, *a, *b;     /* [n] each */
    float *da, *db;
    int acc;
} tri_gated_din;

/* A run of weights that an optimizer updates. What one does not use is NULL, or not read. */
typedef struct tri_update_run {
    float *p, *m, *v;
    const float *g;              /* [n] each */
    float coef, lr, c1, c2, beta1, beta2, eps, decay;
    int nesterov;                /* sgd */
    float ratio;                 /* lamb_step */
    double *sums;                /* lamb_moments: [2], of p^2 and r^2, added to; may be NULL */
    float *fresh, c;             /* lamb_refresh: [n], and its correction; g is the momentum of the step before. sums:
                                    [4], of r^2, (r + decay * p)^2, p^2, added to; the largest, if it is larger */
} tri_update_run;

/* e += (kept * m + fresh * g) / (sqrt(v) + eps) where m is not 0, in double. */
typedef struct tri_momentum_run {
    float *e;                    /* [n] */
    const float *m, *g, *v;      /* [n] each; v NULL: divided by 1 */
    double kept, fresh;
    float eps;
} tri_momentum_run;

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

/* A row of a dense layer's result in bf16: what its sums become (gemm_half.h). */
typedef struct tri_half_row {
    const uint16_t *bias;        /* added; NULL: none */
    uint16_t *y;                 /* the sums, rounded; may be NULL with `activated` */
    int add;                     /* to what y was */
    uint16_t *activated;         /* GELU of the rounded sums; NULL: none */
    const uint16_t *slope_at;    /* y becomes the rounded sums times the slope of GELU here; NULL: none */
} tri_half_row;

struct tri_half_product;

/* The same in bf16, by instructions that multiply bf16; queries attend to all keys of their own sequence. */
typedef struct tri_head_half {
    const struct tri_half_product *product; /* nr is head_columns, b_group head_group (tri_simd) */
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

/* Numbers to be coded: x or half (bf16), plus factor * e, 0 where the mask is; NULL: left out, but not all of them. */
typedef struct tri_coded_in {
    const float *x;
    const uint16_t *half;
    const float *e, *mask;
    float factor;
} tri_coded_in;

/* Some blocks of 256 of them, as coded: all numbers and scales are finite. */
typedef struct tri_coded_out {
    int64_t blocks;
    const float *t;       /* [blocks,256] */
    const uint16_t *half; /* the same in bf16, instead of t; only without e, and not for signs */
    const float *scale;   /* [blocks] */
    uint8_t *payload;
    float *e;             /* [blocks,256] (t - what the payload stands for) * after; may be NULL */
    const float *mask;    /* [blocks,256] of signs: where it is 0, e is; may be NULL */
    float after;
} tri_coded_out;

/* What becomes of expanded numbers: stored, added, stored as a momentum where that is not 0, or rounded to 16 bits. */
typedef enum tri_coded_to { TRI_TO_F32, TRI_TO_SUM, TRI_TO_MOMENTUM, TRI_TO_BF16, TRI_TO_F16 } tri_coded_to;

typedef struct tri_simd {
    const char *name;
    int mr, nr;         /* tile of the product kernel */
    /* For large products: rows and columns of the result computed together, from panels in the L2 cache; and whether a
     * panel of A stays in the L1 cache or one of B. */
    int tile_rows, tile_columns, a_stays;
    int slow; /* 1: a BLAS is faster, and computes gradients; not forward passes, as it sums a row's products in an
               * order that depends on the number of rows */
    /* c[i,j] = init[i,j] + sum_k a[k,i] b[k,j]: a [k,mr] and b [k,nr] are packed; rows of init, which may be NULL, and
     * of c have strides ld_init and ld floats */
    void (*product)(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                    int64_t ld);
    /* The same with rows of a [mr,k] in place, with stride ld_a floats; NULL: a must be packed */
    void (*product_rows)(int64_t k, const float *a, int64_t ld_a, const float *b, const float *init, int64_t ld_init,
                         float *c, int64_t ld);
    /* y = f(x); dx = dy * f', where `at` is x or, of an activation by_result, y */
    void (*act)(tri_activation act, int64_t n, const float *x, float *y);
    void (*act_din)(tri_activation act, int64_t n, const float *dy, const float *at, float *dx, int acc);
    void (*gated)(tri_activation act, int64_t n, const float *a, const float *b, float *y);
    void (*gated_din)(tri_activation act, const tri_gated_din *gated);
    /* y = float(sum) * (s * scale) + bias, rounded three times */
    void (*scale_sums)(int64_t n, const int32_t *sum, float s, const float *scale, const float *bias, float *y);
    float (*largest)(int64_t n, const float *x); /* of |x|; NaN if one is */
    /* q = x * inverse, rounded to nearest, ties to even, within -127 .. 127; 0 for NaN */
    void (*to_int8)(int64_t n, const float *x, float inverse, int8_t *q);
    /* Rows t0 to t1 - 1 of [T,h]. */
    void (*dropout)(const tri_drop *drop, int64_t t0, int64_t t1, int64_t h, const float *x, float *y, int acc);
    void (*norm)(const tri_norm_rows *norm, int64_t t0, int64_t t1);
    void (*norm_din)(const tri_norm_din *norm, int64_t t0, int64_t t1);
    /* sum[j] = sum_t dy[t,j], in order of t; with xhat also dot[j] = sum_t dy[t,j] xhat[t,j]; add: accumulate */
    void (*column_sums)(int64_t t0, int64_t t1, int64_t h, const float *dy, const float *xhat, double *sum, double *dot,
                        int add);
    double (*sumsq)(int64_t n, const float *x);
    void (*adamw)(const tri_update_run *run, int64_t n);
    void (*adamw_frozen)(const tri_update_run *run, int64_t n); /* no g; m and v are read */
    void (*adam)(const tri_update_run *run, int64_t n);
    void (*sgd)(const tri_update_run *run, int64_t n);          /* m NULL: no momentum */
    void (*lamb_moments)(const tri_update_run *run, int64_t n); /* g NULL: m and v stay */
    void (*lamb_step)(const tri_update_run *run, int64_t n);
    void (*lamb_frozen)(const tri_update_run *run, int64_t n);
    void (*lamb_refresh)(const tri_update_run *run, int64_t n); /* g NULL: fresh stays */
    void (*momentum)(const tri_momentum_run *run, int64_t n);
    void (*momentum_unit)(int64_t n, const float *v, float eps, float *x); /* x *= sqrt(v) + eps */
    /* Blocks of numbers/coded.h; encode and decode are indexed by tri_code. */
    void (*coded_take)(const tri_coded_in *in, int64_t blocks, float *t, float *most);
    void (*coded_largest)(int64_t blocks, const float *t, float *most); /* of |t|; NaN if one is */
    void (*coded_largest_bf16)(int64_t blocks, const uint16_t *t, float *most);
    /* A block in signs: what is coded, unless that is x alone, its payload, and sums[k] of sizes over i = k, k + 16,
     * ...; returns how many are not masked, where there is a mask */
    int64_t (*coded_signs)(const tri_coded_in *in, float *t, uint8_t *payload, double sums[16]);
    void (*encode[6])(const tri_coded_out *out); /* signs: e alone */
    void (*decode[6])(int64_t blocks, const uint8_t *payload, const float *scale, void *y, tri_coded_to to);
    void (*coded_to_half)(int64_t n, const float *x, uint16_t *y, int is_bf16); /* n: a multiple of 256; else f16 */
    void (*coded_from_f16)(int64_t n, const uint16_t *x, float *y);             /* the same */
    void (*coded_replace)(int64_t n, const float *value, float *m); /* as TRI_TO_MOMENTUM */
    /* bf16 as fp32, the same added to y, and fp32 rounded to bf16. */
    void (*widen)(int64_t n, const uint16_t *x, float *y);
    void (*widen_add)(int64_t n, const uint16_t *x, float *y);
    void (*narrow)(int64_t n, const float *x, uint16_t *y);
    void (*finish_half)(const tri_half_row *row, int64_t n, const float *sum);
    int64_t (*head_work)(int64_t len, int64_t d);     /* floats */
    void (*head)(const tri_head *head);
    int64_t (*head_din_work)(int64_t len, int64_t d); /* floats */
    void (*head_din)(const tri_head *head);
    int head_columns, head_group; /* keys or queries of a panel; rows of one that are interleaved in bf16 */
    int64_t (*head_half_work)(const struct tri_half_product *product, int64_t len, int64_t d); /* floats */
    void (*head_half)(const tri_head_half *head);
    int64_t (*head_half_din_work)(const struct tri_half_product *product, int64_t len, int64_t d);
    void (*head_half_din)(const tri_head_half *head);
    /* The same with scores that depend on distances; the gradients of their table are added to. */
    int64_t (*head_relative_work)(int64_t len, int64_t d);
    void (*head_relative)(const tri_head *head, const tri_relative *relative);
    void (*head_relative_din)(const tri_head *head, const tri_relative *relative);
    /* The same over present blocks. */
    int64_t (*head_sparse_work)(int64_t len, int64_t d);
    void (*head_sparse)(const tri_head *head);
    int64_t (*head_sparse_din_work)(int64_t len, int64_t d);
    void (*head_sparse_din)(const tri_head *head);
    /* The same for the first query alone, over all keys or present blocks: ctx, lse and dctx have one row. Its gradient
     * sets dq of the other rows to 0. */
    void (*head_first)(const tri_head *head);
    void (*head_first_din)(const tri_head *head);
} tri_simd;

/* The best table that this CPU supports; NULL: none. */
const tri_simd *tri__simd(void);

#if defined(__x86_64__)
extern const tri_simd tri__simd_sse, tri__simd_avx2, tri__simd_avx512, tri__simd_avx512_bf16;
#elif defined(__aarch64__)
extern const tri_simd tri__simd_neon;
#endif

#endif
