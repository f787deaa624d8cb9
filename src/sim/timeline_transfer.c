/* timeline_transfer.c - transfers in the event simulation: posts, waits, and who moves the bytes.
 *
 * Beside computing (TRI_WAY_LINK): a transfer begins when all members have posted it and no earlier one holds a
 * member's link in that direction. Where ranks move bytes themselves, a rank inside a wait moves those of the first
 * transfer, in the order of its posts, that all members have posted, to its end, and then looks whether its own has
 * ended: TRI_WAY_SHARED    the members inside waits share the work TRI_WAY_EACH      every member computes its own
 * result TRI_WAY_RECEIVER  the receiver copies TRI_WAY_FAR       nobody's work: bytes move while all members are inside
 * waits */
#include "sim/timeline_parts.h"

static const tri_meeting *meeting_of(const tri_simulation *s, int meeting) { return &s->meetings.at[meeting]; }

/* Which directions of a member's link a transfer uses. */
static int sends(const tri_sim_transfer *t, int place) { return t->kind != TRI_SEND || place == 0; }
static int receives(const tri_sim_transfer *t, int place) { return t->kind != TRI_SEND || place == 1; }

/* When a rank's part of a transfer began and ended; < 0: not yet. */
static double begin_of(const tri_simulation *s, const tri_open_post *post) {
    const tri_sim_transfer *t = &s->transfer[post->meeting];
    return t->way == TRI_WAY_EACH ? post->begin : t->begin;
}
static double end_of(const tri_simulation *s, const tri_open_post *post) {
    const tri_sim_transfer *t = &s->transfer[post->meeting];
    return t->way == TRI_WAY_EACH ? post->end : t->end;
}

/* ---- Moving bytes oneself ---- */

static int is_waiting(const tri_sim_rank *r) {
    int waits = 0;
    for (int k = 0; k < r->lanes; k++) {
        tri_lane_state state = r->lane[k].state;
        if (state == TRI_LANE_DELAYED || state == TRI_LANE_RUNS || state == TRI_LANE_TAILS) return 0;
        waits |= state == TRI_LANE_WAITS;
    }
    return waits;
}

static int waiting_lane(const tri_sim_rank *r) { return r->lane[0].state == TRI_LANE_WAITS ? 0 : 1; }

/* What a rank inside a wait can move: the first of its posts. NULL: nothing. */
static tri_open_post *movable(const tri_simulation *s, int role) {
    for (tri_open_post *p = s->rank[role].open; p; p = p->next) {
        const tri_sim_transfer *t = &s->transfer[p->meeting];
        if (t->missing || end_of(s, p) >= 0) continue;
        if (t->way == TRI_WAY_SHARED || t->way == TRI_WAY_EACH) return p;
        if (t->way == TRI_WAY_RECEIVER && meeting_of(s, p->meeting)->roles[1] == role) return p;
    }
    return NULL;
}

/* A member's work of a result that each computes for itself, measured with all members at it, one a core at a time. */
static double own_work(const tri_simulation *s, const tri_sim_transfer *t, int n) {
    int cores = s->hardware->cores;
    return cores > 0 && cores < n ? t->length * cores / n : t->length;
}

static void begin_help(tri_simulation *s, int role, tri_open_post *post) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_transfer *t = &s->transfer[post->meeting];
    r->helps = post, r->helps_since = s->tasks.now;
    tri__sim_cores_changed(s, role);
    if (t->way == TRI_WAY_SHARED) {
        if (t->begin < 0) tri__tasks_begin(&s->tasks, tri__sim_task(s, post->meeting), t->work, 0);
        if (t->begin < 0) t->begin = s->tasks.now;
        tri__sim_transfer_changed(s, post->meeting);
        return;
    }
    tri__tasks_begin(&s->tasks, TRI_LANES * role + waiting_lane(r), t->work, tri__sim_rate(s, r));
    if (t->way == TRI_WAY_EACH) post->begin = s->tasks.now;
    else t->begin = s->tasks.now;
}

static void end_help(tri_simulation *s, int role) {
    tri_sim_rank *r = &s->rank[role];
    const tri_open_post *own = r->lane[waiting_lane(r)].awaits;
    double begin = begin_of(s, own), until = begin < 0 ? s->tasks.now : fmin(begin, s->tasks.now);
    if (r->helps != own) r->covered += fmax(0, until - r->helps_since);
    r->helps = NULL;
    tri__sim_cores_changed(s, role);
}

/* A member has come into a wait since the last post of a far transfer, which begins with the last of them. */
static void come_in(tri_simulation *s, int role, tri_open_post *post) {
    tri_sim_transfer *t = &s->transfer[post->meeting];
    const tri_meeting *m = meeting_of(s, post->meeting);
    if (t->way != TRI_WAY_FAR || t->missing || t->begin >= 0 || post->begin >= 0) return;
    if (t->kind == TRI_SEND && m->roles[1] != role) return;
    post->begin = s->tasks.now;
    if (++t->inside < (t->kind == TRI_SEND ? 1 : m->n_roles)) return;
    t->begin = s->tasks.now;
    tri__tasks_begin(&s->tasks, tri__sim_task(s, post->meeting), t->length, 1);
    tri__sim_cross(s, post->meeting, 1);
}

static void set_inside(tri_simulation *s, int role, int inside) {
    tri_sim_rank *r = &s->rank[role];
    if (r->inside == inside) return;
    r->inside = inside;
    for (tri_open_post *p = r->open; p && inside; p = p->next) come_in(s, role, p);
}

void tri__sim_help(tri_simulation *s, int role) {
    tri_sim_rank *r = &s->rank[role];
    if (s->hardware->overlap) return;
    set_inside(s, role, is_waiting(r));
    tri_open_post *post = r->inside && !r->helps ? movable(s, role) : NULL;
    if (post) begin_help(s, role, post);
}

void tri__sim_moved(tri_simulation *s, int role) {
    tri_open_post *post = s->rank[role].helps;
    tri_sim_transfer *t = &s->transfer[post->meeting];
    end_help(s, role);
    if (t->way == TRI_WAY_EACH) post->end = s->tasks.now;
    else t->end = s->tasks.now;
    tri__sim_advance(s, role);
    if (t->way == TRI_WAY_RECEIVER) tri__sim_advance(s, meeting_of(s, post->meeting)->roles[0]);
}

/* ---- Links ---- */

static void add_candidate(tri_simulation *s, int meeting) {
    tri_sim_transfer *t = &s->transfer[meeting];
    if (t->is_candidate) return;
    t->is_candidate = 1;
    *TRI_PUSH(s->arena, s->candidate, s->n_candidates, s->cap_candidates) = meeting;
}

static int links_are_free(const tri_simulation *s, int meeting) {
    const tri_meeting *m = meeting_of(s, meeting);
    const tri_sim_transfer *t = &s->transfer[meeting];
    for (int i = 0; i < m->n_roles; i++) {
        const tri_sim_rank *r = &s->rank[m->roles[i]];
        if ((sends(t, i) && r->sending) || (receives(t, i) && r->receiving)) return 0;
    }
    return 1;
}

static void hold_links(tri_simulation *s, int meeting, int held) {
    const tri_meeting *m = meeting_of(s, meeting);
    const tri_sim_transfer *t = &s->transfer[meeting];
    for (int i = 0; i < m->n_roles; i++) {
        tri_sim_rank *r = &s->rank[m->roles[i]];
        if (sends(t, i)) r->sending = held;
        if (receives(t, i)) r->receiving = held;
    }
}

/* Transfers that may have waited for the links of one that has ended. */
static void retry_blocked(tri_simulation *s, int meeting) {
    const tri_meeting *m = meeting_of(s, meeting);
    for (int i = 0; i < m->n_roles; i++)
        for (const tri_open_post *p = s->rank[m->roles[i]].open; p; p = p->next)
            if (s->transfer[p->meeting].way == TRI_WAY_LINK && !s->transfer[p->meeting].missing &&
                s->transfer[p->meeting].begin < 0)
                add_candidate(s, p->meeting);
}

void tri__sim_begin_candidates(tri_simulation *s) {
    while (s->n_candidates) {
        int first = 0;
        for (int i = 1; i < s->n_candidates; i++)
            if (s->candidate[i] < s->candidate[first]) first = i;
        int meeting = s->candidate[first];
        tri_sim_transfer *t = &s->transfer[meeting];
        s->candidate[first] = s->candidate[--s->n_candidates];
        t->is_candidate = 0;
        if (!links_are_free(s, meeting)) continue; /* comes back when a link is */
        t->begin = s->tasks.now;
        hold_links(s, meeting, 1);
        tri__tasks_begin(&s->tasks, tri__sim_task(s, meeting), t->length, 1);
        tri__sim_cross(s, meeting, 1);
    }
}

void tri__sim_transfer_ended(tri_simulation *s, int meeting) {
    const tri_meeting m = *meeting_of(s, meeting); /* a copy: posting may move the array */
    tri_sim_transfer *t = &s->transfer[meeting];
    t->end = s->tasks.now;
    tri__sim_cross(s, meeting, 0);
    if (t->way == TRI_WAY_LINK) {
        hold_links(s, meeting, 0);
        retry_blocked(s, meeting);
    }
    for (int i = 0; i < m.n_roles; i++) {
        tri_sim_rank *r = &s->rank[m.roles[i]];
        if (r->helps && r->helps->meeting == meeting) end_help(s, m.roles[i]);
        tri__sim_advance(s, m.roles[i]);
    }
}

/* ---- Posts and waits ---- */

static void open_transfer(tri_simulation *s, const tri_sim_rank *r, const tri_instr *instr, const tri_meeting *m) {
    int n;
    const int *members = tri__meeting_members(m, &n);
    const tri_program *p = r->out->program;
    double bytes = (double)tri__slot_bytes(&p->slot[tri__transfer_whole(instr)],
                                           tri__costs_counts(&r->costs, p, instr));
    tri_collective_kind kind = instr->op == TRI_OP_recv_post ? TRI_SEND : tri__post_kind(instr->op);
    tri_sim_transfer *t = TRI_PUSH(s->arena, s->transfer, s->n_transfers, s->cap_transfers);
    *t = (tri_sim_transfer){.kind = kind, .begin = -1, .end = -1, .missing = m->n_roles};
    t->way = tri__transfer_way(s->hardware, kind, members, n, bytes);
    if (t->way == TRI_WAY_SHARED && s->helpers) t->way = TRI_WAY_LINK;
    t->length = tri__on_host(instr->op) ? tri__control_seconds(s->hardware, members, n, bytes)
                                        : tri__transfer_seconds(s->hardware, kind, members, n, bytes);
    double share = tri__layer_share(p, instr);
    t->length *= share;
    t->work = t->way == TRI_WAY_SHARED ? share * tri__transfer_work(s->hardware, kind, members, n, bytes)
              : t->way == TRI_WAY_EACH ? own_work(s, t, n)
                                       : t->length;
    tri_dtype dtype = p->slot[tri__transfer_whole(instr)].dtype;
    tri__sim_crossings(s, t, m, share * bytes, (double)tri__dtype_sum_bytes(dtype) / (double)tri__dtype_bytes(dtype));
}

/* All members have posted a transfer. */
static void make_ready(tri_simulation *s, int meeting) {
    const tri_meeting m = *meeting_of(s, meeting);
    if (s->transfer[meeting].way == TRI_WAY_LINK) add_candidate(s, meeting);
    for (int i = 0; i < m.n_roles && !s->hardware->overlap; i++) {
        const tri_sim_rank *r = &s->rank[m.roles[i]];
        if (!r->inside) continue;
        tri_open_post *post = r->open;
        while (post->meeting != meeting) post = post->next;
        come_in(s, m.roles[i], post);
        tri__sim_help(s, m.roles[i]);
    }
}

/* The transfer of a post. Where the other lane has earlier posts to make, they are counted with it. */
static int count_post(tri_simulation *s, int role, int line) {
    tri_sim_rank *r = &s->rank[role];
    const tri_program *p = r->out->program;
    for (; r->counted <= line; r->counted++) {
        const tri_instr *instr = &p->instr[r->counted];
        if (!tri__is_post(instr->op)) continue;
        int index = tri__meetings_post(&s->meetings, role, r->counted);
        if (index == s->n_transfers) open_transfer(s, r, instr, meeting_of(s, index));
        r->meeting[r->counted] = index;
    }
    return r->meeting[line];
}

void tri__sim_post(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    int line = r->lane[number].at, index = count_post(s, role, line);
    const tri_instr *instr = &r->out->program->instr[line];
    tri_open_post *post = tri__arena_alloc(s->arena, sizeof *post);
    *post = (tri_open_post){.ends = tri__transfer_ends(instr), .meeting = index, .line = line, .begin = -1, .end = -1};
    *r->last = post, r->last = &post->next;
    if (--s->transfer[index].missing == 0) make_ready(s, index);
}

static tri_open_post *find_open(const tri_sim_rank *r, tri_ends ends) {
    tri_open_post *post = r->open;
    while (post->ends.y != ends.y || post->ends.x != ends.x) post = post->next; /* the checker proved it exists */
    return post;
}

static void close_post(tri_sim_rank *r, tri_open_post *post) {
    tri_open_post **at = &r->open;
    while (*at != post) at = &(*at)->next;
    *at = post->next;
    if (r->last == &post->next) r->last = at;
}

int tri__sim_wait(tri_simulation *s, int role, int number) {
    tri_sim_rank *r = &s->rank[role];
    tri_sim_lane *lane = &r->lane[number];
    tri_rank_timeline *out = r->out;
    if (lane->state != TRI_LANE_WAITS) {
        lane->awaits = find_open(r, tri__transfer_ends(&out->program->instr[lane->at]));
        r->covered = 0;
    }
    const tri_open_post *post = lane->awaits;
    double begin = begin_of(s, post), end = end_of(s, post), now = s->tasks.now;
    lane->state = TRI_LANE_WAITS;
    if (end < 0 || r->helps) return 0;
    set_inside(s, role, 0);
    out->begin[post->line] = begin, out->end[post->line] = end;
    out->begin[lane->at] = lane->since, out->end[lane->at] = now;
    double idle = fmax(0, fmax(0, fmin(begin, now) - lane->since) - r->covered);
    if (r->late) r->late[lane->at] = idle;
    out->moving += end - begin;
    out->idle += idle;
    out->exposed += now - lane->since - idle;
    close_post(r, lane->awaits);
    lane->awaits = NULL;
    return 1;
}
