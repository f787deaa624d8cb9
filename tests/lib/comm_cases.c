/* comm_cases.c - see comm_cases.h. Data movement is reimplemented here in the simplest way; reductions are those of
 * tri__reduce_plain. */
#include "tests/lib/comm_cases.h"

#include "base/status.h"
#include "comm/ops/kind.h"
#include "comm/ops/reduce.h"
#include "numbers/float16.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, CANARY = 0xC7 };

uint64_t comm_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static int64_t count_of(const comm_case *one, int m) { return one->uneven ? one->counts[m] : one->what.count; }

static int64_t sum_of(const comm_case *one, int members) {
    int64_t sum = 0;
    for (int m = 0; m < members; m++) sum += count_of(one, m);
    return sum;
}

static int64_t extent(const comm_case *one, tri_buffer_extent which, int n, int m) {
    return which == TRI_EXTENT_NONE    ? 0
           : which == TRI_EXTENT_COUNT ? one->what.count
           : which == TRI_EXTENT_SHARD ? count_of(one, m)
                                       : sum_of(one, n);
}

/* Small numbers, so that no sum is infinite, with enough bits that the order of addition shows. */
static void fill(const comm_case *one, int m, void *at, int64_t count) {
    uint64_t state = one->seed * 1000003 + (uint64_t)m;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = comm_random(&state);
        float x = (float)((int64_t)(bits >> 24) - (1LL << 39)) * 0x1p-36f;
        switch (one->what.dtype) {
        case TRI_F32: ((float *)at)[i] = x; break;
        case TRI_F64: ((double *)at)[i] = (double)bits * 0x1p-62 - 2; break;
        case TRI_BF16: ((uint16_t *)at)[i] = tri__to_bf16(x); break;
        case TRI_F16: ((uint16_t *)at)[i] = tri__to_f16(x); break;
        case TRI_I32: ((int32_t *)at)[i] = (int32_t)bits; break;
        case TRI_I64: ((int64_t *)at)[i] = (int64_t)bits; break;
        default: ((uint8_t *)at)[i] = (uint8_t)bits;
        }
    }
}

/* What member `me` must get: [extent of out]. */
static void expect(const comm_case *one, int n, int me, char *want) {
    const tri_kind_row *kind = tri__kind(one->what.kind);
    size_t size = tri__dtype_bytes(one->what.dtype);
    int root = one->what.root;
    char *in[COMM_MOST];
    for (int m = 0; m < n; m++) {
        int64_t count = !kind->in_root || m == root ? extent(one, kind->in, n, m) : 0;
        in[m] = malloc((size_t)count * size + 1);
        fill(one, m, in[m], count);
    }
    size_t mine = (size_t)sum_of(one, me) * size, part = (size_t)count_of(one, me) * size;
    const void *from[COMM_MOST];
    for (int m = 0; m < n; m++) from[m] = in[m] + (one->what.kind == TRI_REDUCE_SCATTER ? mine : 0);
    void *to = want;
    switch (one->what.kind) {
    case TRI_BROADCAST: memcpy(want, in[root], (size_t)one->what.count * size); break;
    case TRI_SCATTER: memcpy(want, in[root] + mine, part); break;
    case TRI_ALL_REDUCE:
    case TRI_REDUCE: tri__reduce_plain(one->what.dtype, one->what.reduction, n, from, 1, &to, one->what.count); break;
    case TRI_REDUCE_SCATTER:
        tri__reduce_plain(one->what.dtype, one->what.reduction, n, from, 1, &to, count_of(one, me));
        break;
    case TRI_ALL_GATHER:
    case TRI_GATHER:
        for (int m = 0; m < n; m++)
            memcpy(want + (size_t)sum_of(one, m) * size, in[m], (size_t)count_of(one, m) * size);
        break;
    case TRI_ALL_TO_ALL:
        for (int m = 0; m < n; m++) memcpy(want + (size_t)m * part, in[m] + (size_t)me * part, part);
        break;
    default: break;
    }
    for (int m = 0; m < n; m++) free(in[m]);
}

static tri_status make_block(tri_world *world, comm_case *one, int which, size_t bytes) {
    one->bytes[which] = bytes;
    if (one->heap) TRI_TRY(tri_heap_alloc(world, bytes + 2 * GUARD, (void **)&one->block[which]));
    else one->block[which] = malloc(bytes + 2 * GUARD);
    memset(one->block[which], CANARY, bytes + 2 * GUARD);
    return TRI_OK;
}

static void free_blocks(tri_world *world, comm_case *one) {
    for (int i = 0; i < 2; i++) {
        if (one->heap) tri_heap_free(world, one->block[i]);
        else free(one->block[i]);
        one->block[i] = NULL;
    }
}

/* Makes buffers and fills in this member's input. */
static tri_status begin(tri_world *world, tri_group *group, comm_case *one) {
    const tri_kind_row *kind = tri__kind(one->what.kind);
    int n = tri_group_size(group), me = tri_group_rank(group), root = me == one->what.root;
    size_t size = tri__dtype_bytes(one->what.dtype), part = (size_t)sum_of(one, me) * size;
    size_t in = !kind->in_root || root ? (size_t)extent(one, kind->in, n, me) * size : 0;
    size_t out = !kind->out_root || root ? (size_t)extent(one, kind->out, n, me) * size : 0;
    int into_part = kind->in == TRI_EXTENT_SHARD, from_part = kind->out == TRI_EXTENT_SHARD;
    one->group = group;
    one->what.counts = one->uneven ? one->counts : NULL;
    one->in_place = one->in_place && in && out;
    TRI_TRY(make_block(world, one, 1, one->in_place && in > out ? in : out));
    if (!one->in_place) TRI_TRY(make_block(world, one, 0, in));
    char *first = one->block[1] + GUARD;
    one->what.in = one->in_place ? first + (into_part ? part : 0) : one->block[0] + GUARD;
    one->what.out = first + (one->in_place && from_part ? part : 0);
    fill(one, me, (void *)(uintptr_t)one->what.in, (int64_t)(in / size));
    if (!in) one->what.in = NULL;
    if (!out) one->what.out = NULL;
    return TRI_OK;
}

tri_status comm_post(tri_world *world, tri_group *group, comm_case *one) {
    TRI_TRY(begin(world, group, one));
    return tri_post(group, &one->what, &one->request);
}

static int all_canary(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)at[i] != CANARY) return 0;
    return 1;
}

static int guards_whole(const comm_case *one) {
    for (int i = one->in_place; i < 2; i++)
        if (!all_canary(one->block[i], GUARD) || !all_canary(one->block[i] + GUARD + one->bytes[i], GUARD)) return 0;
    return 1;
}

static tri_status wrong(const comm_case *one, const char *what) {
    return tri__fail(TRI_INTERNAL, "%s: %s (%s, reduction %d, member %d of %d, root %d, count %lld%s%s%s)",
                     tri__kind(one->what.kind)->name, what, tri__dtype_name(one->what.dtype), (int)one->what.reduction,
                     tri_group_rank(one->group), tri_group_size(one->group), one->what.root, (long long)one->what.count,
                     one->uneven ? ", uneven" : "", one->in_place ? ", in place" : "",
                     one->heap ? ", in the heap" : "");
}

tri_status comm_check(tri_world *world, comm_case *one) {
    int n = tri_group_size(one->group), me = tri_group_rank(one->group);
    size_t size = tri__dtype_bytes(one->what.dtype);
    const tri_kind_row *kind = tri__kind(one->what.kind);
    size_t out = one->what.out ? (size_t)extent(one, kind->out, n, me) * size : 0,
           in = one->in_place ? 0 : one->bytes[0];
    char *want = malloc(out + 1), *had = malloc(in + 1);
    tri_status status = TRI_OK;
    if (out) expect(one, n, me, want);
    fill(one, me, had, (int64_t)(in / size));
    if (out && memcmp(one->what.out, want, out) != 0) status = wrong(one, "wrong output");
    else if (in && memcmp(one->what.in, had, in) != 0) status = wrong(one, "the input was changed");
    else if (!guards_whole(one)) status = wrong(one, "wrote outside of its buffer");
    free(want);
    free(had);
    free_blocks(world, one);
    return status;
}

tri_status comm_run(tri_world *world, tri_group *group, comm_case *one) {
    TRI_TRY(comm_post(world, group, one));
    TRI_TRY(tri_wait(world, one->request));
    return comm_check(world, one);
}

comm_case comm_case_random(uint64_t *state, int n, int64_t most) {
    comm_case one = {.seed = comm_random(state)};
    one.what.kind = (tri_collective_kind)(TRI_BROADCAST + comm_random(state) % (TRI_BARRIER - TRI_BROADCAST + 1));
    one.what.dtype = (tri_dtype)(comm_random(state) % TRI_DTYPE_COUNT);
    one.what.reduction = (tri_reduction)(comm_random(state) % TRI_REDUCTION_COUNT);
    one.what.root = (int)(comm_random(state) % (uint64_t)n);
    one.in_place = (int)(comm_random(state) % 2);
    one.heap = (int)(comm_random(state) % 2);
    int64_t each = most / (int64_t)tri__dtype_bytes(one.what.dtype), large = comm_random(state) % 4 == 0;
    if (tri__kind(one.what.kind)->in == TRI_EXTENT_ALL) each /= n;
    each = large ? each : each / 16;
    one.uneven = tri__kind(one.what.kind)->uneven && comm_random(state) % 2;
    one.what.count = (int64_t)(comm_random(state) % (uint64_t)(each + 1));
    for (int m = 0; m < n; m++)
        one.counts[m] = comm_random(state) % 4 == 0 ? 0 : (int64_t)(comm_random(state) % (uint64_t)(each + 1));
    return one;
}
