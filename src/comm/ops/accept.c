/* accept.c - validates a user's operation before any of it begins. What is wrong on one rank alone is refused here, as
 * a TRI_USAGE that leaves the group as it was; whether all members ask for the same is compared once they have posted.
 */

#include "comm/ops/kind.h"
#include "comm/ops/describe.h"

static tri_status check_fields(const tri_group *group, const tri_collective *what) {
    if ((unsigned)what->kind >= TRI_COLLECTIVE_COUNT)
        return tri__fail(TRI_USAGE, "%d is not a kind of operation", (int)what->kind);
    const tri_kind_row *kind = tri__kind(what->kind);
    int message = what->kind == TRI_SEND || what->kind == TRI_RECV;
    if ((unsigned)what->dtype >= TRI_DTYPE_COUNT)
        return tri__fail(TRI_USAGE, "%s: %d is not an element type", kind->name, (int)what->dtype);
    if (kind->reduces && (unsigned)what->reduction >= TRI_REDUCTION_COUNT)
        return tri__fail(TRI_USAGE, "%s: %d is not a reduction", kind->name, (int)what->reduction);
    if (kind->rooted && (what->root < 0 || what->root >= group->n))
        return tri__fail(TRI_USAGE, "%s: member %d of a group of %d (they count from 0)", kind->name, what->root,
                         group->n);
    if (message && what->root == group->me)
        return tri__fail(TRI_USAGE, "%s: a rank cannot send to itself; copy instead", kind->name);
    if (what->counts && !kind->uneven)
        return tri__fail(TRI_USAGE, "%s takes no per-member counts; give count", kind->name);
    if (!what->counts && what->count < 0)
        return tri__fail(TRI_USAGE, "%s: a count of %lld", kind->name, (long long)what->count);
    return TRI_OK;
}

/* In what members compare, one number stands for all counts; 0 is that of equal ones. */
static uint64_t hash_counts(int n, const int64_t *counts) {
    uint64_t hash = 0x9E3779B97F4A7C15;
    for (int m = 0; m < n; m++) {
        hash = (hash ^ (uint64_t)counts[m]) * 0xBF58476D1CE4E5B9;
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}

/* Counts that are all equal are stored as one count. */
static tri_status resolve_counts(const tri_group *group, const tri_collective *what, tri_pending *p) {
    const char *name = tri__collective_name(what->kind);
    int64_t all = 0, bytes;
    int equal = 1;
    for (int m = 0; m < group->n; m++) {
        int64_t count = what->counts ? what->counts[m] : what->count;
        if (count < 0) return tri__fail(TRI_USAGE, "%s: a count of %lld for member %d", name, (long long)count, m);
        if (__builtin_add_overflow(all, count, &all) ||
            __builtin_mul_overflow(all, (int64_t)tri__dtype_bytes(what->dtype), &bytes))
            return tri__fail(TRI_USAGE, "%s: the counts of its %d members add up to more than memory can hold", name,
                             group->n);
        equal &= count == (what->counts ? what->counts[0] : what->count);
    }
    if (equal) {
        p->what.count = what->kind == TRI_BARRIER ? 0 : what->counts ? what->counts[0] : what->count;
        return TRI_OK;
    }
    p->what.count = all;
    p->what.counts = hash_counts(group->n, what->counts);
    p->shard = tri__block_take(group->world);
    if (!p->shard) return tri__fail(TRI_RESOURCE, "out of memory for the counts of %d members", group->n);
    p->shard[0] = 0;
    for (int m = 0; m < group->n; m++) p->shard[m + 1] = p->shard[m] + what->counts[m];
    return TRI_OK;
}

/* A range of memory; empty if there is none. */
typedef struct range {
    uintptr_t at, end;
} range;

static range range_of(const void *at, int64_t count, size_t size) {
    return (range){(uintptr_t)at, (uintptr_t)at + (count ? (size_t)count * size : 0)};
}
static int overlap(range a, range b) { return a.at < b.end && b.at < a.end; }

static tri_status check_buffer(const char *name, const char *which, const void *at, int64_t count, size_t size) {
    if (count && !at) return tri__fail(TRI_USAGE, "%s: no %s buffer for %lld elements", name, which, (long long)count);
    if (count && (uintptr_t)at % size)
        return tri__fail(TRI_USAGE, "%s: the %s buffer is not aligned to its elements of %zu bytes", name, which, size);
    return TRI_OK;
}

/* In place: both are the same, or the shorter one is this member's part of the longer. Only so is every element read
 * before it is overwritten: members work on different tasks of one operation at once. */
static int in_place(const tri_group *group, const tri_pending *p, range in, range out, size_t size) {
    const tri_kind_row *kind = tri__kind(p->what.kind);
    size_t part = (size_t)(p->shard ? p->shard[group->me] : group->me * p->what.count) * size;
    if (in.at == out.at && p->in_count == p->out_count) return 1;
    if (kind->in == TRI_EXTENT_SHARD) return in.at == out.at + part;
    return kind->out == TRI_EXTENT_SHARD && out.at == in.at + part;
}

/* An operation in flight owns its output exclusively, and its input must not be written. */
static tri_status check_under_way(const tri_world *world, const char *name, range in, range out) {
    for (int i = 0; i < world->n_pending; i++) {
        const tri_pending *other = &world->pending[i];
        size_t size = tri__dtype_bytes((tri_dtype)other->what.dtype);
        range theirs = range_of(other->user_out ? other->user_out : other->out, other->out_count, size),
              read = range_of(other->in, other->in_count, size);
        if (overlap(out, theirs) || overlap(in, theirs) || overlap(out, read))
            return tri__fail(TRI_USAGE, "%s: its buffer belongs to another operation (%s) that has not been waited for",
                             name, tri__collective_name(other->what.kind));
    }
    return TRI_OK;
}

static tri_status check_buffers(const tri_group *group, const tri_collective *what, tri_pending *p) {
    const tri_kind_row *kind = tri__kind(what->kind);
    int root = group->me == what->root;
    size_t size = tri__dtype_bytes(what->dtype);
    if (!kind->in_root || root)
        p->in = what->in, p->in_count = tri__extent(kind->in, group->n, p->what.count, p->shard, group->me);
    if (!kind->out_root || root)
        p->out = what->out, p->out_count = tri__extent(kind->out, group->n, p->what.count, p->shard, group->me);
    range in = range_of(p->in, p->in_count, size), out = range_of(p->out, p->out_count, size);
    TRI_TRY(check_buffer(kind->name, "input", p->in, p->in_count, size));
    TRI_TRY(check_buffer(kind->name, "output", p->out, p->out_count, size));
    if (overlap(in, out) && !in_place(group, p, in, out, size))
        return tri__fail(
            TRI_USAGE, "%s: input and output overlap; use separate buffers, or the same one for an in-place operation",
            kind->name);
    return check_under_way(group->world, kind->name, in, out);
}

tri_status tri__accept(tri_group *group, const tri_collective *what, tri_pending *p) {
    TRI_TRY(check_fields(group, what));
    const tri_kind_row *kind = tri__kind(what->kind);
    int message = what->kind == TRI_SEND || what->kind == TRI_RECV;
    p->group = group;
    p->what = (tri_descriptor){.group = group->id, .kind = (uint8_t)what->kind,
                               .dtype = (uint8_t)(what->kind == TRI_BARRIER ? 0 : what->dtype),
                               .reduction = (uint8_t)(kind->reduces ? what->reduction : 0),
                               .root = kind->rooted ? what->root : 0, .tag = message ? what->tag : 0,
                               .rank = group->world->rank};
    TRI_TRY(resolve_counts(group, what, p));
    if (p->bare) return TRI_OK;
    tri_status status = check_buffers(group, what, p);
    if (status != TRI_OK && p->shard) tri__block_give(group->world, p->shard);
    return status;
}
