/* replicate.c - the state of each step in shared memory (--replicate-state): what every rank would write to a
 * checkpoint, and the run's position, so that the ranks that are left after a death, or others, go on at the step that
 * was interrupted.
 *
 * A step is committed when all ranks have kept it: until then the state of the step before is whole, after it this one
 * is, and no mixture of both is ever read.
 *
 * The copies are instructions: a step's program begins with those of what the step before left, and waits for them
 * before its control (plan/pass_replicate.c). A device that copies beside its kernels posts them with the next forward
 * pass; others at once, after the update. What follows from the step (a validation, a checkpoint, the end) waits first.
 * So does what goes to another machine (held.h). */
#include "comm/world/kept.h"
#include "train/state/held.h"
#include "train/session.h"

/* Where the plan copies each piece to: it lies in what one of the copies is of. */
static size_t place_of(const tri_session *s, const tri_piece *piece) {
    const tri_program *p = s->engine.plan.train.program;
    const char *data = piece->data;
    for (int i = 0; i < s->engine.plan.train.posted; i++) {
        int x = TRI_SLOT(&p->instr[i], copy_post, x), y = TRI_SLOT(&p->instr[i], copy_post, y);
        const char *from = tri__exec_slot(s->engine.exec, s->engine.train, x);
        if (data >= from && data < from + tri__slot_bytes(&p->slot[x], &p->max))
            return (size_t)(tri__slot_offset(p, y) + (data - from));
    }
    TRI_ASSERT(!"a piece that the plan does not copy");
    return 0;
}

/* The area: head, table, and the two halves of the class kept. pieces->at is not set yet. */
static tri_status open_area(tri_session *s, tri_memory_pieces *pieces, size_t *at, size_t *bytes) {
    tri_world *world = s->place.world;
    size_t half;
    int direct;
    pieces->at = at, pieces->bytes = (size_t)s->engine.plan.train.program->bytes[TRI_MEM_KEPT] / 2;
    for (int i = 0; i < pieces->n_weights; i++) *at++ = place_of(s, &pieces->weights[i]);
    for (int i = 0; i < pieces->n_optimizer; i++) *at++ = place_of(s, &pieces->optimizer[i]);
    TRI_TRY(tri__memory_size(world->rank, pieces, bytes));
    TRI_TRY(tri_heap_alloc(world, *bytes, &s->kept));
    TRI_TRY(tri__memory_format(s->kept, *bytes, world->rank, pieces));
    size_t begin = (size_t)((char *)tri__memory_data(s->kept, 0, &half) - (char *)s->kept);
    TRI_TRY(tri__exec_keep_in(s->engine.exec, s->kept, *bytes, begin, &direct));
    if (!direct)
        tri__say(&s->log, TRI_LOG_WARN, "--replicate-state: the GPU cannot copy into shared memory here, so state goes "
                 "through %zu MiB of pinned memory, and the host copies it from there in each step", half >> 20);
    return TRI_OK;
}

tri_status tri__session_keep_open(tri_session *s) {
    tri_world *world = s->place.world;
    tri_memory_pieces pieces = s->engine.saved;
    size_t bytes = 0;
    TRI_OWNED(tri__free_at) size_t *at = NULL;
    if (!s->settings->replicate_state || !world) return TRI_OK;
    TRI_TRY(TRI_NEW(at, (size_t)(pieces.n_weights + pieces.n_optimizer) + 1, "replicated state"));
    TRI_TRY(open_area(s, &pieces, at, &bytes));
    tri__kept_place(world, s->kept, bytes);
    return world->nodes.n > 1 ? tri__held_peers_open(world, s->kept, bytes, &s->held_peers) : TRI_OK;
}

/* done: whether the step's end is done. */
static tri_status keep_state(const tri_session *s, int done) {
    const tri_step *last = &s->last;
    TRI_OWNED(tri__json_drop) tri_json *state = tri__session_state(s);
    tri_json *kept = tri__json_pack("{s:b, s:f, s:f, s:I, s:I, s:f}", "done", done, "learning_rate",
                                    last->learning_rate, "grad_norm", last->grad_norm, "samples",
                                    (tri_json_int)last->samples, "tokens", (tri_json_int)last->tokens, "flops",
                                    last->flops);
    if (!state || !kept || tri__json_set_new(state, "kept", kept))
        return tri__fail(TRI_RESOURCE, "out of memory for the state of a step");
    return tri__memory_state(s->kept, (int)(s->at.step & 1), state);
}

/* Instructions of the next step that copy, or wait for copies. */
static tri_status run(tri_session *s, int begin, int end) {
    const tri_program *p = s->engine.plan.train.program;
    const tri_feed feed = {.gates.kind = p->gates & -p->gates}; /* they run in all kinds of steps */
    return tri__exec_run(s->engine.exec, s->engine.train, begin, end, (uint32_t)s->at.step + 1, &feed, s->times);
}

/* The copy in this machine's memory is complete, and the one on another machine begins. */
static tri_status copied(tri_session *s) {
    const tri_planned *planned = &s->engine.plan.train;
    int64_t step = s->keeping;
    if (!step) return TRI_OK;
    s->keeping = 0;
    TRI_TRY(run(s, tri__session_first(s), planned->posted));
    TRI_TRY(run(s, planned->waited, planned->update));
    tri__kept_end(s->place.world, step);
    return s->held_peers ? tri__held_peers_begin(s->held_peers, step) : TRI_OK;
}

int tri__session_first(tri_session *s) {
    int first = s->to_post ? 0 : s->engine.plan.train.posted;
    s->to_post = 0;
    return first;
}

static tri_status keep(tri_session *s, int done) {
    tri__kept_begin(s->place.world, s->at.step);
    if (s->lead) TRI_TRY(keep_state(s, done));
    s->keeping = s->at.step, s->to_post = 1;
    return tri__exec_runs_on(s->engine.exec) ? TRI_OK : copied(s);
}

tri_status tri__session_keep(tri_session *s) { return s->kept ? keep(s, 0) : TRI_OK; }

tri_status tri__session_keep_end(tri_session *s) {
    TRI_TRY(copied(s));
    return s->held_peers ? tri__held_peers_finish(s->held_peers) : TRI_OK;
}

tri_status tri__session_keep_first(tri_session *s) {
    tri_world *world = s->place.world;
    int32_t one = 1;
    if (!world) return TRI_OK;
    if (world->remote && world->generation && s->kept && s->at.step) {
        TRI_TRY(keep(s, !s->pending));
        TRI_TRY(tri__session_keep_end(s));
        TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &one, 1, TRI_I32, TRI_SUM)); /* all have kept it */
    }
    tri__world_forget(world);
    return TRI_OK;
}

tri_status tri__session_keep_done(tri_session *s) {
    if (tri__session_is_over(s)) TRI_TRY(tri__session_keep_end(s));
    return s->kept && s->lead ? keep_state(s, 1) : TRI_OK;
}

/* On one machine, a supervisor gave all ranks the memory of an earlier world, whose state is complete. */
static tri_status take_areas(const tri_segment *before, tri_collected *out) {
    *out = (tri_collected){.step = before->base ? tri__kept_step(before) : -1, .n = before->n};
    if (out->step < 0) return TRI_OK;
    TRI_TRY(TRI_NEW(out->areas, before->n, "replicated state"));
    for (int i = 0; i < before->n; i++) {
        tri_memory_area *area = &out->areas[i];
        area->base = tri__kept_area(before, i, &area->bytes);
        if (!area->base) return tri__fail(TRI_INTERNAL, "rank %d kept no state", i);
        area->fd = before->fd, area->at = (uint64_t)((const char *)area->base - before->base);
    }
    return TRI_OK;
}

tri_status tri__session_kept(const tri_session *s, tri_checkpoint **out) {
    tri_world *world = s->place.world;
    TRI_OWNED(tri__collected_free) tri_collected kept = {.step = -1};
    *out = NULL;
    if (!world || !world->generation) return TRI_OK;
    TRI_TRY(world->remote ? tri__collect(world, &kept) : take_areas(&world->before[0], &kept));
    if (kept.step < 0) return TRI_OK;
    tri_json *config = tri__session_recorded(s);
    if (!config) return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    return tri__memory_open(kept.areas, kept.n, (int)(kept.step & 1), kept.step, config, out);
}

void tri__session_take_kept(tri_session *s, const tri_json *state) {
    const tri_json *kept = tri__json_get(state, "kept");
    s->pending = kept && !tri__json_is_true(tri__json_get(kept, "done"));
    s->last.step = s->at.step, s->last.learning_rate = tri__number_in(kept, "learning_rate");
    s->last.grad_norm = tri__number_in(kept, "grad_norm"), s->last.flops = tri__number_in(kept, "flops");
    s->last.samples = tri__whole_in(kept, "samples"), s->last.tokens = tri__whole_in(kept, "tokens");
}
