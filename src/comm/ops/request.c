/* request.c - operations in flight: posting, progress, waiting.
 *
 * A wait for one operation makes progress on all of this rank's operations, in posting order: so the order of waits
 * never matters. After a failure nothing is in flight any more, and every call returns the failure.
 *
 * An operation owns its output, and its input must not change, from the post to the wait. Its number on the group (of a
 * message: on the pair) is what members match it by, so it counts only once it can no longer fail to be posted. */
#include "comm/ops/request.h"

#include "comm/ops/describe.h"

static const double PROGRESS_SECONDS = 1e-4; /* between two looks of a computing rank */

static int is_message(const tri_pending *p) { return p->what.kind == TRI_SEND || p->what.kind == TRI_RECV; }

/* ---- Staging: memory that peers cannot access is copied through the heap ---- */

static size_t size_of(const tri_pending *p) { return tri__dtype_bytes((tri_dtype)p->what.dtype); }

static void release(tri_world *world, tri_pending *p) {
    for (int i = 0; i < 2; i++)
        if (p->staged[i]) tri__heap_give(&world->heap, p->staged[i]);
    if (p->shard) tri__block_give(world, p->shard);
    if (!is_message(p)) free(p->state);
    else if (p->state) tri__block_give(world, p->state);
}

static tri_status stage(tri_world *world, tri_pending *p) {
    size_t in = (size_t)p->in_count * size_of(p), out = (size_t)p->out_count * size_of(p);
    int both = p->in == p->out && in == out;
    if (is_message(p) || !p->group->transport->shares(p->group, p)) return TRI_OK;
    if (in && !tri__segment_has(&world->segment, p->in, in)) {
        TRI_TRY(tri__heap_take(&world->heap, in, &p->staged[0]));
        memcpy(p->staged[0], p->in, in);
        p->in = p->staged[0];
    }
    if (out && !tri__segment_has(&world->segment, p->out, out)) {
        if (!both) TRI_TRY(tri__heap_take(&world->heap, out, &p->staged[1]));
        p->user_out = p->out;
        p->out = both ? p->staged[0] : p->staged[1];
    }
    return TRI_OK;
}

/* ---- Posting ---- */

static tri_status begin_message(tri_pending *p) {
    tri_group *group = p->group;
    int receive = p->what.kind == TRI_RECV, peer = p->what.root;
    uint64_t number = receive ? group->received[peer] : group->sent[peer];
    tri_message *message = tri__block_take(group->world);
    if (!message) return tri__fail(TRI_RESOURCE, "out of memory for a message");
    p->what.sequence = number;
    *message = (tri_message){.peer = peer, .number = number, .what = p->what,
                             .data = receive ? p->out : (void *)(uintptr_t)p->in,
                             .bytes = p->bare ? 0 : p->what.count * (int64_t)size_of(p), .receive = receive};
    p->state = message;
    return TRI_OK;
}

static tri_status prepare(tri_world *world, tri_pending *p) {
    if (is_message(p)) return begin_message(p);
    p->what.sequence = p->group->sequence;
    return stage(world, p);
}

/* The operation can no longer fail to be posted: count it. Messages about hangs read `posted` and `last`. */
static void count_in(tri_world *world, tri_pending *p) {
    tri_rank_line *line = &world->segment.control->line[world->local];
    if (p->what.kind == TRI_SEND) p->group->sent[p->what.root]++;
    else if (p->what.kind == TRI_RECV) p->group->received[p->what.root]++;
    else p->group->sequence++;
    /* Unique among all ranks, so that a request is never mistaken for another rank's. */
    p->request = world->posted++ * (uint64_t)world->size + (uint64_t)world->rank + 1;
    atomic_store_explicit(&line->posted, world->posted, memory_order_relaxed);
    atomic_store_explicit(&line->last, tri__describe_pack(&p->what), memory_order_relaxed);
}

/* ---- Progress ---- */

static tri_status move_one(tri_pending *p, int *moved) {
    if (!is_message(p)) return p->group->transport->progress(p->group, p, moved);
    tri_message *message = p->state;
    TRI_TRY(p->group->world->carriers->progress(p->group, message, moved));
    p->done = message->stage == 2;
    return TRI_OK;
}

static void cancel(tri_pending *p) {
    if (is_message(p)) p->group->world->carriers->cancel(p->group, p->state);
    else if (p->group->transport->cancel) p->group->transport->cancel(p->group, p);
}

/* After a failure: cancels all operations in flight, then gives their buffers back: no peer and no other machine
 * touches them any more. Returns the failure. */
static tri_status give_up(tri_world *world) {
    world->carriers->poll(world); /* other machines are informed, and no longer access this rank's buffers */
    for (int i = 0; i < world->n_pending; i++) {
        cancel(&world->pending[i]);
        release(world, &world->pending[i]);
    }
    world->n_pending = 0;
    return tri__world_check(world);
}

/* Records this rank's own failure for all ranks, unless it is the consequence of another's: the first one counts. */
static tri_status fail(tri_world *world, tri_status status) {
    if (!atomic_load(&world->segment.control->abort)) tri_world_fail(world, status, tri_error());
    return give_up(world);
}

static tri_status move_all(tri_world *world, int *moved) {
    for (int i = 0; i < world->n_pending; i++) {
        if (world->pending[i].done) continue;
        tri_status status = move_one(&world->pending[i], moved);
        if (status != TRI_OK) return fail(world, status);
    }
    return TRI_OK;
}

/* A send that could not be announced yet because all entries were in use; some may have been freed since. */
static int has_no_room(const tri_pending *p) {
    return p->what.kind == TRI_SEND && ((const tri_message *)p->state)->stage == 0;
}

static tri_status post(tri_group *group, const tri_collective *what, int bare, tri_request *request) {
    tri_world *world = group->world;
    *request = 0;
    if (tri__world_check(world) != TRI_OK) return give_up(world);
    if (!tri__grow(&world->pending, &world->room_pending, (size_t)world->n_pending + 1, sizeof *world->pending))
        return tri__fail(TRI_RESOURCE, "out of memory for %d operations in flight", world->n_pending + 1);
    tri_pending *p = &world->pending[world->n_pending];
    *p = (tri_pending){.bare = bare};
    TRI_TRY(tri__accept(group, what, p));
    tri_status status = prepare(world, p);
    if (status != TRI_OK) {
        release(world, p);
        return status;
    }
    count_in(world, p);
    *request = p->request;
    world->n_pending++;
    int moved = 0;
    status = move_one(p, &moved);
    if (status != TRI_OK) status = fail(world, status);
    else if (has_no_room(p)) status = move_all(world, &moved);
    if (status != TRI_OK) *request = 0;
    return status;
}

tri_status tri_post(tri_group *group, const tri_collective *what, tri_request *request) {
    if (!group || !what || !request)
        return tri__fail(TRI_USAGE, "tri_post needs a group, an operation and a place for the request");
    return tri__done(post(group, what, 0, request));
}

/* ---- Announcing: members compare operations whose data moves by other means ---- */

tri_status tri__announced(tri_world *world, int *left) {
    int moved = 0, kept = 0;
    *left = 0;
    if (world->carriers->poll(world) != TRI_OK) return give_up(world);
    TRI_TRY(move_all(world, &moved));
    for (int i = 0; i < world->n_pending; i++) {
        tri_pending *p = &world->pending[i];
        if (p->bare && p->done) {
            release(world, p);
            continue;
        }
        *left += p->bare;
        if (kept != i) world->pending[kept] = *p;
        kept++;
    }
    world->n_pending = kept;
    return TRI_OK;
}

tri_status tri__announce(tri_group *group, const tri_collective *what) {
    tri_request request;
    int left;
    TRI_TRY(post(group, what, 1, &request));
    return tri__announced(group->world, &left);
}

/* ---- Completion ---- */

static tri_pending *find(tri_world *world, tri_request request) {
    for (int i = 0; i < world->n_pending; i++)
        if (world->pending[i].request == request) return &world->pending[i];
    return NULL;
}

static tri_status no_request(const tri_world *world, tri_request request) {
    uint64_t rank = request ? (request - 1) % (uint64_t)world->size : 0,
             number = request ? (request - 1) / (uint64_t)world->size : 0;
    if (!request) return tri__fail(TRI_USAGE, "0 is not a request");
    if (rank != (uint64_t)world->rank)
        return tri__fail(TRI_USAGE, "the request does not belong to rank %d, which waits for it", world->rank);
    if (number < world->posted)
        return tri__fail(TRI_USAGE, "the request has completed already: each can be waited for once");
    return tri__fail(TRI_USAGE, "no operation was posted with this request");
}

/* Removes a completed operation from the list, which stays in the order of posting: transports rely on it. */
static void end(tri_world *world, tri_pending *p) {
    tri_pending *last = &world->pending[--world->n_pending];
    if (p->user_out) memcpy(p->user_out, p->out, (size_t)p->out_count * size_of(p));
    release(world, p);
    memmove(p, p + 1, (size_t)(last - p) * sizeof *p);
}

tri_status tri_test(tri_world *world, tri_request request, int *done) {
    if (!world || !done) return tri__fail(TRI_USAGE, "tri_test needs a world and a place for its answer");
    int moved = 0;
    *done = 0;
    if (world->carriers->poll(world) != TRI_OK) return give_up(world);
    tri_pending *p = find(world, request);
    if (!p) return no_request(world, request);
    TRI_TRY(move_all(world, &moved));
    tri__world_beat(world);
    *done = p->done;
    if (p->done) end(world, p);
    return tri__done(TRI_OK);
}

void tri__requests_progress(tri_world *world) {
    int moved = 0;
    tri__world_beat(world);
    if (world->nodes.n == 1 || !world->n_pending || tri__world_check(world) != TRI_OK) return;
    double now = tri__clock();
    if (now - world->progressed < PROGRESS_SECONDS) return;
    world->progressed = now;
    for (int i = 0; i < world->n_pending; i++) {
        tri_pending *p = &world->pending[i];
        if (p->done || !p->group->spans) continue;
        tri_status status = move_one(p, &moved);
        if (status == TRI_OK) continue;
        fail(world, status);
        return;
    }
}

/* Adds the time since `begin` to the time spent in waits; returns now. */
static double close_span(tri_world *world, double begin) {
    double now = tri__clock();
    world->wait_seconds += now - begin;
    return now;
}

/* The list does not change during a wait: p stays valid. */
static tri_status wait_for(tri_world *world, const tri_pending *p) {
    tri_idle idle = {.far = world->nodes.n > 1};
    double begin = tri__clock(), since = 0; /* since when there has been no work; 0: there is work */
    while (!p->done) {
        int moved = 0;
        double looked = since > 0 ? tri__clock() : begin;
        if (world->carriers->poll(world) != TRI_OK) return give_up(world);
        TRI_TRY(move_all(world, &moved));
        if ((p->done || moved) && since > 0) world->idle_seconds += looked - since, since = 0;
        if (p->done) break;
        if (moved) {
            idle.round = 0;
            tri__world_beat(world);
            begin = close_span(world, begin);
        } else {
            if (since == 0) since = looked;
            tri__idle(world->segment.control, world->local, &idle);
        }
    }
    close_span(world, begin);
    return TRI_OK;
}

tri_status tri_wait(tri_world *world, tri_request request) {
    if (!world) return tri__fail(TRI_USAGE, "tri_wait needs a world");
    if (tri__world_check(world) != TRI_OK) return give_up(world);
    tri_pending *p = find(world, request);
    if (!p) return no_request(world, request);
    tri__world_waits(world, 1);
    tri_status status = wait_for(world, p);
    tri__world_waits(world, 0);
    if (status == TRI_OK) end(world, p);
    return tri__done(status);
}

void tri__requests_close(tri_world *world) {
    char what[160];
    const tri_pending *first = NULL;
    int n = 0;
    for (int i = world->n_pending - 1; i >= 0; i--)
        if (!world->pending[i].bare) first = &world->pending[i], n++;
    if (n && !atomic_load(&world->segment.control->abort)) {
        tri__describe(&first->what, first->group->n, what, sizeof what);
        tri__control_fail(world->segment.control, world->rank, TRI_USAGE,
                          "left with %d operation%s not waited for, the first: %s", n, n == 1 ? "" : "s", what);
    }
    if (world->n_pending) give_up(world);
}
