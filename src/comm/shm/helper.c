/* helper.c - a rank's helper thread. The rank puts a copy of an operation into a place; the helper looks at all places
 * in turn, and owns one (BUSY) while it reads the operation's cells or does its tasks. */
#include "comm/shm/helper.h"

#include "base/thread.h"
#include "comm/shm/tasks.h"
#include "comm/ops/describe.h"

enum { FREE, OFFERED, BUSY }; /* states of a place */
static const double LOOK_SECONDS = 1e-4;   /* between looks at operations that not all members have posted */
static const double SLEEP_SECONDS = 0.1;   /* without operations; a new one wakes it */

struct tri_helper {
    pthread_t thread;
    tri_world *world;
    _Atomic int ends;           /* 1: it should end */
    _Atomic uint32_t bell;      /* futex: counts what the helper should know of */
    struct place {
        _Atomic int state;
        tri_pending p;
    } place[TRI_RING];
};

static int may_work(const struct tri_helper *helper) {
    return !atomic_load(&helper->ends) && !atomic_load(&helper->world->segment.control->abort);
}

static tri_status after_task(void *helper) { return may_work(helper) ? TRI_OK : TRI_STOPPED; }

/* Whether all members have posted the operation, and the same. If they differ, the rank itself will report it. */
static int agreed(const tri_shm_group *shm, tri_pending *p) {
    if (!tri__cells_ready(p->group, shm, p->what.sequence, &p->seen)) return 0;
    for (int m = 0; m < p->group->n; m++)
        if (!tri__describe_same(&tri__cell(shm, m, p->what.sequence)->what, &p->what)) return 0;
    return 1;
}

/* A group's state is the rank's own, but what is read of it here, where its cells are, does not change any more once an
 * operation of it has been announced.
 *
 * Does what can be done of the operations offered. 1: there was some work; *left: operations are offered. */
static int look(struct tri_helper *helper, int *left) {
    int moved = 0;
    for (int i = 0; i < TRI_RING && may_work(helper); i++) {
        struct place *place = &helper->place[i];
        int state = OFFERED;
        uint32_t n;
        if (!atomic_compare_exchange_strong(&place->state, &state, BUSY)) continue;
        const tri_shm_group *shm = place->p.group->state;
        *left = 1;
        if (agreed(shm, &place->p)) tri__tasks_do(place->p.group, shm, &place->p, after_task, helper, &n, &moved);
        atomic_store(&place->state, OFFERED);
    }
    return moved;
}

static void *help(void *context) {
    struct tri_helper *helper = context;
    while (!atomic_load(&helper->ends)) {
        uint32_t bell = atomic_load(&helper->bell);
        int left = 0;
        if (!look(helper, &left)) tri__futex_wait(&helper->bell, bell, left ? LOOK_SECONDS : SLEEP_SECONDS);
    }
    return NULL;
}

static void ring(struct tri_helper *helper) {
    atomic_fetch_add(&helper->bell, 1);
    tri__futex_wake(&helper->bell);
}

tri_status tri__helper_open(tri_world *world) {
    struct tri_helper *helper = calloc(1, sizeof *helper);
    if (!helper) return tri__fail(TRI_RESOURCE, "out of memory for a rank's helper thread");
    helper->world = world;
    int failed = tri__thread_start(&helper->thread, help, helper);
    if (failed) {
        free(helper);
        return tri__fail(TRI_RESOURCE, "cannot start a rank's helper thread: %s", strerror(failed));
    }
    world->helper = helper;
    return TRI_OK;
}

tri_status tri__helper_share(tri_world *world, int threads) {
    int share = tri__control_cores(world->segment.control) / world->segment.n;
    if (world->threads || world->segment.n == 1) return TRI_OK;
    world->threads = share >= threads ? threads : 1;
    return share > threads ? tri__helper_open(world) : TRI_OK;
}

void tri__helper_close(struct tri_helper *helper) {
    if (!helper) return;
    atomic_store(&helper->ends, 1);
    ring(helper);
    pthread_join(helper->thread, NULL);
    free(helper);
}

void tri__helper_give(struct tri_helper *helper, const tri_pending *p) {
    for (int i = 0; helper && i < TRI_RING; i++) {
        struct place *place = &helper->place[i];
        if (atomic_load(&place->state) != FREE) continue;
        place->p = *p;
        place->p.seen = 0;
        atomic_store(&place->state, OFFERED);
        ring(helper);
        return;
    }
}

void tri__helper_take(struct tri_helper *helper, const tri_group *group, uint64_t sequence) {
    for (int i = 0; helper && i < TRI_RING; i++) {
        struct place *place = &helper->place[i];
        if (atomic_load(&place->state) == FREE || place->p.group != group || place->p.what.sequence != sequence)
            continue;
        for (int state = OFFERED; !atomic_compare_exchange_weak(&place->state, &state, FREE); state = OFFERED)
            sched_yield();
        return;
    }
}
