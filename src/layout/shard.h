/* shard.h - cuts a run of elements into one shard for each member of a group: equal ones, except that the last
 * non-empty one may be shorter and those after it are empty.
 *
 *   count 100 on 3 members:  [0,48) [48,96) [96,100)        count 20 on 3:  [0,16) [16,20) [20,20) */
#pragma once

#include <stdint.h>

enum { TRI_SHARD_GRANULE = 16 }; /* elements: shards of every type begin on a vector, those of f32 on a cache line */

typedef struct tri_range {
    int64_t begin, end; /* elements */
} tri_range;

/* The shard of member k of n. */
tri_range tri__shard(int64_t count, int n, int k);
static inline int64_t tri__range_count(tri_range range) { return range.end - range.begin; }
/* The intersection of two ranges; [0, 0) when empty. */
tri_range tri__range_both(tri_range a, tri_range b);
