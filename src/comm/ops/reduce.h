/* reduce.h - reduces n vectors to one, in the order given, and stores the result in n_out places in the same pass. */
#pragma once

#include "layout/dtype.h"

/* out[j][i] = in[0][i] (+) in[1][i] (+) ... (+) in[n-1][i] for i < count and each j < n_out. An out may alias an in
 * exactly; other overlaps are not allowed. Sums as documented at tri_reduction. Fast rows for sums of f32 and bf16,
 * plain ones for the rest; results are bitwise equal. */
void tri__reduce(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out, void *const *out,
                 int64_t count);
/* A reduction in parts, with the bits of tri__reduce over all of them: onto `before`, the partial result of earlier
 * inputs (NULL: none). of: inputs in all, if these are the last; 0: a partial result, whose elements have
 * tri__dtype_sum_bytes. */
void tri__reduce_onto(tri_dtype dtype, tri_reduction reduction, const void *before, int n, const void *const *in,
                      int of, int n_out, void *const *out, int64_t count);
/* The plain version of every row, for tests. */
void tri__reduce_plain(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out,
                       void *const *out, int64_t count);
