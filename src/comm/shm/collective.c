/* collective.c - the shm transport: collectives of ranks that share memory.
 *
 *     announce   fill in this member's cell: descriptor, and the input itself or the buffers' offsets
 *     compare    once all have announced: every member compares all descriptors with its own, before any output
 *     small      inputs are in the cells: every member computes its own output, alone
 *     large      the work is cut into tasks that any member may claim: a member that waits does the work of those that
 *                still compute. Complete when all tasks are
 *
 * Results do not depend on which member did a task, because a task reduces its elements completely and in the group's
 * order. */
#include "base/clock.h"
#include "comm/ops/kind.h"
#include "comm/shm/cells.h"
#include "comm/shm/shm.h"
#include "comm/shm/work.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    NEW, ANNOUNCED, AGREED, GIVEN,  /* stages of a pending operation; GIVEN: all tasks are claimed */
    LEAST_TASK = 4 << 10, MOST_TASK = 256 << 10, /* bytes of a member's output */
    TASKS_EACH = 4                  /* per member, if within these limits */
};
static const double CANCEL_SECONDS = 10;

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

/* Bytes of member m's buffer. */
static size_t bytes_of(const tri_group *group, const tri_pending *p, tri_buffer_extent extent, int m) {
    return (size_t)tri__extent(extent, group->n, p->what.count, p->shard, m) *
           tri__dtype_bytes((tri_dtype)p->what.dtype);
}

int tri__shm_small(const tri_group *group, const tri_pending *p) {
    if (p->bare) return 1;
    tri_buffer_extent extent = tri__kind(p->what.kind)->in;
    size_t most = bytes_of(group, p, extent, 0);
    for (int m = 1; extent == TRI_EXTENT_SHARD && p->shard && m < group->n; m++)
        if (bytes_of(group, p, extent, m) > most) most = bytes_of(group, p, extent, m);
    return most <= TRI_INLINE && most * (size_t)group->n <= TRI_INLINE_ALL;
}

int tri__shm_inside(const tri_segment *segment, const void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory - (uintptr_t)segment->base;
    return segment->flat || bytes == 0 || (at <= segment->bytes && bytes <= segment->bytes - at);
}

static int all_ready(const tri_group *group, const tri_shm_group *shm, uint64_t sequence, int *seen) {
    while (*seen < group->n && atomic_load(&tri__cell(shm, *seen, sequence)->ready) == sequence + 1) ++*seen;
    return *seen == group->n;
}

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
    if (tri__shm_small(group, p)) {
        if (bytes) memcpy(cell->data, p->in, shm->last_inline = bytes);
    } else {
        cell->in = (uint64_t)((uintptr_t)p->in - (uintptr_t)segment->base);
        cell->out = (uint64_t)((uintptr_t)p->out - (uintptr_t)segment->base);
    }
    atomic_store(&cell->ready, p->what.sequence + 1);
    shm->announced++;
    /* Only the last member to announce wakes sleepers. */
    if (atomic_load(&segment->control->asleep) && all_ready(group, shm, p->what.sequence, &seen))
        tri__control_wake(segment->control, group->local, group->n);
}

/* The world rank to blame: the one that differs if all others agree, or else the later of two. */
static int odd_one(const tri_group *group, const tri_descriptor *what, int other) {
    int as_mine = 0;
    for (int m = 0; m < group->n; m++) as_mine += tri__describe_same(&what[group->me], &what[m]);
    return as_mine == 1 && group->n > 2 ? group->rank[group->me] : group->rank[other];
}

static tri_status disagree(tri_group *group, const tri_descriptor *what, int other) {
    char mine[160], theirs[160];
    tri__describe(&what[group->me], group->n, mine, sizeof mine);
    tri__describe(&what[other], group->n, theirs, sizeof theirs);
    tri__control_fail(group->world->segment.control, odd_one(group, what, other), TRI_DISAGREE,
                      "ranks of a group asked for different operations: rank %d for %s, rank %d for %s",
                      group->rank[group->me], mine, group->rank[other], theirs);
    return tri__world_check(group->world);
}

static tri_status compare(tri_group *group, const tri_shm_group *shm, const tri_pending *p) {
    for (int m = 0; m < group->n; m++) {
        tri_descriptor theirs = tri__cell(shm, m, p->what.sequence)->what;
        if (tri__describe_same(&theirs, &p->what)) continue;
        tri_descriptor what[TRI_RANKS_PER_NODE];
        for (int k = 0; k < group->n; k++) what[k] = tri__cell(shm, k, p->what.sequence)->what;
        return disagree(group, what, m);
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

static tri_work work_of(const tri_group *group, const tri_pending *p) {
    return (tri_work){.kind = p->what.kind, .n = group->n, .root = p->what.root, .dtype = (tri_dtype)p->what.dtype,
                      .reduction = (tri_reduction)p->what.reduction, .count = p->what.count, .shard = p->shard};
}

static void do_small(const tri_group *group, const tri_shm_group *shm, const tri_pending *p) {
    const char *in[TRI_RANKS_PER_NODE];
    char *out[TRI_RANKS_PER_NODE];
    for (int m = 0; m < group->n; m++) in[m] = tri__cell(shm, m, p->what.sequence)->data, out[m] = NULL;
    if (p->in_count) in[group->me] = p->in;
    if (p->out_count) out[group->me] = p->out;
    tri_work work = work_of(group, p);
    work.in = in, work.out = out;
    tri__work_do_all(&work);
}

/* A group of one. */
static void do_alone(const tri_group *group, const tri_pending *p) {
    const char *in = p->in;
    char *out = p->out_count ? p->out : NULL;
    tri_work work = work_of(group, p);
    work.in = &in, work.out = &out;
    tri__work_do_all(&work);
}

/* Tasks are pieces of segments, numbered consecutively; `task` elements each, the last of a segment fewer. */
typedef struct task_list {
    tri_work work;
    int64_t task;          /* elements */
    uint32_t n;
    int segment;           /* where the last claimed task was: numbers only grow ... */
    uint32_t first;        /* ... and the number of that segment's first task */
} task_list;

static uint32_t tasks_of(const task_list *list, int segment) {
    return (uint32_t)((tri__work_length(&list->work, segment) + list->task - 1) / list->task);
}

static void list_tasks(task_list *list) {
    int segments = tri__work_segments(&list->work);
    int64_t bytes = (int64_t)tri__dtype_bytes(list->work.dtype), all = 0, task;
    for (int s = 0; s < segments; s++) all += tri__work_length(&list->work, s) * bytes;
    task = all / (list->work.n * TASKS_EACH);
    task = task < LEAST_TASK ? LEAST_TASK : task > MOST_TASK ? MOST_TASK : task & -4096;
    list->task = task / bytes;
    for (int s = 0; s < segments; s++) list->n += tasks_of(list, s);
}

static void do_task(task_list *list, uint32_t number) {
    for (uint32_t n; number - list->first >= (n = tasks_of(list, list->segment)); list->segment++) list->first += n;
    int64_t first = (int64_t)(number - list->first) * list->task,
            left = tri__work_length(&list->work, list->segment) - first;
    tri__work_do(&list->work, list->segment, first, left < list->task ? left : list->task);
}

/* The count in a word, for the operation with this tag. */
static uint32_t count_in(uint64_t word, uint32_t tag) { return (uint32_t)(word >> 32) == tag ? (uint32_t)word : 0; }
static uint64_t word_of(uint32_t tag, uint32_t count) { return (uint64_t)tag << 32 | count; }

/* The next task's number; n or more if none is left. */
static uint32_t claim(tri_cell_claims *place, uint32_t tag, uint32_t n) {
    uint64_t word = atomic_load(&place->claimed);
    for (;;) {
        uint32_t next = count_in(word, tag);
        if (next >= n || atomic_compare_exchange_weak(&place->claimed, &word, word_of(tag, next + 1))) return next;
    }
}

/* Returns the number of completed tasks. */
static uint32_t add_done(tri_cell_claims *place, uint32_t tag) {
    uint64_t word = atomic_load(&place->done);
    for (;;) {
        uint32_t count = count_in(word, tag) + 1;
        if (atomic_compare_exchange_weak(&place->done, &word, word_of(tag, count))) return count;
    }
}

/* The members' buffers in this address space. Offsets come from peers: between processes they must be in bounds. */
static tri_status buffers(tri_group *group, const tri_shm_group *shm, const tri_pending *p, const char **in,
                          char **out) {
    const tri_segment *segment = &group->world->segment;
    const tri_kind_row *kind = tri__kind(p->what.kind);
    for (int m = 0; m < group->n; m++) {
        const tri_cell *cell = tri__cell(shm, m, p->what.sequence);
        int root = m == p->what.root;
        in[m] = kind->in_root && !root ? NULL : segment->base + cell->in;
        out[m] = kind->out_root && !root ? NULL : segment->base + cell->out;
        if (in[m] && !tri__shm_inside(segment, in[m], bytes_of(group, p, kind->in, m)))
            return tri__fail(TRI_DISAGREE, "rank %d gave a buffer outside of the shared memory", group->rank[m]);
        if (out[m] && !tri__shm_inside(segment, out[m], bytes_of(group, p, kind->out, m)))
            return tri__fail(TRI_DISAGREE, "rank %d gave a buffer outside of the shared memory", group->rank[m]);
    }
    return TRI_OK;
}

/* Does tasks until all are claimed. */
static tri_status do_large(tri_group *group, const tri_shm_group *shm, tri_pending *p, int *moved) {
    const char *in[TRI_RANKS_PER_NODE];
    char *out[TRI_RANKS_PER_NODE];
    tri_cell_claims *place = &shm->cells->place[p->what.sequence % TRI_RING];
    uint32_t tag = (uint32_t)(p->what.sequence + 1);
    task_list list = {.work = work_of(group, p)};
    list.work.in = in, list.work.out = out;
    TRI_TRY(buffers(group, shm, p, in, out));
    list_tasks(&list);
    for (uint32_t next; (next = claim(place, tag, list.n)) < list.n; *moved = 1) {
        do_task(&list, next);
        if (add_done(place, tag) == list.n) tri__control_wake(group->world->segment.control, group->local, group->n);
        TRI_TRY(tri__world_check(group->world));
        tri__world_beat(group->world);
    }
    p->tasks = list.n;
    p->stage = GIVEN;
    return TRI_OK;
}

static int all_done(const tri_shm_group *shm, const tri_pending *p) {
    uint64_t word = atomic_load(&shm->cells->place[p->what.sequence % TRI_RING].done);
    return count_in(word, (uint32_t)(p->what.sequence + 1)) == p->tasks;
}

/* ---- The operation ---- */

static tri_status end(tri_group *group, tri_shm_group *shm, tri_pending *p, int *moved) {
    if (shm->cells) tri__cells_end(group, shm, p->what.sequence);
    p->done = *moved = 1;
    return TRI_OK;
}

static tri_status begin(tri_group *group, tri_shm_group *shm, tri_pending *p, int *moved) {
    if (group->n == 1) {
        if (!p->bare) do_alone(group, p);
        return end(group, shm, p, moved);
    }
    if (!shm->cells) TRI_TRY(tri__cells_find(group, shm));
    if (!shm->cells || p->what.sequence != shm->announced || !tri__cells_room(group, shm, p->what.sequence))
        return TRI_OK;
    announce(group, shm, p);
    p->stage = ANNOUNCED;
    *moved = 1;
    return TRI_OK;
}

static tri_status shm_progress(tri_group *group, tri_pending *p, int *moved) {
    tri_shm_group *shm = group->state;
    if (p->stage == NEW) return begin(group, shm, p, moved);
    if (p->stage == ANNOUNCED) {
        if (!all_ready(group, shm, p->what.sequence, &p->seen)) return ask_for_missing(group, shm, p);
        TRI_TRY(compare(group, shm, p));
        p->stage = AGREED;
        if (tri__shm_small(group, p)) {
            if (!p->bare) do_small(group, shm, p);
            fetch_next_cell(group, shm, p->what.sequence);
            return end(group, shm, p, moved);
        }
    }
    if (p->stage == AGREED) TRI_TRY(do_large(group, shm, p, moved));
    return all_done(shm, p) ? end(group, shm, p, moved) : TRI_OK;
}

/* Between threads a peer may be accessing this rank's buffers: no more tasks may be claimed, and claimed ones finish.
 * (Between processes buffers are in shared memory, which outlives the operation; and a process may have died in the
 * middle of a task.) */
static void shm_cancel(tri_group *group, tri_pending *p) {
    tri_shm_group *shm = group->state;
    if (p->stage == NEW || p->done || !group->world->segment.flat || tri__shm_small(group, p)) return;
    tri_cell_claims *place = &shm->cells->place[p->what.sequence % TRI_RING];
    uint32_t tag = (uint32_t)(p->what.sequence + 1);
    uint64_t word = atomic_load(&place->claimed);
    while (!atomic_compare_exchange_weak(&place->claimed, &word, word_of(tag, count_in(word, tag) | TRI_CLOSED))) {}
    uint32_t given = count_in(word, tag) & ~TRI_CLOSED;
    for (double begun = tri__clock();
         count_in(atomic_load(&place->done), tag) < given && tri__clock() - begun < CANCEL_SECONDS;)
        sched_yield();
}

const tri_transport tri__transport_shm = {.name = "shm",
                                          .open = shm_open,
                                          .close = shm_close,
                                          .progress = shm_progress,
                                          .cancel = shm_cancel};
