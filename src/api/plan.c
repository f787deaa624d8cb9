/* plan.c - the public interface of planning: programs of all ranks, none of which is run. */
#include "api/options.h"
#include "engine/cost/memory_fit.h"
#include "program/check.h"
#include "program/text.h"
#include "study/study.h"

#include <stdlib.h>

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
    *a->facts = (tri_rank_facts){.bytes = tri__room_rank(all, a->rank, bytes),
                                 .instructions = train->n_instrs,
                                 .flops = tri__program_cost(train).flops};
    return TRI_OK;
}

tri_status tri_plan_rank(tri_plan *plan, int rank, tri_rank_facts *out) {
    asked a = {.plan = plan, .rank = rank, .facts = out};
    return tri__done(tri__arena_scratch(find_facts, &a));
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
    tri_json *facts;
    TRI_TRY(tri__study_check(paths, n, &facts));
    tri__json_decref(facts);
    return tri__done(TRI_OK);
}
