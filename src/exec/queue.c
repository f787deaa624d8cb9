/* queue.c - runs on an asynchronous device: instructions are queued, and a later call waits for them. */
#include "comm/world/world.h"
#include "exec/exec_parts.h"

/* Begins a run on an asynchronous device, with all inputs staged. */
void tri__exec_start(const tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed) {
    const tri_program *p = exec->program[program];
    for (int i = begin; i < end; i++) {
        size_t bytes;
        if (p->instr[i].op != TRI_OP_input || !tri__exec_opens(exec, program, i, feed)) continue;
        const char *from = tri__exec_input_of(p, &p->instr[i], tri__exec_feed_of(&p->instr[i], feed), &bytes);
        if (bytes) exec->device->async->stage_input(exec->context, from, bytes);
    }
    exec->device->async->begin_run(exec->context, step);
}

enum { PROGRESS_EVERY = 32 /* instructions */, MOST_AHEAD = 16 /* marks */ };

/* Polls until the device is idle or has reached mark `until` and, with `compared`, until all its transfers have been
 * compared with the peers'. When a rank failed, this rank's transfers may never complete and are aborted. */
static tri_status await_mark(tri_exec *exec, uint64_t until, int compared) {
    tri_world *world = exec->world;
    tri_idle idle = {.awake = 1};
    uint64_t passed, last = 0;
    int left, before = 0;
    tri__world_waits(world, 1);
    tri_status status;
    while ((status = tri__groups_check(&exec->groups, &left)) == TRI_OK) {
        int there = exec->device->async->is_idle(exec->context, &passed) || passed >= until;
        if (there && !(compared && left)) break;
        if (passed != last || left != before) tri__world_beat(world); /* progress: reset the progress timeout */
        last = passed, before = left;
        tri__idle(world->segment.control, world->local, &idle);
    }
    tri__world_waits(world, 0);
    if (status != TRI_OK) tri__groups_free(&exec->groups, 1);
    return status;
}

/* The host stays within reach of the device: a driver that has no room for more work, behind a transfer that never
 * ends, blocks the host, which then sees no failure. */
static tri_status mark_progress(tri_exec *exec) {
    exec->device->async->mark_progress(exec->context);
    exec->marks++;
    return exec->marks > MOST_AHEAD ? await_mark(exec, exec->marks - MOST_AHEAD, 0) : TRI_OK;
}

/* With transfers the host counts as waiting while it queues: the driver may block it (a kernel's first use waits for
 * all that is queued), and if all ranks are blocked there behind a transfer that never ends, only the supervisor sees
 * it. */
static tri_status queue_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed) {
    if (!tri__exec_opens(exec, program, i, feed)) return TRI_OK;
    if (!exec->groups.n) return tri__exec_run_one(exec, program, i, step, feed);
    if (i % PROGRESS_EVERY == 0) TRI_TRY(mark_progress(exec));
    tri__world_waits(exec->world, 1);
    tri_status status = tri__exec_run_one(exec, program, i, step, feed);
    tri__world_waits(exec->world, 0);
    return status;
}

/* Every lane waits for the work queued before the run. */
static void open_lanes(const tri_exec *exec) {
    const tri_queues *queues = exec->device->queues;
    queues->signal(exec->context, 0);
    for (int lane = 1; lane < TRI_LANES; lane++) queues->use(exec->context, lane), queues->await(exec->context, 0);
}

/* Lane 0, and so the work queued after the run, waits for all lanes. */
static void close_lanes(const tri_exec *exec) {
    const tri_queues *queues = exec->device->queues;
    for (int lane = 1; lane < TRI_LANES; lane++) {
        queues->use(exec->context, lane);
        queues->signal(exec->context, 0);
        queues->use(exec->context, 0);
        queues->await(exec->context, 0);
    }
}

/* Queues an instruction in its lane, after the one that it waits for; open_lanes ordered those before `begin`. One that
 * is left out waits and signals at its place all the same: others rely on that for the order of what runs. */
static tri_status queue_in_lane(tri_exec *exec, int program, int i, int begin, uint32_t step, const tri_feed *feed) {
    const tri_queues *queues = exec->device->queues;
    const tri_instr *instr = &exec->program[program]->instr[i];
    const tri_bound *bound = exec->bound[program];
    queues->use(exec->context, instr->lane);
    if (instr->await >= begin) queues->await(exec->context, bound[instr->await].signal);
    tri_status status = queue_one(exec, program, i, step, feed);
    if (bound[i].signal) queues->signal(exec->context, bound[i].signal);
    return status;
}

static tri_status queue_all(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed) {
    tri_status status = TRI_OK;
    if (!exec->in_lanes[program]) {
        for (int i = begin; i < end; i++) TRI_TRY(queue_one(exec, program, i, step, feed));
        return TRI_OK;
    }
    open_lanes(exec);
    for (int i = begin; i < end && status == TRI_OK; i++)
        status = queue_in_lane(exec, program, i, begin, step, feed);
    close_lanes(exec);
    return status;
}

/* The device's marks record when kernels ran. All kernels are in one lane, so that each has its own time. */
static tri_status queue_marked(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                               tri_time *times) {
    const tri_timing *timing = exec->device->timing;
    for (int i = begin; i < end; i++) {
        timing->mark(exec->context, i);
        TRI_TRY(queue_one(exec, program, i, step, feed));
    }
    timing->mark(exec->context, end);
    exec->times = times, exec->n_times = end, exec->timed = program, exec->times_of = feed->gates;
    return TRI_OK;
}

void tri__exec_hold(tri_exec *exec, double seconds) {
    const tri_timing *timing = exec->device->timing;
    if (timing && timing->hold) timing->hold(exec->context, seconds);
}

static tri_status queue_captured(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed) {
    const tri_graphs *graphs = exec->device->graphs;
    tri_capture capture = tri__replay_ask(&exec->replay, exec->program, program, begin, end, feed, graphs,
                                          exec->context);
    if (capture == TRI_REPLAY) return TRI_OK;
    tri_status status = queue_all(exec, program, begin, end, step, feed);
    if (capture == TRI_CAPTURE && !graphs->end(exec->context) && status == TRI_OK)
        status = queue_all(exec, program, begin, end, step, feed);
    return status;
}

/* Only queues kernels. */
tri_status tri__exec_queue(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                            tri_time *times) {
    int transfers = exec->groups.n > 0; /* the host must track them: no capture */
    tri__exec_start(exec, program, begin, end, step, feed);
    return times       ? queue_marked(exec, program, begin, end, step, feed, times)
           : transfers ? queue_all(exec, program, begin, end, step, feed)
                       : queue_captured(exec, program, begin, end, step, feed);
}

const char *tri__exec_kind(const tri_exec *exec) {
    const tri_tuner *tuner = exec->device->tuner;
    return tuner ? tuner->kind(exec->context) : NULL;
}

tri_status tri__exec_tune(tri_exec *exec, tri_wisdom *wisdom) {
    for (int n = 0; n < exec->n; n++) {
        const tri_program *p = exec->program[n];
        for (int i = 0; i < p->n_instrs; i++) {
            tri_call call = exec->bound[n][i].call;
            if (exec->world) tri__world_beat(exec->world);
            for (int k = 0; k < TRI_MAX_ARGS; k++)
                if (p->instr[i].slot[k] >= 0) call.t[k].rows = tri__slot_rows(&p->slot[p->instr[i].slot[k]], &p->max);
            if (exec->bound[n][i].run) exec->device->tuner->tune(exec->context, &call, exec->bound[n][i].run, wisdom);
        }
    }
    return exec->device->async->finish(exec->context);
}

void tri__exec_follow(tri_exec *exec, const tri_wisdom *wisdom) { exec->device->tuner->follow(exec->context, wisdom); }

double tri__exec_worked(tri_exec *exec) {
    return exec->device->timing ? exec->device->timing->busy_seconds(exec->context) : 0;
}

int tri__exec_gauge(tri_exec *exec, tri_gauge *out) {
    return exec->device->gauges && exec->device->gauges->read(exec->context, out);
}

int64_t tri__exec_used(const tri_exec *exec) {
    return exec->device->memory_used ? exec->device->memory_used(exec->context) : 0;
}

int tri__exec_runs_on(const tri_exec *exec) { return exec->device->async != NULL; }

int tri__exec_can_time(const tri_exec *exec) { return !exec->device->async || exec->device->timing; }

tri_status tri__exec_await(tri_exec *exec, int compared) {
    return exec->world && exec->groups.n ? await_mark(exec, UINT64_MAX, compared) : TRI_OK;
}

/* Kernels by their marks; transfers have separate marks. */
static void take_times(tri_exec *exec) {
    const tri_timing *timing = exec->device->timing;
    const tri_program *p = exec->program[exec->timed];
    timing->times(exec->context, exec->n_times, exec->times);
    for (int i = 0; i < exec->n_times && exec->groups.n; i++)
        if (tri__is_post(p->instr[i].op) && !tri__on_host(p->instr[i].op) &&
            tri__is_open(&p->instr[i], &exec->times_of))
            timing->transfer_time(exec->context, exec->bound[exec->timed][i].transfer->number, &exec->times[i]);
}

tri_status tri__exec_finish(tri_exec *exec) {
    const tri_async *async = exec->device->async;
    if (!async) return TRI_OK;
    TRI_TRY(tri__exec_await(exec, 1));
    tri_status status = tri__exec_has_copy(exec, TRI_MEM_RESULT) ? tri__exec_pull(exec, TRI_MEM_RESULT)
                                                       : async->finish(exec->context);
    if (status == TRI_OK && exec->times) take_times(exec);
    exec->times = NULL;
    return status;
}
