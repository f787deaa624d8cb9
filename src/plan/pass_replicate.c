/* pass_replicate.c - pass: what a checkpoint would have of this rank is copied into memory that outlives it (class
 * kept): all ranks together have each element once.
 *
 *   the posts of all copies | forward and backward pass | their waits | the update, which overwrites what they are of
 *
 * So a step's program copies what the step before left, and a device that copies beside its kernels hides it. The waits
 * stand before the control, which tells all ranks that this one has its copy. What comes between two steps (validation,
 * a checkpoint, the end) relies on the copy: the session may run posts and waits by themselves before it. */
#include "plan/pass.h"

typedef struct replicating {
    tri_pass *pass;
    tri_builder to;
    uint8_t *is_root;      /* [slots] 1: copies are of this root */
    tri_ends *ends;        /* [n] */
    int n, cap;
} replicating;

/* Copies the elements `want` of a unit from a slot that holds those of `held`. */
static void add(replicating *r, int slot, tri_range held, tri_range want) {
    const tri_program *p = r->to.program;
    int64_t count = want.end - want.begin;
    if (slot < 0 || count <= 0) return;
    int x = count == p->slot[slot].cols && p->slot[slot].rows.add == 1
                ? slot
                : tri__build_view(&r->to, slot, want.begin - held.begin, 1, count, "%s.copied", p->slot[slot].name);
    int y = TRI_BUILD_FLAT(&r->to, TRI_MEM_KEPT, p->slot[slot].dtype, count, "kept.%s", p->slot[slot].name);
    r->is_root[tri__slot_root(p, slot)] = 1;
    *TRI_PUSH(r->pass->arena, r->ends, r->n, r->cap) = (tri_ends){.y = y, .x = x};
}

/* As checkpoints have them: weights that evaluations show, or masters, and all states. */
static void add_all(replicating *r) {
    const tri_planned *out = &r->pass->out;
    for (int u = 0; u < r->pass->model->n_units; u++) {
        int shows = out->shown && out->shown[u] >= 0;
        const int *weights = shows ? out->shown : out->master ? out->master : out->param;
        add(r, weights[u], shows || out->master ? out->state_part[u] : out->param_part[u], out->save_part[u]);
    }
    for (int i = 0; i < out->n_states; i++)
        for (int u = 0; u < r->pass->model->n_units; u++)
            add(r, out->state[i].slot[u], out->state[i].held[u], out->state[i].save[u]);
}

static int overwrites(const replicating *r, const tri_instr *instr) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__writes(instr, k) && r->is_root[tri__slot_root(r->to.program, instr->slot[k])]) return 1;
    return 0;
}

tri_status tri__pass_replicate(tri_pass *pass) {
    replicating r = {.pass = pass, .to = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    int n, update = pass->out.update;
    r.is_root = tri__arena_alloc(pass->arena, (size_t)pass->program->n_slots);
    add_all(&r);
    const tri_instr *instr = tri__take_instrs(pass->program, &n);
    for (int i = 0; i < r.n; i++) TRI_BUILD(&r.to, copy_post, (tri_attr){0}, r.ends[i].y, r.ends[i].x);
    pass->out.posted = r.n, pass->out.waited = r.n + update, pass->out.update = 2 * r.n + update;
    for (int i = 0; i < n; i++) {
        TRI_ASSERT(i >= update || !overwrites(&r, &instr[i])); /* only updates do */
        for (int k = 0; k < r.n && i == update; k++)
            TRI_BUILD(&r.to, copy_wait, (tri_attr){0}, r.ends[k].y, r.ends[k].x);
        tri__build_copy(&r.to, &instr[i]);
    }
    return TRI_OK;
}
