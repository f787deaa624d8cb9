/* pass_recompute.c - pass: drops activations and repeats the operations that rebuild them.
 *
 * Unit by unit. A value is kept when another unit reads it, or when its operation cannot be repeated (it accumulates,
 * or is an input). `full` repeats everything else that the unit's backward needs, except the operation that ends the
 * unit: its other outputs (a norm's xhat, as large as the boundary) are kept, which saves repeating the dense layer
 * before it, a third of an encoder layer's work. `selective` repeats runs of cheap operations where that saves enough
 * bytes. (Whole runs, because they are fused: half a run would round differently.)
 *
 * Repeated operations come before the unit's first backward operation, in forward order, and write separate slots,
 * "r.name". Their attributes are the same, so dropout drops the same values. */
#include "plan/pass.h"

/* Floating point operations a byte, written or saved, up to which repeating is cheap. GELU takes 5, a norm 1, attention
 * as many as a sequence has tokens, a dense layer half its inputs. */
static const double CHEAP = 8;

typedef struct recompute {
    tri_pass *pass;
    const tri_program *from;   /* the template after `backward` */
    int *maker;                /* [slots] the forward operation that writes it; -1 */
    uint8_t *stays;            /* [slots] never rebuilt */
    uint8_t *chosen;           /* [instrs] 1: may be repeated */
    uint8_t *needed;           /* [instrs] 1: is repeated */
    uint8_t *kept;             /* [slots] 1: alive from forward to backward, for the current unit */
    int *again;                /* [slots] the slot of the rebuilt value; -1 */
} recompute;

static int is_forward(const tri_instr *instr) { return tri__instr_row(instr)->phase == TRI_PHASE_F; }
static int is_backward(const tri_instr *instr) {
    tri_op_phase phase = tri__instr_row(instr)->phase;
    return phase == TRI_PHASE_B || phase == TRI_PHASE_W;
}

static int is_repeatable(const tri_program *program, const tri_instr *instr) {
    if (!is_forward(instr)) return 0;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__writes(instr, k) &&
            (tri__instr_row(instr)->arg[k].access != TRI_ACCESS_W || program->slot[instr->slot[k]].mem != TRI_MEM_ACT))
            return 0;
    return 1;
}

/* Sums over ranks are not cheap: repeating one would keep each rank's addend instead, which is as large. */
static int is_cheap(const tri_program *program, const tri_instr *instr, const tri_counts *counts) {
    double bytes = 0;
    if (instr->op == TRI_OP_ranks_sum || instr->op == TRI_OP_tokens_scatter) return 0;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__writes(instr, k)) bytes += (double)tri__slot_bytes(&program->slot[instr->slot[k]], counts);
    return tri__instr_cost(program, instr, counts).flops <= CHEAP * bytes;
}

static void find_makers(recompute *r) {
    const tri_program *p = r->from;
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (tri__writes(&p->instr[i], k) && is_repeatable(p, &p->instr[i])) r->maker[p->instr[i].slot[k]] = i;
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            if (!tri__reads(&p->instr[i], k)) continue;
            int maker = r->maker[p->instr[i].slot[k]];
            if (maker < 0 || p->instr[maker].unit != p->instr[i].unit) r->stays[p->instr[i].slot[k]] = 1;
        }
}

/* A value that backward or a repeated operation reads: it is rebuilt, with everything it depends on, or kept. */
static void need(recompute *r, int slot) {
    int maker = r->maker[slot];
    if (r->stays[slot] || !r->chosen[maker]) {
        r->kept[slot] = 1;
        return;
    }
    if (r->needed[maker]) return;
    r->needed[maker] = 1;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__reads(&r->from->instr[maker], k)) need(r, r->from->instr[maker].slot[k]);
}

/* Finds the operations that a unit repeats, given those chosen so far; returns the bytes of activations that it keeps,
 * plus those of gradients that it reads, which no choice changes. */
static int64_t trace_unit(recompute *r, int unit) {
    const tri_program *p = r->from;
    for (int s = 0; s < p->n_slots; s++) r->kept[s] = 0;
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instr[i].unit == unit) r->needed[i] = 0;
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS && p->instr[i].unit == unit && is_backward(&p->instr[i]); k++)
            if (tri__reads(&p->instr[i], k)) need(r, p->instr[i].slot[k]);
    int64_t bytes = 0;
    for (int s = 0; s < p->n_slots; s++)
        if (r->kept[s] && p->slot[s].mem == TRI_MEM_ACT) bytes += tri__slot_bytes(&p->slot[s], &r->pass->in->max);
    return bytes;
}

/* Chooses each run of the unit's cheap operations that saves enough bytes for its work. */
static void choose_runs(recompute *r, int unit) {
    const tri_program *p = r->from;
    const tri_counts *counts = &r->pass->in->max;
    int64_t least = trace_unit(r, unit);
    for (int first = 0, next; first < p->n_instrs; first = next + 1) {
        double flops = 0;
        for (next = first; next < p->n_instrs && p->instr[next].unit == unit && is_repeatable(p, &p->instr[next]) &&
                           is_cheap(p, &p->instr[next], counts); next++) {
            r->chosen[next] = 1;
            flops += tri__instr_cost(p, &p->instr[next], counts).flops;
        }
        if (next == first) continue;
        int64_t bytes = trace_unit(r, unit);
        if (bytes < least && flops <= CHEAP * (double)(least - bytes)) least = bytes;
        else
            for (int i = first; i < next; i++) r->chosen[i] = 0;
    }
    trace_unit(r, unit);
}

static int ends_unit(const recompute *r, const tri_instr *instr) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__writes(instr, k) && r->stays[instr->slot[k]]) return 1;
    return 0;
}

static void choose_all(recompute *r, int unit) {
    for (int i = 0; i < r->from->n_instrs; i++) {
        const tri_instr *instr = &r->from->instr[i];
        if (instr->unit == unit) r->chosen[i] = is_repeatable(r->from, instr) && !ends_unit(r, instr);
    }
    trace_unit(r, unit);
}

/* Appends an instruction that reads rebuilt values; a repeated one also writes them. */
static void append(recompute *r, tri_builder *to, tri_instr instr, int repeated) {
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        int slot = instr.slot[k];
        if (repeated && tri__writes(&instr, k)) {
            const tri_slot s = to->program->slot[slot];
            to->unit = s.unit;
            instr.slot[k] = r->again[slot] = TRI_BUILD_SAME(to, s, "r.%s", s.name);
        } else if (tri__reads(&instr, k) && r->again[slot] >= 0 && !r->stays[slot]) {
            instr.slot[k] = r->again[slot];
        }
    }
    tri__build_copy(to, &instr);
}

static void rewrite(recompute *r, tri_program *program) {
    tri_builder to = {.arena = r->pass->arena, .program = program};
    uint8_t *rebuilt = tri__arena_alloc(r->pass->arena, (size_t)program->n_units);
    int n;
    tri__take_instrs(program, &n);
    for (int i = 0; i < n; i++) {
        const tri_instr *instr = &r->from->instr[i];
        if (is_backward(instr) && !rebuilt[instr->unit]) {
            rebuilt[instr->unit] = 1;
            for (int j = 0; j < i; j++)
                if (r->from->instr[j].unit == instr->unit && r->needed[j]) append(r, &to, r->from->instr[j], 1);
        }
        append(r, &to, *instr, 0);
    }
}

tri_status tri__pass_recompute(tri_pass *pass) {
    const tri_program from = *pass->program;
    size_t n_slots = (size_t)from.n_slots, n_instrs = (size_t)from.n_instrs;
    recompute r = {.pass = pass, .from = &from};
    r.maker = tri__none_yet(pass->arena, from.n_slots);
    r.again = tri__none_yet(pass->arena, from.n_slots);
    r.stays = tri__arena_alloc(pass->arena, n_slots);
    r.kept = tri__arena_alloc(pass->arena, n_slots);
    r.chosen = tri__arena_alloc(pass->arena, n_instrs);
    r.needed = tri__arena_alloc(pass->arena, n_instrs);
    find_makers(&r);
    for (int unit = 0; unit < from.n_units; unit++)
        (pass->in->recompute == TRI_RECOMPUTE_FULL ? choose_all : choose_runs)(&r, unit);
    rewrite(&r, pass->program);
    return TRI_OK;
}
