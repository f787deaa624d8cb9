/* check_ranks.c - proves that the programs of all ranks fit together, by running their transfers dry: a transfer has happened when all its
 * members posted it, a wait blocks until then, and nothing is buffered. What members post is compared; ranks that never get past a wait
 * are named. Linear in the instructions. */
#include "program/check.h"
#include "program/transfer.h"

#include <stdio.h>
#include <string.h>

/* One transfer, as its members post it one after the other. */
typedef struct meeting {
    int rank, line;      /* who posted it first */
    int left;            /* members that have not */
    int asleep;          /* the last rank that waits for it, and so on by runner.sleeper; -1 */
} meeting;

/* The transfers of one group, in order; those between two ranks have a channel of their own. */
typedef struct channel {
    int span;            /* index of dry.span */
    int to;              /* receiving rank of a pair; -1: the whole group */
    int n;               /* members */
    int *posted;         /* [n] by each place; of a pair: by sender and receiver */
    int *meeting;        /* indices */
    int n_meetings, cap_meetings;
    struct channel *next; /* of the same first rank */
} channel;

/* A transfer of one rank that was posted and not yet waited for. */
typedef struct open_post {
    tri_ends ends;
    int meeting;
    struct open_post *next;
} open_post;

typedef struct runner {
    int at;              /* next instruction */
    int sleeper;         /* the next rank that sleeps for the same meeting; -1 */
    int waits_for;       /* meeting; -1 */
    open_post *open;
} runner;

typedef struct dry {
    const tri_program *const *program;
    int n;
    tri_arena arena;
    tri_attr *span;      /* distinct groups: axes, within, across; the rest is 0 */
    int n_spans, cap_spans;
    channel **first;     /* [n] channels by the group's first rank, those of pairs by the sender */
    runner *run;         /* [n] */
    meeting *meeting;
    int n_meetings, cap_meetings;
    int *ranks;          /* [n] scratch */
} dry;

/* "rank 1, instruction 12 (all_reduce_post g.b0[1,403] f32)" */
static const char *post_text(const dry *d, int rank, int line, char text[static 256]) {
    const tri_program *p = d->program[rank];
    if (line >= p->n_instrs) {
        snprintf(text, 256, "rank %d, at its end", rank);
        return text;
    }
    const tri_instr *instr = &p->instr[line];
    const tri_slot *slot = &p->slot[tri__transfer_whole(instr)];
    char rows[64], div[16] = "";
    const char *sym = tri__sym_name(slot->rows.sym);
    if (slot->rows.div) snprintf(div, sizeof div, "/%d", slot->rows.div);
    if (slot->rows.sym && !slot->rows.add) snprintf(rows, sizeof rows, "%s%s", sym, div);
    else snprintf(rows, sizeof rows, "%s%s%s%lld", sym, div, slot->rows.sym ? "+" : "", (long long)slot->rows.add);
    snprintf(text, 256, "rank %d, instruction %d (%s %.120s [%s,%lld] %s, id %u)", rank, line, tri__op_row(instr->op)->name,
             slot->name, rows, (long long)slot->cols, tri__dtype_name(slot->dtype), instr->attr.id);
    return text;
}

static int span_of(dry *d, const tri_attr *attr) {
    for (int i = 0; i < d->n_spans; i++)
        if (d->span[i].axes == attr->axes && d->span[i].within == attr->within && d->span[i].across == attr->across) return i;
    *TRI_PUSH(&d->arena, d->span, d->n_spans, d->cap_spans) =
        (tri_attr){.axes = attr->axes, .within = attr->within, .across = attr->across};
    return d->n_spans - 1;
}

/* The channel of a post and this rank's place in it. */
static channel *channel_of(dry *d, int rank, const tri_instr *instr, int *place) {
    int span = span_of(d, &instr->attr), n = tri__transfer_members(&d->program[rank]->mesh, rank, &instr->attr, d->ranks);
    int from = d->ranks[0], to = -1;
    *place = tri__transfer_place(&d->program[rank]->mesh, rank, &instr->attr);
    if (instr->op == TRI_OP_send_post) from = rank, to = d->ranks[instr->attr.root], n = 2, *place = 0;
    if (instr->op == TRI_OP_recv_post) from = d->ranks[instr->attr.root], to = rank, n = 2, *place = 1;
    for (channel *c = d->first[from]; c; c = c->next)
        if (c->span == span && c->to == to) return c;
    channel *c = tri__arena_alloc(&d->arena, sizeof *c);
    *c = (channel){.span = span, .to = to, .n = n, .next = d->first[from]};
    c->posted = tri__arena_alloc(&d->arena, (size_t)n * sizeof *c->posted);
    return d->first[from] = c;
}

/* Two members mean the same transfer. */
static int alike(const dry *d, int a_rank, int a_line, int b_rank, int b_line) {
    const tri_program *p = d->program[a_rank], *q = d->program[b_rank];
    const tri_instr *a = &p->instr[a_line], *b = &q->instr[b_line];
    const tri_slot *s = &p->slot[tri__transfer_whole(a)], *t = &q->slot[tri__transfer_whole(b)];
    int pair = a->op == TRI_OP_send_post || a->op == TRI_OP_recv_post;
    if (pair ? a->op == b->op : a->op != b->op || a->attr.root != b->attr.root) return 0;
    if (s->rows.sym != TRI_SYM_NONE && a->mb != b->mb) return 0;
    if (s->rows.sym != t->rows.sym || s->rows.add != t->rows.add || s->rows.div != t->rows.div || s->cols != t->cols) return 0;
    return a->attr.id == b->attr.id && s->dtype == t->dtype;
}

static void wake(dry *d, meeting *m, int *ready, int *n_ready) {
    for (int rank = m->asleep; rank >= 0; rank = d->run[rank].sleeper) {
        d->run[rank].waits_for = -1;
        ready[(*n_ready)++] = rank;
    }
    m->asleep = -1;
}

static tri_status post(dry *d, int rank, const tri_instr *instr, int *ready, int *n_ready) {
    int place, line = d->run[rank].at;
    channel *c = channel_of(d, rank, instr, &place);
    int k = c->posted[place]++;
    if (k == c->n_meetings) {
        *TRI_PUSH(&d->arena, c->meeting, c->n_meetings, c->cap_meetings) = d->n_meetings;
        *TRI_PUSH(&d->arena, d->meeting, d->n_meetings, d->cap_meetings) = (meeting){rank, line, c->n, -1};
    }
    meeting *m = &d->meeting[c->meeting[k]];
    if (m->rank != rank && !alike(d, m->rank, m->line, rank, line)) {
        char a[256], b[256];
        return tri__fail(TRI_INTERNAL, "the plans of ranks %d and %d do not fit together, at transfer %d of their group: %s; but %s",
                         m->rank, rank, k, post_text(d, m->rank, m->line, a), post_text(d, rank, line, b));
    }
    open_post *open = tri__arena_alloc(&d->arena, sizeof *open);
    *open = (open_post){tri__transfer_ends(instr), c->meeting[k], d->run[rank].open};
    d->run[rank].open = open;
    if (--m->left == 0) wake(d, m, ready, n_ready);
    return TRI_OK;
}

/* Ends the wait of a rank, or puts it to sleep: returns 0. */
static int wait(dry *d, int rank, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    open_post **at = &d->run[rank].open;
    while ((*at)->ends.y != ends.y || (*at)->ends.x != ends.x) at = &(*at)->next; /* check.c saw that it is there */
    meeting *m = &d->meeting[(*at)->meeting];
    if (m->left) {
        d->run[rank].waits_for = (*at)->meeting;
        d->run[rank].sleeper = m->asleep;
        m->asleep = rank;
        return 0;
    }
    *at = (*at)->next;
    return 1;
}

static tri_status run_until_asleep(dry *d, int rank, int *ready, int *n_ready) {
    const tri_program *p = d->program[rank];
    for (int *at = &d->run[rank].at; *at < p->n_instrs; ++*at) {
        const tri_instr *instr = &p->instr[*at];
        if (tri__is_post(instr->op)) TRI_TRY(post(d, rank, instr, ready, n_ready));
        else if (instr->op == TRI_OP_wait && !wait(d, rank, instr)) return TRI_OK;
    }
    return TRI_OK;
}

/* A member that has not posted a meeting. */
static int absent_member(dry *d, int index) {
    for (int rank = 0; rank < d->n; rank++)
        for (channel *c = d->first[rank]; c; c = c->next)
            for (int k = 0; k < c->n_meetings; k++) {
                if (c->meeting[k] != index) continue;
                const meeting *m = &d->meeting[index];
                if (c->to >= 0) return c->posted[0] <= k ? rank : c->to;
                tri__transfer_members(&d->program[rank]->mesh, m->rank, &d->span[c->span], d->ranks);
                for (int place = 0; place < c->n; place++)
                    if (c->posted[place] <= k) return d->ranks[place];
            }
    TRI_ASSERT(!"a meeting of no channel");
    return -1;
}

/* Says who waits for whom, until a rank comes up again or has ended. */
static tri_status stuck(dry *d, int rank) {
    char text[1024], one[256];
    size_t used = 0;
    uint8_t *seen = tri__arena_alloc(&d->arena, (size_t)d->n);
    while (d->run[rank].waits_for >= 0 && !seen[rank] && used < sizeof text - 300) {
        const meeting *m = &d->meeting[d->run[rank].waits_for];
        seen[rank] = 1;
        int next = absent_member(d, d->run[rank].waits_for);
        used += (size_t)snprintf(text + used, sizeof text - used, "%srank %d waits at instruction %d for rank %d to join in what %s posted",
                                 used ? "; " : "", rank, d->run[rank].at, next, post_text(d, m->rank, m->line, one));
        rank = next;
    }
    if (d->run[rank].waits_for < 0) snprintf(text + used, sizeof text - used, "; rank %d has ended", rank);
    return tri__fail(TRI_INTERNAL, "the plans of the ranks wait for one another for ever: %s", text);
}

static tri_status run_dry(dry *d) {
    int *ready = tri__arena_alloc(&d->arena, (size_t)d->n * sizeof *ready), n_ready = 0; /* ranks that can go on: each is in it once */
    for (int rank = d->n - 1; rank >= 0; rank--) {
        d->run[rank] = (runner){.waits_for = -1};
        ready[n_ready++] = rank;
    }
    while (n_ready) TRI_TRY(run_until_asleep(d, ready[--n_ready], ready, &n_ready));
    for (int rank = 0; rank < d->n; rank++)
        if (d->run[rank].waits_for >= 0) return stuck(d, rank);
    for (int i = 0; i < d->n_meetings; i++)
        TRI_ASSERT(d->meeting[i].left == 0); /* every post was waited for */
    return TRI_OK;
}

tri_status tri__check_ranks(const tri_program *const *programs, int n) {
    for (int i = 0; i < n; i++)
        if (programs[i]->rank != i || tri__mesh_world(&programs[i]->mesh) != n ||
            memcmp(&programs[i]->mesh, &programs[0]->mesh, sizeof(tri_mesh)) != 0)
            return tri__fail(TRI_INTERNAL, "program %d of %d is of rank %d of a mesh of %d: not all ranks of one mesh, in order", i, n,
                             programs[i]->rank, tri__mesh_world(&programs[i]->mesh));
    dry d = {.program = programs, .n = n};
    TRI_TRY(tri__arena_open(&d.arena, (size_t)1 << 36));
    d.first = tri__arena_alloc(&d.arena, (size_t)n * sizeof *d.first);
    d.run = tri__arena_alloc(&d.arena, (size_t)n * sizeof *d.run);
    d.ranks = tri__arena_alloc(&d.arena, (size_t)n * sizeof *d.ranks);
    tri_status status = run_dry(&d);
    tri__arena_close(&d.arena);
    return status;
}
