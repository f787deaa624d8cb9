/* engine.c - from settings and assets to a bound plan. */
#include "engine/engine.h"
#include "program/check.h"
#include "engine/evaluate.h"
#include "engine/inputs.h"
#include "engine/cost/memory_fit.h"
#include "engine/staging.h"
#include "plan/layer_gates.h"
#include "plan/step_kinds.h"
#include "settings/forms.h"

tri_status tri__place_make(const tri_settings *s, tri_world *world, int size, int rank, tri_place *place) {
    *place = (tri_place){.world = world, .rank = world ? tri_world_rank(world) : rank};
    tri_settings over = *s; /* only read */
    over.world_size = world ? tri_world_size(world) : size;
    TRI_TRY(tri__settings_mesh(&over, &place->mesh));
    place->replica = tri__mesh_reader(&place->mesh, place->rank);
    place->batch = tri__settings_global_batch(&over);
    return TRI_OK;
}

/* In the order of the options' choices. */
static const tri_dtype dtypes[] = {TRI_F32, TRI_BF16, TRI_F16, [TRI_PRECISION_FP8] = TRI_BF16},
                       quantized[] = {TRI_F32, TRI_I8, TRI_F8_E4M3};

/* Memory classes, or-ed, of the words in --offload. */
static unsigned offload_of(const tri_settings *s) {
    static const char *const words[] = {TRI_OFFLOAD_WORDS(TRI_NAMED)}; /* by class; NULL: none */
    unsigned classes = 0;
    for (int i = 0; i < s->offload.n; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (words[k] && strcmp(s->offload.at[i], words[k]) == 0) classes |= 1u << k;
    return classes;
}

/* Replicas of one machine. */
static int replicas_here(const tri_settings *s, const tri_place *place) {
    int64_t here = s->nproc_per_node / (place->mesh.pp * place->mesh.tp);
    return (int)(here < 1 ? 1 : here < place->mesh.dp ? here : place->mesh.dp);
}

static tri_sharding sharding_of(const tri_settings *s, const tri_place *place) {
    return (tri_sharding){
        .kind = (tri_shard_kind)s->shard, .size = s->shard_size ? (int)s->shard_size : replicas_here(s, place),
        .bucket_mb = s->bucket_mb, .prefetch = (int)s->prefetch, .reshard = (tri_reshard)s->reshard_after_forward,
        .wrap = (tri_wrap)s->wrap, .wrap_min_params = s->wrap_min_params};
}

/* Steps from one synchronisation to the next. The last copy of an elastic run has none to synchronise with: its steps
 * are plain ones until others join. */
static int64_t sync_every(const tri_settings *s, const tri_place *place) {
    return s->elastic && place->mesh.dp == tri__mesh_cp(&place->mesh) ? 1 : s->sync_every;
}

/* A copy of n has 1/n of the batch: where noise dominates, its gradient is sqrt(n) times as noisy, and an optimizer
 * that divides by the gradient's magnitude goes 1/sqrt(n) as far along the mean. With sqrt(n) times the rate, the mean
 * of the copies has the drift and the noise of steps on the whole batch. SGD does not divide: its mean has them as it
 * is. */
static double inner_factor(const tri_settings *s, const tri_place *place, int64_t every) {
    tri_sharding shards = sharding_of(s, place);
    if (every == 1) return 1;
    if (s->inner_lr_factor > 0) return s->inner_lr_factor;
    if (!(tri__optimizer_takes((tri_optimizer_kind)s->optimizer) & TRI_TAKES_BETAS)) return 1;
    return sqrt((double)place->mesh.dp / (shards.kind == TRI_SHARD_HYBRID ? shards.size : 1));
}

/* Whether there are copies of the model that could take local steps, or one rank, for which it makes no difference. */
static int has_copies(const tri_settings *s, const tri_place *place) {
    tri_sharding how = sharding_of(s, place);
    return how.kind == TRI_SHARD_NONE || place->mesh.dp == 1 ||
           (how.kind == TRI_SHARD_HYBRID && how.size < place->mesh.dp);
}

static tri_optimizing optimizing_of(const tri_settings *s, const tri_place *place) {
    tri_optimizer_kind kind = (tri_optimizer_kind)s->optimizer;
    tri_optimizing how = {
        .kind = kind, .beta1 = tri__optimizer_takes(kind) & TRI_TAKES_MOMENTUM ? s->momentum : s->adam_beta1,
        .beta2 = s->adam_beta2, .eps = s->adam_eps, .weight_decay = s->weight_decay, .nesterov = s->nesterov,
        .steps = place->steps ? place->steps : s->max_steps, .full_steps = s->full_steps,
        .var_freeze_step = s->var_freeze_step, .var_update_scaler = s->var_update_scaler,
        .local_step_scaler = s->local_step_scaler,
        .local_step_clipper = has_copies(s, place) ? s->local_step_clipper : 1, .sync_every = sync_every(s, place),
        .outer_lr = s->outer_lr, .outer_momentum = s->outer_momentum,
        .inner_lr_factor = inner_factor(s, place, sync_every(s, place))};
    tri__step_kinds_resolve(&how, tri__warmup_steps(s, how.steps));
    return how;
}

static tri_layer_drop layer_drop_of(const tri_settings *s, const tri_place *place) {
    tri_layer_drop how = {.steps = place->steps ? place->steps : s->max_steps};
    (void)tri__layer_drop_parse(s->layer_drop, &how.theta, &how.gamma); /* checked when it was given */
    tri__layer_drop_resolve(&how);
    return how;
}

static tri_averaging averaging_of(const tri_settings *s) {
    tri_average_form form;
    (void)tri__average_parse(s->average_weights, &form); /* checked when it was given */
    return form.epochs ? TRI_AVERAGE_LAST : form.decay > 0 ? TRI_AVERAGE_EMA : TRI_AVERAGE_NONE;
}

/* Replicas that each machine has of one layer, side by side on the dp axis; -1: not as many on all. */
static int run_of_replicas(const tri_settings *s, const tri_mesh *mesh) {
    int64_t per_node = s->nproc_per_node;
    int run = 1, world = tri__mesh_world(mesh);
    while (run < mesh->dp && tri__mesh_beside(mesh, 0, TRI_AXIS_DP, run) < per_node) run++;
    for (int rank = 0; rank < world; rank++) {
        int place = tri__mesh_coords(mesh, rank).dp, before = tri__mesh_beside(mesh, rank, TRI_AXIS_DP, place - 1);
        if (place && (before / per_node == rank / per_node) != (place % run != 0)) return -1;
    }
    return mesh->dp % run ? -1 : run;
}

static tri_compression compression_of(const tri_settings *s, const tri_place *place) {
    return (tri_compression){.gradients = (tri_code)s->compress_gradients, /* choices in the order of TRI_CODES */
                             .weights = (tri_code)s->compress_weights,
                             .feedback = s->error_feedback,
                             .within = s->compress_scope == TRI_SCOPE_NODE ? run_of_replicas(s, &place->mesh) : 0};
}

tri_plan_in tri__plan_input(const tri_settings *s, const tri_place *place, const tri_network *model,
                            const tri_target *target, int train) {
    return (tri_plan_in){
        .model = model, .mesh = place->mesh, .rank = place->rank, .n_mb = (int)s->num_microbatches, .fed = place->fed,
        .n_mb_infer = tri__infer_microbatches(s, train), .target = target, .optimizer = optimizing_of(s, place),
        .compression = compression_of(s, place), .max_grad_norm = s->max_grad_norm, .sharding = sharding_of(s, place),
        .recompute = (tri_recompute)s->recompute, .layer_drop = layer_drop_of(s, place), .loss = tri__settings_loss(s),
        .average = train ? averaging_of(s) : TRI_AVERAGE_NONE, .precision = dtypes[s->precision],
        .fp8 = train && s->precision == TRI_PRECISION_FP8, .quantize = quantized[s->quantize],
        .float_layers = s->float_layers, .reduce_dtype = dtypes[s->reduce_dtype], .offload = offload_of(s),
        .replicate = train && s->replicate_state};
}

tri_status tri__tune_model(const tri_settings *s, tri_network *model) {
    tri_recipe recipe = {.layer_decay = s->layer_lr_decay, .head = s->head_lr > 0 ? s->head_lr / s->lr : 1};
    TRI_TRY(tri__freeze_parse(&s->freeze, &recipe.freezes_embeddings, &recipe.frozen_layers));
    return tri__model_tune(model, &recipe);
}

typedef struct planning {
    const tri_engine_spec *spec;
    tri_engine *engine;
} planning;

static int add_program(tri_engine *engine, const tri_program *program) {
    engine->program[engine->n_programs] = program;
    return engine->n_programs++;
}

static tri_status plan_engine(void *data) {
    const tri_engine_spec *p = ((const planning *)data)->spec;
    const tri_settings *s = p->settings;
    tri_engine *engine = ((const planning *)data)->engine;
    /* tri__engine_accept; of a served model: replaced */
    TRI_ASSERT(s->precision <= TRI_PRECISION_FP16 || (p->train && s->precision == TRI_PRECISION_FP8));
    if (p->place->target) engine->device = tri__device_find(s->device);
    else TRI_TRY(tri__device_get(s->device, &engine->device));
    if (engine->device && engine->device->is_stub && !p->train && !s->stub)
        return tri__fail(TRI_USAGE, "--device %s computes nothing, so there are no predictions: take --device cpu",
                         s->device);
    engine->threads = tri__threads(s), engine->workers = tri__workers(s);
    engine->guard = s->guard;
    if (p->place->target) engine->target = *p->place->target;
    else TRI_TRY(tri__device_target(engine->device, &engine->target));
    tri__model_make(&engine->arena, &s->model, p->assets->encoder, p->columns, s->no_decay, &engine->model);
    engine->model.shows_attention = s->shows_attention;
    if (p->train) TRI_TRY(tri__tune_model(s, &engine->model));
    TRI_TRY(tri__model_split(&engine->model, &s->tp_plan));

    tri_reals own = s->model.task == TRI_TASK_QUANTILES ? tri__model_levels(&s->model) : s->model.class_weights;
    engine->class_weights = tri__arena_alloc(&engine->arena,
                                             (size_t)engine->model.n_classes * sizeof *engine->class_weights);
    for (int c = 0; c < engine->model.n_classes; c++) engine->class_weights[c] = own.n ? (float)own.at[c] : 1;

    int64_t layers = tri__model_layers(&engine->model);
    engine->layer_scale = tri__arena_alloc(&engine->arena, (size_t)layers * sizeof *engine->layer_scale);
    for (int64_t i = 0; i < layers; i++) engine->layer_scale[i] = 1;

    engine->in = tri__plan_input(s, p->place, &engine->model, &engine->target, p->train);
    engine->in.max = *p->max, engine->in.max_infer = *p->max_infer;
    TRI_TRY(tri__staging_resolve(s, &engine->arena, p->place->world, &engine->in, &engine->context_form));
    TRI_TRY(tri__plan(&engine->arena, &engine->in, p->train, &engine->plan));
    if (p->train) engine->train = add_program(engine, engine->plan.train.program);
    engine->infer = add_program(engine, engine->plan.infer.program);
    engine->start = add_program(engine, engine->plan.start);
    engine->exchange = add_program(engine, engine->plan.exchange);
    return TRI_OK;
}

tri_status tri__engine_plan(const tri_engine_spec *spec, tri_engine *engine) {
    memset(engine, 0, sizeof *engine); /* no copy on the stack: it is large */
    engine->place = *spec->place, engine->train = -1;
    engine->seed = (uint32_t)spec->settings->seed, engine->n_mb = (int)spec->settings->num_microbatches;
    TRI_TRY(tri__arena_open(&engine->arena, TRI_PLAN_ARENA));
    return tri__arena_guard(plan_engine, &(planning){spec, engine});
}

tri_status tri__engine_try(const tri_settings *s, const tri_place *place, const tri_assets *assets) {
    TRI_OWNED(tri__engine_drop) tri_engine *engine = calloc(1, sizeof *engine); /* large */
    tri_place alone = *place;
    int64_t length = s->model.max_sen_len;
    tri_counts max = tri__counts_of(&assets->readers, assets->n_texts, 1, length, s->model.windows > 1);
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) max.squares[sym] = (double)max.of[sym] * (double)length;
    alone.world = NULL;
    tri_columns columns = {.n = s->model.tab_field_list.n};
    if (!engine) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__engine_plan(&(tri_engine_spec){.settings = s, .place = &alone, .assets = assets, .columns = columns,
                                               .train = 1, .max = &max, .max_infer = &max}, engine);
}

/* All ranks' programs fit together, and the one that this rank runs is among them. */
static tri_status check_all(tri_engine *engine, const tri_classes *all, const tri_program *own) {
    TRI_TRY(tri__check_all(all));
    if (tri__program_equal(tri__classes_program(all, &engine->arena, engine->place.rank), own)) return TRI_OK;
    return tri__fail(TRI_INTERNAL, "rank %d runs another program than the one that was checked: a bug in Trident",
                     engine->place.rank);
}

typedef struct planning_all {
    tri_engine *engine;
    tri_programs *all;
} planning_all;

static tri_status plan_all(void *data) {
    tri_engine *engine = ((planning_all *)data)->engine;
    tri_programs *all = ((planning_all *)data)->all;
    const tri_rank_plan *plan = &engine->plan;
    const tri_program *own[TRI_PROGRAMS] = {plan->train.program, plan->infer.program, plan->start, plan->exchange};
    *all = (tri_programs){.world = tri__mesh_world(&engine->place.mesh)};
    if (all->world > 1) TRI_TRY(tri__plan_ranks(&engine->arena, &engine->in, engine->train >= 0, all->of));
    for (int i = 0; i < TRI_PROGRAMS; i++) {
        if (!own[i]) continue;
        if (all->world == 1) TRI_TRY(tri__classes_list(&all->of[i], &engine->arena, &own[i], 1));
        TRI_TRY(check_all(engine, &all->of[i], own[i]));
    }
    return TRI_OK;
}

tri_status tri__engine_plan_all(tri_engine *engine, tri_programs *all) {
    planning_all p = {engine, all};
    return tri__arena_guard(plan_all, &p);
}

tri_status tri__engine_bind(tri_engine *engine, const char *folder) {
    char need_text[32], have_text[32];
    int64_t bytes[TRI_MEM_COUNT], need = tri__room_need(engine->program, engine->n_programs, bytes), have;
    TRI_TRY(engine->device->room(&tri__core, engine->place.world ? engine->place.world->local : 0, &have));
    if (need > have)
        return tri__fail(TRI_RESOURCE, "the plan needs %s, %s is free: take a smaller --batch-size, more "
                         "--num-microbatches, or a shorter --max-sen-len", tri__text_bytes((double)need, need_text),
                         tri__text_bytes((double)have, have_text));
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = engine->device, .program = engine->program,
                                            .n = engine->n_programs, .threads = engine->threads, .seed = engine->seed,
                                            .guard = engine->guard, .world = engine->place.world, .folder = folder},
                           &engine->exec));
    return tri__engine_pieces(engine);
}

void tri__engine_drop(tri_engine **at) {
    if (*at) tri__engine_close(*at);
    free(*at);
}

void tri__engine_close(tri_engine *engine) {
    tri__exec_close(engine->exec);
    tri__arena_close(&engine->arena);
    *engine = (tri_engine){0};
}
