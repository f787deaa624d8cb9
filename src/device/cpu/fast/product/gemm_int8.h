/* gemm_int8.h - products of int8 matrices summed in int32, which is exact: results do not depend on the kernel, on
 * tiles or on threads. Factors are within -127 .. 127. */
#pragma once

#include "device/cpu/fast/runtime/isa.h"
#include "layout/dtype.h"

enum { TRI_INT8_ROWS = 64, TRI_INT8_COLUMNS = 48, TRI_INT8_TAIL = 4 }; /* mr divides ROWS; nr is at most COLUMNS */

/* Products of `rows` rows of a with nr of b, for kernels that read both in place: y[i,j] = float(sum over k) *
 * (a_scale[i] * b_scale[j]) + bias[j], rounded three times. */
typedef struct tri_int8_rows {
    int64_t k, rows;                    /* whole tiles: rows is a multiple of mr */
    const int8_t *const *a, *const *b;  /* [rows], [nr]: rows of k numbers */
    const float *a_scale, *b_scale;     /* [rows], [nr] */
    const float *bias;                  /* [nr] */
    float *y;                           /* [rows,nr], rows have stride ld */
    int64_t ld;
    const int8_t *next;                 /* what may be prefetched meanwhile: as much as the rows of b have */
} tri_int8_rows;

/* A kernel in registers, for mr rows of a and nr of b, which are columns of the result. It reads both in place, or
 * panels of them in the instruction's layout. */
typedef struct tri_int8_product {
    const char *name;
    int mr, nr;
    void (*in_place)(const tri_int8_rows *what); /* NULL: panels, as follows */
    int step;                           /* k of a panel is a multiple of it; padded with zeros */
    int element;                        /* bytes of a number in a panel: 1, or 2 for int16 */
    void (*begin)(void), (*end)(void);  /* around calls of run, on the calling thread; may be NULL */
    /* Copies rows 0 to n - 1 of `from`, with row stride ld, and k columns of each into a panel for `padded` of k: mr or
     * nr * (padded + TRI_INT8_TAIL) numbers. */
    void (*pack_a)(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded);
    void (*pack_b)(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded);
    /* c[i,j] = (add ? c : 0) + sum a b over `steps` steps of k; rows of c have stride ld. */
    void (*run)(int64_t steps, const void *a, const void *b, int32_t *c, int64_t ld, int add);
} tri_int8_product;

/* The best kernel for this CPU. */
const tri_int8_product *tri__int8_product(void);

/* All kernels that this CPU has, the best first, up to TRI_INT8_PRODUCTS; the last is the plain one. Returns how
 * many. */
enum { TRI_INT8_PRODUCTS = 5 };
int tri__int8_products(const tri_int8_product *list[TRI_INT8_PRODUCTS]);

extern const tri_int8_product tri__int8_product_plain;
#if defined(__x86_64__)
extern const tri_int8_product tri__int8_product_avx2, tri__int8_product_avxvnni, tri__int8_product_avx512vnni,
    tri__int8_product_amx;
int tri__amx_int8_granted(void);
#elif defined(__aarch64__)
extern const tri_int8_product tri__int8_product_sdot, tri__int8_product_smmla;
#endif

/* h[m,n] = float(a[m,k] b[n,k]^T) * (a_scale * b_scale) + bias, each operation rounded to fp32; c = h, or an
 * activation of h rounded to its type; both rounded to `type`. */
typedef struct tri_int8_gemm {
    int64_t m, n, k;
    const int8_t *a, *b;                /* [m,k], [n,k] */
    const float *a_scale, *b_scale;     /* [m], [n] */
    const void *bias;                   /* [n] of `type`; NULL: none */
    void *c;                            /* [m,n] of `type` */
    void *h;                            /* the same; NULL: not stored */
    int activation;                     /* 1 + a tri_activation; 0: none */
    tri_dtype type;                     /* fp32, bf16 or fp16 */
    int threads;
    const tri_int8_product *kernel;
} tri_int8_gemm;

#ifdef TRI_ISA
void PER_ISA(tri__int8_gemm)(const tri_int8_gemm *gemm);
#endif
