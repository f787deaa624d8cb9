/* collective_program.h - a fixed list of operations for which every transport must give the same bits: every kind, type
 * and reduction, sizes from one element to beyond every fast path, equal and unequal shards, in place and not, several
 * in flight at once. */
#ifndef COLLECTIVE_PROGRAM_H
#define COLLECTIVE_PROGRAM_H

#include "layout/dtype.h"

/* How the program makes its groups: tri_group_make, or a test's replacement. */
typedef tri_status program_group(tri_world *world, int n, const int *ranks, tri_group **group);

/* Finite values of both signs around 1, so that sums depend on their order. */
void program_fill(tri_dtype dtype, void *data, int64_t count, uint64_t seed);

/* On all ranks, on all in reverse, and on every rank but the second; `rounds` times 45 operations each. */
tri_status program_run(tri_world *world, program_group *make, int rounds, uint64_t *digest);

#endif
