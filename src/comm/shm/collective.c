/* collective.c - the shm transport: collectives of ranks that share memory.
 *
 *     announce   fill in this member's cell: descriptor, and the input itself or the buffers' offsets
 *     compare    once all have announced: every member compares all descriptors with its own, before any output
 *     small      inputs are in the cells: every member computes its own output, alone
 *     large      the work is cut into tasks (tasks.c) that any member, or its helper, may claim: a member that waits
 *                does the work of those that still compute. Complete when all tasks are
 *
 * Results do not depend on which member did a task, because a task reduces its elements completely and in the group's
 * order. */
#include "comm/shm/helper.h"
#include "comm/shm/shm.h"
#include "comm/shm/tasks.h"
#include "comm/ops/describe.h"

enum {
    NEW, ANNOUNCED, AGREED, GIVEN  /* stages of a pending operation; GIVEN: all tasks are claimed */
};

/* ---- The group ---- */

static tri_status shm_open(tri_group *group) {
    tri_shm_group *shm = calloc(1, sizeof *shm);
    if (!shm) return tri__fail(TRI_RESOURCE, "out of memory for a group of %d ranks", group->n);
    group->state = shm;
    shm->room = TRI_RING;
    return group->n > 1 ? tri__cells_open(group, shm) : TRI_OK;
}

static void shm_close(tri_group *group) {
    free(group->state);
    group->state = NULL;
}

/* ---- Comparing descriptors ---- */

/* Whether inputs travel with the descriptors, so that peers never access this rank's buffers. The same on all
 * members. */
static int is_small(const tri_group *group, const tri_pending *p) {
    if (p->bare) return 1;
    tri_buffer_extent extent = tri__kind(p->what.kind)->in;
    size_t most = tri__bytes_of(group, p, extent, 0);
    for (int m = 1; extent == TRI_EXTENT_SHARD && p->shard && m < group->n; m++)
        if (tri__bytes_of(group, p, extent, m) > most) most = tri__bytes_of(group, p, extent, m);
    return most <= TRI_INLINE && most * (size_t)group->n <= TRI_INLINE_ALL;
}

static int shm_shares(const tri_group *group, const tri_pending *p) { return !is_small(group, p); }

static void fetch_to_write(const char *line) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* A cell's cache lines are in the caches of its last readers, and a write must invalidate them first. Started when an
 * operation ends, this is done when the next one, likely of the same size, is posted: 4 KiB among 2 ranks take 1.0 us
 * instead of 1.7. */
static void fetch_next_cell(const tri_group *group, const tri_shm_group *shm, uint64_t sequence) {
    const char *next = (const char *)tri__cell(shm, group->me, sequence + 1);
    for (size_t i = 0; i < offsetof(tri_cell, data) + shm->last_inline; i += 64) fetch_to_write(next + i);
}

static void announce(tri_group *group, tri_shm_group *shm, tri_pending *p) {
    tri_cell *cell = tri__cell(shm, group->me, p->what.sequence);
    const tri_segment *segment = &group->world->segment;
    size_t bytes = (size_t)p->in_count * tri__dtype_bytes((tri_dtype)p->what.dtype);
    int seen = 0;
    cell->what = p->what;
    if (is_small(group, p)) {
        if (bytes) memcpy(cell->data, p->in, shm->last_inline = bytes);
    } else {
        cell->in = (uint64_t)((uintptr_t)p->in - (uintptr_t)segment->base);
        cell->out = (uint64_t)((uintptr_t)p->out - (uintptr_t)segment->base);
    }
    atomic_store(&cell->ready, p->what.sequence + 1);
    shm->announced++;
    /* Only the last member to announce wakes sleepers. */
    if (atomic_load(&segment->control->asleep) && tri__cells_ready(group, shm, p->what.sequence, &seen))
        tri__control_wake(segment->control, group->local, group->n);
}

/* The world rank to blame: the one that differs if all others agree, or else the later of two. */
static int odd_one(const tri_group *group, const tri_descriptor *what, int other) {
    int as_mine = 0;
    for (int m = 0; m < group->n; m++) as_mine += tri__describe_same(&what[group->me], &what[m]);
    return as_mine == 1 && group->n > 2 ? group->rank[group->me] : group->rank[other];
}

static tri_status compare(tri_group *group, const tri_shm_group *shm, const tri_pending *p) {
    for (int m = 0; m < group->n; m++) {
        tri_descriptor theirs = tri__cell(shm, m, p->what.sequence)->what;
        if (tri__describe_same(&theirs, &p->what)) continue;
        tri_descriptor what[TRI_RANKS_PER_NODE];
        for (int k = 0; k < group->n; k++) what[k] = tri__cell(shm, k, p->what.sequence)->what;
        return tri__disagree(group, odd_one(group, what, m), 0, &what[group->me], m, &what[m]);
    }
    return TRI_OK;
}

/* A member that has left will never announce. */
static tri_status ask_for_missing(tri_group *group, const tri_shm_group *shm, tri_pending *p) {
    int m = p->seen;
    if (!tri__world_left(group->world, group->local[m])) return TRI_OK;
    if (atomic_load(&tri__cell(shm, m, p->what.sequence)->ready) == p->what.sequence + 1) return TRI_OK;
    char mine[160];
    tri__describe(&p->what, group->n, mine, sizeof mine);
    tri__control_fail(group->world->segment.control, group->rank[m], TRI_DISAGREE,
                      "left without taking part in %s, in which rank %d waits for it", mine, group->rank[group->me]);
    return tri__world_check(group->world);
}

/* ---- Doing the work ---- */

/* Also of any size in a group of one, which has no cells. */
static void do_small(const tri_group *group, const tri_shm_group *shm, const tri_pending *p) {
    const char *in[TRI_RANKS_PER_NODE];
    char *out[TRI_RANKS_PER_NODE];
    for (int m = 0; m < group->n; m++) {
        int own = m == group->me;
        in[m] = own ? p->in : tri__cell(shm, m, p->what.sequence)->data;
        out[m] = own && p->out_count ? p->out : NULL;
    }
    tri__work_do_all(&(tri_work){.p = p, .in = in, .out = out});
}

static tri_status after_task(void *context) {
    tri_world *world = context;
    tri__world_beat(world);
    return tri__world_check(world);
}

static tri_status after_other_task(void *control) {
    return atomic_load(&((tri_control *)control)->abort) ? TRI_STOPPED : TRI_OK;
}

/* All threads of the rank do tasks; this one, the first, beats, and finds what fails. */
static tri_status do_large(tri_group *group, const tri_shm_group *shm, tri_pending *p, int *moved) {
    tri_world *world = group->world;
    int threads = world->threads > 1 && tri__tasks_left(shm, p) > 1 ? world->threads : 1;
    tri_status status = TRI_OK;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        uint32_t n;
        int other = 0;
        if (t) tri__tasks_do(group, shm, p, after_other_task, world->segment.control, &n, &other);
        else status = tri__tasks_do(group, shm, p, after_task, world, &p->tasks, moved);
    }
    if (status == TRI_OK) p->stage = GIVEN;
    return status;
}

/* ---- The operation ---- */

static tri_status end(tri_group *group, tri_shm_group *shm, tri_pending *p, int *moved) {
    tri__helper_take(group->world->helper, group, p->what.sequence);
    if (shm->cells) tri__cells_end(group, shm, p->what.sequence);
    p->done = *moved = 1;
    return TRI_OK;
}

static tri_status begin(tri_group *group, tri_shm_group *shm, tri_pending *p, int *moved) {
    if (group->n == 1) {
        if (!p->bare) do_small(group, shm, p);
        return end(group, shm, p, moved);
    }
    if (!shm->cells) TRI_TRY(tri__cells_find(group, shm));
    if (!shm->cells || p->what.sequence != shm->announced || !tri__cells_room(group, shm, p->what.sequence))
        return TRI_OK;
    announce(group, shm, p);
    if (!is_small(group, p)) tri__helper_give(group->world->helper, p);
    p->stage = ANNOUNCED;
    *moved = 1;
    return TRI_OK;
}

static tri_status shm_progress(tri_group *group, tri_pending *p, int *moved) {
    tri_shm_group *shm = group->state;
    if (p->stage == NEW) return begin(group, shm, p, moved);
    if (p->stage == ANNOUNCED) {
        if (!tri__cells_ready(group, shm, p->what.sequence, &p->seen)) return ask_for_missing(group, shm, p);
        TRI_TRY(compare(group, shm, p));
        p->stage = AGREED;
        if (is_small(group, p)) {
            if (!p->bare) do_small(group, shm, p);
            fetch_next_cell(group, shm, p->what.sequence);
            return end(group, shm, p, moved);
        }
    }
    if (p->stage == AGREED) TRI_TRY(do_large(group, shm, p, moved));
    return tri__tasks_done(shm, p) ? end(group, shm, p, moved) : TRI_OK;
}

/* Between threads a peer may be accessing this rank's buffers: no more tasks may be claimed, and claimed ones finish.
 * (Between processes buffers are in shared memory, which outlives the operation; and a process may have died in the
 * middle of a task.) */
static void shm_cancel(tri_group *group, tri_pending *p) {
    tri_shm_group *shm = group->state;
    tri__helper_take(group->world->helper, group, p->what.sequence);
    if (p->stage == NEW || p->done || !group->world->segment.flat || is_small(group, p)) return;
    tri__tasks_close(shm, p);
}

const tri_transport tri__transport_shm = {
    .open = shm_open, .close = shm_close, .progress = shm_progress, .shares = shm_shares, .cancel = shm_cancel};
