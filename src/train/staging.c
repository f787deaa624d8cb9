/* staging.c - options become stages. The shape is chosen by running both orders dry: planning is cheap, and all ranks come to the same. */
#include "train/staging.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

enum { SCRATCH = 1 << 30 }; /* bytes reserved for plans that only serve to choose */

const char *tri__shape_name(tri_shape_kind shape) { return shape == TRI_SHAPE_BRANCH ? "branch" : "chain"; }

static tri_status read_times(const json_t *units, const char *path, const tri_model *model, tri_stage_time *time) {
    for (int u = 0; u < model->n_units; u++) {
        const json_t *row = json_object_get(units, model->unit[u].name);
        const char *const keys[] = {"forward", "input", "weight"};
        double *const fields[] = {&time[u].forward, &time[u].input, &time[u].weight};
        for (int k = 0; k < 3; k++) {
            const json_t *value = json_object_get(row, keys[k]);
            if (!json_is_number(value) || json_number_value(value) < 0)
                return tri__fail(TRI_DATA, "%s: has no %s seconds of %s: it is of another model, or no stage profile", path, keys[k],
                                 model->unit[u].name);
            *fields[k] = json_number_value(value);
        }
    }
    return TRI_OK;
}

/* Seconds of each unit, as an earlier run measured them. */
static tri_status read_profile(const char *path, tri_arena *arena, const tri_model *model, const tri_stage_time **out) {
    json_t *root;
    tri_stage_time *time = tri__arena_alloc(arena, (size_t)model->n_units * sizeof *time);
    TRI_TRY(tri__json_load(path, TRI_DATA, &root));
    tri_status status = read_times(json_object_get(root, "units"), path, model, time);
    json_decref(root);
    *out = time;
    return status;
}

tri_status tri__staging_dry(tri_arena *arena, const tri_plan_in *in, tri_staged *out) {
    TRI_TRY(tri__stages_plan(arena, in, &out->stages));
    const tri_actions *orders = tri__stages_orders(arena, in, &out->stages);
    TRI_TRY(tri__schedule_dry(arena, &out->stages.pipeline, orders, out->stages.time, 0, &out->dry));
    out->bubble = tri__dry_bubble(&out->stages.pipeline, &out->dry);
    return TRI_OK;
}

static tri_status span_of(tri_arena *arena, const tri_plan_in *like, tri_shape_kind shape, double *span) {
    tri_plan_in in = *like;
    tri_staged staged;
    in.staging.shape = shape;
    TRI_TRY(tri__staging_dry(arena, &in, &staged));
    *span = staged.dry.span;
    return TRI_OK;
}

/* A shape that cannot be planned is no choice; where neither can, the chain's reason is given. */
static tri_status faster(tri_arena *arena, tri_plan_in *in) {
    double chain, branch;
    tri_status side_by_side = span_of(arena, in, TRI_SHAPE_BRANCH, &branch);
    tri_status in_a_row = span_of(arena, in, TRI_SHAPE_CHAIN, &chain);
    if (side_by_side != TRI_OK) return in_a_row;
    if (in_a_row != TRI_OK || branch < chain) in->staging.shape = TRI_SHAPE_BRANCH;
    return TRI_OK;
}

static tri_status choose_shape(const tri_settings *s, tri_plan_in *in) {
    tri_arena scratch;
    in->staging.shape = s->pipeline_shape == TRI_SHAPE_ASKED_BRANCH ? TRI_SHAPE_BRANCH : TRI_SHAPE_CHAIN;
    if (s->pipeline_shape != TRI_SHAPE_ASKED_AUTO || in->mesh.pp == 1 || in->model->n_texts == 1) return TRI_OK;
    if (tri__schedule_row(in->staging.schedule)->chain) return TRI_OK;
    TRI_TRY(tri__arena_open(&scratch, SCRATCH));
    tri_status status = faster(&scratch, in);
    tri__arena_close(&scratch);
    return status;
}

tri_status tri__staging_settle(const tri_settings *s, tri_arena *arena, tri_plan_in *in) {
    in->sequence_parallel = in->mesh.tp > 1 && s->sequence_parallel != TRI_ASKED_NO;
    in->staging = (tri_staging){.schedule = (tri_schedule_kind)s->schedule, .chunks = (int)s->virtual_stages, .stages = s->stages};
    if (s->stage_profile) TRI_TRY(read_profile(s->stage_profile, arena, in->model, &in->staging.time));
    return choose_shape(s, in);
}

/* The number that ends "primary.layer.12", and the length of what is before it; -1: no layer. */
static int layer_of(const char *unit, size_t *length) {
    const char *dot = strrchr(unit, '.');
    int layer = -1, end = 0;
    if (!dot || sscanf(dot + 1, "%d%n", &layer, &end) != 1 || dot[1 + end]) return -1;
    *length = (size_t)(dot + 1 - unit);
    return layer;
}

/* Whether unit b is the layer after unit a. */
static int follows(const char *a, const char *b) {
    size_t m = 0, n = 0;
    int first = layer_of(a, &m), second = layer_of(b, &n);
    return first >= 0 && second == first + 1 && m == n && memcmp(a, b, n) == 0;
}

char *tri__stage_text(tri_arena *arena, const tri_model *model, const tri_stages *stages, int stage) {
    char *text = tri__arena_copy(arena, "");
    for (int u = 0, last; u < model->n_units; u = last + 1) {
        last = u;
        if (stages->of_unit[u] != stage) continue;
        while (last + 1 < model->n_units && stages->of_unit[last + 1] == stage && follows(model->unit[last].name, model->unit[last + 1].name))
            last++;
        size_t length;
        text = tri__arena_print(arena, "%s%s%s", text, *text ? " " : "", model->unit[u].name);
        if (last > u) text = tri__arena_print(arena, "%s-%d", text, layer_of(model->unit[last].name, &length));
    }
    return text;
}

static tri_status bubble_with(tri_arena *arena, const tri_plan_in *like, int n_mb, double *bubble) {
    tri_plan_in in = *like;
    tri_staged staged;
    in.n_mb = n_mb;
    TRI_TRY(tri__staging_dry(arena, &in, &staged));
    *bubble = staged.bubble;
    return TRI_OK;
}

static tri_status say_bubble(tri_arena *arena, const tri_plan_in *in, double bubble, const tri_log *log) {
    int twice = 2 * in->mesh.pp;
    double better[2];
    if (in->n_mb >= twice) return TRI_OK;
    for (int i = 0; i < 2; i++) TRI_TRY(bubble_with(arena, in, twice << i, &better[i]));
    tri__say(log, TRI_LOG_WARN,
             "%d microbatch%s in a pipeline of %d: ranks wait %.0f %% of the step; with --num-microbatches %d %.0f %%, with %d %.0f %%",
             in->n_mb, in->n_mb == 1 ? "" : "es", in->mesh.pp, 100 * bubble, twice, 100 * better[0], 2 * twice, 100 * better[1]);
    return TRI_OK;
}

static tri_status say_stages(const tri_settings *s, tri_arena *arena, const tri_plan_in *in, const tri_log *log) {
    tri_staged staged;
    TRI_TRY(tri__staging_dry(arena, in, &staged));
    const tri_pipeline *p = &staged.stages.pipeline;
    tri__say(log, TRI_LOG_INFO, "pipeline of %d ranks: %s shape%s, schedule %s, %d microbatch%s; %.0f %% of the step is waiting, by the plan",
             p->n_ranks, tri__shape_name(in->staging.shape), s->pipeline_shape == TRI_SHAPE_ASKED_AUTO ? " (the faster one)" : "",
             tri__schedule_row(in->staging.schedule)->name, p->n_mb, p->n_mb == 1 ? "" : "es", 100 * staged.bubble);
    for (int stage = 0; stage < p->n_stages; stage++)
        tri__say(log, TRI_LOG_INFO, "stage %d, place %d: %s", stage, p->rank[stage], tri__stage_text(arena, in->model, &staged.stages, stage));
    return say_bubble(arena, in, staged.bubble, log);
}

tri_status tri__staging_say(const tri_settings *s, const tri_plan_in *in, const tri_log *log) {
    tri_arena scratch;
    if (in->mesh.pp == 1) return TRI_OK;
    TRI_TRY(tri__arena_open(&scratch, SCRATCH));
    tri_status status = say_stages(s, &scratch, in, log);
    tri__arena_close(&scratch);
    return status;
}
