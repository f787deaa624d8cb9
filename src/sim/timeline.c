/* timeline.c - the event simulation.
 *
 * Every rank runs until it blocks in a wait. Then, of all transfers that can begin, the earliest gets its times, and
 * the ranks that wait for it run on. Whatever they post comes after its end, so transfers get their times in the order
 * in which they begin. The lanes of a rank run concurrently, each until it blocks: in a wait for a transfer, in a wait
 * for an instruction of the other lane, or before a post while the other lane has an earlier one to make, since members
 * count their posts in program order.
 *
 * One rank of each role runs for all of them: they have the same costs, and their groups have the same links and roles,
 * so they do the same at the same time (program/roles.h). */
#include "sim/timeline.h"
#include "program/meet.h"
#include "sim/device_time.h"

#include <math.h>

/* A transfer that was posted and not yet waited for. */
typedef struct open_post {
    tri_ends ends;
    int meeting, line;
    struct open_post *next;
} open_post;

typedef struct runner {
    tri_rank_timeline *out;
    const double *seconds;    /* [n_instrs] */
    double *ready;            /* [n_slots] when an input from the host has arrived */
    struct lane {
        int at;               /* next instruction */
        double now;           /* time at which it is free */
        int waits_for;        /* meeting; -1 */
    } lane[TRI_LANES];
    int lanes;
    double *done;             /* [n_instrs] when its lane continued; with several lanes */
    int *begun;               /* [n_instrs] of a wait: its post; with several lanes; else -1 */
    tri_device_time device;    /* the device; with several lanes */
    int next_post;            /* instruction */
    double copy_free[2];      /* when its copy queues, to the device and back, are free */
    double send_free, recv_free; /* when its link is free, in each direction */
    open_post *open;
} runner;

typedef struct event {
    tri_collective_kind kind;
    double posted;            /* by the last member */
    double length;            /* seconds */
    double begin, end;        /* end < 0: not known yet */
} event;

typedef struct simulation {
    tri_arena *arena;
    const tri_hardware *hardware;
    const tri_costs *costs;
    const tri_counts *counts; /* NULL: each program's largest */
    tri_meetings meetings;
    event *event;             /* [meetings.n] */
    int n_events, cap_events;
    runner *run;              /* [roles] */
    struct due {
        double begin;         /* at least */
        int meeting;
    } *heap;                  /* transfers posted by all members; the earliest to begin on top */
    int n_heap, cap_heap;
} simulation;

static int earlier(const struct due *a, const struct due *b) {
    return a->begin != b->begin ? a->begin < b->begin : a->meeting < b->meeting;
}

static void heap_push(simulation *s, struct due due) {
    TRI_PUSH(s->arena, s->heap, s->n_heap, s->cap_heap);
    int i = s->n_heap - 1;
    for (; i > 0 && earlier(&due, &s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = due;
}

static struct due heap_pop(simulation *s) {
    struct due top = s->heap[0], last = s->heap[--s->n_heap];
    int i = 0, child;
    while ((child = 2 * i + 1) < s->n_heap) {
        if (child + 1 < s->n_heap && earlier(&s->heap[child + 1], &s->heap[child])) child++;
        if (!earlier(&s->heap[child], &last)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    if (s->n_heap) s->heap[i] = last;
    return top;
}

/* Which directions of a member's link a transfer uses. */
static int sends(tri_collective_kind kind, int place) { return kind != TRI_SEND || place == 0; }
static int receives(tri_collective_kind kind, int place) { return kind != TRI_SEND || place == 1; }

/* When a rank that moves data itself is free to do so. */
static double free_at(const runner *r) { return fmax(r->lane[0].now, r->lane[1].now); }

/* When a transfer can begin, given the current state. All ranks are in waits. */
static double begin_of(const simulation *s, int meeting) {
    const tri_meeting *m = &s->meetings.at[meeting];
    const event *e = &s->event[meeting];
    double at = e->posted;
    for (int i = 0; i < m->n_roles; i++) {
        const runner *r = &s->run[m->roles[i]];
        if (sends(e->kind, i)) at = fmax(at, r->send_free);
        if (receives(e->kind, i)) at = fmax(at, r->recv_free);
        if (!s->hardware->overlap && receives(e->kind, i)) at = fmax(at, free_at(r));
    }
    return at;
}

static int next_post(const tri_program *p, int at) {
    while (at < p->n_instrs && !tri__is_post(p->instr[at].op)) at++;
    return at;
}

static void post(simulation *s, runner *r, int role, struct lane *lane, const tri_instr *instr) {
    int n, index = tri__meetings_post(&s->meetings, role, lane->at);
    const tri_meeting *m = &s->meetings.at[index];
    if (index == s->n_events) {
        const tri_program *p = r->out->program;
        double bytes = (double)tri__slot_bytes(&p->slot[tri__transfer_whole(instr)], s->counts ? s->counts : &p->max);
        tri_collective_kind kind = instr->op == TRI_OP_recv_post ? TRI_SEND : tri__post_kind(instr->op);
        const int *members = tri__meeting_members(m, &n);
        *TRI_PUSH(s->arena, s->event, s->n_events, s->cap_events) =
            (event){.kind = kind, .end = -1, .length = tri__transfer_seconds(s->hardware, kind, members, n, bytes)};
    }
    event *e = &s->event[index];
    e->posted = fmax(e->posted, lane->now);
    open_post *open = tri__arena_alloc(s->arena, sizeof *open);
    *open = (open_post){tri__transfer_ends(instr), index, lane->at, r->open};
    r->open = open;
    r->next_post = next_post(r->out->program, lane->at + 1);
    if (m->left == 0) heap_push(s, (struct due){e->posted, index});
}

/* Completes a wait; or leaves the lane blocked and returns 0. */
static int wait(simulation *s, runner *r, struct lane *lane, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    open_post **at = &r->open;
    while ((*at)->ends.y != ends.y || (*at)->ends.x != ends.x) at = &(*at)->next; /* the checker proved it exists */
    const event *e = &s->event[(*at)->meeting];
    lane->waits_for = e->end < 0 ? (*at)->meeting : -1;
    if (e->end < 0) return 0;
    tri_rank_timeline *out = r->out;
    out->begin[(*at)->line] = e->begin, out->end[(*at)->line] = e->end;
    out->begin[lane->at] = lane->now, out->end[lane->at] = fmax(lane->now, e->end);
    out->moving += e->end - e->begin;
    out->exposed += fmax(0, e->end - fmax(lane->now, e->begin));
    out->idle += fmax(0, e->begin - lane->now);
    lane->now = out->end[lane->at];
    *at = (*at)->next;
    return 1;
}

/* The end of a kernel that, running alone, takes `seconds` from *begin on. */
static double end_of(simulation *s, runner *r, const tri_instr *instr, double seconds, double *begin) {
    if (r->lanes == 1 || tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) return *begin + seconds;
    double work = tri__instr_work(r->out->program, instr, seconds, s->costs);
    double until = tri__device_time_take(&r->device, s->arena, instr->lane, work, begin);
    return fmax(until, *begin + seconds);
}

static void compute(simulation *s, runner *r, struct lane *lane, const tri_instr *instr) {
    tri_rank_timeline *out = r->out;
    const tri_program *p = out->program;
    int copies = tri__op_queue(instr->op) == TRI_QUEUE_COPY && instr->op != TRI_OP_copy_wait;
    int back = p->offload >> p->slot[instr->slot[0]].mem & 1;
    double begin = copies ? fmax(lane->now, r->copy_free[back]) : lane->now;
    for (int k = 0; k < TRI_MAX_ARGS && !copies; k++)
        if (instr->slot[k] >= 0) begin = fmax(begin, r->ready[instr->slot[k]]);
    if (instr->op == TRI_OP_copy_wait) out->exposed += begin - lane->now;
    double end = end_of(s, r, instr, r->seconds[lane->at], &begin);
    out->begin[lane->at] = begin, out->end[lane->at] = end;
    if (copies) r->copy_free[back] = r->ready[instr->slot[0]] = end;
    else out->busy += end - begin;
    if (!copies || !s->hardware->overlap) lane->now = end;
}

/* The lane's next instruction from `at` on. */
static int next_of(const tri_program *p, int lane, int at) {
    while (at < p->n_instrs && p->instr[at].lane != lane) at++;
    return at;
}

/* Whether the other lane of a rank is as far as a lane's next instruction needs. */
static int other_is_ahead(const runner *r, int number) {
    int at = r->lane[number].at, other = r->lane[!number].at;
    const tri_instr *instr = &r->out->program->instr[at];
    if (tri__is_post(instr->op) && at != r->next_post) return 0;
    int begun = r->begun ? r->begun[at] : -1;
    return instr->await < other && (begun < other || r->out->program->instr[begun].lane == number);
}

/* Runs one instruction of a lane; 0: it is blocked or at its end. */
static int step(simulation *s, int role, int number) {
    runner *r = &s->run[role];
    const tri_program *p = r->out->program;
    struct lane *lane = &r->lane[number];
    if (lane->at == p->n_instrs || !other_is_ahead(r, number)) return 0;
    const tri_instr *instr = &p->instr[lane->at];
    if (instr->await >= 0) lane->now = fmax(lane->now, r->done[instr->await]);
    if (tri__is_post(instr->op)) post(s, r, role, lane, instr);
    else if (instr->op != TRI_OP_wait) compute(s, r, lane, instr);
    else if (!wait(s, r, lane, instr)) return 0;
    if (r->done) r->done[lane->at] = lane->now;
    lane->at = next_of(p, number, lane->at + 1);
    return 1;
}

static void run_until_blocked(simulation *s, int role) {
    runner *r = &s->run[role];
    int first;
    do first = r->lane[1].now < r->lane[0].now; /* the lane that is behind in time */
    while (step(s, role, first) || step(s, role, !first));
    if (r->lane[0].at == r->out->program->n_instrs && r->lane[1].at == r->out->program->n_instrs)
        r->out->finish = free_at(r);
}

/* Sets a transfer's begin and end. */
static void carry_out(simulation *s, int meeting) {
    const tri_meeting *m = &s->meetings.at[meeting];
    event *e = &s->event[meeting];
    e->begin = begin_of(s, meeting);
    e->end = e->begin + e->length;
    for (int i = 0; i < m->n_roles; i++) {
        runner *r = &s->run[m->roles[i]];
        if (sends(e->kind, i)) r->send_free = e->end;
        if (receives(e->kind, i)) r->recv_free = e->end;
    }
}

static tri_status simulate(simulation *s) {
    const tri_roles *roles = s->meetings.roles;
    for (int role = 0; role < roles->n; role++) run_until_blocked(s, role);
    while (s->n_heap) {
        struct due top = heap_pop(s);
        double begin = begin_of(s, top.meeting);
        if (begin > top.begin) { /* an earlier transfer took the link */
            heap_push(s, (struct due){begin, top.meeting});
            continue;
        }
        carry_out(s, top.meeting);
        const tri_meeting m = s->meetings.at[top.meeting]; /* a copy: posting may move the array */
        for (int i = 0; i < m.n_roles; i++)
            for (int lane = 0; lane < TRI_LANES; lane++)
                if (s->run[m.roles[i]].lane[lane].waits_for == top.meeting) run_until_blocked(s, m.roles[i]);
    }
    for (int role = 0; role < roles->n; role++)
        for (int k = 0; k < TRI_LANES; k++) {
            const struct lane *lane = &s->run[role].lane[k];
            if (lane->waits_for >= 0)
                return tri__fail(TRI_INTERNAL, "deadlock: rank %d waits at instruction %d for rank %d",
                                 roles->rank[role], lane->at,
                                 roles->rank[tri__meetings_absent(&s->meetings, lane->waits_for)]);
        }
    return TRI_OK;
}

static void open_runner(simulation *s, runner *r, tri_rank_timeline *out) {
    const tri_program *p = out->program;
    *r = (runner){.out = out, .lanes = tri__program_lanes(p), .next_post = next_post(p, 0)};
    r->seconds = tri__program_seconds(s->arena, p, s->costs);
    r->ready = tri__arena_alloc(s->arena, (size_t)p->n_slots * sizeof *r->ready);
    if (r->lanes > 1) {
        r->done = tri__arena_alloc(s->arena, (size_t)p->n_instrs * sizeof *r->done);
        r->begun = tri__arena_alloc(s->arena, (size_t)p->n_instrs * sizeof *r->begun);
        for (int i = 0; i < p->n_instrs; i++)
            r->begun[i] = tri__ends(p->instr[i].op) ? tri__transfer_post_of(p, i) : -1;
    }
    for (int k = 0; k < TRI_LANES; k++)
        r->lane[k] = (struct lane){.at = k < r->lanes ? next_of(p, k, 0) : p->n_instrs, .waits_for = -1};
}

static int next_kernel(const tri_program *p, int lane, int at) {
    do at = next_of(p, lane, at + 1);
    while (at < p->n_instrs && tri__op_queue(p->instr[at].op) != TRI_QUEUE_COMPUTE);
    return at;
}

/* Seconds in which some lane computes. */
static double busy_in_lanes(const tri_rank_timeline *line) {
    const tri_program *p = line->program;
    int at[TRI_LANES] = {next_kernel(p, 0, -1), next_kernel(p, 1, -1)};
    double busy = 0, until = 0;
    while (at[0] < p->n_instrs || at[1] < p->n_instrs) {
        int lane = at[0] == p->n_instrs || (at[1] < p->n_instrs && line->begin[at[1]] < line->begin[at[0]]);
        busy += fmax(0, line->end[at[lane]] - fmax(until, line->begin[at[lane]]));
        until = fmax(until, line->end[at[lane]]);
        at[lane] = next_kernel(p, lane, at[lane]);
    }
    return busy;
}

tri_status tri__timeline(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out) {
    simulation s = {.arena = arena, .hardware = costs->hardware, .costs = costs, .counts = costs->counts};
    *out = (tri_timeline){.world = ranks->world};
    tri__roles_find(&out->roles, arena, ranks, costs->hardware->ranks_per_node);
    tri__meetings_open(&s.meetings, arena, ranks, &out->roles);
    int n = out->roles.n;
    s.run = tri__arena_alloc(arena, (size_t)n * sizeof *s.run);
    out->role = tri__arena_alloc(arena, (size_t)n * sizeof *out->role);
    for (int role = 0; role < n; role++) {
        const tri_program *p = s.meetings.program[role];
        tri_rank_timeline *line = &out->role[role];
        line->program = p;
        line->begin = tri__arena_alloc(arena, (size_t)p->n_instrs * sizeof *line->begin);
        line->end = tri__arena_alloc(arena, (size_t)p->n_instrs * sizeof *line->end);
        open_runner(&s, &s.run[role], line);
    }
    TRI_TRY(simulate(&s));
    for (int role = 0; role < n; role++)
        if (s.run[role].lanes > 1) out->role[role].busy = busy_in_lanes(&out->role[role]);
    for (int role = 0; role < n; role++) out->seconds = fmax(out->seconds, out->role[role].finish);
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
