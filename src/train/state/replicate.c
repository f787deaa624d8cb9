/* replicate.c - the state of each step in shared memory (--replicate-state): what every rank would write to a
 * checkpoint, and the run's position, so that the ranks that are left after a death, or others, go on at the step that
 * was interrupted.
 *
 * A step is committed when all ranks have kept it: until then the state of the step before is whole, after it this one
 * is, and no mixture of both is ever read.
 *
 * A GPU copies while it computes the next step: the copy begins after the update, and is complete before this rank
 * joins the next step's control, and before a validation, a checkpoint or the end, which follow from the step. So is a
 * copy on another machine (held.h). */
#include "comm/world/kept.h"
#include "train/state/held.h"
#include "train/session.h"

#include <stdlib.h>

/* Lets the device copy the pieces into the area by itself, where it can. */
static tri_status open_copies(tri_session *s, size_t bytes) {
    const tri_memory_pieces *p = &s->engine.saved;
    tri_exec *exec = s->engine.exec;
    size_t n = (size_t)(p->n_weights + p->n_optimizer), each;
    int direct = 1;
    if (!tri__exec_can_keep(exec)) return TRI_OK;
    size_t *at = calloc(n + 1, sizeof *at);
    tri_copied *what = calloc(n + 1, sizeof *what);
    tri_status status = at && what ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for copies of a step's state");
    if (status == TRI_OK) {
        tri__memory_places(p, at);
        for (size_t i = 0; i < n; i++) {
            size_t state = i - (size_t)p->n_weights;
            const tri_piece *piece = i < (size_t)p->n_weights ? &p->weights[i] : &p->optimizer[state];
            what[i] = (tri_copied){.from = piece->data, .at = at[i],
                                   .bytes = (size_t)(piece->slice.end - piece->slice.begin) *
                                            tri__dtype_bytes(piece->dtype)};
        }
        tri__memory_data(s->kept, 0, &each);
        status = tri__exec_keep_open(exec, what, (int)n, s->kept, bytes, each, &direct);
    }
    if (status == TRI_OK && !direct)
        tri__say(&s->log, TRI_LOG_WARN,
                 "--replicate-state: the GPU cannot copy into shared memory here, so state goes through %zu MiB of "
                 "pinned memory, and the host copies it from there in each step", each >> 20);
    free(at);
    free(what);
    return status;
}

tri_status tri__session_keep_open(tri_session *s) {
    tri_world *world = s->place.world;
    size_t bytes;
    if (!s->settings->replicate_state || !world) return TRI_OK;
    TRI_TRY(tri__memory_size(world->rank, &s->engine.saved, &bytes));
    TRI_TRY(tri_heap_alloc(world, bytes, &s->kept));
    TRI_TRY(tri__memory_format(s->kept, bytes, world->rank, &s->engine.saved));
    TRI_TRY(open_copies(s, bytes));
    tri__kept_place(world, s->kept, bytes);
    return world->nodes.n > 1 ? tri__held_peers_open(world, s->kept, bytes, &s->held_peers) : TRI_OK;
}

/* done: whether the step's end is done. */
static tri_status keep_state(const tri_session *s, int done) {
    const tri_step *last = &s->last;
    tri_json *state = tri__session_state(s);
    tri_json *kept = tri__json_pack("{s:b, s:f, s:f, s:I, s:I, s:f}", "done", done, "learning_rate",
                                    last->learning_rate, "grad_norm", last->grad_norm, "samples",
                                    (tri_json_int)last->samples, "tokens", (tri_json_int)last->tokens, "flops",
                                    last->flops);
    tri_status status = state && kept && !tri__json_set_new(state, "kept", kept)
                            ? tri__memory_state(s->kept, (int)(s->at.step & 1), state)
                            : tri__fail(TRI_RESOURCE, "out of memory for the state of a step");
    tri__json_decref(state);
    return status;
}

/* The copy in this machine's memory is complete, and the one on another machine begins. */
static tri_status copied(tri_session *s) {
    int64_t step = s->keeping;
    if (!step) return TRI_OK;
    s->keeping = 0;
    TRI_TRY(tri__exec_keep_finish(s->engine.exec));
    tri__kept_end(s->place.world, step);
    return s->held_peers ? tri__held_peers_begin(s->held_peers, step) : TRI_OK;
}

static tri_status keep(tri_session *s, int done) {
    int copy = (int)(s->at.step & 1), beside = tri__exec_can_keep(s->engine.exec);
    size_t bytes;
    if (!beside) TRI_TRY(tri__engine_fetch(&s->engine));
    tri__kept_begin(s->place.world, s->at.step);
    if (s->lead) TRI_TRY(keep_state(s, done));
    s->keeping = s->at.step;
    if (beside) {
        tri__exec_keep_begin(s->engine.exec, tri__memory_data(s->kept, copy, &bytes));
        return TRI_OK;
    }
    tri__memory_copy(s->kept, copy, &s->engine.saved, s->engine.threads);
    return copied(s);
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
    out->areas = calloc((size_t)before->n, sizeof *out->areas);
    if (!out->areas) return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
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
    tri_collected kept;
    *out = NULL;
    if (!world || !world->generation) return TRI_OK;
    tri_status status = world->remote ? tri__collect(world, &kept) : take_areas(&world->before[0], &kept);
    tri_json *config = status == TRI_OK && kept.step >= 0 ? tri__session_recorded(s) : NULL;
    if (config) status = tri__memory_open(kept.areas, kept.n, (int)(kept.step & 1), kept.step, config, out);
    else if (status == TRI_OK && kept.step >= 0) status = tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    tri__collected_free(&kept);
    return status;
}

void tri__session_take_kept(tri_session *s, const tri_json *state) {
    const tri_json *kept = tri__json_get(state, "kept");
    s->pending = kept && !tri__json_is_true(tri__json_get(kept, "done"));
    s->last.step = s->at.step;
    s->last.learning_rate = tri__number_in(kept, "learning_rate");
    s->last.grad_norm = tri__number_in(kept, "grad_norm");
    s->last.samples = tri__whole_in(kept, "samples");
    s->last.tokens = tri__whole_in(kept, "tokens");
    s->last.flops = tri__number_in(kept, "flops");
}
