/* handover.c - what stages of different ranks hand to each other.
 *
 * A receive is posted one action before the one that needs it, or earlier where a later message of the same sender is
 * needed first: both ranks of a pair post in the sender's order. A send is waited for once messages that the sender has
 * received imply that it has arrived. Such a wait never blocks, so ranks only wait for what their schedule needs, which
 * has no cycle. */
#include "plan/pass.h"
#include "plan/pipeline/handover.h"

/* ---- Edges ---- */

typedef struct finder {
    tri_arena *arena;
    const tri_stages *stages;
    tri_edge *edge;
    int n, cap;
} finder;

/* A slot's route from the stage that writes it to the one that reads it. In a chain it goes from stage to stage,
 * skipping ranks that already have it. */
static void add_way(finder *f, tri_edge way, int to) {
    const int *rank = f->stages->pipeline.rank;
    int step = f->stages->branches ? to - way.from : way.back ? -1 : 1, begin = way.from;
    for (int from = begin; from != to; from += step) {
        int had = 0;
        for (int s = begin; s != from + step; s += step) had |= rank[s] == rank[from + step];
        for (int i = 0; i < f->n; i++)
            had |= f->edge[i].slot == way.slot && f->edge[i].from == from && f->edge[i].to == from + step;
        if (had) continue;
        *TRI_PUSH(f->arena, f->edge, f->n, f->cap) = (tri_edge){.slot = way.slot, .from = from, .to = from + step,
                                                                .back = way.back,
                                                                .after = from == begin ? way.after : -1};
    }
}

static int in_order(const void *a, const void *b) {
    const tri_edge *x = a, *y = b;
    if (x->after != y->after) return x->after < y->after ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return x->from - y->from;
}

void tri__edges_find(tri_arena *arena, const tri_stages *stages, const tri_program *program, const int *stage_of,
                     int loss, tri_handovers *out) {
    finder f = {.arena = arena, .stages = stages};
    size_t n = (size_t)program->n_slots;
    tri_edge *made = tri__arena_alloc(arena, n * sizeof *made); /* of each slot: where its route begins */
    for (size_t s = 0; s < n; s++) made[s] = (tri_edge){.slot = (int)s, .from = -1};
    for (int pass = 0; pass < 2; pass++) /* first writers, then readers */
        for (int i = 0; i < program->n_instrs; i++) {
            const tri_instr *instr = &program->instr[i];
            for (int k = 0; k < TRI_MAX_ARGS && stage_of[i] >= 0; k++) {
                int slot = instr->slot[k] < 0 ? -1 : tri__slot_root(program, instr->slot[k]);
                if (slot < 0 || program->slot[slot].mem != TRI_MEM_ACT) continue;
                tri_edge *way = &made[slot];
                if (pass == 0 && tri__writes(instr, k)) {
                    TRI_ASSERT(way->from < 0 || way->from == stage_of[i]);
                    way->back = way->from < 0 ? i > loss : way->back;
                    way->from = stage_of[i], way->after = i;
                }
                if (pass == 1 && tri__reads(instr, k) && way->from >= 0 && way->from != stage_of[i])
                    add_way(&f, *way, stage_of[i]);
            }
        }
    if (f.n) qsort(f.edge, (size_t)f.n, sizeof *f.edge, in_order);
    out->edge = f.edge, out->n_edges = f.n;
}

/* ---- Messages ---- */

typedef struct sorter {
    tri_arena *arena;
    const tri_pipeline *pipeline;
    const tri_actions *order;  /* [n_ranks] */
    const tri_edge *edge;
    int n_edges;
    int *index; /* [n_stages * n_mb * 2] index of the rank's action: forward or backward of a stage for a microbatch */
    tri_message_plan *message;        /* of all senders; those of one sender in sending order */
    int n, cap;
    int *next, **needs;        /* [n] the next message that the same action needs; [n_ranks][actions] the first; -1 */
    /* vector clocks [n_ranks][actions * n_ranks]: actions of each rank whose messages have all arrived when an action's
     * have */
    int **clock;
} sorter;

static int *index_of(const sorter *s, int stage, int mb, int back) {
    return &s->index[(stage * s->pipeline->n_mb + mb) * 2 + back];
}

static void list_messages(sorter *s) {
    const tri_pipeline *p = s->pipeline;
    for (int rank = 0; rank < p->n_ranks; rank++)
        for (int i = 0; i < s->order[rank].n; i++) {
            const tri_action *a = &s->order[rank].at[i];
            if (a->act != TRI_ACT_W) *index_of(s, a->stage, a->mb, a->act != TRI_ACT_F) = i;
        }
    for (int rank = 0; rank < p->n_ranks; rank++)
        for (int i = 0; i < s->order[rank].n; i++) {
            const tri_action *a = &s->order[rank].at[i];
            for (int h = 0; h < s->n_edges && a->act != TRI_ACT_W; h++) {
                const tri_edge *edge = &s->edge[h];
                if (edge->from != a->stage || edge->back != (a->act != TRI_ACT_F)) continue;
                *TRI_PUSH(s->arena, s->message, s->n, s->cap) =
                    (tri_message_plan){.edge = h, .mb = a->mb, .from = rank, .to = p->rank[edge->to], .made = i,
                                 .used = *index_of(s, edge->to, a->mb, edge->back), .known = -1};
            }
        }
}

static void list_needs(sorter *s) {
    s->next = tri__arena_alloc(s->arena, (size_t)s->n * sizeof *s->next);
    s->needs = tri__arena_alloc(s->arena, (size_t)s->pipeline->n_ranks * sizeof *s->needs);
    for (int rank = 0; rank < s->pipeline->n_ranks; rank++)
        s->needs[rank] = tri__none_yet(s->arena, s->order[rank].n);
    for (int i = 0; i < s->n; i++) {
        int *first = &s->needs[s->message[i].to][s->message[i].used];
        s->next[i] = *first;
        *first = i;
    }
}

/* Sets the clock of a rank's action `at` from the messages it needs; 0: some are of actions not `done` yet. */
static int tick(sorter *s, int rank, int at, const int *done) {
    int n = s->pipeline->n_ranks, *row = &s->clock[rank][at * n];
    for (int i = s->needs[rank][at]; i >= 0; i = s->next[i])
        if (done[s->message[i].from] <= s->message[i].made) return 0;
    if (at) memcpy(row, row - n, (size_t)n * sizeof *row);
    for (int i = s->needs[rank][at]; i >= 0; i = s->next[i]) {
        const tri_message_plan *message = &s->message[i];
        const int *theirs = &s->clock[message->from][message->made * n];
        for (int k = 0; k < n; k++)
            if (theirs[k] > row[k]) row[k] = theirs[k];
    }
    row[rank] = at + 1;
    return 1;
}

/* Orders that deadlock have no clocks, so no program could be written for the checker to refuse: a bug in a schedule is
 * reported here. This proves nothing about programs, whose waits and transfers the checker proves (check_ranks.c); but
 * the two cannot disagree: an action needs here what its program waits for. */
static tri_status run_clocks(sorter *s) {
    int n = s->pipeline->n_ranks, left = 0, moved = 1, *done = tri__arena_alloc(s->arena, (size_t)n * sizeof *done);
    s->clock = tri__arena_alloc(s->arena, (size_t)n * sizeof *s->clock);
    for (int rank = 0; rank < n; rank++) {
        s->clock[rank] = tri__arena_alloc(s->arena, (size_t)s->order[rank].n * (size_t)n * sizeof **s->clock);
        left += s->order[rank].n;
    }
    while (moved) {
        moved = 0;
        for (int rank = 0; rank < n; rank++)
            for (; done[rank] < s->order[rank].n && tick(s, rank, done[rank], done); done[rank]++) moved = 1, left--;
    }
    return left ? tri__fail(TRI_INTERNAL, "deadlock: a cycle of waits in the orders of the schedule's %d ranks", n)
                : TRI_OK;
}

static int by_post(const void *a, const void *b) {
    const tri_message_plan *x = a, *y = b;
    if (x->post != y->post) return x->post - y->post;
    if (x->from != y->from) return x->from - y->from;
    return x->made != y->made ? x->made - y->made : x->edge - y->edge;
}

/* The messages of one rank, with when each side posts and waits. */
static void pick(const sorter *s, int place, tri_handovers *all) {
    int n = s->pipeline->n_ranks;
    /* of each sender: the first action that needs a later message */
    int *before = tri__arena_alloc(s->arena, (size_t)n * sizeof *before);
    all->out = tri__arena_alloc(s->arena, (size_t)s->n * sizeof *all->out);
    all->in = tri__arena_alloc(s->arena, (size_t)s->n * sizeof *all->in);
    all->n_out = all->n_in = 0;
    for (int rank = 0; rank < n; rank++) before[rank] = s->order[place].n;
    for (int i = s->n - 1; i >= 0; i--) {
        tri_message_plan message = s->message[i];
        if (message.to != place) continue;
        if (message.used < before[message.from]) before[message.from] = message.used;
        message.post = before[message.from] ? before[message.from] - 1 : 0;
        all->in[all->n_in++] = message;
    }
    for (int i = 0; i < s->n; i++) {
        tri_message_plan message = s->message[i];
        if (message.from != place) continue;
        for (int at = message.made + 1; at < s->order[place].n && message.known < 0; at++)
            if (s->clock[place][at * n + message.to] > message.used) message.known = at;
        all->out[all->n_out++] = message;
    }
    if (all->n_in) qsort(all->in, (size_t)all->n_in, sizeof *all->in, by_post);
}

tri_status tri__messages_make(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders, int place,
                              tri_handovers *all) {
    sorter s = {.arena = arena, .pipeline = pipeline, .order = orders, .edge = all->edge, .n_edges = all->n_edges};
    s.index = tri__arena_alloc(arena, (size_t)pipeline->n_stages * (size_t)pipeline->n_mb * 2 * sizeof *s.index);
    list_messages(&s);
    list_needs(&s);
    TRI_TRY(run_clocks(&s));
    pick(&s, place, all);
    return TRI_OK;
}
