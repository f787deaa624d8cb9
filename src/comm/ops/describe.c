/* describe.c - the table of operation kinds, and descriptions of operations. Transports know kinds by their rows: which
 * members have an input and an output, how long these are, and whether elements are reduced. */
#include "comm/ops/kind.h"
#include "comm/ops/describe.h"

static const tri_kind_row kinds[TRI_COLLECTIVE_COUNT] = {
    [TRI_SEND] = {.name = "send", .in = TRI_EXTENT_COUNT, .rooted = 1},
    [TRI_RECV] = {.name = "recv", .out = TRI_EXTENT_COUNT, .rooted = 1},
    [TRI_BROADCAST] = {.name = "broadcast", .in = TRI_EXTENT_COUNT, .in_root = 1, .out = TRI_EXTENT_COUNT, .rooted = 1},
    [TRI_ALL_REDUCE] = {.name = "all_reduce", .in = TRI_EXTENT_COUNT, .out = TRI_EXTENT_COUNT, .reduces = 1},
    [TRI_REDUCE] =
        {.name = "reduce", .in = TRI_EXTENT_COUNT, .out = TRI_EXTENT_COUNT, .out_root = 1, .rooted = 1, .reduces = 1},
    [TRI_ALL_GATHER] = {.name = "all_gather", .in = TRI_EXTENT_SHARD, .out = TRI_EXTENT_ALL, .uneven = 1},
    [TRI_GATHER] =
        {.name = "gather", .in = TRI_EXTENT_SHARD, .out = TRI_EXTENT_ALL, .out_root = 1, .rooted = 1, .uneven = 1},
    [TRI_SCATTER] =
        {.name = "scatter", .in = TRI_EXTENT_ALL, .in_root = 1, .out = TRI_EXTENT_SHARD, .rooted = 1, .uneven = 1},
    [TRI_REDUCE_SCATTER] =
        {.name = "reduce_scatter", .in = TRI_EXTENT_ALL, .out = TRI_EXTENT_SHARD, .reduces = 1, .uneven = 1},
    [TRI_ALL_TO_ALL] = {.name = "all_to_all", .in = TRI_EXTENT_ALL, .out = TRI_EXTENT_ALL},
    [TRI_BARRIER] = {.name = "barrier"},
};

static const char *const reductions[TRI_REDUCTION_COUNT] = {
    [TRI_SUM] = "sum", [TRI_AVERAGE] = "average", [TRI_MIN] = "min", [TRI_MAX] = "max", [TRI_PRODUCT] = "product"};

const tri_kind_row *tri__kind(int kind) { return &kinds[kind]; }

int64_t tri__extent(tri_buffer_extent extent, int n, int64_t count, const int64_t *shard, int m) {
    switch (extent) {
    case TRI_EXTENT_NONE: return 0;
    case TRI_EXTENT_COUNT: return count;
    case TRI_EXTENT_SHARD: return shard ? shard[m + 1] - shard[m] : count;
    default: return shard ? shard[n] : n * count;
    }
}

const char *tri__collective_name(int kind) {
    return kind >= 0 && kind < TRI_COLLECTIVE_COUNT ? kinds[kind].name : "unknown operation";
}

/* "all_reduce sum f32 x 1024"; the record may come from a peer, so nothing in it is trusted. */
static void describe_data(int kind, int dtype, int reduction, long long count, char *out, size_t size) {
    const char *type = dtype >= 0 && dtype < TRI_DTYPE_COUNT ? tri__dtype_name((tri_dtype)dtype) : "unknown type";
    if (kind == TRI_BARRIER || kind < 0 || kind >= TRI_COLLECTIVE_COUNT) {
        snprintf(out, size, "%s", tri__collective_name(kind));
        return;
    }
    const char *how = !kinds[kind].reduces                                ? ""
                      : reduction >= 0 && reduction < TRI_REDUCTION_COUNT ? reductions[reduction]
                                                                          : "unknown reduction";
    snprintf(out, size, "%s %s%s%s x %lld", kinds[kind].name, how, *how ? " " : "", type, count);
}

void tri__describe(const tri_descriptor *what, int group_size, char *out, size_t size) {
    char data[64], counts[48] = "", root[48] = "";
    describe_data(what->kind, what->dtype, what->reduction, (long long)what->count, data, sizeof data);
    if (what->counts) snprintf(counts, sizeof counts, " in unequal shards (#%04x)", (unsigned)(what->counts & 0xFFFF));
    if (what->kind == TRI_SEND) snprintf(root, sizeof root, " to member %d, tag %d", (int)what->root, (int)what->tag);
    else if (what->kind == TRI_RECV)
        snprintf(root, sizeof root, " from member %d, tag %d", (int)what->root, (int)what->tag);
    else if (what->kind < TRI_COLLECTIVE_COUNT && kinds[what->kind].rooted)
        snprintf(root, sizeof root, ", root member %d", (int)what->root);
    snprintf(out, size, "%s%s%s (group of %d, operation %llu)", data, counts, root, group_size,
             (unsigned long long)what->sequence);
}

/* Ranks are not compared: each member's descriptor has its own. */
int tri__describe_same(const tri_descriptor *a, const tri_descriptor *b) {
    int kinds_fit = a->kind == b->kind || (a->kind == TRI_SEND && b->kind == TRI_RECV) ||
                    (a->kind == TRI_RECV && b->kind == TRI_SEND);
    int roots_fit = a->root == b->root || a->kind == TRI_SEND || a->kind == TRI_RECV; /* each end names the other */
    return kinds_fit && roots_fit && a->group == b->group && a->sequence == b->sequence && a->count == b->count &&
           a->counts == b->counts && a->dtype == b->dtype && a->reduction == b->reduction && a->tag == b->tag;
}

tri_status tri__disagree(tri_group *group, int blamed, int ends, const tri_descriptor *mine, int other,
                         const tri_descriptor *theirs) {
    char here[160], there[160];
    tri__describe(mine, group->n, here, sizeof here);
    tri__describe(theirs, group->n, there, sizeof there);
    tri__control_fail(group->world->segment.control, blamed, TRI_DISAGREE, "%s: rank %d %sfor %s, rank %d for %s",
                      ends ? "the two ends of a message differ" : "ranks of a group asked for different operations",
                      group->rank[group->me], ends ? "asked " : "", here, group->rank[other], there);
    return tri__world_check(group->world);
}

/* 8 bits each for kind, dtype and reduction; 40 for the count. */
uint64_t tri__describe_pack(const tri_descriptor *what) {
    uint64_t most = ((uint64_t)1 << 40) - 1, count = (uint64_t)what->count < most ? (uint64_t)what->count : most;
    return (uint64_t)what->kind << 56 | (uint64_t)what->dtype << 48 | (uint64_t)what->reduction << 40 | count;
}

void tri__describe_unpack(uint64_t packed, char *out, size_t size) {
    describe_data((int)(packed >> 56), (int)(packed >> 48 & 0xFF), (int)(packed >> 40 & 0xFF),
                  (long long)(packed & (((uint64_t)1 << 40) - 1)), out, size);
}
