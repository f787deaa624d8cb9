/* far_device.c - see far_device.h. */
#include "tests/lib/far_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct far far = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* One rank's view of a group. */
typedef struct far_member {
    int rank, group, me;
} far_member;

void far_reset(void) {
    free(far.rank), free(far.group);
    far.rank = calloc(FAR_RANKS, sizeof *far.rank), far.group = calloc(FAR_GROUPS, sizeof *far.group);
    far.n_groups = far.one_queue = far.broken = 0;
}

/* ---- What queues do ---- */

static int far_fit(const far_group *g, const tri_collective *a, const tri_collective *b) {
    int kinds = g->oneway ? a->kind == TRI_SEND && b->kind == TRI_RECV : a->kind == b->kind && a->root == b->root;
    return kinds && a->dtype == b->dtype && a->count == b->count;
}

static int far_may_end(int group) {
    const far_group *g = &far.group[group];
    for (int m = 0; m < g->n; m++) {
        const far_rank *r = &far.rank[g->rank[m]];
        const far_item *head = &r->order[r->begun];
        if (g->joined < g->n || g->ready[m] <= g->done) return 0;
        if (m && !far_fit(g, &g->what[0][g->done], &g->what[m][g->done])) return 0;
        if (far.one_queue && (head->group != group || head->number != g->done)) return 0;
    }
    return 1;
}

static int far_pass(int rank, int lane) {
    far_rank *r = &far.rank[rank];
    int moved = 0;
    for (int *at = &r->reached[lane]; *at < r->n[lane]; ++*at, moved = 1) {
        const far_item *item = &r->item[lane][*at];
        far_group *g = &far.group[item->group];
        if (item->kind == FAR_WAIT && g->done <= item->number) break;
        if (item->kind == FAR_AWAIT && !r->is_given[item->number]) break;
        if (item->kind == FAR_SIGNAL) r->is_given[item->number] = 1;
        for (int m = 0; m < g->n && item->kind == FAR_POST; m++)
            if (g->rank[m] == rank) g->ready[m]++;
    }
    return moved;
}

static void far_advance(void) {
    for (int moved = 1; moved;) {
        moved = 0;
        for (int r = 0; r < FAR_RANKS; r++)
            for (int lane = 0; lane < TRI_LANES; lane++) moved |= far_pass(r, lane);
        for (int i = 0; i < far.n_groups; i++)
            while (far_may_end(i)) {
                for (int m = 0; m < far.group[i].n; m++) far.rank[far.group[i].rank[m]].begun++;
                far.group[i].done++, moved = 1;
            }
    }
}

/* ---- The device ---- */

static void far_kernels(tri_kernel_table *table) { tri__device_find("null")->kernels(table); }
static tri_status far_open(const tri_core *core, int local, size_t inputs, void **context) {
    (void)core, (void)inputs;
    *context = &far.rank[local];
    return TRI_OK;
}
static void far_close(void *context) { (void)context; }
static tri_status far_room(const tri_core *core, int local, int64_t *bytes) {
    return (void)core, (void)local, *bytes = 1 << 30, TRI_OK;
}
static tri_status far_alloc(void *context, size_t bytes, void **out) {
    return (void)context, tri__device_find("cpu")->alloc(NULL, bytes, out);
}
static void far_free(void *context, void *memory, size_t bytes) {
    (void)context, tri__device_find("cpu")->free(NULL, memory, bytes);
}
static const char *far_describe(void *context) { return (void)context, "far"; }
static tri_status far_copy(void *context, void *to, const void *from, size_t bytes) {
    return (void)context, memcpy(to, from, bytes), TRI_OK;
}
static tri_status far_fill(void *context, void *to, size_t bytes, tri_make *make, void *maker) {
    return (void)context, make(maker, 0, bytes, to), TRI_OK;
}
static void far_stage_input(void *context, const void *from, size_t bytes) { (void)context, (void)from, (void)bytes; }
static void far_begin_run(void *context, uint32_t step) { (void)context, (void)step; }
static void far_next_input(void *context, void *to, size_t bytes) {
    (void)context, (void)to, (void)bytes;
} /* nothing is computed */
static tri_status far_finish(void *context) { return (void)context, TRI_OK; }

static int far_is_idle(void *context, uint64_t *passed) {
    far_rank *r = context;
    pthread_mutex_lock(&far.lock);
    far_advance();
    *passed = (uint64_t)(r->reached[0] + r->reached[1]);
    int done = r->reached[0] == r->n[0] && r->reached[1] == r->n[1];
    pthread_mutex_unlock(&far.lock);
    return done;
}

static tri_status far_name(void *context, char *name) {
    (void)context;
    pthread_mutex_lock(&far.lock);
    snprintf(name, TRI_GROUP_NAME, "group %d", far.names++);
    pthread_mutex_unlock(&far.lock);
    return TRI_OK;
}

static tri_status far_join(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                           void **out) {
    far_member *member = calloc(1, sizeof *member);
    int rank = (int)((far_rank *)context - far.rank), at = 0, all = 0;
    tri_status status = TRI_OK;
    pthread_mutex_lock(&far.lock);
    while (at < far.n_groups && strcmp(far.group[at].name, name)) at++;
    far_group *g = &far.group[at];
    if (at == far.n_groups) far.n_groups++, strcpy(g->name, name), g->n = n, g->oneway = oneway;
    g->rank[me] = rank, g->joined++;
    pthread_mutex_unlock(&far.lock);
    while (!all && status == TRI_OK) {
        pthread_mutex_lock(&far.lock);
        all = g->joined == n;
        pthread_mutex_unlock(&far.lock);
        if (!all) status = poll->ask(poll->argument);
    }
    *member = (far_member){.rank = rank, .group = at, .me = me};
    if (status == TRI_OK) *out = member;
    else free(member);
    return status;
}

static void far_leave(void *context, void *const *groups, int n, int abort) {
    (void)context, (void)abort;
    for (int i = 0; i < n; i++) free(groups[i]);
}

static void far_post(void *context, void *group, const tri_collective *what, int number) {
    far_rank *r = context;
    const far_member *member = group;
    pthread_mutex_lock(&far.lock);
    far_group *g = &far.group[member->group];
    far_item item = {.group = member->group, .number = g->posts[member->me]++};
    tri_collective *kept = &g->what[member->me][item.number];
    *kept = *what;
    for (int m = 0; what->counts && m < g->n; m++) kept->count += what->counts[m];
    r->posted[number] = r->item[r->lane][r->n[r->lane]++] = r->order[r->n_order++] = item;
    pthread_mutex_unlock(&far.lock);
}

static void far_wait(void *context, int number) {
    far_rank *r = context;
    pthread_mutex_lock(&far.lock);
    far_item *item = &r->item[r->lane][r->n[r->lane]++];
    *item = r->posted[number];
    item->kind = FAR_WAIT;
    pthread_mutex_unlock(&far.lock);
}

static void far_use_lane(void *context, int lane) { ((far_rank *)context)->lane = lane; }

static void far_signal(void *context, int number) {
    far_rank *r = context;
    pthread_mutex_lock(&far.lock);
    r->signal[number] = r->n_signals;
    r->item[r->lane][r->n[r->lane]++] = (far_item){.kind = FAR_SIGNAL, .number = r->n_signals++};
    pthread_mutex_unlock(&far.lock);
}

static void far_await(void *context, int number) {
    far_rank *r = context;
    pthread_mutex_lock(&far.lock);
    r->item[r->lane][r->n[r->lane]++] = (far_item){.kind = FAR_AWAIT, .number = r->signal[number]};
    pthread_mutex_unlock(&far.lock);
}

static void far_mark_progress(void *context) { (void)context; }

static tri_status far_check(void *context, void *group) {
    (void)context, (void)group;
    pthread_mutex_lock(&far.lock);
    int broken = far.broken;
    pthread_mutex_unlock(&far.lock);
    return broken ? tri__fail(TRI_INTERNAL, "the way is broken") : TRI_OK;
}

static const tri_async far_async = {.copy = far_copy,
                                    .fill = far_fill,
                                    .stage_input = far_stage_input,
                                    .begin_run = far_begin_run,
                                    .next_input = far_next_input,
                                    .finish = far_finish,
                                    .is_idle = far_is_idle,
                                    .mark_progress = far_mark_progress};
static const tri_queues far_queues = {.use = far_use_lane, .signal = far_signal, .await = far_await};
static const tri_peers far_peers = {.name = far_name,
                                    .join = far_join,
                                    .leave = far_leave,
                                    .post = far_post,
                                    .wait = far_wait,
                                    .check = far_check};
const tri_device far_device = {.name = "far",
                                      .granule = 1,
                                      .lanes = TRI_LANES,
                                      .kernels = far_kernels,
                                      .open = far_open,
                                      .close = far_close,
                                      .room = far_room,
                                      .alloc = far_alloc,
                                      .free = far_free,
                                      .describe = far_describe,
                                      .async = &far_async,
                                      .queues = &far_queues,
                                      .peers = &far_peers};
