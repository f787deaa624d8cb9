/* reduce.h - n vectors into one, in the order given, and the result to m places in the same pass. */
#ifndef TRI_COMM_OPS_REDUCE_H
#define TRI_COMM_OPS_REDUCE_H

#include "layout/dtype.h"

/* out[j][i] = in[0][i] (+) in[1][i] (+) ... (+) in[n-1][i] for i < count and each j < n_out. An out may be the same as
 * an in; other overlaps are not allowed. Sums as tri_reduction says. Fast rows for what training sums (f32, bf16),
 * plain ones for the rest; the same bits. */
void tri__reduce(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out, void *const *out,
                 int64_t count);
/* The plain twin of every row, for tests. */
void tri__reduce_plain(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out,
                       void *const *out, int64_t count);

#endif
