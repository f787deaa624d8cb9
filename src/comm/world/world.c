/* world.c - one rank's view of its job: opening, activity, failing and closing. */
#include "comm/world/world.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/text.h"
#include "comm/world/group.h"
#include "comm/link/link.h"
#include "comm/ops/request.h"
#include "comm/shm/helper.h"
#include "comm/world/watcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PROGRESS_SECONDS = 30, IO_SECONDS = 600, TIMEOUT_LEAST = 0.25;

tri_status tri__ranks_resolve(const tri_ranks *how, tri_ranks *out) {
    *out = how ? *how : (tri_ranks){0};
    if (out->progress_timeout == 0) out->progress_timeout = PROGRESS_SECONDS;
    if (out->io_timeout == 0) out->io_timeout = IO_SECONDS;
    if (!(out->progress_timeout >= TIMEOUT_LEAST))
        return tri__fail(TRI_USAGE, "a progress timeout of %g s is too short: give at least %g", out->progress_timeout,
                         TIMEOUT_LEAST);
    if (!(out->io_timeout >= TIMEOUT_LEAST))
        return tri__fail(TRI_USAGE, "an I/O timeout of %g s is too short: give at least %g", out->io_timeout,
                         TIMEOUT_LEAST);
    return TRI_OK;
}

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

static void free_group(tri_group *group) {
    if (group->transport && group->transport->close) group->transport->close(group);
    free(group->rank);
    free(group->local);
    free(group->sent);
    free(group->received);
    free(group);
}

void *tri__block_take(tri_world *world) {
    size_t shards = ((size_t)world->size + 1) * sizeof(int64_t);
    void *block = world->spare;
    if (!block) return malloc(shards > sizeof(tri_message) ? shards : sizeof(tri_message));
    memcpy(&world->spare, block, sizeof world->spare);
    return block;
}

void tri__block_give(tri_world *world, void *block) {
    memcpy(block, &world->spare, sizeof world->spare);
    world->spare = block;
}

/* Frees everything that is private to this rank. */
static void release(tri_world *world) {
    while (world->spare) free(tri__block_take(world));
    free(world->pending);
    for (int i = 0; i < world->n_groups; i++) free_group(world->group[i]);
    free(world->group);
    free(world->nodes.node_of);
    free(world->nodes.local_of);
    free(world->nodes.host);
    tri__heap_close(&world->heap);
}

/* The group of all ranks, in order. */
static tri_status make_all(tri_world *world) {
    int *ranks = calloc((size_t)world->size, sizeof *ranks);
    if (!ranks) return tri__fail(TRI_RESOURCE, "out of memory for a world of %d ranks", world->size);
    for (int i = 0; i < world->size; i++) ranks[i] = i;
    tri_status status = tri__group_make_on(
        world, world->size, ranks, world->nodes.n > 1 ? &tri__transport_exchange : &tri__transport_shm, &world->all);
    free(ranks);
    return status;
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
    tri_world *world = calloc(1, sizeof *world);
    if (!world) return tri__fail(TRI_RESOURCE, "out of memory for a world");
    world->segment = *segment;
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
    tri_words words;
    tri__words_keep(&words);
    if (world) (void)tri__world_leave(world);
    tri__words_restore(&words);
}

int tri_world_rank(const tri_world *world) { return world->rank; }
int tri_world_size(const tri_world *world) { return world->size; }

void tri_world_fail(tri_world *world, tri_status status, const char *text) {
    tri_words words;
    tri__words_keep(&words);
    tri__control_fail(world->segment.control, world->rank, status == TRI_OK ? TRI_INTERNAL : status, "%s",
                      text ? text : "failed");
    tri__remote_poll(world);
    tri__words_restore(&words);
}

tri_status tri_heap_alloc(tri_world *world, size_t bytes, void **memory) {
    return tri__done(tri__heap_take(&world->heap, bytes, memory));
}

void tri_heap_free(tri_world *world, void *memory) {
    if (memory) tri__heap_give(&world->heap, memory);
}

static tri_rank_line *own_line(tri_world *world) { return &world->segment.control->line[world->local]; }

void tri__world_beat(tri_world *world) {
    tri_rank_line *line = own_line(world); /* no other rank writes it: no read-modify-write needed */
    atomic_store_explicit(&line->beats, atomic_load_explicit(&line->beats, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (world->link) tri__remote_poll(world); /* a failure is returned by the next wait */
}

void tri__world_files(tri_world *world, int begins) {
    if (world->link) tri__link_files(world->link, begins);
}

void tri__world_doing(tri_world *world, tri_doing phase, int64_t step) {
    int before = atomic_load_explicit(&own_line(world)->phase, memory_order_relaxed) == TRI_DOING_LOAD;
    if ((phase == TRI_DOING_LOAD) != before) tri__world_files(world, !before);
    atomic_store_explicit(&own_line(world)->phase, (uint32_t)phase, memory_order_relaxed);
    atomic_store_explicit(&own_line(world)->step, step, memory_order_relaxed);
    tri__world_beat(world);
}

void tri__world_waits(tri_world *world, int waiting) {
    tri__world_beat(world);
    atomic_store_explicit(&own_line(world)->waiting, (uint32_t)waiting, memory_order_relaxed);
}

const char *tri__world_host(const tri_world *world, int rank) {
    return world->nodes.host && rank >= 0 && rank < world->size ? world->nodes.host[world->nodes.node_of[rank]] : NULL;
}

tri_status tri__world_check(tri_world *world) {
    const tri_control *control = world->segment.control;
    tri_failure failure;
    if (!atomic_load_explicit(&control->abort, memory_order_acquire)) return TRI_OK;
    world->failed = tri__control_failure(control, &failure)
                        ? tri__failure_status(&failure, tri__world_host(world, failure.rank))
                        : TRI_OK;
    return world->failed;
}

int tri__world_left(const tri_world *world, int local) {
    const tri_control *control = world->segment.control;
    return atomic_load_explicit(&control->left, memory_order_relaxed) &&
           atomic_load(&control->line[local].life) == TRI_LIFE_LEFT;
}

static tri_status name_missing(tri_world *world, double seconds) {
    char text[256] = "", time[32];
    tri_control *control = world->segment.control;
    for (int i = 0, used = 0; i < world->segment.n && used < (int)sizeof text; i++)
        if (atomic_load(&control->line[i].life) == TRI_LIFE_NONE)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", used ? ", " : "", control->rank_of[i]);
    return tri__fail(TRI_RESOURCE,
                     "waited %s for the other ranks of this machine; still missing: rank %s. Were all of them started?",
                     tri__text_seconds(seconds, time), text);
}

tri_status tri__world_meet(tri_world *world, double seconds, const tri_stop *stop) {
    tri_control *control = world->segment.control;
    double begin = tri__clock();
    tri_idle idle = {0};
    tri_status status = TRI_OK;
    tri__world_waits(world, 1);
    while (atomic_load(&control->joined) < (uint32_t)world->segment.n && (status = tri__world_check(world)) == TRI_OK) {
        status = tri__stop_check(stop, "the ranks of this machine joined");
        if (status == TRI_OK && tri__clock() - begin > seconds) status = name_missing(world, seconds);
        if (status != TRI_OK) break;
        tri__idle(control, world->local, &idle);
    }
    tri__world_waits(world, 0);
    return status;
}
