/* check_ranks.c - proves that the programs of all ranks fit together, by a dry run of their transfers: a transfer is
 * complete when all its members have posted it, a wait blocks until then, and nothing is buffered. The members' posts
 * are compared; ranks in a deadlock are named. One rank of each role runs for all of them; why that is enough:
 * program/roles.h. Linear in the instructions, since a sum's operand is written shortly before it. Each kind of step
 * has its dry run, and so have steps that leave layers out. */
#include "program/check.h"
#include "program/meet.h"
#include "program/text.h"

/* A transfer of one role that was posted and not yet waited for. */
typedef struct open_post {
    tri_ends ends;
    int meeting;
    struct open_post *next;
} open_post;

typedef struct runner {
    int at;              /* next instruction */
    int sleeper;         /* the next role that waits for the same meeting; -1 */
    int waits_for;       /* meeting; -1 */
    open_post *open;
} runner;

typedef struct dry {
    tri_arena *arena;
    tri_roles roles;
    tri_meetings meetings;
    int *asleep;         /* [meetings] head of the list of roles that wait for it, linked by runner.sleeper; -1 */
    int n_asleep, cap_asleep;
    runner *run;         /* [roles] */
    tri_open_gates now;  /* the step */
    const tri_origin *origin; /* NULL: planned */
} dry;

/* "rank 1, instruction 12", or the file and line. */
static const char *origin_of(const dry *d, int role, int line, char text[static TRI_ORIGIN_TEXT]) {
    int rank = d->roles.rank[role];
    if (d->origin) return d->origin->at(d->origin->data, rank, line, -1, text);
    snprintf(text, TRI_ORIGIN_TEXT, "rank %d, instruction %d", rank, line);
    return text;
}

enum { POST_TEXT = TRI_ORIGIN_TEXT + 256 };

/* "rank 1, instruction 12 (all_reduce_post g.b0[1,403] f32)" */
static const char *post_text(const dry *d, int role, int line, char text[static POST_TEXT]) {
    const tri_program *p = d->meetings.program[role];
    char at[TRI_ORIGIN_TEXT], size[TRI_SIZE_TEXT];
    const tri_instr *instr = &p->instr[line];
    const tri_slot *slot = &p->slot[tri__transfer_whole(instr)];
    snprintf(text, POST_TEXT, "%s (%s %.120s %s %s, id %u)", origin_of(d, role, line, at), tri__instr_row(instr)->name,
             slot->name, tri__slot_size(slot, size), tri__dtype_name(slot->dtype), instr->attr.id);
    return text;
}

/* Whether a transfer's operand is itself a sum over ranks: then the order of the two sums matters. */
static int is_summed(const tri_program *p, int line, const tri_open_gates *now) {
    int whole = tri__transfer_whole(&p->instr[line]), root = tri__slot_root(p, whole);
    for (int i = line - 1; i >= 0; i--) {
        const tri_instr *instr = &p->instr[i];
        if (!tri__is_open(instr, now)) continue;
        for (int k = 0; k < TRI_MAX_ARGS && instr->op != TRI_OP_wait; k++)
            if (tri__writes(instr, k) && tri__slot_root(p, instr->slot[k]) == root)
                return instr->op == TRI_OP_all_reduce_post && !instr->attr.most;
    }
    return 0;
}

/* Whether two members posted the same transfer. */
static int alike(const dry *d, int a_role, int a_line, int b_role, int b_line) {
    const tri_program *p = d->meetings.program[a_role], *q = d->meetings.program[b_role];
    const tri_instr *a = &p->instr[a_line], *b = &q->instr[b_line];
    const tri_slot *s = &p->slot[tri__transfer_whole(a)], *t = &q->slot[tri__transfer_whole(b)];
    int pair = a->op == TRI_OP_send_post || a->op == TRI_OP_recv_post;
    if (pair ? a->op == b->op : a->op != b->op || a->attr.root != b->attr.root) return 0;
    if (a->attr.most != b->attr.most) return 0;
    int sums = a->op == TRI_OP_all_reduce_post && !a->attr.most;
    if (sums && is_summed(p, a_line, &d->now) != is_summed(q, b_line, &d->now)) return 0;
    if (s->rows.sym != TRI_SYM_NONE && a->mb != b->mb) return 0;
    if (!tri__same_rows(s->rows, t->rows) || s->cols != t->cols) return 0;
    return a->attr.id == b->attr.id && s->dtype == t->dtype;
}

static void wake(dry *d, int meeting, int *ready, int *n_ready) {
    for (int role = d->asleep[meeting]; role >= 0; role = d->run[role].sleeper) {
        d->run[role].waits_for = -1;
        ready[(*n_ready)++] = role;
    }
    d->asleep[meeting] = -1;
}

static tri_status post(dry *d, int role, const tri_instr *instr, int *ready, int *n_ready) {
    int line = d->run[role].at, index = tri__meetings_post(&d->meetings, role, line);
    const tri_meeting *m = &d->meetings.at[index];
    if (index == d->n_asleep) *TRI_PUSH(d->arena, d->asleep, d->n_asleep, d->cap_asleep) = -1;
    if (m->role != role && !alike(d, m->role, m->line, role, line)) {
        char a[POST_TEXT], b[POST_TEXT], at[TRI_ORIGIN_TEXT];
        post_text(d, m->role, m->line, a), post_text(d, role, line, b);
        if (d->origin)
            return tri__fail(TRI_DATA, "%s: ranks %d and %d differ in transfer %d of their group: %s; but %s",
                             origin_of(d, role, line, at), d->roles.rank[m->role], d->roles.rank[role], m->number, a,
                             b);
        return tri__fail(TRI_INTERNAL,
                         "the plans of ranks %d and %d do not fit together, at transfer %d of their group: %s; but %s",
                         d->roles.rank[m->role], d->roles.rank[role], m->number, a, b);
    }
    open_post *open = tri__arena_alloc(d->arena, sizeof *open);
    *open = (open_post){tri__transfer_ends(instr), index, d->run[role].open};
    d->run[role].open = open;
    if (m->left == 0) wake(d, index, ready, n_ready);
    return TRI_OK;
}

/* Completes the wait of a role; or blocks the role and returns 0. */
static int wait(dry *d, int role, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    open_post **at = &d->run[role].open;
    while ((*at)->ends.y != ends.y || (*at)->ends.x != ends.x) at = &(*at)->next; /* check.c proved that it exists */
    int meeting = (*at)->meeting;
    if (d->meetings.at[meeting].left) {
        d->run[role].waits_for = meeting;
        d->run[role].sleeper = d->asleep[meeting];
        d->asleep[meeting] = role;
        return 0;
    }
    *at = (*at)->next;
    return 1;
}

static tri_status run_until_asleep(dry *d, int role, int *ready, int *n_ready) {
    const tri_program *p = d->meetings.program[role];
    for (int *at = &d->run[role].at; *at < p->n_instrs; ++*at) {
        const tri_instr *instr = &p->instr[*at];
        if (!tri__is_open(instr, &d->now)) continue;
        if (tri__is_post(instr->op)) TRI_TRY(post(d, role, instr, ready, n_ready));
        else if (instr->op == TRI_OP_wait && !wait(d, role, instr)) return TRI_OK;
    }
    return TRI_OK;
}

/* Follows the chain of waits until a role repeats or has ended, and reports it. */
static tri_status stuck(dry *d, int role) {
    char text[1536], one[POST_TEXT], at[TRI_ORIGIN_TEXT], first[TRI_ORIGIN_TEXT];
    size_t used = 0;
    origin_of(d, role, d->run[role].at, first);
    uint8_t *seen = tri__arena_alloc(d->arena, (size_t)d->roles.n);
    while (d->run[role].waits_for >= 0 && !seen[role] && used < sizeof text - POST_TEXT - 300) {
        const tri_meeting *m = &d->meetings.at[d->run[role].waits_for];
        seen[role] = 1;
        int next = tri__meetings_absent(&d->meetings, d->run[role].waits_for);
        if (d->origin) origin_of(d, role, d->run[role].at, at);
        else snprintf(at, sizeof at, "instruction %d", d->run[role].at);
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%srank %d waits at %s for rank %d to join in what %s posted", used ? "; " : "",
                                 d->roles.rank[role], at, d->roles.rank[next], post_text(d, m->role, m->line, one));
        role = next;
    }
    if (d->run[role].waits_for < 0)
        snprintf(text + used, sizeof text - used, "; rank %d has ended", d->roles.rank[role]);
    if (d->origin) return tri__fail(TRI_DATA, "%s: deadlock: %s", first, text);
    return tri__fail(TRI_INTERNAL, "the plans of the ranks deadlock: %s", text);
}

static tri_status run_dry(dry *d) {
    int n_ready = 0;
    int *ready = tri__arena_alloc(d->arena, (size_t)d->roles.n * sizeof *ready); /* runnable roles, each once */
    for (int role = d->roles.n - 1; role >= 0; role--) {
        d->run[role] = (runner){.waits_for = -1};
        ready[n_ready++] = role;
    }
    while (n_ready) TRI_TRY(run_until_asleep(d, ready[--n_ready], ready, &n_ready));
    for (int role = 0; role < d->roles.n; role++)
        if (d->run[role].waits_for >= 0) return stuck(d, role);
    for (int i = 0; i < d->meetings.n; i++) TRI_ASSERT(d->meetings.at[i].left == 0); /* every post was waited for */
    return TRI_OK;
}

tri_status tri__check_together(tri_arena *arena, const tri_classes *ranks, const tri_origin *origin) {
    tri_open_gates now;
    tri_roles roles;
    tri__roles_find(&roles, arena, ranks, &(tri_role_facts){0});
    for (int i = 0; tri__program_case(ranks->at[0].program, i, &now); i++) { /* all ranks have the same: check.c */
        dry d = {.arena = arena, .origin = origin, .roles = roles, .now = now};
        tri__meetings_open(&d.meetings, arena, ranks, &d.roles);
        d.run = tri__arena_alloc(arena, (size_t)d.roles.n * sizeof *d.run);
        TRI_TRY(run_dry(&d));
    }
    return TRI_OK;
}
