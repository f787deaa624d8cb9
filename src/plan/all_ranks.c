/* all_ranks.c - the programs of all ranks of a mesh.
 *
 * Passes before `schedule` do not depend on the stage, and `schedule` does not depend on the replica: ranks that differ
 * in their places on pp and dp, or on dp only, share these results. Later passes depend on which elements of each block
 * of weights a rank owns. Shards are equal runs of elements, so neighbouring replicas whose shards are in the same
 * stretch of a unit (for example weights that decay) differ only in where their shards begin: the first and the last of
 * such a run are planned, and the rule for those between is derived from the two (program/classes.h). Scratch memory is
 * reused; equal parts of the programs kept are stored once.
 *
 * Figures (memory, traffic, times) do not depend on where parts begin: for them the first of a run is enough, and so is
 * one of the ranks of a tp group that hold equally large parts. The first of the group has more to do than the others
 * (pass_tensor_sums.c), so the second stands for the rest. */
#include "plan/pass.h"

/* The program of a side, and its start and exchange programs. */
enum { STEP, START, EXCHANGE, MADE };

/* Training, or prediction. */
typedef struct side {
    int training;
    tri_pass template, shared; /* state before `schedule`, and after it */
    tri_classes *out[MADE];    /* NULL: not requested */
    const tri_program *last[MADE]; /* the program kept last */
    tri_places *places;        /* [pp] */
} side;

typedef struct ranks {
    tri_arena *keep, *scratch;
    const tri_plan_in *asked;
    tri_plan_in in; /* resolved */
    tri_stages stages;
    side side[2];
    int figures;    /* 1: for figures only */
} ranks;

static const char **keep_units(tri_arena *arena, const tri_program *made) {
    const char **unit = tri__arena_alloc(arena, (size_t)made->n_units * sizeof *unit);
    for (int i = 0; i < made->n_units; i++) unit[i] = tri__arena_copy(arena, made->unit[i]);
    return unit;
}

static tri_layer_gate *keep_layers(tri_arena *arena, const tri_program *made) {
    tri_layer_gate *layer = tri__arena_alloc(arena, (size_t)made->n_layers * sizeof *layer);
    for (int i = 0; i < made->n_layers; i++)
        layer[i] = (tri_layer_gate){tri__arena_copy(arena, made->layer[i].name), made->layer[i].keep};
    return layer;
}

/* A copy of an array, or `like` if equal. */
static void *keep_array(tri_arena *arena, void *made, int n, void *like, int n_like, size_t element) {
    size_t bytes = (size_t)n * element;
    if (!n) return NULL;
    if (n == n_like && memcmp(made, like, bytes) == 0) return like;
    return memcpy(tri__arena_alloc(arena, bytes), made, bytes);
}

/* Copies a program out of the scratch arena; equal parts are shared with `like`, one kept before. Figures need no
 * names of slots. */
static tri_program *keep_program(tri_arena *arena, tri_program *made, const tri_program *like, int figures) {
    tri_program *kept = tri__arena_alloc(arena, sizeof *kept), none = {.title = ""};
    *kept = *made;
    if (!like) like = &none;
    kept->title = strcmp(like->title, made->title) == 0 ? like->title : tri__arena_copy(arena, made->title);
    kept->layer = tri__same_layers(made, like) ? like->layer : keep_layers(arena, made);
    kept->cap_layers = kept->n_layers;
    kept->unit = tri__same_units(made, like) ? like->unit : keep_units(arena, made);
    for (int s = 0; s < made->n_slots; s++) {
        const char **name = &made->slot[s].name, *known = s < like->n_slots ? like->slot[s].name : "";
        *name = figures ? "" : strcmp(known, *name) == 0 ? known : tri__arena_copy(arena, *name);
    }
    kept->slot = keep_array(arena, made->slot, made->n_slots, like->slot, like->n_slots, sizeof *made->slot);
    kept->instr = keep_array(arena, made->instr, made->n_instrs, like->instr, like->n_instrs, sizeof *made->instr);
    kept->cap_units = kept->n_units, kept->cap_slots = kept->n_slots, kept->cap_instrs = kept->n_instrs;
    return kept;
}

static int *copy_units(tri_pass *pass, const int *from) {
    size_t bytes = (size_t)pass->model->n_units * sizeof *from;
    return from ? memcpy(tri__arena_alloc(pass->arena, bytes), from, bytes) : NULL;
}

/* Runs the passes in which replicas differ, for place `place` of the first sharding group. */
static tri_status plan_own(ranks *r, const side *side, int place, tri_program *out[static MADE]) {
    tri_pass pass = side->shared;
    tri_program *program = tri__arena_alloc(r->scratch, sizeof *program);
    tri_coords at = tri__mesh_coords(&r->in.mesh, r->in.rank);
    at.dp = place;
    r->in.rank = tri__mesh_rank(&r->in.mesh, at);
    *program = *pass.program;
    program->rank = r->in.rank;
    pass.program = program;
    pass.out.param = copy_units(&pass, pass.out.param);
    pass.unit_grad = copy_units(&pass, pass.unit_grad);
    TRI_TRY(tri__passes_run(&pass, TRI_SCOPE_REPLICA, NULL));
    out[STEP] = pass.program;
    tri_filling filling; /* a rank finds its own when it plans itself */
    if (side->out[START]) TRI_TRY(tri__plan_start(&pass, &out[START], &filling));
    return side->out[EXCHANGE] ? tri__plan_exchange(&pass, &out[EXCHANGE]) : TRI_OK;
}

/* The rules that lead from the first to the last member of a class; 0 when there is none. */
static int find_rules(ranks *r, const side *side, tri_program *const *first, tri_program *const *last,
                      tri_class *class) {
    for (int i = 0; i < MADE; i++)
        if (side->out[i] && !tri__class_rule(r->keep, first[i], last[i], class[i].n, &class[i])) return 0;
    return 1;
}

/* Adds the classes of the places [begin, end), one run of tri__shard_runs. */
static tri_status plan_run(ranks *r, side *side, int row, int begin, int end) {
    size_t mark = r->scratch->used;
    int n = end - begin;
    tri_class class[MADE];
    tri_program *first[MADE], *last[MADE];
    for (int i = 0; i < MADE; i++) class[i] = (tri_class){.begin = begin, .n = n};
    TRI_TRY(plan_own(r, side, begin, first));
    if (n > 1 && !r->figures) {
        TRI_TRY(plan_own(r, side, end - 1, last));
        if (!find_rules(r, side, first, last, class)) {
            tri__arena_rewind(r->scratch, mark);
            TRI_TRY(plan_run(r, side, row, begin, begin + n / 2));
            return plan_run(r, side, row, begin + n / 2, end);
        }
    }
    for (int i = 0; i < MADE; i++) {
        if (!side->out[i]) continue;
        class[i].program = side->last[i] = keep_program(r->keep, first[i], side->last[i], r->figures);
        tri__classes_add(side->out[i], r->keep, row, class[i]);
    }
    tri__arena_rewind(r->scratch, mark);
    return TRI_OK;
}

/* All replicas of one place on pp and tp, from the template of its place on tp. */
static tri_status plan_place(ranks *r, side *side, tri_coords at) {
    int n, row = tri__classes_row(&r->in.mesh, at);
    uint8_t *begins;
    r->in.rank = tri__mesh_rank(&r->in.mesh, at);
    side->shared = side->template;
    side->shared.places = &side->places[at.pp];
    TRI_TRY(tri__passes_run(&side->shared, TRI_SCOPE_STAGE, NULL));
    TRI_TRY(tri__shard_runs(&side->shared, &n, &begins));
    for (int i = 0; i < MADE && row == 0; i++)
        if (side->out[i]) tri__classes_open(side->out[i], r->keep, &r->in.mesh, n);
    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && !begins[end];) end++;
        TRI_TRY(plan_run(r, side, row, begin, end));
    }
    return TRI_OK;
}

/* All ranks of one place on tp. */
static tri_status plan_stages(ranks *r, side *side, int tp) {
    tri_coords at = {.tp = tp};
    r->in.rank = tri__mesh_rank(&r->in.mesh, at);
    side->template = (tri_pass){.arena = r->scratch, .in = &r->in, .model = r->in.model, .stages = &r->stages,
                                .training = side->training, .serving = !side->training && side->out[START]};
    TRI_TRY(tri__passes_run(&side->template, TRI_SCOPE_TENSOR, NULL));
    size_t mark = r->scratch->used;
    for (; at.pp < r->in.mesh.pp; at.pp++) {
        TRI_TRY(plan_place(r, side, at));
        tri__arena_rewind(r->scratch, mark);
    }
    return TRI_OK;
}

/* Whether no part of the weights that place `tp` holds is larger than that of the second place. */
static int is_like_second(const ranks *r, int tp) {
    tri_holder holder = tri__plan_holder(&r->in);
    holder.tp_place = 1;
    const tri_network *second = tri__model_part(r->scratch, r->in.model, NULL, holder);
    holder.tp_place = tp;
    const tri_network *own = tri__model_part(r->scratch, r->in.model, NULL, holder);
    for (int i = 0; i < own->n_params; i++)
        if (own->param[i].count > second->param[i].count) return 0;
    return 1;
}

static void share_rows(ranks *r, const side *side, int tp) {
    for (tri_coords at = {.tp = tp}; at.pp < r->in.mesh.pp; at.pp++)
        for (int i = 0; i < MADE; i++)
            if (side->out[i])
                tri__classes_alias(side->out[i], r->keep, tri__classes_row(&r->in.mesh, at),
                                   tri__classes_row(&r->in.mesh, (tri_coords){.pp = at.pp, .tp = 1}));
}

static tri_status plan_all(tri_arena *scratch, void *data) {
    ranks *r = data;
    const tri_plan_in *in = r->asked;
    r->scratch = scratch;
    TRI_TRY(tri__plan_resolve(scratch, in, &r->in, &r->stages));
    size_t mark = scratch->used;
    for (int i = 0; i < 2; i++) {
        r->side[i].places = tri__arena_alloc(r->keep, (size_t)in->mesh.pp * sizeof *r->side[i].places);
        for (int pp = 0; pp < in->mesh.pp; pp++) r->side[i].places[pp].arena = r->keep;
        for (int tp = 0; tp < in->mesh.tp && r->side[i].out[STEP]; tp++) {
            if (r->figures && tp > 1 && is_like_second(r, tp)) share_rows(r, &r->side[i], tp);
            else TRI_TRY(plan_stages(r, &r->side[i], tp));
            tri__arena_rewind(scratch, mark);
        }
    }
    return TRI_OK;
}

static tri_status plan_kinds(tri_arena *arena, const tri_plan_in *in, int train, unsigned kinds, int figures,
                             tri_classes *out) {
    ranks r = {.keep = arena, .asked = in, .side = {{.training = 1}}, .figures = figures};
    for (int i = 0; i < TRI_PROGRAMS; i++) out[i] = (tri_classes){0};
    if (kinds >> TRI_TRAIN & 1) r.side[0].out[STEP] = &out[TRI_TRAIN];
    if (kinds >> TRI_INFER & 1) r.side[1].out[STEP] = &out[TRI_INFER];
    if (kinds >> TRI_START & 1) r.side[!train].out[START] = &out[TRI_START]; /* with training: it has the masters */
    if (kinds >> TRI_EXCHANGE & 1) r.side[!train].out[EXCHANGE] = &out[TRI_EXCHANGE];
    return tri__arena_scratch(plan_all, &r);
}

tri_status tri__plan_kinds(tri_arena *arena, const tri_plan_in *in, int train, unsigned kinds, tri_classes *out) {
    return plan_kinds(arena, in, train, kinds, 0, out);
}

tri_status tri__plan_figures(tri_arena *arena, const tri_plan_in *in, unsigned kinds, tri_classes *out) {
    return plan_kinds(arena, in, 1, kinds, 1, out);
}

tri_status tri__plan_ranks(tri_arena *arena, const tri_plan_in *in, int train, tri_classes *out) {
    unsigned all = 1u << TRI_INFER | 1u << TRI_START | 1u << TRI_EXCHANGE | (train ? 1u << TRI_TRAIN : 0);
    return tri__plan_kinds(arena, in, train, all, out);
}
