/* shard.c - shards of a run of elements. */
#include "layout/shard.h"

tri_range tri__shard(int64_t count, int n, int k) {
    int64_t each = (count + n - 1) / n;
    each = (each + TRI_SHARD_GRANULE - 1) / TRI_SHARD_GRANULE * TRI_SHARD_GRANULE;
    int64_t first = each ? (count + each - 1) / each : 0; /* members with a non-empty shard */
    if (k >= first) return (tri_range){count, count};
    return (tri_range){k * each, k + 1 == first ? count : (k + 1) * each};
}

tri_range tri__range_both(tri_range a, tri_range b) {
    tri_range both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    return both.begin < both.end ? both : (tri_range){0, 0};
}
