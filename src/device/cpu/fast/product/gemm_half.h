/* gemm_half.h - products of large bf16 matrices with instructions that multiply bf16 and add in fp32. Tiles are fixed
 * by shape; each element is summed by one thread in an order fixed by the shape. */
#pragma once

#include "device/cpu/fast/runtime/isa.h"
#include "program/op.h"

/* A panel of A or of B: its rows are n rows of `from`, along which k runs, or columns, if it is transposed. */
typedef struct tri_half_panel {
    int is_b, transposed;
    const uint16_t *from;
    int64_t ld;                         /* row stride of `from` */
    const int32_t *list;                /* the rows of `from`, one after the other; NULL: all */
    int64_t n, k, padded;               /* what exists; zeros are added up to `padded` of k, and mr or nr rows */
} tri_half_panel;

typedef void tri_half_pack(const tri_half_panel *panel, uint16_t *to);

/* A kernel in registers. Panels hold k in groups, in the instruction's layout: a [k / a_group, mr, a_group], b [k /
 * b_group, nr, b_group]. */
typedef struct tri_half_product tri_half_product;
struct tri_half_product {
    const char *name;
    int mr, nr, a_group, b_group;
    int step;                           /* k is a multiple of it; panels are padded with zeros */
    int k_block;                        /* this much of k at a time: its panels stay in the L1 cache */
    void (*begin)(void), (*end)(void);  /* around calls of run, on the calling thread; may be NULL */
    /* c[i,j] = (add ? c : 0) + sum a b over `steps` steps of k; rows of c have stride ld floats. */
    void (*run)(int64_t steps, const uint16_t *a, const uint16_t *b, float *c, int64_t ld, int add);
    /* The same with rows of a [mr,k] in place, with stride ld_a; NULL: a must be packed. */
    void (*run_rows)(int64_t steps, const uint16_t *a, int64_t ld_a, const uint16_t *b, float *c, int64_t ld, int add);
    tri_half_pack *a_rows, *a_columns, *b_rows, *b_columns; /* of panels without a list; columns: transposed */
};

void tri__half_pack(const tri_half_product *kernel, const tri_half_panel *panel, uint16_t *to);

/* The kernel for this CPU; NULL: none, and products go through fp32. */
const tri_half_product *tri__half_product(void);

#if defined(__x86_64__)
extern const tri_half_product tri__half_product_avx512, tri__half_product_amx;
int tri__half_vectors(void); /* what both kernels pack with: AVX-512 F, BW and VL */
int tri__amx_granted(void);
/* Configure and release the calling thread's tiles: 16 rows of 64 bytes each. */
void tri__amx_begin(void);
void tri__amx_end(void);
#elif defined(__aarch64__)
extern const tri_half_product tri__half_product_bfmmla;
#endif

/* A row of a dense layer's result in bf16: what its sums become. */
typedef struct tri_half_row {
    const uint16_t *bias;        /* added; NULL: none */
    uint16_t *y;                 /* the sums, rounded; may be NULL with `activated` */
    int add;                     /* to what y was */
    tri_activation act;          /* the one of the next two */
    uint16_t *activated;         /* that of the rounded sums; NULL: none */
    const uint16_t *slope_at;    /* y becomes the rounded sums times its slope, computed from this; NULL: none */
} tri_half_row;

/* c[m,n] = (add ? c : 0) + a[m,k] b[k,n] + bias, rounded once; an fp32 c has neither a bias nor what follows it */
typedef struct tri_half_gemm {
    int64_t m, n, k;
    const uint16_t *a, *b;     /* bf16, stored [m,k] and [k,n]; or [k,m], [n,k] if transposed */
    int a_transposed, b_transposed;
    const int32_t *rows;       /* as in gemm.h */
    const int32_t *terms;
    const uint16_t *bias;      /* bf16 [n]; NULL: none */
    void *c;                   /* [m,n], bf16, or fp32 if `wide`; may be NULL with `activated` */
    int wide, add;
    tri_activation act;        /* of the next two */
    uint16_t *activated;       /* bf16 [m,n]: that of the rounded result; NULL: none */
    const uint16_t *slope_at;  /* bf16 [m,n]: c becomes the rounded result times its slope, computed from this; NULL:
                                  none */
    int threads;
    void *work;                /* tri__half_gemm_work bytes */
} tri_half_gemm;

#ifdef TRI_ISA
int64_t PER_ISA(tri__half_gemm_work)(const tri_half_gemm *gemm);
/* Whether the scratch space of a forward pass holds the panels, whatever the number of its rows, m: a row has the same
 * bits however many there are. One row fits in the space of its elements and the weights' (4 bytes each), and the space
 * of each further row holds its panel. */
int PER_ISA(tri__half_gemm_fits_any)(const tri_half_gemm *gemm);
void PER_ISA(tri__half_gemm)(const tri_half_gemm *gemm);
void PER_ISA(tri__finish_half)(const tri_half_row *row, int64_t n, const float *sum);
#endif
