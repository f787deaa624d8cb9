/* meet.c - counts the posts of every group and pair of ranks. A group's members are listed once, whoever posts first. */
#include "program/meet.h"

/* The transfers of one group, or from one rank to another, in order. */
typedef struct tri_channel {
    int span;                    /* index of tri_meetings.span */
    int n, *members;             /* ranks */
    int *posted;                 /* [n] by each member */
    int *meeting;                /* indices */
    int n_meetings, cap_meetings;
    struct tri_channel *next;    /* of the same sender */
} tri_channel;

typedef struct tri_span {
    tri_attr attr;               /* axes, within, across; the rest is 0 */
    tri_channel **channel;       /* [world] of each rank's group; NULL: not yet listed */
    int *place;                  /* [world] in that group */
} tri_span;

void tri__meetings_open(tri_meetings *m, tri_arena *arena, const tri_program *const *programs, int world) {
    *m = (tri_meetings){.arena = arena, .program = programs, .world = world};
    m->pairs = tri__arena_alloc(arena, (size_t)world * sizeof(tri_channel *));
}

static int span_of(tri_meetings *m, const tri_attr *attr) {
    for (int i = 0; i < m->n_spans; i++) {
        const tri_attr *a = &m->span[i].attr;
        if (a->axes == attr->axes && a->within == attr->within && a->across == attr->across) return i;
    }
    tri_span *span = TRI_PUSH(m->arena, m->span, m->n_spans, m->cap_spans);
    span->attr = (tri_attr){.axes = attr->axes, .within = attr->within, .across = attr->across};
    span->channel = tri__arena_alloc(m->arena, (size_t)m->world * sizeof(tri_channel *));
    span->place = tri__arena_alloc(m->arena, (size_t)m->world * sizeof(int));
    return m->n_spans - 1;
}

static tri_channel *new_channel(tri_meetings *m, int span, int room) {
    tri_channel *c = tri__arena_alloc(m->arena, sizeof *c);
    c->span = span;
    c->members = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    c->posted = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    return c;
}

static tri_channel *group_of(tri_meetings *m, int rank, int index) {
    tri_span *span = &m->span[index];
    if (span->channel[rank]) return span->channel[rank];
    const tri_mesh *mesh = &m->program[rank]->mesh;
    tri_channel *c = new_channel(m, index, tri__mesh_group_size(mesh, span->attr.axes));
    c->n = tri__transfer_members(mesh, rank, &span->attr, c->members);
    for (int i = 0; i < c->n; i++) span->channel[c->members[i]] = c, span->place[c->members[i]] = i;
    return c;
}

static tri_channel *pair_of(tri_meetings *m, int from, int to, int span) {
    for (tri_channel *c = m->pairs[from]; c; c = c->next)
        if (c->span == span && c->members[1] == to) return c;
    tri_channel *c = new_channel(m, span, 2);
    c->n = 2, c->members[0] = from, c->members[1] = to;
    c->next = m->pairs[from];
    return m->pairs[from] = c;
}

int tri__meetings_post(tri_meetings *m, int rank, int line) {
    const tri_instr *instr = &m->program[rank]->instr[line];
    int span = span_of(m, &instr->attr);
    tri_channel *c = group_of(m, rank, span);
    int place = m->span[span].place[rank], other = c->members[instr->attr.root];
    if (instr->op == TRI_OP_send_post) c = pair_of(m, rank, other, span), place = 0;
    if (instr->op == TRI_OP_recv_post) c = pair_of(m, other, rank, span), place = 1;
    int k = c->posted[place]++;
    if (k == c->n_meetings) {
        *TRI_PUSH(m->arena, c->meeting, c->n_meetings, c->cap_meetings) = m->n;
        *TRI_PUSH(m->arena, m->at, m->n, m->cap) =
            (tri_meeting){.rank = rank, .line = line, .n = c->n, .left = c->n, .members = c->members, .channel = c, .number = k};
    }
    m->at[c->meeting[k]].left--;
    return c->meeting[k];
}

int tri__meetings_absent(const tri_meetings *m, int index) {
    const tri_meeting *meeting = &m->at[index];
    for (int place = 0; place < meeting->n; place++)
        if (meeting->channel->posted[place] <= meeting->number) return meeting->members[place];
    return -1;
}
