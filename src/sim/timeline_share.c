/* timeline_share.c - what the ranks of a node share in the event simulation: its cores, and its links to other nodes.
 *
 * Ranks that compute or move bytes have the cores in equal shares, one core a thread at most; ranks in waits with
 * nothing to do give theirs away. Transfers between nodes that together ask for more than a node's links carry are all
 * slowed down by the same factor. */
#include "sim/timeline_parts.h"

/* ---- Nodes ---- */

/* The node of a role, by the lowest role among its ranks: roles tell nodes apart (program/roles.h). *same: its ranks of
 * that role. */
static int node_of(const tri_simulation *s, int role, int *same) {
    const tri_roles *roles = s->meetings.roles;
    int per_node = s->hardware->ranks_per_node, world = s->meetings.ranks->world, lowest = role;
    int first = roles->rank[role] / per_node * per_node;
    *same = 0;
    for (int rank = first; rank < first + per_node && rank < world; rank++) {
        if (roles->of[rank] < lowest) lowest = roles->of[rank];
        *same += roles->of[rank] == role;
    }
    return lowest;
}

void tri__sim_nodes_open(tri_simulation *s) {
    const tri_roles *roles = s->meetings.roles;
    int *known = tri__arena_alloc(s->arena, (size_t)roles->n * sizeof *known); /* 1 + node, by its lowest role */
    int *cap = tri__arena_alloc(s->arena, (size_t)roles->n * sizeof *cap);
    if (!s->shares_cores && !s->shares_links) return;
    for (int role = 0; role < roles->n; role++) {
        int lowest = node_of(s, role, &s->rank[role].on_node);
        if (!known[lowest]) {
            *TRI_PUSH(s->arena, s->node, s->n_nodes, s->cap_nodes) = (tri_sim_node){.rate = 1};
            known[lowest] = s->n_nodes;
        }
        int index = known[lowest] - 1;
        tri_sim_node *node = &s->node[index];
        *TRI_PUSH(s->arena, node->role, node->n_roles, cap[index]) = role;
        s->rank[role].node = index;
    }
}

static void mark_node(tri_simulation *s, int index) {
    tri_sim_node *node = &s->node[index];
    if (node->is_dirty) return;
    node->is_dirty = 1;
    *TRI_PUSH(s->arena, s->changed, s->n_changed, s->cap_changed) = index;
}

void tri__sim_cores_changed(tri_simulation *s, int role) {
    if (s->shares_cores) mark_node(s, s->rank[role].node);
}

void tri__sim_transfer_changed(tri_simulation *s, int meeting) {
    tri_sim_transfer *t = &s->transfer[meeting];
    if (t->is_dirty) return;
    t->is_dirty = 1;
    *TRI_PUSH(s->arena, s->dirty, s->n_dirty, s->cap_dirty) = meeting;
}

/* ---- Cores ---- */

/* Threads of one rank that want a core. */
static int threads_of(const tri_simulation *s, const tri_sim_rank *r) {
    int n = r->helps != NULL;
    for (int k = 0; k < r->lanes; k++) {
        const tri_sim_lane *lane = &r->lane[k];
        if (lane->state != TRI_LANE_RUNS) continue;
        n += tri__op_queue(r->out->program->instr[lane->at].op) == TRI_QUEUE_COPY ? 1 : s->threads;
    }
    return n;
}

static void share_cores(tri_simulation *s, tri_sim_node *node) {
    double wanted = 0, before = node->rate;
    for (int i = 0; i < node->n_roles; i++) {
        const tri_sim_rank *r = &s->rank[node->role[i]];
        wanted += (double)r->on_node * threads_of(s, r);
    }
    node->rate = fmin(1, s->hardware->cores / fmax(1, wanted));
    for (int i = 0; i < node->n_roles && node->rate != before; i++) {
        const tri_sim_rank *r = &s->rank[node->role[i]];
        tri__sim_lane_rates(s, node->role[i]);
        if (r->helps && s->transfer[r->helps->meeting].way == TRI_WAY_SHARED)
            tri__sim_transfer_changed(s, r->helps->meeting);
    }
}

/* ---- Links between nodes ---- */

/* How many groups that the meeting stands for have members on the node of members[first .. first + here). */
static double groups_on_node(const tri_simulation *s, const int *members, int first, int here) {
    const tri_roles *roles = s->meetings.roles;
    double ranks = 0;
    for (int i = first; i < first + here; i++) { /* ranks of these roles, each role once */
        int seen = 0;
        for (int k = first; k < i; k++) seen |= roles->of[members[k]] == roles->of[members[i]];
        if (!seen) ranks += s->rank[roles->of[members[i]]].on_node;
    }
    return ranks / here;
}

static void add_crossing(tri_simulation *s, tri_sim_transfer *t, int *cap, tri_crossing crossing) {
    for (int i = 0; i < t->n_crossings; i++) { /* nodes that are alike are one */
        tri_crossing *at = &t->crossing[i];
        if (at->node != crossing.node || at->out != crossing.out) continue;
        at->bytes = fmax(at->bytes, crossing.bytes);
        return;
    }
    *TRI_PUSH(s->arena, t->crossing, t->n_crossings, *cap) = crossing;
}

void tri__sim_crossings(tri_simulation *s, tri_sim_transfer *t, const tri_meeting *m, double bytes, double wide) {
    int n, cap = 0, per_node = s->hardware->ranks_per_node;
    const int *members = tri__meeting_members(m, &n);
    tri_cards cards;
    if (!s->shares_links || !(t->length > 0)) return;
    tri__cards_open(&cards, s->hardware, t->kind, members, n, bytes, wide);
    if (cards.spread.nodes == 1) return;
    for (int first = 0, here, place = 0; first < n; first += here, place++) {
        double crossing[2];
        for (here = 1; first + here < n && members[first + here] / per_node == members[first] / per_node;) here++;
        tri__cards_of(&cards, place, crossing);
        int node = s->rank[s->meetings.roles->of[members[first]]].node;
        double groups = groups_on_node(s, members, first, here);
        for (int out = 0; out < 2; out++)
            if (crossing[out] > 0)
                add_crossing(s, t, &cap, (tri_crossing){node, out, crossing[out] / t->length * groups});
    }
}

static void drop(tri_sim_node *node, int meeting) {
    for (int i = 0; i < node->n_transfers; i++)
        if (node->transfer[i] == meeting) node->transfer[i--] = node->transfer[--node->n_transfers];
}

void tri__sim_cross(tri_simulation *s, int meeting, int runs) {
    tri_sim_transfer *t = &s->transfer[meeting];
    if (t->runs == runs) return;
    t->runs = runs;
    for (int i = 0; i < t->n_crossings; i++) {
        const tri_crossing *c = &t->crossing[i];
        tri_sim_node *node = &s->node[c->node];
        drop(node, meeting);
        if (runs) *TRI_PUSH(s->arena, node->transfer, node->n_transfers, node->cap_transfers) = meeting;
        mark_node(s, c->node);
    }
}

/* A node's loads anew, so that rounding does not add up. */
static void share_links(tri_simulation *s, tri_sim_node *node, int index) {
    node->load[0] = node->load[1] = 0;
    for (int k = 0; k < node->n_transfers; k++) {
        const tri_sim_transfer *t = &s->transfer[node->transfer[k]];
        for (int i = 0; i < t->n_crossings; i++)
            if (t->crossing[i].node == index) node->load[t->crossing[i].out] += t->crossing[i].bytes;
        tri__sim_transfer_changed(s, node->transfer[k]);
    }
}

/* ---- Rates ---- */

static double rate_of(const tri_simulation *s, int meeting) {
    const tri_sim_transfer *t = &s->transfer[meeting];
    const tri_meeting *m = &s->meetings.at[meeting];
    double rate = 1;
    if (t->way == TRI_WAY_SHARED) {
        rate = 0;
        for (int i = 0; i < m->n_roles; i++) {
            const tri_sim_rank *r = &s->rank[m->roles[i]];
            if (r->helps && r->helps->meeting == meeting) rate += m->n_members[i] * tri__sim_rate(s, r);
        }
        return rate;
    }
    for (int i = 0; i < t->n_crossings; i++)
        rate = fmin(rate, tri__node_bytes(s->hardware) / s->node[t->crossing[i].node].load[t->crossing[i].out]);
    return rate;
}

void tri__sim_share(tri_simulation *s) {
    for (int i = 0; i < s->n_changed; i++) {
        tri_sim_node *node = &s->node[s->changed[i]];
        node->is_dirty = 0;
        if (s->shares_cores) share_cores(s, node);
        if (s->shares_links) share_links(s, node, s->changed[i]);
    }
    s->n_changed = 0;
    for (int i = 0; i < s->n_dirty; i++) {
        tri_sim_transfer *t = &s->transfer[s->dirty[i]];
        t->is_dirty = 0;
        if (t->begin < 0 || t->end >= 0) continue;
        tri__tasks_rate(&s->tasks, tri__sim_task(s, s->dirty[i]), rate_of(s, s->dirty[i]));
    }
    s->n_dirty = 0;
}
