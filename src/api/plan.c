/* plan.c - the public interface of planning: programs of all ranks, none of which is run. */
#include "api/options.h"
#include "engine/cost/memory_fit.h"
#include "plan/pipeline/stage.h"
#include "program/check.h"
#include "program/text.h"
#include "study/study.h"
#include "trident_mesh.h"

struct tri_plan {
    tri_settings settings;
    tri_study study;
};

static tri_status open_study(tri_plan *plan, int n_options, const char *const *options) {
    TRI_TRY(tri__api_options(&plan->settings, "plan", n_options, options));
    if (!plan->settings.config) return tri__fail(TRI_USAGE, "a plan needs --config");
    return tri__study_open(&plan->settings, NULL, NULL, NULL, &plan->study);
}

tri_status tri_plan_open(int n_options, const char *const *options, tri_plan **out) {
    tri_plan *plan = calloc(1, sizeof *plan);
    *out = NULL;
    if (!plan) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = open_study(plan, n_options, options);
    if (status == TRI_OK) *out = plan;
    else tri_plan_close(plan);
    return tri__done(status);
}

void tri_plan_close(tri_plan *plan) {
    if (!plan) return;
    tri__study_close(&plan->study);
    tri__settings_free(&plan->settings);
    free(plan);
}

int tri_plan_size(const tri_plan *plan) { return plan->study.all.world; }

typedef struct asked {
    const tri_plan *plan;
    int rank;
    tri_program_kind kind;
    tri_rank_facts *facts;
    char **text;
    tri_parameter **parameters;
    int *n;
} asked;

static tri_status check_rank(const asked *a) {
    if (a->rank >= 0 && a->rank < a->plan->study.all.world) return TRI_OK;
    return tri__fail(TRI_USAGE, "rank %d: there are ranks 0 to %d", a->rank, a->plan->study.all.world - 1);
}

static tri_status find_facts(tri_arena *arena, void *data) {
    const asked *a = data;
    const tri_programs *all = &a->plan->study.all;
    int64_t bytes[TRI_MEM_COUNT];
    TRI_TRY(check_rank(a));
    const tri_program *train = tri__classes_program(&all->of[TRI_TRAIN], arena, a->rank);
    *a->facts = (tri_rank_facts){.bytes = tri__room_rank(all, a->rank, bytes), .instructions = train->n_instrs,
                                 .flops = tri__program_cost(train).flops};
    return TRI_OK;
}

tri_status tri_plan_rank(tri_plan *plan, int rank, tri_rank_facts *out) {
    asked a = {.plan = plan, .rank = rank, .facts = out};
    return tri__done(tri__arena_scratch(find_facts, &a));
}

const tri_mesh *tri_plan_mesh(const tri_plan *plan) { return &plan->study.engine.in.mesh; }

static tri_status find_parameters(tri_arena *arena, void *data) {
    const asked *a = data;
    tri_plan_in in = a->plan->study.engine.in;
    tri_rank_plan own;
    tri_stages stages;
    TRI_TRY(check_rank(a));
    in.rank = a->rank;
    TRI_TRY(tri__plan(arena, &in, 1, &own));
    TRI_TRY(tri__stages_plan(arena, &in, &stages));
    const tri_network *held = own.model;
    TRI_TRY(TRI_NEW(*a->parameters, (size_t)held->n_params + 1, "parameters"));
    for (*a->n = 0; *a->n < held->n_params; ++*a->n) {
        const tri_param *p = &held->param[*a->n];
        const tri_unit *unit = &held->unit[p->unit];
        tri_range kept = tri__range_both(own.train.param_part[p->unit], (tri_range){p->at, p->at + p->count});
        tri_parameter *to = *a->parameters + *a->n;
        *to = (tri_parameter){.name = p->name, .unit = unit->name, .dims = p->shape.n,
                              .stage = stages.of_unit[tri__model_find_unit(in.model, unit->name)]};
        if (tri__range_count(kept)) to->begin = kept.begin - p->at, to->end = kept.end - p->at;
        for (int d = 0; d < p->shape.n; d++)
            to->shape[d] = p->shape.dim[d], to->start[d] = p->part.start[d], to->extent[d] = p->part.extent[d];
    }
    return TRI_OK;
}

tri_status tri_plan_parameters(tri_plan *plan, int rank, tri_parameter **parameters, int *n) {
    asked a = {.plan = plan, .rank = rank, .parameters = parameters, .n = n};
    *parameters = NULL, *n = 0;
    return tri__done(tri__arena_scratch(find_parameters, &a));
}

static tri_status print(tri_arena *arena, void *data) {
    const asked *a = data;
    TRI_TRY(check_rank(a));
    if ((unsigned)a->kind >= TRI_PROGRAMS)
        return tri__fail(TRI_USAGE, "kind %d is not a kind of program", (int)a->kind);
    return tri__program_text(tri__classes_program(&a->plan->study.all.of[a->kind], arena, a->rank), a->text);
}

tri_status tri_plan_print(tri_plan *plan, int rank, tri_program_kind kind, char **text) {
    asked a = {.plan = plan, .rank = rank, .kind = kind, .text = text};
    *text = NULL;
    return tri__done(tri__arena_scratch(print, &a));
}

tri_status tri_plan_check(tri_plan *plan) {
    for (int kind = 0; kind < TRI_PROGRAMS; kind++) TRI_TRY(tri__check_all(&plan->study.all.of[kind]));
    return tri__done(TRI_OK);
}

tri_status tri_check(int n, const char *const *paths) {
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    TRI_TRY(tri__study_check(paths, n, &facts));
    return tri__done(TRI_OK);
}
