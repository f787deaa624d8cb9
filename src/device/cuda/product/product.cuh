/* product.cuh - products of matrices by cuBLASLt, with the known algorithm for their shape. Our matrices are row-major
 * and the library's column-major: each is passed as its transpose, so y = x w^T is computed as y^T = w x^T. Sums are in
 * fp32, of int8 factors in int32; TF32 is not used. */
#pragma once

#include "device/cuda/runtime/common.cuh"
#include "device/wisdom.h"

/* D = A B + bias, or D += A B + bias; column-major. */
typedef struct product {
    tri_product_shape shape;
    const void *a, *b, *bias; /* bias [m] or NULL */
    void *d;
    const float *factor;      /* [1] on the device: of the product of 8-bit factors; NULL: 1 */
    int64_t lda, ldb, ldd;    /* ldd is m unless set */
    int tokens_in_k;          /* 1: k counts tokens, 0: n does */
    size_t taken;             /* bytes at the end of the library's workspace that hold operands */
    int batch;                /* 0: one product; else so many, of matrices at these distances, in elements */
    int64_t next_a, next_b, next_d;
} product;

/* type, out: tri_dtype. */
product new_product(int64_t m, int64_t n, int64_t k, int type, int out);
/* Queues it; or, while products are being timed (tri__cuda_tune), times it instead. `where` appears in messages. */
void multiply(const tri_call *call, product *p, const char *where);
/* The same; 0: the library cannot do it. */
int try_multiply(const tri_call *call, product *p);
/* Whether products are being timed: rows then do nothing else. */
static inline int only_timed(const tri_call *call) { return tri__cuda(call)->tuned != NULL; }

/* What follows a dense layer, by the rows of the activation that is part of the call; tensors are of `type`. y becomes
 * the activation of h. */
void activate(const tri_call *call, const tri_tensor &y, const tri_tensor &h, int type);
/* dx, the product, becomes that times the slope, which is computed from `from`; operand db of the call becomes its
 * sums, which are added to what is there if `add`. */
void activate_din(const tri_call *call, const tri_tensor &dx, const tri_tensor &from, int type, int db, int add,
                  void *work);
