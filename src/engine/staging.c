/* staging.c - from options to stages. Planning is cheap, so shapes and numbers of microbatches are compared by planning
 * and simulating a step. The stages are always those of tri__stages_plan for the actual mesh: their costs, and so their
 * cuts, depend on tp. */
#include "engine/staging.h"

const char *tri__shape_name(tri_shape_kind shape) { return shape == TRI_SHAPE_BRANCH ? "branch" : "chain"; }

static tri_status read_times(const tri_json *units, const char *path, const tri_network *model, tri_stage_time *time) {
    for (int u = 0; u < model->n_units; u++) {
        const tri_json *row = tri__json_get(units, model->unit[u].name);
        const char *const keys[] = {"forward", "input", "weight"};
        double *const fields[] = {&time[u].forward, &time[u].input, &time[u].weight};
        for (int k = 0; k < 3; k++) {
            const tri_json *value = tri__json_get(row, keys[k]);
            if (!tri__json_is_number(value) || tri__json_number_value(value) < 0)
                return tri__fail(TRI_DATA, "%s: has no %s seconds of %s: it is of another model, or not a stage "
                                 "profile", path, keys[k], model->unit[u].name);
            *fields[k] = tri__json_number_value(value);
        }
    }
    return TRI_OK;
}

/* Seconds of each unit, as an earlier run measured them. */
static tri_status read_profile(const char *path, tri_arena *arena, const tri_network *model,
                               const tri_stage_time **out) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    tri_stage_time *time = tri__arena_alloc(arena, (size_t)model->n_units * sizeof *time);
    TRI_TRY(tri__json_load(path, TRI_DATA, &root));
    TRI_TRY(read_times(tri__json_get(root, "units"), path, model, time));
    *out = time;
    return TRI_OK;
}

tri_costs tri__staging_costs(tri_arena *arena, const tri_plan_in *in, const tri_hardware *hardware) {
    const tri_stage_time *time = in->staging.time;
    tri_costs costs = {.hardware = hardware};
    if (!time) return costs;
    tri_unit_seconds *units = tri__arena_alloc(arena, (size_t)in->model->n_units * sizeof *units);
    for (int u = 0; u < in->model->n_units; u++)
        units[u] = (tri_unit_seconds){in->model->unit[u].name, time[u].forward, time[u].input, time[u].weight};
    costs.measured = units, costs.n_measured = in->model->n_units;
    return costs;
}

tri_status tri__staging_hardware(const tri_settings *s, tri_arena *arena, tri_hardware *out) {
    const char *otherwise = s->calibrated ? s->calibrated : tri__hardware_of(s->device);
    TRI_TRY(tri__hardware_open(arena, s->hardware ? s->hardware : otherwise, out));
    if (tri__settings_given(s, &s->nproc_per_node)) out->ranks_per_node = (int)s->nproc_per_node;
    return TRI_OK;
}

tri_status tri__staging_time(tri_arena *arena, const tri_plan_in *in, const tri_classes *train,
                             const tri_hardware *hardware, tri_staged *out) {
    tri_timeline timeline;
    tri_classes planned[TRI_PROGRAMS];
    if (!train) {
        TRI_TRY(tri__plan_ranks(arena, in, 1, planned));
        train = &planned[TRI_TRAIN];
    }
    tri_costs costs = tri__staging_costs(arena, in, hardware);
    TRI_TRY(tri__timeline(arena, train, &costs, &timeline));
    out->seconds = timeline.mean, out->bubble = tri__timeline_idle(&timeline);
    return TRI_OK;
}

typedef struct staging_job {
    const tri_settings *settings;
    const tri_plan_in *in;
    const tri_classes *train; /* the programs of `in`; NULL: not planned yet */
    const tri_log *log;
    tri_staged staged;
    int known; /* 1: staged is set already */
} staging_job;

tri_texts tri__stage_texts(tri_arena *arena, const tri_network *model, const tri_stages *stages) {
    tri_texts texts = {.n = stages->pipeline.n_stages};
    texts.at = tri__arena_alloc(arena, (size_t)texts.n * sizeof *texts.at);
    for (int i = 0; i < texts.n; i++) texts.at[i] = tri__stage_text(arena, model, stages, i);
    return texts;
}

/* The same cut in the form of --stages: a list of units for each stage of a chain, for each rank of branches. */
static tri_texts given_stages(tri_arena *arena, const tri_network *model, const tri_stages *stages) {
    tri_texts texts = tri__stage_texts(arena, model, stages), by_rank = tri__stage_texts(arena, model, stages);
    for (int i = 0; i < texts.n && stages->branches; i++) by_rank.at[stages->pipeline.rank[i]] = texts.at[i];
    return by_rank;
}

static tri_status time_job(tri_arena *scratch, staging_job *job, const tri_plan_in *in) {
    tri_hardware hardware;
    TRI_TRY(tri__staging_hardware(job->settings, scratch, &hardware));
    return tri__staging_time(scratch, in, job->train, &hardware, &job->staged);
}

/* The planner's estimate: the step of one pipeline with the plan's stages, each on one rank. Shapes differ only in
 * this, not in the transfers of tensor and data parallelism, and it needs far fewer programs than the plan. */
static tri_status estimate(tri_arena *scratch, void *data) {
    staging_job *job = data;
    tri_plan_in in = *job->in;
    tri_stages stages;
    TRI_TRY(tri__stages_plan(scratch, &in, &stages));
    in.staging.stages = given_stages(scratch, in.model, &stages);
    in.mesh.tp = in.mesh.dp = 1, in.mesh.cp = in.mesh.ep = 0, in.sharding = (tri_sharding){0},
    in.optimizer.sync_every = 1;
    return time_job(scratch, job, &in);
}

static tri_status seconds_of(const tri_settings *s, const tri_plan_in *like, tri_shape_kind shape, double *seconds) {
    tri_plan_in in = *like;
    staging_job job = {.settings = s, .in = &in};
    in.staging.shape = shape;
    TRI_TRY(tri__arena_scratch(estimate, &job));
    *seconds = job.staged.seconds;
    return TRI_OK;
}

/* A shape that cannot be planned is not chosen; where neither can, the chain's error is reported. */
static tri_status faster(const tri_settings *s, const tri_plan_in *in, tri_shape_kind *shape) {
    double chain = 0, branch = 0;
    tri_status side_by_side = seconds_of(s, in, TRI_SHAPE_BRANCH, &branch),
               in_a_row = seconds_of(s, in, TRI_SHAPE_CHAIN, &chain);
    *shape = side_by_side == TRI_OK && (in_a_row != TRI_OK || branch < chain) ? TRI_SHAPE_BRANCH : TRI_SHAPE_CHAIN;
    return side_by_side == TRI_OK ? TRI_OK : in_a_row;
}

/* Whether the shape is to be chosen: not with one encoder, nor with a schedule that needs a chain. */
static int is_open(const tri_settings *s, const tri_plan_in *in) {
    return s->pipeline_shape == TRI_SHAPE_ASKED_AUTO && in->mesh.pp > 1 && in->model->n_encoders > 1 &&
           !tri__schedule_row(in->staging.schedule)->chain;
}

static tri_status choose_shape(const tri_settings *s, tri_world *world, tri_plan_in *in) {
    in->staging.shape = s->pipeline_shape == TRI_SHAPE_ASKED_BRANCH ? TRI_SHAPE_BRANCH : TRI_SHAPE_CHAIN;
    if (!is_open(s, in)) return TRI_OK;
    if (!world || tri_world_rank(world) == 0) TRI_TRY(faster(s, in, &in->staging.shape));
    int32_t shape = in->staging.shape;
    if (world) TRI_TRY(tri_broadcast(tri_group_world(world), &shape, 1, TRI_I32, 0));
    in->staging.shape = (tri_shape_kind)shape;
    return TRI_OK;
}

/* The first rank's form, also where others ask for another: that they do is found when ranks compare their options. */
static tri_status choose_form(const tri_settings *s, tri_world *world, tri_plan_in *in, tri_context_form *form) {
    *form = (tri_context_form){0};
    if (in->mesh.cp < 2) return TRI_OK;
    if (!world || tri_world_rank(world) == 0) TRI_TRY(tri__context_choose(s, in, form));
    int32_t ring = form->ring;
    if (world) TRI_TRY(tri_broadcast(tri_group_world(world), &ring, 1, TRI_I32, 0));
    in->ring = ring;
    return TRI_OK;
}

tri_status tri__staging_resolve(const tri_settings *s, tri_arena *arena, tri_world *world, tri_plan_in *in,
                                tri_context_form *form) {
    int mixes = tri__model_expert_layers(in->model) > 0; /* each rank routes all tokens */
    in->sequence_parallel = in->mesh.tp > 1 && s->sequence_parallel != TRI_ASKED_NO &&
                            (!mixes || s->sequence_parallel == TRI_ASKED_YES);
    TRI_TRY(choose_form(s, world, in, form));
    in->staging = (tri_staging){
        .schedule = (tri_schedule_kind)s->schedule, .chunks = (int)s->virtual_stages, .stages = s->stages};
    if (s->stage_profile) TRI_TRY(read_profile(s->stage_profile, arena, in->model, &in->staging.time));
    return choose_shape(s, world, in);
}

/* The number at the end of "primary.layer.12", and the length before it; -1: not a layer. */
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

char *tri__stage_text(tri_arena *arena, const tri_network *model, const tri_stages *stages, int stage) {
    char *text = tri__arena_copy(arena, "");
    for (int u = 0, last; u < model->n_units; u = last + 1) {
        last = u;
        if (stages->of_unit[u] != stage) continue;
        while (last + 1 < model->n_units && stages->of_unit[last + 1] == stage &&
               follows(model->unit[last].name, model->unit[last + 1].name))
            last++;
        size_t length;
        text = tri__arena_print(arena, "%s%s%s", text, *text ? " " : "", model->unit[u].name);
        if (last > u) text = tri__arena_print(arena, "%s-%d", text, layer_of(model->unit[last].name, &length));
    }
    return text;
}

const char *tri__stage_ranks(tri_arena *arena, const tri_mesh *mesh, const tri_stages *stages, int stage) {
    enum { SHOWN = 16 }; /* runs of ranks; with more, these and the last */
    int place = stages->pipeline.rank[stage], runs = 0;
    char run[32] = "";
    const char *text = "";
    for (int rank = 0, world = tri__mesh_world(mesh); rank < world; rank++) {
        int last = rank;
        if (tri__mesh_coords(mesh, rank).pp != place) continue;
        while (last + 1 < world && tri__mesh_coords(mesh, last + 1).pp == place) last++;
        snprintf(run, sizeof run, last > rank ? "%d-%d" : "%d", rank, last);
        if (runs++ < SHOWN) text = tri__arena_print(arena, "%s%s%s", text, *text ? "," : "", run);
        rank = last;
    }
    return runs > SHOWN ? tri__arena_print(arena, "%s,...,%s", text, run) : text;
}

static tri_status simulate(tri_arena *scratch, void *data) {
    staging_job *job = data;
    return time_job(scratch, job, job->in);
}

/* Few microbatches: how much smaller the bubble is with more of them. Each answer plans and simulates all ranks anew,
 * which is worth it on small meshes only. */
static tri_status say_more(const staging_job *job, double bubble) {
    const tri_plan_in *in = job->in;
    enum { MOST_COMPARED = 256 }; /* ranks */
    int twice = 2 * in->mesh.pp;
    double better[2];
    if (in->n_mb >= twice || bubble < 0.005) return TRI_OK; /* nothing to win */
    if (tri__mesh_world(&in->mesh) > MOST_COMPARED) {
        tri__say(job->log, TRI_LOG_INFO, "%d microbatch%s in a pipeline of %d: predicted bubble %.0f %%; try "
                 "--num-microbatches %d", in->n_mb, in->n_mb == 1 ? "" : "es", in->mesh.pp, 100 * bubble, twice);
        return TRI_OK;
    }
    for (int i = 0; i < 2; i++) {
        tri_plan_in more = *in;
        staging_job other = {.settings = job->settings, .in = &more};
        more.n_mb = twice << i;
        TRI_TRY(tri__arena_scratch(simulate, &other));
        better[i] = other.staged.bubble;
    }
    tri__say(job->log, bubble - better[1] > 0.02 ? TRI_LOG_WARN : TRI_LOG_INFO, "%d microbatch%s in a pipeline of %d: "
             "predicted bubble %.0f %%; with --num-microbatches %d %.0f %%, with %d %.0f %%", in->n_mb,
             in->n_mb == 1 ? "" : "es", in->mesh.pp, 100 * bubble, twice, 100 * better[0], 2 * twice, 100 * better[1]);
    return TRI_OK;
}

static tri_status say_stages(tri_arena *arena, void *data) {
    staging_job *job = data;
    const tri_settings *s = job->settings;
    const tri_plan_in *in = job->in;
    const tri_log *log = job->log;
    tri_stages stages;
    TRI_TRY(tri__stages_plan(arena, in, &stages));
    if (!job->known) TRI_TRY(time_job(arena, job, in));
    const tri_pipeline *p = &stages.pipeline;
    tri__say(
        log, TRI_LOG_INFO, "pipeline of %d ranks: %s shape%s, schedule %s, %d microbatch%s; predicted bubble %.0f %%",
        p->n_ranks, tri__shape_name(in->staging.shape), is_open(s, in) ? " (the faster one)" : "",
        tri__schedule_row(in->staging.schedule)->name, p->n_mb, p->n_mb == 1 ? "" : "es", 100 * job->staged.bubble);
    for (int stage = 0; stage < p->n_stages; stage++) {
        const char *ranks = tri__stage_ranks(arena, &in->mesh, &stages, stage);
        tri__say(log, TRI_LOG_INFO, "stage %d on rank%s %s: %s", stage, strpbrk(ranks, "-,") ? "s" : "", ranks,
                 tri__stage_text(arena, in->model, &stages, stage));
    }
    return say_more(job, job->staged.bubble);
}

tri_status tri__staging_say(const tri_settings *s, const tri_plan_in *in, const tri_classes *train,
                            const tri_staged *known, const tri_log *log) {
    staging_job job = {.settings = s, .in = in, .train = train, .log = log, .known = known != NULL};
    if (known) job.staged = *known;
    if (in->mesh.pp == 1 || !tri__log_heard(log)) return TRI_OK; /* without a log there is no need to simulate */
    return tri__arena_scratch(say_stages, &job);
}
