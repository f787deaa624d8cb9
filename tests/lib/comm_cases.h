/* comm_cases.h - random operations from a seed: every member can compute the inputs of all, and so its expected
 * output. */
#ifndef TRI_TESTS_COMM_CASES_H
#define TRI_TESTS_COMM_CASES_H

#include "trident_comm.h"

enum { COMM_MOST = 16 }; /* members of a group */

typedef struct comm_case {
    tri_collective what;          /* in and out are filled in by comm_post */
    int64_t counts[COMM_MOST];    /* what.counts points here if not NULL */
    int uneven, in_place, heap;   /* heap: buffers from tri_heap_alloc */
    uint64_t seed;                /* of the inputs: the same on all members */
    tri_group *group;
    tri_request request;
    char *block[2];               /* guarded memory of in and out; in place: one */
    size_t bytes[2];
} comm_case;

uint64_t comm_random(uint64_t *state);
/* A random collective for a group of n: kind, dtype, reduction, root, counts. The largest input is about `most`
 * bytes. */
comm_case comm_case_random(uint64_t *state, int n, int64_t most);
/* Makes buffers, fills in this member's input and posts it. */
tri_status comm_post(tri_world *world, tri_group *group, comm_case *one);
/* After it was waited for: TRI_INTERNAL, with a text, if output, input or guards are wrong. Frees the buffers. */
tri_status comm_check(tri_world *world, comm_case *one);
/* Posts, waits, checks. */
tri_status comm_run(tri_world *world, tri_group *group, comm_case *one);

#endif
