/* meet.c - counts the posts of every group and pair of ranks. A group's members are listed once, by the first post. */
#include "program/meet.h"

/* The transfers of one group, or from one rank to another, in order. */
typedef struct tri_channel {
    int span;            /* index of tri_roles.span */
    int n, *members;     /* ranks */
    int n_roles, *roles; /* roles of the members, each once */
    int *n_members;      /* [n_roles] members of each role */
    int *posted;         /* [n_roles] by each */
    int *meeting;        /* indices */
    int n_meetings, cap_meetings;
    struct tri_channel *next; /* of the same sender */
} tri_channel;

void tri__meetings_open(tri_meetings *m, tri_arena *arena, const tri_classes *ranks, const tri_roles *roles) {
    *m = (tri_meetings){.arena = arena, .ranks = ranks, .roles = roles};
    m->program = tri__arena_alloc(arena, (size_t)roles->n * sizeof *m->program);
    m->channel = tri__arena_alloc(arena, (size_t)roles->n * (size_t)roles->n_spans * sizeof *m->channel);
    m->pairs = tri__arena_alloc(arena, (size_t)roles->n * sizeof *m->pairs);
    for (int role = 0; role < roles->n; role++)
        m->program[role] = tri__class_of(ranks, roles->rank[role], NULL)->program;
}

static tri_channel *new_channel(tri_meetings *m, int span, int room) {
    tri_channel *c = tri__arena_alloc(m->arena, sizeof *c);
    c->span = span;
    c->members = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    c->roles = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    c->n_members = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    c->posted = tri__arena_alloc(m->arena, (size_t)room * sizeof(int));
    return c;
}

static int place_of(const tri_channel *c, int role) {
    int place = 0;
    while (c->roles[place] != role) place++;
    return place;
}

static tri_channel *group_of(tri_meetings *m, int role, int span) {
    tri_channel **at = &m->channel[span * m->roles->n];
    if (at[role]) return at[role];
    const tri_attr *attr = &m->roles->span[span].attr;
    tri_channel *c = new_channel(m, span, tri__transfer_size(&m->ranks->mesh, attr));
    c->n = tri__transfer_members(&m->ranks->mesh, m->roles->rank[role], attr, c->members);
    for (int i = 0; i < c->n; i++) {
        int other = m->roles->of[c->members[i]];
        if (at[other] != c) c->roles[c->n_roles++] = other;
        at[other] = c; /* its group has the same roles, so it had no other channel */
        c->n_members[place_of(c, other)]++;
    }
    return c;
}

static tri_channel *pair_of(tri_meetings *m, int from, int to, int span) {
    int sender = m->roles->of[from], receiver = m->roles->of[to];
    for (tri_channel *c = m->pairs[sender]; c; c = c->next)
        if (c->span == span && c->roles[1] == receiver) return c;
    tri_channel *c = new_channel(m, span, 2);
    c->n = c->n_roles = 2;
    c->members[0] = from, c->members[1] = to, c->roles[0] = sender, c->roles[1] = receiver;
    c->n_members[0] = c->n_members[1] = 1;
    c->next = m->pairs[sender];
    return m->pairs[sender] = c;
}

int tri__meetings_post(tri_meetings *m, int role, int line) {
    const tri_instr *instr = &m->program[role]->instr[line];
    int span = tri__roles_span(m->roles, &instr->attr);
    tri_channel *c = group_of(m, role, span);
    if (instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post) {
        /* the same for all ranks of the role */
        int place = tri__transfer_place(&m->ranks->mesh, m->roles->rank[role], &instr->attr);
        int own = c->members[place], other = c->members[instr->attr.root];
        c = instr->op == TRI_OP_send_post ? pair_of(m, own, other, span) : pair_of(m, other, own, span);
    }
    int k = c->posted[place_of(c, role)]++;
    if (k == c->n_meetings) {
        *TRI_PUSH(m->arena, c->meeting, c->n_meetings, c->cap_meetings) = m->n;
        *TRI_PUSH(m->arena, m->at, m->n, m->cap) = (tri_meeting){.role = role, .line = line, .n_roles = c->n_roles,
                                                                 .left = c->n_roles, .roles = c->roles,
                                                                 .n_members = c->n_members, .channel = c, .number = k};
    }
    m->at[c->meeting[k]].left--;
    return c->meeting[k];
}

int tri__meetings_absent(const tri_meetings *m, int index) {
    const tri_meeting *meeting = &m->at[index];
    for (int place = 0; place < meeting->n_roles; place++)
        if (meeting->channel->posted[place] <= meeting->number) return meeting->roles[place];
    return -1;
}

const int *tri__meeting_members(const tri_meeting *meeting, int *n) {
    *n = meeting->channel->n;
    return meeting->channel->members;
}
