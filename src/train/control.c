/* control.c - the contents of a step's control (program/op.h, tri_told): stop requests and the step's figures. A single
 * rank needs no exchange, and has no such instruction. */
#include "train/session.h"

/* Ranks wait to join: all ranks leave after a step, to go on together. Not where that would lose steps. */
static int is_joined(const tri_session *s) {
    const tri_world *world = s->place.world;
    int saves = s->settings->save_every || s->settings->save_steps;
    return world && atomic_load_explicit(&world->segment.control->regroup, memory_order_relaxed) && (s->kept || saves);
}

static int is_asked(const tri_session *s) {
    return tri__stop_asked(s->stop, s->place.world, s->longest) || is_joined(s);
}

void tri__session_tell_from_now(tri_session *s) {
    tri_world *world = s->place.world;
    s->told_at = tri__clock();
    if (world) world->wait_seconds = world->idle_seconds = 0;
}

tri_aside tri__session_step_aside(const tri_session *s) {
    const tri_world *world = s->place.world;
    return (tri_aside){tri__clock(), world ? world->wait_seconds : 0, world ? world->idle_seconds : 0};
}

void tri__session_step_back(tri_session *s, const tri_aside *aside) {
    tri_world *world = s->place.world;
    s->told_at += tri__clock() - aside->at;
    if (world) world->wait_seconds = aside->wait, world->idle_seconds = aside->idle;
}

/* Transfers are counted from one control to the next; a control is posted at the beginning of the update, so a step's
 * figures are complete when the step ends, and none are pending at the end of the run. */
void tri__session_tell(tri_session *s) {
    tri_world *world = s->place.world;
    double wait = world ? world->wait_seconds : 0, idle = world ? world->idle_seconds : 0;
    s->told[TRI_TOLD_STOP] = is_asked(s), s->told[TRI_TOLD_FLOPS] = s->last.flops;
    s->span = fmax(tri__clock() - s->told_at, 1e-9);
    s->told[TRI_TOLD_LOADER] = s->waited / s->span;
    s->told[TRI_TOLD_COMM] = (wait - idle) / s->span, s->told[TRI_TOLD_IDLE] = idle / s->span;
    tri__session_tell_from_now(s);
}

/* [TRI_TOLD_COUNT] sums over all ranks. */
static const double *sums_of(const tri_session *s) {
    const tri_instr *instr = s->engine.plan.train.program->instr;
    if (s->control < 0) return s->told;
    return tri__exec_slot(s->engine.exec, s->engine.train, instr[s->control].slot[TRI_ARG(control_post, y)]);
}

void tri__session_hear(tri_session *s) {
    const double *sum = sums_of(s), n = tri__mesh_world(&s->place.mesh);
    s->stopping = sum[TRI_TOLD_STOP] > 0, s->last.flops = sum[TRI_TOLD_FLOPS];
    s->loading = sum[TRI_TOLD_LOADER] / n, s->comm = sum[TRI_TOLD_COMM] / n, s->idle = sum[TRI_TOLD_IDLE] / n;
}

int tri__session_stopping(const tri_session *s) { return s->control < 0 ? is_asked(s) : s->stopping; }

tri_status tri__session_ends(tri_session *s, int *ends) {
    int32_t asked = tri__stop_asked(s->stop, s->place.world, s->longest), any;
    *ends = 1; /* nobody joins a single rank */
    if (!s->place.world) return TRI_OK;
    TRI_TRY(tri_all_reduce(tri_group_world(s->place.world), &asked, &any, 1, TRI_I32, TRI_MAX));
    *ends = any;
    return TRI_OK;
}

/* Exchanges only the stop flag; figures wait for their step. */
tri_status tri__session_ask(tri_session *s, int *stopping) {
    if (s->control >= 0) {
        const double told[TRI_TOLD_COUNT] = {[TRI_TOLD_STOP] = is_asked(s)};
        const tri_feed feed = {.field[TRI_FIELD_control] = told};
        TRI_TRY(tri__exec_control(s->engine.exec, s->engine.train, &feed));
        s->stopping = sums_of(s)[TRI_TOLD_STOP] > 0;
    }
    *stopping = tri__session_stopping(s);
    return TRI_OK;
}
