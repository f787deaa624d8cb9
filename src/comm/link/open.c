/* open.c - opening and closing a world: its memory, its groups, what carries its operations. */
#include "comm/link/link.h"
#include "comm/link/message.h"
#include "comm/ops/request.h"
#include "comm/ops/watcher.h"
#include "comm/shm/helper.h"
#include "comm/shm/shm.h"
#include "comm/world/group.h"

/* nodes NULL: all ranks on this machine. */
static tri_status copy_nodes(tri_world *world, const tri_nodes *nodes) {
    size_t n = (size_t)world->size;
    world->nodes = (tri_nodes){
        .node_of = calloc(n, sizeof(int)), .local_of = calloc(n, sizeof(int)), .n = nodes ? nodes->n : 1};
    if (!world->nodes.node_of || !world->nodes.local_of)
        return tri__fail(TRI_RESOURCE, "out of memory for a world of %d ranks", world->size);
    if (nodes && nodes->host) {
        world->nodes.host = calloc((size_t)nodes->n, sizeof *nodes->host);
        if (!world->nodes.host) return tri__fail(TRI_RESOURCE, "out of memory for a world of %d ranks", world->size);
        memcpy(world->nodes.host, nodes->host, (size_t)nodes->n * sizeof *nodes->host);
    }
    if (nodes) {
        memcpy(world->nodes.node_of, nodes->node_of, n * sizeof(int));
        memcpy(world->nodes.local_of, nodes->local_of, n * sizeof(int));
        return TRI_OK;
    }
    for (int i = 0; i < world->segment.n; i++) {
        int rank = world->segment.control->rank_of[i];
        if (rank < 0 || rank >= world->size)
            return tri__fail(TRI_DISAGREE, "the control page names rank %d in a world of %d", rank, world->size);
        world->nodes.local_of[rank] = i;
    }
    return TRI_OK;
}

/* Frees everything that is private to this rank. */
static void release(tri_world *world) {
    while (world->spare) free(tri__block_take(world));
    free(world->pending);
    for (int i = 0; i < world->n_groups; i++) {
        world->group[i]->transport->close(world->group[i]);
        tri__group_free(world->group[i]);
    }
    TRI_FREE(world->group, world->nodes.node_of, world->nodes.local_of, world->nodes.host);
    tri__heap_close(&world->heap);
}

static void say_files(tri_world *world, int begins) { tri__link_files(world->link, begins); }

static const tri_carriers carriers = {.here = &tri__transport_shm, .across = &tri__transport_exchange,
                                      .progress = tri__message_progress, .cancel = tri__message_cancel,
                                      .poll = tri__remote_poll, .files = say_files};

/* The group of all ranks, in order. */
static tri_status make_all(tri_world *world) {
    TRI_OWNED(tri__free_at) int *ranks = calloc((size_t)world->size, sizeof *ranks);
    if (!ranks) return tri__fail(TRI_RESOURCE, "out of memory for a world of %d ranks", world->size);
    for (int i = 0; i < world->size; i++) ranks[i] = i;
    return tri__group_make_on(world, world->size, ranks, world->nodes.n > 1 ? carriers.across : carriers.here,
                              &world->all);
}

/* While this rank's thread waits for its helpers: other machines may ask whether it lives. */
static void poll_meanwhile(void *world) { tri__remote_poll(world); }

tri_status tri__world_open(const tri_segment *segment, int local, const tri_nodes *nodes,
                           const struct tri_remote *remote, void *remote_state, tri_world **out) {
    *out = NULL;
    if (local < 0 || local >= segment->n)
        return tri__fail(TRI_USAGE, "place %d on this machine: there are %d ranks, counted from 0", local, segment->n);
    if (segment->control->world < segment->n)
        return tri__fail(TRI_DISAGREE, "the control page is damaged: a world of %d with %d ranks here",
                         segment->control->world, segment->n);
    tri_world *world;
    TRI_TRY(TRI_NEW(world, 1, "a world"));
    world->segment = *segment;
    world->carriers = &carriers;
    world->local = local;
    world->rank = segment->control->rank_of[local];
    world->size = segment->control->world;
    world->generation = segment->control->generation;
    world->remote = remote;
    world->remote_state = remote_state;
    char *heap = tri__segment_heap(segment, local);
    tri_status status = tri__heap_open(&world->heap, heap, segment->heap_bytes, segment->fd, heap - segment->base);
    if (status == TRI_OK) status = copy_nodes(world, nodes);
    if (status == TRI_OK) status = make_all(world);
    if (status == TRI_OK && remote) status = tri__link_open(world);
    if (status != TRI_OK) {
        release(world);
        free(world);
        return status;
    }
    world->calls = tri__calls_open(&segment->control->line[local].calls, poll_meanwhile, world);
    tri__control_join(segment->control, local);
    *out = world;
    return TRI_OK;
}

void tri__world_forget(tri_world *world) {
    for (int i = 0; i < 2; i++) tri__segment_close(&world->before[i]);
}

tri_status tri__world_leave(tri_world *world) {
    if (!world->segment.base) return TRI_OK; /* closed already, and kept for tri_ranks_run */
    tri_control *control = world->segment.control;
    int kept = world->kept, linked = world->link != NULL;
    tri__requests_close(world);
    atomic_store(&control->line[world->local].life, TRI_LIFE_LEFT);
    atomic_fetch_add(&control->left, 1);
    tri__control_wake(control, NULL, 0);
    tri__calls_close(world->calls);
    tri__link_close(world); /* before the memory of operations in flight is freed */
    tri_status status = linked ? tri__world_check(world) : TRI_OK;
    tri__watcher_close(world->watcher);
    tri__helper_close(world->helper);
    release(world);
    if (world->owns_segment) tri__segment_close(&world->segment);
    tri__world_forget(world);
    *world = (tri_world){.kept = kept, .failed = world->failed};
    if (!kept) free(world);
    return status;
}

void tri_world_close(tri_world *world) {
    TRI_KEEP_WORDS();
    if (world) (void)tri__world_leave(world);
}

int tri__world_abandon(tri_world **world, tri_status status) {
    int other = (*world)->failed == status;
    if (!other) tri_world_fail(*world, status, tri_error());
    tri_world_close(*world);
    *world = NULL;
    return other;
}
