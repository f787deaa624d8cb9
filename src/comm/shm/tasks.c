/* tasks.c - claims and does the tasks of a large collective. */
#include "comm/shm/tasks.h"

#include <sched.h>

enum {
    LEAST_TASK = 4 << 10, MOST_TASK = 256 << 10, /* bytes of a member's output */
    TASKS_EACH = 4                               /* per member, if within these limits */
};
static const double CLOSE_SECONDS = 10;

size_t tri__bytes_of(const tri_group *group, const tri_pending *p, tri_buffer_extent extent, int m) {
    return (size_t)tri__extent(extent, group->n, p->what.count, p->shard, m) *
           tri__dtype_bytes((tri_dtype)p->what.dtype);
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
    int64_t bytes = (int64_t)tri__dtype_bytes(list->work.p->what.dtype), all = 0, task;
    for (int s = 0; s < segments; s++) all += tri__work_length(&list->work, s) * bytes;
    task = all / (list->work.p->group->n * TASKS_EACH);
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

/* The next task's number; n or more if none is left. A word of an earlier operation counts as 0, so nobody has to clear
 * it: an entry of the ring is not used again before all members have ended the operation (cells.h). */
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
static tri_status buffers(const tri_group *group, const tri_shm_group *shm, const tri_pending *p, const char **in,
                          char **out) {
    const tri_segment *segment = &group->world->segment;
    const tri_kind_row *kind = tri__kind(p->what.kind);
    for (int m = 0; m < group->n; m++) {
        const tri_cell *cell = tri__cell(shm, m, p->what.sequence);
        int root = m == p->what.root;
        in[m] = kind->in_root && !root ? NULL : segment->base + cell->in;
        out[m] = kind->out_root && !root ? NULL : segment->base + cell->out;
        if ((in[m] && !tri__segment_has(segment, in[m], tri__bytes_of(group, p, kind->in, m))) ||
            (out[m] && !tri__segment_has(segment, out[m], tri__bytes_of(group, p, kind->out, m))))
            return tri__fail(TRI_DISAGREE, "rank %d gave a buffer outside of the shared memory", group->rank[m]);
    }
    return TRI_OK;
}

tri_status tri__tasks_do(tri_group *group, const tri_shm_group *shm, const tri_pending *p, tri_status (*after)(void *),
                         void *context, uint32_t *n, int *moved) {
    const char *in[TRI_RANKS_PER_NODE];
    char *out[TRI_RANKS_PER_NODE];
    tri_cell_claims *place = &shm->cells->place[p->what.sequence % TRI_RING];
    uint32_t tag = (uint32_t)(p->what.sequence + 1);
    task_list list = {.work = {.p = p, .in = in, .out = out}};
    TRI_TRY(buffers(group, shm, p, in, out));
    list_tasks(&list);
    *n = list.n;
    for (uint32_t next; (next = claim(place, tag, list.n)) < list.n;) {
        do_task(&list, next);
        *moved = 1;
        if (add_done(place, tag) == list.n) tri__control_wake(group->world->segment.control, group->local, group->n);
        TRI_TRY(after(context));
    }
    return TRI_OK;
}

uint32_t tri__tasks_left(const tri_shm_group *shm, const tri_pending *p) {
    task_list list = {.work = {.p = p}};
    uint64_t word = atomic_load(&shm->cells->place[p->what.sequence % TRI_RING].claimed);
    uint32_t claimed = count_in(word, (uint32_t)(p->what.sequence + 1));
    list_tasks(&list);
    return claimed < list.n ? list.n - claimed : 0;
}

int tri__tasks_done(const tri_shm_group *shm, const tri_pending *p) {
    uint64_t word = atomic_load(&shm->cells->place[p->what.sequence % TRI_RING].done);
    return count_in(word, (uint32_t)(p->what.sequence + 1)) == p->tasks;
}

void tri__tasks_close(const tri_shm_group *shm, const tri_pending *p) {
    tri_cell_claims *place = &shm->cells->place[p->what.sequence % TRI_RING];
    uint32_t tag = (uint32_t)(p->what.sequence + 1);
    uint64_t word = atomic_load(&place->claimed);
    while (!atomic_compare_exchange_weak(&place->claimed, &word, word_of(tag, count_in(word, tag) | TRI_CLOSED))) {}
    uint32_t given = count_in(word, tag) & ~TRI_CLOSED;
    for (double begun = tri__clock();
         count_in(atomic_load(&place->done), tag) < given && tri__clock() - begun < CLOSE_SECONDS;)
        sched_yield();
}
