/* timeline.c - the event simulation: lanes that compute, and the loop.
 *
 * Time moves from the end of one task to that of the next: a kernel, a transfer, bytes that a rank moves itself, a
 * delay. Then the ranks that this lets go on do so until each is busy or blocked, and tasks that share a device, a
 * node's cores or its links get their new rates. The lanes of a rank run concurrently. A lane is blocked in a wait for
 * a transfer, or before an instruction that follows one of the other lane.
 *
 * One rank of each role runs for all of them: they have the same costs, and their groups and nodes have the same links
 * and roles, so they do the same at the same time (program/roles.h). */
#include "sim/timeline_parts.h"

/* The lane's next instruction from `at` on. */
static int next_of(const tri_program *p, int lane, int at) {
    while (at < p->n_instrs && p->instr[at].lane != lane) at++;
    return at;
}

/* Whether the other lane of a rank is as far as a lane's next instruction needs. */
static int other_is_ahead(const tri_sim_rank *r, int number) {
    int at = r->lane[number].at, other = r->lane[!number].at;
    const tri_instr *instr = &r->out->program->instr[at];
    int begun = r->begun ? r->begun[at] : -1;
    return instr->await < other && (begun < other || r->out->program->instr[begun].lane == number);
}

static int is_copy(const tri_instr *instr) {
    return tri__op_queue(instr->op) == TRI_QUEUE_COPY && instr->op != TRI_OP_copy_wait;
}

/* The copy queue of a copy: to the device, back, or of replicated state. */
static int direction_of(const tri_program *p, const tri_instr *instr) {
    return tri__is_keeping(p, instr) ? 2 : p->offload >> p->slot[instr->slot[0]].mem & 1;
}

/* When the host has queued a lane's next instruction, and its inputs from the host or its copy queue are there. */
static double possible_at(const tri_sim_rank *r, int at) {
    const tri_program *p = r->out->program;
    const tri_instr *instr = &p->instr[at];
    double begin = r->queue * (at + 1);
    if (is_copy(instr)) return fmax(begin, r->copy_free[direction_of(p, instr)]);
    if (tri__op_queue(instr->op) == TRI_QUEUE_COMM) return begin;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (instr->slot[k] >= 0) begin = fmax(begin, r->ready[instr->slot[k]]);
    return begin;
}

/* Copies beside computing: the lane goes on at once. */
static void queue_copy(tri_simulation *s, tri_sim_rank *r, int at, double begin) {
    const tri_instr *instr = &r->out->program->instr[at];
    double end = fmax(begin, s->tasks.now) + r->seconds[at];
    r->out->begin[at] = end - r->seconds[at], r->out->end[at] = end;
    r->copy_free[direction_of(r->out->program, instr)] = r->ready[instr->slot[0]] = end;
}

void tri__sim_lane_rates(tri_simulation *s, int role) {
    const tri_sim_rank *r = &s->rank[role];
    double rate = tri__sim_rate(s, r), both = s->hardware->lane_share > 0 ? s->hardware->lane_share : 1;
    int kernels = 0;
    for (int k = 0; k < r->lanes; k++) kernels += r->lane[k].state == TRI_LANE_RUNS;
    for (int k = 0; k < r->lanes; k++) {
        int moves = r->lane[k].state == TRI_LANE_WAITS && r->helps; /* one that waits has no other task */
        if (r->lane[k].state == TRI_LANE_RUNS)
            tri__tasks_rate(&s->tasks, TRI_LANES * role + k, kernels > 1 ? rate * both / kernels : rate);
        if (moves) tri__tasks_rate(&s->tasks, TRI_LANES * role + k, rate);
    }
}

static void delay(tri_simulation *s, int role, int number, double until, tri_lane_state state) {
    s->rank[role].lane[number].state = state;
    tri__tasks_begin(&s->tasks, TRI_LANES * role + number, until - s->tasks.now, 1);
}

static void begin_kernel(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_lane *lane = &r->lane[number];
    const tri_instr *instr = &r->out->program->instr[lane->at];
    double seconds = r->seconds[lane->at], work = seconds;
    if (r->lanes > 1 && tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE)
        work = tri__instr_work(r->out->program, instr, seconds, &r->costs);
    r->out->begin[lane->at] = s->tasks.now;
    lane->until = s->tasks.now + seconds;
    lane->state = TRI_LANE_RUNS;
    tri__tasks_begin(&s->tasks, TRI_LANES * role + number, work, tri__sim_rate(s, r));
    if (r->lanes > 1) tri__sim_lane_rates(s, role);
    tri__sim_cores_changed(s, role);
}

/* An instruction is done: the lane goes on to the next. */
static void finish(tri_simulation *s, tri_sim_rank *r, int number) {
    tri_sim_lane *lane = &r->lane[number];
    lane->at = next_of(r->out->program, number, lane->at + 1);
    lane->state = TRI_LANE_HELD;
    lane->since = s->tasks.now;
    lane->released = 0;
}

static void end_kernel(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_lane *lane = &r->lane[number];
    tri_rank_timeline *out = r->out;
    int copies = is_copy(&out->program->instr[lane->at]);
    out->end[lane->at] = s->tasks.now;
    if (!copies) out->busy += out->end[lane->at] - out->begin[lane->at];
    if (copies) r->ready[out->program->instr[lane->at].slot[0]] = s->tasks.now;
    finish(s, r, number);
}

/* Runs or begins one instruction of a lane; 0: it is busy, blocked or at its end. */
static int step(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_lane *lane = &r->lane[number];
    const tri_program *p = r->out->program;
    if (lane->state != TRI_LANE_HELD && lane->state != TRI_LANE_WAITS) return 0;
    if (lane->at == p->n_instrs) lane->state = TRI_LANE_ENDED;
    if (lane->at == p->n_instrs || !other_is_ahead(r, number)) return 0;
    const tri_instr *instr = &p->instr[lane->at];
    double possible = lane->released ? 0 : possible_at(r, lane->at);
    int beside = is_copy(instr) && s->hardware->overlap;
    if (possible > s->tasks.now && !beside) {
        delay(s, role, number, possible, TRI_LANE_DELAYED);
        return 0;
    }
    if (instr->op == TRI_OP_wait) {
        if (!tri__sim_wait(s, role, number)) return 0;
    } else if (tri__is_post(instr->op)) {
        tri__sim_post(s, role, number);
    } else if (beside) {
        queue_copy(s, r, lane->at, possible);
    } else if (instr->op == TRI_OP_copy_wait) {
        r->out->begin[lane->at] = lane->since, r->out->end[lane->at] = s->tasks.now;
        r->out->exposed += s->tasks.now - lane->since;
    } else {
        begin_kernel(s, role, number);
        return 0;
    }
    finish(s, r, number);
    return 1;
}

void tri__sim_advance(tri_simulation *s, int role) {
    tri_sim_rank *r = &s->rank[role];
    while (step(s, role, 0) || (r->lanes > 1 && step(s, role, 1))) continue;
    int ended = r->lane[0].state == TRI_LANE_ENDED && (r->lanes == 1 || r->lane[1].state == TRI_LANE_ENDED);
    if (ended) r->out->finish = s->tasks.now;
    tri__sim_help(s, role);
}

/* A lane's task is over. */
static void lane_ended(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_lane *lane = &r->lane[number];
    if (lane->state == TRI_LANE_WAITS) {
        tri__sim_moved(s, role);
        return;
    }
    if (lane->state == TRI_LANE_DELAYED) {
        lane->state = TRI_LANE_HELD;
        lane->released = 1;
        if (r->out->program->instr[lane->at].op == TRI_OP_wait) lane->since = s->tasks.now; /* queued only now */
    } else if (lane->state == TRI_LANE_RUNS && r->lanes > 1 && lane->until > s->tasks.now) {
        delay(s, role, number, lane->until, TRI_LANE_TAILS);
    } else {
        end_kernel(s, role, number);
    }
    if (r->lanes > 1) tri__sim_lane_rates(s, role);
    tri__sim_cores_changed(s, role);
    tri__sim_advance(s, role);
}

static tri_status find_deadlock(const tri_simulation *s) {
    const tri_roles *roles = s->meetings.roles;
    for (int role = 0; role < roles->n; role++)
        for (int k = 0; k < s->rank[role].lanes; k++) {
            const tri_sim_lane *lane = &s->rank[role].lane[k];
            if (lane->state != TRI_LANE_WAITS) continue;
            int absent = tri__meetings_absent(&s->meetings, lane->awaits->meeting); /* -1: its other lane */
            return tri__fail(TRI_INTERNAL, "deadlock: rank %d waits at instruction %d for rank %d", roles->rank[role],
                             lane->at, roles->rank[absent < 0 ? role : absent]);
        }
    return TRI_OK;
}

static tri_status simulate(tri_simulation *s) {
    int lanes = TRI_LANES * s->meetings.roles->n, id;
    for (int role = 0; role < s->meetings.roles->n; role++) tri__sim_advance(s, role);
    do {
        tri__sim_begin_candidates(s);
        tri__sim_share(s);
        id = tri__tasks_next(&s->tasks);
        if (id >= lanes) tri__sim_transfer_ended(s, id - lanes);
        else if (id >= 0) lane_ended(s, id / TRI_LANES, id % TRI_LANES);
    } while (id >= 0);
    return find_deadlock(s);
}

/* ---- Opening ---- */

/* The row counts of a role's replica. */
static tri_costs costs_of(const tri_costs *costs, const tri_mesh *mesh, int rank, const tri_program *p) {
    tri_costs own = *costs;
    if (costs->n_counts <= p->n_mb) return own;
    own.counts += tri__mesh_reader(mesh, rank) * p->n_mb;
    own.n_counts = p->n_mb;
    return own;
}

/* Whether a captured run of the program can be replayed (exec/replay.h): the host then queues it at once. */
static int is_replayed(const tri_program *p) {
    for (int i = 0; i < p->n_instrs; i++)
        if (tri__begins(p->instr[i].op) && !tri__is_keeping(p, &p->instr[i])) return 0;
    return 1;
}

static void open_rank(tri_simulation *s, const tri_costs *costs, int role, tri_rank_timeline *out) {
    tri_sim_rank *r = &s->rank[role];
    const tri_program *p = s->meetings.program[role];
    size_t n = (size_t)p->n_instrs;
    out->program = p;
    out->begin = tri__arena_alloc(s->arena, n * sizeof *out->begin);
    out->end = tri__arena_alloc(s->arena, n * sizeof *out->end);
    *r = (tri_sim_rank){.out = out, .lanes = tri__program_lanes(p), .last = &r->open, .node = -1};
    r->costs = costs_of(costs, &s->meetings.ranks->mesh, s->meetings.roles->rank[role], p);
    r->seconds = tri__program_seconds(s->arena, p, &r->costs);
    r->ready = tri__arena_alloc(s->arena, (size_t)p->n_slots * sizeof *r->ready);
    r->queue = is_replayed(p) ? 0 : s->hardware->queue;
    for (int k = 0; k < TRI_LANES; k++) r->lane[k].at = k < r->lanes ? next_of(p, k, 0) : p->n_instrs;
    r->meeting = tri__arena_alloc(s->arena, n * sizeof *r->meeting);
    if (r->lanes == 1) return;
    r->begun = tri__arena_alloc(s->arena, n * sizeof *r->begun);
    r->late = tri__arena_alloc(s->arena, n * sizeof *r->late);
    for (int i = 0; i < p->n_instrs; i++) r->begun[i] = tri__ends(p->instr[i].op) ? tri__transfer_post_of(p, i) : -1;
}

/* ---- Results ---- */

/* What spans of a lane are counted: kernels; waits too, from when their data moves; waits, all of them. */
typedef enum span_of { COMPUTES, OR_MOVES, OR_WAITS } span_of;

/* The next instruction of a lane after `at` that takes the lane's time, and when. */
static int next_span(const tri_sim_rank *r, int lane, int at, span_of of, double *begin) {
    const tri_program *p = r->out->program;
    while ((at = next_of(p, lane, at + 1)) < p->n_instrs) {
        const tri_instr *instr = &p->instr[at];
        int waits = instr->op == TRI_OP_wait || instr->op == TRI_OP_copy_wait;
        if (waits ? of == COMPUTES : tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) continue;
        *begin = r->out->begin[at] + (of == OR_MOVES && waits ? r->late[at] : 0);
        return at;
    }
    *begin = INFINITY;
    return at;
}

/* Seconds in which some lane is in such a span: what both lanes do at once counts once. */
static double in_lanes(const tri_sim_rank *r, span_of of) {
    int at[TRI_LANES];
    double begin[TRI_LANES], sum = 0, until = 0;
    for (int k = 0; k < TRI_LANES; k++) at[k] = next_span(r, k, -1, of, &begin[k]);
    for (int lane; (lane = begin[1] < begin[0]), begin[lane] < INFINITY;) {
        double end = r->out->end[at[lane]];
        sum += fmax(0, end - fmax(until, begin[lane]));
        until = fmax(until, end);
        at[lane] = next_span(r, lane, at[lane], of, &begin[lane]);
    }
    return sum;
}

/* A rank waits while none of its lanes computes, for bytes while the data of some wait moves. */
static void share_lanes(tri_sim_rank *r) {
    double moves = in_lanes(r, OR_MOVES);
    r->out->busy = in_lanes(r, COMPUTES);
    r->out->exposed = moves - r->out->busy;
    r->out->idle = in_lanes(r, OR_WAITS) - moves;
}

tri_status tri__timeline_one(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out) {
    const tri_hardware *h = costs->hardware;
    int here = tri__hardware_here(h, ranks->world), threads = tri__hardware_threads(h, ranks->world, costs->threads);
    tri_simulation s = {.arena = arena, .hardware = h, .tasks.arena = arena, .threads = threads > 0 ? threads : 1};
    s.helpers = h->cores / here > s.threads;
    s.shares_cores = h->cores > 0 && here * s.threads > h->cores;
    /* By formulas, devices with a card each ask for no more than theirs, one transfer at a time. */
    s.shares_links = (h->node_bytes > 0 || h->n_links || !h->overlap) && ranks->world > h->ranks_per_node;
    *out = (tri_timeline){.world = ranks->world};
    tri_role_facts facts = {.per_node = h->ranks_per_node, .per_island = h->islands.ranks,
                            .whole_nodes = s.shares_cores || s.shares_links};
    if (costs->n_counts > 1 && costs->n_counts > ranks->at[0].program->n_mb) {
        facts.replica = costs->counts;
        facts.bytes = (size_t)ranks->at[0].program->n_mb * sizeof *costs->counts;
    }
    tri__roles_find(&out->roles, arena, ranks, &facts);
    tri__meetings_open(&s.meetings, arena, ranks, &out->roles);
    int n = out->roles.n;
    s.rank = tri__arena_alloc(arena, (size_t)n * sizeof *s.rank);
    out->role = tri__arena_alloc(arena, (size_t)n * sizeof *out->role);
    for (int role = 0; role < n; role++) open_rank(&s, costs, role, &out->role[role]);
    tri__sim_nodes_open(&s);
    TRI_TRY(simulate(&s));
    for (int role = 0; role < n; role++) {
        if (s.rank[role].lanes > 1) share_lanes(&s.rank[role]);
        out->seconds = fmax(out->seconds, out->role[role].finish);
    }
    return TRI_OK;
}

const tri_rank_timeline *tri__timeline_of(const tri_timeline *timeline, int rank) {
    return &timeline->role[timeline->roles.of[rank]];
}

double tri__timeline_idle(const tri_timeline *timeline) {
    double busy = 0;
    for (int rank = 0; rank < timeline->world; rank++) busy += tri__timeline_of(timeline, rank)->busy;
    return timeline->seconds > 0 ? 1 - busy / (timeline->world * timeline->seconds) : 0;
}
