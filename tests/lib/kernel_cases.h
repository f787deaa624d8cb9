/* kernel_cases.h - test cases of kernels: rows of operations and grids of extents, whose product is visited.
 *
 * A grid is "T=1,2,3 H=8,20": the letters are those of the operands' dims in ops.def, and twelve more:
 *   L   the number of a set of sequence lengths in kernel_cases.c; it gives T (their sum), N (how many) and S (N + 1)
 *   X   rows after the last sequence, which belong to none
 *   E   columns of one attention head; with A heads it gives H = A E and D = 3 H
 *   J   ranks of a ring (layout/runs.h): T is the rows of a run, K of all; Z and U: the runs of queries and of keys
 *   W   the number of a pattern of block-sparse attention there; it gives K, with J B
 *   M   for quantize: sets of row maxima, each of T; 0: the operand is left out. For attention: 1
 *       decisions are kept as bits, in rows that are long enough
 *   R   of operations of experts: rows beyond a place in each of C experts for T K choices, or for route and balance
 *       beyond the capacities of sequences, those of a factor of 1; they give P = C O, and for dense layers T = G C R
 *   G   of linear of experts: runs of rows of an expert; 0: 1. Of cross_entropy: 1 smoothed labels, 2 and 3 focal
 *   B   of relative-position attention: rows of the table; G 1, 2 or 3: attr.terms
 *   F   a code (numbers/coded.h) of K elements in M parts, of unpack_sum M times K; it gives the bytes B of a row
 *   U   of columns: 0 numbers alone, 1 categories alone, 2 both, 3 and hashed texts; G 1: numbers are periodic, of K
 *       frequencies. They give P, V, B and D of C columns
 *   G   of fp8_cast: 1: e5m2
 * Y of concat is A + B + C; a part of 0 columns is left out. Y of gated is a tri_activation. Used by tests, and
 * suitable for timing. */
#ifndef TESTS_KERNEL_CASES_H
#define TESTS_KERNEL_CASES_H

#include "numbers/coded.h"
#include "layout/columns.h"
#include "model/pattern.h"
#include "program/op.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct kernel_grid {
    const char *ops, *dims; /* both separated by spaces */
} kernel_grid;

/* The variant of an operation without attributes. */
static inline int plain(tri_op op) { return tri__variant(op, &(tri_attr){0}); }
static inline const tri_op_row *plain_row(tri_op op) { return tri__variant_row(plain(op)); }

typedef struct kernel_case {
    tri_op op;
    int variant;            /* of op */
    int64_t dim[26];        /* by letter */
    const int32_t *lengths; /* ended by 0; NULL without L */
    const tri_pattern *pattern;
    const int32_t *blocks;  /* [K] its words; NULL where attention is not block-sparse */
} kernel_case;

/* The operand of this name; -1: the variant has none. */
static inline int kernel_case_arg(const kernel_case *at, const char *name) {
    return tri__row_arg(tri__variant_row(at->variant), name);
}

enum { MAX_SEQUENCES = 12 };

/* Patterns of sequences of up to KERNEL_LONGEST tokens, and how many heads may have layouts. */
enum { KERNEL_LONGEST = 301, KERNEL_HEADS = 6 };
/* attr.window with each. */
extern const int32_t kernel_windows[];

#define ATTENTION "attention attention_din attention_din_db attention_first attention_first_din"
#define SPARSE "attention_sparse attention_sparse_din attention_sparse_first attention_sparse_first_din"
#define BIASED "attention_biased attention_biased_din"
#define DISENTANGLED "attention_disentangled attention_disentangled_din"
#define RING_ATTENTION "attention_part attention_part_din attention_first_part attention_first_part_din"
#define RING_SPARSE                                                                       \
    "attention_sparse_part attention_sparse_part_din attention_sparse_first_part " \
    "attention_sparse_first_part_din"
#define QUANTIZED "linear_int8 linear_gelu_int8 linear_int8_din linear_int8_dw linear_fp8 linear_gelu_fp8"
#define SCALED "linear_scaled linear_scaled_din linear_scaled_dw linear_gelu_scaled linear_gelu_scaled_din"
#define WEIGHTS_8_BITS "fp8_cast_weights fp8_turn"
#define NORMS_SCALED "dropout_add_norm_scaled dropout_add_norm_scaled_din"
#define ATTENTION_SCALED "attention_scaled attention_scaled_din"
#define DENSE_EXPERTS "linear_experts linear_experts_gelu linear_experts_din linear_experts_dw bias_experts_dw"
#define FUSED "linear{act} linear{act}_din linear{act}_int8 linear{act}_fp8 linear{act}_scaled linear{act}_scaled_din"
#define MOVES "dispatch dispatch_din combine combine_din"
#define CODED "pack unpack unpack_sum momentum_out"
extern const kernel_grid kernel_grids[];
extern const int kernel_n_grids;

typedef void kernel_visit(const kernel_case *at, void *context);

static inline int kernel_case_is(const kernel_case *at, unsigned facts) {
    return (tri__variant_row(at->variant)->facts & facts) == facts;
}

/* Pooling of run Z of the tokens, of which there are T; X below 0: fewer than the sequences have. */
static inline int kernel_case_pools(const kernel_case *at) {
    return at->op == TRI_OP_pool;
}

/* Operations of a ring's ranks. */
static inline int kernel_case_rings(const kernel_case *at) {
    return at->op >= TRI_OP_kv_part && at->op <= TRI_OP_attention_first_join;
}

/* Operations of FP8 training. */
static inline int kernel_case_fp8(const kernel_case *at) {
    return (at->op >= TRI_OP_fp8_cast && at->op <= TRI_OP_fp8_history) || kernel_case_is(at, TRI_FACT_SCALED);
}

/* Operations of mixtures of experts. */
static inline int kernel_case_experts(const kernel_case *at) {
    return (at->op >= TRI_OP_route && at->op <= TRI_OP_combine_din) || kernel_case_is(at, TRI_FACT_EXPERTS);
}

/* Places of an expert for a sequence: its share of the choices. */
int64_t kernel_capacity(const kernel_case *at, int64_t length);

/* Operations of columns as vectors. */
static inline int kernel_case_columns(const kernel_case *at) {
    return at->op == TRI_OP_columns || at->op == TRI_OP_columns_dw;
}

/* The words of the columns, [C, 6] or NULL; sets the rows of their tables. */
void kernel_columns(kernel_case *at, int32_t *words);

/* What a call without dropout may leave out, as a mask of operands: keys of random numbers, and a factor. */
unsigned kernel_case_spare(const kernel_case *at);

/* Visits every case of some grids: all combinations of values, for each operation; {act} in the name of one stands for
 * each activation: linear{act} is linear_gelu, linear_relu, ... */
void kernel_cases(const kernel_grid *grids, int n, kernel_visit *visit, void *context);

/* "linear T=17 O=3 I=8" into text, which is returned. */
const char *kernel_case_text(const kernel_case *at, char text[static 160]);

#endif
