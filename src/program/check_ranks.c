/* check_ranks.c - proves that the programs of all ranks fit together, by running their transfers dry: a transfer has happened when all its
 * members posted it, a wait blocks until then, and nothing is buffered. What members post is compared; ranks that never get past a wait
 * are named. Linear in the instructions, as what is summed was made shortly before. */
#include "program/check.h"
#include "program/meet.h"

#include <stdio.h>
#include <string.h>

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
    tri_arena arena;
    tri_meetings meetings;
    int *asleep;         /* [meetings] the last rank that waits for it, and so on by runner.sleeper; -1 */
    int n_asleep, cap_asleep;
    runner *run;         /* [world] */
} dry;

/* "rank 1, instruction 12 (all_reduce_post g.b0[1,403] f32)" */
static const char *post_text(const dry *d, int rank, int line, char text[static 256]) {
    const tri_program *p = d->meetings.program[rank];
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

/* Whether what a transfer takes is a sum over ranks already: then the order of both sums counts. */
static int is_summed(const tri_program *p, int line) {
    int whole = tri__transfer_whole(&p->instr[line]), root = tri__slot_root(p, whole);
    for (int i = line - 1; i >= 0; i--) {
        const tri_instr *instr = &p->instr[i];
        const tri_op_row *row = tri__op_row(instr->op);
        for (int k = 0; k < row->n_args && instr->op != TRI_OP_wait; k++)
            if (instr->slot[k] >= 0 && tri__access_writes(row->arg[k].access) && tri__slot_root(p, instr->slot[k]) == root)
                return instr->op == TRI_OP_all_reduce_post;
    }
    return 0;
}

/* Two members mean the same transfer. */
static int alike(const dry *d, int a_rank, int a_line, int b_rank, int b_line) {
    const tri_program *p = d->meetings.program[a_rank], *q = d->meetings.program[b_rank];
    const tri_instr *a = &p->instr[a_line], *b = &q->instr[b_line];
    const tri_slot *s = &p->slot[tri__transfer_whole(a)], *t = &q->slot[tri__transfer_whole(b)];
    int pair = a->op == TRI_OP_send_post || a->op == TRI_OP_recv_post;
    if (pair ? a->op == b->op : a->op != b->op || a->attr.root != b->attr.root) return 0;
    if (a->op == TRI_OP_all_reduce_post && is_summed(p, a_line) != is_summed(q, b_line)) return 0;
    if (s->rows.sym != TRI_SYM_NONE && a->mb != b->mb) return 0;
    if (s->rows.sym != t->rows.sym || s->rows.add != t->rows.add || s->rows.div != t->rows.div || s->cols != t->cols) return 0;
    return a->attr.id == b->attr.id && s->dtype == t->dtype;
}

static void wake(dry *d, int meeting, int *ready, int *n_ready) {
    for (int rank = d->asleep[meeting]; rank >= 0; rank = d->run[rank].sleeper) {
        d->run[rank].waits_for = -1;
        ready[(*n_ready)++] = rank;
    }
    d->asleep[meeting] = -1;
}

static tri_status post(dry *d, int rank, const tri_instr *instr, int *ready, int *n_ready) {
    int line = d->run[rank].at, index = tri__meetings_post(&d->meetings, rank, line);
    const tri_meeting *m = &d->meetings.at[index];
    if (index == d->n_asleep) *TRI_PUSH(&d->arena, d->asleep, d->n_asleep, d->cap_asleep) = -1;
    if (m->rank != rank && !alike(d, m->rank, m->line, rank, line)) {
        char a[256], b[256];
        return tri__fail(TRI_INTERNAL, "the plans of ranks %d and %d do not fit together, at transfer %d of their group: %s; but %s",
                         m->rank, rank, m->number, post_text(d, m->rank, m->line, a), post_text(d, rank, line, b));
    }
    open_post *open = tri__arena_alloc(&d->arena, sizeof *open);
    *open = (open_post){tri__transfer_ends(instr), index, d->run[rank].open};
    d->run[rank].open = open;
    if (m->left == 0) wake(d, index, ready, n_ready);
    return TRI_OK;
}

/* Ends the wait of a rank, or puts it to sleep: returns 0. */
static int wait(dry *d, int rank, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    open_post **at = &d->run[rank].open;
    while ((*at)->ends.y != ends.y || (*at)->ends.x != ends.x) at = &(*at)->next; /* check.c saw that it is there */
    int meeting = (*at)->meeting;
    if (d->meetings.at[meeting].left) {
        d->run[rank].waits_for = meeting;
        d->run[rank].sleeper = d->asleep[meeting];
        d->asleep[meeting] = rank;
        return 0;
    }
    *at = (*at)->next;
    return 1;
}

static tri_status run_until_asleep(dry *d, int rank, int *ready, int *n_ready) {
    const tri_program *p = d->meetings.program[rank];
    for (int *at = &d->run[rank].at; *at < p->n_instrs; ++*at) {
        const tri_instr *instr = &p->instr[*at];
        if (tri__is_post(instr->op)) TRI_TRY(post(d, rank, instr, ready, n_ready));
        else if (instr->op == TRI_OP_wait && !wait(d, rank, instr)) return TRI_OK;
    }
    return TRI_OK;
}

/* Says who waits for whom, until a rank comes up again or has ended. */
static tri_status stuck(dry *d, int rank) {
    char text[1024], one[256];
    size_t used = 0;
    uint8_t *seen = tri__arena_alloc(&d->arena, (size_t)d->meetings.world);
    while (d->run[rank].waits_for >= 0 && !seen[rank] && used < sizeof text - 300) {
        const tri_meeting *m = &d->meetings.at[d->run[rank].waits_for];
        seen[rank] = 1;
        int next = tri__meetings_absent(&d->meetings, d->run[rank].waits_for);
        used += (size_t)snprintf(text + used, sizeof text - used, "%srank %d waits at instruction %d for rank %d to join in what %s posted",
                                 used ? "; " : "", rank, d->run[rank].at, next, post_text(d, m->rank, m->line, one));
        rank = next;
    }
    if (d->run[rank].waits_for < 0) snprintf(text + used, sizeof text - used, "; rank %d has ended", rank);
    return tri__fail(TRI_INTERNAL, "the plans of the ranks wait for one another for ever: %s", text);
}

static tri_status run_dry(dry *d) {
    int world = d->meetings.world, n_ready = 0;
    int *ready = tri__arena_alloc(&d->arena, (size_t)world * sizeof *ready); /* ranks that can go on: each is in it once */
    for (int rank = world - 1; rank >= 0; rank--) {
        d->run[rank] = (runner){.waits_for = -1};
        ready[n_ready++] = rank;
    }
    while (n_ready) TRI_TRY(run_until_asleep(d, ready[--n_ready], ready, &n_ready));
    for (int rank = 0; rank < world; rank++)
        if (d->run[rank].waits_for >= 0) return stuck(d, rank);
    for (int i = 0; i < d->meetings.n; i++) TRI_ASSERT(d->meetings.at[i].left == 0); /* every post was waited for */
    return TRI_OK;
}

tri_status tri__check_ranks(const tri_program *const *programs, int n) {
    for (int i = 0; i < n; i++)
        if (programs[i]->rank != i || tri__mesh_world(&programs[i]->mesh) != n ||
            memcmp(&programs[i]->mesh, &programs[0]->mesh, sizeof(tri_mesh)) != 0)
            return tri__fail(TRI_INTERNAL, "program %d of %d is of rank %d of a mesh of %d: not all ranks of one mesh, in order", i, n,
                             programs[i]->rank, tri__mesh_world(&programs[i]->mesh));
    dry d = {0};
    TRI_TRY(tri__arena_open(&d.arena, (size_t)1 << 20));
    tri__meetings_open(&d.meetings, &d.arena, programs, n);
    d.run = tri__arena_alloc(&d.arena, (size_t)n * sizeof *d.run);
    tri_status status = run_dry(&d);
    tri__arena_close(&d.arena);
    return status;
}
