/* world.c - one rank's view of its job: what it does, and failing. comm/link/open.c opens and closes worlds. */
#include "comm/world/world.h"

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

tri_segment_spec tri__ranks_spec(const tri_ranks *how, int n, int flat) {
    return (tri_segment_spec){.n = n, .world = n, .heap_bytes = how->heap_bytes, .flat = flat,
                              .progress_timeout = how->progress_timeout, .io_timeout = how->io_timeout};
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

int tri_world_rank(const tri_world *world) { return world->rank; }
int tri_world_size(const tri_world *world) { return world->size; }

void tri_world_fail(tri_world *world, tri_status status, const char *text) {
    tri_words words;
    tri__words_keep(&words);
    tri__control_fail(world->segment.control, world->rank, status == TRI_OK ? TRI_INTERNAL : status, "%s",
                      text ? text : "failed");
    world->carriers->poll(world);
    tri__words_restore(&words);
}

tri_status tri_heap_alloc(tri_world *world, size_t bytes, void **memory) {
    return tri__done(tri__heap_take(&world->heap, bytes, memory));
}

void tri_heap_free(tri_world *world, void *memory) {
    if (memory) tri__heap_give(&world->heap, memory);
}

void tri__world_beat(tri_world *world) {
    tri_rank_line *line = tri__own_line(world); /* no other rank writes it: no read-modify-write needed */
    atomic_store_explicit(&line->beats, atomic_load_explicit(&line->beats, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (world->link) world->carriers->poll(world); /* a failure is returned by the next wait */
}

void tri__world_files(tri_world *world, int begins) {
    if (world->link) world->carriers->files(world, begins);
}

void tri__world_doing(tri_world *world, tri_doing phase, int64_t step) {
    int before = atomic_load_explicit(&tri__own_line(world)->phase, memory_order_relaxed) == TRI_DOING_LOAD;
    if ((phase == TRI_DOING_LOAD) != before) tri__world_files(world, !before);
    atomic_store_explicit(&tri__own_line(world)->phase, (uint32_t)phase, memory_order_relaxed);
    atomic_store_explicit(&tri__own_line(world)->step, step, memory_order_relaxed);
    tri__world_beat(world);
}

void tri__world_waits(tri_world *world, int waiting) {
    tri__world_beat(world);
    atomic_store_explicit(&tri__own_line(world)->waiting, (uint32_t)waiting, memory_order_relaxed);
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
    for (int i = 0; i < world->segment.n; i++)
        if (atomic_load(&control->line[i].life) == TRI_LIFE_NONE)
            tri__text_append(text, sizeof text, ", ", "%d", control->rank_of[i]);
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
