/* work.c - the segments of each kind of collective. For member m of n, with shards of c elements:
 *
 *     all_reduce, reduce, broadcast   one segment of all elements
 *     gathers, scatters               segment m: shard m, from or to member m
 *     all_to_all                      a segment for each pair i <= j: the data that the two swap, so that it works in
 *                                     place */
#include "comm/shm/work.h"

#include "comm/ops/kind.h"
#include "comm/ops/reduce.h"

enum { SWAP_BYTES = 4096 };

static int64_t shard_at(const tri_pending *p, int m) { return p->shard ? p->shard[m] : m * p->what.count; }

int tri__work_segments(const tri_work *work) {
    switch (work->p->what.kind) {
    case TRI_BROADCAST:
    case TRI_ALL_REDUCE:
    case TRI_REDUCE: return 1;
    case TRI_ALL_TO_ALL: return work->p->group->n * (work->p->group->n + 1) / 2;
    case TRI_BARRIER: return 0;
    default: return work->p->group->n;
    }
}

int64_t tri__work_length(const tri_work *work, int s) {
    const tri_pending *p = work->p;
    const tri_kind_row *kind = tri__kind(p->what.kind);
    int in_shards = kind->in == TRI_EXTENT_SHARD || kind->out == TRI_EXTENT_SHARD;
    return tri__extent(in_shards ? TRI_EXTENT_SHARD : TRI_EXTENT_COUNT, p->group->n, p->what.count, p->shard, s);
}

/* Inputs and outputs begin at elements in_at and out_at of each member. */
static void reduce_to(const tri_work *work, int64_t in_at, int64_t out_at, int64_t length, int only) {
    size_t size = tri__dtype_bytes(work->p->what.dtype);
    const void *in[TRI_RANKS_PER_NODE];
    void *out[TRI_RANKS_PER_NODE];
    int n_out = 0;
    for (int m = 0; m < work->p->group->n; m++)
        if (work->out[m] && (only < 0 || only == m)) out[n_out++] = work->out[m] + (size_t)out_at * size;
    if (!n_out) return;
    for (int m = 0; m < work->p->group->n; m++) in[m] = work->in[m] + (size_t)in_at * size;
    tri__reduce(work->p->what.dtype, work->p->what.reduction, work->p->group->n, in, n_out, out, length);
}

static void copy(char *to, const char *from, size_t bytes) {
    if (to != from) memcpy(to, from, bytes);
}

static void copy_to(const tri_work *work, int from, int64_t in_at, int64_t out_at, int64_t length, int only) {
    size_t size = tri__dtype_bytes(work->p->what.dtype);
    for (int m = 0; m < work->p->group->n; m++)
        if (work->out[m] && (only < 0 || only == m))
            copy(work->out[m] + (size_t)out_at * size, work->in[from] + (size_t)in_at * size, (size_t)length * size);
}

/* Members i and j swap their parts for each other; either may be in place, so both are read before one is written. */
static void exchange(const tri_work *work, int i, int j, int64_t first, int64_t length) {
    int64_t count = work->p->what.count;
    size_t size = tri__dtype_bytes(work->p->what.dtype), bytes = (size_t)length * size;
    size_t for_j = (size_t)(j * count + first) * size, for_i = (size_t)(i * count + first) * size;
    const char *from_i = work->in[i] + for_j, *from_j = work->in[j] + for_i;
    char *to_i = work->out[i] ? work->out[i] + for_j : NULL, *to_j = work->out[j] ? work->out[j] + for_i : NULL;
    char part[SWAP_BYTES];
    for (size_t at = 0, now; at < bytes; at += now) {
        now = bytes - at < sizeof part ? bytes - at : sizeof part;
        if (to_j) memcpy(part, from_i + at, now);
        if (to_i) copy(to_i + at, from_j + at, now);
        if (to_j) memcpy(to_j + at, part, now);
    }
}

/* Pairs i <= j are numbered by j, then i. */
static void exchange_pair(const tri_work *work, int s, int64_t first, int64_t length) {
    int j = 0;
    while ((j + 1) * (j + 2) / 2 <= s) j++;
    exchange(work, s - j * (j + 1) / 2, j, first, length);
}

void tri__work_do(const tri_work *work, int s, int64_t first, int64_t length) {
    int root = work->p->what.root;
    if (length == 0) return;
    switch (work->p->what.kind) {
    case TRI_BROADCAST: copy_to(work, root, first, first, length, -1); return;
    case TRI_ALL_REDUCE: reduce_to(work, first, first, length, -1); return;
    case TRI_REDUCE: reduce_to(work, first, first, length, root); return;
    case TRI_ALL_GATHER: copy_to(work, s, first, shard_at(work->p, s) + first, length, -1); return;
    case TRI_GATHER: copy_to(work, s, first, shard_at(work->p, s) + first, length, root); return;
    case TRI_SCATTER: copy_to(work, root, shard_at(work->p, s) + first, first, length, s); return;
    case TRI_REDUCE_SCATTER: reduce_to(work, shard_at(work->p, s) + first, first, length, s); return;
    default: exchange_pair(work, s, first, length); return;
    }
}

void tri__work_do_all(const tri_work *work) {
    for (int s = 0, n = tri__work_segments(work); s < n; s++) tri__work_do(work, s, 0, tri__work_length(work, s));
}
