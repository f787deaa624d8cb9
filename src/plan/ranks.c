/* ranks.c - the programs of all ranks of a mesh.
 *
 * Passes up to `schedule` know nothing of replicas: ranks that differ in their place on dp alone have them in common. What follows is
 * planned for each rank, in memory that the next one uses again; of the programs that come out, what is equal is kept once. */
#include "plan/stage.h"

#include <string.h>

typedef struct ranks {
    tri_arena *keep, scratch;
    tri_plan_in in;
    tri_stages stages;
    tri_pass shared[2];            /* of training, of prediction: after `schedule` */
    const tri_program *last[2];    /* the programs kept last */
    tri_places places[2];
} ranks;

static int same_units(const tri_program *a, const tri_program *b) {
    if (a->n_units != b->n_units) return 0;
    for (int i = 0; i < a->n_units; i++)
        if (strcmp(a->unit[i], b->unit[i]) != 0) return 0;
    return 1;
}

static const char **keep_units(tri_arena *arena, const tri_program *made) {
    const char **unit = tri__arena_alloc(arena, (size_t)made->n_units * sizeof *unit);
    for (int i = 0; i < made->n_units; i++) unit[i] = tri__arena_copy(arena, made->unit[i]);
    return unit;
}

/* A copy of an array, or the array that it is equal to. */
static void *keep_array(tri_arena *arena, void *made, int n, void *like, int n_like, size_t element) {
    size_t bytes = (size_t)n * element;
    if (n == n_like && (!n || memcmp(made, like, bytes) == 0)) return like;
    return memcpy(tri__arena_alloc(arena, bytes), made, bytes);
}

/* A program out of the scratch arena; `like`: one that was kept before, of which it may share parts. */
static tri_program *keep_program(tri_arena *arena, tri_program *made, const tri_program *like) {
    tri_program *kept = tri__arena_alloc(arena, sizeof *kept), none = {.title = ""};
    *kept = *made;
    if (!like) like = &none;
    kept->title = strcmp(like->title, made->title) == 0 ? like->title : tri__arena_copy(arena, made->title);
    kept->unit = same_units(made, like) ? like->unit : keep_units(arena, made);
    for (int s = 0; s < made->n_slots; s++) {
        const char **name = &made->slot[s].name, *known = s < like->n_slots ? like->slot[s].name : "";
        *name = strcmp(known, *name) == 0 ? known : tri__arena_copy(arena, *name);
    }
    kept->lane = keep_array(arena, made->lane, made->n_units, like->lane, like->n_units, sizeof *made->lane);
    kept->slot = keep_array(arena, made->slot, made->n_slots, like->slot, like->n_slots, sizeof *made->slot);
    kept->instr = keep_array(arena, made->instr, made->n_instrs, like->instr, like->n_instrs, sizeof *made->instr);
    kept->cap_units = kept->cap_lanes = kept->n_units, kept->cap_slots = kept->n_slots, kept->cap_instrs = kept->n_instrs;
    return kept;
}

static int *copy_units(tri_pass *pass, const int *from) {
    size_t bytes = (size_t)pass->model->n_units * sizeof *from;
    return from ? memcpy(tri__arena_alloc(pass->arena, bytes), from, bytes) : NULL;
}

/* The passes that begin where replicas differ, for the rank of r->in. */
static tri_status plan_own(ranks *r, int training, const tri_program **out) {
    tri_pass pass = r->shared[!training];
    tri_program *program = tri__arena_alloc(&r->scratch, sizeof *program);
    *program = *pass.program;
    program->rank = r->in.rank;
    pass.program = pass.out.program = program;
    pass.out.param = copy_units(&pass, pass.out.param);
    pass.unit_grad = copy_units(&pass, pass.unit_grad);
    TRI_TRY(tri__passes_own(&pass, training));
    *out = r->last[!training] = keep_program(r->keep, pass.out.program, r->last[!training]);
    return TRI_OK;
}

static tri_status plan_shared(ranks *r, int training) {
    tri_pass *pass = &r->shared[!training];
    *pass = (tri_pass){.arena = &r->scratch, .in = &r->in, .model = r->in.model, .stages = &r->stages};
    r->places[!training] = (tri_places){.arena = r->keep};
    pass->places = &r->places[!training];
    return tri__passes_shared(pass, training);
}

/* All replicas of one place on the other axes. */
static tri_status plan_place(ranks *r, tri_coords at, const tri_program **train, const tri_program **infer) {
    r->in.rank = tri__mesh_rank(&r->in.mesh, at);
    if (train) TRI_TRY(plan_shared(r, 1));
    TRI_TRY(plan_shared(r, 0));
    size_t mark = r->scratch.used;
    for (at.dp = 0; at.dp < r->in.mesh.dp; at.dp++) {
        int rank = r->in.rank = tri__mesh_rank(&r->in.mesh, at);
        if (train) TRI_TRY(plan_own(r, 1, &train[rank]));
        TRI_TRY(plan_own(r, 0, &infer[rank]));
        tri__arena_rewind(&r->scratch, mark);
    }
    return TRI_OK;
}

static tri_status plan_all(ranks *r, const tri_plan_in *in, const tri_program **train, const tri_program **infer) {
    TRI_TRY(tri__plan_settle(&r->scratch, in, &r->in, &r->stages));
    size_t mark = r->scratch.used;
    tri_coords at = {{0}};
    for (at.pp = 0; at.pp < in->mesh.pp; at.pp++)
        for (at.tp = 0; at.tp < in->mesh.tp; at.tp++) {
            TRI_TRY(plan_place(r, at, train, infer));
            tri__arena_rewind(&r->scratch, mark);
        }
    return TRI_OK;
}

tri_status tri__plan_programs(tri_arena *arena, const tri_plan_in *in, const tri_program **train, const tri_program **infer) {
    ranks r = {.keep = arena};
    TRI_TRY(tri__arena_open(&r.scratch, TRI_PLAN_ARENA));
    tri_status status = plan_all(&r, in, train, infer);
    tri__arena_close(&r.scratch);
    return status;
}
